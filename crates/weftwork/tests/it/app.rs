//! Tests of apps: asking, answering, resuming, watching.

use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork::Error;
use weftwork::config::{Flags, StorePlace, Surroundings};
use weftwork::graph::channel::Append;
use weftwork::graph::{ChannelDef, DynUpdate, Dynamic};
use weftwork::models::{ChatModel, ModelChoice, ModelProvider};
use weftwork::prelude::*;
use weftwork::runtime::Output;
use weftwork::store::{MemoryStore, Store, StoreError};
use weftwork::testing::ScriptedModel;
use weftwork::testing::{ScriptedProvider, Step};
use weftwork::types::event::{AiEvent, StreamPosition};
use weftwork::types::interrupt::Ask;
use weftwork::types::port::{Dependencies, Limits};
use weftwork::types::run::{RunInput, RunOutcome, RunRef};
use weftwork::types::{OrgId, Principal, RunId, ThreadId};

/// Sends a letter.
#[tool(
    effect = external_side_effect,
    on_unknown = idempotent,
    example(request = "Send a letter to Ada.", args = {"name": "Ada"}),
)]
fn send_letter(name: String) -> String {
    format!("sent to {name}")
}

async fn post(store: Arc<dyn Store>) -> App {
    App::builder()
        .config(Config::in_memory())
        .model("scripted")
        .store(store)
        .agent("post", |model| {
            ReactAgent::new("post", model)
                .tools(ToolBox::new().with(send_letter))
                .policy(Policy::new().ask_human("send_letter", "it costs a stamp")?)
                .build()
        })
        .open()
        .await
        .expect("opens")
}

#[tokio::test]
async fn an_app_chooses_no_model_by_itself() {
    let builder = || App::builder().config(Config::in_memory());
    let error = builder().open().await.expect_err("no model");
    assert!(matches!(error, Error::NoModel), "{error}");
    assert_eq!(error.fault().code, "W0719");
    let app = builder().default_model("scripted").open().await.expect("asked for");
    assert_eq!(app.model().provider, "scripted");
}

#[tokio::test]
async fn a_model_of_the_program_is_the_model_of_the_app() {
    let echo =
        || ScriptedModel::from_fn(|request| Step::text(format!("{}?", request.last_user_text())));
    let shared: Arc<dyn ChatModel> = Arc::new(echo());
    for choice in [ModelChoice::from(echo()), shared.into(), Arc::new(echo()).into()] {
        let app = App::builder().config(Config::in_memory()).model(choice);
        let app = app.agent("chat", |model| ReactAgent::new("chat", model).build());
        let app = app.open().await.expect("opens");
        let ended = app.ask("t", "Ready").await.expect("accepted");
        assert_eq!(ended.text(), "Ready?");
        let thread = ThreadId::new("t").expect("an id");
        let runs = app.store().runs(app.principal(), &thread).await.expect("runs");
        assert_eq!(runs[0].new.options.model, Some(app.model().id()));
        // The model of single runs takes its place.
        let other = app.with_model("scripted").expect("opens");
        let ended = other.ask("t", "Ready").await.expect("accepted");
        assert!(ended.text().contains("[scripted model]"), "{ended}");
    }
}

#[tokio::test]
async fn a_message_that_is_said_again_under_a_key_starts_one_run() {
    let model = Arc::new(ScriptedModel::from_steps([Step::text("Yes."), Step::text("No.")]));
    let app = App::builder().config(Config::in_memory()).model(Arc::clone(&model));
    let app = app.agent("chat", |model| ReactAgent::new("chat", model).build());
    let app = app.open().await.expect("opens");
    let say = |text: &str| {
        let thread = app.thread_of("chat", "t").expect("a thread");
        thread.say(text).idempotency_key("message-1").into_future()
    };
    let first = say("Ready?").await.expect("accepted");
    let again = say("Ready?").await.expect("the same request");
    assert_eq!((again.run(), again.text()), (first.run(), "Yes.".to_owned()));
    assert_eq!(model.calls(), 1);
    let other = say("Sure?").await.expect_err("another request with the key");
    assert_eq!(other.code().0, "W0205", "{other}");
}

struct Region(String);

/// Tells the region.
#[tool(example(request = "Which region?", args = {}))]
fn tell_region(region: Deps<Region>) -> String {
    region.0.0.clone()
}

