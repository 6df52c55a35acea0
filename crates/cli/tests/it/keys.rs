//! Tests of `weft keys`, and of the sources of tokens of `weft serve`.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn home() -> Home {
    Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory")
}

fn serve(home: &Home, more: &[&str]) -> (Served, Vec<String>) {
    let args = [&["serve", "--listen", "127.0.0.1:0"][..], more].concat();
    Served::start(home, Path::new(PROGRAM), &args)
}

fn key(token: &str) -> String {
    format!("x-api-key: {token}\r\n")
}

/// Adds a key, and returns its token.
fn add(home: &Home, subject: &str, more: &[&str]) -> String {
    let came = home.weft(&[&["keys", "add", "keys", "--subject", subject], more].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    let token = came.out.trim().to_owned();
    assert!(token.len() >= 32 && !came.errors.contains(&token), "{came:?}");
    token
}

/// Waits until a request with a token has a status: changes of the file count within a second.
fn until(served: &Served, request: &str, token: &str, status: u16) {
    while served.send(request, &key(token), &json!({})).0 != status {
        std::thread::yield_now();
    }
}

#[test]
fn keys_are_added_listed_and_revoked_while_a_server_uses_them() {
    let home = home();
    let more =
        ["--org", "acme", "--account", "acct-1", "--virtual-key", "vk-1", "--rights", "read"];
    let reader = add(&home, "ada", &more);
    let file = home.path("keys");
    let mode = || std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let text = std::fs::read_to_string(&file).expect("read");
    assert!(!text.contains(&reader) && text.ends_with(" acme ada acct-1 vk-1 read\n"), "{text}");

    let (served, before) = serve(&home, &["--keys", "keys", "--token", "a-token-of-the-operator"]);
    assert!(before.is_empty(), "no token is printed: {before:?}");
    for (request, token, status) in [
        ("POST /threads/search", reader.as_str(), 200),
        ("POST /threads", reader.as_str(), 403),
        ("POST /threads", "a-token-of-the-operator", 200),
        ("POST /threads", "another-token-1234567", 401),
        ("POST /threads", text.split(' ').next().expect("a hash"), 401),
    ] {
        assert_eq!(served.send(request, &key(token), &json!({})).0, status, "{request} {token}");
    }
    let refused = served.send("POST /threads", &key(&reader), &json!({})).1;
    let says =
        "the request needs the right `run`, which its token does not have (its rights: read)";
    assert_eq!(refused, json!({"detail": says}));

    // A comment of the operator stays, and a later key counts without a restart.
    std::fs::write(&file, format!("# Keys of the desk.\n{}", text.trim_end())).expect("written");
    let runner = add(&home, "bob", &[]);
    until(&served, "POST /threads", &runner, 200);
    let text = std::fs::read_to_string(&file).expect("read");
    assert!(text.starts_with("# Keys of the desk.\n"), "{text}");
    assert_eq!((text.lines().count(), mode()), (3, 0o600));
    let listed = home.weft(&["keys", "list", "keys", "--json"]);
    let listed: Vec<Value> =
        listed.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let subjects: Vec<_> = listed.iter().map(|key| &key["subject"]).collect();
    assert_eq!(subjects, ["ada", "bob"]);
    assert_eq!(listed[0]["rights"], json!(["read"]));
    assert_eq!(listed[1]["rights"], json!(["read", "run"]));

    let id = listed[0]["id"].as_str().expect("an id");
    let revoked = home.weft(&["keys", "revoke", "keys", &id[..8]]);
    assert_eq!(revoked.status, Some(0), "{revoked:?}");
    until(&served, "POST /threads/search", &reader, 401);
    assert_eq!(served.send("POST /threads", &key(&runner), &json!({})).0, 200);
    let again = home.weft(&["keys", "revoke", "keys", id]);
    assert!(again.status == Some(2) && again.errors.contains("no single key"), "{again:?}");
    let table = home.weft(&["keys", "list", "keys"]).out;
    assert!(table.contains("bob") && !table.contains("ada"), "{table}");
}

#[test]
fn an_answer_at_a_checkpoint_needs_the_right_to_approve_by_every_route() {
    let home = home();
    std::fs::create_dir_all(home.path("agents/boss")).expect("made");
    let boss =
        "type: context\norchestration:\n  steps: [{id: check, checkpoint: {question: Go?}}]\n";
    std::fs::write(home.path("agents/boss/agent.yaml"), boss).expect("written");
    let runner = add(&home, "ada", &["--rights", "read,run"]);
    let approver = add(&home, "ada", &["--rights", "approve"]);
    let (served, _) = serve(&home, &["--keys", "keys"]);
    let send = |request: &str, token: &str, body: &Value| served.send(request, &key(token), body);
    let begin =
        json!({"conversationId": "c", "userMessage": "Go.", "payload": {"orchestrate": true}});
    let waiting = send("POST /agents/boss/tasks", &runner, &begin);
    let id = waiting.1["metadata"]["approvalId"].clone();
    assert!(waiting.0 == 200 && id.is_string(), "{waiting:?}");
    let answer =
        json!({"orchestrationAction": "human-response", "approvalId": id, "decision": "approve"});
    let task = json!({"conversationId": "c", "payload": answer});
    let action = json!({"approvalId": id});
    for (request, body) in [
        ("POST /agents/boss/tasks", &task),
        ("POST /orchestrations/c/approve", &action),
        ("POST /orchestrations/c/reject", &action),
    ] {
        assert_eq!(send(request, &runner, body).0, 403, "{request}");
    }
    let pause = send("POST /orchestrations/c/pause", &approver, &json!({}));
    assert_eq!(pause.0, 403, "{pause:?}");
    let approved = send("POST /orchestrations/c/approve", &approver, &action);
    assert!(approved.1["metadata"]["steps"][0]["status"] == "done", "{approved:?}");
}

#[test]
fn an_approval_of_an_agent_without_steps_is_answered_by_requests_with_the_right_to_approve() {
    let home = home();
    std::fs::create_dir_all(home.path("agents/clerk")).expect("made");
    let clerk = "type: api\nrequires_confirmation: [api/clerk]\ntransport: {kind: api, api: {endpoint: 'https://shop.example/orders'}}\n";
    std::fs::write(home.path("agents/clerk/agent.yaml"), clerk).expect("written");
    let runner = add(&home, "ada", &["--rights", "read,run"]);
    let approver = add(&home, "ada", &["--rights", "approve"]);
    let (served, _) = serve(&home, &["--keys", "keys"]);
    let send = |request: &str, token: &str, body: &Value| served.send(request, &key(token), body);
    for (conversation, request, action) in [
        ("c", "POST /agents/clerk/tasks", json!(null)),
        ("d", "POST /agents/clerk/tasks", json!("human-response")),
        ("e", "POST /agent-to-agent/tasks", json!(null)),
        ("f", "POST /agent-to-agent/tasks", json!("human-response")),
    ] {
        let body = |payload: Value| json!({"agent": "clerk", "mode": "build", "userMessage": "", "conversationId": conversation, "payload": payload});
        let mut begin = body(json!({}));
        begin["userMessage"] = json!("Order.");
        let waiting = send(request, &runner, &begin);
        let id = waiting.1["metadata"]["approvalId"].clone();
        assert!(waiting.0 == 200 && id.is_string(), "{waiting:?}");
        let answer = |id: &Value| {
            body(json!({"orchestrationAction": action, "approvalId": id, "decision": "reject"}))
        };
        assert_eq!(send(request, &runner, &answer(&id)).0, 403, "{request}");
        assert_eq!(send(request, &approver, &answer(&json!("x"))).0, 422, "{request}");
        let ended = send(request, &approver, &answer(&id)).1;
        assert!(ended["metadata"]["run"].is_string(), "it went on: {ended}");
        assert!(ended["metadata"].get("status").is_none(), "it does not wait: {ended}");
    }
}

#[test]
fn files_of_keys_that_others_read_or_that_are_broken_are_refused_with_all_problems() {
    let home = home();
    add(&home, "ada", &[]);
    let file = home.path("keys");
    let good = std::fs::read_to_string(&file).expect("read");
    let set_mode = |mode| {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("a mode");
    };
    let check = |says: &[&str]| {
        for args in [
            &["serve", "--listen", "127.0.0.1:0", "--keys", "keys"][..],
            &["keys", "list", "keys"],
            &["keys", "add", "keys", "--subject", "bob"],
            &["keys", "revoke", "keys", "0123456789abcdef"],
        ] {
            let came = home.weft(args);
            assert_eq!(came.status, Some(2), "{args:?} {came:?}");
            assert!(came.out.is_empty(), "{args:?} {came:?}");
            for says in says {
                assert!(came.errors.contains(says), "{args:?} {says}: {came:?}");
            }
        }
    };
    for mode in [0o644, 0o640, 0o606] {
        set_mode(mode);
        check(&[&format!("has the mode {mode:03o}; expected 600"), "chmod 600"]);
    }
    set_mode(0o600);
    std::fs::write(&file, format!("one two\n{good}{good}x y z a b c\n")).expect("written");
    check(&["line 1: 2 fields; expected 6", "line 3: the hash is that of line 2", "line 4: "]);
    assert_eq!(std::fs::read_to_string(&file).expect("read").lines().count(), 4);
    std::fs::remove_file(&file).expect("removed");
    let came = home.weft(&["serve", "--listen", "127.0.0.1:0", "--keys", "keys"]);
    assert!(came.status == Some(2) && came.errors.contains("`weft keys add` makes it"), "{came:?}");
    for (args, says) in [
        (&["--subject", "two words"][..], "white space"),
        (&["--subject", "ada", "--rights", "write"], "`write` is no right"),
        (&["--subject", "ada", "--org", "server:acme"], "reserved"),
        (&["--subject", "ada", "--account", "a b"], "is not valid"),
    ] {
        let came = home.weft(&[&["keys", "add", "keys"][..], args].concat());
        assert!(came.status == Some(2) && came.errors.contains(says), "{args:?} {came:?}");
        assert!(!file.exists(), "{args:?} {came:?}");
    }
}

#[test]
fn keys_that_are_added_at_the_same_time_are_all_in_the_file() {
    let home = home();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let subject = format!("s{number}");
            let mut command = home.command(&["keys", "add", "keys", "--subject", &subject]);
            command.spawn().expect("it starts")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
    }
    let listed = home.weft(&["keys", "list", "keys", "--json"]);
    assert_eq!(listed.out.lines().count(), 8, "{listed:?}");
    let left = std::fs::read_dir(home.path(".")).expect("a folder");
    let left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left, ["keys"], "no other file is left");
}

