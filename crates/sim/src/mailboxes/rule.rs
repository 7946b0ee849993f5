//! The rules that are compared: the original, ours, and each half of ours alone.

use mailrail_policy::{SHARDS, SizingOptions, WindowReading, next_width, plain_width};

/// Width changes under each rule, in the order of [`Rule::ALL`].
pub type Changes = [u32; 4];

/// How a width follows from the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The original: the sum of five counters, no memory.
    Plain,
    /// The oldest counter weighed, no memory.
    Weighted,
    /// The sum of five counters, shrinking only below 75 %.
    Held,
    /// Both: what mailrail does.
    Ours,
}

impl Rule {
    /// Every rule, in the order of their figures.
    pub const ALL: [Rule; 4] = [Rule::Plain, Rule::Weighted, Rule::Held, Rule::Ours];

    /// What it is called in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Plain => "plain rule",
            Rule::Weighted => "weighted oldest counter",
            Rule::Held => "shrink below 75 %",
            Rule::Ours => "both: ours",
        }
    }

    pub(super) fn width(self, reading: &WindowReading, current: Option<u32>, options: &SizingOptions) -> u32 {
        match self {
            Rule::Plain => plain_width(Some(reading.plain_payloads()), options),
            Rule::Weighted => plain_width(Some(reading.payloads()), options),
            Rule::Held => {
                let mut unweighted = *reading;
                unweighted.shards[SHARDS] = 0;
                next_width(Some(&unweighted), current, options)
            }
            Rule::Ours => next_width(Some(reading), current, options),
        }
    }
}
