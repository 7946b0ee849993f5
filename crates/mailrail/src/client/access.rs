//! Where the control API is and with which token it is called.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use mailrail_egress::operator::ApiClient;

/// Where `mailrail dev` keeps the operator token, below the folder it is started in.
const DEV_TOKEN_FILE: &str = "mailrail-data/admin-token";
/// Most bytes of a token file: more is another file.
const TOKEN_FILE_MAX_BYTES: u64 = 4096;

/// The control API to call.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Address of the control API
    #[arg(long, env = "MAILRAIL_CONTROL_URL", default_value = "http://127.0.0.1:8081", global = true)]
    pub(crate) url: String,
    /// Operator token; other users of this machine can see it: prefer the variable or a file
    #[arg(long, env = "MAILRAIL_ADMIN_TOKEN", hide_env_values = true, global = true)]
    pub(crate) token: Option<String>,
    /// File with the operator token; goes before --token [default: mailrail-data/admin-token, where `mailrail dev` keeps it]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
}

impl ControlArgs {
    /// A client of it.
    ///
    /// # Errors
    /// When there is no token, or the address or the token cannot be used.
    pub(crate) fn client(&self) -> Result<ApiClient> {
        let token = self.find_token()?;
        Ok(ApiClient::new(&self.url, Some(&token))?)
    }

    fn find_token(&self) -> Result<String> {
        // The file first: the token may come from a variable that was set for something else.
        if let Some(file) = &self.token_file {
            return read_token(file);
        }
        if let Some(token) = self.token.as_deref().map(str::trim).filter(|token| !token.is_empty()) {
            return Ok(token.to_owned());
        }
        if Path::new(DEV_TOKEN_FILE).exists() {
            return read_token(Path::new(DEV_TOKEN_FILE));
        }
        bail!(
            "there is no operator token: set MAILRAIL_ADMIN_TOKEN or give --token-file; {DEV_TOKEN_FILE} does not exist here"
        )
    }
}

fn read_token(file: &Path) -> Result<String> {
    let size = std::fs::metadata(file).with_context(|| format!("token file {}", file.display()))?.len();
    if size > TOKEN_FILE_MAX_BYTES {
        bail!("token file {} has {size} bytes: it is not a token", file.display());
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("token file {}", file.display()))?;
    let token = text.trim();
    if token.is_empty() {
        bail!("token file {} is empty", file.display());
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(token: Option<&str>, file: Option<PathBuf>) -> ControlArgs {
        ControlArgs {
            url: "http://127.0.0.1:1".to_owned(),
            token: token.map(str::to_owned),
            token_file: file,
        }
    }

    #[test]
    fn a_token_comes_from_the_argument_or_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        assert!(args(None, Some(file.clone())).find_token().is_err(), "no file");
        std::fs::write(&file, " \n").expect("write");
        assert!(args(None, Some(file.clone())).find_token().is_err(), "empty");
        std::fs::write(&file, "from-file\n").expect("write");
        assert_eq!(args(None, Some(file.clone())).find_token().expect("a token"), "from-file");
        assert_eq!(args(Some("given"), Some(file.clone())).find_token().expect("a token"), "from-file");
        assert_eq!(args(Some(" given "), None).find_token().expect("a token"), "given");
        assert!(
            args(Some(" "), None).find_token().is_err(),
            "an empty variable is none, and nothing is here"
        );
        std::fs::write(&file, "x".repeat(5000)).expect("write");
        assert!(args(None, Some(file)).find_token().is_err(), "not a token");
    }
}
