//! Evaluations of prompts with scripted answers: the prompts, models and sessions of the tests.

mod context;
mod ends;
mod nested;
mod options;
mod outcomes;
mod repeated;
mod sections;
mod sessions;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::{
    Evaluated, Evaluator, EvaluatorBuilder, Prompt, PromptContext, PromptResponse, Section,
    Session, Slice,
};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_models::{Capability, ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork_runtime::Runtime;
use weftwork_store::MemoryStore;
use weftwork_tools::{Deps, ToolError, tool};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note(String);

impl Slice for Note {
    const NAME: &'static str = "notes";
    type Event = Note;

    fn reduce(mut notes: Vec<Self>, note: Note) -> Vec<Self> {
        notes.push(note);
        notes
    }
}

/// Takes a note; fails after it for the text `bad`.
#[tool]
pub(crate) fn take_note(text: String, prompt: Deps<PromptContext>) -> Result<usize, ToolError> {
    prompt.dispatch::<Note>(&Note(text.clone()))?;
    if text == "bad" {
        return Err(ToolError::failed("it is a bad note"));
    }
    Ok(prompt.query::<Note>()?.all().len())
}

pub(crate) fn notes(session: &Session) -> Vec<String> {
    let notes = session.query::<Note>().expect("notes");
    notes.all().iter().map(|note| note.0.clone()).collect()
}

pub(crate) fn note(text: &str) -> (String, Value) {
    ("take_note".to_owned(), json!({"text": text}))
}

pub(crate) fn scripted(steps: Vec<Step>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_steps(steps))
}

pub(crate) fn noting() -> Prompt<()> {
    let task = Section::new("task", "Task", "Take notes.").tool(take_note).ask_human();
    Prompt::<()>::builder("tests", "notes", "Notes").section(task).build().expect("sound")
}

pub(crate) fn done<T>(evaluated: Evaluated<T>) -> PromptResponse<T> {
    evaluated.done().expect("no question is open")
}

pub(crate) async fn over(store: &Arc<MemoryStore>, builder: EvaluatorBuilder) -> Evaluator {
    let runtime = Runtime::builder(Arc::clone(store) as _);
    builder.runtime(runtime).open().await.expect("opens")
}

/// A model that records the requests it gets.
#[derive(Debug)]
pub(crate) struct Recording {
    inner: ScriptedModel,
    requests: std::sync::Mutex<Vec<Arc<ChatRequest>>>,
    lacks: &'static [Capability],
}

impl Recording {
    pub(crate) fn new(steps: Vec<Step>, lacks: &'static [Capability]) -> Arc<Self> {
        Arc::new(Self {
            inner: ScriptedModel::from_steps(steps),
            requests: Default::default(),
            lacks,
        })
    }

    pub(crate) fn requests(&self) -> Vec<Arc<ChatRequest>> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

impl ChatModel for Recording {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn lacks(&self) -> &[Capability] {
        self.lacks
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.requests.lock().expect("not poisoned").push(Arc::clone(&request));
        self.inner.stream(request)
    }
}
