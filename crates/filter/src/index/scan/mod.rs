//! Reading only the paths that some filter asks for, straight from the bytes.
//!
//! The scan is *complete on valid JSON and harmless on anything else*: on a valid document it gives every leaf at a wanted
//! path, those of duplicate keys too; on other bytes it gives whatever it finds, and ends. It decides nothing: what it finds
//! names candidates, which are verified on a strict reading of the body.

mod blocks;
#[cfg(test)]
mod tests;
mod token;
mod trie;
mod walk;

pub(crate) use token::{Leaf, unescape};
pub(crate) use trie::Trie;
pub(crate) use walk::{Frame, walk};
