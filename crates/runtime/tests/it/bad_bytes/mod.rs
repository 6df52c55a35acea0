//! Rows that are not what was written: in another row's place, of a newer program, cut off, or made
//! to do harm behind a checksum that fits. Each is an error that names the place.

mod cut;
mod made;
mod moved;

use crate::support::{Bench, thread};
use rusqlite::{Connection, params};
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use weftwork_graph::channel::{Append, LastValue, Messages};
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Graph, Input, NodeResult, START, SubgraphState,
};
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::Store;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOutcome};
use weftwork_types::{CheckpointId, OrgId, Principal, ThreadId};
use xxhash_rust::xxh3::Xxh3Default;

/// Kind of a row, as its checksum covers it.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Checkpoint = 1,
    Tasks = 2,
    Outside = 3,
}

/// Bytes with the checksum of the row of that place.
fn sealed(kind: Kind, ns: &str, id: CheckpointId, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut hash = Xxh3Default::new();
    hash.update(&[kind as u8]);
    hash.update(&id.0.to_be_bytes());
    hash.update(&(ns.len() as u64).to_be_bytes());
    hash.update(ns.as_bytes());
    hash.update(&bytes);
    bytes.extend_from_slice(&hash.digest().to_be_bytes());
    bytes
}

/// A graph with a graph within, which stops at a question while another node has finished.
fn asking() -> CompiledGraph {
    let channels = || {
        vec![
            ChannelDef::new("log", Append::<String>::new()),
            ChannelDef::new("text", LastValue::<String>::new()),
            ChannelDef::new("any", LastValue::<serde_json::Value>::new()),
            ChannelDef::new("messages", Messages),
        ]
    };
    let say = async |_: Input| DynUpdate::new().write("log", json!(["said"]));
    let ask = async |_: Input, ctx: Ctx| {
        let answer = ctx.interrupt(json!("go on?"))?;
        NodeResult::Ok(DynUpdate::new().write("any", answer))
    };
    let inner = Graph::dynamic("inner", channels()).node("say", say).edge(START, "say");
    let inner = inner.build().expect("sound");
    Graph::dynamic("asking", channels())
        .node("say", say)
        .node("ask", ask)
        .subgraph("within", inner, SubgraphState::PerThread)
        .edge(START, "say")
        .edge(START, "ask")
        .edge(START, "within")
        .build()
        .expect("sound")
}

fn other() -> Principal {
    Principal::new(OrgId::new("other").expect("an id"), "x")
}

/// A store with four threads: `t` has ended, `paused` waits for an answer, `later` is another one
/// that has ended, and another organisation has a `t` too.
struct Site {
    folder: TempDir,
    file: PathBuf,
    copies: Cell<usize>,
}

fn opened(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, &Options::default()).expect("opens"))
}

/// Lets a thread run to its question, and on from there if it is to.
async fn run(bench: &Bench, who: &Principal, thread: &str, goes_on: bool) {
    let request = |input| {
        let mut request = Bench::request(input);
        request.principal = who.clone();
        request.thread = ThreadId::new(thread).expect("an id");
        request
    };
    let input = json!({"log": [thread], "text": format!("text of {thread}, of {}", who.org)});
    let open = bench.run(request(RunInput::Start { input })).await.1;
    let open = crate::support::interrupted(open);
    if goes_on {
        let answers = std::collections::BTreeMap::from([(open[0], json!("yes"))]);
        crate::support::completed(bench.run(request(RunInput::answers(answers))).await.1);
    }
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made.db");
        let file = folder.path().join("sound.db");
        {
            let bench = Bench::on(opened(&made), asking()).await;
            let ours = Principal::local();
            run(&bench, &ours, "t", true).await;
            run(&bench, &ours, "paused", false).await;
            run(&bench, &other(), "t", true).await;
            run(&bench, &ours, "later", true).await;
        }
        let store = SqliteStore::open(&made, &Options::default()).expect("opens");
        store.backup(&file).expect("copies");
        Self { folder, file, copies: Cell::new(0) }
    }

    /// A copy of the store, and its rows.
    fn copy(&self) -> Rows {
        self.copies.set(self.copies.get() + 1);
        let path = self.folder.path().join(format!("{}.db", self.copies.get()));
        std::fs::copy(&self.file, &path).expect("copies");
        Rows::of(path)
    }
}

/// The rows of a store, behind its back.
struct Rows {
    path: PathBuf,
    conn: Connection,
    /// The newest checkpoints of the outermost graphs of our threads.
    newest: BTreeMap<String, CheckpointId>,
}

