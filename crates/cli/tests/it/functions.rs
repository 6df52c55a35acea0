//! Function agents: their code runs in the process of a sandbox, and what it asks for is on record.

use crate::home::{Came, Home};
use serde_json::{Value, json};
use std::process::Stdio;
use weftwork_testkit::{LoopbackServer, Reply};

const SERVERS: &str =
    r#"{"mcpServers": {"count": {"command": "python3", "args": ["counting_server.py"]}}}"#;
const RULES: &str = r#"{"version": 1, "rules": [{"tool": "count/*", "decision": "allow"}]}"#;
const AGENT: &str = "weft: 1
type: function
agent_card: {description: Pays}
tools: [count/pay, count/note]
requires_confirmation: [count/note]
transport:
  kind: function
  function: {timeout_ms: 60000, grants: [model, tools, emit, log]}
";

/// A home with a function agent, a server that records the calls that reach it, and a model.
struct Scene {
    home: Home,
    model: LoopbackServer,
}

impl Scene {
    async fn new(code: &str, answer: fn(usize) -> Reply) -> Self {
        let model = LoopbackServer::start(move |number, _| answer(number)).await.expect("a server");
        let path = std::env::var("PATH").expect("a path");
        let home = Home::new().provider(&model.url("/v1")).set("PATH", &path);
        let home = home.set("WEFT_MCP", "mcp.json").set("WEFT_POLICY", "rules.json");
        std::fs::create_dir_all(home.path("agents/payer")).expect("made");
        for (name, text) in [
            ("counting_server.py", include_str!("counting_server.py")),
            ("mcp.json", SERVERS),
            ("rules.json", RULES),
            ("agents/payer/agent.yaml", AGENT),
            ("agents/payer/function.js", code),
        ] {
            std::fs::write(home.path(name), text).expect("written");
        }
        let scene = Self { home, model };
        for tool in ["count/pay", "count/note"] {
            let args = ["mcp", "allow", tool, "--shown", ".", "--effect", "external-side-effect"];
            let came = scene.weft(&args);
            assert_eq!(came.status, Some(0), "{came:?}");
        }
        scene
    }

    fn weft(&self, args: &[&str]) -> Came {
        tokio::task::block_in_place(|| self.home.weft(args))
    }

    /// Names of the calls that reached the server.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Id of the only thread.
    fn thread(&self) -> String {
        let listed = self.weft(&["threads", "list", "--json"]);
        let row: Value = serde_json::from_str(listed.out.trim()).expect("one thread");
        row["thread"].as_str().or(row["id"].as_str()).expect("an id").to_owned()
    }
}

fn says(text: &str) -> Reply {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
    let chunk = json!({"id": "c", "choices": [choice]});
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    Reply::full(200, &[("content-type", "text/event-stream")], stream)
}

const CODE: &str = "async function handler(input, ctx) {
  const seen = [Date.now(), Math.random()];
  const first = await ctx.model('First?');
  const paid = await ctx.tools('count/pay', {});
  const second = await ctx.model({ messages: [{ role: 'user', content: 'Second?' }] });
  const noted = await ctx.tools('count/note', {});
  return { paid, first, second, noted, same: seen[0] === Date.now() };
}";

