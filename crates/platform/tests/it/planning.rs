//! Orchestrations whose steps a model plans: plans that run, that are refused, and that persons approve.

use crate::bench::{Bench, agent, counted};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_models::ModelError;
use weftwork_models::scripted::Step;
use weftwork_platform::{HostedAgents, read_definition};
use weftwork_store::{MemoryStore, Store};
use weftwork_types::task::TaskResponse;

const COUNTER: &str =
    "type: tool\ntools: [math/count, math/add]\nagent_card: {description: Counts and adds.}\n";
const FAILS: &str = "type: tool\ntools: [math/fail]\n";
/// An agent that requires an input.
const STRICT: &str = "type: tool\ntools: [math/add]\ninput_schema: {type: object, required: [n], additionalProperties: false, properties: {n: {type: integer, maximum: 9}}}\n";
/// Agents of which each asks the next one: `deep1` and three behind it.
const DEEP: [(&str, &str); 3] = [("deep1", "deep2"), ("deep2", "deep3"), ("deep3", "counter")];
const AVAILABLE: &str = "availableAgents: [counter, fails, strict, deep1]";

struct Scene {
    bench: Bench,
    platform: HostedAgents,
}

impl Scene {
    async fn new(planning: &str) -> Self {
        let boss = format!("type: context\norchestration: {{{AVAILABLE}, planning: {planning}}}\n");
        Self::over(Arc::new(MemoryStore::new()), &boss).await
    }

    async fn over(store: Arc<dyn Store>, boss: &str) -> Self {
        let deep = |(slug, next): &(&str, &str)| {
            let payload = "{orchestrate: true, tool: math/count, arguments: {key: deep}}";
            let steps = format!("[{{id: next, agent: {next}, payload: {payload}}}]");
            agent(slug, &format!("type: context\norchestration: {{steps: {steps}}}\n"))
        };
        let all = [("boss", boss), ("counter", COUNTER), ("fails", FAILS), ("strict", STRICT)];
        let agents = all.iter().map(|(slug, text)| agent(slug, text)).chain(DEEP.iter().map(deep));
        let bench = Bench::over(store, agents.collect::<Vec<_>>(), []).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        Self { bench, platform }
    }

    /// Lets the model give these answers next.
    fn answers<'a>(&self, texts: impl IntoIterator<Item = &'a str>) {
        for text in texts {
            let text = text.to_owned();
            self.bench.during_next(move || Step::text(text));
        }
    }

    async fn ask(&self, conversation: &str, payload: Value) -> TaskResponse {
        let request = json!({
            "agent": "boss", "mode": "build", "conversationId": conversation,
            "userMessage": "Go.", "input": {"n": 2}, "payload": payload,
        });
        self.bench.ask(&self.platform, request).await
    }

    async fn execute(&self, conversation: &str) -> TaskResponse {
        self.ask(conversation, json!({"orchestrate": true})).await
    }

    /// Answers an approval, with the edited plan if there is one.
    async fn decide(
        &self,
        waiting: &TaskResponse,
        decision: &str,
        plan: Option<&str>,
    ) -> TaskResponse {
        let payload = json!({
            "orchestrationAction": "human-response", "decision": decision,
            "approvalId": waiting.metadata["approvalId"],
        });
        let mut request = json!({
            "agent": "boss", "mode": "build", "payload": payload,
            "conversationId": waiting.metadata["conversationId"],
        });
        if let Some(plan) = plan {
            request["input"] = json!({"plan": plan});
        }
        self.bench.ask(&self.platform, request).await
    }

    /// The plan of the conversation, as it is on record.
    async fn record(&self, conversation: &str, id: &Value) -> Value {
        let payload = json!({"action": "read", "planId": id});
        let request = json!({
            "agent": "boss", "mode": "plan", "conversationId": conversation, "payload": payload,
        });
        self.bench.ask(&self.platform, request).await.content.expect("a record")
    }

    /// The results of the steps in the context of the last request to the model.
    fn results(&self) -> Vec<String> {
        let requests = self.bench.requests();
        let context = requests.last().expect("a request").messages[0].joined_text();
        let parts = context.split("## ").filter(|part| part.starts_with("Result of step"));
        parts.map(|part| part.split("\n\n").next().unwrap_or_default().trim().to_owned()).collect()
    }
}

