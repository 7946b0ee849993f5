//! The documents that people start from are right.

use super::*;

fn assert_good(name: &str, text: &str) {
    let mut document = parse_yaml(text).expect(name);
    let variable = |variable: &str| {
        Some(match variable {
            "SHOP_SECRET" => "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=".to_owned(),
            _ => "0123456789012345678901234567890123456789".to_owned(),
        })
    };
    assert_eq!(resolve_env(&mut document, &variable), [], "{name}");
    let any_url = |url: &str| Ok(url.to_owned());
    let existing = Existing { tenants: HashMap::new(), ..existing() };
    let checked = check_setup(document, &existing, &any_url).expect(name);
    assert!(checked.warnings.is_empty(), "{name}: {:?}", checked.warnings);
}

#[test]
fn the_examples_can_be_applied() {
    assert_good("first-setup", include_str!("../../../../../examples/first-setup.yaml"));
    assert_good("forward-github", include_str!("../../../../../examples/forward-github.yaml"));
}

#[test]
fn the_document_of_the_reference_can_be_applied() {
    let page = include_str!("../../../../../docs/reference/setup-file.md");
    let (_, rest) = page.split_once("```yaml\n").expect("a document");
    let (text, _) = rest.split_once("```").expect("its end");
    assert_good("setup-file.md", text);
}
