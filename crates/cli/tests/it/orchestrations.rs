//! `weft orchestrations` with the real binary, also in processes that are killed with SIGKILL in the middle
//! of a rollback. A server of tools records each call in a file.

use crate::home::{Came, Home};
use serde_json::{Value, json};
use std::fs;

const SERVERS: &str =
    r#"{"mcpServers": {"count": {"command": "python3", "args": ["counting_server.py"]}}}"#;
const RULES: &str = r#"{"version": 1, "rules": [{"tool": "count/*", "decision": "allow"}]}"#;
const BOSS: &str = r#"
type: tool
tools: [count/note]
requires_confirmation: [count/note]
orchestration:
  steps:
    - id: first
      agent: pays
      payload: {tool: count/pay, arguments: {}}
      undo: {agent: notes, payload: {tool: count/note, arguments: {}}}
    - id: check
      checkpoint: {question: "Go on?"}
    - id: second
      agent: pays
      payload: {tool: count/pay, arguments: {}}
      undo: {agent: marks, payload: {tool: count/mark, arguments: {}}}
"#;

struct Scene {
    home: Home,
}

impl Scene {
    fn new() -> Self {
        let path = std::env::var("PATH").expect("a path");
        let home = Home::new().set("PATH", &path).config("model = \"scripted\"\n");
        let home = home.set("WEFT_MCP", "mcp.json").set("WEFT_POLICY", "rules.json");
        let agents = [
            ("boss", BOSS),
            ("pays", "type: tool\ntools: [count/pay]\n"),
            ("notes", "type: tool\ntools: [count/note]\n"),
            ("marks", "type: tool\ntools: [count/mark]\n"),
        ];
        for (slug, text) in agents {
            fs::create_dir_all(home.path(&format!("agents/{slug}"))).expect("is made");
            fs::write(home.path(&format!("agents/{slug}/agent.yaml")), text).expect("is written");
        }
        let files = [
            ("counting_server.py", include_str!("counting_server.py")),
            ("mcp.json", SERVERS),
            ("rules.json", RULES),
        ];
        for (name, text) in files {
            fs::write(home.path(name), text).expect("written");
        }
        let scene = Self { home };
        for tool in ["count/pay", "count/note", "count/mark"] {
            let effect = ["--effect", "external-side-effect"];
            let came = scene.weft(&[&["mcp", "allow", tool, "--shown", "."][..], &effect].concat());
            assert_eq!(came.status, Some(0), "{came:?}");
        }
        scene
    }

    fn weft(&self, args: &[&str]) -> Came {
        self.home.weft(args)
    }

    /// Begins the orchestration, which waits at its checkpoint.
    fn begin(&self) {
        let came = self.weft(&[
            "agents",
            "run",
            "boss",
            "--orchestrate",
            "--mode",
            "build",
            "--conversation",
            "c",
            "Go.",
        ]);
        assert_eq!(came.status, Some(3), "{came:?}");
    }

    fn act(&self, args: &[&str], status: i32) -> Came {
        let came = self.weft(&[&["orchestrations"][..], args].concat());
        assert_eq!(came.status, Some(status), "{args:?}: {came:?}");
        came
    }

    fn show(&self) -> Value {
        serde_json::from_str(&self.act(&["show", "c"], 0).out).expect("JSON")
    }

