//! The values at a path of a body, through all lists on the way.

use crate::error::EvalError;
use crate::evaluate::{Budget, as_scalar};
use crate::json::{Elements, Node, View};

/// Gives the leaves at a path until `more` says no. A step is one value looked at.
pub(crate) fn leaves<'t>(
    keys: &[&str],
    root: Node<'t>,
    budget: &mut Budget,
    mut more: impl FnMut(Node<'t>) -> bool,
) -> Result<(), EvalError> {
    let mut open: Vec<(Elements<'t>, usize)> = Vec::new();
    let mut next = Some((root, 0));
    loop {
        let Some((value, depth)) = next.take().or_else(|| next_element(&mut open)) else { return Ok(()) };
        budget.spend(1)?;
        match value.view() {
            View::Array => open.push((value.elements(), depth)),
            View::Object => {
                let member = keys.get(depth).and_then(|key| value.get(key));
                next = member.map(|member| (member, depth + 1));
            }
            leaf if depth == keys.len() && as_scalar(leaf).is_some() && !more(value) => return Ok(()),
            _ => {}
        }
    }
}

fn next_element<'t>(open: &mut Vec<(Elements<'t>, usize)>) -> Option<(Node<'t>, usize)> {
    while let Some((elements, depth)) = open.last_mut() {
        if let Some(element) = elements.next() {
            return Some((element, *depth));
        }
        open.pop();
    }
    None
}
