//! The order desk in a separate folder, used through processes of `weft`.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const THREAD: &str = "live";
/// The prompt of a process when a call waits for an approval.
const WAITS: &str = "approve exactly this call? [y/n]";
/// A hint for the case that the recording no longer matches the requests.
const ABOUT: &str = "where the desk has changed, record it again: scripts/test-live.sh --record";

#[derive(Debug)]
pub(crate) struct Desk {
    folder: tempfile::TempDir,
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    key: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) made: u64,
    pub(crate) settled: bool,
    /// Tokens read, tokens written, milliseconds.
    pub(crate) usage: (u64, u64, u64),
}

impl Desk {
    pub(crate) fn new(server: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(url) = server {
            let provider = "[providers.llamacpp]\nquirks = [\"tools_as_schema\"]\nurl = ";
            let config = format!("{provider}\"{url}/v1\"\n");
            std::fs::write(folder.path().join("weft.toml"), config).expect("writes");
        }
        Self { folder }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a command in the desk's folder, without the environment of the test.
    fn weft(&self, args: &[&str], record: Option<&Path>) -> Command {
        println!("$ weft {}", args.join(" "));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        let store = format!("sqlite:{}", self.file("weft.db").display());
        command.env_clear().current_dir(self.folder.path()).args(["--store", &store]).args(args);
        if let Some(cassette) = record {
            command.env("WEFT_TEST_RECORD", cassette);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Sends messages to the agent, and kills the process when it waits for an approval.
    pub(crate) fn killed_while_it_waits(&self, model: &str, said: &[&str], record: Option<&Path>) {
        let args = ["chat", "desk", "--thread", THREAD, "--model", model];
        let mut child = self.weft(&args, record).spawn().expect("starts");
        let mut typing = child.stdin.take().expect("a pipe");
        for line in said {
            writeln!(typing, "{line}").expect("it listens");
        }
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let waits = lines.map_while(Result::ok).inspect(|line| println!("  {line}"));
        assert!(
            waits.into_iter().any(|line| line == WAITS),
            "it never asked for an approval; {ABOUT}"
        );
        child.kill().expect("kills");
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), None, "it ended by the kill: {status}");
        println!("  killed");
    }

    /// Approves the waiting call in another process, and returns the text of its answer.
    pub(crate) fn approve(&self, record: Option<&Path>) -> String {
        let mut command = self.weft(&["threads", "resume", THREAD, "--approve"], record);
        let output = command.stderr(Stdio::inherit()).output().expect("runs");
        let said = String::from_utf8(output.stdout).expect("words");
        said.lines().for_each(|line| println!("  {line}"));
        assert!(output.status.success(), "it ended with {}", output.status);
        said.lines().filter(|line| !line.starts_with(['→', '←'])).collect::<Vec<_>>().join("\n")
    }

    /// Reads the journal of the thread.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let args = ["threads", "journal", THREAD, "--json"];
        let output = self.weft(&args, None).output().expect("runs");
        let lines = String::from_utf8(output.stdout).expect("words");
        let records = lines.lines().map(|line| serde_json::from_str(line).expect("a record"));
        records.map(|record: Value| call(&record)).collect()
    }

    /// Returns the number of refunds of the order, and their sum in cents.
    pub(crate) fn refunds(&self) -> (u64, i64) {
        let database = rusqlite::Connection::open(self.file("desk.db")).expect("a database");
        let sql = "SELECT count(*), coalesce(sum(amount_cents), 0) FROM refunds
                   WHERE order_id = 'A1001'";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        database.query_row(sql, [], read).expect("a count")
    }
}

fn call(record: &Value) -> Call {
    let text = |name: &str| record[name].as_str().expect("a text").to_owned();
    let usage = &record["result"]["value"]["usage"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let tokens = &usage["tokens"];
    Call {
        key: text("key"),
        kind: text("kind"),
        name: text("name"),
        made: number(&record["made"]),
        settled: text("state") == "settled",
        usage: (number(&tokens["input"]), number(&tokens["output"]), number(&usage["latency_ms"])),
    }
}
