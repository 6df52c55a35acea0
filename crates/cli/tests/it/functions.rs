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

const BOSS: &str = "weft: 1
type: function
agent_card: {description: Lets others work}
orchestration: {availableAgents: [payer]}
transport:
  kind: function
  function: {timeout_ms: 60000, grants: [agents, drafts, store]}
";

impl Scene {
    fn add(&self, slug: &str, definition: &str, code: &str) {
        let folder = self.home.path("agents").join(slug);
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("agent.yaml"), definition).expect("written");
        std::fs::write(folder.join("function.js"), code).expect("written");
    }

    /// Runs an agent to its answer.
    fn answer(&self, slug: &str, message: &str) -> Value {
        let came = self.weft(&["agents", "run", slug, message, "--json"]);
        serde_json::from_str(&came.out).unwrap_or_else(|_| panic!("an answer: {came:?}"))
    }
}

/// An agent that code asks is asked once, also if it asks a person, and those that are not granted are
/// not asked.
#[tokio::test(flavor = "multi_thread")]
async fn code_asks_the_agents_of_its_definition() {
    let scene = Scene::new(CODE, |number| says(if number == 0 { "A" } else { "B" })).await;
    let code = "async function handler(input, ctx) {
      const [payer, refused] = await Promise.all([
        ctx.agents.call('payer', { message: 'Pay.', payload: { title: 'Paid' } }),
        ctx.agents.call('boss', 'Go.').catch(error => [error.code, error.message]),
      ]);
      return { payer, refused };
    }";
    scene.add("boss", BOSS, code);
    let came = scene.weft(&["agents", "run", "boss", "Go.", "--json"]);
    assert_eq!(came.status, Some(3), "the agent that it asks waits for a person: {came:?}");
    assert_eq!(scene.calls(), ["pay"]);
    let thread = scene.thread();
    let came = scene.weft(&["threads", "resume", &thread, "--approve", "--json"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(scene.calls(), ["pay", "note"], "each call once");
    assert_eq!(scene.model.received().len(), 2, "each answer once");
    let listed = scene.weft(&["deliverables", &thread, "--json"]);
    let made: Vec<Value> = serde_json::from_str(&listed.out).expect("a list");
    assert_eq!(made.len(), 2, "that of each agent: {made:?}");
    let own = made.iter().find(|of| of["versions"][0]["agent"] == "boss").expect("that of boss");
    let shown =
        scene.weft(&["deliverables", &thread, own["id"].as_str().expect("an id"), "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("a deliverable");
    let content: Value =
        serde_json::from_str(shown["content"].as_str().expect("a text")).expect("JSON");
    let paid = json!({"paid": "done pay", "first": "A", "second": "B", "noted": "done note", "same": true});
    assert_eq!(content["payer"]["content"], paid, "{content}");
    assert_eq!(content["payer"]["metadata"]["agent"], "payer", "{content}");
    assert_eq!(content["refused"][0], "W1055", "{content}");
}

/// A definition that code proposes is nobody's before a person makes it current.
#[tokio::test(flavor = "multi_thread")]
async fn code_proposes_definitions_that_a_person_makes_current() {
    let scene = Scene::new(CODE, |_| says("A")).await;
    let code = r#"async function handler(input, ctx) {
      const files = {
        "agent.yaml": "weft: 1\ntype: function\nagent_card: {description: Echoes}\n",
        "function.js": "async function handler(input) { return input.message; }",
      };
      const made = await ctx.agents.draft({ slug: "echo", files });
      const again = await ctx.agents.draft({ slug: "echo", files });
      const wrong = await ctx.agents
        .draft({ slug: "bad", files: { "agent.yaml": "weft: 1\ntype: funktion\n" } })
        .catch(error => [error.code, error.message]);
      return { made, again, wrong };
    }"#;
    scene.add("boss", BOSS, code);
    let answer = scene.answer("boss", "Go.");
    let content = &answer["content"];
    assert_eq!(content["made"], content["again"], "{answer}");
    let wrong = content["wrong"][1].as_str().expect("an error");
    assert!(wrong.contains("agent.yaml:2:7") && wrong.contains("funktion"), "{wrong}");
    let version = content["made"]["version"].as_str().expect("a version");
    let early = scene.weft(&["agents", "run", "echo", "Hello"]);
    assert_eq!(early.status, Some(2), "{early:?}");
    let listed = scene.weft(&["agents", "versions", "echo"]);
    assert!(listed.out.contains(version) && listed.out.contains("draft"), "{listed:?}");
    let used = scene.weft(&["agents", "use", "echo", version]);
    assert_eq!(used.status, Some(0), "{used:?}");
    assert_eq!(scene.answer("echo", "Hello")["content"], "Hello");
    let listed = scene.weft(&["agents", "versions", "echo"]);
    assert!(!listed.out.contains("draft"), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_keeps_items_of_its_agent() {
    let scene = Scene::new(CODE, |_| says("A")).await;
    let code = "async function handler(input, ctx) {
      const before = await ctx.store.get('visits');
      const count = (before?.count ?? 0) + 1;
      await ctx.store.put('visits', { count, text: 'a visit' });
      const found = await ctx.store.search('visit');
      const refused = await ctx.store.put('other', 3).catch(error => error.message);
      const gone = [await ctx.store.delete('none'), count > 1 && (await ctx.store.delete('visits'))];
      return { count, found, refused, gone };
    }";
    scene.add("boss", BOSS, code);
    let first = scene.answer("boss", "Go.");
    let expected = json!([{"key": "visits", "value": {"count": 1, "text": "a visit"}}]);
    assert_eq!(first["content"]["found"], expected, "{first}");
    let refused = first["content"]["refused"].as_str().expect("an error");
    assert!(refused.contains("expected an object"), "{refused}");
    let second = scene.answer("boss", "Go.");
    assert_eq!(second["content"]["count"], 2, "the item outlives the conversation: {second}");
    assert_eq!(second["content"]["gone"], json!([false, true]), "{second}");
    assert_eq!(scene.answer("boss", "Go.")["content"]["count"], 1);
}

/// Each agent of a chain asks the next one; the limit of the agent that asks counts.
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_code_ask_one_another_to_a_limit() {
    let scene = Scene::new(CODE, |_| says("A")).await;
    for at in 0..6 {
        let next = format!("{{availableAgents: [step-{}]}}", at + 1);
        let definition = BOSS.replace("{availableAgents: [payer]}", &next);
        let code = format!(
            "const handler = async (input, ctx) => [{at}, (await ctx.agents.call('step-{}', 'Go.')).content];",
            at + 1
        );
        scene.add(&format!("step-{at}"), &definition, &code);
    }
    let last = BOSS.replace("orchestration: {availableAgents: [payer]}\n", "");
    scene.add("step-6", &last, "const handler = () => 'end';");
    let answer = scene.answer("step-0", "Go.");
    assert_eq!(answer["success"], false, "{answer}");
    let error = answer["error"].as_str().expect("an error");
    assert!(error.contains("agent step-3 may ask no further one, by its `maxDepth`, 3"), "{error}");
    let ended = scene.answer("step-3", "Go.");
    assert_eq!(ended["content"], json!([3, [4, [5, "end"]]]), "{ended}");
}
