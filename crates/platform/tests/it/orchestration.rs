//! Orchestrations: the steps of an agent, their failures, and what persons decide.

use crate::bench::{Bench, agent};
use serde_json::{Value, json};
use weftwork_models::ModelError;
use weftwork_models::scripted::Step;
use weftwork_platform::HostedAgents;
use weftwork_types::caller::Caller;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::TaskCaller;
use weftwork_types::task::TaskResponse;
use weftwork_types::{CallChain, Principal};

const ADDER: &str = "type: tool\ntools: [math/add]\n";
const FAILS: &str = "type: tool\ntools: [math/fail]\n";
const AWAY: &str =
    "type: api\ntransport: {kind: api, api: {endpoint: 'https://a.example', method: GET}}\n";
const PARTNER: &str = "type: external\ntransport: {kind: external, external: {endpoint: 'https://partner.example', retries: 0}}\n";
const CODE: &str = "type: function\nfunction_code: 'function handler() { return 1; }'\n";
const WRITER: &str = "type: context\ncontext: You write.\n";

struct Scene {
    bench: Bench,
    platform: HostedAgents,
}

impl Scene {
    /// A scene with the agent `boss`, which has these steps, and the agents that it asks.
    async fn new(steps: &str, answers: impl IntoIterator<Item = Step>) -> Self {
        Self::of(&format!("type: context\norchestration:\n{steps}"), answers).await
    }

    async fn of(boss: &str, answers: impl IntoIterator<Item = Step>) -> Self {
        let agents = [
            agent("boss", boss),
            agent("adder", ADDER),
            agent("fails", FAILS),
            agent("writer", WRITER),
            agent("broken", WRITER),
            agent("away", AWAY),
            agent("code", CODE),
            agent("partner", PARTNER),
        ];
        let bench = Bench::new(agents, answers).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        Self { bench, platform }
    }

    async fn ask(&self, request: Value) -> TaskResponse {
        self.bench.ask(&self.platform, request).await
    }

    /// Runs the orchestration of `boss` in the conversation `c`.
    async fn execute(&self) -> TaskResponse {
        self.ask(json!({
            "agent": "boss", "mode": "build", "conversationId": "c", "userMessage": "Go.",
            "input": {"n": 2}, "payload": {"orchestrate": true},
        }))
        .await
    }

    /// Runs the orchestration, and returns the changes of its steps: their paths and statuses.
    async fn changes(&self, payload: Value) -> Vec<String> {
        let mut changes = Vec::new();
        let mut watch = |event: &RunEvent| {
            if let AiEvent::Custom { value, .. } = &event.event {
                changes.push(value["orchestration"].clone());
            }
        };
        let by = TaskCaller {
            principal: Principal::local(),
            caller: Caller::local("request").expect("an id"),
            parent_span: None,
            idempotency_key: None,
            chain: CallChain::default(),
        };
        let request = json!({
            "agent": "boss", "mode": "build", "conversationId": "c", "userMessage": "Go.",
            "input": {"n": 2}, "payload": payload,
        });
        let request = serde_json::from_value(request).expect("a request");
        self.platform.task_watched(by, request, &mut watch).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |change: &Value| {
            let around = change["path"].as_array().into_iter().flatten().map(text);
            let path: Vec<String> = around.chain([text(&change["step"])]).collect();
            let agent = change.get("agent").map(|agent| format!(" ({})", text(agent)));
            let failure = change.get("failure").map(|of| format!(", attempt {}", of["attempt"]));
            let rest = [agent, failure].into_iter().flatten().collect::<String>();
            format!("{} {}{rest}", path.join("/"), text(&change["status"]))
        };
        changes.iter().map(line).collect()
    }

    async fn act(&self, payload: Value) -> TaskResponse {
        let request = json!({
            "agent": "boss", "mode": "build", "conversationId": "c", "payload": payload,
        });
        self.ask(request).await
    }

