//! Measures the embedded model on small sets of requests.
//!
//! `cargo run --release -p weftwork-local --example eval` prints one JSON object: calls and the
//! answers after their results, what happens when an argument is left out, requests for several
//! calls, and requests that no tool is for. The README beside the sets says where each comes from. Weights come from `WEFT_TEST_MODEL` or the cache directory;
//! without them it ends with status 1.

mod answers;
mod said;
mod several;
mod talk;

use answers::Answers;
use said::Invented;
use serde::Deserialize;
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use talk::{Made, Talk};
use weftwork_local::chat::{LocalModel, Settings};
use weftwork_local::{cpu, weights};
use weftwork_models::ChatModel;
use weftwork_schema::{Checker, Quotes};
use weftwork_types::tool::ToolSpec;

const SETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evals");

#[derive(Debug, Deserialize)]
struct Case {
    request: String,
    tool: String,
    /// The expected arguments; a list gives several accepted values.
    args: Value,
}

#[derive(Debug, Default)]
struct Score {
    prompts: usize,
    calls: usize,
    valid: usize,
    tool: usize,
    args: usize,
    spent: Vec<Duration>,
    cpu: Option<Duration>,
    misses: Vec<Value>,
    answers: Answers,
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let report = runtime.block_on(report())?;
    print(&report)
}

#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
fn print(report: &Value) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}

async fn report() -> Result<Value, Box<dyn Error>> {
    let started = now();
    let model = LocalModel::open(Settings { file: file()?, expected: None, snapshots: None })?;
    let load = started.elapsed();
    let tools: Vec<ToolSpec> = tools("tool_calls")?;
    // The first request reads the examples of all tools; later ones find them read.
    let started = now();
    Talk::new(&model, &tools, "Hello")?.turn().await?;
    let first = started.elapsed();
    let mut invented = Invented::default();
    let mut sets = serde_json::Map::new();
    for name in ["core", "apart", "fresh"] {
        let lines = lines(&format!("tool_calls/{name}.jsonl"))?;
        let score = run(&model, &tools, &lines, &mut invented).await?;
        sets.insert(name.to_owned(), score.report());
    }
    let left_out = said::left_out(&model, &mut invented).await?;
    let several = several::several(&model, &mut invented).await?;
    let no_tool = no_tool(&model, &tools).await?;
    Ok(json!({
        "model": model.info().id(),
        "label": model.info().label,
        "sha256": model.hash().to_string(),
        "cpu": cpu::name(),
        "cores": cpu::cores(),
        "fast_build": cpu::is_fast_build(),
        "load_s": seconds(load),
        "first_request_s": seconds(first),
        "sets": sets,
        "left_out": left_out,
        "several": several,
        "no_tool": no_tool,
        "invented": invented.report(),
    }))
}

async fn run(
    model: &LocalModel,
    tools: &[ToolSpec],
    cases: &[Value],
    invented: &mut Invented,
) -> Result<Score, Box<dyn Error>> {
    let mut score = Score::default();
    let mut calls = Vec::new();
    let before = cpu_time();
    for (number, case) in cases.iter().enumerate() {
        let case = Case::deserialize(case)?;
        let started = now();
        let mut talk = Talk::new(model, tools, &case.request)?;
        let made = talk.turn().await?;
        let spent = started.elapsed();
        invented.check(tools, &made, &case.request);
        score.add(&case, tools, &made, spent);
        calls.push((talk, made, number, case.request));
    }
    score.cpu = cpu_time().zip(before).map(|(after, before)| after.saturating_sub(before));
    for (mut talk, made, number, request) in calls {
        if made.name.is_empty() {
            score.answers.add_missing(&request, &made.text);
            continue;
        }
        let args: Value = serde_json::from_str(&made.args)?;
        let result = answers::result(number, &made.name, &args);
        talk.result(&made, result.clone())?;
        let answer = talk.turn().await?;
        score.answers.add(&request, &args, &result, &answer.text);
    }
    Ok(score)
}

