//! The paths that are read, as a tree of keys.

use crate::index::names::{Names, PathId};

/// Names a node of the tree.
pub(super) type NodeId = u32;

/// The root of the body.
pub(super) const ROOT: NodeId = 0;

/// Children of a node that are compared one by one; more are searched.
const LINEAR_MAX: usize = 8;

#[derive(Debug, Default)]
struct Node {
    /// The path that ends here.
    path: Option<PathId>,
    /// Sorted by length, then by bytes.
    children: Vec<(Box<[u8]>, NodeId)>,
    /// Bit n: some child's key is n bytes long; the last bit stands for all longer ones.
    lengths: u64,
}

/// A tree of keys. Empty when no path is read.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    /// What it was made of, sorted.
    paths: Vec<PathId>,
}

fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

impl Trie {
    /// The tree of these paths, which are sorted; those of attributes are left out.
    pub(crate) fn new(names: &Names, paths: Vec<PathId>) -> Self {
        let mut trie = Self { nodes: Vec::new(), paths };
        for at in 0..trie.paths.len() {
            let path = trie.paths[at];
            let steps = names.steps(path);
            if steps.is_empty() {
                continue;
            }
            if trie.nodes.is_empty() {
                trie.nodes.push(Node::default());
            }
            let end = steps
                .iter()
                .fold(ROOT, |node, step| trie.child_or_new(node, names.keys[*step as usize].as_bytes()));
            trie.nodes[end as usize].path = Some(path);
        }
        trie
    }

    fn child_or_new(&mut self, parent: NodeId, key: &[u8]) -> NodeId {
        let new = self.nodes.len() as NodeId;
        let node = &mut self.nodes[parent as usize];
        match node.children.binary_search_by(|(k, _)| (k.len(), &**k).cmp(&(key.len(), key))) {
            Ok(at) => node.children[at].1,
            Err(at) => {
                node.children.insert(at, (key.into(), new));
                node.lengths |= length_bit(key.len());
                self.nodes.push(Node::default());
                new
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What it was made of.
    pub(crate) fn paths(&self) -> &[PathId] {
        &self.paths
    }

    pub(super) fn path(&self, node: NodeId) -> Option<PathId> {
        self.nodes[node as usize].path
    }

    /// Nothing below this node is read.
    pub(super) fn is_end(&self, node: NodeId) -> bool {
        self.nodes[node as usize].lengths == 0
    }

    #[inline(always)]
    pub(super) fn child(&self, node: NodeId, key: &[u8]) -> Option<NodeId> {
        let node = &self.nodes[node as usize];
        if node.lengths & length_bit(key.len()) == 0 {
            return None;
        }
        if node.children.len() <= LINEAR_MAX {
            return node.children.iter().find(|(k, _)| **k == *key).map(|(_, child)| *child);
        }
        let found = node.children.binary_search_by(|(k, _)| (k.len(), &**k).cmp(&(key.len(), key))).ok()?;
        Some(node.children[found].1)
    }
}