    /// The text that the model got as its context, of the last request.
    fn context(&self) -> String {
        self.bench.requests().last().expect("a request").messages[0].joined_text()
    }
}

fn statuses(response: &TaskResponse) -> Vec<String> {
    let steps = response.metadata["steps"].as_array().expect("steps");
    let text = |step: &Value| format!("{} {}", step["id"], step["status"]).replace('"', "");
    steps.iter().map(text).collect()
}

#[tokio::test]
async fn results_of_steps_are_arguments_of_later_ones_and_context_of_the_agents_own_build() {
    let steps = r#"
  steps:
    - id: sum
      agent: adder
      payload: {tool: math/add, arguments: {a: "{{input.n}}", b: 40}}
    - id: again
      agent: adder
      payload: {tool: math/add, arguments: {a: "{{steps.sum.content}}", b: 1}}
"#;
    let scene = Scene::new(steps, [Step::text("It is 43.")]).await;
    let response = scene.execute().await;
    assert!(response.success, "{response:?}");
    assert_eq!(response.content, Some(json!("It is 43.")));
    assert_eq!(statuses(&response), ["sum done", "again done"]);
    assert!(!response.metadata.contains_key("failures"), "none failed: {response:?}");
    let context = scene.context();
    assert!(context.contains("## Result of step again\n43"), "{context}");
    // The next request in the conversation is none for an orchestration.
    scene.bench.during_next(|| Step::text("Hello."));
    let talk =
        json!({"agent": "boss", "mode": "build", "conversationId": "c", "userMessage": "Hi"});
    let next = scene.ask(talk).await;
    assert!(next.success && !next.metadata.contains_key("steps"), "{next:?}");
    assert!(!scene.context().contains("Result of step"), "{}", scene.context());
}

/// The agents that fail in each case, one of each type, and a part of the text of the failure.
const FAILING: [(&str, &str, &str); 5] = [
    ("fails", "payload: {tool: math/fail, arguments: {}}", "it failed"),
    ("broken", "message: Write.", "x"),
    ("away", "message: Read.", "there is no network"),
    ("code", "message: Compute.", "sandbox"),
    ("partner", "message: Ask.", "there is no network"),
];

/// The steps of a case: one that fails, in a sequence or beside another step.
fn steps_with_failure(shape: &str, failing: &str, rule: &str) -> String {
    let fails = format!("{{id: f, {failing}, {rule}}}");
    let sum = |id: &str| {
        format!(
            "{{id: {id}, agent: adder, payload: {{tool: math/add, arguments: {{a: 1, b: 2}}}}}}"
        )
    };
    match shape {
        "sequence" => format!("  steps: [{}, {fails}, {}]\n", sum("a"), sum("b")),
        _ => format!("  steps: [{{parallel: [{}, {fails}]}}, {}]\n", sum("a"), sum("b")),
    }
}