#[tokio::test]
async fn values_of_each_run_are_made_for_its_principal() {
    let app = App::builder().config(Config::in_memory()).model("scripted");
    let app = app
        .agent("chat", |model| {
            let tools = ToolBox::new().with(tell_region).provide_run_scoped::<Region>();
            ReactAgent::new("chat", model).tools(tools).build()
        })
        .dependencies(|who, run| {
            let refused = run.options.tags.iter().any(|tag| tag == "refused");
            if refused {
                return Err("no region".into());
            }
            Ok(Dependencies::new().with(Region(format!("region of {}", who.org))))
        });
    let app = app.open().await.expect("opens");
    for org in ["acme", "other"] {
        let principal = Principal::new(OrgId::new(org).expect("an id"), "ada");
        let app = app.on_behalf_of(principal);
        let ended = app.ask("t", "Which region?").await.expect("accepted");
        let messages = ended.messages().expect("it completed");
        let told = messages.tool_result("tell_region").expect("a result");
        assert_eq!(told.value, json!(format!("region of {org}")));
        // With a model of its own, a run has the values too.
        let other = app.with_model("scripted").expect("opens");
        let ended = other.ask("u", "Which region?").await.expect("accepted");
        assert!(ended.messages().expect("it completed").tool_result("tell_region").is_some());
        let thread = app.thread_of("chat", "v").expect("a thread");
        let ended = thread.say("Which region?").tags(["refused"]).await.expect("accepted");
        let RunOutcome::Failed { fault } = ended.outcome() else { panic!("no values: {ended}") };
        assert!(fault.message.contains("no region"), "{}", fault.message);
    }
    let error = app.thread_of("chart", "t").expect_err("there is no such agent");
    assert!(error.to_string().contains("chat"), "{error}");
}

#[tokio::test]
async fn instances_of_an_app_have_the_services_of_its_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules.toml");
    let text = "version = 1\n[[rules]]\ntool = \"tell_region\"\ndecision = \"deny\"\nreason = \"secret\"\n";
    std::fs::write(&rules, text).expect("written");
    let surroundings = Surroundings { variable: &|_| None, folder: folder.path() };
    let flags = Flags {
        policy: Some(rules.display().to_string()),
        store: Some("memory".to_owned()),
        ..Flags::default()
    };
    let config = Config::load(&surroundings, &flags).expect("a configuration");
    let policy = config.rules.as_ref().expect("rules").policy();
    let app = App::builder().config(config).model("scripted");
    let app = app
        .agent("chat", move |model| {
            let tools = ToolBox::new().with(tell_region).provide(Region("north".to_owned()));
            ReactAgent::new("chat", model).tools(tools).policy(policy.clone()).build()
        })
        .services(|services| {
            let tools = ToolBox::new().with(tell_region).provide(Region("north".to_owned()));
            services.model("second", ScriptedModel::rules()).tools(tools)
        });
    let app = app.open().await.expect("opens");
    let instances = app.instances();
    assert_eq!(instances.models().names().collect::<Vec<_>>(), ["default", "second"]);
    let providers: Vec<_> = instances.providers().providers().map(|one| one.name()).collect();
    assert!(providers.contains(&"openai") && providers.contains(&"scripted"), "{providers:?}");
    assert_eq!(instances.policies().rules.len(), 1);
    assert_eq!(instances.tools().specs().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_over_a_file_continues_what_another_one_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("runs.db");
    let open = async |waits: bool| {
        let mut config = Config::in_memory();
        config.store.value = StorePlace::Sqlite(file.clone());
        let app = App::builder().config(config).model("scripted");
        let app = app.agent("slow", move |_| {
            let node = move |_: Ctx| async move {
                if waits {
                    std::future::pending::<()>().await;
                }
                DynUpdate::new().write("log", json!(["done"]))
            };
            let channels = vec![ChannelDef::new("log", Append::<String>::new())];
            let graph = Graph::<Dynamic>::dynamic("slow", channels).node("a", node);
            graph.edge(START, "a").build()
        });
        app.open().await.expect("opens")
    };
    let first = open(true).await;
    let thread = first.thread_of("slow", "t").expect("a thread");
    let begun = thread.start(json!({})).begin().await.expect("accepted").into_handle();
    // The run is given up for other processes to continue.
    first.shutdown(Duration::ZERO).await.expect("shut down");
    let second = open(false).await;
    let thread = second.thread("t").await.expect("a thread");
    let ended = thread.wait_through(&begun.run).await.expect("it ends");
    assert_eq!(ended.output().expect("it completed")["log"], json!(["done"]));
}

