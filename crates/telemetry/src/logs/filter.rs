//! Whether a log filter says what was meant.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// What a filter is, for who wrote one that is none.
const HOW: &str = "write a level (error, warn, info, debug, trace, off), or levels of targets as in info,mailrail_deliver=debug";

/// What is wrong with a log filter, and what to write instead; none when nothing is.
///
/// A word alone that is no level is the name of a target, of which everything is logged, and of all others nothing. Such a word is nearly
/// always a level with a typing error, so it is refused unless it looks like a target of ours or a path.
#[must_use]
pub fn filter_problem(filter: &str) -> Option<String> {
    if EnvFilter::try_new(filter).is_err() {
        return Some(format!("cannot be read: {HOW}"));
    }
    let is_meant = |word: &str| {
        word.parse::<LevelFilter>().is_ok()
            || word.contains(|c: char| "=[]{}:_".contains(c))
            || matches!(word, "audit" | "mailrail")
    };
    let odd = filter.split(',').map(str::trim).find(|word| !word.is_empty() && !is_meant(word))?;
    Some(format!("has '{odd}', which is no level: {HOW}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_would_log_something_else_is_refused() {
        for good in [
            "info",
            "INFO",
            "off",
            "3",
            "",
            "warn,audit=info",
            "info,mailrail_deliver=debug",
            "info, mailrail_match",
            "audit",
            "error,hyper::proto",
            "info,[span{field=x}]=trace",
        ] {
            assert_eq!(filter_problem(good), None, "{good}");
        }
        for bad in ["inof", "verbose", "info,hyper", "mailrail_deliver=loud", "info,=", "a=b=c"] {
            let problem = filter_problem(bad).unwrap_or_else(|| panic!("'{bad}' is taken"));
            assert!(problem.contains("write a level"), "{problem}");
        }
        assert!(filter_problem("warn,inof").is_some_and(|it| it.starts_with("has 'inof'")));
    }
}
