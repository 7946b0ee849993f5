//! Encryption of what must not be readable in the database: version | key id | nonce | ciphertext with tag.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::EncryptionKey;

const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 4;
/// 24 bytes are enough that random nonces never meet, so no counter has to survive a crash.
const NONCE_BYTES: usize = 24;
const HEADER_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_BYTES;

/// Why a sealed value cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum SealError {
    #[error("it is too short or of an unknown version")]
    Form,
    #[error("it was sealed with another key")]
    OtherKey,
    #[error("it was changed or belongs to another row")]
    Forged,
}

/// Seals and opens values with one key.
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    key_id: [u8; KEY_ID_BYTES],
}

impl Sealer {
    pub(crate) fn new(key: &EncryptionKey) -> Self {
        let mut key_id = [0; KEY_ID_BYTES];
        key_id.copy_from_slice(&Sha256::digest(key.bytes())[..KEY_ID_BYTES]);
        Self { cipher: XChaCha20Poly1305::new(key.bytes().into()), key_id }
    }

    /// Seals `plain` so that it opens only with the same `place`: a row copied elsewhere does not open there.
    pub(crate) fn seal(&self, place: &[&str], plain: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        rand::fill(&mut nonce);
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &associated(place) })
            .unwrap_or_else(|_| unreachable!("XChaCha20 takes 256 GiB, a row is far below"));
        let mut blob = Vec::with_capacity(HEADER_BYTES + sealed.len());
        blob.push(VERSION);
        blob.extend_from_slice(&self.key_id);
        blob.extend_from_slice(&nonce);
        blob.extend_from_slice(&sealed);
        blob
    }

    pub(crate) fn open(&self, place: &[&str], blob: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (&[VERSION, ref header @ ..], sealed) =
            blob.split_first_chunk::<HEADER_BYTES>().ok_or(SealError::Form)?
        else {
            return Err(SealError::Form);
        };
        let (key_id, nonce) = header.split_at(KEY_ID_BYTES);
        if key_id != self.key_id {
            return Err(SealError::OtherKey);
        }
        let nonce = XNonce::try_from(nonce).map_err(|_| SealError::Form)?;
        self.cipher
            .decrypt(&nonce, Payload { msg: sealed, aad: &associated(place) })
            .map(Zeroizing::new)
            .map_err(|_| SealError::Forged)
    }
}

/// Length-prefixed, so that no two places give the same bytes.
fn associated(place: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in place {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// N16: what is stored is sealed, and opens only in its place and unchanged.
    #[test]
    fn n16_sealed_values_open_only_in_their_place_and_unchanged() {
        let sealer = Sealer::new(&EncryptionKey::generate());
        let blob = sealer.seal(&["acme", "hook", "signing-secret"], b"canary");
        assert_eq!(
            sealer.open(&["acme", "hook", "signing-secret"], &blob).as_deref(),
            Ok(&b"canary".to_vec())
        );
        for other in [
            ["acme", "other", "signing-secret"],
            ["globex", "hook", "signing-secret"],
            ["acmeh", "ook", "signing-secret"],
        ] {
            assert_eq!(sealer.open(&other, &blob), Err(SealError::Forged), "{other:?}");
        }
        assert!(!blob.windows(6).any(|w| w == b"canary"));
        for at in 0..blob.len() {
            let mut changed = blob.clone();
            changed[at] ^= 1;
            assert!(
                sealer.open(&["acme", "hook", "signing-secret"], &changed).is_err(),
                "byte {at} is not protected"
            );
        }
        for short in [0, 1, HEADER_BYTES - 1, HEADER_BYTES, blob.len() - 1] {
            assert!(sealer.open(&["acme", "hook", "signing-secret"], &blob[..short]).is_err());
        }
    }

    #[test]
    fn another_key_is_named_as_such_and_nonces_differ() {
        let (a, b) = (Sealer::new(&EncryptionKey::generate()), Sealer::new(&EncryptionKey::generate()));
        let blob = a.seal(&["x"], b"1");
        assert_eq!(b.open(&["x"], &blob), Err(SealError::OtherKey));
        assert_ne!(blob, a.seal(&["x"], b"1"));
    }
}
