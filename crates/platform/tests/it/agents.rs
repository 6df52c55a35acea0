//! Defined agents at work: modes, records, versions and organisations.

use crate::bench::{Bench, agent};
use serde_json::{Value, json};
use weftwork_models::scripted::Step;
use weftwork_platform::records::{RecordKind, Records};
use weftwork_runtime::EndedRun;
use weftwork_types::{OrgId, Principal, Timestamp};

const GOLF: &str = "type: context
agent_card: {name: Golf Rules, description: An expert in the rules of golf}
context: |
  Answer questions about the rules of golf. Today is {{date}}.
";

fn answer(ended: &EndedRun) -> Value {
    ended.output().expect("completed")["answer"].clone()
}

#[tokio::test]
async fn an_agent_converses_without_a_mode() {
    let bench = Bench::new([agent("golf", GOLF)], [Step::text("Two strokes.")]).await;
    let ended = bench.thread("golf", "t").say("What is the penalty?").await.expect("runs");
    assert_eq!(ended.text(), "Two strokes.");
    let answer = answer(&ended);
    assert_eq!(answer["mode"], "converse");
    assert_eq!(answer["content"], "Two strokes.");
    assert_eq!(answer["metadata"]["agent"], "golf");
    let asked = bench.requests();
    let system = asked[0].messages[0].joined_text();
    assert!(system.starts_with("You are Golf Rules. An expert in the rules of golf."), "{system}");
    assert!(!system.contains("{{"), "{system}");
}

#[tokio::test]
async fn a_build_follows_the_plan_and_makes_a_deliverable() {
    let steps = [Step::text("1. Look up rule 17."), Step::text("The ruling.")];
    let bench = Bench::new([agent("golf", GOLF)], steps).await;
    let thread = bench.thread("golf", "t");
    let plan = json!({"messages": [bench.user("Plan a ruling.")], "mode": "plan"});
    let planned = thread.start(plan).await.expect("runs");
    assert_eq!(answer(&planned)["mode"], "plan");
    let build = json!({
        "messages": [bench.user("Make the ruling.")],
        "mode": "build",
        "payload": {"title": "Ruling"},
    });
    let built = thread.start(build).await.expect("runs");
    let system = bench.requests()[1].messages[0].joined_text();
    assert!(system.contains("1. Look up rule 17."), "{system}");

    let who = Principal::local();
    let records = Records::new(&*bench.store, &who, Timestamp(0));
    let plans = records.list(RecordKind::Plan, thread.id()).await.expect("reads");
    let made = records.list(RecordKind::Deliverable, thread.id()).await.expect("reads");
    assert_eq!((plans.len(), made.len()), (1, 1));
    assert_eq!(made[0].versions[0].title, "Ruling");
    assert_eq!(records.content(&made[0], None).await.expect("reads").content, "The ruling.");
    let told = answer(&built);
    assert_eq!(told["metadata"]["deliverable"]["id"], json!(made[0].at.id));
    assert_eq!(made[0].versions[0].run.as_ref(), Some(&built.run().run));
}

#[tokio::test]
async fn an_undeclared_mode_and_unknown_types_are_refused_by_name() {
    let tool = "type: tool\ntools: [math/add]\n";
    let of_graph = "type: graph\n";
    let talks = "type: context\nagent_card: {modes: [converse]}\n";
    let agents = [agent("adder", tool), agent("other", of_graph), agent("talker", talks)];
    let bench = Bench::new(agents, []).await;
    let thread = bench.thread("talker", "t");
    let refused = thread.start(json!({"mode": "build"})).await.expect_err("is refused");
    let text = refused.to_string();
    assert!(
        text.contains("agent talker does not support mode build; declared: converse"),
        "{text}"
    );
    let refused = thread.start(json!({"mode": "dance"})).await.expect_err("is refused");
    assert!(refused.to_string().contains("does not support mode dance"), "{refused}");
    assert_eq!(refused.fault().code, "W1030");
    let refused = bench.runtime.thread("agents:other", "t").expect_err("has no runner");
    assert!(refused.to_string().contains("Unknown agent type: graph"), "{refused}");
    let refused = bench.runtime.thread("agents:nobody", "t").expect_err("is unknown");
    assert_eq!(refused.code().0, "W0111");
}

#[tokio::test]
async fn a_tool_agent_calls_the_tool_that_is_named_with_its_arguments() {
    let definition = "type: tool\ntools: [math/add, math/negate]\n";
    let bench = Bench::new([agent("adder", definition)], []).await;
    let input = json!({
        "messages": [bench.user("Add.")],
        "payload": {"tool": "math/add", "arguments": {"a": 2, "b": 40}},
    });
    let ended = bench.thread("adder", "t").start(input).await.expect("runs");
    assert_eq!(answer(&ended)["content"], json!(42));
    assert_eq!(ended.text(), "42");
}