/// Requests that no tool is for: each is answered in one sentence, without a call.
async fn no_tool(model: &LocalModel, tools: &[ToolSpec]) -> Result<Value, Box<dyn Error>> {
    let cases = lines("no_tool.jsonl")?;
    let mut one_sentence = 0;
    let mut answers = Vec::new();
    for request in cases.iter().filter_map(Value::as_str) {
        let made = Talk::new(model, tools, request)?.turn().await?;
        let problem = match made.name.as_str() {
            "" => answers::rambles(&made.text),
            _ => Some("it calls a tool"),
        };
        one_sentence += usize::from(problem.is_none());
        answers.push(json!({
            "request": request, "call": [made.name, made.args], "answer": made.text,
            "problem": problem,
        }));
    }
    Ok(json!({"requests": cases.len(), "one_sentence": one_sentence, "answers": answers}))
}

/// The tools of a folder of sets.
fn tools(folder: &str) -> Result<Vec<ToolSpec>, Box<dyn Error>> {
    Ok(serde_json::from_str(&std::fs::read_to_string(set(&format!("{folder}/tools.json")))?)?)
}

/// The lines of a set.
fn lines(name: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = std::fs::read_to_string(set(name))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

impl Score {
    fn add(&mut self, case: &Case, tools: &[ToolSpec], made: &Made, spent: Duration) {
        let args: Option<Value> = serde_json::from_str(&made.args).ok();
        let spec = tools.iter().find(|tool| tool.wire_name() == made.name);
        let valid = match (&args, spec) {
            (Some(args), Some(spec)) => {
                let checker = Checker::compile(&spec.parameters);
                checker.is_ok_and(|checker| checker.check(args, Quotes::Nothing).is_ok())
            }
            _ => false,
        };
        let tool = made.name == case.tool;
        let right = tool && args.as_ref().is_some_and(|args| matches(&case.args, args));
        self.prompts += 1;
        self.calls += usize::from(!made.name.is_empty());
        self.valid += usize::from(valid);
        self.tool += usize::from(tool);
        self.args += usize::from(right);
        self.spent.push(spent);
        if !right {
            self.misses.push(json!({
                "request": case.request,
                "expected": {"tool": case.tool, "args": case.args},
                "found": {"tool": made.name, "args": made.args},
            }));
        }
    }

    fn report(&self) -> Value {
        let mut spent = self.spent.clone();
        spent.sort();
        json!({
            "prompts": self.prompts,
            "calls": self.calls,
            "valid_json": self.valid,
            "right_tool": self.tool,
            "right_args": self.args,
            "seconds_per_call_mean": seconds(spent.iter().sum::<Duration>() / self.prompts.max(1) as u32),
            "seconds_per_call_median": spent.get(spent.len() / 2).map(|d| seconds(*d)),
            "seconds_per_call_max": spent.last().map(|d| seconds(*d)),
            "cpu_seconds_per_call_mean": self.cpu.map(|cpu| seconds(cpu / self.prompts.max(1) as u32)),
            "misses": self.misses,
            "answers": self.answers.report(),
        })
    }
}

/// Compares arguments: numbers by value, texts without case and outer punctuation. A text that
/// begins with `~` must be contained; a list of expected values offers alternatives.
fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Array(any), found) => any.iter().any(|expected| matches(expected, found)),
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .all(|(key, value)| found.get(key).is_some_and(|f| matches(value, f)))
        }
        (Value::String(expected), Value::String(found)) => match expected.strip_prefix('~') {
            Some(part) => bare(found).contains(&bare(part)),
            None => bare(found) == bare(expected),
        },
        (Value::Number(_), Value::Number(_)) => expected.as_f64() == found.as_f64(),
        _ => expected == found,
    }
}

fn bare(text: &str) -> String {
    let outer = |c: char| c.is_whitespace() || c.is_ascii_punctuation();
    text.trim_matches(outer).to_lowercase()
}

fn file() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(file) = std::env::var_os("WEFT_TEST_MODEL") {
        return Ok(file.into());
    }
    let directory = weights::directory(|name| std::env::var_os(name))?;
    Ok(weights::find(weights::DEFAULT)?.path_in(&directory))
}

fn set(name: &str) -> PathBuf {
    Path::new(SETS).join(name)
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// CPU time that this process used on all cores, on Linux. On a busy machine it is more reliable
/// than wall-clock time.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    // A tick is a hundredth of a second on every Linux.
    Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}
