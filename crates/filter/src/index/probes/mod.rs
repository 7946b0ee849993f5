//! What finds the conjunctions behind one value: a table for equality, one small structure each for the other operators.

mod affixes;
mod equality;
mod grams;
mod intervals;

pub(crate) use affixes::{Affixes, AffixesBuilder};
pub(crate) use equality::{Equality, EqualityBuilder, Found};
pub(crate) use grams::{GRAM_BYTES, Grams, GramsBuilder};
pub(crate) use intervals::{Edge, Interval, Intervals};
