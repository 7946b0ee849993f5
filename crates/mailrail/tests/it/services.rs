//! Addresses of real services.

/// The address in `variable`; `None`, said aloud, when it is not there and nobody insists.
pub(crate) fn address(variable: &str) -> Option<String> {
    match std::env::var(variable) {
        Ok(value) if !value.is_empty() => Some(value),
        _ if std::env::var("MAILRAIL_TEST_REQUIRE").as_deref() == Ok("1") => {
            panic!("{variable} is not set and MAILRAIL_TEST_REQUIRE=1: run the tests with `make test`")
        }
        _ => {
            println!("skipped: {variable} is not set; run `make test`");
            None
        }
    }
}
