//! Assistants of other servers as agents.

use crate::home::{Came, Home, PROGRAM};
use crate::serve::Served;
use serde_json::Value;
use std::fs::File;
use std::path::Path;

const KEY: &str = "a-key-of-sixteen-or-more";

#[test]
fn an_assistant_of_another_server_is_an_agent() {
    let there = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory");
    let args = ["serve", "--listen", "127.0.0.1:0", "--token", KEY];
    let (served, _) = Served::start(&there, Path::new(PROGRAM), &args);
    let file = |key: &str| {
        format!(
            "[remotes.helper]\nurl = \"http://{}\"\nassistant = \"desk\"\nkey_env = \"{key}\"\n",
            served.address
        )
    };
    let home = Home::new().set("WEFT_MODEL", "scripted").set("HELPER_KEY", KEY);
    let home = home.config(&file("HELPER_KEY"));
    let listed = home.weft(&["agents", "list"]);
    assert!(listed.out.contains("remote:helper") && listed.out.contains("desk"), "{listed:?}");
    let came = home.weft(&["run", "remote:helper", "--input", "What is 6 times 7?"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.out.contains("42") && !came.out.contains(KEY), "{came:?}");
    // What was streamed is not printed again. The model there says that it is scripted, in its text.
    assert_eq!(came.out.matches("[scripted model] Multiply: 42").count(), 1, "{came:?}");
    assert_eq!(came.out.matches("scripted").count(), 1, "{came:?}");
    let calls = "→ multiply {\"a\":6,\"b\":7}\n← multiply 42.0\n";
    assert!(came.out.starts_with(calls), "{came:?}");
    let came = home.weft(&["run", "remote:helper", "--json", "--input", "What is 6 times 7?"]);
    let last: Value = serde_json::from_str(came.out.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["model"], &last["label"]), (&Value::Null, &Value::Null), "{last}");
    let ask =
        ["run", "remote:helper", "--thread", "t", "--input", "Refund order A1002, amount 40."];
    let asked = home.weft(&ask);
    assert_eq!(asked.status, Some(3), "{asked:?}");
    assert!(asked.errors.contains("? refund_order needs approval"), "{asked:?}");
    assert!(asked.errors.contains("threads resume t --approve (or --reject)"), "{asked:?}");
    let wrong = home.weft(&["threads", "resume", "t", "--answer", "perhaps"]);
    assert!(wrong.errors.contains("W0709"), "{wrong:?}");
    let answered = home.weft(&["threads", "resume", "t", "--approve"]);
    assert_eq!(answered.status, Some(0), "{answered:?}");
    assert!(answered.out.contains("refunded"), "{answered:?}");
    let mut chat = home.command(&["chat", "remote:helper"]);
    chat.stdin(typed(&home, "Refund order A1002, amount 40.\nn, too much\n"));
    let chat: Came = chat.output().expect("weft starts").into();
    assert!(chat.out.contains("? refund_order needs approval"), "{chat:?}");
    // The mark of the server's model is in the answer; the model of this process is in no label.
    let labels = chat.out.replace("[scripted model] ", "");
    assert!(chat.out.contains("← refund_order") && !labels.contains("scripted"), "{chat:?}");
    assert!(chat.out.contains("too much") && !chat.out.contains("action_requests"), "{chat:?}");
    // Without the key, the server refuses the run, and says why.
    let home = home.config(&file("OTHER_KEY"));
    let listed = home.weft(&["agents", "list"]);
    assert!(listed.out.contains("its key `OTHER_KEY` is not set"), "{listed:?}");
    let came = home.weft(&["run", "remote:helper", "--input", "What is 6 times 7?"]);
    assert_ne!(came.status, Some(0), "{came:?}");
    for part in ["W0652", "`helper`", "`OTHER_KEY`", "is not set: set it"] {
        assert!(came.errors.contains(part), "{part}: {came:?}");
    }
}

/// Returns lines as the standard input of a command.
fn typed(home: &Home, lines: &str) -> File {
    let path = home.path("typed");
    std::fs::write(&path, lines).expect("written");
    File::open(path).expect("a file")
}

#[test]
fn an_address_with_a_password_is_refused_and_not_shown() {
    let text =
        "[remotes.helper]\nurl = \"http://ada:secret@agents.example\"\nassistant = \"desk\"\n";
    let came = Home::new().config(text).weft(&["agents", "list"]);
    assert!(came.errors.contains("W0650") && !came.errors.contains("secret"), "{came:?}");
}
