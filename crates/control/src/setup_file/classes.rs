//! Classes of a document, and the places that name one.

use mailrail_types::{ClassId, MailboxClass};

use super::check::{Ids, Scope};
use super::entries::ClassEntry;
use super::path::Path;
use super::problem::code;
use super::read::Problems;

/// The classes that are listed, with defaults where an option is left out.
pub(super) fn check(entries: &[ClassEntry], problems: &mut Problems) -> Vec<MailboxClass> {
    let mut ids = Ids::new("class");
    let mut classes = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let path = Path::root().key("classes").index(at);
        let Some(id) = ids.take::<ClassId>(&entry.id, &path, problems) else { continue };
        let default = MailboxClass::with_defaults(id, entry.tolerates_reordering);
        let mut class = MailboxClass {
            threads: entry.threads.unwrap_or(default.threads),
            payloads_per_thread: entry.payloads_per_thread.unwrap_or(default.payloads_per_thread),
            buckets_max: entry.buckets_max.unwrap_or(default.buckets_max),
            fixed_buckets: entry.fixed_buckets.unwrap_or(default.fixed_buckets),
            ..default
        };
        let priority = entry.priority.map_or(Ok(()), |priority| class.set_priority(priority));
        if let Err(error) = priority.and_then(|()| class.check()) {
            problems.add(code::INVALID_CLASS, &path.key(error.field), error.to_string());
        }
        classes.push(class);
    }
    classes
}

impl Scope<'_> {
    /// The class that a place names, if it names one. One that does not exist is a problem.
    pub(super) fn class(&mut self, name: Option<&str>, path: &Path) -> Option<ClassId> {
        let name = name?;
        let class = ClassId::new(name).ok().filter(|class| self.classes.contains(class));
        if class.is_none() {
            let known = self.classes.iter().map(ClassId::as_str).collect::<Vec<_>>().join(", ");
            let name: String = name.chars().take(64).collect();
            let detail = format!("there is no class '{name}'; add it to classes, or name one of: {known}");
            self.problems.add(code::UNKNOWN_CLASS, path, detail);
        }
        class
    }
}
