//! Rollbacks of orchestrations: the list of effects, its confirmation, and what is undone.

use crate::bench::{Bench, agent, outside};
use serde_json::{Value, json};
use weftwork_models::scripted::Step;
use weftwork_platform::HostedAgents;
use weftwork_types::task::TaskResponse;

const WRITES: &str = "type: tool\ntools: [stock/write]\n";
const FALTERS: &str = "type: tool\ntools: [stock/falter]\n";
const READS: &str = "type: tool\ntools: [math/add]\n";
const FAILS: &str = "type: tool\ntools: [math/fail]\n";
const HANGS: &str = "type: tool\ntools: [stock/hang]\n";

pub(crate) struct Scene {
    pub(crate) bench: Bench,
    platform: HostedAgents,
    book: String,
}

impl Scene {
    /// A scene with the agent `boss`, which has these steps.
    pub(crate) async fn new(steps: &str) -> Self {
        let book = uuid::Uuid::new_v4().to_string();
        let boss = format!("type: context\norchestration:\n{steps}").replace("BOOK", &book);
        let agents = [
            agent("boss", &boss),
            agent("writes", WRITES),
            agent("falters", FALTERS),
            agent("reads", READS),
            agent("fails", FAILS),
            agent("hangs", HANGS),
        ];
        let bench = Bench::new(agents, (0..20).map(|_| Step::text("Own."))).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        Self { bench, platform, book }
    }

    async fn act(&self, payload: Value) -> TaskResponse {
        let message = if payload["orchestrate"] == true { "Go." } else { "" };
        let request = json!({
            "agent": "boss", "mode": "build", "conversationId": "c", "userMessage": message,
            "payload": payload,
        });
        self.bench.ask(&self.platform, request).await
    }

    pub(crate) async fn execute(&self) -> TaskResponse {
        self.act(json!({"orchestrate": true})).await
    }

    /// Asks for the list of a rollback.
    pub(crate) async fn list(&self, step: Option<&str>) -> TaskResponse {
        self.act(json!({"orchestrationAction": "rollback", "step": step})).await
    }

    pub(crate) async fn confirm(&self, list: &TaskResponse) -> TaskResponse {
        let confirm = list.metadata["confirm"].clone();
        let step = list.metadata["rollback"]["step"].clone();
        self.act(json!({"orchestrationAction": "rollback", "step": step, "confirm": confirm})).await
    }

    pub(crate) fn outside(&self) -> Vec<String> {
        outside(&self.book)
    }
}

/// A step that writes a line, with an undo if `undo`.
fn writes(id: &str, undo: bool) -> String {
    let undo = match undo {
        true => format!(
            r#", undo: {{agent: writes, payload: {{tool: stock/write, arguments: {{book: BOOK, line: "undo {{{{steps.{id}.content}}}}"}}}}}}"#
        ),
        false => String::new(),
    };
    format!(
        "{{id: {id}, agent: writes, payload: {{tool: stock/write, arguments: {{book: BOOK, line: {id}}}}}{undo}}}"
    )
}

/// The list of a rollback in words.
pub(crate) fn listed(list: &TaskResponse) -> Vec<String> {
    let effects = list.metadata["rollback"]["effects"].as_array().expect("effects");
    let text = |of: &Value| {
        let undo = of["undo"].as_str().map(|undo| format!(" by {undo}")).unwrap_or_default();
        format!("{} {}{undo}", of["step"], of["status"]).replace('"', "")
    };
    effects.iter().map(text).collect()
}

const READ: &str = "{id: look, agent: reads, payload: {tool: math/add, arguments: {a: 1, b: 2}}}";

/// Returns the undone lines in their order, and then the other ones, which may be written together.
fn in_order<T: AsRef<str>>(lines: &[T]) -> Vec<&str> {
    let lines = lines.iter().map(AsRef::as_ref);
    let (undone, mut others): (Vec<&str>, Vec<&str>) = lines.partition(|of| of.starts_with("undo"));
    others.sort_unstable();
    undone.into_iter().chain(others).collect()
}

