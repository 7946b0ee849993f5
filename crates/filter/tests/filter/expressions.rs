//! Expressions and lists of CloudEvents filters by chance, with what they mean.

use mailrail_types::FilterLanguage;
use serde_json::Value;

use crate::generate::Dice;
use crate::second::{Event, text_of};

/// Something of the event.
#[derive(Clone)]
pub(crate) enum Side {
    Attribute(&'static str),
    Data(Vec<&'static str>),
}

#[derive(Clone)]
pub(crate) enum Literal {
    Text(&'static str),
    Integer(i32),
    Boolean(bool),
}

/// A tree, of expressions and of CloudEvents filters.
pub(crate) enum Tree {
    Compare(Side, &'static str, Literal, bool),
    Like(Side, &'static str, bool),
    In(Side, Vec<Literal>, bool),
    Exists(Side),
    LowerIs(Side, &'static str),
    Truth(Side),
    Not(Box<Tree>),
    Join(Box<Tree>, &'static str, Box<Tree>),
}

const NAMES: &[&str] = &["type", "source", "subject", "flag", "count", "region"];
const KEYS: &[&str] = &["a", "b", "c", "é"];
const TEXTS: &[&str] =
    &["", "a", "A", "ab", "abab", "1", "+1", "01", "-0", "true", "TRUE", "10", "é", "x\\y\n"];
const LIKES: &[&str] = &["a%", "%b", "%a%", "ab", "a_", "_", "%", "", "1%", "t%e", "%bca%", "é"];
const INTEGERS: &[i32] = &[0, 1, 2, 10, -2];

fn choose<T: Clone>(dice: &mut Dice, from: &[T]) -> T {
    from[dice.roll(from.len())].clone()
}

fn side(dice: &mut Dice) -> Side {
    if dice.one_in(2) {
        return Side::Attribute(choose(dice, NAMES));
    }
    let length = 1 + dice.roll(2);
    Side::Data((0..length).map(|_| choose(dice, KEYS)).collect())
}

fn literal(dice: &mut Dice) -> Literal {
    match dice.roll(6) {
        0 => Literal::Boolean(dice.one_in(2)),
        1 | 2 => Literal::Integer(choose(dice, INTEGERS)),
        _ => Literal::Text(choose(dice, TEXTS)),
    }
}

/// Two comparisons below one key: in a list of objects, two elements may satisfy them.
fn siblings(dice: &mut Dice) -> Tree {
    let above = choose(dice, &["a", "b"]);
    let below = |dice: &mut Dice| {
        let literal = choose(dice, &[Literal::Integer(1), Literal::Integer(2), Literal::Text("a")]);
        let key = choose(dice, &["a", "b", "c"]);
        Box::new(Tree::Compare(Side::Data(vec![above, key]), "=", literal, false))
    };
    Tree::Join(below(dice), "AND", below(dice))
}

fn tree(dice: &mut Dice, depth: usize) -> Tree {
    if depth < 3 && dice.one_in(12) {
        return siblings(dice);
    }
    if depth < 4 && dice.one_in(2) {
        if dice.one_in(4) {
            return Tree::Not(Box::new(tree(dice, depth + 1)));
        }
        let op = choose(dice, &["AND", "AND", "OR", "OR", "XOR"]);
        return Tree::Join(Box::new(tree(dice, depth + 1)), op, Box::new(tree(dice, depth + 1)));
    }
    match dice.roll(12) {
        0 | 1 => Tree::Like(side(dice), choose(dice, LIKES), dice.one_in(3)),
        2 | 3 => {
            let count = 1 + dice.roll(3);
            Tree::In(side(dice), (0..count).map(|_| literal(dice)).collect(), dice.one_in(3))
        }
        4 => Tree::Exists(side(dice)),
        5 => Tree::LowerIs(side(dice), choose(dice, TEXTS)),
        6 => Tree::Truth(side(dice)),
        _ => {
            let op = choose(dice, &["=", "=", "=", "!=", "<", "<=", ">", ">="]);
            Tree::Compare(side(dice), op, literal(dice), dice.one_in(4))
        }
    }
}

impl Side {
    fn text(&self) -> String {
        match self {
            Side::Attribute(name) => (*name).to_owned(),
            Side::Data(keys) => format!("data.{}", keys.join(".")),
        }
    }
}

impl Literal {
    fn text(&self) -> String {
        match self {
            Literal::Text(text) => format!("'{text}'"),
            Literal::Integer(number) => number.to_string(),
            Literal::Boolean(truth) => truth.to_string(),
        }
    }
}

impl Tree {
    fn text(&self) -> String {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match self {
            Tree::Compare(side, op, literal, false) => format!("{} {op} {}", side.text(), literal.text()),
            Tree::Compare(side, op, literal, true) => format!("{} {op} {}", literal.text(), side.text()),
            Tree::Like(side, like, negated) => format!("{} {}LIKE '{like}'", side.text(), not(*negated)),
            Tree::In(side, set, negated) => {
                let set: Vec<_> = set.iter().map(Literal::text).collect();
                format!("{} {}IN ({})", side.text(), not(*negated), set.join(", "))
            }
            Tree::Exists(side) => format!("EXISTS {}", side.text()),
            Tree::LowerIs(side, text) => format!("LOWER({}) = '{text}'", side.text()),
            Tree::Truth(side) => side.text(),
            Tree::Not(inner) => format!("NOT ({})", inner.text()),
            Tree::Join(left, op, right) => format!("({}) {op} ({})", left.text(), right.text()),
        }
    }
}

/// A filter by chance, and what it means.
pub(crate) struct Generated {
    pub(crate) language: FilterLanguage,
    pub(crate) text: String,
    meaning: Meaning,
}

enum Meaning {
    Sql(Tree),
    All(Vec<Meaning>),
    Any(Vec<Meaning>),
    Not(Box<Meaning>),
    Test(&'static str, Vec<(&'static str, &'static str)>),
}

impl Meaning {
    fn holds(&self, event: &Event<'_>) -> bool {
        match self {
            Meaning::Sql(tree) => matches!(tree.truth(event), Ok(Some(true))),
            Meaning::All(list) => list.iter().all(|one| one.holds(event)),
            Meaning::Any(list) => list.iter().any(|one| one.holds(event)),
            Meaning::Not(one) => !one.holds(event),
            Meaning::Test(how, pairs) => pairs.iter().all(|(name, operand)| {
                let Some(text) = event.attribute(name).and_then(|value| text_of(&value).ok()) else {
                    return false;
                };
                match *how {
                    "exact" => text == *operand,
                    "prefix" => text.starts_with(operand),
                    _ => text.ends_with(operand),
                }
            }),
        }
    }

    fn json(&self) -> Value {
        let list = |list: &[Meaning]| list.iter().map(Meaning::json).collect::<Vec<_>>();
        match self {
            Meaning::Sql(tree) => serde_json::json!({ "sql": tree.text() }),
            Meaning::All(all) => serde_json::json!({ "all": list(all) }),
            Meaning::Any(any) => serde_json::json!({ "any": list(any) }),
            Meaning::Not(one) => serde_json::json!({ "not": one.json() }),
            Meaning::Test(how, pairs) => {
                let pairs: serde_json::Map<String, Value> =
                    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
                serde_json::json!({ (*how): pairs })
            }
        }
    }
}

fn meaning(dice: &mut Dice, depth: usize) -> Meaning {
    let list = |dice: &mut Dice| (0..=dice.roll(2)).map(|_| meaning(dice, depth + 1)).collect();
    match dice.roll(if depth < 3 { 8 } else { 4 }) {
        0 => Meaning::Sql(tree(dice, 2)),
        4 => Meaning::All(list(dice)),
        5 | 6 => Meaning::Any(list(dice)),
        7 => Meaning::Not(Box::new(meaning(dice, depth + 1))),
        _ => {
            let mut names = NAMES.to_vec();
            let pairs = (0..=dice.roll(2))
                .map(|_| {
                    let name = names.swap_remove(dice.roll(names.len()));
                    (name, choose(dice, &TEXTS[1..]))
                })
                .collect();
            Meaning::Test(choose(dice, &["exact", "prefix", "suffix"]), pairs)
        }
    }
}

impl Generated {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        if dice.one_in(2) {
            let tree = tree(dice, 0);
            return Self { language: FilterLanguage::Cesql, text: tree.text(), meaning: Meaning::Sql(tree) };
        }
        let list: Vec<Meaning> = (0..=dice.roll(2)).map(|_| meaning(dice, 0)).collect();
        let text = Value::from(list.iter().map(Meaning::json).collect::<Vec<_>>()).to_string();
        Self { language: FilterLanguage::CloudEvents, text, meaning: Meaning::All(list) }
    }

    pub(crate) fn holds(&self, event: &Event<'_>) -> bool {
        self.meaning.holds(event)
    }
}
