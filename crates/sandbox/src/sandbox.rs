//! The side of the program: starts a process for each call, and answers what it asks for.

use crate::bounds::Bounds;
use crate::error::{LimitKind, SandboxError};
use crate::frame::{self, MARGIN_BYTES};
use crate::host::{Host, HostError};
use crate::message::{CodeKind, FromProcess, Script, ScriptFailure, ToProcess};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use serde_json::Value;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, mpsc};
use weftwork_types::BoxFuture;
use weftwork_types::port::Clock;

/// Time after the limit of a call within which its process may say that it stopped by itself.
const GRACE: Duration = Duration::from_millis(250);

/// Most calls of the host in one call of code: each may be a record in a store.
const CALLS_MAX: u32 = 10_000;
/// Most bytes that code may send, as a multiple of the limit of one message.
const SENT_FACTOR: usize = 16;

/// Most calls of the host that are under way at once. Others wait.
const AT_ONCE_MAX: usize = 64;
/// Most bytes that code may receive from its host.
const RECEIVED_BYTES_MAX: usize = 64 << 20;
/// Setting of the allocator of the program: it reserves less than the bounds of a process, in KiB.
const RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "16384");
/// Most processes of a sandbox at once. Further calls of code wait.
const PROCESSES_MAX: usize = 32;

/// A program whose processes execute code. Clones share their turns.
#[derive(Debug, Clone)]
pub struct Sandbox {
    program: PathBuf,
    args: Vec<OsString>,
    turns: Arc<Semaphore>,
}

impl Sandbox {
    /// Creates a sandbox whose processes are of a program that calls [`main`](crate::main) when it is
    /// started with these arguments, and one behind them.
    #[must_use]
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            turns: Arc::new(Semaphore::new(PROCESSES_MAX)),
        }
    }

    /// Executes code, and returns the result of its function. The calls to the host that it has begun end
    /// before, also if it does not wait for them or is stopped.
    ///
    /// # Errors
    /// [`SandboxError`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the process, and drops the calls to the host that are under way.
    pub async fn run(
        &self,
        script: &Script,
        host: &dyn Host,
        clock: &dyn Clock,
    ) -> Result<Value, SandboxError> {
        let _turn = self.turns.acquire().await.map_err(|_| broken("the program ends"))?;
        let limit = Duration::from_millis(script.limits.timeout_ms).saturating_add(GRACE);
        self.start(script)?.talk(script, host, clock.sleep(limit)).await
    }

    fn start(&self, script: &Script) -> Result<Process, SandboxError> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(Bounds::of(script).argument()).current_dir("/");
        let (name, value) = RESERVE;
        command.env_clear().env(name, value);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().map_err(SandboxError::Start)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) =
            pipes.ok_or_else(|| SandboxError::Start(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Process {
            code_kind: script.code_kind,
            memory_bytes: script.limits.memory_bytes,
            child,
            stdin: Some(stdin),
            frames: Frames { from: stdout, buffer: Vec::new() },
        })
    }
}

/// A process of a call.
struct Process {
    code_kind: CodeKind,
    memory_bytes: usize,
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Frames,
}

/// A call to the host that was answered.
struct Answered {
    id: u32,
    answer: Result<Value, HostError>,
}

impl Process {
    async fn talk(
        &mut self,
        script: &Script,
        host: &dyn Host,
        mut late: BoxFuture<'static, ()>,
    ) -> Result<Value, SandboxError> {
        let most = script.limits.output_bytes.saturating_add(MARGIN_BYTES);
        let first = tokio::select! {
            first = self.receive(most) => first?,
            () = &mut late => return Err(SandboxError::Limit { limit: LimitKind::Time }),
        };
        match first {
            FromProcess::Ready => {}
            FromProcess::Unavailable { missing, reason } => {
                return Err(SandboxError::Unavailable { missing, reason });
            }
            _ => return Err(broken("it did not say that it is ready")),
        }
        let stdin = self.stdin.take().ok_or_else(|| broken("it was used before"))?;
        let (send, receive) = mpsc::unbounded_channel();
        let first = ToProcess::Script(Box::new(script.clone()));
        send.send(encoded(&first)?).map_err(|_| broken("it does not read"))?;
        // Beside reading: the process may be writing while it is written to.
        let writing = write_all(stdin, receive);
        let answering = self.answer(most, host, &send, late);
        tokio::select! {
            ended = answering => ended,
            error = writing => Err(error),
        }
    }

