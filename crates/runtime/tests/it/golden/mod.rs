//! Stores written by released programs are read with their values, and their threads continue.
//!
//! `tests/golden/<version>/` has a store as SQL and what is in it as JSON. Nothing in the folder of
//! a release is ever changed. `WEFT_GOLDEN=record` writes the folder of this version anew, as part
//! of its release.

mod story;

use crate::support::{Bench, completed, interrupted};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_graph::run_loop::Snapshot;
use weftwork_graph::run_loop::{Host, StateQuery};
use weftwork_runtime::{Runtime, StoreCheckpointer, check_names, check_rows};
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{CheckpointBatch, ItemQuery, NewCheckpoint, Prefix, Store};
use weftwork_types::event::{AiEvent, Position};
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Settings with which a file is made; rows are in the order of their table names.
const PRAGMAS: &str =
    "PRAGMA foreign_keys = OFF;\nPRAGMA auto_vacuum = INCREMENTAL;\nPRAGMA journal_mode = WAL;\n";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn opened(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, &Options::default()).expect("opens"))
}

fn id(thread: &str) -> ThreadId {
    ThreadId::new(thread).expect("an id")
}

/// A value as SQL.
fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => quoted(std::str::from_utf8(text).expect("text")),
        ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if text.len() >= story::LARGE => format!("CAST({} AS BLOB)", quoted(text)),
            _ => {
                let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                    write!(hex, "{byte:02x}").expect("a string takes all");
                    hex
                });
                format!("X'{hex}'")
            }
        },
    }
}

/// A text as SQL, without the large one in it.
fn quoted(text: &str) -> String {
    let zeros = story::LARGE / 2;
    let large = format!("' || replace(hex(zeroblob({zeros})), '0', 'x') || '");
    format!("'{}'", text.replace('\'', "''").replace(&"x".repeat(story::LARGE), &large))
}

/// A whole store as SQL.
fn sql(path: &Path) -> String {
    let conn = Connection::open(path).expect("opens");
    let mut sql = PRAGMAS.to_owned();
    for name in ["user_version", "application_id"] {
        let value: i64 = conn.pragma_query_value(None, name, |row| row.get(0)).expect("a number");
        writeln!(sql, "PRAGMA {name} = {value};").expect("a string takes all");
    }
    let text = |query: &str| -> Vec<String> {
        let mut query = conn.prepare(query).expect("a query");
        let rows = query.query_map([], |row| row.get(0)).expect("reads");
        rows.collect::<Result<_, _>>().expect("reads")
    };
    let made = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid";
    for statement in text(made) {
        writeln!(sql, "{statement};").expect("a string takes all");
    }
    for table in text("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
        let mut query = conn.prepare(&format!("SELECT * FROM {table}")).expect("a query");
        let columns = query.column_count();
        let mut rows = query.query([]).expect("reads");
        while let Some(row) = rows.next().expect("reads") {
            let values: Vec<_> =
                (0..columns).map(|n| literal(row.get_ref(n).expect("a value"))).collect();
            writeln!(sql, "INSERT INTO {table} VALUES ({});", values.join(", "))
                .expect("a string takes all");
        }
    }
    sql
}

fn shown(state: &Snapshot) -> Value {
    let metadata = state
        .metadata
        .as_ref()
        .map(|metadata| json!({"source": format!("{:?}", metadata.source), "step": metadata.step}));
    let tasks: Vec<_> = state
        .tasks
        .iter()
        .map(|task| {
            let asked: Vec<_> = task.interrupts.iter().map(|asked| &asked.ask).collect();
            let error = task.error.as_ref().map(|fault| &fault.message);
            json!({"name": task.name, "interrupts": asked, "error": error})
        })
        .collect();
    json!({"values": state.values, "next": state.next, "metadata": metadata, "tasks": tasks})
}

/// A few words, and the hash of the whole.
fn brief(what: &str, value: &Value) -> String {
    let hash = weftwork_types::canonical::hash(value).to_string();
    format!("{what} {}", &hash[..16])
}

/// A run by what every version has of it.
fn briefly(run: &Value) -> String {
    let new = &run["new"];
    let at = &new["at"];
    let known = json!([at, new["graph"], new["input"], run["fence"], run["outcome"]]);
    brief(run["status"].as_str().unwrap_or_default(), &known)
}

