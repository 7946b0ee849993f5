//! Files and folders of embedded parts, which are their owner's business alone: tenants' mail, keys and secrets are in them.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Makes a folder, and those above it, where they are missing. What is there stays as it is.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Makes an empty file where there is none. One that is there stays as it is.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::assemble::open_log;
    use crate::settings::Settings;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_there_stays_as_it_is() {
        let all = tempfile::tempdir().expect("a folder");
        let (theirs, ours) = (all.path().join("theirs"), all.path().join("theirs/a/b"));
        std::fs::create_dir(&theirs).expect("made");
        let before = mode(&theirs);
        folder(&ours).expect("made");
        folder(&ours).expect("made before");
        assert_eq!((mode(&theirs), mode(&ours)), (before, FOLDER_MODE));
        let kept = ours.join("kept");
        std::fs::write(&kept, "x").expect("written");
        file(&kept).expect("it is there");
        assert_eq!(std::fs::read(&kept).expect("read"), b"x");
        assert!(file(&ours.join("no/such")).is_err() && folder(&kept).is_err());
    }

    #[tokio::test]
    async fn a_new_local_log_is_its_owners_alone() {
        let all = tempfile::tempdir().expect("a folder");
        let settings = Settings::dev(all.path());
        let log = open_log(&settings).expect("a log");
        assert_eq!(mode(&settings.log.path), FOLDER_MODE);
        assert_eq!(mode(&settings.log.path.join("log.db")), FILE_MODE);
        log.close(std::time::Duration::from_secs(5)).await;
    }
}
