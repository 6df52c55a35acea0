//! Prompts and runs, and the keys, signals and closed output that end them.

use crate::home::{Came, Home, PROGRAM, read_until};
use crate::terminal::Terminal;
use crate::trial::program;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SIZE: (u16, u16) = (50, 120);
const REASON: &str = "reason for the model, or nothing:";
const APPROVE: &str = "approve exactly this call? [y/n/edit]";
const REFUND: &str = "Refund order A1001, amount 25.";

/// Sends a signal to a process.
pub(crate) fn send(id: u32, name: &str) {
    let done = Command::new("kill").args([name, &id.to_string()]).status().expect("kill starts");
    assert!(done.success());
}

fn home() -> Home {
    Home::new().set("WEFT_MODEL", "scripted")
}

/// A way to end a command.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Ctrl-C, as often as it takes.
    Interrupt(usize),
    EndOfInput,
    Terminate,
    HangUp,
}

/// Ends a command at its prompt, and returns its status.
fn ended(mut terminal: Terminal, prompt: &str, end: Way) -> (Option<i32>, String) {
    terminal.last(prompt);
    match end {
        Way::Interrupt(times) => {
            for time in 0..times {
                if time > 0 {
                    terminal.see("press Ctrl-C again to leave the chat");
                    terminal.last(prompt);
                }
                terminal.keys("\x03");
            }
        }
        Way::EndOfInput => terminal.keys("\x04"),
        Way::Terminate => terminal.signal("-TERM"),
        Way::HangUp => terminal.signal("-HUP"),
    }
    terminal.end()
}

fn list(home: &Home) -> String {
    home.weft(&["threads", "list"]).out
}

#[test]
fn prompts_end_with_keys_and_signals() {
    type Open = fn(&Home) -> Terminal;
    let chat = |home: &Home| {
        let mut chat = Terminal::start(home, Path::new(PROGRAM), &["chat", "--thread", "t"], SIZE);
        chat.last("you>");
        chat
    };
    let message: Open =
        |home| Terminal::start(home, Path::new(PROGRAM), &["chat", "--thread", "t"], SIZE);
    let delete: Open = |home| {
        let came = home.weft(&["run", "desk", "--thread", "t", "--input", "Where is order A1001?"]);
        assert_eq!(came.status, Some(0), "{came:?}");
        Terminal::start(home, Path::new(PROGRAM), &["threads", "delete", "t"], SIZE)
    };
    let deletes = "deleting thread `t` with its runs, journal and questions cannot be undone. Continue? [y/n]";
    let table = [
        (
            message,
            "you>",
            [
                (Way::Interrupt(2), Some(130)),
                (Way::EndOfInput, Some(0)),
                (Way::Terminate, Some(143)),
                (Way::HangUp, None),
            ],
            "",
        ),
        (
            delete,
            deletes,
            [
                (Way::Interrupt(1), Some(130)),
                (Way::EndOfInput, Some(4)),
                (Way::Terminate, Some(143)),
                (Way::HangUp, None),
            ],
            "t ",
        ),
    ];
    for (open, prompt, ends, left) in table {
        for (end, expected) in ends {
            let home = home();
            let (status, screen) = ended(open(&home), prompt, end);
            assert_eq!(status, expected, "{prompt} {end:?}: {screen}");
            assert!(list(&home).contains(left), "{prompt} {end:?}");
        }
    }
    // At each prompt of a question the question stays open.
    for (prompt, end, expected) in [
        (APPROVE, Way::Interrupt(2), Some(130)),
        (APPROVE, Way::EndOfInput, Some(3)),
        (APPROVE, Way::Terminate, Some(143)),
        (APPROVE, Way::HangUp, None),
        (REASON, Way::Terminate, Some(143)),
        (REASON, Way::HangUp, None),
    ] {
        let home = home();
        let mut chat = chat(&home);
        chat.enter("you>", REFUND);
        if prompt == REASON {
            chat.enter(APPROVE, "n");
        }
        let (status, screen) = ended(chat, prompt, end);
        assert_eq!(status, expected, "{prompt} {end:?}: {screen}");
        let came = home.weft(&["threads", "resume", "t", "--approve"]);
        assert_eq!(came.status, Some(0), "{prompt} {end:?}: {came:?}");
    }
    // Keys go back from the reason to the question.
    for key in ["\x03", "\x04"] {
        let home = home();
        let mut chat = chat(&home);
        chat.enter("you>", REFUND);
        chat.enter(APPROVE, "n");
        chat.last(REASON);
        chat.keys(key);
        chat.last(APPROVE);
        assert_eq!(ended(chat, APPROVE, Way::EndOfInput).0, Some(3));
    }
}