struct Case {
    name: &'static str,
    steps: String,
    step: Option<&'static str>,
    listed: &'static [&'static str],
    /// Lines that the rollback adds outside.
    added: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let a = || writes("a", true);
    let b = || writes("b", true);
    let c = || writes("c", false);
    let items = r#"{id: each, agent: writes, for_each: {list: [x, y]}, payload: {tool: stock/write, arguments: {book: BOOK, line: "{{item}}"}}, undo: {agent: writes, payload: {tool: stock/write, arguments: {book: BOOK, line: "undo {{item}} {{index}} {{steps.each.content}}"}}}}"#;
    vec![
        Case {
            name: "a sequence, to its first step",
            steps: format!("[{}, {READ}, {}, {}]", a(), b(), c()),
            step: Some("a"),
            listed: &[
                "a undone by writes",
                "look reversible",
                "b undone by writes",
                "c irreversible",
                "own work reversible",
            ],
            added: &["undo b", "undo a", "a", "b", "c"],
        },
        Case {
            name: "a sequence, to the step that ended last",
            steps: format!("[{}, {}]", a(), b()),
            step: None,
            listed: &["a reused", "b undone by writes", "own work reversible"],
            added: &["undo b", "b"],
        },
        Case {
            name: "steps that began together",
            steps: format!("[{{parallel: [{}, {}]}}, {}]", a(), b(), c()),
            step: Some("b"),
            listed: &[
                "a undone by writes",
                "b undone by writes",
                "c irreversible",
                "own work reversible",
            ],
            added: &["undo b", "undo a", "a", "b", "c"],
        },
        Case {
            name: "a loop",
            steps: format!("[{}, {items}]", a()),
            step: Some("each"),
            listed: &[
                "a reused",
                "each.0 undone by writes",
                "each.1 undone by writes",
                "own work reversible",
            ],
            added: &["undo y 1 y", "undo x 0 x", "x", "y"],
        },
        Case {
            name: "an orchestration that failed",
            steps: format!("[{}, {{id: f, agent: fails}}]", a()),
            step: Some("a"),
            listed: &["a undone by writes", "f reversible"],
            added: &["undo a", "a"],
        },
        Case {
            name: "an orchestration that waits",
            steps: format!("[{}, {{id: check, checkpoint: {{question: Good?}}}}]", a()),
            step: None,
            listed: &["a undone by writes", "check reversible"],
            added: &["undo a", "a"],
        },
    ]
}

#[tokio::test]
async fn a_rollback_lists_the_effects_and_undoes_them_once_it_is_confirmed() {
    for Case { name, steps, step, listed: expected, added } in cases() {
        let scene = Scene::new(&format!("  steps: {steps}\n")).await;
        let first = scene.execute().await;
        let before = scene.outside();
        let list = scene.list(step).await;
        assert!(list.success, "{name}: {list:?}");
        assert_eq!(list.metadata["status"], "confirmation_required", "{name}");
        assert_eq!(listed(&list), expected, "{name}");
        assert_eq!(scene.outside(), before, "{name}: a list does nothing");
        let wrong = json!({"orchestrationAction": "rollback", "step": step, "confirm": "x"});
        let refused = scene.act(wrong).await;
        assert_eq!(refused.metadata["code"], "W1075", "{name}: {refused:?}");
        assert_eq!(refused.metadata["confirm"], list.metadata["confirm"], "{name}");
        let ended = scene.confirm(&list).await;
        assert_eq!(ended.success, first.success, "{name}: {ended:?}");
        assert_eq!(ended.metadata.get("status"), first.metadata.get("status"), "{name}");
        let outside = scene.outside();
        assert_eq!(in_order(&outside[before.len()..]), in_order(added), "{name}");
        let report = ended.metadata["rollback"]["effects"].as_array().expect("a report");
        let undone = report.iter().filter(|of| of["status"] == "undone").count();
        let expected = expected.iter().filter(|of| of.contains("undone")).count();
        assert_eq!(undone, expected, "{name}: {report:#?}");
        // The same confirmation again performs nothing.
        let again = scene.confirm(&list).await;
        assert_eq!(again.content, ended.content, "{name}: {again:?}");
        assert_eq!(scene.outside().len(), before.len() + added.len(), "{name}: again");
    }
}