#[tokio::test]
async fn a_failure_of_each_type_is_retried_skipped_asked_about_or_ends_the_orchestration() {
    let cases = [
        ("on_error: abort", "failed", 1, "not_begun"),
        ("on_error: retry", "failed", 3, "not_begun"),
        ("retry: {attempts: 2}, on_error: skip", "skipped", 2, "done"),
        ("on_error: skip", "skipped", 1, "done"),
        ("on_error: ask", "asking", 1, "not_begun"),
    ];
    for (agent, request, part) in FAILING {
        for (shape, case) in
            ["sequence", "parallel"].into_iter().flat_map(|shape| cases.map(|case| (shape, case)))
        {
            let (rule, status, attempts, behind) = case;
            let name = format!("{agent}, {shape}, {rule}");
            let failing = format!("agent: {agent}, {request}");
            let broken =
                || Step::fails(ModelError::Unknown { found: "x".to_owned(), known: Vec::new() });
            let of_model = if agent == "broken" { attempts } else { 0 };
            let answers = (0..of_model).map(|_| broken()).chain([Step::text("Done.")]);
            let scene = Scene::new(&steps_with_failure(shape, &failing, rule), answers).await;
            let response = scene.execute().await;
            if status == "asking" {
                assert_eq!(response.metadata["status"], "input_required", "{name}: {response:?}");
                let asked = &response.metadata["questions"][0]["ask"]["value"]["failure"];
                check_failure(&name, asked, agent, 1, part);
                continue;
            }
            assert_eq!(response.success, status == "skipped", "{name}: {response:?}");
            let expected = ["a done", &format!("f {status}"), &format!("b {behind}")];
            assert_eq!(statuses(&response), expected, "{name}");
            let mut failures = response.metadata["failures"].as_array().expect("failures").clone();
            if !response.success {
                let own = failures.pop().expect("the failure of the agent itself");
                assert_eq!(
                    (&own["agent"], &own["step"]),
                    (&json!("boss"), &json!("build")),
                    "{name}"
                );
                assert_eq!(own["code"], response.metadata["code"], "{name}");
            }
            assert_eq!(failures.len(), attempts, "{name}");
            for (number, found) in failures.iter().enumerate() {
                check_failure(&name, found, agent, number + 1, part);
                assert_eq!(found["cause_id"], response.metadata["run"], "{name}");
            }
            let asked = scene.bench.requests().len() - of_model;
            assert_eq!(asked, usize::from(response.success), "{name}: the own build");
        }
    }
}

/// Checks that a failure of the step has the form that all types have.
fn check_failure(case: &str, found: &Value, agent: &str, attempt: usize, part: &str) {
    let members: Vec<_> = found.as_object().expect("an object").keys().collect();
    let expected = ["agent", "step", "attempt", "code", "safe_message", "retriable", "cause_id"];
    assert_eq!(members, expected, "{case}");
    assert_eq!((&found["agent"], &found["step"]), (&json!(agent), &json!("f")), "{case}");
    assert_eq!(found["attempt"], attempt, "{case}");
    let text = found["safe_message"].as_str().expect("a text");
    assert!(text.contains(part), "{case}: {text}");
    assert!(found["code"].as_str().is_some_and(|code| code.starts_with('W')), "{case}: {found}");
}

