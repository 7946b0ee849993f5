//! Sets of values: what a clause accepts.

use std::cmp::Ordering;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::EvalError;
use crate::evaluate::Budget;
use crate::fold::Case;
use crate::limits::STEP_BYTES;
use crate::moment::{Moments, read_moment};
use crate::number::{Decimal, Operand};

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

impl Scalar<'_> {
    /// How long its text is, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Scalar::Null | Scalar::Bool(_) => 0,
            Scalar::Number(text) | Scalar::Text(text) | Scalar::Attribute(text) => text.len(),
        }
    }
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
    pub(crate) moments: Vec<Moments>,
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
    /// Which letters are the same. Pieces are folded already.
    pub(crate) case: Case,
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

    /// Adds all timestamps of a time.
    pub(crate) fn add_moments(&mut self, moments: Moments) {
        self.moments.push(moments);
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
        if !self.moments.is_empty() {
            budget.spend(1 + self.moments.len())?;
            if let Some(moment) = read_moment(text)
                && self.moments.iter().any(|moments| moments.contains(moment))
            {
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
            TextTest::Like(glob) if glob.case == Case::Sensitive => 1 + text.len() / STEP_BYTES,
            // The text is folded before it is compared.
            TextTest::Like(_) => 1 + 4 * text.len() / STEP_BYTES,
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
        match self.case {
            Case::Sensitive => self.accepts_folded(text),
            case => self.accepts_folded(&case.fold_text(text)),
        }
    }

    fn accepts_folded(&self, text: &str) -> bool {
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
        Glob { case: Case::Sensitive, pieces: text.split('*').map(Into::into).collect() }
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
