//! Graphs for the channels that the reference graphs do not use.

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;
use weftwork::agents::{Chat, ChatUpdate};
use weftwork::graph::Semantics;
use weftwork::graph::channel::LastValue;
use weftwork::graph::{ChannelDef, DynUpdate, Dynamic};
use weftwork::models::{
    ChatEvent, ChatModel, ChatRequest, ChatStream, FinishReason, ModelCaller, ModelInfo,
};
use weftwork::prelude::*;

/// A model that says a word for each permit.
#[derive(Debug)]
struct Speaker {
    info: ModelInfo,
    words: Arc<Semaphore>,
}

impl ChatModel for Speaker {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _: Arc<ChatRequest>) -> ChatStream {
        let words = Arc::clone(&self.words);
        let said = stream::iter(["one ", "two ", "three ", "four"]).then(move |word| {
            let words = Arc::clone(&words);
            async move {
                words.acquire().await.expect("open").forget();
                Ok(ChatEvent::TextDelta(word.to_owned()))
            }
        });
        let end = ChatEvent::Finish { reason: FinishReason::Stop, provider_call_id: None };
        Box::pin(said.chain(stream::iter([Ok(end)])))
    }
}

#[derive(Debug)]
struct Parts {
    model: Speaker,
    caller: ModelCaller,
}

async fn speak(chat: State<Chat>, parts: Deps<Parts>, ctx: Ctx) -> NodeResult<ChatUpdate> {
    let messages = chat.messages().iter().cloned().collect();
    let request = ChatRequest { messages, ..ChatRequest::default() };
    let answer = parts.caller.call(&parts.model, request, ctx.calls()).await;
    Ok(ChatUpdate::new().messages([answer.map_err(|error| error.fault())?.message]))
}

/// A graph whose model says a word for each permit.
fn talk(words: Arc<Semaphore>) -> CompiledGraph {
    let info =
        ModelInfo { provider: "scripted".to_owned(), model: "speaker".to_owned(), label: None };
    let parts = Parts { model: Speaker { info, words }, caller: ModelCaller::default() };
    let graph = Graph::<Chat>::new("talk").semantics(Semantics::langgraph()).with(parts);
    graph.node("speak", speak).edge(START, "speak").build().expect("sound")
}

fn last(name: &'static str) -> ChannelDef {
    ChannelDef::new(name, LastValue::<Value>::new())
}

/// A graph with two questions at once, and a node that emits values with names.
fn two() -> CompiledGraph {
    async fn left(ctx: Ctx) -> NodeResult<DynUpdate> {
        let answer = ctx.interrupt(json!("left?"))?;
        Ok(DynUpdate::new().write("left", answer))
    }
    async fn right(ctx: Ctx) -> NodeResult<DynUpdate> {
        let answer = ctx.interrupt(json!("right?"))?;
        Ok(DynUpdate::new().write("right", answer))
    }
    async fn both(ctx: Ctx) -> DynUpdate {
        ctx.emit(json!({"name": "progress", "step": 1}));
        ctx.emit(json!("unnamed"));
        DynUpdate::new().write("done", json!(true))
    }
    async fn extra(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("extra", json!("went there"))
    }
    let channels = ["left", "right", "done", "extra", "more"].map(last);
    let graph: Graph<Dynamic> = Graph::dynamic("two", channels.into());
    graph
        .semantics(Semantics::langgraph())
        .node("left", left)
        .node("right", right)
        .node("both", both)
        .node("extra", extra)
        .edge(START, "left")
        .edge(START, "right")
        .join(["left", "right"], "both")
        .build()
        .expect("sound")
}

/// A runtime that hosts them, and `agent` and the reference graphs.
pub(super) async fn runtime() -> (Runtime, Arc<Semaphore>) {
    let words = Arc::new(Semaphore::new(0));
    let builder = crate::reference::builder();
    let builder = builder.graph("talk", talk(Arc::clone(&words))).graph("two", two());
    (builder.open().await.expect("opens"), words)
}
