//! The torture list's URLs (rows T01 to T18), with the code that each must give.

use super::*;

fn strict(url: &str) -> Result<String, &'static str> {
    check_url(url, &UrlPolicy::default()).map(String::from).map_err(UrlError::code)
}

fn with(url: &str, change: impl FnOnce(&mut UrlPolicy)) -> Result<String, &'static str> {
    let mut policy = UrlPolicy::default();
    change(&mut policy);
    check_url(url, &policy).map(String::from).map_err(UrlError::code)
}

#[test]
fn good_urls_are_stored_in_their_plain_form() {
    for (given, stored) in [
        ("https://hooks.acme.com/in", "https://hooks.acme.com/in"),
        ("https://hooks.acme.com", "https://hooks.acme.com/"),
        ("HTTPS://Hooks.ACME.com:443/In?a=b&c", "https://hooks.acme.com/In?a=b&c"),
        ("https://hooks.acme.com.:8443/in", "https://hooks.acme.com:8443/in"),
        ("https://hooks.acme.com/a/../b", "https://hooks.acme.com/b"),
        ("https://hooks.acme.com/at@sign/é?q=|^`{}", "https://hooks.acme.com/at@sign/%C3%A9?q=|^`{}"),
        ("https://b\u{fc}cher.de/x", "https://xn--bcher-kva.de/x"),
        ("https://_dmarc.a_b.acme.com/", "https://_dmarc.a_b.acme.com/"),
        ("https://localhost.acme.com/", "https://localhost.acme.com/"),
    ] {
        assert_eq!(strict(given).as_deref(), Ok(stored), "{given}");
    }
}

/// N17, X02: T01 to T07.
/// T01 to T07: every way to write an address is the address.
#[test]
fn n17_t01_to_t07_ip_literals_in_every_disguise() {
    let denied = [
        "127.0.0.1",
        "10.0.0.5",
        "169.254.169.254",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "127.1",
        "0",
        "127.0.0.1.",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[fec0::1]",
        "[5f00::1]",
    ];
    for host in denied {
        let url = format!("https://{host}/latest/meta-data/");
        assert_eq!(strict(&url), Err("ip_literal_not_allowed"), "{url}");
        assert_eq!(with(&url, |p| p.allow_ip_literals = true), Err("address_not_allowed"), "{url}");
    }
    assert_eq!(strict("https://[fe80::1%25eth0]/"), Err("malformed_url"));
    let public = with("https://1.1.1.1:8443/x", |p| p.allow_ip_literals = true);
    assert_eq!(public.as_deref(), Ok("https://1.1.1.1:8443/x"));
}

#[test]
fn n17_t13_t14_userinfo_and_parser_differences() {
    for url in [
        "https://good.acme.com@127.0.0.1/",
        "https://u:p@good.acme.com/",
        "https://@good.acme.com/",
        "https://:@a.acme.com/",
        "https://good.acme.com%2f@evil.acme.com/",
        "https://a@b@c.acme.com/",
    ] {
        assert_eq!(strict(url), Err("userinfo_not_allowed"), "{url}");
    }
    assert_eq!(strict("https://good.acme.com\\@127.0.0.1/"), Err("malformed_url"));
    assert_eq!(strict("https://good.acme.com#@evil.acme.com/"), Err("fragment_not_allowed"));
    assert_eq!(strict("https://good.acme.com/#"), Err("fragment_not_allowed"));
    assert_eq!(
        strict("https://good.acme.com?@evil.acme.com/").as_deref(),
        Ok("https://good.acme.com/?@evil.acme.com/")
    );
}

