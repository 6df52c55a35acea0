//! A process of the story.

use super::Story;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weftwork_cli_base::CliError;

/// The longest that a process may be silent.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process driven over pipes. It is killed when it is dropped.
pub(super) struct Act {
    child: Child,
    typing: ChildStdin,
    said: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
}

fn demo_failed(what: impl Into<String>) -> CliError {
    CliError::DemoFailed { what: what.into() }
}

impl Act {
    /// Starts this program with other arguments.
    pub(super) fn start(story: &Story<'_>, args: &[&str]) -> Result<Self, CliError> {
        let program = std::env::current_exe()
            .map_err(|error| demo_failed(format!("this program cannot be found: {error}")))?;
        story.quote(&format!("$ weft {}", args.join(" ")))?;
        let mut child = Command::new(program)
            .args(args)
            .env("WEFT_STORE", story.context.config.store.value.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| demo_failed(format!("a process cannot be started: {error}")))?;
        let no_pipe = || demo_failed("a process without pipes");
        let typing = child.stdin.take().ok_or_else(no_pipe)?;
        let out = child.stdout.take().ok_or_else(no_pipe)?;
        let mut errors = child.stderr.take().ok_or_else(no_pipe)?;
        let (send, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let complaints = std::thread::spawn(move || {
            let mut text = Vec::new();
            // What was read until an error is still worth showing.
            errors.read_to_end(&mut text).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self { child, typing, said, complaints: Some(complaints) })
    }

    pub(super) fn type_lines(&mut self, lines: &[&str]) -> Result<(), CliError> {
        for line in lines {
            writeln!(self.typing, "{line}")
                .map_err(|error| demo_failed(format!("the process does not listen: {error}")))?;
        }
        Ok(())
    }

    /// Shows what the process says until a line is the last one, or until it says no more, and
    /// returns it.
    pub(super) fn relay_until(
        &mut self,
        story: &Story<'_>,
        is_last: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, CliError> {
        let mut lines = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => {
                    story.quote(&line)?;
                    let last = is_last(&line);
                    lines.push(line);
                    if last {
                        return Ok(lines);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(lines),
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = PATIENCE.as_secs();
                    return Err(demo_failed(format!(
                        "the process said nothing more for {seconds} seconds; it may have understood something else than the story needs"
                    )));
                }
            }
        }
    }

    /// Kills the process from outside and makes sure that this is what ended it.
    pub(super) fn kill(mut self) -> Result<u32, CliError> {
        let id = self.child.id();
        let gone = |error: std::io::Error| demo_failed(format!("it could not be killed: {error}"));
        if self.child.try_wait().map_err(gone)?.is_some() {
            return Err(self.explain_failure("the process ended before it was killed"));
        }
        self.child.kill().map_err(gone)?;
        let status = self.child.wait().map_err(gone)?;
        if was_killed(status) {
            return Ok(id);
        }
        Err(demo_failed(format!("the process was not killed, but ended with {status}")))
    }

    /// Waits for the process and makes sure that it did what it should.
    pub(super) fn ended_well(&mut self) -> Result<(), CliError> {
        let status = self.child.wait().map_err(|error| demo_failed(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        Err(self.explain_failure(&format!("the process ended with {status}")))
    }

    /// Adds what the process complained about.
    fn explain_failure(&mut self, what: &str) -> CliError {
        let said = self.complaints.take().and_then(|thread| thread.join().ok());
        demo_failed(format!("{what}:\n{}", said.unwrap_or_default().trim_end()))
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        // It may be gone already, which is what we want.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}