/// The same prompts in the first process of a container, which gets no signal that it does not handle.
#[cfg(target_os = "linux")]
#[test]
fn prompts_of_the_first_process_end_with_keys_and_signals() {
    let unshare = Path::new("/usr/bin/unshare");
    let probe = Command::new(unshare).args(["-pf", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("SKIPPED(no namespaces): prompts_of_the_first_process_end_with_keys_and_signals");
        return;
    }
    for (prompt, way, expected) in [
        ("you>", Way::Interrupt(2), 130),
        ("you>", Way::EndOfInput, 0),
        ("you>", Way::Terminate, 143),
        ("you>", Way::HangUp, 129),
        (APPROVE, Way::Interrupt(2), 130),
        (APPROVE, Way::EndOfInput, 3),
        (APPROVE, Way::Terminate, 143),
        (APPROVE, Way::HangUp, 129),
    ] {
        let home = home();
        let args = ["-pf", PROGRAM, "chat", "--thread", "t"];
        let mut chat = Terminal::start(&home, unshare, &args, SIZE);
        chat.last("you>");
        if prompt == APPROVE {
            chat.enter("you>", REFUND);
        }
        let signal = match way {
            Way::Terminate => Some("-TERM"),
            Way::HangUp => Some("-HUP"),
            _ => None,
        };
        let (status, screen) = match signal {
            // To the process itself: the one outside waits for it.
            Some(signal) => {
                chat.last(prompt);
                send(first_child(chat.id()), signal);
                chat.end()
            }
            None => ended(chat, prompt, way),
        };
        assert_eq!(status, Some(expected), "{prompt} {way:?}: {screen}");
        if prompt == APPROVE {
            let came = home.weft(&["threads", "resume", "t", "--approve"]);
            assert_eq!(came.status, Some(0), "{way:?}: {came:?}");
        }
    }
}

/// The process that another one has started.
#[cfg(target_os = "linux")]
fn first_child(of: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let children = children.expect("it runs");
    children.split_whitespace().next().expect("a child").parse().expect("a number")
}

/// Starts a command that calls a tool which waits, and returns its output behind the call.
fn waits(home: &Home, args: &[&str]) -> (Child, impl BufRead + use<>) {
    let mut command = home.program(&program(), args);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    read_until(&mut out, "wait_long");
    (child, out)
}

fn end_of(mut child: Child) -> Came {
    let mut out = String::new();
    let mut errors = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut out).expect("read");
    }
    child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("read");
    Came { status: child.wait().expect("it ends").code(), out, errors }
}

#[test]
fn a_run_is_cancelled_by_both_signals_and_left_unfinished_by_sighup() {
    let run =
        ["run", "trial", "--thread", "t", "--model", "scripted", "--input", "Please wait long."];
    for (signal, status, state) in [
        ("-INT", Some(4), "cancelled"),
        ("-TERM", Some(4), "cancelled"),
        ("-HUP", None, "not finished"),
    ] {
        let home = Home::new();
        let (child, mut out) = waits(&home, &run);
        send(child.id(), signal);
        out.read_to_end(&mut Vec::new()).expect("read");
        let came = end_of(child);
        assert_eq!(came.status, status, "{signal}: {came:?}");
        assert!(list(&home).contains(state), "{signal}: {}", list(&home));
    }
    // SIGTERM ends a chat, too, after it has cancelled the answer.
    let home = Home::new();
    let chat = ["chat", "trial", "--thread", "t", "--model", "scripted"];
    let mut command = home.program(&program(), &chat);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, b"Please wait long.\n").expect("it listens");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    read_until(&mut out, "wait_long");
    send(child.id(), "-TERM");
    out.read_to_end(&mut Vec::new()).expect("read");
    let came = end_of(child);
    assert_eq!(came.status, Some(143), "{came:?}");
    assert!(list(&home).contains("cancelled"), "{}", list(&home));
}

/// The first process of a container gets no signal that it does not handle.
#[cfg(target_os = "linux")]
#[test]
fn commands_handle_both_signals_from_their_start_on() {
    let home = home();
    for args in [&["chat"][..], &["run", "desk", "--input", "-"]] {
        let mut command = home.command(args);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        // Waiting for a process closes its input, which would end it too.
        let input = child.stdin.take().expect("a pipe");
        // A chat has a prompt; the other command only waits for input.
        let mut before = [0];
        if args == ["chat"] {
            child.stdout.as_mut().expect("a pipe").read_exact(&mut before).expect("a prompt");
        }
        while !std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs").any(
            |task| {
                let name = task.expect("a task").path().join("comm");
                std::fs::read_to_string(name).is_ok_and(|name| name.trim() == "weft-signals")
            },
        ) {
            std::thread::yield_now();
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).expect("a number");
        for signal in [2_u32, 15] {
            assert_ne!(caught & (1 << (signal - 1)), 0, "{args:?}, signal {signal}");
        }
        send(child.id(), "-TERM");
        assert_eq!(child.wait().expect("it ends").code(), Some(143), "{args:?}");
        drop(input);
    }
}

#[test]
fn a_run_goes_on_when_nobody_reads_it() {
    let said = "Please wait long.";
    for json in [&[][..], &["--json"]] {
        let home = Home::new();
        let run = ["run", "trial", "--thread", "t", "--model", "scripted", "--input", said];
        let (child, out) = waits(&home, &[&run[..], json].concat());
        drop(out);
        send(child.id(), "-INT");
        let came = end_of(child);
        assert_eq!(came.status, Some(4), "the run was not lost: {came:?}");
    }
    // As `| head -1` does, for a run that completes.
    let home = home();
    let mut command = home.command(&["run", "desk", "--thread", "t", "--json", "--input", REFUND]);
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    let came = end_of(child);
    assert_eq!(came.status, Some(3), "it waits for an answer: {came:?}");
    let mut command = home.command(&["threads", "resume", "t", "--approve"]);
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    let came = end_of(child);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(list(&home).contains("completed"), "{}", list(&home));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_output_is_an_error_after_the_run() {
    let home = home();
    let full = || File::options().write(true).open("/dev/full").expect("a device");
    for (json, thread) in [(&[][..], "a"), (&["--json"], "b")] {
        let said = ["run", "desk", "--thread", thread, "--input", "Where is order A1001?"];
        let mut command = home.command(&[&said[..], json].concat());
        let came: Came = command.stdout(full()).output().expect("it starts").into();
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains("error[W0711]"), "{came:?}");
        let shown = home.weft(&["threads", "show", thread]).out;
        assert!(shown.contains("completed"), "{shown}");
    }
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let came: Came = command.stdout(full()).output().expect("it starts").into();
    assert_eq!(came.status, Some(2), "a server whose address nobody reads: {came:?}");
}
