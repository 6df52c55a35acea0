//! A pseudo-terminal with a process, and the screen that a person sees.

use crate::home::Home;
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The longest time for which a process may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Terminal {
    child: Child,
    pty: Arc<Pty>,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    /// All output.
    pub(crate) raw: Vec<u8>,
}

impl Terminal {
    /// Starts a program in a terminal with rows and columns.
    pub(crate) fn start(home: &Home, program: &Path, args: &[&str], size: (u16, u16)) -> Self {
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(size.0, size.1)).expect("a size");
        let command = Command::new(program).args(args).current_dir(home.path("")).env_clear();
        let command = command.env("TERM", "xterm-256color").envs(home.variables());
        let child = command.spawn(pts).expect("it starts");
        let pty = Arc::new(pty);
        let (send, output) = channel();
        let reader = Arc::clone(&pty);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the process has closed the terminal.
            while let Ok(count @ 1..) = (&*reader).read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let parser = vt100::Parser::new(size.0, size.1, 0);
        Self { child, pty, output, parser, raw: Vec::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, name: &str) {
        crate::signals::send(self.child.id(), name);
    }

    /// Types keys.
    pub(crate) fn keys(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("it reads");
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.pty.resize(Size::new(rows, columns)).expect("a size");
        self.parser.screen_mut().set_size(rows, columns);
    }

    /// Returns the lines of the screen, without empty ones at its end.
    pub(crate) fn lines(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let mut lines: Vec<_> =
            screen.rows(0, screen.size().1).map(|row| row.trim_end().to_owned()).collect();
        let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(end);
        lines
    }

    /// Waits until the screen has lines that fulfil a condition.
    pub(crate) fn until(&mut self, what: &str, is_there: impl Fn(&[String]) -> bool) {
        while !is_there(&self.lines()) {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.show(&bytes),
                Err(error) => {
                    let ended = matches!(error, RecvTimeoutError::Disconnected);
                    let why = if ended { "the process ended" } else { "nothing more came" };
                    panic!("{what} was not shown, {why}:\n{}", self.lines().join("\n"));
                }
            }
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        self.parser.process(bytes);
    }

    /// Waits until a line of the screen contains a text.
    pub(crate) fn see(&mut self, text: &str) {
        self.until(text, |lines| lines.iter().any(|line| line.contains(text)));
    }

    /// Waits until the last line of the screen is this one.
    pub(crate) fn last(&mut self, line: &str) {
        self.until(line, |lines| lines.last().is_some_and(|last| last == line));
    }

    /// Waits for the prompt, and types a line.
    pub(crate) fn enter(&mut self, prompt: &str, line: &str) {
        self.last(prompt);
        self.keys(line);
        self.last(&format!("{prompt} {line}"));
        self.keys("\r");
    }

    /// Waits for the end of the process, and returns its status and the last screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.show(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the process goes on:\n{}", self.lines().join("\n"))
                }
            }
        }
        let status = self.child.wait().expect("it ends");
        (status.code(), self.lines().join("\n"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves no process.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}
