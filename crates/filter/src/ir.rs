//! The intermediate form that every filter language is lowered to, and that an index can be built on.
//!
//! A [`Program`] is a disjunction of [`Conjunction`]s (negation stays inside a clause, so this is a disjunctive
//! normal form); a conjunction is a set of clauses on different paths; a [`Clause`] says which values of one path are
//! wanted.

use std::cmp::Ordering;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::EvalError;
use crate::evaluate::Budget;
use crate::fold::Case;
use crate::limits::STEP_BYTES;
use crate::number::{Decimal, Operand};

/// Names a clause: its place in [`Program::clauses`].
pub(crate) type ClauseId = u32;
/// Names a key: its place in [`Program::steps`]. Equal keys have equal ids.
pub(crate) type StepId = u32;

/// A compiled filter: it matches when one of its conjunctions does.
#[derive(Debug)]
pub(crate) struct Program {
    /// The keys that paths are made of, each once.
    pub(crate) steps: Vec<Box<str>>,
    /// The clauses in the order they were written, each once.
    pub(crate) clauses: Vec<Clause>,
    /// The alternatives.
    pub(crate) conjunctions: Vec<Conjunction>,
}

/// Clauses that must all hold, those below one array within one element of it.
#[derive(Debug)]
pub(crate) struct Conjunction {
    /// Clauses on attributes.
    pub(crate) attributes: Box<[ClauseId]>,
    /// Clauses on the body, sorted by path, so that clauses below one key are neighbours and a prefix comes first.
    pub(crate) body: Box<[ClauseId]>,
    /// Some clause on the body accepts that its path is absent.
    pub(crate) takes_absence: bool,
}

/// What is wanted of one path.
#[derive(Debug)]
pub(crate) struct Clause {
    pub(crate) subject: Subject,
    pub(crate) wanted: Wanted,
    /// The path, for people.
    pub(crate) path: Box<str>,
    /// The list, as it was written.
    pub(crate) text: Box<str>,
}

/// Where a value stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A CloudEvents context attribute.
    Attribute(Box<str>),
    /// Keys from the root of the body; at least one.
    Body(Box<[StepId]>),
}

/// The values that a clause accepts: any of these.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The path must be absent in the whole event.
    pub(crate) absent: bool,
    /// Any value will do.
    pub(crate) present: bool,
    /// A value that is in here.
    pub(crate) any_of: ValueSet,
    /// A value that is not in one of these (`anything-but`).
    pub(crate) other_than: Vec<ValueSet>,
    /// A list none of whose values is in one of these (`none-of`).
    pub(crate) none_of: Vec<ValueSet>,
}

/// A leaf of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar<'v> {
    Null,
    Bool(bool),
    /// A JSON number as it is written.
    Number(&'v str),
    Text(&'v str),
    /// The canonical text of an attribute. Its type is lost on the way through HTTP headers, so it is also the
    /// boolean or integer that it reads as: a filter must not depend on the mode in which the producer sent the
    /// event.
    Attribute(&'v str),
}

/// A set of values, by kind.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ValueSet {
    pub(crate) null: bool,
    pub(crate) yes: bool,
    pub(crate) no: bool,
    /// Sorted, each once.
    pub(crate) strings: Vec<Box<str>>,
    /// Sorted, each once.
    pub(crate) numbers: Vec<Operand>,
    pub(crate) texts: Vec<TextTest>,
    pub(crate) ranges: Vec<Range>,
    pub(crate) networks: Vec<IpNet>,
}

/// A test of a text. Operands are folded already.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TextTest {
    Equals(Case, Box<str>),
    Starts(Case, Box<str>),
    Ends(Case, Box<str>),
    Like(Glob),
}

/// A text with `*` in it: the pieces around the stars; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Glob {
    pub(crate) pieces: Vec<Box<str>>,
}

/// A bound of a range, and whether it belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    pub(crate) number: Operand,
    pub(crate) inclusive: bool,
}

/// Numbers between bounds.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub(crate) lower: Option<Bound>,
    pub(crate) upper: Option<Bound>,
}

/// Clauses by their ids, however they are kept: in a program of one filter, or in an index of many.
pub(crate) trait Clauses {
    /// The name of the attribute, of a clause on one.
    fn attribute(&self, id: ClauseId) -> Option<&str>;
    /// The keys of a clause on the body.
    fn steps(&self, id: ClauseId) -> &[StepId];
    /// What is wanted there.
    fn wanted(&self, id: ClauseId) -> Want<'_>;
    /// The text of a key.
    fn key(&self, id: StepId) -> &str;
}

