//! The key that encrypts secrets at rest.

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use thiserror::Error;
use zeroize::Zeroizing;

const BYTES: usize = 32;

/// Keys come from many generators (`openssl rand -base64 32`, cloud consoles): with and without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// 32 bytes that encrypt every secret of a store. Never printed, wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey(Zeroizing<[u8; BYTES]>);

/// Why a text is not an encryption key. Never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the encryption key is not 32 bytes in hex (64 characters) or base64: generate one with 'openssl rand -hex 32'"
)]
pub struct KeyError;

impl EncryptionKey {
    /// A new key from the operating system's randomness.
    #[must_use]
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; BYTES]);
        rand::fill(bytes.as_mut_slice());
        Self(bytes)
    }

    /// Reads 64 hex characters or the base64 of 32 bytes; white space around it is ignored.
    ///
    /// # Errors
    /// [`KeyError`] when it is anything else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim().as_bytes();
        // 64 hex characters are valid base64 too (of 48 bytes), so hex goes first.
        let bytes = HEXLOWER_PERMISSIVE
            .decode(text)
            .ok()
            .or_else(|| STANDARD.decode(text).ok())
            .or_else(|| URL_SAFE.decode(text).ok())
            .map(Zeroizing::new)
            .ok_or(KeyError)?;
        let mut key = Zeroizing::new([0; BYTES]);
        if bytes.len() != BYTES {
            return Err(KeyError);
        }
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }

    /// The key as 64 hex characters, for the one who has to keep it. Every call is a place where it may leak.
    #[must_use]
    pub fn expose_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER.encode(self.0.as_slice()))
    }

    pub(crate) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_and_base64_name_the_same_key() {
        let hex = "fb".repeat(32);
        let key = EncryptionKey::parse(&hex).expect("hex");
        for text in [
            format!(" {}\n", hex.to_uppercase()),
            STANDARD.encode(key.bytes()),
            URL_SAFE.encode(key.bytes()),
            STANDARD.encode(key.bytes()).trim_end_matches('=').to_owned(),
        ] {
            assert_eq!(EncryptionKey::parse(&text).as_ref(), Ok(&key), "{text}");
        }
        assert_eq!(key.expose_hex().as_str(), hex);
    }

    #[test]
    fn other_lengths_and_texts_are_refused() {
        for bad in
            ["", "secret", &"a".repeat(63), &"0".repeat(62), &"0".repeat(66), &STANDARD.encode([0; 31])]
        {
            assert_eq!(EncryptionKey::parse(bad), Err(KeyError), "{bad:?}");
        }
    }

    /// N16: the key that seals is never printed.
    #[test]
    fn n16_the_key_is_never_printed() {
        let key = EncryptionKey::generate();
        assert!(!format!("{key:?}").contains(&key.expose_hex().as_str()[..8]));
        assert_ne!(key, EncryptionKey::generate());
    }
}
