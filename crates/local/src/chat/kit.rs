//! The common prefixes of the prompts for a set of tools.

use super::copy::plain;
use super::prompt;
use crate::Error;
use crate::engine::{Engine, Session};
use crate::prefixes::Prefixes;
use serde_json::{Map, Value};
use std::path::PathBuf;
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::tool::ToolSpec;

/// Number of sets of tools kept in memory.
const KITS_MAX: usize = 4;
/// Examples shown per tool.
const EXAMPLES_MAX: usize = 3;
/// Number of tokens evaluated per request, over all tools.
const TRIED_MAX: usize = 384;
const DESCRIPTION_CHARS_MAX: usize = 120;

/// The pseudo-tool for answers in plain words: name, description, requests.
const REPLY: (&str, &str, [&str; 3]) = (
    "reply",
    "Answers small talk.",
    ["Hello, how are you?", "Who was the first king of Rome?", "Thanks, you are kind."],
);

/// The kind of a call's result, each with its own summary prompt. With a shared prompt the model
/// sometimes reports an action for a result that was only looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Found,
    Done,
}

/// A request, the facts, and the answer for them.
type Summary = (&'static str, &'static str, &'static str);

// The examples are from other domains than the demo, the tests and the evaluations.

/// Answers for tools that look something up.
const FOUND: [Summary; 4] = [
    ("How many seats are free in room 3?", "result: 42", "There are 42 seats free in room 3."),
    (
        "How is the sea at Brest?",
        "place: Brest; waves: high; metres: 4; source: harbour",
        "The sea at Brest has high waves, with 4 metres.",
    ),
    (
        "Which book is K7?",
        "book id: K7; title: Emma; status: lent; shelf: Novels; year: 1815",
        "Book K7, Emma, is lent from the shelf Novels.",
    ),
    (
        "When does train T31 leave?",
        "train: T31; kind: night train; status: delayed; platform: 2",
        "Train T31, a night train, is delayed on platform 2.",
    ),
];

/// Answers for tools that perform an action.
const DONE: [Summary; 3] = [
    ("Book 2 seats for Eva.", "name: Eva; booked: 2; show: Hamlet", "I booked 2 seats for Eva."),
    (
        "Please lend book B12 for 14 days.",
        "book id: B12; days: 14; status: lent; receipt: L9",
        "I lent book B12 for 14 days.",
    ),
    (
        "Water plant P4, litres 3",
        "job id: J7; plant: P4; watered: 3",
        "I watered plant P4 with 3 litres.",
    ),
];

/// The prompts that are processed before a request is known.
#[derive(Debug)]
pub(super) struct Kit {
    key: Hash,
    /// For each tool and for plain words the prompt without its last token, then the examples of
    /// each tool, then the kinds of summaries.
    pub(super) prefixes: Prefixes,
    /// The last token of each of the first prompts.
    leads: Vec<u32>,
}

/// The most recently used kits.
#[derive(Debug)]
pub(super) struct Kits {
    snapshots: Option<PathBuf>,
    kits: Vec<Kit>,
}

/// Number of tokens of a request that are evaluated for a number of candidates.
pub(super) fn text_tokens_max(candidates: usize) -> usize {
    (TRIED_MAX / candidates.max(1)).clamp(12, 48)
}

impl Kits {
    pub(super) fn new(snapshots: Option<PathBuf>) -> Self {
        Self { snapshots, kits: Vec::new() }
    }

    /// Removes all kits.
    pub(super) fn clear(&mut self) {
        self.kits.clear();
    }

    /// Returns the kit of a set of tools, and processes its prompts if it is new.
    pub(super) fn get(&mut self, engine: &Engine, tools: &[ToolSpec]) -> Result<&mut Kit, Error> {
        let key = key(tools);
        let kit = match self.kits.iter().position(|kit| kit.key == key) {
            Some(at) => self.kits.remove(at),
            None => Kit::read(engine, key, tools, self.snapshots.as_ref())?,
        };
        self.kits.insert(0, kit);
        self.kits.truncate(KITS_MAX);
        Ok(&mut self.kits[0])
    }
}

impl Kit {
    fn read(
        engine: &Engine,
        key: Hash,
        tools: &[ToolSpec],
        snapshots: Option<&PathBuf>,
    ) -> Result<Self, Error> {
        let mut prompts = Vec::with_capacity(2 * tools.len() + 3);
        let mut leads = Vec::with_capacity(tools.len() + 1);
        let words = (REPLY.0.to_owned(), REPLY.1.to_owned(), REPLY.2.to_vec());
        for (name, description, requests) in tools.iter().map(introduction).chain([words]) {
            let mut prompt = vec![engine.mark("<|im_start|>")?];
            let mut text = format!("user\nRequests for the tool {name} ({description}):\n-");
            for request in requests {
                text.push_str(&format!(" {request}\n-"));
            }
            prompt.extend(engine.encode(&text));
            leads.extend(prompt.pop());
            prompts.push(prompt);
        }
        for tool in tools {
            prompts.push(examples(engine, tool)?);
        }
        for answers in [&FOUND[..], &DONE] {
            prompts.push(summaries(engine, answers)?);
        }
        let prefixes = match snapshots {
            Some(directory) => engine.recall_prefixes(prompts, directory).0,
            None => engine.read_prefixes(prompts),
        };
        Ok(Self { key, prefixes, leads })
    }

    /// The prompts after which a request is evaluated: one per tool, then the one for plain words.
    pub(super) fn leads(&self) -> Vec<(usize, u32)> {
        self.leads.iter().copied().enumerate().collect()
    }

    /// The session and tokens of the prompt for the arguments of a tool.
    pub(super) fn args(&self, engine: &Engine, tool: usize) -> (Session, Vec<u32>) {
        self.at(engine, self.leads.len() + tool)
    }

    /// The session and tokens of the prompt for summaries of that kind.
    pub(super) fn summary(&self, engine: &Engine, kind: Kind) -> (Session, Vec<u32>) {
        self.at(engine, self.prefixes.prompts.len() - 2 + kind as usize)
    }

    fn at(&self, engine: &Engine, index: usize) -> (Session, Vec<u32>) {
        let session = engine.session_after(&self.prefixes, index);
        (session, self.prefixes.prompts[index].clone())
    }
}

fn key(tools: &[ToolSpec]) -> Hash {
    let mut text = String::new();
    for tool in tools {
        text.push_str(&format!("{}\n{}\n{}\n", tool.name, tool.description, tool.parameters));
        for example in &tool.examples {
            text.push_str(&format!("{}\n{}\n", example.request, example.args));
        }
    }
    hash_bytes(text.as_bytes())
}

fn introduction(tool: &ToolSpec) -> (String, String, Vec<&str>) {
    let name = tool.wire_name().replace('_', " ");
    let first = tool.description.split_inclusive(". ").next().unwrap_or_default();
    let description = first.trim().chars().take(DESCRIPTION_CHARS_MAX).collect();
    let requests = tool.examples.iter().take(EXAMPLES_MAX).map(|e| e.request.as_str()).collect();
    (name, description, requests)
}

/// Requests and their arguments, as turns of a conversation.
fn examples(engine: &Engine, tool: &ToolSpec) -> Result<Vec<u32>, Error> {
    let mut prompt = Vec::new();
    if tool.examples.is_empty() {
        let instruction =
            format!("{} Write the arguments of {} as JSON.", tool.description, tool.wire_name());
        prompt::turn(engine, &mut prompt, "system", &instruction)?;
    }
    for example in tool.examples.iter().take(EXAMPLES_MAX) {
        prompt::turn(engine, &mut prompt, "user", &example.request)?;
        let args = in_schema_order(&example.args, &tool.parameters).to_string();
        prompt::turn(engine, &mut prompt, "assistant", &args)?;
    }
    Ok(prompt)
}

fn summaries(engine: &Engine, answers: &[Summary]) -> Result<Vec<u32>, Error> {
    let mut prompt = Vec::new();
    let instruction = "Answer the request in one short sentence. Use only the facts.";
    prompt::turn(engine, &mut prompt, "system", instruction)?;
    for (request, facts, answer) in answers {
        prompt::turn(engine, &mut prompt, "user", &prompt::question(request, facts))?;
        prompt::turn(engine, &mut prompt, "assistant", answer)?;
    }
    Ok(prompt)
}

/// Example arguments in the form that the grammar produces.
fn in_schema_order(args: &Value, schema: &Value) -> Value {
    let Some(Value::Object(properties)) = schema.get("properties") else { return args.clone() };
    let Value::Object(args) = args else { return args.clone() };
    let written = |value: &Value| match value {
        Value::Number(number) => plain(number),
        other => other.clone(),
    };
    let ordered: Map<String, Value> =
        properties.keys().filter_map(|key| Some((key.clone(), written(args.get(key)?)))).collect();
    Value::Object(ordered)
}
