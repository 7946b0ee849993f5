//! A signing key: the bytes behind a `whsec_…` secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _};
use mailrail_types::Secret;
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

/// How every secret begins, so that people and scanners know it when they see it.
const PREFIX: &str = "whsec_";

/// Fewest bytes: the specification's limit; less could be guessed.
const KEY_MIN_BYTES: usize = 24;

/// Most bytes: the specification's limit, and the block size of SHA-256.
const KEY_MAX_BYTES: usize = 64;

/// Why a secret cannot sign. The texts say what to change and hold nothing of the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SignError {
    /// It does not start with `whsec_`.
    #[error(
        "the signing secret does not start with 'whsec_': write it as 'whsec_' and base64 of 24 to 64 random bytes"
    )]
    Prefix,
    /// What follows is not base64.
    #[error(
        "the signing secret is not base64 after 'whsec_': use the standard alphabet (A-Z a-z 0-9 + /) with its '=' \
         padding and no spaces"
    )]
    Encoding,
    /// Too few or too many bytes.
    #[error("the signing secret has {bytes} bytes after decoding: use 24 to 64 random bytes")]
    Length {
        /// How many it has.
        bytes: usize,
    },
}

/// What a secret signs with: the authenticator that its bytes make, which has seen nothing yet. Made once, because that takes a
/// tenth of the time of a signature over a small body. Wiped when dropped, never printed.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Reads a secret: `whsec_` and standard base64, with padding, of 24 to 64 bytes.
    ///
    /// Padding is demanded because receivers' libraries demand it: a secret that only this side can read is a secret
    /// that nobody can verify with.
    ///
    /// # Errors
    /// [`SignError`], which says what to change.
    pub fn parse(secret: &Secret) -> Result<SigningKey, SignError> {
        let text = secret.expose().strip_prefix(PREFIX).ok_or(SignError::Prefix)?;
        let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| SignError::Encoding)?);
        if !(KEY_MIN_BYTES..=KEY_MAX_BYTES).contains(&bytes.len()) {
            return Err(SignError::Length { bytes: bytes.len() });
        }
        // HMAC pads a short key with zeros to a block and hashes a longer one. `KEY_MAX_BYTES` is one block, so the
        // padded form is the same key, and no error case is left.
        let mut block = Zeroizing::new([0u8; KEY_MAX_BYTES]);
        block[..bytes.len()].copy_from_slice(&bytes);
        Ok(SigningKey(Hmac::new((&*block).into())))
    }

    /// An authenticator that has seen nothing yet.
    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        self.0.clone()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// A new secret in its text form from 32 random bytes, which the caller draws.
#[must_use]
pub fn secret_from_bytes(random: &[u8; 32]) -> Secret {
    let mut text = String::with_capacity(PREFIX.len() + 44);
    text.push_str(PREFIX);
    STANDARD.encode_string(random, &mut text);
    Secret::new(text)
}

/// An authenticator holds two states of SHA-256 and a block of input, and they wipe themselves by a feature of `sha2` and `hmac`:
/// without it, this does not compile.
const _: fn() = || {
    fn is_wiped<T: zeroize::ZeroizeOnDrop>() {}
    is_wiped::<Sha256>();
};
