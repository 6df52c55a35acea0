//! The layers of the confinement: what each refuses, and that nothing runs without one of them.

use crate::body;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_weft-sandbox");

/// Attempts of code that has found a way out of its engine. `seccomp` refuses all of it.
const PROBES: [&str; 18] = [
    "read-passwd",
    "read-environment",
    "read-memory",
    "read-program",
    "list",
    "write",
    "make-folder",
    "remove",
    "link",
    "change-folder",
    "connect",
    "listen",
    "udp",
    "unix-socket",
    "fork",
    "exec",
    "thread",
    "pipe",
];
/// Attempts that `landlock`, with the limit of files that goes with it, leaves to `seccomp`.
const SECCOMP_ALONE: [&str; 2] = ["change-folder", "thread"];

fn probe(layers: &str, name: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("present"), "x").expect("writes");
    let mut command = Command::new(PROGRAM);
    command.args(["probe", layers, name]).arg(folder.path()).output().expect("starts")
}

/// Returns `true` if a probe was refused, or its process ended.
fn is_refused(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stdout);
    !output.status.success() || text.starts_with("refused")
}

#[test]
fn each_way_out_is_refused_by_the_layers_that_are_named() {
    for name in PROBES {
        let free = probe("none", name);
        // What there is nothing to do with on this machine.
        let gone = ["connect", "read-memory"];
        assert!(!is_refused(&free) || gone.contains(&name), "{name} is possible: {free:?}");
        assert!(is_refused(&probe("seccomp", name)), "{name}");
        let by_landlock = !SECCOMP_ALONE.contains(&name);
        assert_eq!(is_refused(&probe("landlock", name)), by_landlock, "{name}");
        assert!(is_refused(&probe("all", name)), "{name}");
    }
}

#[test]
fn a_new_program_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    const SIGSYS: i32 = 31;
    assert_eq!(probe("all", "exec").status.signal(), Some(SIGSYS));
}

/// Hides a call of the system from this thread, and from the processes that it starts.
fn hide(call: i64) {
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let rules = BTreeMap::from([(call, Vec::new())]);
    let arch = std::env::consts::ARCH.try_into().expect("a known machine");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, absent, arch).expect("a filter");
    let program = BpfProgram::try_from(filter).expect("a program");
    seccompiler::apply_filter(&program).expect("applies");
}

#[test]
fn a_machine_without_a_layer_refuses_and_names_it() {
    for (call, missing) in
        [(libc::SYS_landlock_create_ruleset, "landlock"), (libc::SYS_seccomp, "seccomp")]
    {
        let refused = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            hide(call);
            runtime.block_on(body("return 1"))
        });
        let error = refused.join().expect("ends").expect_err("is refused");
        assert_eq!(error.code().0, "W1050", "{error}");
        assert!(error.to_string().contains(&format!("{missing} is not available")), "{error}");
    }
}
