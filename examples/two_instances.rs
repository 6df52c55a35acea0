//! Two instances of agents that send each other activities:
//! `cargo run --example two_instances [scripted | local]`.
//!
//! The letters are given by default; with `local`, the embedded model writes them.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{Activity, ActivityPayload, AgentRuntime, Hosting, InstanceOptions};
use weftwork::agents::{InstanceStatus, QueuedActivities};
use weftwork::models::{ChatModel, ChatRequest};
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};
use weftwork::types::InstanceId;

/// A letter of the correspondence.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Letter {
    from: InstanceId,
    text: String,
    /// Letters that are left to be sent.
    left: u32,
}

#[derive(Debug, State)]
struct Correspondence {
    #[channel(append)]
    letters: List<String>,
}

/// Reads a letter, answers it with the model, and sends the answer back.
async fn answer(
    letter: ActivityPayload<Letter>,
    hosting: Hosting,
    ctx: Ctx,
) -> NodeResult<CorrespondenceUpdate> {
    let Letter { from, text, left } = letter.0;
    let id = ctx.message_id();
    let question = text.clone();
    let answer = hosting
        .run(async move |services| {
            let model = services.models().get("writer").ok_or("no model `writer`");
            let model = model.map_err(std::io::Error::other)?;
            let messages = vec![Message::text(id, Role::User, question)];
            let request = ChatRequest { messages, ..ChatRequest::default() };
            NodeResult::Ok(
                services.call_model(model.as_ref(), request).await?.message.joined_text(),
            )
        })
        .await?;
    if left > 0 {
        let reply = Letter { from: hosting.instance().clone(), text: answer, left: left - 1 };
        // The key of the activity follows from the task: a crash does not send it twice.
        hosting.send(&from, Activity::new(json!(reply))).await?;
    }
    Ok(CorrespondenceUpdate::new().letters([text]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::<Correspondence>::new("correspondent")
        .node("answer", answer)
        .edge(START, "answer")
        .build()?;
    let texts = ["How are you?", "Well, and you?", "Well, too.", "Goodbye."];
    let model: Arc<dyn ChatModel> = match std::env::args().nth(1).as_deref() {
        None | Some("scripted") => Arc::new(ScriptedModel::from_steps(texts.map(Step::text))),
        Some(id) => Config::from_env()?.open_model(id)?,
    };
    let is_given = model.info().provider == "scripted";
    let agents =
        AgentRuntime::over(Runtime::in_memory().open().await?).model("writer", model).build()?;

    let ada = InstanceId::new("ada")?;
    let bob = InstanceId::new("bob")?;
    for id in [&ada, &bob] {
        let options = InstanceOptions::new().id(id.clone());
        agents.create_graph_agent(&graph, json!({}), options).await?;
    }
    let first = Letter { from: bob.clone(), text: "Good morning.".to_owned(), left: 3 };
    agents.send(&ada, Activity::new(json!(first))).await?;

    // Each has two letters of four.
    for id in [&ada, &bob] {
        while agents.info(id).await?.statistics.succeeded < 2 {
            assert_eq!(agents.info(id).await?.statistics.failed, 0);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(agents.info(id).await?.status, InstanceStatus::Idle);
        println!("{id}: {}", agents.get_state(id).await?["letters"]);
    }
    let letters = agents.get_state(&bob).await?["letters"].take();
    assert_eq!(letters.as_array().map(Vec::len), Some(2));
    assert!(!is_given || letters == json!(["How are you?", "Well, too."]), "{letters}");
    for id in [&ada, &bob] {
        agents.terminate(id, Duration::from_secs(1), QueuedActivities::Keep).await?;
    }
    Ok(())
}
