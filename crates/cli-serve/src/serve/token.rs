//! The token of the server: of the command line, of a file, or of the environment.

use crate::args::Serve;
use std::env::VarError;
use weftwork_cli_base::CliError;

/// Environment variable for the token.
const VARIABLE: &str = "WEFT_SERVE_TOKEN";
/// Maximum size of a file with a token in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// A token, and the setting that it comes from.
pub(super) struct GivenToken {
    pub(super) token: String,
    pub(super) setting: &'static str,
}

/// Returns the token that the operator gives; `None` if none is given.
///
/// # Errors
/// Two settings give one, or its file or the variable cannot be read.
pub(super) fn given_token(args: &Serve) -> Result<Option<GivenToken>, CliError> {
    let bad = |reason: String| CliError::BadInput { reason };
    let of_variable = match std::env::var(VARIABLE) {
        Ok(token) => Some(token).filter(|token| !token.is_empty()),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => {
            return Err(bad(format!("the environment variable {VARIABLE} is not UTF-8")));
        }
    };
    // The command line has at most one of its flags.
    let flag = [
        (args.token.is_some(), "--token"),
        (args.token_file.is_some(), "--token-file"),
        (args.no_auth, "--no-auth"),
    ];
    let flag = flag.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name);
    if let Some(flag) = flag
        && of_variable.is_some()
    {
        return Err(bad(format!(
            "{flag} is given, and the environment variable {VARIABLE} sets a token; leave one of them \
             out"
        )));
    }
    if let Some(token) = of_variable {
        return Ok(Some(GivenToken { token, setting: VARIABLE }));
    }
    if let Some(token) = &args.token {
        return Ok(Some(GivenToken { token: token.clone(), setting: "--token" }));
    }
    let Some(file) = &args.token_file else { return Ok(None) };
    let unreadable = |reason: String| bad(format!("--token-file {}: {reason}", file.display()));
    let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable(format!("{size} bytes; expected at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let token = text.trim_end_matches(['\n', '\r']).to_owned();
    Ok(Some(GivenToken { token, setting: "--token-file" }))
}
