//! Media types as far as the front door looks into them; the text itself is kept untouched.

pub(crate) use mailrail_surfaces::is_json;

/// `type/subtype` in lower case, without parameters.
pub(crate) fn essence(text: &str) -> String {
    let end = text.find(';').unwrap_or(text.len());
    text[..end].trim().to_ascii_lowercase()
}

/// The `charset` parameter in lower case.
pub(crate) fn charset(text: &str) -> Option<String> {
    text.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("charset").then(|| value.to_ascii_lowercase())
    })
}

/// Whether it can be a media type and an HTTP header value: two tokens, then parameters of visible ASCII.
pub(crate) fn is_valid(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let visible = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    visible && text.trim() == text && essence(text).split_once('/').is_some_and(|(a, b)| token(a) && token(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_whatever_case_and_spacing() {
        assert_eq!(essence("Application/JSON ; Charset=\"UTF-8\""), "application/json");
        assert_eq!(charset("text/plain; a=b; Charset = \"UTF-8\"").as_deref(), Some("utf-8"));
        assert_eq!(charset("text/plain"), None);
    }

    #[test]
    fn what_cannot_be_a_media_type_is_not_one() {
        for bad in ["", "json", "/json", "a/", "a b/c", "a/b\u{7f}", "a/é", " a/b", "a/b;\tx=1"] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }
}
