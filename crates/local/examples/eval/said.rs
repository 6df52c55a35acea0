//! Values that nobody said.

use crate::talk::{Made, Talk};
use serde::Deserialize;
use serde_json::{Value, json};
use std::error::Error;
use weftwork_local::chat::LocalModel;
use weftwork_types::tool::ToolSpec;

/// Counts values that stand in calls and not in the person's words.
#[derive(Debug, Default)]
pub(crate) struct Invented {
    values: usize,
    found: Vec<Value>,
}

impl Invented {
    /// Looks at each argument that all examples of the tool take from their requests.
    pub(crate) fn check(&mut self, tools: &[ToolSpec], made: &Made, words: &str) {
        let Some(tool) = tools.iter().find(|tool| tool.wire_name() == made.name) else { return };
        let args: Value = serde_json::from_str(&made.args).unwrap_or_default();
        for (name, value) in args.as_object().into_iter().flatten() {
            if copied(tool, name).is_some() {
                self.values += 1;
                if !is_said(value, words) {
                    self.add(made, words, name);
                }
            }
        }
    }

    fn add(&mut self, made: &Made, words: &str, name: &str) {
        self.found
            .push(json!({"request": words, "argument": name, "call": [made.name, made.args]}));
    }

    pub(crate) fn report(&self) -> Value {
        json!({
            "summary": format!("{} invented of {}", self.found.len(), self.values),
            "found": self.found,
        })
    }
}

/// The value of an argument in the tool's first example, when all examples take it from their
/// requests.
fn copied(tool: &ToolSpec, name: &str) -> Option<Value> {
    let mut values = tool.examples.iter().filter_map(|e| Some((&e.request, e.args.get(name)?)));
    let all = values.clone().all(|(request, value)| is_said(value, request));
    values.next().filter(|_| all).map(|(_, value)| value.clone())
}

/// Returns `true` if a text contains a value: a string anywhere, a number as a word of its own.
fn is_said(value: &Value, words: &str) -> bool {
    match value {
        Value::String(text) => words.to_lowercase().contains(&text.to_lowercase()),
        Value::Number(number) => words
            .split(|c: char| c.is_whitespace() || "*+=€$/".contains(c))
            .map(|word| word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-'))
            .any(|word| word.replace(',', "").parse::<f64>().ok() == number.as_f64()),
        _ => false,
    }
}

#[derive(Debug, Deserialize)]
struct Case {
    request: String,
    tool: String,
    missing: Vec<String>,
}

/// Counts of the outcomes of requests with arguments left out.
#[derive(Debug, Default)]
struct Score {
    requests: usize,
    asked: usize,
    said: usize,
    completed: usize,
    otherwise: Vec<Value>,
}

/// Requests with arguments left out: those that were written down, and each tool's own example
/// without each of its values.
pub(crate) async fn left_out(
    model: &LocalModel,
    invented: &mut Invented,
) -> Result<Value, Box<dyn Error>> {
    let mut report = serde_json::Map::new();
    let desk = crate::tools("left_out")?;
    let others = crate::tools("tool_calls")?;
    for (name, tools) in [("tuned", &desk), ("apart", &desk)] {
        let cases = crate::lines(&format!("left_out/{name}.jsonl"))?;
        let cases = cases.iter().map(Case::deserialize).collect::<Result<Vec<_>, _>>()?;
        report.insert(name.to_owned(), run(model, tools, &cases, invented).await?);
    }
    for (name, tools) in [("examples_of_the_demo", &desk), ("examples", &others)] {
        let cases = examples(tools);
        report.insert(name.to_owned(), run(model, tools, &cases, invented).await?);
    }
    Ok(Value::Object(report))
}

fn examples(tools: &[ToolSpec]) -> Vec<Case> {
    let mut cases = Vec::new();
    for tool in tools {
        let required = tool.parameters["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            let Some(value) = copied(tool, name) else { continue };
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let request = tool.examples[0].request.replacen(&value, "", 1);
            cases.push(Case { request, tool: tool.wire_name(), missing: vec![name.to_owned()] });
        }
    }
    cases
}

async fn run(
    model: &LocalModel,
    tools: &[ToolSpec],
    cases: &[Case],
    invented: &mut Invented,
) -> Result<Value, Box<dyn Error>> {
    let mut score = Score::default();
    for case in cases {
        score.requests += 1;
        let mut words = case.request.clone();
        let mut talk = Talk::new(model, tools, &case.request)?;
        let mut made = talk.turn().await?;
        look(case, &made, &words, tools, invented);
        let asks = |made: &Made, name: &String| {
            made.name == "ask_human" && made.args.contains(&name.replace('_', " "))
        };
        if case.missing.iter().any(|name| asks(&made, name)) {
            score.asked += 1;
            for name in &case.missing {
                if !asks(&made, name) {
                    continue;
                }
                let answer = answer(tools, case, name);
                words = format!("{words} {answer}");
                talk.result(&made, json!(answer))?;
                made = talk.turn().await?;
                invented.check(tools, &made, &words);
            }
            if made.name == case.tool {
                score.completed += 1;
            } else {
                score.otherwise.push(json!({
                    "request": words, "call": [made.name, made.args], "text": made.text,
                }));
            }
        } else if case.missing.iter().any(|name| made.text.contains(&name.replace('_', " "))) {
            score.said += 1;
        } else {
            score.otherwise.push(json!({
                "request": case.request, "call": [made.name, made.args], "text": made.text,
            }));
        }
    }
    Ok(json!({
        "requests": score.requests,
        "asked": score.asked,
        "called_after_the_answer": score.completed,
        "said_what_is_missing": score.said,
        "otherwise": score.otherwise,
    }))
}

/// A call of the tool that has the argument at all has made it up.
fn look(case: &Case, made: &Made, words: &str, tools: &[ToolSpec], invented: &mut Invented) {
    let args: Value = serde_json::from_str(&made.args).unwrap_or_default();
    let filled = case.missing.iter().filter(|name| args.get(name).is_some());
    for name in filled.filter(|_| made.name == case.tool) {
        invented.values += 1;
        invented.add(made, words, name);
    }
    if made.name != case.tool {
        invented.check(tools, made, words);
    }
}

fn answer(tools: &[ToolSpec], case: &Case, name: &str) -> String {
    let tool = tools.iter().find(|tool| tool.wire_name() == case.tool);
    let value = tool.and_then(|tool| copied(tool, name)).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
