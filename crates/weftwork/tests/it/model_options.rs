//! Options of model calls, from a program to the provider: what is sent, what is refused by name, and
//! which answers on record are given again.

use crate::bills::model;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::agents::{Evaluator, Model, ModelConfig, Prompt, Section, WithModel};
use weftwork::graph::CompiledGraph;
use weftwork::models::ChatModel;
use weftwork::prelude::*;
use weftwork::store::{MemoryStore, Store};
use weftwork_testkit::{LoopbackServer, Reply};

/// A server of chat completions that answers each request with the number of requests so far.
async fn provider() -> LoopbackServer {
    let answer = |number: usize, _: &_| {
        let chunk = |delta: Value, reason: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
        };
        Reply::pieces(200, &[("content-type", "text/event-stream")])
            .piece(chunk(json!({"content": format!("answer {number}")}), None))
            .piece(chunk(json!({}), Some("stop")))
            .piece("data: [DONE]\n\n")
            .end()
    };
    LoopbackServer::start(answer).await.expect("a server")
}

fn bodies(server: &LoopbackServer) -> Vec<Value> {
    let received = server.received();
    received.iter().map(|one| serde_json::from_slice(&one.body).expect("JSON")).collect()
}

fn sampled(seed: i64) -> ModelConfig {
    ModelConfig {
        top_p: Some(0.9),
        stop: vec!["END".to_owned()],
        seed: Some(seed),
        ..ModelConfig::default()
    }
}

/// The options in a body of chat completions.
fn options(body: &Value) -> [&Value; 3] {
    ["top_p", "stop", "seed"].map(|name| &body[name])
}

/// Options that a call with them cannot be sent with, by protocol of the provider, and the error.
fn refused() -> [(&'static str, ModelConfig, &'static str); 4] {
    let stop = ModelConfig { seed: None, ..sampled(1) };
    let seed = ModelConfig { stop: Vec::new(), ..sampled(1) };
    [
        ("openai_responses", stop, "it has no option `stop`; leave the option out"),
        ("openai_responses", seed, "it has no option `seed`; leave the option out"),
        ("anthropic", sampled(1), "it has no option `seed`; leave the option out"),
        (
            "gemini",
            sampled(1 << 40),
            "`seed` is 1099511627776, expected a number from -2147483648 to 2147483647",
        ),
    ]
}

async fn chat(model: Arc<dyn ChatModel>, config: &ModelConfig) -> App {
    let config = config.clone();
    App::builder()
        .config(Config::in_memory())
        .model(model)
        .agent("chat", move |model| {
            ReactAgent::new("chat", model).model_config(config.clone()).build()
        })
        .open()
        .await
        .expect("opens")
}

#[tokio::test]
async fn options_of_an_agent_reach_the_provider_or_are_refused_by_name() {
    let server = provider().await;
    for config in [ModelConfig::default(), sampled(7)] {
        let app = chat(model(&server, ""), &config).await;
        app.ask("t", "Hi").await.expect("accepted").messages().expect("it completed");
    }
    let bodies = bodies(&server);
    let [plain, body] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!(options(body), [&json!(0.9), &json!(["END"]), &json!(7)]);
    let mut without = body.clone();
    for name in ["top_p", "stop", "seed"] {
        without.as_object_mut().expect("an object").remove(name);
    }
    assert_eq!(&without, plain, "nothing else differs");
    for (protocol, config, expected) in refused() {
        let app = chat(model(&server, &format!("protocol = \"{protocol}\"")), &config).await;
        let fault = app.ask("t", "Hi").await.expect_err("refused").fault();
        assert_eq!(fault.code, "W0310", "{protocol}: {}", fault.message);
        assert!(fault.message.contains(expected), "{protocol}: {}", fault.message);
    }
    assert_eq!(server.received().len(), 2, "refused before the call");
}

#[tokio::test]
async fn options_of_an_evaluator_reach_the_provider_or_are_refused_by_name() {
    let server = provider().await;
    let task = Section::new("task", "Task", "Answer.");
    let prompt = Prompt::<()>::builder("tests", "answer", "Answer").section(task).build();
    let prompt = prompt.expect("a sound prompt");
    let evaluate = async |settings: &str, config: ModelConfig| {
        let evaluator = Evaluator::builder(model(&server, settings)).model_config(config);
        evaluator.open().await.expect("opens").evaluate(&prompt, ()).await
    };
    let evaluated = evaluate("", sampled(7)).await.expect("evaluates");
    assert_eq!(evaluated.done().expect("no question").text, "answer 0");
    assert_eq!(options(&bodies(&server)[0]), [&json!(0.9), &json!(["END"]), &json!(7)]);
    for (protocol, config, expected) in refused() {
        let settings = format!("protocol = \"{protocol}\"");
        let error = evaluate(&settings, config).await.expect_err("refused");
        assert_eq!(error.code(), "W0310", "{protocol}: {error}");
        assert!(error.to_string().contains(expected), "{protocol}: {error}");
    }
    assert_eq!(server.received().len(), 1, "refused before the call");
}

#[derive(State)]
struct Note {
    #[channel(default)]
    text: String,
}

/// A graph whose only node asks the model, and then a person.
fn noting(model: Arc<dyn ChatModel>, seed: i64) -> CompiledGraph {
    let write = move |model: Model, ctx: Ctx| async move {
        let said = model.config(sampled(seed)).ask("Write.").await?.joined_text();
        let more: String = ctx.ask_as("And?")?;
        NodeResult::Ok(NoteUpdate::new().text(format!("{said}, {more}")))
    };
    let graph = Graph::<Note>::new("note").model(model).node("write", write);
    graph.edge(START, "write").build().expect("sound")
}

#[tokio::test]
async fn an_answer_on_record_is_for_the_same_options_only() {
    let server = provider().await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let opened = async |seed: i64| {
        let graph = noting(model(&server, ""), seed);
        let runtime = Runtime::builder(Arc::clone(&store)).graph("test:note", graph);
        runtime.open().await.expect("opens")
    };
    for (thread, seed, expected, requests) in
        [("t1", 1, "answer 0, yes", 1), ("t2", 2, "answer 2, yes", 3)]
    {
        let runtime = opened(1).await;
        let first = runtime.thread("note", thread).expect("an id");
        let asked = first.start(json!({})).await.expect("runs");
        let question = asked.questions()[0].clone();
        drop(runtime);
        // Another process, whose node has these options.
        let runtime = opened(seed).await;
        let again = runtime.thread("note", thread).expect("an id");
        let ended = again.answer(question.answer("yes")).await.expect("runs");
        assert_eq!(ended.output().expect("completes")["text"], expected);
        assert_eq!(server.received().len(), requests, "{thread}");
    }
    let seeds: Vec<Value> = bodies(&server).iter().map(|body| body["seed"].clone()).collect();
    assert_eq!(seeds, [json!(1), json!(1), json!(2)]);
}
