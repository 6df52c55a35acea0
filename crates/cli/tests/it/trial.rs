//! Tests of tools that panic, hang, or return too much, and of interrupted answers.

use crate::home::{Came, Home};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Returns the path of the example program with the agent `trial`, which cargo builds with the
/// tests.
pub(crate) fn program() -> PathBuf {
    let folder = Path::new(crate::home::PROGRAM).parent().expect("a folder");
    folder.join("examples/weft_trial")
}

fn trial(home: &Home, said: &str) -> Came {
    let args = ["run", "trial", "--thread", "t", "--model", "scripted", "--input", said];
    home.program(&program(), &args).output().expect("it starts").into()
}

#[test]
fn a_tool_that_misbehaves_is_a_result_and_ends_nothing() {
    for (said, expected) in [
        ("Please panic now.", "tool `panic_now` stopped by an error in its own code"),
        ("Please hang forever.", "tool `hang_forever` did not end within 200 ms"),
        ("Please flood me.", "tool `flood_me`"),
    ] {
        let home = Home::new();
        let came = trial(&home, said);
        assert_eq!(came.status, Some(0), "{said}: {came:?}");
        assert!(came.out.contains(expected), "{said}: {}", came.out);
        assert!(came.out.len() < 10_000, "{said}: {} bytes", came.out.len());
        let shown =
            home.program(&program(), &["threads", "show", "t"]).output().expect("it starts");
        assert!(String::from_utf8_lossy(&shown.stdout).contains("completed"), "{said}");
    }
}

/// A chat process with the agent `trial`.
struct Talk {
    child: Child,
    typing: ChildStdin,
    out: BufReader<std::process::ChildStdout>,
}

impl Talk {
    fn begin(home: &Home, said: &str, until: &str) -> Self {
        let args = ["chat", "trial", "--thread", "t", "--model", "scripted"];
        let mut command = home.program(&program(), &args);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let mut typing = child.stdin.take().expect("a pipe");
        writeln!(typing, "{said}").expect("it listens");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut talk = Self { child, typing, out };
        talk.read_until(until);
        talk
    }

    fn read_until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(
                self.out.read_line(&mut line).expect("it is read") > 0,
                "it never said `{text}`"
            );
        }
    }

    fn press_ctrl_c(&self) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args(["-INT", &id]).status().expect("kill starts");
        assert!(done.success());
    }

    fn end(mut self) -> Came {
        drop(self.typing);
        let mut out = String::new();
        let mut errors = String::new();
        self.out.read_to_string(&mut out).expect("read");
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        stderr.read_to_string(&mut errors).expect("read");
        Came { status: self.child.wait().expect("it ends").code(), out, errors }
    }
}

#[test]
fn ctrl_c_stops_the_answer_and_the_chat_goes_on() {
    let home = Home::new();
    let mut talk = Talk::begin(&home, "Please wait long.", "you> Please wait");
    // Wait for the call: before it there is nothing to stop.
    talk.read_until("→ wait_long");
    talk.press_ctrl_c();
    talk.read_until("stopping");
    writeln!(talk.typing, "Please panic now.").expect("it listens");
    talk.read_until("→ panic_now");
    let came = talk.end();
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("stopped\n"), "{}", came.errors);
}

#[test]
fn ctrl_c_twice_exits_and_the_messages_are_kept() {
    let home = Home::new();
    let mut talk = Talk::begin(&home, "Please compute stubbornly.", "you> Please compute");
    talk.read_until("computing");
    talk.press_ctrl_c();
    talk.read_until("stopping");
    talk.press_ctrl_c();
    let came = talk.end();
    assert_eq!(came.status, Some(130), "{came:?}");
    let shown = home.program(&program(), &["threads", "show", "t"]).output().expect("it starts");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("you> Please compute stubbornly."), "{shown}");
}

#[test]
fn a_run_that_is_interrupted_is_cancelled_and_can_be_resumed() {
    let home = Home::new();
    let args = ["run", "trial", "--thread", "t", "--model", "scripted", "--input"];
    let mut command = home.program(&program(), &[&args[..], &["Please wait long."]].concat());
    let mut child = command.spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("→ wait_long") {
        line.clear();
        assert!(out.read_line(&mut line).expect("read") > 0, "the tool is called");
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill starts").success());
    let came: Came = child.wait_with_output().expect("it ends").into();
    assert_eq!(came.status, Some(4), "{came:?}");
    let how = "cancelled; continue with: weft --model scripted threads resume t";
    assert!(came.errors.contains(how), "{came:?}");
    let shown = home.program(&program(), &["threads", "list"]).output().expect("it starts");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("cancelled"), "{shown:?}");
}
