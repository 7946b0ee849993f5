//! Parse, compile, evaluate and explain subscription filters.
//!
//! A [`Filter`] is compiled once per subscription version and shared; a [`Document`] is made once per event and
//! shared by all filters that the event meets. Every language ([`pattern`], [`cesql`], [`cloudevents`]) is lowered to one
//! intermediate form (a list of conjunctions of clauses over paths), which is evaluated filter by filter, or through an
//! [`index`] of many. What an expression says beyond that form stays beside it as a *rule*: the conjunctions then accept
//! no less than the rule, lead to it in the index, and the rule decides.
//!
//! **Always holds**: a compiled filter is within the named limits of [`limits`]; evaluating it takes at most
//! [`limits::STEPS_MAX`] steps, never panics and never overflows the stack, whatever the body is; numbers are
//! compared as exact decimals; a body that is not strict JSON (UTF-8, no lone surrogates, nothing after the document,
//! at most [`limits::BODY_DEPTH_MAX`] deep) matches no clause on the body; of duplicate keys the last wins; no two
//! different paths are ever confused, because paths are lists of keys and never joined text.
//!
//! **Deliberately absent**: I/O, clocks, regular expressions, a default for filters that fail (the caller has a
//! policy for [`EvalError`]), Unicode normalisation (NFC and NFD differ), floating point.
//!
//! ```
//! use mailrail_filter::{Document, Filter};
//! use mailrail_types::{Attributes, FilterLanguage, FilterSource};
//!
//! let text = r#"{"project": {"key": ["FOO"]}, "priority": ["Critical"]}"#.to_owned();
//! let filter = Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text })?;
//! let attributes = Attributes::default();
//! let document = Document::new(&attributes, br#"{"priority":"Critical","project":{"key":"FOO"}}"#);
//! assert!(filter.matches(&document)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cesql;
pub mod cloudevents;
mod document;
mod error;
mod evaluate;
mod explain;
mod filter;
mod fold;
pub mod index;
mod ir;
mod json;
mod leaves;
pub mod limits;
mod moment;
mod number;
pub mod pattern;
mod rule;

pub use document::{BodyState, Document};
pub use error::{EvalError, FilterError};
pub use explain::{ClauseExplanation, Explanation, Part, Seen, What};
pub use filter::Filter;
pub use limits::Limits;
