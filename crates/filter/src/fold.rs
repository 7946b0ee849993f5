//! Case folding: Unicode simple folding (status C and S of `CaseFolding.txt`), or ASCII letters only.
//!
//! Simple folding maps one character to one, so texts can be compared from either end without a buffer. `ß` is not
//! `SS`, and the Turkish dotted capital `İ` folds to itself; `ς`, `σ` and `Σ` are the same, and so are `K` and the
//! Kelvin sign.

/// Which letters are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Case {
    /// Every character is itself.
    Sensitive,
    /// Unicode simple case folding.
    Fold,
    /// Only `A-Z` and `a-z` are the same.
    FoldAscii,
}

/// The version of Unicode that folding follows. Pinned: a change may change which events match.
#[cfg(test)]
const UNICODE_VERSION: (u64, u64, u64) = (16, 0, 0);

impl Case {
    /// The representative of a character's class.
    pub(crate) fn fold(self, c: char) -> char {
        match self {
            Case::Sensitive => c,
            Case::FoldAscii => c.to_ascii_lowercase(),
            Case::Fold if c.is_ascii() => c.to_ascii_lowercase(),
            Case::Fold => unicode_case_mapping::case_folded(c)
                .and_then(|folded| char::from_u32(folded.get()))
                .unwrap_or(c),
        }
    }

    /// Folds an operand once, at compile time.
    pub(crate) fn fold_text(self, text: &str) -> String {
        text.chars().map(|c| self.fold(c)).collect()
    }

    /// `value` equals `folded`, which is folded already.
    pub(crate) fn equals(self, folded: &str, value: &str) -> bool {
        match self {
            Case::Sensitive => folded == value,
            Case::Fold | Case::FoldAscii => folded.chars().eq(value.chars().map(|c| self.fold(c))),
        }
    }

    /// `value` starts with `folded`.
    pub(crate) fn starts(self, folded: &str, value: &str) -> bool {
        match self {
            Case::Sensitive => value.starts_with(folded),
            Case::Fold | Case::FoldAscii => self.begins(folded.chars(), value.chars()),
        }
    }

    /// `value` ends with `folded`.
    pub(crate) fn ends(self, folded: &str, value: &str) -> bool {
        match self {
            Case::Sensitive => value.ends_with(folded),
            Case::Fold | Case::FoldAscii => self.begins(folded.chars().rev(), value.chars().rev()),
        }
    }

    fn begins(self, folded: impl Iterator<Item = char>, mut value: impl Iterator<Item = char>) -> bool {
        for expected in folded {
            if value.next().map(|c| self.fold(c)) != Some(expected) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(case: Case, operand: &str, value: &str) -> bool {
        case.equals(&case.fold_text(operand), value)
    }

    #[test]
    fn unicode_version_is_pinned() {
        assert_eq!(unicode_case_mapping::UNICODE_VERSION, UNICODE_VERSION);
    }

    #[test]
    fn simple_folding_is_symmetric() {
        for (a, b) in [
            ("Straße", "STRAẞE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("ς", "σ"),
            ("\u{212a}", "k"),
            ("ſ", "S"),
            ("𐐀", "𐐨"),
            ("É", "é"),
            ("ǅ", "ǆ"),
            ("😀", "😀"),
        ] {
            assert!(same(Case::Fold, a, b) && same(Case::Fold, b, a), "{a} and {b} are the same");
        }
        for (a, b) in [
            ("straße", "STRASSE"),
            ("ff", "ﬀ"),
            ("İ", "i"),
            ("ı", "I"),
            ("😀", "??"),
            ("é", "e\u{301}"),
            ("", "a"),
        ] {
            assert!(!same(Case::Fold, a, b) && !same(Case::Fold, b, a), "{a} and {b} differ");
        }
    }

    #[test]
    fn ascii_folding_leaves_other_letters_alone() {
        assert!(same(Case::FoldAscii, "HeLLo É", "hEllO É"));
        assert!(!same(Case::FoldAscii, "É", "é"));
        assert!(!same(Case::FoldAscii, "\u{212a}", "k"));
    }

    #[test]
    fn both_ends_are_compared_by_characters() {
        assert!(Case::Fold.starts(&Case::Fold.fold_text("STRASS"), "strasse"));
        assert!(Case::Fold.ends(&Case::Fold.fold_text("ÉE"), "idéE") && Case::Fold.ends("", ""));
        assert!(!Case::Fold.starts("abc", "ab") && !Case::Fold.ends("abc", "bc"));
        assert!(Case::Sensitive.ends("ß", "Fuß") && !Case::Sensitive.ends("ẞ", "Fuß"));
    }
}