#[tokio::test]
async fn a_question_is_answered_by_another_app_over_the_same_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let asked = post(Arc::clone(&store)).await;
    let ended = asked.ask("t", "Send a letter to Ada").await.expect("accepted");
    assert_eq!(ended.outcome().status(), RunStatus::Interrupted);
    let [question] = ended.questions() else { panic!("a question: {ended}") };
    let Ask::Approval(request) = &question.ask else { panic!("an approval: {:?}", question.ask) };
    assert_eq!((request.tool.as_str(), &request.args), ("send_letter", &json!({"name": "Ada"})));
    let text = "approve the call of `send_letter` with {\"name\":\"Ada\"}? it costs a stamp";
    assert_eq!(ended.to_string(), text);
    assert_eq!(ended.messages().expect_err("it did not complete").code().0, "W0135");
    drop(asked);

    let other = post(Arc::clone(&store)).await;
    let ended = other.answer("t", question.approve()).await.expect("accepted");
    assert_eq!(ended.outcome().status(), RunStatus::Completed);
    assert_eq!(ended.to_string(), "[scripted model] Send letter: sent to Ada.");
    let messages = ended.messages().expect("it completed");
    let sent = messages.tool_result("send_letter").expect("a result");
    assert_eq!(sent.value, json!("sent to Ada"));
    let nothing = other.approve("t").await.expect_err("nothing waits");
    assert_eq!(nothing.fault().code, "W0138", "{nothing}");

    let thread = ThreadId::new("t").expect("an id");
    let error = other.resume(&thread).await.expect_err("nothing is open");
    assert_eq!(error.fault().code, "W0707");
    let runs = store.runs(other.principal(), &thread).await.expect("runs");
    let model = ScriptedProvider.name();
    assert!(runs.iter().all(|run| run.new.options.model.as_deref() == Some(model)));
}

#[tokio::test]
async fn a_node_made_due_by_an_update_is_resumed() {
    let a = async |_: Ctx| DynUpdate::new().write("log", json!(["a"]));
    let b = async |_: Ctx| DynUpdate::new().write("log", json!(["b"]));
    let app = App::builder().config(Config::in_memory()).model("scripted");
    let app = app.agent("two", move |_| {
        let channels = vec![ChannelDef::new("log", Append::<String>::new())];
        let graph = Graph::<Dynamic>::dynamic("two", channels).node("a", a);
        graph.node("b", b).edge(START, "a").edge("a", "b")
    });
    let app = app.open().await.expect("opens");
    let thread = ThreadId::new("t").expect("an id");
    let run = async |input: RunInput| {
        let thread = app.thread_of("two", &thread).expect("a thread");
        thread.start(input).await.expect("accepted")
    };
    run(RunInput::Start { input: json!({}) }).await;
    let nothing = app.resume(&thread).await.expect_err("nothing is due");
    assert_eq!(nothing.fault().code, "W0707");
    let writes = json!({"log": ["changed"]});
    run(RunInput::Update { writes: writes.clone(), as_node: Some("b".to_owned()) }).await;
    assert!(app.resume(&thread).await.is_err(), "nothing follows `b`");
    run(RunInput::Update { writes, as_node: Some("a".to_owned()) }).await;
    let ended = app.resume(&thread).await.expect("`b` is due").await;
    assert_eq!(
        ended.output().expect("it ends")["log"],
        json!(["a", "b", "changed", "changed", "b"])
    );
}

