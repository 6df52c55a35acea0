//! Splits a document, summarises its sections side by side, and writes the result:
//! `cargo run --example document_pipeline FILE SUMMARY`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde::{Deserialize, Serialize};
use weftwork::graph::Retry;
use weftwork::models::ChatRequest;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};

fn first_sentence(request: &ChatRequest) -> Step {
    let text = request.last_user_text();
    Step::text(format!("{}.", text.split('.').next().unwrap_or_default().trim()))
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Section {
    title: String,
    text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Summary {
    title: String,
    summary: String,
}

#[derive(State)]
struct Document {
    #[channel(default)]
    source: String,
    #[channel(default)]
    target: String,
    #[channel(append)]
    sections: List<Section>,
    #[channel(append)]
    summaries: List<Summary>,
    #[channel(default)]
    report: String,
}

async fn split(document: State<Document>) -> NodeResult<DocumentUpdate> {
    let text = std::fs::read_to_string(document.source())?;
    let sections = text.split("# ").skip(1).map(|part| {
        let (title, text) = part.split_once('\n').unwrap_or((part, ""));
        Section { title: title.to_owned(), text: text.trim().to_owned() }
    });
    Ok(DocumentUpdate::new().sections(sections))
}

fn each_section(document: State<Document>) -> Vec<Next> {
    let sections = document.sections().iter();
    sections.map(|section| SendTo::to("summarise", section.clone()).into()).collect()
}

async fn summarise(section: Arg<Section>, model: Model) -> NodeResult<DocumentUpdate> {
    let prompt = Message::system("Summarise the section in one sentence.");
    let answer = model.ask([prompt, Message::user(&section.text)]).await?;
    let summary = Summary { title: section.title.clone(), summary: answer.joined_text() };
    Ok(DocumentUpdate::new().summaries([summary]))
}

async fn join(document: State<Document>) -> DocumentUpdate {
    let summaries = document.summaries().iter();
    let lines = summaries.map(|Summary { title, summary }| format!("{title}: {summary}\n"));
    DocumentUpdate::new().report(lines.collect())
}

async fn write(document: State<Document>) -> NodeResult<()> {
    Ok(std::fs::write(document.target(), document.report())?)
}

fn build_pipeline() -> Result<CompiledGraph, Box<dyn std::error::Error>> {
    let graph = Graph::<Document>::new("pipeline")
        .model(ScriptedModel::from_fn(first_sentence))
        .node("split", split)
        .node("summarise", summarise)
        .retry("summarise", Retry::new(3))
        .node("join", join)
        .node("write", write)
        .edge(START, "split")
        .route_to("split", ["summarise"], each_section)
        .edge("summarise", "join")
        .edge("join", "write");
    Ok(graph.build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, target] = &args[..] else { return Err("usage: FILE SUMMARY".into()) };
    let input = DocumentUpdate::new().source(source.clone()).target(target.clone());
    let document = build_pipeline()?.invoke(input).await?.state::<Document>()?;
    println!("{} sections", document.sections().len());
    print!("{}", document.report());
    Ok(())
}