fn call(id: &str, key: &str) -> Value {
    let payload = json!({"tool": "math/count", "arguments": {"key": key}});
    json!({"id": id, "agent": "counter", "payload": payload})
}

fn sum(id: &str, a: impl Into<Value>, b: impl Into<Value>) -> Value {
    let arguments = json!({"a": a.into(), "b": b.into()});
    json!({"id": id, "agent": "counter", "payload": {"tool": "math/add", "arguments": arguments}})
}

fn plan(steps: &[Value]) -> String {
    json!({"steps": steps}).to_string()
}

fn statuses(response: &TaskResponse) -> Vec<String> {
    let steps = response.metadata["steps"].as_array().expect("steps");
    let text = |step: &Value| format!("{} {}", step["id"], step["status"]).replace('"', "");
    steps.iter().map(text).collect()
}

#[tokio::test]
async fn a_plan_of_the_model_is_a_record_and_runs_as_if_written() {
    let scene = Scene::new("{}").await;
    let steps = [sum("one", "{{input.n}}", 40), sum("two", "{{steps.one.content}}", 1)];
    scene.answers([plan(&steps).as_str(), "It is 43."]);
    let response = scene.execute("c").await;
    assert!(response.success, "{response:?}");
    assert_eq!(response.content, Some(json!("It is 43.")));
    assert_eq!(statuses(&response), ["one done", "two done"]);
    assert_eq!(scene.results(), ["Result of step one\n42", "Result of step two\n43"]);
    let recorded = &response.metadata["plan"];
    assert_eq!(recorded["version"], 1, "{response:?}");
    let record = scene.record("c", &recorded["id"]).await;
    assert_eq!(record["version"]["format"], "yaml", "{record}");
    assert_eq!(record["version"]["type"], "orchestration", "{record}");
    // The model got a schema with the agents, and their purposes.
    let asked = &scene.bench.requests()[0];
    let schema = asked.response_schema.as_ref().map(ToString::to_string);
    let told = format!("{}{}", schema.unwrap_or_default(), asked.messages[0].joined_text());
    assert!(told.contains(r#"{"enum":["counter","fails","strict","deep1"]}"#), "{told}");
    assert!(told.contains("counter: Counts and adds. Tools: math/count, math/add"), "{told}");
    assert!(told.contains("\"n\"") && told.contains("at most 8 steps"), "{told}");
    // An edit of the record is YAML, too.
    let edit = json!({"action": "edit", "planId": recorded["id"], "content": "a: [", "version": 1});
    let request = json!({"agent": "boss", "mode": "plan", "conversationId": "c", "payload": edit});
    let refused = scene.bench.ask(&scene.platform, request).await;
    assert!(!refused.success, "{refused:?}");
}

/// Steps of plans that run, each with the number of answers of models within them.
fn sound_steps() -> Vec<Vec<Value>> {
    let with = |mut step: Value, more: Value| {
        step.as_object_mut().expect("a step").extend(more.as_object().expect("members").clone());
        step
    };
    let fails =
        json!({"id": "bad", "agent": "fails", "payload": {"tool": "math/fail", "arguments": {}}});
    let strict = |input: Value| {
        let payload = json!({"tool": "math/add", "arguments": {"a": 1, "b": 1}});
        json!({"id": "strict", "agent": "strict", "input": input, "payload": payload})
    };
    let mut all = vec![
        vec![sum("a", 1, 2)],
        vec![sum("a", 1, 2), sum("b", "{{steps.a.content}}", "{{steps.a.content}}")],
        vec![
            json!({"parallel": [sum("a", 1, 2), sum("b", 3, 4)]}),
            sum("c", "{{steps.a.content}}", "{{steps.b.content}}"),
        ],
        vec![sum("a", 1, 2), with(sum("b", 1, 1), json!({"when": "steps.a.content > 5"}))],
        vec![sum("a", 1, 2), with(sum("b", 1, 1), json!({"when": "steps.a.content < 5"}))],
        vec![sum("a", 1, 2), with(sum("b", 1, 1), json!({"needs": []}))],
        vec![
            with(sum("a", 1, 2), json!({"needs": ["b"]})),
            with(sum("b", 3, 4), json!({"needs": []})),
        ],
        vec![with(fails.clone(), json!({"on_error": "skip"})), sum("b", 1, 1)],
        vec![with(fails.clone(), json!({"on_error": "skip", "retry": {"attempts": 2}}))],
        vec![with(sum("a", "{{item}}", "{{index}}"), json!({"for_each": {"list": [5, 6, 7]}}))],
        vec![with(
            sum("a", "{{item}}", 1),
            json!({"for_each": {"list": [1, 2], "mode": "parallel"}}),
        )],
        vec![strict(json!({"n": 1}))],
        vec![sum("a", 1, 2), strict(json!({"n": "{{steps.a.content}}"}))],
        vec![strict(json!("{{input}}"))],
        vec![json!({"steps": [sum("a", 1, 2), sum("b", 2, 3)]})],
        vec![with(
            sum("a", 1, 2),
            json!({"message": "Quotes \" and ' and # and: - {x}\nlines\u{2028}end"}),
        )],
        vec![sum("a", "{{input.n}}", 1), with(sum("b", 1, 2), json!({"mode": "build"}))],
    ];
    all.extend((2..5).map(|count| (0..count).map(|n| sum(&format!("s{n}"), n, 1)).collect()));
    all
}

#[tokio::test]
async fn twenty_plans_give_what_written_steps_give() {
    let all = sound_steps();
    assert!(all.len() >= 20, "{}", all.len());
    let planned = Scene::new("{}").await;
    for (number, steps) in all.iter().enumerate() {
        planned.answers([plan(steps).as_str(), "Done."]);
        let made = planned.execute(&format!("c{number}")).await;
        assert!(made.success, "{steps:?}: {made:?}");
        let of_plan = planned.results();
        let written = json!({"availableAgents": ["counter", "fails", "strict"], "steps": steps});
        let boss = format!("type: context\norchestration: {written}\n");
        let written = Scene::over(Arc::new(MemoryStore::new()), &boss).await;
        written.answers(["Done."]);
        let expected = written.execute("c").await;
        assert!(expected.success, "{expected:?}");
        assert_eq!(made.metadata["steps"], expected.metadata["steps"], "{steps:?}");
        assert_eq!(made.content, expected.content);
        assert_eq!(of_plan, written.results(), "{steps:?}");
        let failures = |of: &TaskResponse| {
            of.metadata.get("failures").and_then(Value::as_array).map_or(0, Vec::len)
        };
        assert_eq!(failures(&made), failures(&expected), "{steps:?}");
        // The record is the key of a definition, and runs there.
        let record = planned.record(&format!("c{number}"), &made.metadata["plan"]["id"]).await;
        let text = record["content"].as_str().expect("a text");
        let definition = format!("type: context\n{text}");
        read_definition(&definition).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        let put_in = Scene::over(Arc::new(MemoryStore::new()), &definition).await;
        put_in.answers(["Done."]);
        let ran = put_in.execute("c").await;
        assert_eq!(ran.metadata["steps"], expected.metadata["steps"], "{text}");
        assert_eq!(put_in.results(), of_plan, "{text}");
    }
}

/// A kind of plans that are refused: its steps, with the calls that would be counted, and a part of a
/// problem.
struct Bad {
    answer: String,
    part: &'static str,
}

impl Bad {
    fn of(steps: Vec<Value>, part: &'static str) -> Self {
        Self { answer: plan(&steps), part }
    }

    /// A plan with this step behind some sound ones.
    fn then(round: usize, key: &str, step: Value, part: &'static str) -> Self {
        let sound = (0..round % 6).map(|number| call(&format!("sound{number}"), key));
        Self::of(sound.chain([call("first", key), step]).collect(), part)
    }
}

/// Returns a plan of one of twenty kinds.
fn bad_plan(number: usize, key: &str) -> Bad {
    let round = number / 20;
    match number % 20 {
        kind @ 0..=7 => bad_steps(kind, round, key),
        kind => bad_words(kind, round, key),
    }
}

/// Plans whose steps do not fit one another or their agents.
fn bad_steps(kind: usize, round: usize, key: &str) -> Bad {
    let of = Bad::of;
    let then = |step: Value, part| Bad::then(round, key, step, part);
    let input = |input: Value| json!({"id": "s", "agent": "strict", "input": input, "payload": {"tool": "math/add", "arguments": {"a": 1, "b": 1}}});
    match kind {
        0 => then(json!({"id": "x", "agent": format!("countr{round}")}), "W1012"),
        1 => {
            let count = [9, 10, 64, 65, 100, 200, 400, 600, 800, 1_000][round % 10];
            of((0..count).map(|n| call(&format!("s{n}"), key)).collect(), "at most")
        }
        2 => then(json!({"id": "x", "agent": "boss", "payload": {"orchestrate": true}}), "W1012"),
        3 => {
            then(json!({"id": "x", "agent": "deep1", "payload": {"orchestrate": true}}), "maxDepth")
        }
        4 => {
            let wrong = [
                json!({}),
                json!({"n": "one"}),
                json!({"n": 10}),
                json!({"n": 1, "m": 2}),
                json!({"n": null}),
                json!({"m": "{{message}}"}),
                json!([1]),
                json!("text"),
                json!(7),
                json!({"n": [1]}),
            ];
            then(input(wrong[round % 10].clone()), "strict")
        }
        5 => {
            let length = 2 + round;
            let next = |n: usize| format!("s{}", (n + 1) % length);
            let step = |n: usize| {
                let mut step = call(&format!("s{n}"), key);
                step["needs"] = json!([next(n)]);
                step
            };
            of(
                (0..length.min(8)).map(step).chain([call("first", key)]).collect(),
                if length > 7 { "W10" } else { "W1015" },
            )
        }
        6 => then(call("first", key), "W1009"),
        _ => {
            let hostile = [
                "../../etc/passwd",
                "a b",
                "A",
                "x\n    - {id: y}",
                "",
                "\u{0}",
                "steps",
                "abort",
                "é",
                "a-b",
            ];
            let part = if round % 10 == 6 { "W1012" } else { "W10" };
            let mut step = call(hostile[round % 10], key);
            if round % 10 == 6 {
                step["agent"] = "steps".into();
            }
            then(step, part)
        }
    }
}

/// Plans whose text is none, or has keys and values that no plan has.
fn bad_words(kind: usize, round: usize, key: &str) -> Bad {
    let first = call("first", key);
    let then = |step: Value, part| Bad::then(round, key, step, part);
    match kind {
        8 => {
            let texts = [
                "Sure! Here is the plan.",
                "#",
                "[]",
                "null",
                "{\"steps\": [",
                "<plan/>",
                "---\n...",
                "3",
                "\"steps\"",
                "{'steps': []}",
            ];
            Bad { answer: texts[round % 10].to_owned(), part: "W100" }
        }
        9 => then(
            json!({"id": "x", "agent": "counter", "payload": {"tool": format!("math/rm{round}")}}),
            "W1008",
        ),
        10 => then(json!({"id": "x", "agent": "counter", "command": "rm"}), "W1004"),
        11 => then(json!({"id": 7, "agent": ["counter"]}), "W1005"),
        12 => then(json!({"id": "x", "checkpoint": {}}), "W1007"),
        13 => {
            let mut step = call("x", key);
            step["message"] = json!(format!("{{{{steps.never{round}.content}}}}"));
            then(step, "W1014")
        }
        14 => {
            let mut step = call("x", key);
            step["when"] =
                json!("(".repeat(round + 1) + "true" + &"&& true".repeat(200 * (round + 1)));
            then(step, "W1008")
        }
        15 => {
            let nested = (0..=4 + round).fold(call("x", key), |inner, _| json!({"steps": [inner]}));
            then(nested, "")
        }
        16 => {
            let text =
                json!({"steps": [first], "availableAgents": ["counter", "deep2"]}).to_string();
            Bad { answer: text, part: "W1012" }
        }
        17 => {
            let text = json!({"steps": [first], "maxDepth": 4 + round}).to_string();
            Bad { answer: text, part: "at most 3" }
        }
        18 => {
            let text = json!({"steps": [first], "planning": {"steps_max": 64}}).to_string();
            Bad { answer: text, part: "W1010" }
        }
        _ => {
            let mut step = call("x", key);
            step["payload"]["stepz"] = json!(round);
            then(step, "W1008")
        }
    }
}

#[tokio::test]
async fn two_hundred_bad_plans_are_refused_with_the_plan_and_nothing_is_executed() {
    let scene = Scene::new("{}").await;
    let key = "two hundred bad plans";
    for number in 0..200 {
        let Bad { answer, part } = bad_plan(number, key);
        let before = scene.bench.requests().len();
        scene.answers([answer.as_str(), answer.as_str()]);
        let response = scene.execute(&format!("c{number}")).await;
        assert!(!response.success, "{number}: {answer}: {response:?}");
        assert_eq!(response.metadata["code"], "W1076", "{number}: {answer}: {response:?}");
        let refused = &response.metadata["refusedPlan"];
        let problems = refused["problems"].as_array().expect("problems");
        assert!(!problems.is_empty(), "{number}: {response:?}");
        let error = response.error.as_deref().unwrap_or_default();
        assert!(error.contains(part), "{number}: {answer}: {error}");
        let shown = refused["content"].as_str().expect("the plan");
        assert!(answer.is_empty() || !shown.is_empty(), "{number}: {response:?}");
        assert!(!answer.contains(key) || shown.contains(key), "{number}: {shown}");
        assert_eq!(response.metadata["steps"], json!([]), "{number}");
        // The model gets the problems once.
        assert_eq!(scene.bench.requests().len(), before + 2, "{number}");
        assert!(!response.metadata.contains_key("plan"), "{number}: a refused plan is no record");
    }
    assert_eq!(counted(key), 0);
    // The same scene carries out a plan.
    scene.answers([plan(&[call("first", key)]).as_str(), "Done."]);
    assert!(scene.execute("c").await.success);
    assert_eq!(counted(key), 1);
}

#[tokio::test]
async fn a_plan_with_problems_is_repaired_once_and_fences_are_left_out() {
    let scene = Scene::new("{steps_max: 2}").await;
    let long = plan(&[sum("a", 1, 1), sum("b", 1, 1), sum("c", 1, 1)]);
    let short = format!("```json\n{}\n```", plan(&[sum("a", 1, 1)]));
    scene.answers([long.as_str(), short.as_str(), "Done."]);
    let response = scene.execute("c").await;
    assert!(response.success, "{response:?}");
    assert_eq!(statuses(&response), ["a done"]);
    let repair = scene.bench.requests()[1].messages.last().expect("a message").joined_text();
    assert!(repair.contains("found 3 steps; expected at most 2 steps"), "{repair}");
}

#[tokio::test]
async fn a_plan_waits_for_its_approval_and_its_content_is_bound() {
    let key = "an approved plan";
    for planning in ["{confirm: true}", "{}"] {
        let scene = Scene::new(planning).await;
        scene.answers([plan(&[call("first", key)]).as_str(), "Done."]);
        let payload = json!({"orchestrate": true, "orchestrationPlan": true});
        let waiting = scene.ask("c", payload).await;
        assert_eq!(waiting.metadata["status"], "input_required", "{waiting:?}");
        let asked = &waiting.metadata["questions"][0]["ask"];
        assert_eq!(asked["tool"], "boss/plan", "{asked}");
        let text = asked["args"]["plan"].as_str().expect("the plan").to_owned();
        assert!(text.starts_with("orchestration:\n"), "{text}");
        let before = counted(key);
        // Another version of the record changes nothing that was shown.
        let list = json!({"agent": "boss", "mode": "plan", "conversationId": "c", "payload": {"action": "list"}});
        let listed = scene.bench.ask(&scene.platform, list).await.content.expect("a list");
        let id = listed[0]["id"].clone();
        let other = text.replace("first", "other");
        let edit = json!({"action": "edit", "planId": id, "version": 1, "content": other});
        let edit = json!({"agent": "boss", "mode": "plan", "conversationId": "c", "payload": edit});
        assert!(scene.bench.ask(&scene.platform, edit).await.success);
        assert_eq!(counted(key), before);
        let ended = scene.decide(&waiting, "approve", None).await;
        assert!(ended.success, "{ended:?}");
        assert_eq!(statuses(&ended), ["first done"]);
        assert_eq!(counted(key), before + 1);
        // The same answer again carries out nothing.
        scene.decide(&waiting, "approve", None).await;
        assert_eq!(counted(key), before + 1);
    }
}

#[tokio::test]
async fn an_edited_plan_is_checked_and_a_rejected_one_does_not_run() {
    let key = "an edited plan";
    let scene = Scene::new("{confirm: true}").await;
    scene.answers([plan(&[call("first", key)]).as_str(), "Done."]);
    let waiting = scene.execute("c").await;
    let text = waiting.metadata["questions"][0]["ask"]["args"]["plan"].as_str().expect("a text");
    let wrong = text.replace("\"counter\"", "\"nobody\"");
    let again =
        scene.decide(&waiting, "edit", Some(&wrong.replace("[\"nobody\"", "[\"counter\""))).await;
    assert_eq!(again.metadata["status"], "input_required", "{again:?}");
    let reason = again.metadata["questions"][0]["ask"]["reason"].as_str().expect("a text");
    assert!(reason.contains("W1012") && reason.contains("nobody"), "{reason}");
    assert_ne!(again.metadata["approvalId"], waiting.metadata["approvalId"]);
    assert_eq!(counted(key), 0);
    let edited = text.replace("first", "second");
    let ended = scene.decide(&again, "edit", Some(&edited)).await;
    assert!(ended.success, "{ended:?}");
    assert_eq!(statuses(&ended), ["second done"]);
    assert_eq!(counted(key), 1);
    let record = scene.record("c", &ended.metadata["plan"]["id"]).await;
    assert_eq!(record["version"]["number"], 2, "{record}");
    assert_eq!(record["content"], edited);

    scene.answers([plan(&[call("first", key)]).as_str()]);
    let waiting = scene.execute("d").await;
    let ended = scene.decide(&waiting, "reject", None).await;
    assert_eq!(ended.metadata["code"], "W1070", "{ended:?}");
    assert_eq!(statuses(&ended), ["first not_begun"]);
    assert!(ended.metadata.contains_key("plan"), "{ended:?}");
    assert_eq!(counted(key), 1);
}

#[tokio::test]
async fn a_plan_by_hand_runs_by_its_id_or_is_refused() {
    let key = "a plan by hand";
    let scene = Scene::new("{}").await;
    let by_hand = |id: &str, content: &str| {
        let payload =
            json!({"action": "create", "planId": id, "title": "By hand", "content": content});
        json!({"agent": "boss", "mode": "plan", "conversationId": "c", "payload": payload})
    };
    let sound = format!(
        "# A plan.\norchestration:\n  steps:\n    - id: one\n      agent: counter\n      payload: {{tool: math/count, arguments: {{key: {key}}}}}\n"
    );
    let wrong = sound.replace("agent: counter", "agent: boss");
    for (id, text) in [("sound", &sound), ("wrong", &wrong)] {
        let made = scene.bench.ask(&scene.platform, by_hand(id, text)).await;
        assert!(made.success, "{made:?}");
    }
    scene.answers(["Done."]);
    let ended = scene.ask("c", json!({"orchestrate": true, "planId": "sound"})).await;
    assert!(ended.success, "{ended:?}");
    assert_eq!(statuses(&ended), ["one done"]);
    assert_eq!(ended.metadata["plan"], json!({"id": "sound", "title": "By hand", "version": 1}));
    assert_eq!(scene.bench.requests().len(), 1, "no plan is asked for");
    let refused = scene.ask("c", json!({"orchestrate": true, "planId": "wrong"})).await;
    assert_eq!(refused.metadata["code"], "W1076", "{refused:?}");
    let problem = &refused.metadata["refusedPlan"]["problems"][0];
    assert_eq!((&problem["code"], &problem["line"]), (&json!("W1012"), &json!(5)), "{refused:?}");
    let missing = scene.ask("c", json!({"orchestrate": true, "planId": "nobody"})).await;
    assert!(!missing.success, "{missing:?}");
    assert_eq!(counted(key), 1);
}

#[tokio::test]
async fn a_run_that_failed_continues_with_the_plan_that_it_had() {
    let key = "a plan that continues";
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let boss = format!("type: context\norchestration: {{{AVAILABLE}, planning: {{}}}}\n");
    let scene = Scene::over(Arc::clone(&store), &boss).await;
    scene.answers([plan(&[call("first", key)]).as_str()]);
    scene.bench.during_next(|| {
        Step::fails(ModelError::Unknown { found: "x".to_owned(), known: Vec::new() })
    });
    let failed = scene.execute("c").await;
    assert!(!failed.success, "{failed:?}");
    assert_eq!(counted(key), 1);
    // A further process has the plan of the checkpoint, and asks its model for the own work alone.
    let other = Scene::over(store, &boss).await;
    other.answers(["Done."]);
    let ended = other.ask("c", json!({"orchestrationAction": "continue"})).await;
    assert_eq!(ended.content, Some(json!("Done.")), "{ended:?}");
    assert_eq!(statuses(&ended), ["first done"]);
    assert_eq!(other.bench.requests().len(), 1);
    assert_eq!(counted(key), 1);
}

#[tokio::test]
async fn a_plan_that_waits_outlives_its_process() {
    let key = "a plan that waits";
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let boss =
        format!("type: context\norchestration: {{{AVAILABLE}, planning: {{confirm: true}}}}\n");
    let scene = Scene::over(Arc::clone(&store), &boss).await;
    scene.answers([plan(&[call("first", key)]).as_str()]);
    let waiting = scene.execute("c").await;
    let other = Scene::over(store, &boss).await;
    other.answers(["Done."]);
    let ended = other.decide(&waiting, "approve", None).await;
    assert!(ended.success, "{ended:?}");
    assert_eq!(other.bench.requests().len(), 1, "the plan is not made again");
    assert_eq!(counted(key), 1);
}

#[tokio::test]
async fn requests_for_a_plan_are_refused_where_none_is_made() {
    let scene = Scene::new("{}").await;
    let without = scene.ask("c", json!({"orchestrationPlan": true})).await;
    assert_eq!(without.metadata["code"], "W1033", "{without:?}");
    let written = "type: context\norchestration: {steps: [{id: a, agent: counter}]}\n";
    let written = Scene::over(Arc::new(MemoryStore::new()), written).await;
    let payload = json!({"orchestrate": true, "orchestrationPlan": true});
    let refused = written.ask("c", payload).await;
    assert_eq!(refused.metadata["code"], "W1033", "{refused:?}");
}

#[tokio::test]
async fn planning_is_paid_from_the_budget_of_the_run() {
    let key = "a plan over budget";
    let boss = |limits: &str| {
        format!(
            "type: context\nexecution: {{budget: {{{limits}}}}}\norchestration: {{{AVAILABLE}, planning: {{}}}}\n"
        )
    };
    // The repair of a plan is a call as well.
    let scene = Scene::over(Arc::new(MemoryStore::new()), &boss("calls: 1")).await;
    scene.answers(["{}", "{}"]);
    let ended = scene.execute("c").await;
    assert_eq!(ended.metadata["code"], "W0601", "{ended:?}");
    assert_eq!(scene.bench.requests().len(), 1);
    // So are the calls of its steps.
    let scene = Scene::over(Arc::new(MemoryStore::new()), &boss("tools: 1")).await;
    scene.answers([plan(&[call("one", key), call("two", key)]).as_str()]);
    let ended = scene.execute("c").await;
    assert!(!ended.success, "{ended:?}");
    assert_eq!(statuses(&ended), ["one done", "two failed"]);
    assert_eq!(counted(key), 1);
}

#[tokio::test]
async fn an_agent_that_calls_itself_ends_at_its_depth() {
    let key = "an agent that calls itself";
    let count = format!(
        "{{id: count, agent: counter, payload: {{tool: math/count, arguments: {{key: {key}}}}}}}"
    );
    let itself = "{id: itself, agent: boss, payload: {orchestrate: true}}";
    let text = format!(
        "type: context\nexecution: {{budget: {{calls: 5, tools: 5}}}}\norchestration: {{steps: [{count}, {itself}]}}\n"
    );
    let scene = Scene::over(Arc::new(MemoryStore::new()), &text).await;
    let ended = scene.execute("c").await;
    assert_eq!(ended.metadata["code"], "W1037", "{ended:?}");
    let failures = ended.metadata["failures"].as_array().expect("failures");
    assert_eq!(failures.len(), 5, "{ended:?}");
    // Three orchestrations have counted, and the fourth may ask nobody.
    assert_eq!(counted(key), 3);
    assert_eq!(scene.bench.requests().len(), 0, "no model was paid");
    assert_eq!(ended.metadata["usage"]["tool_calls"], 3, "{ended:?}");
}

#[tokio::test]
async fn the_depth_of_an_agent_holds_behind_it_and_a_request_can_only_lower_what_is_left() {
    let boss = |depth: u32| {
        format!(
            "type: context\norchestration: {{maxDepth: {depth}, steps: [{{id: next, agent: deep1, payload: {{orchestrate: true}}}}]}}\n"
        )
    };
    // The agents behind it have the depth 3 each.
    for (limit, claimed, refused) in [
        (1, None, "deep1"),
        (2, None, "deep2"),
        (3, None, "deep3"),
        (16, None, "deep3"),
        (3, Some(0), "deep3"),
        (3, Some(1), "deep2"),
        (3, Some(2), "deep1"),
        (3, Some(3), "boss"),
        (3, Some(u64::MAX), "boss"),
    ] {
        let scene = Scene::over(Arc::new(MemoryStore::new()), &boss(limit)).await;
        let mut input = json!({"mode": "build", "payload": {"orchestrate": true}});
        input["messages"] = json!([scene.bench.user("Go.")]);
        if let Some(claimed) = claimed {
            input["depth"] = claimed.into();
        }
        let ended = scene.bench.thread("boss", "t").start(input).await.expect("runs");
        let answer = ended.output().expect("completes")["answer"].clone();
        assert_eq!(answer["error"]["code"], "W1037", "{limit} {claimed:?}: {answer}");
        let text = answer["error"]["message"].as_str().expect("a text");
        let part = format!("agent {refused} may ask no further one");
        assert!(text.contains(&part), "{limit} {claimed:?}: {text}");
        assert_eq!(counted("deep"), 0, "{limit} {claimed:?}");
    }
    let scene = Scene::over(Arc::new(MemoryStore::new()), &boss(3)).await;
    for wrong in [json!(-1), json!("0"), json!(0.5)] {
        let input = json!({"mode": "build", "payload": {"orchestrate": true}, "depth": wrong});
        let ended = scene.bench.thread("boss", "u").start(input).await.expect("runs");
        assert!(ended.output().is_err(), "{ended:?}");
    }
}