#[tokio::test]
async fn a_run_is_followed_from_any_position_by_any_app_over_the_same_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let here = post(Arc::clone(&store)).await;
    let asked = here.ask("t", "Send a letter to Ada").await.expect("accepted");
    let followed = async |app: &App, after: StreamPosition| -> Vec<Output> {
        let thread = app.thread("t").await.expect("a thread");
        let run = thread.follow_run(asked.run()).await.expect("a run");
        run.after(after).try_collect().await.expect("reads")
    };
    let told = followed(&here, StreamPosition::default()).await;
    assert!(told.len() > 2, "{told:?}");

    let other = post(Arc::clone(&store)).await;
    for place in 1..told.len() {
        let rest = followed(&other, told[place - 1].position.clone()).await;
        assert_eq!(rest, told[place..], "after {place}");
    }
    let none = RunRef { run: RunId::new("none").expect("an id"), ..asked.run().clone() };
    let thread = other.thread("t").await.expect("a thread");
    let error = thread.follow_run(&none).await.expect_err("there is no such run");
    assert_eq!(error.fault().code, "W0201");
    // A position of another run is refused.
    let again = other.ask("t", "Hello").await.expect("accepted");
    let foreign = told[0].position.clone();
    let run = thread.follow_run(again.run()).await.expect("a run").after(foreign);
    let refused = run.try_collect::<Vec<_>>().await.expect_err("a position of another run");
    assert_eq!(refused.fault().code, "W0201");
}

#[tokio::test]
async fn errors_name_the_model_agent_or_id_that_is_not_known() {
    let open = |model: &str| App::builder().config(Config::in_memory()).model(model).open();
    let codes = [("nope:x", "W0301"), ("openai:gpt-4o-mini", "W0302"), ("scripted:x", "W0301")];
    for (model, code) in codes {
        assert_eq!(open(model).await.expect_err(model).fault().code, code, "{model}");
    }
    let app = post(Arc::new(MemoryStore::new())).await;
    let error = app.agent("posst").expect_err("unknown");
    assert_eq!(error.fault().code, "W0704");
    let message = "unknown agent `posst`; did you mean `post`? (known agents: post)";
    assert_eq!(error.to_string(), message);
    assert_eq!(app.ask("a\nb", "x").await.expect_err("no id").fault().code, "W0706");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_have_a_principal_a_model_and_a_budget_of_their_own() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let app = post(Arc::clone(&store)).await;
    let other = Principal { org: OrgId::new("other").expect("valid id"), ..Principal::local() };
    let limits = Limits { model_calls: Some(1), ..Limits::default() };
    let limited = app.on_behalf_of(other.clone()).with_budget(limits);
    let reply = limited.ask("t", "Hello").await.expect("one call is allowed");
    assert_eq!(reply.outcome().status(), RunStatus::Completed);
    let row = store.run(&other, reply.run()).await.expect("it belongs to the other organisation");
    assert_eq!(row.new.options.budget, Some(limits));
    let id = ThreadId::new("t").expect("valid id");
    let missing = store.thread(app.principal(), &id).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");

    let none = limited.with_budget(Limits { model_calls: Some(0), ..Limits::default() });
    let refused = none.ask("u", "Hello").await.expect_err("no call is allowed");
    assert_eq!(refused.fault().code, "W0601");

    let silent = app.with_model("nowhere:model").expect_err("there is no such provider");
    assert!(matches!(silent, Error::Model(_)), "{silent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_run_calls_its_own_model_in_every_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let cassette = folder.path().join("answers.jsonl");
    let record = App::builder().config(Config::in_memory()).model("scripted").record(&cassette);
    let record = record.agent("chat", |model| ReactAgent::new("chat", model).build());
    let record = record.open().await.expect("opens");
    let recorded = record.ask("t", "Hello").await.expect("runs");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let app = || async {
        let app =
            App::builder().config(Config::in_memory()).model("scripted").store(Arc::clone(&store));
        app.agent("chat", |model| ReactAgent::new("chat", model).build()).open().await
    };
    let first = app().await.expect("opens");
    let own = first.with_model(format!("replay:{}", cassette.display())).expect("opens");
    assert_eq!(own.model().provider, "replay");
    let reply = own.ask("t", "Hello").await.expect("runs");
    assert_eq!(reply.text(), recorded.text());
    let used = async |app: &App, ended: &EndedRun| -> Vec<String> {
        let thread = app.thread("t").await.expect("a thread");
        let run = thread.follow_run(ended.run()).await;
        let output = run.expect("a run").map(|next| next.expect("reads"));
        let providers = output.filter_map(async |next| match &next.event()?.event {
            AiEvent::UsageReport { fact, .. } => Some(fact.provider.clone()),
            _ => None,
        });
        providers.collect().await
    };
    assert_eq!(used(&record, &recorded).await, ["scripted"]);
    assert_eq!(used(&own, &reply).await, ["replay"]);
    let left = first.shutdown(Duration::from_secs(1)).await.expect("ends");
    assert!(left.is_empty());
}
