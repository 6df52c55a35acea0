//! Tests of invalid input and failing surroundings: an error with code and exit status, and no
//! lost data.

use crate::home::{Came, Home};
use std::fmt::Write as _;
use weftwork_testkit::{LoopbackServer, Reply};

const SAY: &[&str] = &["run", "desk", "--thread", "t", "--input", "Where is order A1001?"];

/// Formats a command and its result for a snapshot.
fn transcript_of(home: &Home, args: &[&str], came: &Came) -> String {
    let mut text = String::new();
    writeln!(text, "$ weft {}", args.join(" ")).expect("written");
    for (name, said) in [("", &came.out), ("! ", &came.errors)] {
        for line in said.lines() {
            writeln!(text, "{name}{line}").expect("written");
        }
    }
    writeln!(text, "exit status {}\n", came.status.unwrap_or(-1)).expect("written");
    home.plain(&text)
}

/// Runs commands one after the other and formats their results.
fn transcript(home: &Home, commands: &[&[&str]]) -> String {
    commands.iter().map(|args| transcript_of(home, args, &home.weft(args))).collect()
}

/// Replaces ids of questions and runs, which differ between test runs.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // An id of a run is the last word of its line.
    let is_run = |line: &str| line.len() == 36 && is_id(&line.replace('-', ""));
    text.split(' ')
        .map(|word| match word.lines().next().filter(|line| is_id(line) || is_run(line)) {
            Some(id) => word.replace(id, "ID"),
            None if word.get(..32).is_some_and(is_id) => format!("ID{}", &word[32..]),
            None => word.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn names_that_do_not_exist() {
    let home = Home::new();
    insta::assert_snapshot!(transcript(
        &home,
        &[
            &["run", "dsk", "--input", "x", "--model", "scripted"],
            &["run", "desk", "--input", "x", "--model", "scriptd"],
            &["run", "desk", "--input", "x", "--model", "scripted:clever"],
            &["run", "desk", "--input", "x", "--model", "replay:nothing.json"],
            &["graph", "show", "dessk"],
            &["threads", "show", "nowhere"],
            &["threads", "resume", "nowhere", "--approve"],
            &["threads", "show", " lamp"],
            &["explain", "W0301x"],
            &["explain", "what"],
        ],
    ));
}

#[test]
fn input_and_answers_that_do_not_fit() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let told = transcript(
        &home,
        &[
            &["run", "desk", "--input", "  "],
            &["run", "desk", "--input-json", "{"],
            &["run", "desk", "--input-json", "[1]"],
            &["run", "desk", "--thread", "t", "--input-json", "{\"mesages\": []}"],
            &["run", "desk", "--thread", "u", "--input", "Refund order A1001, amount 25."],
            &["threads", "resume", "u"],
            &["threads", "resume", "u", "--answer", "yes"],
            &["threads", "resume", "u", "--approve", "--question", "12"],
            &["threads", "resume", "u", "--answer-json", "x=1"],
            &["threads", "delete", "u"],
            &["threads", "resume", "u", "--reject", "--comment", "too much"],
            &["threads", "resume", "u"],
            &["threads", "delete", "u", "--yes"],
            &["threads", "show", "u"],
        ],
    );
    insta::assert_snapshot!(without_ids(&told));
}

#[test]
fn settings_that_are_wrong() {
    let with = |text: &str| Home::new().config(text);
    let mut text = String::new();
    for home in [
        with("modle = \"scripted\"\n"),
        with("model = [\n"),
        with("[providers.fake]\nurl = \"ftp://x\"\n"),
        with("[egress]\nallow = [\"http://localhost\"]\n"),
        Home::new().set("WEFT_STORE", "mysql://x"),
        Home::new().set("WEFT_CONFIG", "nothing.toml"),
        Home::new().set("HOME", ""),
    ] {
        text.push_str(&transcript(&home, &[&["threads", "list"]]));
    }
    insta::assert_snapshot!(text);
}

/// A policy that is ignored lets tools run that it denies.
#[cfg(unix)]
#[test]
fn settings_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let secret = std::ffi::OsStr::from_bytes(b"hunter2\xff");
    let home = Home::new().config("[providers.fake]\nurl = \"http://x\"\nkey_env = \"FAKE_KEY\"\n");
    for name in [
        "WEFT_POLICY",
        "WEFT_MODEL",
        "WEFT_STORE",
        "WEFT_MCP",
        "WEFT_CONFIG",
        "WEFT_THREAD_BUDGET",
        "FAKE_KEY",
        "HOME",
    ] {
        let mut command = home.command(SAY);
        let came: Came = command.env(name, secret).output().expect("it starts").into();
        assert_eq!(came.status, Some(2), "{came:?}");
        let expected = format!("W0703]: the environment variable {name} is `not UTF-8`");
        assert!(came.errors.contains(&expected), "{came:?}");
        assert!(!came.errors.contains("hunter2"), "{came:?}");
    }
    let mut command = home.command(&["chat", "--url", "http://127.0.0.1:1"]);
    let came: Came = command.env("WEFT_TOKEN", secret).output().expect("it starts").into();
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("the environment variable WEFT_TOKEN is not UTF-8"), "{came:?}");
}