fn as_json<T: serde::Serialize>(rows: &[T]) -> Vec<Value> {
    rows.iter().map(|row| serde_json::to_value(row).expect("JSON")).collect()
}

/// Everything of a thread, as this program reads it.
async fn contents(runtime: &Runtime, thread: &str) -> Value {
    let who = Principal::local();
    let thread = id(thread);
    let store = runtime.store();
    let state = runtime.state(&who, &thread).await;
    let history = runtime.history(&who, &thread, &HistoryFilter::default()).await.expect("reads");
    let mut events = Vec::new();
    let mut pieces = Vec::new();
    let runs = store.runs(&who, &thread).await.expect("reads");
    for run in &runs {
        let log = store.events(&who, &run.new.at, 0, usize::MAX).await.expect("reads");
        let line = |told: &Value| brief(told["event"]["type"].as_str().unwrap_or_default(), told);
        events.push(as_json(&log).iter().map(line).collect::<Vec<_>>());
        let all = store.pieces(&who, &run.new.at, Position::START, usize::MAX).await;
        pieces.extend(as_json(&all.expect("reads")));
    }
    let within = store.checkpoint_namespaces(&who, &thread).await.expect("reads");
    let calls = store.calls(&who, &thread).await.expect("reads");
    let calls: Vec<_> = calls
        .iter()
        .map(|call| {
            brief(
                &format!("{} of {}, step {}, {:?}", call.name, call.node, call.step, call.state),
                &json!([
                    call.made,
                    call.key.0.to_string(),
                    call.result.as_ref().map(|result| &result.value)
                ]),
            )
        })
        .collect();
    let value = json!({
        "state": state.map(|state| shown(&state)).expect("reads"),
        "history": history.iter().map(|state| {
            let step = state.metadata.as_ref().map_or(i64::MIN, |metadata| metadata.step);
            brief(&format!("step {step}, next {:?}", state.next), &shown(state))
        }).collect::<Vec<_>>(),
        "runs": as_json(&runs).iter().map(briefly).collect::<Vec<_>>(),
        "usage": as_json(&store.usage_of_thread(&who, &thread).await.expect("reads")),
        "events": events,
        "pieces": pieces,
        "interrupts": as_json(&store.interrupts(&who, &thread).await.expect("reads")),
        "calls": calls,
        "graphs": within.iter().map(|shelf| shelf.ns.clone()).collect::<Vec<_>>(),
    });
    // One text is large.
    let text = value.to_string().replace(&"x".repeat(story::LARGE), "LARGE");
    serde_json::from_str(&text).expect("JSON")
}

async fn all(store: Arc<dyn Store>) -> Value {
    let query = ItemQuery::default();
    let who = Principal::local();
    let items = store.search_items(&who, &Prefix::all(), &query, Timestamp(0)).await;
    let bench = Bench::on(Arc::clone(&store), story::graph()).await;
    let mut all = serde_json::Map::new();
    all.insert("items".to_owned(), as_json(&items.expect("searches")).into());
    for thread in story::THREADS {
        all.insert(thread.to_owned(), contents(&bench.runtime, thread).await);
    }
    let saver = StoreCheckpointer::new(store as _, Principal::local());
    let graph = story::graph();
    let host = Host::new().with_checkpointer(saver);
    let calls = graph.calls(&host, &StateQuery::thread(story::IN_PROCESS)).await.expect("reads");
    all.insert(story::IN_PROCESS.to_owned(), as_json(&calls).into());
    Value::Object(all)
}

/// Every row of checkpoints fits its checksum, and the names that rows leave out are there.
async fn check(store: &Arc<dyn Store>) {
    let who = Principal::local();
    for thread in story::THREADS {
        let whole = store.export_thread(&who, &id(thread)).await.expect("reads");
        let checked = check_rows(&id(thread), &whole.kept);
        assert!(checked.problems.is_empty(), "{thread}: {:?}", checked.problems);
        for hash in checked.names {
            let names = store.layout(&who, hash).await.expect("reads").expect("is there");
            check_names(hash, &names).expect("sound");
        }
    }
}

