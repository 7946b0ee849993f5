//! Ids in paths.

use std::fmt::Write as _;

/// An id as one segment of a path: what could lead elsewhere is refused by the API under this name, and nowhere else.
pub(super) fn segment(id: &str) -> String {
    id.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && id.len() > 2) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_one_segment() {
        assert_eq!(segment("a-b_c.1"), "a-b_c.1");
        assert_eq!(segment("../x?y#z"), "..%2Fx%3Fy%23z");
        assert_eq!((segment("..").as_str(), segment(".").as_str()), ("%2E%2E", "%2E"));
    }
}
