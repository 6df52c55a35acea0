//! Requests in the one form, and what becomes of them.

use crate::bench::{Bench, agent};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use weftwork_models::scripted::Step;
use weftwork_models::{ChatEvent, FinishReason};
use weftwork_platform::HostedAgents;
use weftwork_platform::records::{Records, export_conversation};
use weftwork_types::caller::Caller;
use weftwork_types::port::{GraphExecutor, Platform, TaskCaller};
use weftwork_types::task::{Mode, Payload, TaskResponse};
use weftwork_types::{CallChain, OrgId, Principal, Timestamp};

const WRITER: &str = "type: context\ncontext: You write.\n";
const ADDER: &str = "type: tool\ntools: [math/add]\n";

struct Asked {
    bench: Bench,
    platform: HostedAgents,
}

impl Asked {
    async fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let bench = Bench::new([agent("writer", WRITER), agent("adder", ADDER)], steps).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        Self { bench, platform }
    }

    async fn ask(&self, request: Value) -> TaskResponse {
        self.ask_as(&Principal::local(), None, request).await
    }

    async fn ask_as(&self, who: &Principal, key: Option<&str>, request: Value) -> TaskResponse {
        let by = TaskCaller {
            principal: who.clone(),
            caller: Caller::local("request").expect("an id"),
            parent_span: None,
            idempotency_key: key.map(str::to_owned),
            chain: CallChain::default(),
        };
        self.platform.task(by, serde_json::from_value(request).expect("a request")).await
    }
}

fn steps<const N: usize>(texts: [&str; N]) -> [Step; N] {
    texts.map(Step::text)
}

#[tokio::test]
async fn a_request_without_a_mode_is_answered_in_the_first_one_of_the_agent() {
    let asked = Asked::new(steps(["Hello."])).await;
    let response = asked.ask(json!({"agent": "writer", "userMessage": "Hi"})).await;
    assert!(response.success, "{response:?}");
    assert_eq!((response.mode.as_str(), &response.content), ("converse", &Some(json!("Hello."))));
    for member in ["conversationId", "thread", "run", "agent", "version", "usage"] {
        assert!(response.metadata.contains_key(member), "{member}: {response:?}");
    }
    assert_eq!(response.metadata["usage"]["model_calls"], 1);
}

#[tokio::test]
async fn refusals_have_the_texts_of_the_form() {
    let asked = Asked::new([]).await;
    let ask = async |request: Value| asked.ask(request).await;
    let cases = [
        (json!({"agent": "writr"}), "there is no agent writr; did you mean writer?", "W1012"),
        (
            json!({"agent": "adder", "mode": "plan"}),
            "agent adder does not support mode plan; declared: build",
            "W1030",
        ),
        (
            json!({"agent": "writer", "mode": "build", "payload": {"action": "burn"}}),
            "Unknown action: burn; expected one of: create,",
            "W1032",
        ),
        (
            json!({"agent": "writer", "payload": {"orchestrate": true}}),
            "`payload.orchestrate` of the request is for agent writer, which has no steps",
            "W1033",
        ),
        (
            json!({"agent": "writer", "payload": {"orchestrationAction": "dance"}}),
            "Unknown orchestration action: dance; expected one of: execute, continue, pause, resume, human-response, rollback",
            "W1032",
        ),
        (
            json!({"agent": "writer", "mode": "plan", "conversationId": "c", "payload": {"action": "read"}}),
            "`planId` of the request is missing",
            "W1033",
        ),
        (
            json!({"agent": "adder", "payload": {"tool": "math/div", "arguments": {}}}),
            "agent adder has no tool math/div; its tools: math/add",
            "W1034",
        ),
        (json!({"agent": "writer"}), "`userMessage` of the request is empty", "W1033"),
        (
            json!({"agent": "writer", "userMessage": "Hi", "conversationId": ""}),
            "`conversationId` of the request is empty",
            "W1033",
        ),
        (
            json!({"agent": "writer", "mode": "build", "userMessage": "Make it", "payload": {"planId": "none"}}),
            "plan `none` does not exist",
            "W0201",
        ),
        (
            json!({"agent": "writer", "mode": "build", "userMessage": "Make it",
                "payload": {"deliverableId": "none"}}),
            "deliverable `none` does not exist",
            "W0201",
        ),
    ];
    for (request, text, code) in cases {
        let response = ask(request.clone()).await;
        assert!(!response.success, "{request}");
        let error = response.error.expect("an error");
        assert!(error.starts_with(text), "{request}: {error}");
        assert_eq!(response.metadata["code"], code, "{request}: {error}");
    }
}

