//! Secrets that are planted, and a look for them in any form that a program may show bytes in.

use data_encoding::{BASE64, BASE64URL, HEXLOWER, HEXUPPER};

/// A secret that occurs nowhere else: 32 ASCII characters.
#[derive(Debug, Clone)]
pub(crate) struct Canary {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

impl Canary {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, text: format!("cnry{}", HEXLOWER.encode(&rand::random::<[u8; 14]>())) }
    }

    /// As a secret of Standard Webhooks.
    pub(crate) fn signing_secret(&self) -> String {
        format!("whsec_{}", BASE64.encode(self.text.as_bytes()))
    }
}

/// What is looked for: each canary in each form.
pub(crate) struct Scanner(Vec<(String, String)>);

impl Scanner {
    pub(crate) fn new<'a>(canaries: impl IntoIterator<Item = &'a Canary>) -> Self {
        let mut needles = Vec::new();
        for canary in canaries {
            for (form, text) in forms(canary.text.as_bytes()) {
                needles.push((format!("{} as {form}", canary.name), text));
            }
            // Secrets are given in base64: that text may be shown in another form once more.
            for (form, text) in forms(BASE64.encode(canary.text.as_bytes()).as_bytes()) {
                needles.push((format!("base64 of {} as {form}", canary.name), text));
            }
        }
        Self(needles)
    }

    /// What is there of them: what it is, `: …`, and the text up to it.
    pub(crate) fn find(&self, text: &str) -> Vec<String> {
        let found = self.0.iter().filter_map(|(what, needle)| {
            let at = text.find(needle)?;
            let from = text[..at].char_indices().rev().nth(300).map_or(0, |(at, _)| at);
            Some(format!("{what}: …{}", &text[from..at + needle.len()]))
        });
        found.collect()
    }

    /// What is looked for: what it is called in [`Scanner::find`], and the text.
    pub(crate) fn needles(&self) -> &[(String, String)] {
        &self.0
    }
}

/// The forms of these bytes.
fn forms(bytes: &[u8]) -> Vec<(String, String)> {
    let plain = String::from_utf8(bytes.to_vec()).expect("ASCII");
    let decimals: Vec<String> = bytes.iter().map(u8::to_string).collect();
    let each = |f: fn(&u8) -> String| bytes.iter().map(f).collect::<String>();
    let mut forms = [
        ("plain text", plain),
        ("hex", HEXLOWER.encode(bytes)),
        ("HEX", HEXUPPER.encode(bytes)),
        ("a list of bytes", decimals.join(", ")),
        ("percent-encoded", each(|b| format!("%{b:02X}"))),
        ("percent-encoded, lower case", each(|b| format!("%{b:02x}"))),
        ("escaped", each(|b| format!("\\u{b:04x}"))),
    ]
    .map(|(form, text)| (form.to_owned(), text))
    .to_vec();
    // As a part of something longer that is encoded: where it begins decides about the form.
    for before in 0..3 {
        let longer = [&vec![b'x'; before], bytes].concat();
        let whole = longer.len() / 3 * 3;
        let skip = before.div_ceil(3) * 4;
        for (alphabet, name) in [(BASE64, "base64"), (BASE64URL, "base64 for URLs")] {
            let text = alphabet.encode(&longer[..whole])[skip..].to_owned();
            forms.push((format!("{name} after {before} bytes"), text));
        }
    }
    forms
}
