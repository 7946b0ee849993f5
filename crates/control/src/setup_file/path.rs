//! Where something stands in a set-up document: `tenants[0].apps[1].endpoints[0].headers["x.y"]`.

use std::fmt;

use serde_json::Value;

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into the value of an object's key.
    Key(String),
    /// Into an element of a list.
    Index(usize),
}

/// A place in a document, outermost step first. Its text form is what problems carry; [`Path::parse`] reads it back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(Vec<Step>);

impl Path {
    /// The document itself.
    #[must_use]
    pub const fn root() -> Self {
        Path(Vec::new())
    }

    /// The place `key` of this object.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    /// The element `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// One step further.
    #[must_use]
    pub fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Path(steps)
    }

    /// The steps, outermost first.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The place around this one and the last step to it; `None` for the document itself.
    #[must_use]
    pub fn split_last(&self) -> Option<(Path, &Step)> {
        self.0.split_last().map(|(last, rest)| (Path(rest.to_vec()), last))
    }

    /// Whether this place is `outer` or inside of it.
    #[must_use]
    pub fn is_within(&self, outer: &Path) -> bool {
        self.0.starts_with(&outer.0)
    }

    /// The value at this place.
    #[must_use]
    pub fn get<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(document, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })
    }

    /// The value at this place, to change it.
    pub fn get_mut<'v>(&self, document: &'v mut Value) -> Option<&'v mut Value> {
        self.0.iter().try_fold(document, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        })
    }

    /// Reads the text form. `None` when the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix("[\"") {
                let (key, after) = quoted(inner)?;
                steps.push(Step::Key(key));
                rest = after.strip_prefix(']')?;
            } else if let Some(inner) = rest.strip_prefix('[') {
                let (digits, after) = inner.split_once(']')?;
                steps.push(Step::Index(digits.parse().ok()?));
                rest = after;
            } else {
                let bare = match rest.strip_prefix('.') {
                    Some(bare) if !steps.is_empty() => bare,
                    None if steps.is_empty() => rest,
                    _ => return None,
                };
                let end = bare.find(['.', '[']).unwrap_or(bare.len());
                let (key, after) = bare.split_at(end);
                if !is_bare(key) {
                    return None;
                }
                steps.push(Step::Key(key.to_owned()));
                rest = after;
            }
        }
        Some(Path(steps))
    }
}

/// Splits `abc"rest` behind the closing quote, undoing JSON escapes.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let key = serde_json::from_str(&format!("\"{}\"", &text[..at])).ok()?;
                return Some((key, &text[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if !is_bare(key) => write!(f, "[{}]", Value::String(key.clone()))?,
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

impl From<&serde_path_to_error::Path> for Path {
    fn from(path: &serde_path_to_error::Path) -> Self {
        use serde_path_to_error::Segment;
        let steps = path.iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { variant } => Some(Step::Key(variant.clone())),
            Segment::Unknown => None,
        });
        Path(steps.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_read_back() {
        let plain = Path::root().key("tenants").index(0).key("apps").index(12).key("url");
        assert_eq!(plain.to_string(), "tenants[0].apps[12].url");
        let odd = plain.key("a.b").key("say \"hi\"]\\").index(3).key("é");
        for path in [Path::root(), plain, odd, Path::root().key("")] {
            assert_eq!(Path::parse(&path.to_string()), Some(path.clone()), "{path}");
        }
        for bad in ["a..b", "a.", ".a", "a[", "a[x]", "a[\"b]", "a b", "a[1]b"] {
            assert_eq!(Path::parse(bad), None, "{bad}");
        }
    }
}