/// The process is killed while the code waits for its second answer of the model.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_makes_no_call_on_record_again() {
    let answer = |number| match number {
        0 => says("A"),
        1 => Reply::nothing().hang(),
        _ => says("B"),
    };
    let scene = Scene::new(CODE, answer).await;
    let mut command = scene.home.command(&["agents", "run", "payer", "Go."]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    while scene.model.received().len() < 2 {
        tokio::task::yield_now().await;
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(scene.calls(), ["pay"]);
    let thread = scene.thread();
    let asked = scene.weft(&["threads", "resume", &thread]);
    assert_eq!(asked.status, Some(3), "the second call waits for a person: {asked:?}");
    assert_eq!(scene.calls(), ["pay"], "{asked:?}");
    let came = scene.weft(&["threads", "resume", &thread, "--approve"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(scene.calls(), ["pay", "note"], "each call once");
    assert_eq!(scene.model.received().len(), 3, "the answer on record is not asked for again");
    let listed = scene.weft(&["deliverables", &thread, "--json"]);
    let made: Value = serde_json::from_str(&listed.out).expect("JSON");
    let made = made.as_array().map_or(&made, |all| &all[0]);
    let id = made["id"].as_str().expect("an id");
    let shown = scene.weft(&["deliverables", &thread, id, "--json"]);
    assert!(shown.out.contains(r#"\"first\": \"A\""#), "{shown:?}");
    assert!(shown.out.contains(r#"\"second\": \"B\""#), "{shown:?}");
    assert_eq!(made["versions"].as_array().map(Vec::len), Some(1), "{made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_code_have_their_codes_and_name_the_calls_that_were_made() {
    let code = "async function handler(input, ctx) {
      await ctx.tools('count/pay', {});
      if (input.payload.title === 'throw') throw new Error('no good');
      if (input.payload.title === 'loop') return new Promise(() => {});
      if (input.payload.title === 'other') await ctx.tools('count/mark', {});
      await ctx.agents.call('x');
    }";
    let scene = Scene::new(code, |_| says("A")).await;
    for (title, expected, text) in [
        ("throw", "W1052", "Error: no good"),
        ("loop", "W1052", "a promise that nothing ends"),
        ("other", "W1052", "has no tool count/mark; its tools: count/pay, count/note"),
        ("grant", "W1052", "`ctx.agents.call` is not granted"),
    ] {
        let came = scene.weft(&["agents", "run", "payer", "Go.", "--title", title, "--json"]);
        let answer: Value = serde_json::from_str(&came.out).expect("an answer");
        assert_eq!(came.status, Some(1), "{came:?}");
        assert_eq!(answer["metadata"]["code"], expected, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(text)), "{answer}");
        assert_eq!(answer["metadata"]["tools"][0]["tool"], "count/pay", "{answer}");
    }
    assert_eq!(scene.calls(), ["pay"; 4]);
}

#[test]
fn the_process_of_a_sandbox_reads_no_command_line() {
    let came = Home::new().weft(&["sandbox-process"]);
    assert_eq!(came.status, Some(1), "its pipe is closed: {came:?}");
    assert!(came.out.contains(r#"{"kind":"ready"}"#), "{came:?}");
    let help = Home::new().weft(&["--help"]);
    assert!(!help.out.contains("sandbox-process"), "{help:?}");
}

/// Nothing begins behind a question, and calls that code does not wait for are made and reported, too.
#[tokio::test(flavor = "multi_thread")]
async fn calls_beside_a_question_and_behind_the_code_are_made_once() {
    let code = "async function handler(input, ctx) {
      if (input.payload.title === 'left') { ctx.tools('count/pay', {}); return 'left'; }
      return Promise.all([ctx.tools('count/pay', {}), ctx.tools('count/note', {}), ctx.tools('count/pay', {})]);
    }";
    let scene = Scene::new(code, |_| says("A")).await;
    let came = scene.weft(&["agents", "run", "payer", "Go.", "--json"]);
    assert_eq!(came.status, Some(3), "{came:?}");
    let before = scene.calls();
    assert!(before == ["pay"] || before == ["pay", "pay"], "none is cut off: {before:?}");
    let thread = scene.thread();
    let came = scene.weft(&["threads", "resume", &thread, "--approve"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let mut all = scene.calls();
    all.sort();
    assert_eq!(all, ["note", "pay", "pay"]);
    let came = scene.weft(&["agents", "run", "payer", "Go.", "--title", "left", "--json"]);
    let answer: Value = serde_json::from_str(&came.out).expect("an answer");
    assert_eq!(answer["content"], "left", "{answer}");
    assert_eq!(answer["metadata"]["tools"][0]["tool"], "count/pay", "{answer}");
    assert_eq!(scene.calls().len(), 4);
}