/// What a clause wants, borrowed from where it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Want<'w> {
    /// One string and nothing else: by far the most common.
    Text(&'w str),
    /// Anything.
    Full(&'w Wanted),
}

impl<'w> Want<'w> {
    /// The path must, or may, be absent.
    pub(crate) fn absent(self) -> bool {
        matches!(self, Want::Full(wanted) if wanted.absent)
    }

    /// The sets of `none-of`.
    pub(crate) fn none_of(self) -> &'w [ValueSet] {
        match self {
            Want::Text(_) => &[],
            Want::Full(wanted) => &wanted.none_of,
        }
    }

    /// A present leaf is accepted.
    pub(crate) fn accepts(self, value: Scalar<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        match self {
            Want::Text(wanted) => {
                budget.spend(1)?;
                Ok(matches!(value, Scalar::Text(text) | Scalar::Attribute(text) if text == wanted))
            }
            Want::Full(wanted) => wanted.accepts(value, budget),
        }
    }
}

impl Clauses for Program {
    fn attribute(&self, id: ClauseId) -> Option<&str> {
        match &self.clauses[id as usize].subject {
            Subject::Attribute(name) => Some(name),
            Subject::Body(_) => None,
        }
    }

    fn steps(&self, id: ClauseId) -> &[StepId] {
        self.clauses[id as usize].steps()
    }

    fn wanted(&self, id: ClauseId) -> Want<'_> {
        Want::Full(&self.clauses[id as usize].wanted)
    }

    fn key(&self, id: StepId) -> &str {
        &self.steps[id as usize]
    }
}

impl Clause {
    /// The keys of a clause on the body; none for one on an attribute.
    pub(crate) fn steps(&self) -> &[StepId] {
        match &self.subject {
            Subject::Body(steps) => steps,
            Subject::Attribute(_) => &[],
        }
    }
}