/// Threads go on from where another program left them.
async fn go_on(store: Arc<dyn Store>) {
    let bench = Bench::on(store, story::graph()).await;
    let run = async |thread: &str, input| {
        let mut request = Bench::request(input);
        request.thread = id(thread);
        bench.run(request).await.1
    };
    for thread in ["asked", "within"] {
        let open = interrupted(run(thread, RunInput::Continue).await);
        let answers: std::collections::BTreeMap<_, _> =
            open.into_iter().map(|open| (open, json!("go on"))).collect();
        let output = completed(run(thread, RunInput::answers(answers)).await);
        assert_eq!(output["any"], json!("go on"), "{thread}");
    }
    let output = completed(run("long", RunInput::Start { input: json!({"log": ["more"]}) }).await);
    let log = output["log"].as_array().expect("a list");
    assert!(log.len() > 24 && log.contains(&json!("more")), "{log:?}");
    let open = id("open");
    let at = bench.store.runs(&Principal::local(), &open).await.expect("reads").remove(0).new.at;
    let handle = bench.runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    assert!(matches!(handle.outcome.await, RunOutcome::Completed { .. }));
    let log = bench.store.events(&Principal::local(), &at, 0, usize::MAX).await.expect("reads");
    let is_reset =
        |event: &AiEvent| matches!(event, AiEvent::AttemptReset(reset) if reset.node == "plan");
    assert!(log.iter().any(|told| is_reset(&told.event)), "half a sentence is void");
}

#[tokio::test]
async fn what_released_programs_left_is_read_and_goes_on() {
    if std::env::var("WEFT_GOLDEN").is_ok_and(|what| what == "record") {
        record().await;
    }
    let mut versions = 0;
    for entry in std::fs::read_dir(golden()).expect("the folder of releases") {
        let folder = entry.expect("an entry").path();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("reads");
        let temporary = tempfile::tempdir().expect("a folder");
        let path = temporary.path().join("weft.db");
        let conn = Connection::open(&path).expect("opens");
        conn.execute_batch(&read("store.sql")).expect("reads the dump");
        // As a store that is closed: its log is part of the file.
        conn.pragma_update(None, "journal_mode", "DELETE").expect("the log is applied");
        drop(conn);
        let store = opened(&path);
        check(&store).await;
        let found = all(Arc::clone(&store)).await;
        let expected: Value = serde_json::from_str(&read("contents.json")).expect("JSON");
        for (thread, expected) in expected.as_object().expect("threads") {
            assert_eq!(&found[thread], expected, "{}: {thread}", folder.display());
        }
        go_on(store).await;
        versions += 1;
    }
    assert!(versions > 0, "no release is recorded");
}

/// Writes what this version leaves in a store.
async fn record() {
    let temporary = tempfile::tempdir().expect("a folder");
    let path = temporary.path().join("weft.db");
    story::play(opened(&path)).await;
    let folder = golden().join(env!("CARGO_PKG_VERSION"));
    std::fs::create_dir_all(&folder).expect("makes");
    std::fs::write(folder.join("store.sql"), sql(&path)).expect("writes");
    let contents = serde_json::to_string_pretty(&all(opened(&path)).await).expect("JSON");
    std::fs::write(folder.join("contents.json"), contents + "\n").expect("writes");
}

/// Checks that this version writes rows to every table, so that the recorded folder lacks no kind
/// of row.
#[tokio::test]
async fn the_story_has_a_row_of_each_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = opened(&folder.path().join("weft.db"));
    story::play(Arc::clone(&store)).await;
    let conn = Connection::open(folder.path().join("weft.db")).expect("opens");
    let mut tables =
        conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("a query");
    let names = tables.query_map([], |row| row.get::<_, String>(0)).expect("reads");
    for name in names {
        let name = name.expect("reads");
        let rows: i64 = conn
            .query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0))
            .expect("reads");
        assert!(rows > 0, "table `{name}` is empty");
    }
    let whole = store.export_thread(&Principal::local(), &id("long")).await.expect("reads");
    let CheckpointBatch { checkpoints, .. } = whole.kept;
    let tasks = |new: &&NewCheckpoint| !new.tasks.is_empty();
    assert!(checkpoints.iter().filter(tasks).count() > 17, "lists are repeated in one piece");
}