#[test]
fn n17_t15_malformed_urls() {
    let long_path = format!("https://a.acme.com/{}", "x".repeat(2049 - 19));
    let long_label = format!("https://{}.acme.com/", "x".repeat(70));
    let long_name = format!("https://{}acme.com/", "abcdefg.".repeat(31));
    for url in [
        "",
        "x",
        "//host.acme.com",
        "https:",
        "https://",
        "https:///",
        "https:a.acme.com",
        "https:/a.acme.com",
        "https:///a.acme.com/",
        "https://a.ac\tme.com/",
        "https://a.acme.com/\r\nx",
        "https://a.acme.com/\nx",
        "https://a.acme.com/\0",
        " https://a.acme.com/",
        "https://a.acme.com/ ",
        "https://a.acme.com/\u{7f}",
        "\u{feff}https://a.acme.com/",
        "https://a..acme.com/",
        "https://-a.acme.com/",
        "https://a-.acme.com/",
        "https://.acme.com/",
        "https://a.acme.com../",
        "https://a!b.acme.com/",
        "https://*.acme.com/",
        "https://a.acme.com:65536/",
        "https://a.acme.com:x/",
        "https://[example.com]/",
        "https://1.2.3.4.5/",
        &long_path,
        &long_label,
        &long_name,
    ] {
        assert_eq!(strict(url), Err("malformed_url"), "{url:?}");
    }
    assert!(strict(&long_path[..2048]).is_ok());
    assert!(strict(&format!("https://{}.acme.com/", "x".repeat(63))).is_ok());
}

#[test]
fn n17_t16_internal_hosts() {
    for host in [
        "ⅼocalhost",
        "localhost",
        "LOCALHOST.",
        "foo.localhost",
        "kafka",
        "x.svc.cluster.local",
        "a.b.svc",
        "printer.local",
        "metadata.google.internal",
        "router.home.arpa",
        "a.test",
        "a.invalid",
        "a.example",
        "a.onion",
        "a.localdomain",
    ] {
        let url = format!("https://{host}/");
        assert_eq!(strict(&url), Err("host_not_allowed"), "{url}");
        assert!(with(&url, |p| p.allow_internal_names = true).is_ok(), "{url}");
    }
    let own = |p: &mut UrlPolicy| {
        p.deny_hosts = vec!["in.mailrail.com".to_owned()];
        p.allow_internal_names = true;
    };
    assert_eq!(with("https://IN.mailrail.com./v1/events", own), Err("host_not_allowed"), "T42");
    assert!(with("https://in.mailrail.com.evil.com/", own).is_ok());
}

#[test]
fn n17_t17_unicode_names_are_stored_in_ascii_or_refused() {
    for url in
        ["https://xn--a/", "https://acme.org.xn--/", "https://xn--acme-.org/", "https://\u{202e}moc.acme/"]
    {
        assert!(strict(url).is_err(), "{url}");
    }
    let mixed = strict("https://аcme.com/");
    assert!(mixed.is_err() || mixed.as_ref().is_ok_and(|u| u.starts_with("https://xn--")), "{mixed:?}");
}

#[test]
fn n17_t18_schemes_and_ports() {
    for scheme in [
        "file:///etc/passwd",
        "gopher://a.acme.com/",
        "ftp://a.acme.com/",
        "javascript:alert(1)",
        "ws://a.acme.com/",
    ] {
        assert_eq!(strict(scheme), Err("scheme_not_allowed"), "{scheme}");
    }
    assert_eq!(strict("http://a.acme.com/"), Err("scheme_not_allowed"));
    assert_eq!(with("http://a.acme.com/", |p| p.allow_http = true).as_deref(), Ok("http://a.acme.com/"));
    assert_eq!(with("http://a.acme.com:80/", |p| p.allow_http = true).as_deref(), Ok("http://a.acme.com/"));
    for port in [0, 1, 22, 25, 80, 110, 1023, 2375, 6379, 9092] {
        assert_eq!(strict(&format!("https://a.acme.com:{port}/")), Err("port_not_allowed"), "{port}");
    }
    for port in [1024, 3000, 8080, 8443, 40000, 65535] {
        assert!(strict(&format!("https://a.acme.com:{port}/")).is_ok(), "{port}");
    }
}

#[test]
fn refusals_that_a_setting_lifts_are_told_apart() {
    let depends = |url: &str| check_url(url, &UrlPolicy::default()).unwrap_err().depends_on_policy();
    for url in ["http://a.acme.com/", "https://127.0.0.1/", "https://kafka/"] {
        assert!(depends(url), "{url}");
    }
    for url in
        ["ftp://a.acme.com/", "https://u@a.acme.com/", "https://a.acme.com/#x", "https://a.acme.com:22/", "x"]
    {
        assert!(!depends(url), "{url}");
    }
    assert!(UrlError::Scheme { http: true }.to_string().contains("operator"));
}
