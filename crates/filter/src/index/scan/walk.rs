//! The walk: down the paths of the tree, over everything else. No recursion, one pass.

use fearless_simd::prelude::*;

use super::blocks::Blocks;
use super::token::{Leaf, scalar, unescape};
use super::trie::{NodeId, ROOT, Trie};
use crate::index::names::PathId;
use crate::limits::BODY_DEPTH_MAX;

/// An array or object on the way, and the node whose values it holds or is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    node: NodeId,
    is_object: bool,
}

/// Memory that a walk works in, and what takes the leaves.
struct Walk<'w, 'b, S, F> {
    blocks: Blocks<'b, S>,
    bytes: &'b [u8],
    trie: &'w Trie,
    frames: &'w mut Vec<Frame>,
    key: &'w mut String,
    leaf: F,
}

/// Gives every leaf at a path of the tree. Ends early, without a word, where the bytes stop making sense.
#[inline(always)]
pub(crate) fn walk<'b, S: Simd>(
    simd: S,
    bytes: &'b [u8],
    trie: &Trie,
    frames: &mut Vec<Frame>,
    key: &mut String,
    leaf: impl FnMut(PathId, Leaf<'b>),
) {
    frames.clear();
    let mut walk = Walk { blocks: Blocks::new(simd, bytes), bytes, trie, frames, key, leaf };
    // `None` is the early end.
    let _ = walk.document();
}

impl<'b, S: Simd, F: FnMut(PathId, Leaf<'b>)> Walk<'_, 'b, S, F> {
    #[inline(always)]
    fn document(&mut self) -> Option<()> {
        let mut at = self.skip_space(0);
        let mut node = ROOT;
        loop {
            at = match self.bytes.get(at)? {
                bracket @ (b'{' | b'[') => match self.enter(at, node, *bracket == b'{')? {
                    Next::Value(below, value) => {
                        (node, at) = (below, value);
                        continue;
                    }
                    Next::After(end) => end,
                },
                b'"' => self.text(at, node)?,
                _ => self.scalar(at, node)?,
            };
            match self.after(at)? {
                Next::Value(below, value) => (node, at) = (below, value),
                Next::After(_) => return Some(()),
            }
        }
    }

    /// At an opening bracket of a value at `node`.
    #[inline(always)]
    fn enter(&mut self, at: usize, node: NodeId, is_object: bool) -> Option<Next> {
        if is_object && self.trie.is_end(node) {
            return self.blocks.skip_container(at + 1).map(Next::After);
        }
        if self.frames.len() == BODY_DEPTH_MAX {
            return None;
        }
        let first = self.skip_space(at + 1);
        if matches!(self.bytes.get(first)?, b'}' | b']') {
            return Some(Next::After(first + 1));
        }
        self.frames.push(Frame { node, is_object });
        if is_object { self.members(first, node) } else { Some(Next::Value(node, first)) }
    }

    /// Behind a value: on to the next one that is wanted, or to the end of everything.
    #[inline(always)]
    fn after(&mut self, at: usize) -> Option<Next> {
        let mut at = at;
        loop {
            let Some(Frame { node, is_object }) = self.frames.last().copied() else {
                return Some(Next::After(at));
            };
            at = self.skip_space(at);
            match (self.bytes.get(at)?, is_object) {
                (b',', false) => return Some(Next::Value(node, self.skip_space(at + 1))),
                (b',', true) => {
                    let key = self.skip_space(at + 1);
                    match self.members(key, node)? {
                        Next::After(end) => at = end,
                        value @ Next::Value(..) => return Some(value),
                    }
                }
                (b']', false) | (b'}', true) => {
                    self.frames.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }

    /// From a key on, to the next member that is wanted. At the end of the object its frame is taken away.
    #[inline(always)]
    fn members(&mut self, key: usize, node: NodeId) -> Option<Next> {
        let mut at = key;
        loop {
            if *self.bytes.get(at)? != b'"' {
                return None;
            }
            let end = self.blocks.next_quote(at + 1)?;
            if let Some(child) = self.child(node, self.bytes.get(at + 1..end)?) {
                let colon = self.skip_space(end + 1);
                if *self.bytes.get(colon)? != b':' {
                    return None;
                }
                return Some(Next::Value(child, self.skip_space(colon + 1)));
            }
            let mut mark = self.blocks.next_mark(end + 1)?;
            if matches!(self.bytes.get(mark)?, b'{' | b'[') {
                let behind = self.blocks.skip_container(mark + 1)?;
                mark = self.blocks.next_mark(behind)?;
            }
            match self.bytes.get(mark)? {
                b',' => at = self.skip_space(mark + 1),
                b'}' => {
                    self.frames.pop();
                    return Some(Next::After(mark + 1));
                }
                _ => return None,
            }
        }
    }

    #[inline(always)]
    fn child(&mut self, node: NodeId, key: &[u8]) -> Option<NodeId> {
        if self.blocks.backslashes() && key.contains(&b'\\') {
            // A key that is no string of JSON is nobody's key.
            return if unescape(key, self.key) { self.trie.child(node, self.key.as_bytes()) } else { None };
        }
        self.trie.child(node, key)
    }

    #[inline(always)]
    fn text(&mut self, at: usize, node: NodeId) -> Option<usize> {
        let end = self.blocks.next_quote(at + 1)?;
        if let Some(path) = self.trie.path(node) {
            let text = self.bytes.get(at + 1..end)?;
            let escaped = self.blocks.backslashes() && text.contains(&b'\\');
            (self.leaf)(path, if escaped { Leaf::Escaped(text) } else { Leaf::Text(text) });
        }
        Some(end + 1)
    }

    #[inline(always)]
    fn scalar(&mut self, at: usize, node: NodeId) -> Option<usize> {
        let end = self.blocks.next_mark(at).unwrap_or(self.bytes.len());
        if let Some(path) = self.trie.path(node) {
            let token = self.bytes.get(at..end)?;
            let trailing = token.iter().rev().take_while(|b| is_space(**b)).count();
            (self.leaf)(path, scalar(&token[..token.len() - trailing])?);
        }
        Some(end)
    }

    #[inline(always)]
    fn skip_space(&self, from: usize) -> usize {
        let mut at = from;
        while self.bytes.get(at).is_some_and(|b| is_space(*b)) {
            at += 1;
        }
        at
    }
}

/// Where the walk goes on.
enum Next {
    /// At a value of a node.
    Value(NodeId, usize),
    /// Behind a value.
    After(usize),
}

#[inline(always)]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
