//! A second evaluator, written the slow way round: flatten the event into leaves with the array elements they stand in,
//! expand the pattern, and try every assignment of leaves to clauses. Shares no code with the crate.

use std::collections::BTreeMap;

use serde_json::Value;

/// Array (numbered as met) to the element of it.
type Membership = BTreeMap<usize, usize>;

struct Leaf<'e> {
    path: Vec<&'e str>,
    value: &'e Value,
    membership: Membership,
}

/// A path and its list.
type Clause<'p> = (Vec<&'p str>, Vec<&'p Value>);

pub(crate) fn matches(pattern: &Value, event: &Value) -> bool {
    let mut leaves = Vec::new();
    flatten(event, &mut Vec::new(), &Membership::new(), &mut 0, &mut leaves);
    expand(pattern, &[]).iter().any(|clauses| assign(clauses, &leaves, &Membership::new()))
}

/// Some alternative has two lists for one path.
pub(crate) fn has_duplicate_path(pattern: &Value) -> bool {
    expand(pattern, &[]).iter().any(|clauses| {
        clauses.iter().enumerate().any(|(i, (path, _))| clauses[..i].iter().any(|(other, _)| other == path))
    })
}

fn flatten<'e>(
    value: &'e Value,
    path: &mut Vec<&'e str>,
    membership: &Membership,
    arrays: &mut usize,
    leaves: &mut Vec<Leaf<'e>>,
) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                path.push(key);
                flatten(member, path, membership, arrays, leaves);
                path.pop();
            }
        }
        Value::Array(elements) => {
            let array = *arrays;
            *arrays += 1;
            for (i, element) in elements.iter().enumerate() {
                let mut membership = membership.clone();
                membership.insert(array, i);
                flatten(element, path, &membership, arrays, leaves);
            }
        }
        _ => leaves.push(Leaf { path: path.clone(), value, membership: membership.clone() }),
    }
}

fn expand<'p>(pattern: &'p Value, path: &[&'p str]) -> Vec<Vec<Clause<'p>>> {
    let mut alternatives: Vec<Vec<Clause<'p>>> = vec![vec![]];
    for (key, value) in pattern.as_object().expect("an object") {
        let mut below = path.to_vec();
        below.push(key);
        let choices = match value {
            Value::Array(branches) if key == "$or" => {
                branches.iter().flat_map(|branch| expand(branch, path)).collect()
            }
            Value::Object(_) => expand(value, &below),
            Value::Array(list) => vec![vec![(below, list.iter().collect())]],
            scalar => vec![vec![(below, vec![scalar])]],
        };
        alternatives = alternatives
            .iter()
            .flat_map(|left| choices.iter().map(move |right| left.iter().chain(right).cloned().collect()))
            .collect();
    }
    alternatives
}

fn assign(clauses: &[Clause<'_>], leaves: &[Leaf<'_>], so_far: &Membership) -> bool {
    let Some(((path, list), rest)) = clauses.split_first() else { return true };
    let here: Vec<_> = leaves.iter().filter(|leaf| leaf.path == *path).collect();
    let may_be_absent = list.iter().any(|wanted| wanted["exists"] == Value::Bool(false));
    if may_be_absent && here.is_empty() {
        return assign(rest, leaves, so_far);
    }
    here.iter().any(|leaf| {
        let consistent = leaf.membership.iter().all(|(array, i)| so_far.get(array).is_none_or(|j| i == j));
        let mut together = so_far.clone();
        together.extend(&leaf.membership);
        consistent && list.iter().any(|wanted| accepts(wanted, leaf.value)) && assign(rest, leaves, &together)
    })
}

fn accepts(wanted: &Value, value: &Value) -> bool {
    let Value::Object(operator) = wanted else { return same(wanted, value) };
    let (name, operand) = operator.iter().next().expect("one operator");
    match (name.as_str(), operand) {
        ("exists", operand) => *operand == Value::Bool(true),
        ("numeric", Value::Array(parts)) => value.as_f64().is_some_and(|n| {
            parts.chunks(2).all(|pair| {
                let limit = pair[1].as_f64().expect("a number");
                match pair[0].as_str().expect("a comparison") {
                    "<" => n < limit,
                    "<=" => n <= limit,
                    ">" => n > limit,
                    ">=" => n >= limit,
                    _ => n == limit,
                }
            })
        }),
        ("anything-but", Value::Array(list)) => !list.iter().any(|banned| same(banned, value)),
        ("anything-but", Value::Object(_)) => !accepts(operand, value),
        ("anything-but", banned) => !same(banned, value),
        (_, Value::Array(list)) => list
            .iter()
            .any(|one| accepts(&Value::Object([(name.clone(), one.clone())].into_iter().collect()), value)),
        (_, operand) => {
            let (Some(operand), Some(text)) = (operand.as_str(), value.as_str()) else { return false };
            match name.as_str() {
                "prefix" => text.starts_with(operand),
                "suffix" => text.ends_with(operand),
                "equals-ignore-case" => text.to_lowercase() == operand.to_lowercase(),
                "wildcard" => like(operand.as_bytes(), text.as_bytes()),
                other => panic!("the naive evaluator has no {other}"),
            }
        }
    }
}

fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

fn like(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skipped| like(rest, &text[skipped..])),
        Some((c, rest)) => text.split_first().is_some_and(|(t, text)| t == c && like(rest, text)),
    }
}