#[test]
fn a_token_comes_from_one_flag_one_file_or_the_environment() {
    let none = json!({});
    let token = "a-token-of-sixteen-or-more";
    let with_variable = home().set("WEFT_SERVE_TOKEN", token);
    std::fs::write(with_variable.path("token"), format!("{token}\n")).expect("written");
    for (home, args) in [
        (&with_variable, &[][..]),
        (&home(), &["--token-file", with_variable.path("token").to_str().expect("text")]),
    ] {
        let (served, before) = serve(home, args);
        assert!(before.is_empty(), "{before:?}");
        assert_eq!(served.send("GET /info", &key(token), &none).0, 200);
        assert_eq!(served.send("GET /info", &key("another-token-1234567"), &none).0, 401);
        let came = served.terminate();
        assert!(!came.out.contains(token) && !came.errors.contains(token), "{came:?}");
    }
    for (home, args, says) in [
        (&with_variable, &["--token", "a-token-of-sixteen"][..], &["--token", "WEFT_SERVE_TOKEN"]),
        (&with_variable, &["--token-file", "token"], &["--token-file", "WEFT_SERVE_TOKEN"]),
        (&with_variable, &["--no-auth"], &["--no-auth", "WEFT_SERVE_TOKEN"]),
        (&home(), &["--token-file", "x", "--token", "y"], &["--token-file", "--token"]),
        (&home(), &["--token-file", "x", "--no-auth"], &["--token-file", "--no-auth"]),
        (&home(), &["--keys", "x", "--no-auth"], &["--keys", "--no-auth"]),
        (&home(), &["--token-file", "nothing"], &["--token-file nothing", "No such file"]),
        (&home().set("WEFT_SERVE_TOKEN", "short"), &[], &["WEFT_SERVE_TOKEN", "at least 16"]),
    ] {
        let came = home.weft(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
        assert_eq!(came.status, Some(2), "{args:?} {came:?}");
        assert!(says.iter().all(|says| came.errors.contains(says)), "{args:?} {came:?}");
    }
}

#[test]
fn a_server_raises_its_limit_of_open_files_or_says_what_it_serves() {
    let home = home();
    let start = |limit: &str| {
        let program =
            format!("ulimit {limit} && exec {PROGRAM} serve --listen 127.0.0.1:0 --no-auth");
        Served::start(&home, Path::new("/bin/sh"), &["-c", &program]).0
    };
    let served = start("-S -n 300");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", served.id())).expect("limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let fields: Vec<_> = files.split_whitespace().collect();
    assert_eq!(fields[3], fields[4], "{files}");
    drop(served);
    let mut served = start("-n 600");
    let note = served.note("connections are served");
    assert!(note.contains("344 connections") && note.contains("at most 600 files"), "{note}");
    assert_eq!(served.send("GET /ok", "", &json!({})).0, 200);
}
