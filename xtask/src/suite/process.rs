//! Runs a child process with its output in a file and a time limit, including its descendants.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Success,
    Failure(ExitStatus),
    TimedOut,
}

/// Runs the command without standard input, with its output in `log`.
pub(super) fn run(command: &mut Command, log: &Path, timeout: Duration) -> Result<Ended> {
    let file = File::create(log).with_context(|| format!("{} not writable", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let child = command.spawn().context("the process could not be started")?;
    let id = child.id();
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || wait(child, &sender));
    let ended = match receiver.recv_timeout(timeout) {
        Ok(status) => status.map(|status| match status.success() {
            true => Ended::Success,
            false => Ended::Failure(status),
        }),
        Err(RecvTimeoutError::Timeout) => end(id).map(|()| Ended::TimedOut),
        Err(RecvTimeoutError::Disconnected) => {
            Err(std::io::Error::other("the waiting thread ended"))
        }
    };
    // The process ended or was killed, so the waiting thread ends too.
    waiter.join().map_err(|_| anyhow::anyhow!("the thread that waits for the process panicked"))?;
    ended.context("the process could not be waited for")
}

fn wait(mut child: Child, sender: &mpsc::Sender<std::io::Result<ExitStatus>>) {
    // After a timeout the receiver is closed; the process must still be waited for.
    drop(sender.send(child.wait()));
}

/// Kills the process and its descendants. Killing the process group is not enough: test runners
/// give each test its own group, and a group of its own would keep Ctrl-C from reaching the
/// process.
fn end(id: u32) -> std::io::Result<()> {
    let family = family(id, &parents()).into_iter().map(|id| id.to_string());
    Command::new("kill").args(["-KILL", "--"]).args(family).status().map(drop)
}

/// The parent of each process according to `/proc`; empty on systems without `/proc`.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in parentheses may contain anything; state and parent follow it.
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        Some((id, parent))
    })
    .collect()
}

/// The process and its descendants.
fn family(id: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut family = vec![id];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(id, _)| id));
        next += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{Ended, family, run};

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
        let script = format!("exec 3> {}; setsid tail -f /dev/null & wait", fifo.display());
        // Reading ends when the last process that has the pipe open is dead.
        let reader = std::thread::spawn(move || std::fs::read(fifo));

        let ended = run(&mut bash(&script), &dir.path().join("log"), Duration::from_secs(1));

        assert_eq!(ended.unwrap(), Ended::TimedOut);
        assert_eq!(reader.join().unwrap().unwrap(), b"");
    }

    #[test]
    fn a_family_is_found_by_its_parents() {
        let parents = [(2, 1), (3, 2), (4, 9), (5, 3), (6, 2)];
        assert_eq!(family(2, &parents), [2, 3, 6, 5]);
    }
}
