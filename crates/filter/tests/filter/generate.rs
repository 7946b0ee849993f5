//! Filters and events by chance, in each other's shape, so that matches and near misses are common. A seed decides
//! everything.

use mailrail_types::{Attribute, AttributeValue, Attributes};

/// A source of chance: xorshift64*.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub(crate) fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).expect("31 bits") % n
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }

    pub(crate) fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.roll(from.len())]
    }

    fn list(&mut self, max: usize, mut item: impl FnMut(&mut Self) -> String) -> String {
        let items: Vec<String> = (0..=self.roll(max)).map(|_| item(self)).collect();
        items.join(",")
    }
}

pub(crate) const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "1",
    "1.0",
    "10e-1",
    "1.5",
    "2",
    "-2",
    "1e1",
    "10",
    "9007199254740993",
    "9007199254740992",
    "1e400",
    "\"\"",
    "\"a\"",
    "\"A\"",
    "\"ab\"",
    "\"aB\"",
    "\"abab\"",
    "\"abcabc\"",
    "\"ba\"",
    "\"\\u0061b\"",
    "\"1\"",
    "\"null\"",
    "\"é\"",
    "\"É\"",
    "\"ſK\"",
    "\"10.0.0.1\"",
    "\"10.0.1.7\"",
    "\"::1\"",
    "\"2026-06-01T02:00:00+02:00\"",
    "\"2025-12-31T23:59:59.999Z\"",
    "\"x\\\\y\\n\"",
    "\"long enough to fill more than one block of sixty-four bytes, with [brackets] and {braces}, \\\"quotes\\\"\"",
];

const OPERATORS: &[&str] = &[
    r#"{"exists":true}"#,
    r#"{"exists":false}"#,
    r#"{"prefix":"a"}"#,
    r#"{"prefix":"ab"}"#,
    r#"{"prefix":"abc"}"#,
    r#"{"prefix":""}"#,
    r#"{"prefix":{"equals-ignore-case":"AB"}}"#,
    r#"{"prefix":{"equals-ignore-case":"é"}}"#,
    r#"{"suffix":"b"}"#,
    r#"{"suffix":"é"}"#,
    r#"{"suffix":{"equals-ignore-case":"AB"}}"#,
    r#"{"suffix":{"equals-ignore-ascii-case":"AB"}}"#,
    r#"{"equals-ignore-case":"AB"}"#,
    r#"{"equals-ignore-case":"é"}"#,
    r#"{"equals-ignore-case":"sk"}"#,
    r#"{"equals-ignore-ascii-case":"sk"}"#,
    r#"{"wildcard":"a*"}"#,
    r#"{"wildcard":"*b*b"}"#,
    r#"{"wildcard":"*bca*"}"#,
    r#"{"wildcard":"*block*[brackets]*"}"#,
    r#"{"wildcard":"*"}"#,
    r#"{"wildcard":"a*ab"}"#,
    r#"{"wildcard":"*b*"}"#,
    r#"{"exactly":"ab"}"#,
    r#"{"numeric":[">",0]}"#,
    r#"{"numeric":[">=",1,"<",10]}"#,
    r#"{"numeric":["<=",1.5]}"#,
    r#"{"numeric":["<",1]}"#,
    r#"{"numeric":[">",9007199254740992]}"#,
    r#"{"numeric":["=",1e0]}"#,
    r#"{"cidr":"10.0.0.0/24"}"#,
    r#"{"cidr":"10.0.0.0/8"}"#,
    r#"{"cidr":"::/64"}"#,
    r#"{"anything-but":{"prefix":"a"}}"#,
    r#"{"anything-but":{"suffix":["a","b"]}}"#,
    r#"{"anything-but":{"wildcard":"*a"}}"#,
    r#"{"none-of":["a",1]}"#,
    r#"{"none-of":{"prefix":"a"}}"#,
    r#"{"all-of":["a",1]}"#,
    r#"{"all-of":["ab",{"prefix":"a"}]}"#,
    r#"{"all-of":[{"suffix":"b"},{"numeric":[">",0]},true]}"#,
    r#"{"wildcard":{"equals-ignore-case":"A*"}}"#,
    r#"{"wildcard":{"equals-ignore-case":"*B*B"}}"#,
    r#"{"wildcard":{"equals-ignore-case":"*É*"}}"#,
    r#"{"wildcard":{"equals-ignore-ascii-case":"*BCA*"}}"#,
    r#"{"date":[">=","2026-01-01T00:00:00Z"]}"#,
    r#"{"date":["=","2026-06-01T00:00:00Z"]}"#,
    r#"{"date":[">","2025-01-01T00:00:00Z","<","2026-06-01T00:00:00Z"]}"#,
];

