//! Parse, compile, evaluate and explain subscription filters.
//!
//! A [`Filter`] is compiled once per subscription version and shared; a [`Document`] is made once per event and
//! shared by all filters that the event meets. Every language is lowered to one intermediate form (a list of
//! conjunctions of clauses over paths), which is evaluated filter by filter, or through an [`index`] of many.
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

mod document;
mod error;
mod evaluate;
mod explain;
mod filter;
mod fold;
pub mod index;
mod ir;
mod json;
pub mod limits;
mod number;
pub mod pattern;

pub use document::{BodyState, Document};
pub use error::{EvalError, FilterError};
pub use explain::{AlternativeExplanation, ClauseExplanation, Explanation, Seen};
pub use filter::Filter;
