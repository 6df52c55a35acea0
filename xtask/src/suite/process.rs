//! One child process: its output in a file, its time bounded, its children ended with it.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};

/// How a process came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Success,
    Failure(ExitStatus),
    TimedOut,
}

/// Runs the command without standard input; its output goes to `log`.
pub(super) fn run(command: &mut Command, log: &Path, timeout: Duration) -> Result<Ended> {
    let file = File::create(log).with_context(|| format!("{} not writable", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    let child = command.spawn().context("the process could not be started")?;
    let group = child.id();
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || wait(child, &sender));
    let ended = match receiver.recv_timeout(timeout) {
        Ok(status) => status.map(|status| match status.success() {
            true => Ended::Success,
            false => Ended::Failure(status),
        }),
        Err(RecvTimeoutError::Timeout) => end_group(group).map(|()| Ended::TimedOut),
        Err(RecvTimeoutError::Disconnected) => Err(std::io::Error::other("the waiter is gone")),
    };
    // The group has ended or been killed, so the waiter is done as well.
    waiter.join().map_err(|_| anyhow::anyhow!("the thread that waits for the process panicked"))?;
    ended.context("the process could not be waited for")
}

fn wait(mut child: Child, sender: &mpsc::Sender<std::io::Result<ExitStatus>>) {
    // After a timeout nobody listens; the wait itself still has to happen.
    drop(sender.send(child.wait()));
}

/// Kills the process and all that it started.
fn end_group(group: u32) -> std::io::Result<()> {
    Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().map(drop)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{Ended, run};

    fn bash(script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_of_both_kinds_goes_to_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let ended = run(&mut bash("echo out; echo err >&2"), &log, Duration::from_secs(60));
        assert_eq!(ended.unwrap(), Ended::Success);
        assert_eq!(std::fs::read_to_string(log).unwrap(), "out\nerr\n");
    }

    #[test]
    fn a_failure_keeps_its_status() {
        let dir = tempfile::tempdir().unwrap();
        let ended = run(&mut bash("exit 3"), &dir.path().join("log"), Duration::from_secs(60));
        let Ended::Failure(status) = ended.unwrap() else { panic!("expected a failure") };
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_process_that_hangs_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let script = format!("cat {} & wait", fifo.display());
        let ended = run(&mut bash(&script), &dir.path().join("log"), Duration::from_millis(50));
        assert_eq!(ended.unwrap(), Ended::TimedOut);
    }
}
