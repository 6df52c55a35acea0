//! Tests that tables reach the next format, also if the connection that migrates them breaks.

use super::{FORMATS, Formats};
use crate::{Options, PostgresStore, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::NoTls;
use weftwork_store::StoreError;
use weftwork_testkit::ManualClock;

/// The statements of an invented next format: they add a column and a table, and rewrite rows.
const STATEMENTS: [&str; 4] = [
    "ALTER TABLE threads ADD COLUMN label text",
    "UPDATE threads SET label = upper(id)",
    "CREATE TABLE marks (org text, thread text)",
    "INSERT INTO marks SELECT org, id FROM threads",
];

/// Returns the formats of a next program, whose connection breaks after this number of statements
/// if there is one.
fn next(cut: Option<usize>) -> &'static Formats {
    let mut script = STATEMENTS.map(str::to_owned).to_vec();
    if let Some(count) = cut {
        script.truncate(count);
        script.push("SELECT pg_terminate_backend(pg_backend_pid())".to_owned());
    }
    let script: &'static str = Box::leak(script.join(";").into_boxed_str());
    let migrations = Box::leak(Box::new([FORMATS.migrations[0], script]));
    Box::leak(Box::new(Formats { oldest: FORMATS.oldest, created: FORMATS.created, migrations }))
}

fn address() -> String {
    std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork-postgres",
    )
}

/// A schema that is unique to one test.
struct Schema(String);

impl Schema {
    fn new(test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{test}_{}_{count}", std::process::id()))
    }

    fn open(&self, formats: &'static Formats) -> Result<PostgresStore, StoreError> {
        let clock = Arc::new(ManualClock::new());
        let options = Options { time: Time::Caller, schema: self.0.clone(), ..Options::new(clock) };
        PostgresStore::open_with(&address(), &options, formats)
    }

    /// Runs a query that returns one text, bypassing the store.
    fn read(&self, sql: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let connected = tokio_postgres::connect(&address(), NoTls).await;
            let (client, connection) = connected.expect("connects");
            let served = tokio::spawn(connection);
            let path = format!("SET search_path TO {}", self.0);
            client.batch_execute(&path).await.expect("sets");
            let row = client.query_one(sql, &[]).await.expect("reads");
            drop(client);
            served.await.expect("no panic").expect("ends well");
            row.get(0)
        })
    }
}

const ADD_THREAD: &str = "INSERT INTO threads (org, id, graph, status, seq, created_at, updated_at)
    VALUES ('local', 't', 'g', 'completed', 0, 1, 1) RETURNING id";

/// Reads the format, the columns of threads, and the tables.
const STATE: &str = "SELECT concat_ws(' ', (SELECT value FROM meta WHERE key = 'applied'),
    (SELECT count(*) FROM information_schema.columns
     WHERE table_schema = current_schema() AND table_name = 'threads'),
    (SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()))";

#[test]
fn the_next_format_is_reached_with_all_rows_and_refused_by_the_program_before() {
    let schema = Schema::new("next_format");
    drop(schema.open(&FORMATS).expect("opens"));
    assert_eq!(schema.read(ADD_THREAD), "t");
    drop(schema.open(next(None)).expect("migrates"));
    let labels = "SELECT label || (SELECT count(*) FROM marks) FROM threads WHERE id = 't'";
    assert_eq!(schema.read(labels), "T1");
    let error = schema.open(&FORMATS).expect_err("is newer");
    assert!(matches!(error, StoreError::Newer { found: 13, known: 12, .. }), "{error}");
    drop(schema.open(next(None)).expect("opens again"));
    assert_eq!(schema.read(labels), "T1", "a step is done once");
}

#[test]
fn a_migration_that_is_cut_off_anywhere_is_done_by_the_next_process() {
    for with_tables in [true, false] {
        for count in 0..=STATEMENTS.len() {
            let schema = Schema::new("cut_migration");
            if with_tables {
                drop(schema.open(&FORMATS).expect("opens"));
                assert_eq!(schema.read(ADD_THREAD), "t");
            }
            schema.open(next(Some(count))).expect_err("the connection breaks");
            // The tables of the oldest format are a step of their own, which was done.
            let state = schema.read(STATE);
            assert!(state.starts_with("13 "), "{state}");
            let opened: Vec<_> = std::thread::scope(|scope| {
                let open = |_| scope.spawn(|| schema.open(next(None)));
                let opening: Vec<_> = (0..4).map(open).collect();
                opening.into_iter().map(|open| open.join().expect("no panic")).collect()
            });
            assert!(opened.iter().all(Result::is_ok), "{count}: {opened:?}");
            let threads = if with_tables { "1" } else { "0" };
            assert_eq!(schema.read("SELECT count(*)::text FROM marks"), threads, "{count}");
            assert!(schema.read(STATE).starts_with("14 "), "{count}");
        }
    }
}
