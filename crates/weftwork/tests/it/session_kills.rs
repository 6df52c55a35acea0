//! Processes that are killed while they save events of a session: what is stored is a prefix of what
//! each dispatched, with every event that was acknowledged, and none twice.

use crate::evaluation_kills::Note;
use crate::stores;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::Evaluator;
use weftwork::prelude::*;
use weftwork::runtime::LeaseConfig;
use weftwork::store::Store;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::ThreadId;
use weftwork::types::run::Answers;

/// Names the folder of a story, in the process that is killed.
const FOLDER: &str = "WEFT_TEST_SAVES";
/// Names the number of that process.
const NUMBER: &str = "WEFT_TEST_SAVES_NUMBER";
/// Names the schema of a story in Postgres.
const SCHEMA: &str = "WEFT_TEST_SAVES_SCHEMA";
/// Set if a question is open while events are saved.
const ASKS: &str = "WEFT_TEST_SAVES_ASK";
const KILLS: usize = 20;
/// Events of one save.
const BATCH: usize = 3;

fn prompt() -> Prompt<()> {
    let task = Section::new("task", "Task", "Ask.").ask_human();
    Prompt::<()>::builder("tests", "ask", "Ask").section(task).build().expect("sound")
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the folder of the story"))
}

fn store() -> Arc<dyn Store> {
    match std::env::var(SCHEMA) {
        Ok(schema) => stores::postgres(&schema),
        Err(_) => stores::sqlite(&folder()),
    }
}

fn add_line(file: &str, line: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(folder().join(file));
    writeln!(file.expect("opens"), "{line}").expect("writes");
}

/// Writes the events of a session to a file, which exists once it is whole.
fn write_whole(file: &str, session: &Session) {
    let notes = session.query::<Note>().expect("notes");
    let texts: Vec<_> = notes.all().iter().map(|note| &note.0).collect();
    let part = folder().join("part");
    std::fs::write(&part, json!(texts).to_string()).expect("writes");
    std::fs::rename(&part, folder().join(file)).expect("renames");
}

/// The death of the process before may not be known yet.
async fn wait_briefly() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn answer(evaluator: &Evaluator, thread: &ThreadId) {
    loop {
        let answers = Answers::One(json!("yes"));
        match evaluator.answer(&prompt(), thread, answers).await {
            Ok(evaluated) => return assert!(evaluated.done().is_some()),
            Err(error) => assert!(error.fault.retriable, "{error}"),
        }
        wait_briefly().await;
    }
}

/// Opens the session, and records its events. All processes but the last save events until they are
/// killed. If the story asks, the first one leaves a question open, and the last one answers it.
async fn tell(number: usize) {
    let beat = Duration::from_millis(50);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 6, look_every: beat };
    let ask = Step::calls(vec![("ask_human".to_owned(), json!({"question": "More?"}))]);
    let steps = if number == 0 { vec![ask] } else { vec![Step::text("Done.")] };
    let runtime = Runtime::builder(store()).lease(lease);
    let builder = Evaluator::builder(Arc::new(ScriptedModel::from_steps(steps)));
    let evaluator = builder.prompt(&prompt()).runtime(runtime).open().await.expect("opens");
    let id = ThreadId::new("s").expect("an id");
    let session = evaluator.session(&id).await.expect("reads");
    write_whole(&format!("found-{number}"), &session);
    let asks = std::env::var_os(ASKS).is_some();
    if asks && number == 0 {
        let evaluated = evaluator.evaluate(&prompt(), ()).session(&session).await;
        assert!(evaluated.expect("evaluates").interrupted().is_some());
    }
    if number == KILLS {
        // After what the last process had begun.
        while let Err(error) = evaluator.save(&session).await {
            assert!(error.fault().retriable, "{error}");
            wait_briefly().await;
        }
        if asks {
            answer(&evaluator, &id).await;
        }
        let session = evaluator.session(&id).await.expect("reads");
        write_whole("all", &session);
        return;
    }
    for batch in 0.. {
        for event in 0..BATCH {
            let text = format!("{number}:{}", batch * BATCH + event);
            session.dispatch::<Note>(&Note(text)).expect("dispatches");
        }
        while let Err(error) = evaluator.save(&session).await {
            assert!(error.fault().retriable, "{error}");
            wait_briefly().await;
        }
        add_line(&format!("saved-{number}"), &batch.to_string());
    }
}

