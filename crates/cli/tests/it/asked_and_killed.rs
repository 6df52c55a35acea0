//! Calls of MCP servers beside questions, in a process that is killed while it waits for an answer.
//! The server records each call that reaches it.

use crate::home::{Came, Home, PROGRAM};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use weftwork_testkit::{LoopbackServer, Reply};

const SERVERS: &str =
    r#"{"mcpServers": {"count": {"command": "python3", "args": ["counting_server.py"]}}}"#;
const RULES: &str = r#"{"version": 1, "rules": [
    {"tool": "count/pay", "decision": "ask_human", "reason": "it pays"},
    {"tool": "count/*", "decision": "allow"}
]}"#;

/// A home with the server, and a model that makes calls at once and then says that it is done.
struct Scene {
    home: Home,
    model: LoopbackServer,
}

impl Scene {
    async fn new(calls: &[(&str, Value)]) -> Self {
        let call = |(index, (name, args)): (usize, &(&str, Value))| {
            let function = json!({"name": name, "arguments": args.to_string()});
            json!({"index": index, "id": format!("call-{index}"), "function": function})
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
        let model = LoopbackServer::start(move |number, _| {
            let (delta, end) = match number {
                0 => (json!({"tool_calls": calls}), "tool_calls"),
                _ => (json!({"content": "Done."}), "stop"),
            };
            let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
            let chunk = json!({"id": "c", "choices": [choice]});
            let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
            Reply::full(200, &[("content-type", "text/event-stream")], stream)
        });
        let model = model.await.expect("a server");
        let path = std::env::var("PATH").expect("a path");
        let home = Home::new().provider(&model.url("/v1")).set("PATH", &path);
        let home = home.set("WEFT_MCP", "mcp.json").set("WEFT_POLICY", "rules.json");
        for (name, text) in [
            ("counting_server.py", include_str!("counting_server.py")),
            ("mcp.json", SERVERS),
            ("rules.json", RULES),
        ] {
            std::fs::write(home.path(name), text).expect("written");
        }
        Self { home, model }
    }

    fn weft(&self, args: &[&str]) -> Came {
        tokio::task::block_in_place(|| self.home.weft(args))
    }

    fn allow(&self, tool: &str, terms: &[&str]) {
        let came = self.weft(&[&["mcp", "allow", tool, "--shown", "."], terms].concat());
        assert_eq!(came.status, Some(0), "{came:?}");
    }

    /// Says something in a chat, and kills its process with SIGKILL once it waits for the answer to
    /// a question with these words.
    fn killed_while_it_asks(&self, words: &str) {
        let mut command = self.home.command(&["chat", "--thread", "t"]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let mut typed = child.stdin.take().expect("a pipe");
        typed.write_all(b"Go.\n").expect("it listens");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let asked = lines.by_ref().map_while(Result::ok).find(|line| line.contains(words));
        assert!(asked.is_some(), "{PROGRAM} ended without asking: {words}");
        // The pipe is open, so that the chat waits for a line.
        child.kill().expect("it runs");
        assert_eq!(child.wait().expect("it ends").code(), None, "it was killed");
        drop(typed);
    }

    /// Names of the calls that reached the server, sorted.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path("calls")).unwrap_or_default();
        let mut calls: Vec<String> = text.lines().map(str::to_owned).collect();
        calls.sort();
        calls
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_beside_questions_is_made_once_though_the_process_is_killed() {
    let calls = [
        ("ask_human", json!({"question": "Indoors or outdoors?"})),
        ("count__pay", json!({})),
        ("count__note", json!({})),
        ("count__mark", json!({})),
    ];
    let scene = Scene::new(&calls).await;
    for tool in ["count/pay", "count/note", "count/mark"] {
        scene.allow(tool, &["--effect", "external-side-effect"]);
    }
    scene.killed_while_it_asks("Indoors or outdoors?");
    assert_eq!(scene.calls(), ["mark", "note"], "the others wait for no one");
    let came = scene.weft(&["threads", "resume", "t", "--answer", "indoors"]);
    assert_eq!(came.status, Some(3), "the approval still waits: {came:?}");
    let came = scene.weft(&["threads", "resume", "t", "--approve"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.out.contains("Done."), "{came:?}");
    assert_eq!(scene.calls(), ["mark", "note", "pay"], "each call once");
    assert_eq!(scene.model.received().len(), 2, "and each answer of the model once");
    let listed = scene.weft(&["approvals", "list", "--json"]);
    let record: Value = serde_json::from_str(listed.out.trim()).expect("one record");
    assert_eq!(record["outcome"]["decided"]["approved"], true);
    assert_eq!(record["request"]["tool"], "count/pay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_server_asked_is_repeated_after_a_kill_only_if_that_does_no_harm() {
    let external = ["--effect", "external-side-effect"];
    for (terms, repeated) in [
        (&external[..], false),
        (&["--effect", "read-only"], true),
        (&["--effect", "external-side-effect", "--idempotent"], true),
    ] {
        let scene = Scene::new(&[("count__guests", json!({}))]).await;
        scene.allow("count/guests", terms);
        scene.allow("count/pay", &external); // the rules name it
        scene.killed_while_it_asks("How many guests?");
        let args = ["threads", "resume", "t", "--json", "--answer", r#"{"guests": 7}"#];
        let came = scene.weft(&args);
        assert_eq!(came.status, Some(0), "{came:?}");
        if repeated {
            assert!(came.out.contains(r#"\"guests\": 7"#), "{came:?}");
            assert_eq!(scene.calls(), ["guests", "guests"], "{terms:?}");
        } else {
            assert!(came.out.contains("W0914"), "{came:?}");
            assert!(came.out.contains("the call is not made again"), "{came:?}");
            assert_eq!(scene.calls(), ["guests"], "nothing is done twice");
        }
    }
}