impl Rows {
    fn of(path: PathBuf) -> Self {
        let conn = Connection::open(&path).expect("opens");
        let newest = {
            let sql = "SELECT thread, max(id) FROM checkpoints WHERE org = 'local' AND ns = ''
                       GROUP BY thread";
            let mut query = conn.prepare(sql).expect("a query");
            let found = query.query_map([], |row| {
                Ok((row.get(0)?, CheckpointId(u128::from_be_bytes(row.get(1)?))))
            });
            found.expect("reads").collect::<Result<_, _>>().expect("reads")
        };
        Self { path, conn, newest }
    }

    fn newest(&self, thread: &str) -> CheckpointId {
        self.newest[thread]
    }

    /// Its row before the checksum.
    fn body(&self, thread: &str) -> Vec<u8> {
        let sql = "SELECT body FROM checkpoints WHERE org = 'local' AND thread = ?1 AND id = ?2";
        let id = self.newest(thread).0.to_be_bytes();
        let mut body: Vec<u8> =
            self.conn.query_row(sql, params![thread, id], |row| row.get(0)).expect("a row");
        body.truncate(body.len() - 8);
        body
    }

    fn put(&self, thread: &str, body: &[u8]) {
        let sql =
            "UPDATE checkpoint_rows SET body = ?3 WHERE place = (SELECT place FROM checkpoints
                 WHERE org = 'local' AND thread = ?1 AND id = ?2)";
        let id = self.newest(thread).0.to_be_bytes();
        assert_eq!(self.conn.execute(sql, params![thread, id, body]).expect("writes"), 1);
    }

    /// Puts a part of what is pending at the newest checkpoint.
    fn put_pending(&self, thread: &str, part: i64, body: &[u8]) {
        let id = self.newest(thread).0.to_be_bytes();
        let sql = "INSERT OR REPLACE INTO pending (org, thread, ns, of, part, body)
                   VALUES ('local', ?1, '', ?2, ?3, ?4)";
        self.conn.execute(sql, params![thread, id, part, body]).expect("writes");
    }

    /// The first of what is pending of tasks at the newest checkpoint, before the checksum.
    fn pending(&self, thread: &str) -> Vec<u8> {
        let sql = "SELECT body FROM pending WHERE org = 'local' AND thread = ?1 AND part = 1
                   AND ns = ''";
        let mut body: Vec<u8> =
            self.conn.query_row(sql, [thread], |row| row.get(0)).expect("a row");
        body.truncate(body.len() - 8);
        body
    }

    fn edit(&self, sql: &str) {
        self.conn.execute_batch(sql).expect("edits");
    }
}

/// Adds a line to the table: the damage, and the results of reading the thread and of running it.
async fn line(table: &mut String, what: &str, rows: &Rows, name: &str) {
    let who = Principal::local();
    let bench = Bench::on(opened(&rows.path), asking()).await;
    let id = ThreadId::new(name).expect("an id");
    let newest = rows.newest(name);
    let told = |code: &str, message: &str| {
        let message = message.replace(&newest.to_string(), "NEWEST");
        format!("{code}: {}", nameless(&message))
    };
    let state = match bench.runtime.state(&who, &id).await {
        Ok(state) => format!("IT READS {}", state.values),
        Err(error) => told(error.code().0, &error.to_string()),
    };
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.thread = id;
    let run = match bench.runtime.execute(request).await {
        Err(refused) => format!("refused, {}", told(&refused.fault.code, &refused.fault.message)),
        Ok(handle) => match handle.outcome.await {
            RunOutcome::Failed { fault } => told(&fault.code, &fault.message),
            _ => "IT RUNS".to_owned(),
        },
    };
    writeln!(table, "{what}\n    {state}").expect("a string takes all");
    if run != state {
        writeln!(table, "    run: {run}").expect("a string takes all");
    }
}

/// A text without the ids in it, which are others each time.
fn nameless(text: &str) -> String {
    let is_id = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split('`').map(|word| if is_id(word) { "OTHER" } else { word });
    words.collect::<Vec<_>>().join("`")
}

#[tokio::test]
async fn the_site_is_sound() {
    let site = Site::new().await;
    let rows = site.copy();
    let again = sealed(Kind::Checkpoint, "", rows.newest("t"), rows.body("t"));
    rows.put("t", &again);
    rows.put_pending(
        "paused",
        1,
        &sealed(Kind::Tasks, "", rows.newest("paused"), rows.pending("paused")),
    );
    let bench = Bench::on(opened(&rows.path), asking()).await;
    let state = bench.runtime.state(&Principal::local(), &thread()).await.expect("reads");
    assert_eq!(state.values["log"], json!(["t", "said", "t", "said"]));
    let paused = ThreadId::new("paused").expect("an id");
    let state = bench.runtime.state(&Principal::local(), &paused).await.expect("reads");
    assert_eq!(state.next, ["ask"]);
}
