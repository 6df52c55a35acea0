//! A writer and a critic: the draft is revised until it is accepted, at most three times:
//! `cargo run --example loop_with_condition TOPIC`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    accepted: bool,
    reason: String,
}

#[derive(State)]
struct Draft {
    #[channel(default)]
    topic: String,
    #[channel(default)]
    text: String,
    #[channel(reduce = |sum, one| sum + one)]
    rounds: u32,
    verdict: Verdict,
    #[channel(append)]
    log: List<String>,
}

#[derive(Routes)]
enum AfterJudge {
    Write,
    End,
}

struct Models {
    writer: Arc<ScriptedModel>,
    critic: Arc<ScriptedModel>,
}

async fn write(draft: State<Draft>, models: Deps<Models>, ctx: Ctx) -> NodeResult<DraftUpdate> {
    let mut prompt = format!("Write a sentence about {}.", draft.topic());
    if let Some(verdict) = draft.verdict() {
        prompt += &format!(" The last one was `{}`; {}.", draft.text(), verdict.reason);
    }
    let text = Model::new(models.writer.clone(), &ctx).ask(prompt).await?.joined_text();
    Ok(DraftUpdate::new().rounds(1).log([format!("draft: {text}")]).text(text))
}

async fn judge(draft: State<Draft>, models: Deps<Models>, ctx: Ctx) -> NodeResult<DraftUpdate> {
    let question = format!("Is this good? {}", draft.text());
    let verdict: Verdict = Model::new(models.critic.clone(), &ctx).ask_as(question).await?;
    let log = [format!("verdict: {}", verdict.reason)];
    Ok(DraftUpdate::new().verdict(verdict).log(log))
}

fn after_judge(draft: State<Draft>) -> AfterJudge {
    let accepted = draft.verdict().is_some_and(|verdict| verdict.accepted);
    if accepted || *draft.rounds() == 3 { AfterJudge::End } else { AfterJudge::Write }
}

fn build_loop() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let drafts = ["Rust is fast.", "Rust is fast and safe.", "Rust is fast, safe and small."];
    let verdicts = [
        r#"{"accepted": false, "reason": "say that it is safe"}"#,
        r#"{"accepted": false, "reason": "say that it is small"}"#,
        r#"{"accepted": true, "reason": "good"}"#,
    ];
    let model = |texts: [&str; 3]| Arc::new(ScriptedModel::from_steps(texts.map(Step::text)));
    let graph = Graph::<Draft>::new("loop")
        .with(Models { writer: model(drafts), critic: model(verdicts) })
        .node("write", write)
        .node("judge", judge)
        .edge(START, "write")
        .edge("write", "judge")
        .route("judge", after_judge);
    Ok(graph.build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let topic = std::env::args().nth(1).ok_or("usage: TOPIC")?;
    let ended = build_loop()?.invoke(DraftUpdate::new().topic(topic)).await?;
    let draft = ended.state::<Draft>()?;
    for line in draft.log() {
        println!("{line}");
    }
    println!("{} rounds: {}", draft.rounds(), draft.text());
    Ok(())
}
