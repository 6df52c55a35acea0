//! Servers as processes, each with its descendants in a group of its own.

use crate::McpError;
use crate::secrets::Secrets;
use crate::text::short;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Variable with the mark of a server. Its descendants inherit it, also those outside of its group.
const MARK: &str = "WEFT_MCP_SERVER";
/// Kills the group `$1` after the end of this program, which closes the input, unless a line says that
/// this was done; and then, on Linux, all processes with the mark `$2`. It looks for them three times:
/// one that is being replaced by another program has no environment for a moment.
const SWEEP: &str = "read -r done; [ -n \"$done\" ] || kill -s KILL -- \"-$1\"
for pause in 0.05 0.2 0; do
  grep -lszxF -- \"$2\" /proc/[0-9]*/environ | while IFS=/ read -r _ _ process _; do
    kill -s KILL \"$process\"
  done
  sleep \"$pause\"
done";
/// Length of the kept end of a server's standard error, in bytes.
const TAIL_BYTES: usize = 8_000;
/// Length of the part of it that is shown, in characters. A secret at its start is known as a whole.
const WORDS_CHARS: usize = 2_000;
/// Time for reading the standard error of a server that did not start.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A running server. Dropping it kills the server and all processes of its group, and those with its
/// mark.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    tail: Tail,
    /// Reads the standard error until its end.
    errors: Option<JoinHandle<()>>,
    /// The input of a process that kills the server's processes once this program has ended, however
    /// it does.
    watcher: Option<ChildStdin>,
}

/// The end of what a server wrote to its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Process {
    /// Starts a program without a shell, with this environment and no other.
    pub(crate) fn start(
        server: &str,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        folder: &Path,
    ) -> Result<(Self, ChildStdin, ChildStdout), McpError> {
        let bad = |problem: String| McpError::Start { server: server.to_owned(), problem };
        let mark = new_mark();
        let mut child = Command::new(command)
            .args(args)
            .env_clear()
            .envs(env)
            .env(MARK, &mark)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| bad(format!("`{}`: {error}", short(command, 200))))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let Some((input, output)) = child.stdin.take().zip(child.stdout.take()) else {
            return Err(bad("its input and output cannot be opened".to_owned()));
        };
        let tail = Tail::default();
        let errors = child.stderr.take().map(|errors| tokio::spawn(tail.clone().follow(errors)));
        let watcher = group.and_then(|group| start_watcher(group, &mark));
        Ok((Self { child, group, tail, errors, watcher }, input, output))
    }

    /// The id of the process, for tests and operators.
    pub(crate) fn id(&self) -> Option<u32> {
        self.group.map(|group| group.as_raw_nonzero().get().unsigned_abs())
    }

    /// The end of what the server wrote to its standard error, as the end of a message. Waits a
    /// moment for the rest of it, as a server that has exited may not have been read to its end.
    pub(crate) async fn last_words(&mut self, secrets: &Secrets) -> String {
        if let Some(errors) = &mut self.errors {
            let read = tokio::time::timeout(LAST_WORDS, errors).await;
            tracing::debug!(whole = read.is_ok(), "the errors of an MCP server were read");
        }
        let text = self.tail.text(secrets);
        if text.is_empty() { text } else { format!("; it wrote: {text}") }
    }

    /// Waits until the server has exited by itself, at most for this time, then kills its group.
    pub(crate) async fn end(mut self, patience: Duration) {
        // A server that was waited for has no id any more, so its group is killed by `drop` first.
        let ended = tokio::time::timeout(patience, self.wait_for_exit()).await;
        tracing::debug!(ended = ended.is_ok(), "an MCP server was told to exit");
    }

    /// Waits for the exit without collecting the process, whose id stays reserved.
    async fn wait_for_exit(&mut self) {
        let Some(id) = self.group else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(id), options) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns a mark that no other server has.
fn new_mark() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let seed = RandomState::new().hash_one(number);
    format!("{}-{number}-{seed:x}", std::process::id())
}

/// Starts the process that sweeps up after a server, and returns its input. `None` where there is no
/// shell.
fn start_watcher(group: Pid, mark: &str) -> Option<ChildStdin> {
    let group = group.as_raw_nonzero().to_string();
    let started = Command::new("/bin/sh")
        .args(["-c", SWEEP, "sh", &group, &format!("{MARK}={mark}")])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    if let Err(error) = &started {
        tracing::debug!(%error, "nothing ends an MCP server if this program is killed");
    }
    started.ok()?.stdin
}

impl Drop for Process {
    fn drop(&mut self) {
        // Before its input is closed: the id of the group may be that of another one by then.
        if let Some(watcher) = self.watcher.take() {
            let sent =
                watcher.into_owned_fd().and_then(|pipe| File::from(pipe).write_all(b"done\n"));
            if let Err(error) = sent {
                tracing::debug!(%error, "the watcher of an MCP server was already gone");
            }
        }
        // The process is collected only after this, so that its id, which is that of the group,
        // cannot belong to other processes yet.
        if let Some(group) = self.group
            && self.child.id().is_some()
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "the group of an MCP server was already gone");
        }
    }
}

impl Tail {
    async fn follow(self, mut errors: impl AsyncRead + Unpin) {
        let mut buffer = [0; 1024];
        while let Ok(read @ 1..) = errors.read(&mut buffer).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(buffer.iter().take(read));
            let surplus = kept.len().saturating_sub(TAIL_BYTES);
            kept.drain(..surplus);
        }
    }

    fn text(&self, secrets: &Secrets) -> String {
        let kept: Vec<u8> = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().copied().collect()
        };
        let text = secrets.hide(String::from_utf8_lossy(&kept).trim());
        let surplus = text.chars().count().saturating_sub(WORDS_CHARS);
        short(&text.chars().skip(surplus).collect::<String>(), WORDS_CHARS)
    }
}