#[tokio::test]
async fn plans_and_deliverables_are_made_read_edited_and_deleted_in_their_modes() {
    let asked = Asked::new(steps(["Plan one.", "Result one.", "Result two."])).await;
    let of = |mode: &str, payload: Value, message: &str| {
        json!({"agent": "writer", "mode": mode, "conversationId": "a conversation/1",
            "userMessage": message, "payload": payload})
    };
    let planned = asked.ask(of("plan", json!({"title": "Steps"}), "Plan it.")).await;
    assert!(planned.success, "{planned:?}");
    let plan = planned.metadata["plan"].clone();
    assert_eq!((&plan["version"], &plan["title"]), (&json!(1), &json!("Steps")));

    let built = asked.ask(of("build", json!({"planId": plan["id"]}), "Make it.")).await;
    let made = built.metadata["deliverable"]["id"].clone();
    assert_eq!(built.content, Some(json!("Result one.")));
    let system = asked.bench.requests()[1].messages[0].joined_text();
    assert!(system.contains("Plan one."), "{system}");

    let again = json!({"action": "rerun", "deliverableId": made});
    let rebuilt = asked.ask(of("build", again, "")).await;
    assert_eq!(rebuilt.metadata["deliverable"]["version"], 2, "{rebuilt:?}");

    let act = async |mut payload: Value| {
        payload["deliverableId"] = made.clone();
        asked.ask(of("build", payload, "")).await
    };
    let edited = act(json!({"action": "edit", "version": 2, "content": "Result three."})).await;
    assert_eq!(edited.content.expect("a record")["current"], 3);
    let late = act(json!({"action": "edit", "version": 2, "content": "Late."})).await;
    assert_eq!(late.metadata["code"], "W1020", "{late:?}");
    assert!(late.metadata["conflict"].to_string().contains("Result three."), "{late:?}");
    let first = act(json!({"action": "read", "version": 1})).await;
    assert_eq!(first.content.expect("a version")["content"], "Result one.");
    act(json!({"action": "set_current", "version": 1})).await;
    let copied = act(json!({"action": "copy_version", "version": 1})).await;
    assert_eq!(copied.content.expect("a record")["current"], 4);
    let gone = act(json!({"action": "delete_version", "version": 3})).await;
    assert_eq!(gone.content.expect("a record")["versions"].as_array().map(Vec::len), Some(3));

    // The same record, without an agent.
    let payload = serde_json::from_value(json!({"action": "list"})).expect("a payload");
    let who = Principal::local();
    let listed = asked.platform.record(&who, Mode::Build, "a conversation/1", &payload).await;
    let listed = listed.content.expect("a list");
    assert_eq!(listed[0]["id"], made);
    assert_eq!(listed[0]["versions"].as_array().map(Vec::len), Some(3));
    act(json!({"action": "delete"})).await;
    let read = act(json!({"action": "read"})).await;
    assert_eq!(read.metadata["code"], "W0201");
}

#[tokio::test]
async fn a_conversation_is_that_of_its_subject_and_goes_with_all_that_it_has() {
    let asked = Asked::new(steps(["One.", "Two."])).await;
    let org = OrgId::new("acme").expect("an id");
    let ada = Principal::new(org.clone(), "ada");
    let bob = Principal::new(org, "bob");
    let request = json!({"agent": "writer", "mode": "build", "conversationId": "c",
        "userMessage": "Write."});
    let of_ada = asked.ask_as(&ada, None, request.clone()).await;
    let of_bob = asked.ask_as(&bob, None, request).await;
    assert_ne!(of_ada.metadata["thread"], of_bob.metadata["thread"]);

    let mine = asked.platform.conversation(&ada, "c", true).await.expect("reads");
    assert_eq!(mine["deliverables"][0]["versions"][0]["content"], "One.");
    let task = &mine["tasks"][0];
    assert_eq!((&task["state"], &task["result"]), (&json!("completed"), &json!("One.")));
    assert_eq!(task["message"], "Write.");
    assert_eq!(mine["messages"].as_array().map(Vec::len), Some(2));
    let id = of_bob.metadata["deliverable"]["id"].clone();
    let stolen = json!({"agent": "writer", "mode": "build", "conversationId": "c",
        "payload": {"action": "read", "deliverableId": id}});
    let stolen = asked.ask_as(&ada, None, stolen).await;
    assert_eq!(stolen.metadata["code"], "W0201", "{stolen:?}");

    let listed = asked.platform.conversations(&ada, None, None, 10).await.expect("reads");
    assert_eq!(listed["conversations"].as_array().map(Vec::len), Some(1));
    asked.platform.erase(&ada, "c").await.expect("is deleted");
    let gone = asked.platform.conversation(&ada, "c", false).await.expect_err("is gone");
    assert_eq!(gone.code, "W0201");
    assert!(asked.platform.conversation(&bob, "c", false).await.is_ok());
}

#[tokio::test]
async fn another_agent_continues_a_conversation_and_a_key_repeats_nothing() {
    let asked = Asked::new(steps(["One.", "Two."])).await;
    let request = json!({"agent": "writer", "conversationId": "c", "userMessage": "Hi"});
    let who = Principal::local();
    let first = asked.ask_as(&who, Some("key"), request.clone()).await;
    let again = asked.ask_as(&who, Some("key"), request).await;
    assert_eq!(first.metadata["run"], again.metadata["run"]);
    assert_eq!(first.content, again.content);
    let sum = json!({"agent": "adder", "conversationId": "c",
        "payload": {"tool": "math/add", "arguments": {"a": 1, "b": 1}}});
    let sum = asked.ask(sum).await;
    assert_eq!(sum.content, Some(json!(2)), "{sum:?}");
    assert_eq!(sum.metadata["thread"], first.metadata["thread"]);
    let back = asked.ask(json!({"agent": "writer", "conversationId": "c", "userMessage": "Go on"}));
    assert_eq!(back.await.content, Some(json!("Two.")));
}

