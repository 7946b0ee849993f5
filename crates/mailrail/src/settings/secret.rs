//! A secret text that is never printed.

use std::fmt;

use zeroize::Zeroizing;

/// A key or token. Shows nothing in `Debug` output and is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes the text as it is.
    pub(crate) fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text. Every call is a place where the secret may leak: keep them few.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}
