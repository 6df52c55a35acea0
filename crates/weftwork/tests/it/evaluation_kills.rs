//! Processes that are killed inside a tool call that dispatches to the session, and while a question
//! is open: the session ends as without a kill, with each event once.

use crate::stores;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::EvaluationError;
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::prelude::*;
use weftwork::runtime::LeaseConfig;
use weftwork::store::Store;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::Deps;
use weftwork::types::ThreadId;
use weftwork::types::run::Answers;

/// Names the folder of a story, in the process that is killed.
const FOLDER: &str = "WEFT_TEST_EVALUATION";
/// Names the place at which that process waits to be killed.
const PLACE: &str = "WEFT_TEST_EVALUATION_PLACE";
/// Places at which a process is killed: in the calls of three messages, and at the question.
const PLACES: [&str; 4] = ["a", "b", "question", "c"];
const STORIES: usize = 5;
/// Names the schema of a story in Postgres, in the process that is killed.
const SCHEMA: &str = "WEFT_TEST_EVALUATION_SCHEMA";

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) String);

impl Slice for Note {
    const NAME: &'static str = "notes";
    type Event = Note;

    fn reduce(mut notes: Vec<Self>, note: Note) -> Vec<Self> {
        notes.push(note);
        notes
    }
}

/// Reports that the process is at a place, and waits there if it is to be killed at it.
async fn at(place: &str) {
    if std::env::var(PLACE).is_ok_and(|killed_at| killed_at == place) {
        std::fs::write(folder().join(place), "").expect("writes");
        std::future::pending::<()>().await;
    }
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the folder of the story"))
}

/// Takes a note.
#[tool(timeout_ms = 600000)]
async fn take_note(text: String, prompt: Deps<PromptContext>) -> Result<String, ToolError> {
    prompt.dispatch::<Note>(&Note(text.clone()))?;
    at(&text).await;
    Ok(text)
}

/// A model whose answers depend on the results alone, so that each process has the same.
#[derive(Debug)]
struct Author(ModelInfo);

impl ChatModel for Author {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let note = |text: &str| ("take_note".to_owned(), json!({"text": text}));
        let ask = ("ask_human".to_owned(), json!({"question": "More?"}));
        let results = request.messages.iter().flat_map(Message::tool_results).count();
        let step = match results {
            0 => Step::calls(vec![note("a")]),
            1 => Step::calls(vec![note("b")]),
            2 => Step::calls(vec![ask]),
            3 => Step::calls(vec![note("c")]),
            _ => Step::text("Done."),
        };
        ScriptedModel::from_steps(vec![step]).stream(request)
    }
}

/// The store of a story: a schema in Postgres, or else a file.
fn store() -> Arc<dyn Store> {
    match std::env::var(SCHEMA) {
        Ok(schema) => stores::postgres(&schema),
        Err(_) => stores::sqlite(&folder()),
    }
}

/// Brings the story to its end, or to the place of the kill.
async fn tell() -> Result<Vec<String>, EvaluationError> {
    let store = store();
    let task = Section::new("task", "Task", "Take notes.").tool(take_note).ask_human();
    let prompt = Prompt::<()>::builder("tests", "notes", "Notes").section(task).build();
    let prompt = prompt.expect("sound");
    let model = Arc::new(Author(ScriptedModel::rules().info().clone()));
    let beat = Duration::from_millis(100);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
    let runtime = Runtime::builder(store).lease(lease);
    let evaluator = Evaluator::builder(model).prompt(&prompt).runtime(runtime);
    let evaluator = evaluator.open().await.expect("opens");
    let id = ThreadId::new("s").expect("an id");
    let session = evaluator.session(&id).await.expect("reads");
    let thread = evaluator.runtime().thread("prompt:react", id.as_str()).expect("hosted");
    let mut answers = None;
    let mut begun = evaluator.runtime().threads().get(&id).await.is_ok();
    loop {
        if begun && !thread.questions().await.expect("reads").is_empty() {
            at("question").await;
            answers = Some(Answers::One(json!("yes")));
        }
        let evaluated = match begun {
            true => match answers.take() {
                Some(answers) => evaluator.answer(&prompt, &id, answers),
                None => evaluator.resume(&prompt, &id),
            },
            false => evaluator.evaluate(&prompt, ()),
        };
        let evaluated = evaluated.session(&session).await;
        begun = true;
        match evaluated {
            Ok(Evaluated::Done(_)) => break,
            Ok(Evaluated::Interrupted(_)) => {}
            // The death of the process before is not known yet.
            Err(error) if error.fault.retriable => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error),
        }
    }
    let notes = session.query::<Note>().expect("notes");
    Ok(notes.all().iter().map(|note| note.0.clone()).collect())
}

/// The process that is killed. Without a story it is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_a_story() {
    if std::env::var_os(FOLDER).is_some() {
        let notes = tell().await.expect("it comes to its end");
        std::fs::write(folder().join("notes"), json!(notes).to_string()).expect("writes");
    }
}

fn process(folder: &Path, place: &str, schema: Option<&String>) -> Child {
    let this = std::env::current_exe().expect("the test");
    let name = "evaluation_kills::a_process_of_a_story";
    let mut process = Command::new(this);
    process.args(["--exact", name]).env(FOLDER, folder).env(PLACE, place);
    if let Some(schema) = schema {
        process.env(SCHEMA, schema);
    }
    process.spawn().expect("starts")
}

fn killed_twenty_times(schema: Option<&str>) {
    let mut kills = 0;
    for story in 0..STORIES {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = schema.map(|schema| format!("{schema}_{story}"));
        for place in PLACES {
            let mut process = process(folder.path(), place, schema.as_ref());
            while !folder.path().join(place).exists() {
                let ended = process.try_wait().expect("is asked");
                assert!(ended.is_none(), "it did not come to `{place}`: {ended:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
            process.kill().expect("is killed");
            process.wait().expect("is gone");
            kills += 1;
        }
        let last = process(folder.path(), "", schema.as_ref()).wait();
        assert!(last.expect("ends").success());
        let notes = std::fs::read_to_string(folder.path().join("notes")).expect("reads");
        assert_eq!(notes, r#"["a","b","c"]"#);
    }
    assert_eq!(kills, 20);
}

#[test]
fn a_session_is_the_same_after_twenty_kills_in_sqlite() {
    killed_twenty_times(None);
}

#[test]
fn a_session_is_the_same_after_twenty_kills_in_postgres() {
    std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork",
    );
    killed_twenty_times(Some(&format!("evaluation_kills_{}", std::process::id())));
}
