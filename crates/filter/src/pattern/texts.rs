//! Tests of texts: how they are written in a pattern.

use super::operators::{invalid_operand, only_member, string, unknown};
use super::place::Place;
use crate::error::FilterError;
use crate::fold::Case;
use crate::ir::{Glob, TextTest};
use crate::json::{Node, View};

fn case_of(name: &str) -> Option<Case> {
    match name {
        "equals-ignore-case" => Some(Case::Fold),
        "equals-ignore-ascii-case" => Some(Case::FoldAscii),
        _ => None,
    }
}

/// A test of a text; `None` when there is none of that name.
pub(super) fn text_test(
    name: &str,
    operand: Node<'_>,
    place: &Place<'_>,
) -> Result<Option<TextTest>, FilterError> {
    if let Some(case) = case_of(name) {
        let folded = case.fold_text(string(name, operand, place)?);
        return Ok(Some(TextTest::Equals(case, folded.into())));
    }
    let (case, operand) = match (name, operand.view()) {
        ("prefix" | "suffix" | "wildcard", View::Object) => {
            let (inner, operand) = only_member(operand, place)?;
            let place = &Place::Key(place, inner);
            let known = "equals-ignore-case, equals-ignore-ascii-case";
            let case = case_of(inner).ok_or_else(|| unknown(inner, place, known))?;
            (case, string(inner, operand, place)?)
        }
        ("prefix" | "suffix" | "wildcard", _) => (Case::Sensitive, string(name, operand, place)?),
        _ => return Ok(None),
    };
    Ok(Some(match name {
        "prefix" => TextTest::Starts(case, case.fold_text(operand).into()),
        "suffix" => TextTest::Ends(case, case.fold_text(operand).into()),
        _ => TextTest::Like(glob(operand, case, place)?),
    }))
}

fn glob(text: &str, case: Case, place: &Place<'_>) -> Result<Glob, FilterError> {
    let mut pieces = vec![String::new()];
    let mut after_star = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '*' if after_star => {
                return Err(invalid_operand(
                    place,
                    "'**' is the same as '*'; write one, or '\\*' for the character",
                ));
            }
            '*' => {
                pieces.push(String::new());
                after_star = true;
                continue;
            }
            '\\' => match chars.next() {
                Some(c @ ('*' | '\\')) => c,
                _ => {
                    return Err(invalid_operand(
                        place,
                        "a backslash stands only before '*' or '\\'; write '\\\\' for one",
                    ));
                }
            },
            c => c,
        };
        after_star = false;
        if let Some(piece) = pieces.last_mut() {
            piece.push(literal);
        }
    }
    let folded = |piece: String| match case {
        Case::Sensitive => piece.into_boxed_str(),
        case => case.fold_text(&piece).into_boxed_str(),
    };
    Ok(Glob { case, pieces: pieces.into_iter().map(folded).collect() })
}
