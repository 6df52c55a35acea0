//! The commit of the repository in which a crate is compiled.

use proc_macro2::TokenStream;
use quote::quote;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn expand() -> TokenStream {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let Some(sha) = git(&folder, &["rev-parse", "--short=12", "HEAD"]) else {
        return quote!(::core::option::Option::<&'static str>::None);
    };
    let changed = git(&folder, &["status", "--porcelain", "--untracked-files=no"]);
    let is_clean = changed.is_some_and(|files| files.is_empty());
    let version = if is_clean { sha } else { format!("{sha}-dirty") };
    // The compiler notes files that are included, and git appends to this one with each commit.
    let log = git(&folder, &["rev-parse", "--git-path", "logs/HEAD"]).map(|log| folder.join(log));
    let log = log.filter(|log| log.is_file()).and_then(|log| log.to_str().map(str::to_owned));
    let noted = log.map(|log| {
        quote!(
            const _: &[u8] = ::core::include_bytes!(#log);
        )
    });
    quote!({ #noted ::core::option::Option::<&'static str>::Some(#version) })
}

/// Returns what a command of git prints, if it succeeds.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(folder).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