#[tokio::test]
async fn a_tool_agent_lets_the_model_choose_and_fill_in() {
    let definition = "type: tool\ntools: [math/add, math/negate]\n";
    let steps = [Step::text(r#"{"tool": "math/negate"}"#), Step::text(r#"{"n": 7}"#)];
    let bench = Bench::new([agent("adder", definition)], steps).await;
    let ended = bench.thread("adder", "t").say("What is minus seven?").await.expect("runs");
    assert_eq!(answer(&ended)["content"], json!(-7));
}

#[tokio::test]
async fn several_calls_keep_their_order_in_both_modes() {
    for mode in ["sequential", "parallel"] {
        let definition = format!("type: tool\ntools: [math/add, math/negate]\ntool_mode: {mode}\n");
        let bench = Bench::new([agent("adder", &definition)], []).await;
        let input = json!({"payload": {"tools": [
            {"tool": "math/negate", "arguments": {"n": 1}},
            {"tool": "math/add", "arguments": {"a": 1, "b": 1}},
        ]}});
        let ended = bench.thread("adder", "t").start(input).await.expect("runs");
        let expected = json!([
            {"tool": "math/negate", "result": -1},
            {"tool": "math/add", "result": 2},
        ]);
        assert_eq!(answer(&ended)["content"], expected, "{mode}");
    }
}

#[tokio::test]
async fn a_tool_that_a_person_confirms_waits_for_the_decision() {
    let definition = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    let bench = Bench::new([agent("adder", definition)], []).await;
    let thread = bench.thread("adder", "t");
    let input = json!({"payload": {"tool": "math/add", "arguments": {"a": 1, "b": 2}}});
    let waiting = thread.start(input).await.expect("runs");
    let question = &waiting.questions()[0];
    let ended = thread.answer(question.approve()).await.expect("runs");
    assert_eq!(answer(&ended)["content"], json!(3));
}

#[tokio::test]
async fn a_thread_ends_on_the_version_that_it_began_with() {
    let first = "type: context\ncontext: First.\n";
    let second = "type: context\ncontext: Second.\n";
    let steps = [Step::text("a"), Step::text("b"), Step::text("c")];
    let bench = Bench::new([agent("golf", first)], steps).await;
    bench.thread("golf", "old").say("one").await.expect("runs");
    bench.agents.reload(vec![agent("golf", second)].into());
    bench.thread("golf", "old").say("two").await.expect("runs");
    bench.thread("golf", "new").say("three").await.expect("runs");
    let contexts: Vec<_> =
        bench.requests().iter().map(|asked| asked.messages[0].joined_text()).collect();
    assert_eq!(contexts, ["First.", "First.", "Second."]);
    bench.agents.reload(vec![].into());
    let refused = bench.runtime.thread("agents:golf", "another").expect_err("is gone");
    assert_eq!(refused.code().0, "W0111");
}

#[tokio::test]
async fn an_organisation_gets_its_own_agent_and_never_that_of_another() {
    let own = |org: &str, text: &str| {
        let definition = format!("type: context\norganization: {org}\ncontext: {text}\n");
        agent("golf", &definition)
    };
    let steps = [Step::text("a"), Step::text("b"), Step::text("c")];
    let agents = [own("acme", "Of Acme."), own("globex", "Of Globex."), agent("golf", GOLF)];
    let bench = Bench::new(agents, steps).await;
    for (org, expected) in [("acme", "Of Acme."), ("globex", "Of Globex."), ("other", "You are")] {
        let who = Principal::new(OrgId::new(org).expect("an id"), "ada");
        let thread = bench.runtime.thread_for(&who, "agents:golf", "t").expect("is there");
        thread.say("Hello").await.expect("runs");
        let context = bench.requests().last().expect("asked").messages[0].joined_text();
        assert!(context.starts_with(expected), "{org}: {context}");
    }
    // The whole id of a version does not open it to others.
    let acme = Principal::new(OrgId::new("acme").expect("an id"), "ada");
    let row = bench.store.thread(&acme, bench.thread("golf", "t").id()).await.expect("reads");
    let id = row.graph.expect("it ran");
    let globex = Principal::new(OrgId::new("globex").expect("an id"), "bob");
    assert!(bench.runtime.thread_for(&acme, &id, "u").is_ok());
    let refused = bench.runtime.thread_for(&globex, &id, "u").expect_err("is of another");
    assert_eq!(refused.code().0, "W0111");
}

#[tokio::test]
async fn a_sub_agent_is_asked_first_and_its_result_is_in_the_context() {
    let asks = "type: context
requiresSubAgents: true
subAgentSlug: adder
context: You explain sums.
";
    let tool = "type: tool\ntools: [math/add]\n";
    let steps = [Step::text(r#"{"a": 20, "b": 3}"#), Step::text("It is 23.")];
    let bench = Bench::new([agent("explains", asks), agent("adder", tool)], steps).await;
    let input = json!({"messages": [bench.user("What is 20 and 3?")], "mode": "build"});
    let ended = bench.thread("explains", "t").start(input).await.expect("runs");
    assert_eq!(ended.text(), "It is 23.");
    let system = bench.requests()[1].messages[0].joined_text();
    assert!(system.contains("## Result of adder\n23"), "{system}");
    let report = &answer(&ended)["metadata"]["context"];
    let sources: Vec<_> =
        report["parts"].as_array().expect("parts").iter().map(|part| &part["source"]).collect();
    assert_eq!(sources, ["markdown", "sub_agent"]);
}

#[tokio::test]
async fn a_content_of_another_form_goes_back_to_the_model() {
    let definition = "type: context
deliverable: {format: markdown, sections: [Ruling, Reason]}
";
    let steps = [Step::text("No headings."), Step::text("# Ruling\nTwo.\n# Reason\nRule 17.")];
    let bench = Bench::new([agent("golf", definition)], steps).await;
    let input = json!({"messages": [bench.user("Rule.")], "mode": "build"});
    let ended = bench.thread("golf", "t").start(input).await.expect("runs");
    assert_eq!(answer(&ended)["content"], "# Ruling\nTwo.\n# Reason\nRule 17.");
    let again = bench.requests()[1].messages.last().expect("a message").joined_text();
    assert!(again.contains("Ruling"), "{again}");
}

/// A run that waits for a person goes on with the version that asked, whatever is current by then.
#[tokio::test]
async fn an_answer_is_taken_by_the_version_that_asked() {
    let first = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    let second = "type: tool\ntools: [math/negate]\n";
    let bench = Bench::new([agent("sums", first)], []).await;
    let thread = bench.thread("sums", "t");
    let input = json!({"payload": {"tool": "math/add", "arguments": {"a": 1, "b": 2}}});
    let waiting = thread.start(input).await.expect("runs");
    bench.agents.reload(vec![agent("sums", second)].into());
    let ended = bench.thread("sums", "t").answer(waiting.questions()[0].approve()).await;
    assert_eq!(answer(&ended.expect("runs"))["content"], json!(3));
}

/// The answer has the arguments with which a tool was called, and not those that were asked for.
#[tokio::test]
async fn an_answer_has_the_arguments_that_a_person_edited() {
    let definition = "type: tool\ntools: [math/add]\nrequires_confirmation: [math/add]\n";
    let bench = Bench::new([agent("sums", definition)], []).await;
    let thread = bench.thread("sums", "t");
    let input = json!({"payload": {"tool": "math/add", "arguments": {"a": 1, "b": 2}}});
    let waiting = thread.start(input).await.expect("runs");
    let edited = waiting.questions()[0].edit(json!({"a": 40, "b": 2}));
    let ended = thread.answer(edited).await.expect("runs");
    let answer = answer(&ended);
    assert_eq!(answer["content"], json!(42));
    let called = json!([{"tool": "math/add", "arguments": {"a": 40, "b": 2}, "result": 42}]);
    assert_eq!(answer["metadata"]["tools"], called);
}

/// A source that hangs and one that fails cost no more than their deadline, and themselves.
#[tokio::test]
async fn sources_are_fetched_together_and_those_that_fail_are_named() {
    let definition = "type: context
context: The instructions.
sources:
  - {kind: store, namespace: [slow], deadline: 200ms}
  - {kind: markdown}
  - {kind: store, namespace: [broken]}
  - {kind: store, namespace: [notes]}
  - {kind: history}
";
    let bench = Bench::with_items([agent("notes", definition)], [Step::text("Done.")]).await;
    let input = json!({"messages": [bench.user("Sum up.")], "mode": "build"});
    let ended = bench.thread("notes", "t").start(input).await.expect("runs");
    let report = &answer(&ended)["metadata"]["context"];
    let left_out = report["leftOut"].as_array().expect("a list");
    let reasons: Vec<_> =
        left_out.iter().map(|of| of["reason"].as_str().unwrap_or_default()).collect();
    assert_eq!(reasons[0], "it took longer than 200 ms", "{report}");
    assert!(reasons[1].contains("no room"), "{report}");
    assert_eq!(reasons.len(), 2, "{report}");
    let system = bench.requests()[0].messages[0].joined_text();
    assert!(system.starts_with("The instructions."), "{system}");
    assert!(system.contains("A note."), "{system}");
}

/// A definition that breaks leaves the last good one in service, and the others change.
#[tokio::test]
async fn a_definition_that_breaks_stays_as_it_was() {
    let root = tempfile::TempDir::new().expect("a folder");
    let write = |slug: &str, text: &str| {
        let folder = root.path().join(slug);
        std::fs::create_dir_all(&folder).expect("is made");
        std::fs::write(folder.join("agent.yaml"), text).expect("is written");
    };
    write("one", "type: context\ncontext: One.\n");
    write("two", "type: context\ncontext: Two.\n");
    let read = || weftwork_platform::read_definitions(root.path()).expect("reads");
    let bench = Bench::new(read().sound, [Step::text("a"), Step::text("b")]).await;
    write("one", "type: contxt\n");
    write("two", "type: context\ncontext: Two, changed.\n");
    write("three", "type: context\n");
    bench.agents.reload(read());
    bench.thread("one", "a").say("x").await.expect("runs");
    bench.thread("two", "b").say("x").await.expect("runs");
    let contexts: Vec<_> =
        bench.requests().iter().map(|asked| asked.messages[0].joined_text()).collect();
    assert_eq!(contexts, ["One.", "Two, changed."]);
    let slugs: Vec<_> = bench.agents.definitions(&Principal::local());
    let slugs: Vec<_> = slugs.iter().map(|folder| folder.slug.as_str()).collect();
    assert_eq!(slugs, ["one", "three", "two"]);
    std::fs::remove_dir_all(root.path().join("two")).expect("is removed");
    bench.agents.reload(read());
    assert!(bench.runtime.thread("agents:two", "c").is_err());
}

/// The edit of a person during a build is not lost in silence.
#[tokio::test]
async fn a_build_over_the_edit_of_a_person_says_so() {
    let bench = Bench::new([agent("writer", "type: context\n")], [Step::text("First.")]).await;
    let platform =
        weftwork_platform::HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let first = bench
        .ask(
            &platform,
            json!({"agent": "writer", "mode": "build",
        "conversationId": "c", "userMessage": "Write."}),
        )
        .await;
    let id = first.metadata["deliverable"]["id"].clone();
    // The model edits as a person would, while it answers.
    let store = std::sync::Arc::clone(&bench.store);
    let thread = first.metadata["thread"].as_str().expect("an id").to_owned();
    let record = id.as_str().expect("an id").to_owned();
    bench.during_next(move || {
        let store = std::sync::Arc::clone(&store);
        let at = weftwork_platform::records::RecordRef::deliverable(
            &weftwork_types::ThreadId::new(&thread).expect("an id"),
            weftwork_platform::records::RecordId::new(&record).expect("an id"),
        );
        futures_util::FutureExt::now_or_never(async move {
            let who = Principal::local();
            let records = Records::new(&*store, &who, Timestamp(5));
            let form = weftwork_platform::records::Form::of_format(
                weftwork_platform::records::ContentFormat::Markdown,
            );
            let edit = weftwork_platform::records::Edit {
                content: "Mine.".to_owned(),
                ..Default::default()
            };
            records.edit(&at, &edit, &form).await.expect("edits");
        })
        .expect("the store is in memory");
        Step::text("Second.")
    });
    let again = bench
        .ask(
            &platform,
            json!({"agent": "writer", "mode": "build",
        "conversationId": "c", "userMessage": "Again.", "payload": {"deliverableId": id}}),
        )
        .await;
    assert_eq!(again.metadata["deliverable"]["version"], 3, "{again:?}");
    let warnings = again.metadata["warnings"].to_string();
    assert!(warnings.contains("version 2"), "{again:?}");
}

/// The limits of a definition hold for every client.
#[tokio::test]
async fn an_execution_has_the_limits_of_its_definition() {
    let definition = "type: context
execution: {budget: {calls: 1}, retries: 1, timeout: 30s}
deliverable: {format: markdown, sections: [Result]}
";
    let bench = Bench::new([agent("writer", definition)], [Step::text("No heading.")]).await;
    let input = json!({"messages": [bench.user("Write.")], "mode": "build"});
    let ended = bench.thread("writer", "t").start(input).await.expect("runs");
    let error = ended.output().expect_err("the correction is a second call");
    assert!(error.to_string().contains("budget of the agent"), "{error}");
    assert_eq!(bench.requests().len(), 1);
    let who = Principal::local();
    let records = Records::new(&*bench.store, &who, Timestamp(0));
    let made = records.list(RecordKind::Deliverable, &ended.run().thread).await.expect("reads");
    assert!(made.is_empty());
}