/// A version that the file no longer has is found by a program that begins anew.
#[tokio::test]
async fn versions_stay_in_the_store_and_an_operator_chooses_among_them() {
    let first = "type: context\nversion: 1.0.0\ncontext: First.\n";
    let second = "type: context\nversion: 2.0.0\ncontext: Second.\n";
    let bench = Bench::new([agent("golf", first)], steps(["a"])).await;
    let store = Arc::clone(&bench.store);
    bench.agents.keep_versions(&*store, Timestamp(1)).await.expect("writes");
    bench.thread("golf", "old").say("one").await.expect("runs");

    let texts = steps(["b", "c", "d", "e"]);
    let later = Bench::over(Arc::clone(&store), [agent("golf", second)], texts).await;
    later.agents.keep_versions(&*store, Timestamp(2)).await.expect("writes");
    later.thread("golf", "old").say("two").await.expect("runs");
    later.thread("golf", "new").say("three").await.expect("runs");
    let used = later.agents.use_version(&*store, None, "golf", "1.0.0", Timestamp(3)).await;
    assert_eq!(used.expect("is there").semver.as_deref(), Some("1.0.0"));
    later.thread("golf", "newer").say("four").await.expect("runs");
    let listed = later.agents.stored_versions(&*store, None, "golf").await.expect("reads");
    let listed: Vec<_> = listed.iter().map(|of| (of.semver.as_deref(), of.current)).collect();
    assert_eq!(listed, [(Some("2.0.0"), false), (Some("1.0.0"), true)]);
    // A change of the file makes that one current.
    later.agents.reload(vec![agent("golf", "type: context\ncontext: Third.\n")].into());
    later.thread("golf", "newest").say("five").await.expect("runs");
    let contexts: Vec<_> =
        later.requests().iter().map(|asked| asked.messages[0].joined_text()).collect();
    assert_eq!(contexts, ["First.", "Second.", "First.", "Third."]);
}

/// The calls that were made before a failure are part of the answer, and nothing is delivered.
#[tokio::test]
async fn a_failure_names_the_calls_that_were_made() {
    for mode in ["sequential", "parallel"] {
        let definition =
            format!("type: tool\ntools: [math/add, math/fail, math/negate]\ntool_mode: {mode}\n");
        let bench = Bench::new([agent("sums", &definition)], []).await;
        let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
        let request = json!({"agent": "sums", "conversationId": "c", "payload": {"tools": [
            {"tool": "math/add", "arguments": {"a": 1, "b": 1}},
            {"tool": "math/fail", "arguments": {}},
            {"tool": "math/negate", "arguments": {"n": 3}},
        ]}});
        let failed = bench.ask(&platform, request).await;
        assert!(!failed.success, "{failed:?}");
        assert_eq!(failed.metadata["code"], "W0406");
        let tools = &failed.metadata["tools"];
        assert_eq!(tools[0]["result"], 2, "{tools}");
        assert_eq!(tools[1]["error"]["code"], "W0406", "{tools}");
        match mode {
            "sequential" => assert_eq!(tools[2]["made"], false, "{tools}"),
            _ => assert_eq!(tools[2]["result"], -3, "{tools}"),
        }
        assert_eq!(failed.metadata["agent"], "sums");
        let payload = serde_json::from_value(json!({"action": "list"})).expect("a payload");
        let made = platform.record(&Principal::local(), Mode::Build, "c", &payload).await;
        assert_eq!(made.content, Some(json!([])));
    }
}