impl Wanted {
    /// A present leaf is accepted.
    pub(crate) fn accepts(&self, value: Scalar<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        if self.present || self.any_of.contains(value, budget)? {
            return Ok(true);
        }
        for set in &self.other_than {
            if !set.contains(value, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl ValueSet {
    /// Adds a string.
    pub(crate) fn add_string(&mut self, text: &str) {
        if let Err(at) = self.strings.binary_search_by(|s| (**s).cmp(text)) {
            self.strings.insert(at, text.into());
        }
    }

    /// Adds a number.
    pub(crate) fn add_number(&mut self, number: Operand) {
        if let Err(at) = self.numbers.binary_search_by(|n| n.as_decimal().compare(&number.as_decimal())) {
            self.numbers.insert(at, number);
        }
    }

    /// Adds all texts that pass a test.
    pub(crate) fn add_test(&mut self, test: TextTest) {
        self.texts.push(test);
    }

    /// Adds all numbers in a range.
    pub(crate) fn add_range(&mut self, range: Range) {
        self.ranges.push(range);
    }

    /// Adds all addresses of a network.
    pub(crate) fn add_network(&mut self, network: IpNet) {
        self.networks.push(network);
    }

    /// The value is in the set. Spends a step, and one for every test that has to be tried.
    pub(crate) fn contains(&self, value: Scalar<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        budget.spend(1)?;
        match value {
            Scalar::Null => Ok(self.null),
            Scalar::Bool(true) => Ok(self.yes),
            Scalar::Bool(false) => Ok(self.no),
            Scalar::Number(text) => self.contains_number(text, budget),
            Scalar::Text(text) => self.contains_text(text, budget),
            Scalar::Attribute(text) => {
                if self.contains_text(text, budget)?
                    || (self.yes && text == "true")
                    || (self.no && text == "false")
                {
                    return Ok(true);
                }
                if is_integer(text) { self.contains_number(text, budget) } else { Ok(false) }
            }
        }
    }

    fn contains_number(&self, text: &str, budget: &mut Budget) -> Result<bool, EvalError> {
        if self.numbers.is_empty() && self.ranges.is_empty() {
            return Ok(false);
        }
        budget.spend(self.ranges.len() + text.len() / STEP_BYTES)?;
        let number = Decimal::read(text);
        let listed = self.numbers.binary_search_by(|n| n.as_decimal().compare(&number)).is_ok();
        Ok(listed || self.ranges.iter().any(|range| range.contains(&number)))
    }

    fn contains_text(&self, text: &str, budget: &mut Budget) -> Result<bool, EvalError> {
        if self.strings.binary_search_by(|s| (**s).cmp(text)).is_ok() {
            return Ok(true);
        }
        for test in &self.texts {
            budget.spend(test.steps(text))?;
            if test.accepts(text) {
                return Ok(true);
            }
        }
        if self.networks.is_empty() || text.len() > ADDRESS_MAX_CHARS {
            return Ok(false);
        }
        budget.spend(self.networks.len())?;
        let Ok(address) = text.parse::<IpAddr>() else { return Ok(false) };
        Ok(self.networks.iter().any(|network| network.contains(&address)))
    }
}

/// The longest text form of an address: IPv6 with an embedded IPv4.
pub(crate) const ADDRESS_MAX_CHARS: usize = 45;

/// A JSON integer, the canonical form of a CloudEvents Integer.
pub(crate) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits.first().is_some_and(|d| *d != b'0'))
}

impl TextTest {
    /// What the test costs on a value: all but globs read at most as much as their operand is long.
    fn steps(&self, text: &str) -> usize {
        match self {
            TextTest::Equals(..) | TextTest::Starts(..) | TextTest::Ends(..) => 1,
            TextTest::Like(_) => 1 + text.len() / STEP_BYTES,
        }
    }

    fn accepts(&self, text: &str) -> bool {
        match self {
            TextTest::Equals(case, operand) => case.equals(operand, text),
            TextTest::Starts(case, operand) => case.starts(operand, text),
            TextTest::Ends(case, operand) => case.ends(operand, text),
            TextTest::Like(glob) => glob.accepts(text),
        }
    }
}

impl Glob {
    /// Each piece is looked for where the one before it ended, never again before that: linear, no backtracking.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|only| **only == *text);
        };
        let Some(rest) = text.strip_prefix(&**first).and_then(|rest| rest.strip_suffix(&**last)) else {
            return false;
        };
        let mut rest = rest;
        for piece in middle {
            let Some(at) = rest.find(&**piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

impl Range {
    pub(crate) fn contains(&self, number: &Decimal<'_>) -> bool {
        let above = self.lower.as_ref().is_none_or(|bound| bound.allows(number, Ordering::Greater));
        above && self.upper.as_ref().is_none_or(|bound| bound.allows(number, Ordering::Less))
    }

    /// Some number is in it.
    pub(crate) fn is_possible(&self) -> bool {
        let (Some(lower), Some(upper)) = (&self.lower, &self.upper) else { return true };
        match lower.number.as_decimal().compare(&upper.number.as_decimal()) {
            Ordering::Less => true,
            Ordering::Equal => lower.inclusive && upper.inclusive,
            Ordering::Greater => false,
        }
    }
}

impl Bound {
    pub(crate) fn allows(&self, number: &Decimal<'_>, side: Ordering) -> bool {
        let order = number.compare(&self.number.as_decimal());
        order == side || (self.inclusive && order == Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        Glob { pieces: text.split('*').map(Into::into).collect() }
    }

    #[test]
    fn globs() {
        for (pattern, yes, no) in [
            ("abc", &["abc"][..], &["abcd", "ab", ""][..]),
            ("*", &["", "x", "*"], &[]),
            ("a*", &["a", "ab"], &["", "ba"]),
            ("*a", &["a", "ba"], &["", "ab"]),
            ("a*a", &["aa", "aba", "aaa"], &["a", "ab", ""]),
            ("ab*bc", &["abbc", "ab-bc"], &["abc"]),
            ("*ab*ab*", &["abab", "xabyabz"], &["ab", "aab", "abxa"]),
            ("a*b*c", &["abc", "a-b-c", "abbbc", "abcbc"], &["acb", "ac", "abcd"]),
            ("é*ß", &["éß", "é😀ß"], &["eß", "é"]),
        ] {
            for text in yes {
                assert!(glob(pattern).accepts(text), "{pattern} on {text}");
            }
            for text in no {
                assert!(!glob(pattern).accepts(text), "{pattern} on {text}");
            }
        }
    }

    #[test]
    fn attribute_integers_are_canonical() {
        for text in ["0", "-1", "42", "2147483647", "-0"] {
            assert!(is_integer(text), "{text}");
        }
        for text in ["", "-", "007", "1.0", "1e3", "+1", " 1", "1a", "٣"] {
            assert!(!is_integer(text), "{text}");
        }
    }
}