#[tokio::test]
async fn effects_of_rejected_retried_and_cut_off_steps_are_listed() {
    // A rejection ends the orchestration.
    let check = "{id: check, checkpoint: {question: Good?}}";
    let scene = Scene::new(&format!("  steps: [{}, {check}]\n", writes("a", true))).await;
    let waiting = scene.execute().await;
    let id = waiting.metadata["approvalId"].clone();
    let reject =
        json!({"orchestrationAction": "human-response", "approvalId": id, "decision": "reject"});
    assert_eq!(scene.act(reject).await.metadata["code"], "W1070");
    let list = scene.list(Some("a")).await;
    assert_eq!(listed(&list), ["a undone by writes", "check reversible"]);
    let waiting = scene.confirm(&list).await;
    assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
    assert_eq!(scene.outside(), ["a", "undo a", "a"]);

    // Several attempts of a step are undone once.
    let step = "{id: f, agent: falters, retry: {attempts: 2}, payload: {tool: stock/falter, arguments: {book: BOOK, line: f}}, undo: {agent: writes, payload: {tool: stock/write, arguments: {book: BOOK, line: undo f}}}}";
    let scene = Scene::new(&format!("  steps: [{step}]\n")).await;
    scene.execute().await;
    let list = scene.list(None).await;
    assert_eq!(listed(&list), ["f undone by writes", "own work reversible"]);
    let calls = &list.metadata["rollback"]["effects"][0]["calls"];
    assert_eq!(
        (&calls[0]["outcome"], &calls[1]["outcome"]),
        (&json!("failed"), &json!("succeeded"))
    );
    scene.confirm(&list).await;
    assert_eq!(scene.outside(), ["failed f", "f", "undo f", "f"]);

    // A call that was cut off may have taken effect, and is undone.
    for undo in [true, false] {
        let hangs = writes("h", undo).replacen("agent: writes", "agent: hangs", 1);
        let hangs = hangs.replacen("stock/write", "stock/hang", 1);
        let scene = Scene::new(&format!("  steps: [{}, {hangs}]\n", writes("a", true))).await;
        let streamed = scene.act(json!({"orchestrate": true, "stream": true})).await;
        let thread =
            scene.bench.thread("boss", streamed.metadata["thread"].as_str().expect("an id"));
        while scene.outside().len() < 2 {
            tokio::task::yield_now().await;
        }
        let busy = scene.list(None).await;
        assert_eq!(busy.metadata["code"], "W1074", "{busy:?}");
        thread.cancel().await.expect("cancels");
        let run = thread.runs(Default::default()).await.expect("reads").remove(0).new.at;
        thread.wait_through(&run).await.expect("ends");
        let list = scene.list(Some("a")).await;
        let expected = if undo { "h unknown by writes" } else { "h unknown" };
        assert_eq!(listed(&list), ["a undone by writes", expected]);
        let calls = &list.metadata["rollback"]["effects"][1]["calls"];
        assert_eq!(calls[0]["outcome"], "unknown", "{list:?}");
    }
}

