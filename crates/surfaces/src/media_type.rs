//! Whether a media type says that the bytes are JSON.

/// Whether it declares JSON: `*/json` or `*/*+json` (CloudEvents JSON format 1.0.2, section 3.1.1).
#[must_use]
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.split_once('/').is_some_and(|(_, subtype)| subtype == "json" || subtype.ends_with("+json"))
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn json_whatever_case_and_parameters() {
        for json in ["application/json", "text/json", "application/vnd.x+json; v=1", "APPLICATION/JSON ;a=b"]
        {
            assert!(is_json(json), "{json}");
        }
        for other in [
            "",
            "application/xml",
            "application/jsonx",
            "json",
            "application/json-seq",
            "text/plain; a=+json",
        ] {
            assert!(!is_json(other), "{other}");
        }
    }
}