#[tokio::test]
async fn the_failure_of_an_agent_names_those_that_led_to_it() {
    let outer = "type: context\norchestration:\n  steps: [{id: inner, agent: boss, payload: {orchestrate: true}}]\n";
    let inner = "type: context\norchestration:\n  steps: [{id: f, agent: fails, payload: {tool: math/fail, arguments: {}}}]\n";
    let bench =
        Bench::new([agent("outer", outer), agent("boss", inner), agent("fails", FAILS)], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let request = json!({"agent": "outer", "mode": "build", "userMessage": "Go.", "payload": {"orchestrate": true}});
    let response = bench.ask(&platform, request).await;
    let failures = response.metadata["failures"].as_array().expect("failures");
    let named: Vec<_> = failures
        .iter()
        .map(|of| format!("{}: {}", of["agent"], of["step"]).replace('"', ""))
        .collect();
    assert_eq!(named, ["fails: f", "boss: inner", "outer: build"], "{response:?}");
}

#[tokio::test]
async fn a_person_decides_about_a_failure() {
    for (decision, status) in [("skip", "skipped"), ("abort", "failed"), ("retry", "asked")] {
        let failing = "agent: fails, payload: {tool: math/fail, arguments: {}}";
        let steps = steps_with_failure("sequence", failing, "on_error: ask");
        let scene = Scene::new(&steps, [Step::text("Done.")]).await;
        let waiting = scene.execute().await;
        assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
        assert!(!waiting.metadata.contains_key("approvalId"), "{waiting:?}");
        let id = waiting.metadata["thread"].as_str().expect("an id");
        let thread = scene.bench.thread("boss", id);
        let question = thread.questions().await.expect("reads").remove(0);
        let ended = thread.answer(question.answer(decision)).await.expect("runs");
        if status == "asked" {
            let again = ended.questions()[0].ask.to_string();
            assert!(again.contains("in attempt 2"), "{again}");
            continue;
        }
        let answer = ended.output().expect("completed")["answer"].clone();
        assert_eq!(answer["metadata"]["steps"][1]["status"], status, "{answer}");
        assert_eq!(answer.get("error").is_some(), decision == "abort", "{answer}");
    }
}

const CHECKED: &str = r#"
  steps:
    - id: sum
      agent: adder
      payload: {tool: math/add, arguments: {a: "{{input.n}}", b: 40}}
    - id: check
      checkpoint:
        question: Add {{steps.sum.content}}?
        input: {n: "{{steps.sum.content}}"}
        input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
        on_reject: repair
    - id: more
      agent: adder
      payload: {tool: math/add, arguments: {a: "{{steps.check.content.n}}", b: 1}}
    - id: repair
      agent: adder
      payload: {tool: math/add, arguments: {a: 0, b: 0}}
"#;

#[tokio::test]
async fn a_checkpoint_is_approved_edited_or_rejected_once() {
    let cases = [
        (json!({"decision": "approve"}), None, ["done", "done", "not_reached"], "43"),
        (json!({"decision": "edit"}), Some(json!({"n": 7})), ["done", "done", "not_reached"], "8"),
        (json!({"decision": "reject"}), None, ["rejected", "not_reached", "done"], "0"),
    ];
    for (decision, input, expected, result) in cases {
        let scene = Scene::new(CHECKED, [Step::text("Done.")]).await;
        let waiting = scene.execute().await;
        assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
        let approval = &waiting.metadata["questions"][0]["ask"];
        assert_eq!(approval["tool"], "boss/check");
        assert_eq!(approval["args"], json!({"n": 42}));
        let reason = approval["reason"].as_str().expect("a text");
        assert_eq!(reason, "Add 42? Behind it: `more` (agent adder).");
        let mut payload = decision.clone();
        payload["orchestrationAction"] = "human-response".into();
        payload["approvalId"] = waiting.metadata["approvalId"].clone();
        let mut request = json!({
            "agent": "boss", "mode": "build", "conversationId": "c", "payload": payload,
        });
        if let Some(input) = input {
            // An edit that does not fit the schema changes nothing.
            request["input"] = json!({"n": "seven"});
            let refused = scene.ask(request.clone()).await;
            assert!(!refused.success, "{refused:?}");
            request["input"] = input;
        }
        let ended = scene.ask(request.clone()).await;
        assert!(ended.success, "{ended:?}");
        let found: Vec<_> = statuses(&ended).into_iter().skip(1).collect();
        let found: Vec<_> = found.iter().map(|of| of.split(' ').nth(1).expect("a word")).collect();
        assert_eq!(found, expected, "{decision}");
        let context = scene.context();
        assert!(context.contains(&format!("\n{result}")), "{decision}: {context}");
        // The same answer again is that of the run which went on; nothing is made anew.
        let again = scene.ask(request).await;
        assert_eq!((again.success, &again.content), (true, &ended.content), "{again:?}");
        assert_eq!(scene.bench.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_unknown_approval_is_refused_and_a_rejection_without_a_step_ends_the_orchestration() {
    let steps = "  steps: [{id: check, checkpoint: {question: Good?}}]\n";
    let scene = Scene::new(steps, []).await;
    let waiting = scene.execute().await;
    let id = waiting.metadata["approvalId"].clone();
    let unknown =
        json!({"orchestrationAction": "human-response", "approvalId": "x", "decision": "approve"});
    let refused = scene.act(unknown).await;
    assert_eq!(refused.metadata["code"], "W1033", "{refused:?}");
    let wrong =
        json!({"orchestrationAction": "human-response", "approvalId": id, "decision": "dance"});
    assert_eq!(scene.act(wrong).await.metadata["code"], "W1033");
    let reject =
        json!({"orchestrationAction": "human-response", "approvalId": id, "decision": "reject"});
    let ended = scene.act(reject).await;
    assert_eq!(ended.metadata["code"], "W1070", "{ended:?}");
    assert_eq!(statuses(&ended), ["check rejected"]);
}

#[tokio::test]
async fn a_rejection_within_a_step_is_final_whatever_the_step_does_about_failures() {
    for rule in ["on_error: skip", "on_error: retry", "on_error: ask"] {
        let outer = format!(
            "type: context\norchestration:\n  steps: [{{id: in, agent: boss, payload: {{orchestrate: true}}, {rule}}}, {{id: then, agent: adder, payload: {{tool: math/add, arguments: {{a: 1, b: 2}}}}}}]\n"
        );
        let inner = "type: context\norchestration:\n  steps: [{id: check, checkpoint: {question: Good?}}]\n";
        let bench =
            Bench::new([agent("outer", &outer), agent("boss", inner), agent("adder", ADDER)], [])
                .await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        let request = |payload: Value| json!({"agent": "outer", "mode": "build", "conversationId": "c", "userMessage": "Go.", "payload": payload});
        let waiting = bench.ask(&platform, request(json!({"orchestrate": true}))).await;
        let id = waiting.metadata["approvalId"].clone();
        let reject = json!({"orchestrationAction": "human-response", "approvalId": id, "decision": "reject"});
        let ended = bench.ask(&platform, request(reject)).await;
        assert_eq!(ended.metadata["code"], "W1070", "{rule}: {ended:?}");
        assert_eq!(statuses(&ended), ["in failed", "then not_begun"], "{rule}");
    }
}

#[tokio::test]
async fn items_of_a_loop_are_asked_for_and_conditions_decide() {
    for mode in ["sequential", "parallel"] {
        let steps = format!(
            r#"
  steps:
    - id: each
      agent: adder
      for_each: {{list: [1, 2, 3], mode: {mode}}}
      payload: {{tool: math/add, arguments: {{a: "{{{{item}}}}", b: "{{{{index}}}}"}}}}
    - {{id: no, agent: fails, when: 'steps.each.content[2] > 5'}}
    - {{id: odd, agent: fails, when: 'steps.each.content.x == 1', on_error: skip}}
    - id: long
      agent: adder
      for_each: {{list: "{{{{steps.each.content}}}}", max: 2}}
      on_error: skip
"#
        );
        let scene = Scene::new(&steps, [Step::text("Done.")]).await;
        let response = scene.execute().await;
        assert!(response.success, "{response:?}");
        assert_eq!(statuses(&response), ["each done", "no skipped", "odd skipped", "long skipped"]);
        assert!(scene.context().contains("\n[1,3,5]"), "{}", scene.context());
        let codes = response.metadata["failures"].as_array().expect("failures").iter();
        assert!(codes.clone().all(|of| of["code"] == "W1071"), "{response:?}");
        assert_eq!(codes.len(), 2);
    }
}

#[tokio::test]
async fn an_orchestration_whose_own_build_failed_continues_without_asking_its_steps_again() {
    let steps = "  steps: [{id: text, agent: writer}]\n";
    let broken = Step::fails(ModelError::Unknown { found: "x".to_owned(), known: Vec::new() });
    let scene = Scene::new(steps, [Step::text("Written."), broken, Step::text("Done.")]).await;
    let failed = scene.execute().await;
    assert!(!failed.success, "{failed:?}");
    assert_eq!(scene.bench.requests().len(), 2);
    let ended = scene.act(json!({"orchestrationAction": "continue"})).await;
    assert_eq!(ended.content, Some(json!("Done.")), "{ended:?}");
    assert_eq!(statuses(&ended), ["text done"]);
    assert_eq!(scene.bench.requests().len(), 3, "the step is not asked again");
    assert!(scene.context().contains("Written."), "{}", scene.context());
}

#[tokio::test]
async fn each_change_of_a_step_is_an_event_and_nested_ones_name_the_steps_around_them() {
    let steps = r#"
  steps:
    - {id: f, agent: fails, payload: {tool: math/fail, arguments: {}}, retry: {attempts: 2}, on_error: skip}
    - {id: no, agent: adder, when: "input.n > 5"}
    - {id: each, agent: inner, for_each: {list: [1]}, payload: {orchestrate: true}}
    - {id: check, checkpoint: {question: Good?}}
"#;
    let inner = "type: context\norchestration:\n  steps: [{id: text, agent: writer}]\n";
    let boss = format!("type: context\norchestration:\n{steps}");
    let agents = [
        agent("boss", &boss),
        agent("inner", inner),
        agent("adder", ADDER),
        agent("fails", FAILS),
        agent("writer", WRITER),
    ];
    let bench = Bench::new(agents, [Step::text("Written."), Step::text("Inner.")]).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let scene = Scene { bench, platform };
    let expected = [
        "f started (fails)",
        "f retrying (fails), attempt 1",
        "f started (fails)",
        "f skipped (fails), attempt 2",
        "no skipped (adder)",
        "each started (inner)",
        "each.0 started (inner)",
        "each.0/text started (writer)",
        "each.0/text done (writer)",
        "each.0 done (inner)",
        "each done (inner)",
        "check started",
        "check asked",
    ];
    assert_eq!(scene.changes(json!({"orchestrate": true})).await, expected);
}

#[test]
fn steps_are_drawn_with_their_groups_needs_checkpoints_loops_waits_and_conditions() {
    let boss = agent("boss", DRAWN);
    let graph = boss.steps_graph().expect("sound").expect("has steps");
    insta::assert_snapshot!(graph.mermaid());
    assert!(graph.svg().starts_with("<svg "), "{}", graph.svg());
    let none = agent("writer", WRITER);
    assert!(none.steps_graph().expect("sound").is_none());
}

#[test]
fn groups_that_need_one_another_and_long_conditions_are_drawn() {
    let condition = format!("input.n == '{}'", "long ".repeat(40));
    let id = "i".repeat(40);
    let text = format!(
        r#"
type: context
orchestration:
  defaultMode: parallel
  steps:
    - steps: [{{id: a, agent: x}}, {{id: b, agent: x, needs: [d]}}]
    - steps: [{{id: c, agent: x, needs: [a]}}, {{id: d, agent: x}}]
    - {{id: {id}, agent: x, when: "{condition}"}}
"#
    );
    let graph = agent("boss", &text).steps_graph().expect("sound").expect("has steps");
    let drawn = graph.mermaid();
    for line in ["  START --> n0\n", "  n0 --> n1\n", "  n1 --> n0\n", "  START --> n2\n"] {
        assert!(drawn.contains(line), "{line}: {drawn}");
    }
    assert!(drawn.contains(&format!("[\"{id} · x · if input.n == 'long ")), "{drawn}");
}

const DRAWN: &str = r#"
type: context
orchestration:
  steps:
    - id: read
      parallel:
        - {id: sales, agent: analyst, mode: converse}
        - steps:
            - {id: stock, agent: analyst}
            - {id: each, agent: counter, for_each: {list: "{{steps.stock.content}}", max: 5, mode: parallel}}
    - {id: pause, wait: 5m, when: "input.slow == true || size(message) > 9"}
    - id: check
      checkpoint: {question: Go?, timeout: 2d, on_reject: repair}
    - {id: order, agent: desk}
    - {id: repair, agent: desk}
    - {id: last, checkpoint: {question: Send?}, needs: [order]}
"#;
