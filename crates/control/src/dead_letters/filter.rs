//! Texts → a filter, and back.

use std::str::FromStr;

use mailrail_store::EVENT_TYPE_NAME_MAX;
use mailrail_types::{DeadReason, DeliveryId, IdError, LetterFilter, Timestamp};

use super::Trouble;
use super::shapes::FilterParts;

impl FilterParts {
    /// The filter that these texts say.
    ///
    /// # Errors
    /// [`Trouble::Filter`] with the first part that cannot be meant.
    pub fn parse(&self) -> Result<LetterFilter, Trouble> {
        if self.ids.len() > LetterFilter::IDS_MAX {
            return wrong("ids", format!("name at most {} deliveries", LetterFilter::IDS_MAX));
        }
        if self.event_type.as_ref().is_some_and(|name| name.len() > EVENT_TYPE_NAME_MAX) {
            return wrong("event_type", format!("an event type has at most {EVENT_TYPE_NAME_MAX} bytes"));
        }
        let filter = LetterFilter {
            tenant: id("tenant", self.tenant.as_deref())?,
            endpoint: id("endpoint", self.endpoint.as_deref())?,
            event_type: self.event_type.clone().filter(|name| !name.is_empty()),
            reasons: reasons(&self.reasons)?,
            since: self.since_ms.map(Timestamp),
            until: self.until_ms.map(Timestamp),
            ids: self.ids.iter().map(|text| delivery(text)).collect::<Result<_, _>>()?,
        };
        if filter.endpoint.is_some() && filter.tenant.is_none() {
            return wrong(
                "tenant",
                "name the tenant of the endpoint too: two tenants may have one of this name",
            );
        }
        if let (Some(since), Some(until)) = (filter.since, filter.until)
            && since >= until
        {
            return wrong("until_ms", "it must be later than since_ms");
        }
        Ok(filter)
    }
}

impl From<&LetterFilter> for FilterParts {
    fn from(filter: &LetterFilter) -> Self {
        Self {
            tenant: filter.tenant.as_ref().map(ToString::to_string),
            endpoint: filter.endpoint.as_ref().map(ToString::to_string),
            event_type: filter.event_type.clone(),
            reasons: filter.reasons.iter().map(|it| it.code().to_owned()).collect(),
            since_ms: filter.since.map(Timestamp::millis),
            until_ms: filter.until.map(Timestamp::millis),
            ids: filter.ids.iter().map(ToString::to_string).collect(),
        }
    }
}

fn wrong<T>(field: &'static str, detail: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Filter { field, detail: detail.into() })
}

fn id<T: FromStr<Err = IdError>>(field: &'static str, text: Option<&str>) -> Result<Option<T>, Trouble> {
    text.map(str::parse).transpose().or_else(|error: IdError| wrong(field, error.to_string()))
}

/// Each of them once: there are no more than reasons.
fn reasons(codes: &[String]) -> Result<Vec<DeadReason>, Trouble> {
    let mut reasons = Vec::new();
    for code in codes {
        let reason = reason(code)?;
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    Ok(reasons)
}

fn reason(code: &str) -> Result<DeadReason, Trouble> {
    match DeadReason::from_code(code) {
        Some(reason) => Ok(reason),
        None => {
            let known: Vec<_> = DeadReason::ALL.iter().map(|it| it.code()).collect();
            wrong("reasons", format!("'{}' is no reason; known: {}", shown(code), known.join(", ")))
        }
    }
}

fn delivery(text: &str) -> Result<DeliveryId, Trouble> {
    text.parse().or_else(|error: IdError| wrong("ids", error.to_string()))
}

/// A caller's own text, short enough for an answer.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(parts: &FilterParts) -> &'static str {
        match parts.parse() {
            Err(Trouble::Filter { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_field() {
        let text = |text: &str| Some(text.to_owned());
        let none = FilterParts::default;
        assert!(none().parse().expect("everything").is_empty());
        assert_eq!(field(&FilterParts { tenant: text("A"), ..none() }), "tenant");
        assert_eq!(field(&FilterParts { endpoint: text("main"), ..none() }), "tenant");
        assert_eq!(field(&FilterParts { tenant: text("a"), endpoint: text("/"), ..none() }), "endpoint");
        assert_eq!(field(&FilterParts { reasons: vec!["tired".to_owned()], ..none() }), "reasons");
        assert_eq!(field(&FilterParts { ids: vec!["evt_x".to_owned()], ..none() }), "ids");
        assert_eq!(field(&FilterParts { since_ms: Some(5), until_ms: Some(5), ..none() }), "until_ms");
        let id = "dlv_iyygiqs6wlo4ua36axol474yee".to_owned();
        assert_eq!(field(&FilterParts { ids: vec![id.clone(); LetterFilter::IDS_MAX + 1], ..none() }), "ids");
        let long = |bytes| FilterParts { event_type: Some("x".repeat(bytes)), ..none() };
        assert_eq!(field(&long(EVENT_TYPE_NAME_MAX + 1)), "event_type");
        assert!(long(EVENT_TYPE_NAME_MAX).parse().is_ok());
        let many = FilterParts { reasons: vec!["gone".to_owned(); 1_000], ..none() };
        assert_eq!(many.parse().expect("good").reasons, [DeadReason::Gone]);
        let whole = FilterParts {
            tenant: text("acme"),
            endpoint: text("main"),
            event_type: text("a/b"),
            reasons: vec!["gone".to_owned(), "expired".to_owned()],
            since_ms: Some(-5),
            until_ms: Some(5),
            ids: vec![id],
        };
        assert_eq!(FilterParts::from(&whole.parse().expect("good")), whole);
    }
}
