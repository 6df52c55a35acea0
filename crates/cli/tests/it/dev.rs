//! Tests of `weft dev`.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn dev(home: &Home, program: &Path, more: &[&str]) -> Served {
    let args = [&["dev", "--listen", "127.0.0.1:0"][..], more].concat();
    let (served, before) = Served::start(home, program, &args);
    assert!(before.is_empty(), "{before:?}");
    served
}

fn asks(served: &Served, text: &str) -> (u16, Value) {
    let input = json!({"messages": [{"role": "user", "content": text}]});
    served.send("POST /runs/wait", "", &json!({"assistant_id": "desk", "input": input}))
}

#[test]
fn requests_and_runs_are_printed_without_colours_and_signals_stop_it() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory");
    let mut served = dev(&home, Path::new(PROGRAM), &[]);
    let (status, values) = asks(&served, "What is 6 times 7?");
    assert_eq!((status, values["messages"].as_array().map(Vec::len)), (200, Some(4)), "{values}");
    assert!(served.note("begins: desk, thread ").starts_with("run "));
    let ended = served.note(" ends: ");
    assert!(ended.contains("completed"), "{ended}");
    assert_eq!(served.send("GET /none?token=secret", "", &json!({})).0, 404);
    let line = served.note("/none");
    assert!(line.starts_with("404 GET    /none ") && line.ends_with(" ms\n"), "{line}");
    let came = served.terminate();
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.ends_with("stopped\n") && !came.errors.contains('\x1b'), "{came:?}");
    let token = "a-token-of-sixteen-or-more";
    let served = dev(&home, Path::new(PROGRAM), &["--token", token]);
    assert_eq!(served.send("GET /info", "", &json!({})).0, 401);
    let came = home.weft(&["dev", "--listen", "0.0.0.0:0"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("use weft serve"), "{came:?}");
}

#[test]
fn only_dev_starts_on_the_scripted_model_by_itself_and_says_so() {
    let home = Home::new();
    for command in [
        &["run", "desk", "--input", "Hello"][..],
        &["chat"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["worker"],
    ] {
        let came = home.weft(command);
        assert_eq!(came.status, Some(5), "{command:?}: {came:?}");
        assert!(came.errors.contains("error[W0501]"), "{command:?}: {came:?}");
    }
    let mut served = dev(&home, Path::new(PROGRAM), &[]);
    let said = served.note("no model is configured");
    assert!(said.contains("the agents answer with the scripted model"), "{said}");
    assert_eq!(asks(&served, "What is 6 times 7?").0, 200);
    assert_eq!(served.terminate().status, Some(0));
}

/// Waits for the next start of a server, at its address and under its id.
fn restarted(served: &mut Served, id: u32) {
    assert_eq!(served.line(), format!("listening on http://{}", served.address));
    assert_eq!(served.id(), id);
    assert_eq!(served.send("GET /ok", "", &json!({})).0, 200);
}

#[test]
fn a_change_of_its_files_restarts_it_and_threads_stay() {
    let home = Home::new().config("model = \"scripted\"\n");
    let prompt = home.path("prompt.md");
    fs::write(&prompt, "one").expect("written");
    let mut served = dev(&home, Path::new(PROGRAM), &["--watch", "prompt.md"]);
    let id = served.id();
    let made = served.send("POST /threads", "", &json!({"metadata": {"mark": 1}})).1;
    fs::write(&prompt, "two, longer").expect("written");
    served.note("prompt.md changed: restarting");
    restarted(&mut served, id);
    let thread = format!("GET /threads/{}", made["thread_id"].as_str().expect("an id"));
    assert_eq!(served.send(&thread, "", &json!({})).1["metadata"], json!({"mark": 1}));
    // A configuration that is not valid changes nothing.
    fs::write(home.path("weft.toml"), "modell = \"scripted\"\n").expect("written");
    let refused = served.note("the server stays as it is");
    assert!(refused.contains("modell"), "{refused}");
    assert_eq!(served.send("GET /ok", "", &json!({})).0, 200);
    fs::write(home.path("weft.toml"), "model = \"scripted\" # again\n").expect("written");
    served.note("weft.toml changed: restarting");
    restarted(&mut served, id);
    assert_eq!(served.terminate().status, Some(0));
}

#[test]
fn a_program_that_is_built_again_replaces_the_running_one() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory");
    let program = home.path("program");
    fs::copy(PROGRAM, &program).expect("copied");
    let mut served = dev(&home, &program, &[]);
    let id = served.id();
    // A linker writes a new file; a running program is not written to.
    fs::copy(PROGRAM, home.path("built")).expect("copied");
    fs::rename(home.path("built"), &program).expect("renamed");
    served.note("program changed: restarting");
    restarted(&mut served, id);
    assert_eq!(served.terminate().status, Some(0));
}
