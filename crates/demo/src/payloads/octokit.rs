//! The npm package `@octokit/webhooks-examples`: fetched at run time with the user's own npm, kept in the user's cache.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// The package.
pub(super) const PACKAGE: &str = "@octokit/webhooks-examples";

/// Pinned, so that every run plays the same.
pub(super) const VERSION: &str = "7.6.1";

/// The file with the payloads of github.com.
const FILE: &str = "node_modules/@octokit/webhooks-examples/api.github.com/index.json";

/// npm gets this long: the package is 400 KB, so more means that there is no way to the registry.
const FETCH_MAX: Duration = Duration::from_secs(60);

/// Most that is read of the file, which is 4.3 MB.
const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The text of the file; or, as the end of a sentence, why there is none.
pub(super) async fn fetch() -> Result<String, String> {
    let cache = cache_folder(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
        .ok_or("there is no cache folder: set XDG_CACHE_HOME or HOME")?;
    fetch_into(&cache, "npm", FETCH_MAX).await
}

fn cache_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    Some(base.or_else(|| Some(variable("HOME")?.join(".cache")))?.join("mailrail"))
}

async fn fetch_into(cache: &Path, npm: &str, wait: Duration) -> Result<String, String> {
    let kept = cache.join(format!("webhooks-examples-{VERSION}"));
    if let Ok(text) = read(&kept.join(FILE)).await {
        return Ok(text);
    }
    let cannot = |error: io::Error| format!("the cache folder {} cannot be used: {error}", cache.display());
    tokio::fs::create_dir_all(cache).await.map_err(cannot)?;
    // Fetched beside its place and renamed, so that a broken fetch leaves nothing that looks whole.
    let fresh = cache.join(format!("webhooks-examples-{VERSION}.{}.part", std::process::id()));
    let text = async {
        tokio::fs::create_dir_all(&fresh).await.map_err(cannot)?;
        install(npm, &fresh, wait).await?;
        let text =
            read(&fresh.join(FILE)).await.map_err(|error| format!("the package is not as known: {error}"))?;
        // Somebody else may have been quicker, or left a broken folder: what was read is good all the same.
        if let Err(error) = tokio::fs::rename(&fresh, &kept).await {
            tracing::debug!(%error, "the fetched package was not kept");
        }
        Ok(text)
    }
    .await;
    if let Err(error) = tokio::fs::remove_dir_all(&fresh).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, "a part of a fetch was left behind");
    }
    text
}

async fn install(npm: &str, folder: &Path, wait: Duration) -> Result<(), String> {
    let mut child = Command::new(npm)
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--no-package-lock"])
        .args(["--no-update-notifier", "--loglevel=error", "--prefix"])
        .arg(folder)
        .arg(format!("{PACKAGE}@{VERSION}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "npm is not installed".to_owned(),
            _ => format!("npm cannot be started: {error}"),
        })?;
    match tokio::time::timeout(wait, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(_)) => Err("npm could not fetch the package (no network?)".to_owned()),
        Ok(Err(error)) => Err(format!("npm was lost: {error}")),
        Err(_) => Err(format!("npm did not bring the package within {} s", wait.as_secs())),
    }
}

async fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    tokio::fs::File::open(path).await?.take(FILE_MAX_BYTES).read_to_string(&mut text).await?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program in place of npm. It finds the folder in the argument after `--prefix`.
    fn stand_in(folder: &Path, script: &str) -> String {
        let path = folder.join("npm");
        let text = format!("#!/bin/sh\nwhile [ \"$1\" != --prefix ]; do shift; done\n{script}\n");
        std::fs::write(&path, text).expect("script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        path.to_str().expect("text").to_owned()
    }

    fn left_over(cache: &Path) -> Vec<String> {
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.expect("entry").file_name().into_string().expect("text")
        };
        std::fs::read_dir(cache).map(|entries| entries.map(name).collect()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_package_is_fetched_once_and_then_kept() {
        let folder = tempfile::tempdir().expect("folder");
        let cache = folder.path().join("cache");
        let npm =
            stand_in(folder.path(), &format!("mkdir -p \"$2/$(dirname {FILE})\"; echo '[]' > \"$2/{FILE}\""));
        assert_eq!(fetch_into(&cache, &npm, FETCH_MAX).await.as_deref(), Ok("[]\n"));
        assert_eq!(left_over(&cache), [format!("webhooks-examples-{VERSION}")]);
        assert_eq!(fetch_into(&cache, "no-such-program", FETCH_MAX).await.as_deref(), Ok("[]\n"));
    }

    #[tokio::test]
    async fn a_failed_fetch_says_why_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let cache = folder.path().join("cache");
        let missing = fetch_into(&cache, "no-such-program", FETCH_MAX).await;
        assert_eq!(missing, Err("npm is not installed".to_owned()));
        let failing = fetch_into(&cache, &stand_in(folder.path(), "exit 1"), FETCH_MAX).await;
        assert!(failing.expect_err("fails").contains("could not fetch"));
        let empty = fetch_into(&cache, &stand_in(folder.path(), "exit 0"), FETCH_MAX).await;
        assert!(empty.expect_err("fails").contains("not as known"));
        let stuck =
            fetch_into(&cache, &stand_in(folder.path(), "exec sleep 600"), Duration::from_millis(1)).await;
        assert!(stuck.expect_err("fails").contains("did not bring"));
        assert_eq!(left_over(&cache), Vec::<String>::new());
    }

    #[test]
    fn the_cache_folder_follows_the_environment() {
        let of = |xdg: Option<&str>, home: Option<&str>| {
            cache_folder(|name| if name == "HOME" { home } else { xdg }.map(PathBuf::from))
        };
        assert_eq!(of(Some("/x"), Some("/h")), Some("/x/mailrail".into()));
        assert_eq!(of(None, Some("/h")), Some("/h/.cache/mailrail".into()));
        assert_eq!(of(Some("relative"), Some("/h")), Some("/h/.cache/mailrail".into()));
        assert_eq!(of(None, None), None);
    }
}