    /// Answers calls until the code has ended, and lets the calls that it has begun end.
    async fn answer(
        &mut self,
        most: usize,
        host: &dyn Host,
        send: &mpsc::UnboundedSender<Vec<u8>>,
        mut late: BoxFuture<'static, ()>,
    ) -> Result<Value, SandboxError> {
        let mut calls = FuturesOrdered::new();
        let mut made = 0_u32;
        let mut sent_left = most.saturating_mul(SENT_FACTOR);
        let mut received_left = RECEIVED_BYTES_MAX;
        let ended = loop {
            tokio::select! {
                frame = self.frames.next(most), if calls.len() < AT_ONCE_MAX => {
                    let frame = match frame {
                        Ok(frame) => frame,
                        Err(error) => break Err(self.ended(error).await),
                    };
                    let Some(left) = sent_left.checked_sub(frame.len()) else {
                        break Err(SandboxError::Limit { limit: LimitKind::Output });
                    };
                    sent_left = left;
                    match serde_json::from_slice(&frame) {
                        Ok(FromProcess::Call { .. }) if made == CALLS_MAX => {
                            break Err(SandboxError::Limit { limit: LimitKind::Calls });
                        }
                        Ok(FromProcess::Call { id, member, args }) => {
                            made += 1;
                            let call = host.call(member, args);
                            calls.push_back(async move { Answered { id, answer: call.await } });
                        }
                        Ok(FromProcess::Done { value }) => break Ok(value),
                        Ok(FromProcess::Failed { failure }) => break Err(self.failed(failure)),
                        Ok(_) => break Err(broken("it said that it is ready once more")),
                        Err(error) => break Err(broken(&error.to_string())),
                    }
                }
                Some(Answered { id, answer }) = calls.next() => {
                    let reply = match encoded(&ToProcess::Reply { id, answer }) {
                        Ok(reply) => reply,
                        Err(error) => break Err(error),
                    };
                    let Some(left) = received_left.checked_sub(reply.len()) else {
                        break Err(SandboxError::Limit { limit: LimitKind::Received });
                    };
                    received_left = left;
                    if send.send(reply).is_err() {
                        break Err(broken("it does not read"));
                    }
                }
                () = &mut late => break Err(SandboxError::Limit { limit: LimitKind::Time }),
            }
        };
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(%error, "the process of code cannot be ended");
        }
        // What they do outside is done, whatever becomes of the code.
        while calls.next().await.is_some() {}
        ended
    }

    /// Returns the error of a failure.
    fn failed(&self, failure: ScriptFailure) -> SandboxError {
        match failure {
            ScriptFailure::Invalid { reason } => SandboxError::Invalid { reason },
            ScriptFailure::Thrown { message, stack } => SandboxError::Thrown { message, stack },
            ScriptFailure::Limit { limit } => SandboxError::Limit { limit },
            ScriptFailure::NeverEnds => SandboxError::NeverEnds,
            // All memory of the process counts: a function whose limit is less than the engine needs by
            // itself came to it.
            ScriptFailure::Null if self.peak_bytes() >= Some(self.memory_bytes) => {
                SandboxError::Limit { limit: LimitKind::Memory }
            }
            ScriptFailure::Null => {
                SandboxError::Thrown { message: "null".to_owned(), stack: String::new() }
            }
        }
    }

    /// Returns the most memory that the process has had; `None` if the system does not say it.
    fn peak_bytes(&self) -> Option<usize> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: usize = peak.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes << 10)
    }

    async fn receive(&mut self, most: usize) -> Result<FromProcess, SandboxError> {
        match self.frames.next(most).await {
            Ok(frame) => serde_json::from_slice(&frame).map_err(|error| broken(&error.to_string())),
            Err(error) => Err(self.ended(error).await),
        }
    }

    /// Returns why the process stopped talking.
    async fn ended(&mut self, error: io::Error) -> SandboxError {
        if error.kind() == io::ErrorKind::FileTooLarge {
            return SandboxError::Limit { limit: LimitKind::Output };
        }
        match self.child.wait().await {
            // A function is stopped by its engine, and everything else by the system.
            Ok(status) if self.code_kind != CodeKind::Function && is_exhausted(status) => {
                SandboxError::Limit { limit: LimitKind::MemoryOrStack }
            }
            Ok(status) => SandboxError::Broken { reason: status.to_string() },
            Err(error) => SandboxError::Broken { reason: error.to_string() },
        }
    }
}

/// The messages of a process, of which a part may have arrived when a reader stops waiting.
#[derive(Debug)]
struct Frames {
    from: ChildStdout,
    buffer: Vec<u8>,
}

impl Frames {
    /// Returns the next message. Cancel safe.
    async fn next(&mut self, most: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some((length, rest)) = self.buffer.split_first_chunk::<4>() {
                let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
                if length > most {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                if let Some(frame) = rest.get(..length) {
                    let frame = frame.to_vec();
                    self.buffer.drain(..4 + length);
                    return Ok(frame);
                }
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Writes messages until the process does not read any more. A process that has ended may have said why.
async fn write_all(
    mut stdin: ChildStdin,
    mut receive: mpsc::UnboundedReceiver<Vec<u8>>,
) -> SandboxError {
    while let Some(frame) = receive.recv().await {
        if stdin.write_all(&frame).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

/// Returns `true` for the ends of a process that has no more memory or stack. An engine that made a
/// forbidden call of the system ends by another signal.
fn is_exhausted(status: ExitStatus) -> bool {
    const ABORTED: i32 = 6;
    const BAD_ADDRESS: i32 = 7;
    const NO_SEGMENT: i32 = 11;
    matches!(status.signal(), Some(ABORTED | BAD_ADDRESS | NO_SEGMENT))
}

fn encoded(message: &ToProcess) -> Result<Vec<u8>, SandboxError> {
    let frame = frame::encode(message).map_err(|error| broken(&error.to_string()))?;
    match frame.len() > frame::MESSAGE_BYTES_MAX {
        true => Err(SandboxError::Limit { limit: LimitKind::Received }),
        false => Ok(frame),
    }
}

fn broken(reason: &str) -> SandboxError {
    SandboxError::Broken { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_call_of_the_system_is_no_limit() {
        const SIGSYS: i32 = 31;
        let ends = [(6, true), (7, true), (11, true), (SIGSYS, false), (9, false)];
        for (signal, expected) in ends {
            assert_eq!(is_exhausted(ExitStatus::from_raw(signal)), expected, "{signal}");
        }
        assert!(!is_exhausted(ExitStatus::from_raw(0)));
    }
}