fn wanted(dice: &mut Dice) -> String {
    match dice.roll(10) {
        0..=4 => dice.pick(SCALARS).to_owned(),
        5..=8 => dice.pick(OPERATORS).to_owned(),
        _ => format!(r#"{{"anything-but":[{}]}}"#, dice.list(3, |d| d.pick(SCALARS).to_owned())),
    }
}

fn values(dice: &mut Dice) -> String {
    format!("[{}]", dice.list(2, wanted))
}

const KEYS: &[&str] = &["a", "b", "c", "é", "a.b"];
const NAMES: &[&str] = &["type", "source", "subject", "flag", "count", "region"];

fn attributes_of_pattern(dice: &mut Dice) -> String {
    let mut names = NAMES.to_vec();
    let count = 1 + dice.roll(2);
    let lists: Vec<String> = (0..count)
        .map(|_| format!("\"{}\":{}", names.swap_remove(dice.roll(names.len())), values(dice)))
        .collect();
    format!("\"$attributes\":{{{}}}", lists.join(","))
}

fn fields(dice: &mut Dice, depth: usize) -> Vec<String> {
    let mut keys = KEYS.to_vec();
    let count = 1 + dice.roll(2);
    (0..count)
        .map(|_| {
            let key = keys.swap_remove(dice.roll(keys.len()));
            if depth < 3 && dice.one_in(3) {
                format!("\"{key}\":{{{}}}", fields(dice, depth + 1).join(","))
            } else {
                format!("\"{key}\":{}", values(dice))
            }
        })
        .collect()
}

/// A pattern; now and then one that is refused.
pub(crate) fn pattern(dice: &mut Dice) -> String {
    let mut members = Vec::new();
    if dice.one_in(4) {
        members.push(attributes_of_pattern(dice));
    }
    if members.is_empty() || !dice.one_in(3) {
        members.append(&mut fields(dice, 0));
    }
    if dice.one_in(6) {
        let branch = |d: &mut Dice| {
            let inside = if d.one_in(5) { vec![attributes_of_pattern(d)] } else { fields(d, 1) };
            format!("{{{}}}", inside.join(","))
        };
        let branches: Vec<String> = (0..2 + dice.roll(2)).map(|_| branch(dice)).collect();
        members.push(format!("\"$or\":[{}]", branches.join(",")));
    }
    format!("{{{}}}", members.join(","))
}

fn value(dice: &mut Dice, depth: usize) -> String {
    match dice.roll(10) {
        0 | 1 if depth < 4 => {
            let items: Vec<String> = (0..dice.roll(4)).map(|_| value(dice, depth + 1)).collect();
            format!("[{}]", items.join(" , "))
        }
        2..=4 if depth < 4 => object(dice, depth + 1),
        _ => dice.pick(SCALARS).to_owned(),
    }
}

fn object(dice: &mut Dice, depth: usize) -> String {
    let keys = ["a", "b", "c", "é", "a.b", "\\u0061", "other", "an unwanted key that is long"];
    let members: Vec<String> =
        (0..dice.roll(6)).map(|_| format!("\"{}\": {}", dice.pick(&keys), value(dice, depth))).collect();
    format!("{{{}}}", members.join(","))
}

/// A body; now and then one that is not JSON.
pub(crate) fn body(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = match dice.roll(20) {
        0 => value(dice, 0).into_bytes(),
        _ => object(dice, 0).into_bytes(),
    };
    if dice.one_in(25) {
        let at = dice.roll(bytes.len());
        match dice.roll(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = u8::try_from(dice.roll(256)).expect("a byte"),
            _ => bytes.extend_from_slice(b" {\"a\":1}"),
        }
    }
    bytes
}

/// Attributes of an event.
pub(crate) fn attributes(dice: &mut Dice) -> Attributes {
    let text = |dice: &mut Dice| {
        let scalar = dice.pick(SCALARS);
        serde_json::from_str(scalar).unwrap_or_else(|_| scalar.to_owned())
    };
    let mut attributes = Attributes { event_type: text(dice), source: text(dice), ..Attributes::default() };
    attributes.subject = (!dice.one_in(2)).then(|| text(dice));
    let mut extension = |name: &str, value| {
        attributes.extensions.push(Attribute { name: name.to_owned(), value });
    };
    if !dice.one_in(3) {
        extension("flag", AttributeValue::Boolean(dice.one_in(2)));
    }
    if !dice.one_in(3) {
        extension("count", AttributeValue::Integer([0, 1, 2, 10, -2][dice.roll(5)]));
    }
    if !dice.one_in(3) {
        extension("region", AttributeValue::String(text(dice)));
    }
    attributes
}
