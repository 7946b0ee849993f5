//! Where a forwarded webhook goes.

/// The URL of a cell with what followed the integration in the path that the webhook came by, its query included.
///
/// Nothing of either is changed, dropped or put in another order: a query goes behind the cell's own, also when both have
/// the same key. Which of two counts is the receiver's to say, as it is for every URL that has a key twice.
#[must_use]
pub fn cell_url(base: &str, path: &str) -> String {
    let (base, base_query) = base.split_once('?').unwrap_or((base, ""));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let base = if path.starts_with('/') { base.trim_end_matches('/') } else { base };
    let query: Vec<&str> = [base_query, query].into_iter().filter(|q| !q.is_empty()).collect();
    if query.is_empty() { format!("{base}{path}") } else { format!("{base}{path}?{}", query.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_integration_goes_behind_the_cells_own_url() {
        for (base, path, expected) in [
            ("https://a.example/hooks", "", "https://a.example/hooks"),
            ("https://a.example/hooks/", "", "https://a.example/hooks/"),
            ("https://a.example/hooks/", "/x", "https://a.example/hooks/x"),
            ("https://a.example/hooks", "/x%2F//y?", "https://a.example/hooks/x%2F//y"),
            ("https://a.example/hooks", "?b=2", "https://a.example/hooks?b=2"),
            ("https://a.example/hooks?a=1", "/x?b=2", "https://a.example/hooks/x?a=1&b=2"),
        ] {
            assert_eq!(cell_url(base, path), expected, "{base} {path}");
        }
    }

    #[test]
    fn a_key_that_both_have_is_there_twice_the_cells_own_first() {
        let url = cell_url("https://a.example/?token=ours&a=1", "?a=2&token=theirs&a=2");
        assert_eq!(url, "https://a.example/?token=ours&a=1&a=2&token=theirs&a=2");
    }
}