    /// Names of the calls that reached the server, in order.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.home.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn orchestrations_are_listed_paused_resumed_approved_and_rolled_back_by_hand() {
    let scene = Scene::new();
    scene.begin();
    let listed = scene.act(&["list"], 0).out;
    for word in ["boss", "waiting", "first done, check not_begun, second not_begun", "Go on?"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let paused = scene.act(&["pause", "c", "--expires-in", "2h", "--json"], 0).out;
    let paused: Value = serde_json::from_str(&paused).expect("JSON");
    let token = paused["content"]["token"].as_str().expect("a token").to_owned();
    assert_eq!(scene.show()["status"], "paused");
    scene.act(&["continue", "c"], 2);
    scene.act(&["approve", "c"], 0);
    assert_eq!(scene.calls(), ["pay"], "it is paused");
    let refused = scene.act(&["resume", "c", "0000"], 2).errors;
    assert!(refused.contains("W1072"), "{refused}");
    // The own work of the agent asks for a confirmation.
    scene.act(&["resume", "c", &token], 3);
    assert_eq!(scene.calls(), ["pay", "pay"]);
    let listed: Value = serde_json::from_str(&scene.act(&["list", "--json"], 0).out).expect("JSON");
    assert_eq!(listed["steps"][2], json!({"id": "second", "status": "done"}), "{listed}");

    // Without a terminal, only `--yes` confirms.
    let list = scene.act(&["rollback", "c"], 2);
    for word in ["first", "reused", "second", "undone", "marks", "count/pay {} succeeded"] {
        assert!(list.out.contains(word), "{word}: {list:?}");
    }
    assert!(list.errors.contains("W0713"), "{list:?}");
    assert_eq!(scene.calls().len(), 2);
    scene.act(&["rollback", "c", "--yes"], 3);
    assert_eq!(scene.calls(), ["pay", "pay", "mark", "pay"]);
    assert_eq!(scene.show()["rollback"]["effects"][2]["status"], "undone");
    scene.act(&["rollback", "c", "--step", "first", "--yes"], 3);
    assert_eq!(scene.calls()[4..], ["mark", "note", "pay"]);
    let rejected = scene.act(&["reject", "c", "--message", "No."], 1).errors;
    assert!(rejected.contains("W1070"), "{rejected}");
    assert_eq!(scene.act(&["list"], 0).out.lines().count(), 1, "a heading alone");
}

/// A rollback that is killed at any moment is continued, and each undo reaches the server once.
#[test]
fn a_killed_rollback_undoes_each_effect_once() {
    let kills = if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 20 } else { 4 };
    let mut cut_off = 0;
    for number in 0..kills {
        let scene = Scene::new();
        scene.begin();
        scene.act(&["approve", "c"], 3);
        assert_eq!(scene.calls(), ["pay", "pay"]);
        let args = ["orchestrations", "rollback", "c", "--step", "first", "--yes"];
        let mut child = scene.home.command(&args).spawn().expect("it starts");
        // Before the first undo, in it, between the two, and behind them.
        let expected = 2 + number % 4;
        while scene.calls().len() < expected && child.try_wait().expect("is there").is_none() {
            std::thread::yield_now();
        }
        (0..number * 5_000).for_each(|_| std::thread::yield_now());
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        let shown = scene.show();
        let is_undoing = shown["rollback"].to_string().contains("\"undoing\"");
        if shown["rollback"].is_null() {
            // Nothing of it was stored.
            scene.weft(&args);
        } else if is_undoing || shown["status"] == "running" {
            let came = scene.weft(&["orchestrations", "continue", "c"]);
            assert_eq!(came.status, Some(3), "{came:?}");
        }
        // A call that was cut off is not repeated: a person says what became of it.
        let shown = scene.show();
        let waits = shown["waits"].to_string();
        let is_unknown = waits.contains("unknown");
        cut_off += usize::from(is_unknown);
        let calls = scene.calls();
        let count = |name: &str| calls.iter().filter(|call| *call == name).count();
        assert!(count("mark") <= 1 && count("note") <= 1, "{number}: {calls:?} {shown}");
        let undone = shown["rollback"]["effects"].as_array().into_iter().flatten();
        let undone = undone.filter(|of| of["status"] == "undone").count();
        assert!(undone <= count("mark") + count("note"), "{calls:?} {shown}");
        if !is_unknown {
            assert_eq!(
                (count("mark"), count("note"), count("pay")),
                (1, 1, 3),
                "{calls:?} {shown}"
            );
        }
    }
    println!("{cut_off} of {kills} kills were in a call");
}