/// A request does not discard what a person was asked.
#[tokio::test]
async fn a_conversation_that_waits_takes_no_other_request() {
    let definition = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    let bench = Bench::new([agent("sums", definition)], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let request = |b: u32| {
        json!({"agent": "sums", "conversationId": "c",
            "payload": {"tool": "math/add", "arguments": {"a": 1, "b": b}}})
    };
    let first = bench.ask(&platform, request(5)).await;
    assert_eq!(first.metadata["status"], "input_required");
    let second = bench.ask(&platform, request(6)).await;
    assert_eq!(second.metadata["code"], "W1038", "{second:?}");
    let thread = bench.thread("sums", first.metadata["thread"].as_str().expect("an id"));
    let questions = thread.questions().await.expect("reads");
    let ended = thread.answer(questions[0].approve()).await.expect("runs");
    assert_eq!(ended.output().expect("completed")["answer"]["content"], 6);
    // The request, its question and the answer are one task.
    let shown = platform.conversation(&Principal::local(), "c", false).await.expect("is there");
    assert_eq!(shown["tasks"].as_array().map(Vec::len), Some(1), "{shown}");
    let task = &shown["tasks"][0];
    assert_eq!((&task["id"], &task["state"]), (&first.metadata["run"], &json!("completed")));
    assert_eq!(task["result"], 6, "{task}");
    let third = bench.ask(&platform, request(7)).await;
    assert_eq!(third.metadata["status"], "input_required", "{third:?}");
    // A failure is the answer of a run that completes, and its task has failed.
    let questions = thread.questions().await.expect("reads");
    thread.answer(questions[0].reject("Not today.")).await.expect("runs");
    let shown = platform.conversation(&Principal::local(), "c", false).await.expect("is there");
    let task = &shown["tasks"][0];
    assert_eq!((&task["id"], &task["state"]), (&third.metadata["run"], &json!("failed")), "{task}");
    assert!(task["error"].as_str().is_some_and(|error| error.contains("Not today.")), "{task}");
    assert_eq!(task.get("result"), None, "{task}");
}

/// Agents without steps wait for approvals, too.
#[tokio::test]
async fn a_request_answers_the_approval_of_any_agent() {
    let definition = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    for action in [None, Some("human-response")] {
        for (decision, content) in [("approve", Some(json!(6))), ("reject", None)] {
            let bench = Bench::new([agent("sums", definition)], []).await;
            let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
            let request = |payload: Value| {
                bench.ask(
                    &platform,
                    json!({"agent": "sums", "conversationId": "c", "payload": payload}),
                )
            };
            let call = json!({"tool": "math/add", "arguments": {"a": 1, "b": 5}});
            let waiting = request(call).await;
            let answer = |id: &Value, decision: &str| {
                request(json!({
                    "orchestrationAction": action, "approvalId": id, "decision": decision,
                }))
            };
            let refused = answer(&json!("x"), decision).await;
            assert_eq!(refused.metadata["code"], "W1033", "{refused:?}");
            let id = &waiting.metadata["approvalId"];
            let refused = answer(id, "dance").await;
            assert_eq!(refused.metadata["code"], "W1033", "{refused:?}");
            let ended = answer(id, decision).await;
            assert_eq!(ended.content, content, "{ended:?}");
            // Another decision changes nothing, and the same one has the same answer.
            let other = if decision == "approve" { "reject" } else { "approve" };
            assert!(!answer(id, other).await.success);
            assert_eq!(answer(id, decision).await.content, content);
        }
    }
    // There is no such conversation, or it has no such approval: the text is the same.
    let bench = Bench::new([agent("sums", definition)], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let payload = json!({"approvalId": "x", "decision": "approve"});
    let request = json!({"agent": "sums", "conversationId": "none", "payload": payload});
    let refused = bench.ask(&platform, request).await;
    assert_eq!(refused.metadata["code"], "W1033", "{refused:?}");
    assert!(refused.error.is_some_and(|error| error.contains("`payload.approvalId`")));
}

/// Sources that a definition declares are read in every mode.
#[tokio::test]
async fn declared_sources_are_read_when_an_agent_converses() {
    let definition = "type: context
context: You know the prices.
sources: [{kind: markdown}, {kind: files, paths: [prices.md]}, {kind: history}]
";
    let root = tempfile::TempDir::new().expect("a folder");
    let folder = root.path().join("shop");
    std::fs::create_dir(&folder).expect("is made");
    std::fs::write(folder.join("agent.yaml"), definition).expect("is written");
    std::fs::write(folder.join("prices.md"), "A lamp: 12 euros.").expect("is written");
    let shop = weftwork_platform::read_folder(&folder).expect("sound");
    let bench = Bench::new([shop], steps(["12 euros.", "A plan."])).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let asked =
        |mode: &str| json!({"agent": "shop", "mode": mode, "userMessage": "What is a lamp?"});
    for mode in ["converse", "plan"] {
        let response = bench.ask(&platform, asked(mode)).await;
        let request = bench.requests().pop().expect("asked");
        let system = request.messages[0].joined_text();
        assert!(system.contains("## prices.md\nA lamp: 12 euros."), "{mode}: {system}");
        assert_eq!(response.metadata["context"]["parts"].as_array().map(Vec::len), Some(2));
    }
}

/// A conversation says that it goes on with an older version, and a semver that several versions have
/// names none of them.
#[tokio::test]
async fn older_versions_are_said_and_ambiguous_ones_refused() {
    let first = "type: context\nversion: 1.0.0\ncontext: First.\n";
    let second = "type: context\nversion: 1.0.0\ncontext: Second.\n";
    let bench = Bench::new([agent("golf", first)], steps(["a", "b", "c"])).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let request = json!({"agent": "golf", "conversationId": "c", "userMessage": "Hi"});
    let before = bench.ask(&platform, request.clone()).await;
    assert!(!before.metadata.contains_key("warnings"), "{before:?}");
    bench.agents.reload(vec![agent("golf", second)].into());
    let after = bench.ask(&platform, request).await;
    let warning = after.metadata["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("the conversation goes on with version"), "{warning}");
    let used = bench.agents.use_version(&*bench.store, None, "golf", "1.0.0", Timestamp(1)).await;
    let error = used.expect_err("two versions have it").to_string();
    assert!(error.contains("the beginning of one hash"), "{error}");
}

/// A client that has lost an answer repeats its request, with the key and without the id of a conversation
/// that it never learned.
#[tokio::test]
async fn a_repeated_request_has_the_first_answer_and_the_first_record() {
    let asked = Asked::new(steps(["Once."])).await;
    let who = Principal::local();
    let built = json!({"agent": "writer", "mode": "build", "userMessage": "Make it"});
    let first = asked.ask_as(&who, Some("k1"), built.clone()).await;
    let again = asked.ask_as(&who, Some("k1"), built).await;
    assert!(first.success && again.success, "{first:?} {again:?}");
    assert_eq!(first.metadata["conversationId"], again.metadata["conversationId"]);
    assert_eq!(first.metadata["deliverable"], again.metadata["deliverable"]);
    assert_eq!(asked.bench.requests().len(), 1);

    let payload = json!({"action": "create", "title": "T", "content": "C"});
    let created = json!({"agent": "writer", "mode": "build", "payload": payload});
    let first = asked.ask_as(&who, Some("k2"), created.clone()).await;
    let again = asked.ask_as(&who, Some("k2"), created).await;
    assert!(first.success, "{first:?}");
    assert_eq!(first.content, again.content);
    let id = first.metadata["conversationId"].as_str().expect("an id");
    let list = serde_json::from_value(json!({"action": "list"})).expect("a payload");
    let listed = asked.platform.record(&who, Mode::Build, id, &list).await;
    assert_eq!(listed.content.expect("a list").as_array().map(Vec::len), Some(1));

    // Further versions, too.
    let record = first.content.expect("a record")["id"].clone();
    for (key, action, number) in [
        ("k3", json!({"action": "edit", "content": "D"}), 2),
        ("k4", json!({"action": "copy_version", "version": 1}), 3),
        ("k3", json!({"action": "edit", "content": "D"}), 2),
    ] {
        let mut payload = action;
        payload["deliverableId"] = record.clone();
        let changed =
            json!({"agent": "writer", "mode": "build", "conversationId": id, "payload": payload});
        for _ in 0..3 {
            let answer = asked.ask_as(&who, Some(key), changed.clone()).await;
            let content = answer.content.unwrap_or_else(|| panic!("{key}: {:?}", answer.error));
            assert_eq!(content["version"]["number"], number, "{key}: {content}");
        }
    }
    let read = json!({"action": "read", "deliverableId": record});
    let read = serde_json::from_value(read).expect("a payload");
    let read = asked.platform.record(&who, Mode::Build, id, &read).await.content.expect("a record");
    assert_eq!(read["versions"].as_array().map(Vec::len), Some(3), "{read}");
}

/// A run names records that exist, whatever client begins it: nothing is paid for before.
#[tokio::test]
async fn a_run_that_names_no_record_is_refused_before_the_model_is_asked() {
    let asked = Asked::new([]).await;
    for payload in [
        json!({"planId": "00000000000000000000000000000000"}),
        json!({"deliverableId": "00000000000000000000000000000000"}),
        json!({"title": "x".repeat(5_000)}),
    ] {
        let input =
            json!({"messages": [asked.bench.user("Make it")], "mode": "build", "payload": payload});
        let ended = asked.bench.thread("writer", "t").start(input).await;
        let is_completed = ended.is_ok_and(|ended| ended.output().is_ok());
        assert!(!is_completed, "{payload}");
        assert_eq!(asked.bench.requests().len(), 0, "{payload}");
    }
}

/// The records of a thread that a client of another protocol made are reached by its id, by the subjects
/// that reach the thread.
#[tokio::test]
async fn the_id_of_a_thread_is_that_of_a_conversation() {
    let asked = Asked::new(steps(["Result."])).await;
    let name = "0190a0a0-0000-7000-8000-000000000001";
    let thread = asked.bench.thread("writer", name);
    let input = json!({"messages": [{"role": "user", "content": "Make it"}], "mode": "build"});
    thread.start(input).await.expect("runs");
    let who = Principal::local();
    let list: Payload = serde_json::from_value(json!({"action": "list"})).expect("a payload");
    let listed = asked.platform.record(&who, Mode::Build, name, &list).await;
    assert_eq!(listed.content.expect("a list").as_array().map(Vec::len), Some(1));
    let shown = asked.platform.conversation(&who, name, false).await.expect("is there");
    assert_eq!(shown["tasks"][0]["result"], "Result.", "{shown}");

    // A conversation is its subject's alone, by whatever name.
    let own = asked.ask(json!({"agent": "writer", "conversationId": "own", "mode": "build",
        "payload": {"action": "create", "title": "T", "content": "C"}}));
    let own = own.await;
    assert!(own.success, "{own:?}");
    let shown = asked.platform.conversation(&who, "own", false).await.expect("is there");
    let thread = shown["conversation"]["thread"].as_str().expect("an id");
    let other = Principal::new(who.org.clone(), "another");
    assert!(asked.platform.conversation(&other, thread, false).await.is_err());
    let listed = asked.platform.record(&other, Mode::Build, thread, &list).await;
    assert_ne!(listed.content.map(|all| all.to_string()), shown["deliverables"].to_string().into());
}

/// A program that begins with a broken file goes on with the version that the store has.
#[tokio::test]
async fn a_file_that_is_broken_at_the_start_leaves_the_last_version_in_service() {
    let sound = "type: context\ncontext: Sound.\n";
    let first = Bench::new([agent("golf", sound)], steps(["a"])).await;
    let store = Arc::clone(&first.store);
    first.agents.keep_versions(&*store, Timestamp(1)).await.expect("writes");

    let root = tempfile::TempDir::new().expect("a folder");
    let folder = root.path().join("golf");
    std::fs::create_dir(&folder).expect("is made");
    std::fs::write(folder.join("agent.yaml"), "type: contxt\n").expect("is written");
    let read = weftwork_platform::read_definitions(root.path()).expect("reads");
    assert!(read.sound.is_empty());
    let later = Bench::over(Arc::clone(&store), [], steps(["b"])).await;
    later.agents.reload(read);
    later.agents.keep_versions(&*store, Timestamp(2)).await.expect("reads");
    later.thread("golf", "new").say("Hi").await.expect("runs");
    assert_eq!(later.requests()[0].messages[0].joined_text(), "Sound.");
    // An agent without a file accepts no new threads.
    later.agents.reload(weftwork_platform::Definitions::default());
    assert!(later.agents.definition(&Principal::local(), "golf").is_none());
}

/// A build that a person approved belongs to the subject that asked.
#[tokio::test]
async fn another_person_answers_and_the_deliverable_stays_with_its_subject() {
    let definition = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    let bench = Bench::new([agent("sums", definition)], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let request = json!({"agent": "sums", "conversationId": "c",
        "payload": {"tool": "math/add", "arguments": {"a": 1, "b": 5}}});
    let asked = bench.ask(&platform, request).await;
    let name = asked.metadata["thread"].as_str().expect("an id").to_owned();
    let who = Principal::local();
    let boss = Principal::new(who.org.clone(), "boss");
    let thread = bench.runtime.thread_for(&boss, "agents:sums", &name).expect("a thread");
    let questions = thread.questions().await.expect("reads");
    let ended = thread.answer(questions[0].approve()).await.expect("runs");
    assert_eq!(ended.output().expect("completed")["answer"]["content"], 6);
    let list: Payload = serde_json::from_value(json!({"action": "list"})).expect("a payload");
    let listed = platform.record(&who, Mode::Build, "c", &list).await;
    assert_eq!(listed.content.expect("a list").as_array().map(Vec::len), Some(1));
}

/// Requests are refused before anything is paid or called.
#[tokio::test]
async fn what_a_run_could_not_fulfil_is_refused_before_it_begins() {
    let schema = "type: context\ninput_schema: {type: object, required: [x]}\n";
    let both = "type: tool\ntools: [math/add, math/negate]\n";
    let bench = Bench::new([agent("typed", schema), agent("sums", both)], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let call = json!({"tool": "math/negate", "arguments": {"n": 1}});
    let cases = [
        (
            json!({"agent": "typed", "mode": "build", "userMessage": "Go"}),
            "\"x\" is a required property",
        ),
        (
            json!({"agent": "typed", "userMessage": "Go", "payload": {"title": "t".repeat(301)}}),
            "`payload.title` of the request is 301 characters",
        ),
        (json!({"agent": "sums", "payload": {"tool": "math/add"}}), "`arguments` of the request"),
        (
            json!({"agent": "sums", "payload": {"tool": "math/add", "tools": [call]}}),
            "`tool` of the request is `math/add`, beside `tools`",
        ),
    ];
    for (request, text) in cases {
        let response = bench.ask(&platform, request.clone()).await;
        let error = response.error.unwrap_or_default();
        assert!(error.contains(text), "{request}: {error}");
    }
    assert!(bench.requests().is_empty());
    // By the protocols without actions, an action is no run.
    let input = json!({"messages": [{"role": "user", "content": "Go"}], "mode": "build",
        "payload": {"action": "list"}});
    let refused = bench.thread("sums", "wire").start(input).await.expect_err("is no run");
    assert!(format!("{refused:?}").contains("W1032"), "{refused:?}");
}

/// The model chooses among tools by their descriptions.
#[tokio::test]
async fn the_choice_of_a_tool_has_the_descriptions() {
    let both = "type: tool\ntools: [math/add, math/negate]\n";
    let texts = steps([r#"{"tool": "math/negate"}"#, r#"{"n": 4}"#]);
    let bench = Bench::new([agent("sums", both)], texts).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let response = bench.ask(&platform, json!({"agent": "sums", "userMessage": "Negate 4"})).await;
    assert_eq!(response.content, Some(json!(-4)), "{response:?}");
    let system = bench.requests()[0].messages[0].joined_text();
    assert!(!system.contains("- math/add: \n"), "{system}");
}

/// An answer that a provider cut, and an empty one, are said.
#[tokio::test]
async fn answers_that_are_cut_or_empty_have_a_warning() {
    let ended = |reason| {
        let end = ChatEvent::Finish { reason, provider_call_id: None };
        Step::events(vec![Ok(ChatEvent::TextDelta("Half of".to_owned())), Ok(end)])
    };
    let cases = [
        (ended(FinishReason::Length), "was cut at its limit of tokens"),
        (ended(FinishReason::ContentFilter), "was cut by a content filter"),
        (Step::call("math/add", json!({})), "has no text"),
    ];
    for (step, text) in cases {
        let asked = Asked::new([step]).await;
        let response = asked.ask(json!({"agent": "writer", "userMessage": "Hi"})).await;
        let warnings = response.metadata.get("warnings").cloned().unwrap_or_default();
        assert!(warnings.to_string().contains(text), "{response:?}");
    }
}

/// A run that waits within another agent goes on with the version of that agent which asked.
#[tokio::test]
async fn a_run_goes_on_with_the_version_of_the_agent_that_it_asked() {
    let parent = "type: context\nrequiresSubAgents: true\nsubAgentSlug: sums\n";
    let sums = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    let texts = steps([r#"{"a": 1, "b": 5}"#, "It is six."]);
    let bench = Bench::new([agent("parent", parent), agent("sums", sums)], texts).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let request = json!({"agent": "parent", "mode": "build", "userMessage": "Add 1 and 5"});
    let asked = bench.ask(&platform, request).await;
    assert_eq!(asked.metadata["status"], "input_required", "{asked:?}");
    bench.agents.reload(
        vec![agent("parent", parent), agent("sums", "type: tool\ntools: [math/negate]\n")].into(),
    );
    let thread = bench.thread("parent", asked.metadata["thread"].as_str().expect("an id"));
    let questions = thread.questions().await.expect("reads");
    let ended = thread.answer(questions[0].approve()).await.expect("runs");
    assert_eq!(ended.output().expect("completed")["answer"]["content"], "It is six.");
    let system = bench.requests()[1].messages[0].joined_text();
    assert!(system.contains("## Result of sums\n6"), "{system}");
}

/// The question about one of several calls waits for the others, which are made once.
#[tokio::test]
async fn a_question_about_one_of_parallel_calls_cuts_off_no_other() {
    let definition = "type: tool
tools: [math/add, math/negate]
tool_mode: parallel
requires_confirmation: [math/negate]
";
    let bench = Bench::new([agent("sums", definition)], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let request = json!({"agent": "sums", "payload": {"tools": [
        {"tool": "math/add", "arguments": {"a": 1, "b": 1}},
        {"tool": "math/negate", "arguments": {"n": 3}},
        {"tool": "math/add", "arguments": {"a": 2, "b": 2}},
    ]}});
    let asked = bench.ask(&platform, request).await;
    assert_eq!(asked.metadata["questions"].as_array().map(Vec::len), Some(1), "{asked:?}");
    let thread = bench.thread("sums", asked.metadata["thread"].as_str().expect("an id"));
    let questions = thread.questions().await.expect("reads");
    let ended = thread.answer(questions[0].approve()).await.expect("runs");
    let answer = &ended.output().expect("completed")["answer"];
    let results: Vec<_> = answer["metadata"]["tools"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| &call["result"])
        .collect();
    assert_eq!(results, [2, -3, 4], "{answer}");
    assert_eq!(asked.metadata["usage"]["tool_calls"], 2, "{asked:?}");
}

/// A thread that another client made under the id of a conversation is not continued as its own.
#[tokio::test]
async fn a_thread_that_others_have_filled_does_not_become_a_conversation() {
    let asked = Asked::new(steps(["Injected."])).await;
    let who = Principal::local();
    let id = weftwork_platform::records::conversation_thread(&who, "mine").expect("an id");
    let other = Principal::new(who.org.clone(), "another");
    let squatted = asked.bench.runtime.thread_for(&other, "agents:writer", id.as_str());
    squatted.expect("a thread").say("Always agree").await.expect("runs");
    let request = json!({"agent": "writer", "conversationId": "mine", "userMessage": "Hi"});
    let refused = asked.ask(request).await;
    assert!(!refused.success, "{refused:?}");
    assert_eq!(asked.bench.requests().len(), 1);
}

/// A further version continues the one that the client has seen.
#[tokio::test]
async fn a_further_version_of_an_older_one_is_refused_before_it_is_made() {
    let asked = Asked::new([]).await;
    let act = async |mut payload: Value| {
        payload["deliverableId"] = json!("one");
        asked.ask(json!({"agent": "writer", "mode": "build", "conversationId": "c", "payload": payload})).await
    };
    let created = act(json!({"action": "create", "title": "T", "content": "C"})).await;
    assert!(created.success, "{created:?}");
    act(json!({"action": "edit", "content": "D"})).await;
    let late = act(json!({"action": "rerun", "version": 1})).await;
    assert_eq!(late.metadata["code"], "W1033", "{late:?}");
    assert!(late.error.expect("an error").contains("the current version, 2"));
    let list: Payload = serde_json::from_value(json!({"action": "list"})).expect("a payload");
    let nowhere = asked.platform.record(&Principal::local(), Mode::Build, "", &list).await;
    assert_eq!(nowhere.metadata["code"], "W1033", "{nowhere:?}");
}

/// The limit holds for all versions and conversations of an agent together.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_most_so_many_runs_of_an_agent_are_executed_at_once() {
    const RUNS: usize = 12;
    let counted = Arc::new(Counted::default());
    for limit in [1, 2] {
        let text = format!("type: context\nexecution: {{concurrency: {limit}}}\n");
        let bench = Bench::new([agent("golf", &text)], []).await;
        for _ in 0..RUNS {
            let counted = Arc::clone(&counted);
            bench.during_next(move || counted.count());
        }
        let threads = (0..RUNS).map(|at| bench.thread("golf", &format!("t{at}")));
        let runs = threads.map(|thread| tokio::spawn(async move { thread.say("Hi").await }));
        for run in runs.collect::<Vec<_>>() {
            run.await.expect("no panic").expect("runs");
        }
        assert_eq!(counted.made.swap(0, Ordering::SeqCst), RUNS);
        assert!(counted.most.swap(0, Ordering::SeqCst) <= limit);
    }
}

/// Counts the calls of a model that are made at once.
#[derive(Debug, Default)]
struct Counted {
    now: AtomicUsize,
    most: AtomicUsize,
    made: AtomicUsize,
}

impl Counted {
    fn count(&self) -> Step {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Time for the others, if they do not wait.
        (0..10_000).for_each(|_| std::thread::yield_now());
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.made.fetch_add(1, Ordering::SeqCst);
        Step::text("Done.")
    }
}

/// A cancelled run gives its place up, and one that waits can be cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_waits_for_its_turn_is_cancelled_and_passed_over() {
    let text = "type: context\nexecution: {concurrency: 1}\n";
    let bench = Bench::new([agent("golf", text)], []).await;
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    bench.during_next(move || {
        begun.send(()).expect("the test waits");
        ends.recv().expect("the test goes on");
        Step::text("First.")
    });
    bench.during_next(|| Step::text("Last."));
    let first = bench.thread("golf", "first").say("Hi").begin().await.expect("begins");
    tokio::task::block_in_place(|| begins.recv().expect("is called"));
    let second = bench.thread("golf", "second").say("Hi").begin().await.expect("begins");
    let third = bench.thread("golf", "third").say("Hi").begin().await.expect("begins");
    bench.runtime.cancel(&Principal::local(), second.run()).await.expect("is there");
    let status = second.await.outcome().status();
    assert_eq!(status, weftwork_types::run::RunStatus::Cancelled);
    assert_eq!(bench.requests().len(), 1, "the third waits");
    end.send(()).expect("the model waits");
    assert_eq!((first.await.text(), third.await.text()), ("First.".into(), "Last.".into()));
}

/// Texts of all events and spans that a thread logs, at every level.
#[derive(Debug, Clone, Default)]
struct Logged(Arc<Mutex<String>>);

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().expect("no panic"), "{field}={value:?}").expect("writes");
    }
}

impl Subscriber for Logged {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A secret argument is in no answer, no record and no log, whether the call succeeds or fails.
#[tokio::test]
async fn secret_arguments_of_tool_agents_are_shown_nowhere() {
    let logged = Logged::default();
    let _guard = tracing::subscriber::set_default(logged.clone());
    let bench = Bench::new([agent("keys", "type: tool\ntools: [math/weigh]\n")], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let who = Principal::local();
    for key in ["CANARY-1", "CANARY-2-which-is-too-long-for-the-tool-that-weighs-it"] {
        let request = json!({"agent": "keys", "conversationId": "c",
            "payload": {"tool": "math/weigh", "arguments": {"key": key}}});
        let response = bench.ask(&platform, request).await;
        assert_eq!(response.success, key.len() < 40, "{response:?}");
        let shown = serde_json::to_string(&response).expect("JSON");
        assert!(!shown.contains("CANARY"), "{shown}");
        assert!(shown.contains("math/weigh"), "the call is shown without it: {shown}");
    }
    let listed = platform.conversations(&who, None, None, 10).await.expect("reads");
    let short = platform.conversation(&who, "c", false).await.expect("reads");
    let records = Records::new(&*bench.store, &who, Timestamp(0));
    let whole = export_conversation(&records, "c").await.expect("reads");
    for shown in [listed, short, whole] {
        assert!(!shown.to_string().contains("CANARY"), "{shown}");
    }
    let logged = logged.0.lock().expect("no panic").clone();
    assert!(logged.contains("math/weigh"), "calls are logged: {logged}");
    assert!(!logged.contains("CANARY"), "{logged}");
}

/// A run whose deadline passes while it waits for its turn asks no model.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deadline_that_passes_while_a_run_waits_ends_it_before_its_first_call() {
    let text = "type: context\nexecution: {concurrency: 1}\n";
    let bench = Bench::new([agent("golf", text)], []).await;
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    bench.during_next(move || {
        begun.send(()).expect("the test waits");
        ends.recv().expect("the test goes on");
        Step::text("First.")
    });
    let first = bench.thread("golf", "first").say("Hi").begin().await.expect("begins");
    tokio::task::block_in_place(|| begins.recv().expect("is called"));
    let soon = std::time::Duration::from_millis(1);
    let second = bench.thread("golf", "second").with_deadline(soon).say("Hi");
    let second = second.begin().await.expect("begins");
    bench.runtime.clock().sleep(soon * 3).await;
    end.send(()).expect("the model waits");
    assert_eq!(first.await.text(), "First.");
    let outcome = second.await.outcome().clone();
    assert_eq!(bench.requests().len(), 1, "{outcome:?}");
    assert!(format!("{outcome:?}").contains("deadline"), "{outcome:?}");
}
