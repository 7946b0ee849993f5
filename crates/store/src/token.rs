//! API key tokens: generated once, kept as a hash only.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// SHA-256 of a token. A token has 256 random bits, so a slow hash would add nothing.
pub(crate) type TokenHash = [u8; 32];

const PREFIX: &str = "mrk_";

/// A new API key token: `mrk_` and 52 characters of base32 (32 random bytes). Show it once; the store keeps its hash.
#[must_use]
pub fn generate_token() -> String {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(bytes.as_mut_slice());
    format!("{PREFIX}{}", BASE32_NOPAD.encode(bytes.as_slice()).to_ascii_lowercase())
}

pub(crate) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_agreed_form() {
        let token = generate_token();
        assert_eq!(token.len(), 4 + 52);
        assert!(
            token
                .strip_prefix("mrk_")
                .is_some_and(|t| t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
        );
        assert_ne!(token, generate_token());
    }
}