#[test]
fn a_key_that_is_missing_is_named() {
    insta::assert_snapshot!(transcript(
        &Home::new().set("WEFT_MODEL", "openai:gpt-4o-mini"),
        &[SAY]
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_gone_or_breaks_off() {
    let sse = [("content-type", "text/event-stream")];
    let begun = r#"{"id":"c","choices":[{"index":0,"delta":{"content":"Order A10"}}]}"#;
    let cut = Reply::pieces(200, &sse).piece(format!("data: {begun}\n\n"));
    let mut text = String::new();
    for (what, reply) in [
        (
            "refuses the key",
            Reply::full(401, &[], r#"{"error":{"message":"no such key sk-hunter2"}}"#),
        ),
        ("is cut mid-stream", cut),
        ("closes at once", Reply::nothing()),
        ("fails", Reply::full(500, &[], "{}")),
        ("says nonsense", Reply::full(200, &sse, "data: {oops\n\n")),
    ] {
        let server = LoopbackServer::start(move |_, _| reply.clone()).await.expect("a server");
        let config = format!(
            "model = \"fake:m\"\n[providers.fake]\nurl = \"{}\"\nkey_env = \"FAKE_KEY\"\n",
            server.url("/v1")
        );
        let home = Home::new().config(&config).set("FAKE_KEY", "sk-hunter2");
        let told = tokio::task::block_in_place(|| {
            let after: &[&str] = &["threads", "resume", "t"];
            let mut told = transcript(&home, &[SAY]);
            // The thread keeps its state and can be resumed with another model.
            let again = [after, &["--model", "scripted"]].concat();
            let came = home.weft(&again);
            assert_eq!(came.status, Some(0), "{what}: {came:?}");
            assert!(came.out.contains("arrives on Friday"), "{what}: {came:?}");
            let journal = home.weft(&["threads", "show", "t"]);
            assert!(!format!("{journal:?}{came:?}").contains("hunter2"));
            told.insert_str(0, &format!("A server that {what}\n"));
            told
        });
        assert!(!told.contains("hunter2"), "{told}");
        text.push_str(&told.replace(&server.address().port().to_string(), "PORT"));
    }
    insta::assert_snapshot!(text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_named() {
    let server = LoopbackServer::start(|_, _| Reply::nothing()).await.expect("a server");
    let url = server.url("/v1");
    let port = server.address().port().to_string();
    drop(server);
    let home = Home::new().provider(&url);
    let told = tokio::task::block_in_place(|| transcript(&home, &[SAY]));
    insta::assert_snapshot!(told.replace(&port, "PORT"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_keeps_breaking_the_schema_is_given_up() {
    let call = r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call","function":{"name":"refund_order","arguments":"{\"order_id\":\"A1001\",\"amount\":\"lots\"}"}}]},"finish_reason":"tool_calls"}]}"#;
    let stream = format!("data: {call}\n\ndata: [DONE]\n\n");
    let server = LoopbackServer::start(move |number, _| {
        let own = stream.replace("\"call\"", &format!("\"call-{number}\""));
        Reply::full(200, &[("content-type", "text/event-stream")], own)
    });
    let server = server.await.expect("a server");
    let home = Home::new().provider(&server.url("/v1"));
    let told = tokio::task::block_in_place(|| transcript(&home, &[SAY]));
    assert_eq!(server.received().len(), 4, "three chances after the first");
    insta::assert_snapshot!(told);
}

#[test]
fn a_store_that_is_damaged_newer_or_locked() {
    let mut text = String::new();
    let list: &[&str] = &["threads", "list"];
    let file = |home: &Home| {
        let file = home.store_file();
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        file
    };
    let home = Home::new();
    std::fs::write(
        file(&home),
        "no database at all, but longer than a header of SQLite is".repeat(4),
    )
    .expect("written");
    text.push_str(&transcript(&home, &[list]));

    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(SAY).status, Some(0));
    let database = rusqlite::Connection::open(file(&home)).expect("opens");
    database.pragma_update(None, "user_version", 999).expect("updated");
    drop(database);
    text.push_str(&transcript(&home, &[list]));

    let home = Home::new();
    std::fs::create_dir_all(file(&home)).expect("made");
    text.push_str(&transcript(&home, &[list]));

    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(SAY).status, Some(0));
    let database = rusqlite::Connection::open(file(&home)).expect("opens");
    database.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    text.push_str(&transcript(&home, &[SAY]));
    drop(database);
    assert_eq!(home.weft(SAY).status, Some(0), "works once the lock is released");
    insta::assert_snapshot!(text);
}

#[test]
fn reading_commands_create_no_store() {
    let home = Home::new();
    let came = home.weft(&["threads", "list"]);
    assert_eq!((came.status, came.errors.contains("no threads yet")), (Some(0), true), "{came:?}");
    for args in [&["threads", "show", "t"][..], &["threads", "delete", "t", "--yes"]] {
        let came = home.weft(args);
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains("error[W0201]: thread `t` does not exist"), "{came:?}");
    }
    assert!(!home.store_file().exists(), "there is none");
    for args in [&["threads", "list"][..], &["threads", "show", "t"], &["threads", "resume", "t"]] {
        let came = home.weft(&[&["--store", "sqlite:mistyped.db"], args].concat());
        assert_eq!(came.status, Some(6), "{came:?}");
        assert!(came.errors.contains("the file does not exist"), "{came:?}");
        assert!(!home.path("mistyped.db").exists(), "{args:?}");
    }
    std::fs::write(home.path("cut.db"), "").expect("written");
    let came = home.weft(&["--store", "sqlite:cut.db", "store", "verify"]);
    assert_eq!(came.status, Some(6), "{came:?}");
    assert!(came.errors.contains("the file is empty"), "{came:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written_is_named() {
    use std::process::Stdio;
    // No user can create files there.
    let home = Home::new().set("WEFT_STORE", "sqlite:/sys/weft.db").set("WEFT_MODEL", "scripted");
    let came = home.weft(SAY);
    assert_eq!(came.status, Some(6), "{came:?}");
    assert!(came.errors.contains("error[W0208]: store `/sys/weft.db` is read-only"), "{came:?}");

    let full = std::fs::File::options().write(true).open("/dev/full").expect("opens");
    let home = Home::new();
    let mut command = home.command(&["explain"]);
    let came: Came = command.stdout(Stdio::from(full)).output().expect("starts").into();
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.starts_with("error[W0711]: cannot write output: "), "{came:?}");
    // No key is added whose token nobody has seen.
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opens");
    let mut command = home.command(&["keys", "add", "keys"]);
    let came: Came = command.stdout(Stdio::from(full)).output().expect("starts").into();
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(!home.path("keys").exists(), "{came:?}");
}