#[tokio::test]
async fn plans_and_deliverables_get_their_former_version_back() {
    let arguments = "{tool: math/add, arguments: {a: 1, b: 2}, deliverableId: report}";
    let new = "{id: b, agent: reads, payload: {tool: math/add, arguments: {a: 1, b: 2}}}";
    let check = "{id: check, checkpoint: {question: Good?}}";
    let steps = format!("[{{id: a, agent: reads, payload: {arguments}}}, {new}, {check}]");
    let scene = Scene::new(&format!("  steps: {steps}\n")).await;
    let create = json!({"action": "create", "deliverableId": "report", "content": "By hand."});
    let created = scene.act(create).await;
    assert!(created.success, "{created:?}");
    scene.execute().await;
    // A paused orchestration is rolled back, and stays paused.
    let paused = scene.act(json!({"orchestrationAction": "pause"})).await;
    let list = scene.list(Some("a")).await;
    let records = list.metadata["rollback"]["records"].as_array().expect("records");
    let report = records.iter().find(|of| of["id"] == "report").expect("is listed");
    assert_eq!((&report["current"], &report["former"]), (&json!(2), &json!(1)));
    let made = records.iter().find(|of| of["id"] != "report").expect("the second step made one");
    assert_eq!(made["former"], Value::Null, "a new record stays");
    let held = scene.confirm(&list).await;
    assert_eq!(held.metadata["status"], "paused", "{held:?}");
    let read = json!({"action": "read", "deliverableId": "report"});
    let record = scene.act(read.clone()).await.content.expect("a record");
    assert_eq!((&record["current"], &record["content"]), (&json!(1), &json!("By hand.")));
    let token = paused.content.expect("a token")["token"].clone();
    let waiting = scene.act(json!({"orchestrationAction": "resume", "token": token})).await;
    assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
    assert_eq!(scene.act(read).await.content.expect("a record")["current"], 3);
}

#[tokio::test]
async fn wrong_rollbacks_are_refused() {
    let scene = Scene::new(&format!("  steps: [{}]\n", writes("a", true))).await;
    assert_eq!(scene.list(None).await.metadata["code"], "W1074");
    scene.execute().await;
    for step in ["b", "own work", ""] {
        assert_eq!(scene.list(Some(step)).await.metadata["code"], "W1033", "{step}");
    }
    // A list that has changed since is not the one that was confirmed.
    let list = scene.list(None).await;
    scene.confirm(&list).await;
    let second = scene.list(None).await;
    assert_ne!(second.metadata["confirm"], list.metadata["confirm"]);
    let hello =
        json!({"agent": "boss", "mode": "build", "conversationId": "c", "userMessage": "Hi"});
    scene.bench.ask(&scene.platform, hello).await;
    let gone = scene.list(None).await;
    assert_eq!(gone.metadata["code"], "W1074", "{gone:?}");
    let stale = scene.confirm(&second).await;
    assert_eq!(stale.metadata["code"], "W1074", "{stale:?}");
    assert_eq!(scene.outside(), ["a", "undo a", "a"]);
}

#[tokio::test]
async fn an_undo_that_fails_waits_for_a_person() {
    let falters = "undo: {agent: falters, payload: {tool: stock/falter, arguments: {book: BOOK, line: undone}}}";
    let step = writes("b", false).replace("}}}", &format!("}}}}, {falters}}}"));
    for decision in ["retry", "skip"] {
        let scene = Scene::new(&format!("  steps: [{}, {step}]\n", writes("a", true))).await;
        scene.execute().await;
        let list = scene.list(Some("a")).await;
        let waiting = scene.confirm(&list).await;
        assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
        let failed = &waiting.metadata["rollback"]["effects"][1];
        assert_eq!(failed["status"], "undo_failed", "{waiting:?}");
        let failure = &failed["failure"];
        assert_eq!((&failure["agent"], &failure["step"]), (&json!("falters"), &json!("b")));
        assert_eq!(scene.outside(), ["a", "b", "failed undone"], "nothing else is undone");
        // Neither a repeated nor another rollback goes past it.
        let again = scene.confirm(&list).await;
        assert_eq!(again.metadata["status"], "input_required", "{again:?}");
        assert_eq!(scene.list(None).await.metadata["code"], "W1074");
        let thread =
            scene.bench.thread("boss", waiting.metadata["thread"].as_str().expect("an id"));
        let question = thread.questions().await.expect("reads").remove(0);
        let ended = thread.answer(question.answer(decision)).await.expect("runs");
        let answer = ended.output().expect("completed")["answer"].clone();
        let status = &answer["metadata"]["rollback"]["effects"][1]["status"];
        let (expected, lines): (_, &[&str]) = match decision {
            "retry" => ("undone", &["undone", "undo a", "a", "b"]),
            _ => ("undo_failed", &["undo a", "a", "b"]),
        };
        assert_eq!(status, expected, "{answer}");
        assert_eq!(&scene.outside()[3..], lines, "{decision}");
    }
}