/// The process that is killed. Without a story it is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_saves() {
    if let Ok(number) = std::env::var(NUMBER) {
        tell(number.parse().expect("a number")).await;
    }
}

/// Place of a story, and what is open in it.
#[derive(Default)]
struct Story {
    schema: Option<String>,
    asks: bool,
}

fn process(folder: &Path, number: usize, story: &Story) -> Child {
    let mut process = Command::new(std::env::current_exe().expect("the test"));
    process.args(["--exact", "session_kills::a_process_that_saves"]);
    process.env(FOLDER, folder).env(NUMBER, number.to_string());
    if let Some(schema) = &story.schema {
        process.env(SCHEMA, schema);
    }
    if story.asks {
        process.env(ASKS, "yes");
    }
    process.spawn().expect("starts")
}

fn read(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).expect("reads");
    serde_json::from_str(&text).expect("a list")
}

/// Number of saves that a process has acknowledged.
fn acknowledged(folder: &Path, number: usize) -> usize {
    let text = std::fs::read_to_string(folder.join(format!("saved-{number}")));
    text.map_or(0, |text| text.lines().count())
}

/// Checks the events of the processes before one: of each a prefix, with what was acknowledged.
fn check(folder: &Path, events: &[String], processes: usize) {
    let mut rest = events;
    for number in 0..processes {
        let own = format!("{number}:");
        let count = rest.iter().take_while(|text| text.starts_with(&own)).count();
        let expected: Vec<_> = (0..count).map(|event| format!("{number}:{event}")).collect();
        assert_eq!(rest[..count], expected);
        let saved = acknowledged(folder, number);
        // The save of which the process died may be stored too.
        let may_be = [saved * BATCH, (saved + 1) * BATCH];
        assert!(may_be.contains(&count), "{number}: {count} events of {saved} saves");
        rest = &rest[count..];
    }
    assert_eq!(rest, [""; 0], "each event once, and those of each process together");
}

fn killed_twenty_times(story: &Story) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    for number in 0..KILLS {
        let mut process = process(path, number, story);
        // The first one has left its question open. Moments within a save differ, and the result
        // holds at each.
        let saves = if number == 0 { 1 } else { number % 5 };
        while acknowledged(path, number) < saves {
            let ended = process.try_wait().expect("is asked");
            assert!(ended.is_none(), "it did not save {number}: {ended:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        (0..number * 20_000).for_each(|_| std::hint::spin_loop());
        let has_opened = || path.join(format!("found-{number}")).exists();
        while !has_opened() {
            std::thread::sleep(Duration::from_millis(1));
        }
        process.kill().expect("is killed");
        process.wait().expect("is gone");
    }
    let last = process(path, KILLS, story).wait();
    assert!(last.expect("ends").success());
    for number in 0..=KILLS {
        let events = read(path, &format!("found-{number}"));
        // What the last process had begun may be stored after the session was opened.
        check(path, &events, number);
    }
    check(path, &read(path, "all"), KILLS);
}

fn in_postgres(name: &str) -> Option<String> {
    std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork",
    );
    Some(format!("{name}_{}", std::process::id()))
}

#[test]
fn saves_are_stored_once_after_twenty_kills_in_sqlite() {
    killed_twenty_times(&Story::default());
}

#[test]
fn saves_are_stored_once_after_twenty_kills_in_postgres() {
    killed_twenty_times(&Story { schema: in_postgres("session_kills"), asks: false });
}

#[test]
fn saves_beside_a_question_are_stored_once_after_twenty_kills_in_sqlite() {
    killed_twenty_times(&Story { schema: None, asks: true });
}

#[test]
fn saves_beside_a_question_are_stored_once_after_twenty_kills_in_postgres() {
    killed_twenty_times(&Story { schema: in_postgres("session_kills_asking"), asks: true });
}
