//! The story of the order desk, in processes that may die at any moment. Each new process is given
//! only the thread's id.

use crate::check::{Bill, Call, Facts, Kill, Kind, Request, Run};
use crate::process::{Ended, Plan, Watch};
use crate::provider::{Provider, number_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use weftwork::sqlite::{Options, SqliteStore};
use weftwork::store::approval::decided;
use weftwork::store::{JournalRead, ReadEvents, ReadRuns, ReadUsage, RunRow, StoreError};
use weftwork::types::event::AiEvent;
use weftwork::types::port::{CallKind, CallRecord, CallState};
use weftwork::types::run::{RunInput, RunStatus};
use weftwork::types::tool::Effect;
use weftwork::types::usage::UsageStatus;
use weftwork::types::{Principal, ThreadId};

/// Task of a process of the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// Ask where the order is.
    Ask,
    /// Ask for the refund.
    Refund,
    /// Approve it.
    Approve,
    /// Take over the run of a process that died.
    TakeOver,
}

impl Act {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Refund => "refund",
            Self::Approve => "approve",
            Self::TakeOver => "take over",
        }
    }
}

/// A story in a folder of its own.
#[derive(Debug)]
pub(crate) struct Story {
    name: String,
    folder: tempfile::TempDir,
    durability: &'static str,
    kills: Vec<Kill>,
}

/// When supersteps are stored.
pub(crate) const DURABILITIES: [&str; 3] = ["sync", "async", "exit"];

/// Contents of the store at some moment.
#[derive(Debug, Default)]
struct Snapshot {
    runs: Vec<RunRow>,
    calls: Vec<CallRecord>,
    events: Vec<Vec<(u64, AiEvent)>>,
    bills: Vec<Bill>,
    decisions: usize,
}

impl Story {
    pub(crate) fn new(name: &str, provider: &Provider, durability: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = &provider.address;
        let config = format!("[providers.far]\nurl = \"http://{address}/{name}/v1\"\n");
        std::fs::write(folder.path().join("weft.toml"), config).expect("writes");
        Self { name: name.to_owned(), folder, durability, kills: Vec::new() }
    }

    /// Returns the next act; `None` when the story is over.
    pub(crate) fn next(&self) -> Option<Act> {
        let runs = self.snapshot().runs;
        let Some(last) = runs.last() else { return Some(Act::Ask) };
        let said = runs.iter().filter(|run| matches!(run.new.input, RunInput::Start { .. }));
        match (last.status, said.count()) {
            (RunStatus::Pending | RunStatus::Running, _) => Some(Act::TakeOver),
            (RunStatus::Interrupted, _) => Some(Act::Approve),
            (RunStatus::Completed, 1) => Some(Act::Refund),
            (RunStatus::Completed, _) => None,
            _ => panic!("a run ended badly: {last:?}\n{}", self.errors()),
        }
    }

    /// Runs one process of the story, and notes what a kill left behind.
    pub(crate) fn play(&mut self, act: Act, plan: Option<Plan>, watch: &mut Watch) -> Ended {
        let mut ended = watch.run(self.command(act), &self.errors_file(), plan);
        match ended.landed {
            Some(landed) => {
                let mut kill = Kill { landed, ..Kill::default() };
                for call in self.snapshot().calls {
                    let key = call.key.0.to_string();
                    match call.state {
                        CallState::Intent => {
                            ended.died_in(call_of(&call).kind);
                            kill.open.insert(key, call.possibly_paid)
                        }
                        CallState::Settled => kill.settled.insert(key, call.made),
                    };
                }
                self.kills.push(kill);
            }
            None => {
                let fine = matches!(ended.status.code(), Some(0 | 3));
                assert!(fine, "{act:?} ended badly: {}\n{}", ended.status, self.errors());
            }
        }
        ended
    }

    fn command(&self, act: Act) -> Command {
        let mut command = self.weft();
        let thread = self.name.as_str();
        let run = ["run", "desk", "--json", "--model", "far:tiny", "--thread", thread, "--input"];
        match act {
            Act::Ask => command.args(run).arg("Where is order A1001?"),
            Act::Refund => command.args(run).arg("Refund order A1001, amount 25."),
            Act::Approve => command.args(["threads", "resume", thread, "--approve", "--json"]),
            Act::TakeOver => command.args(["threads", "resume", thread, "--json"]),
        };
        command.args(["--durability", self.durability]);
        command
    }

    /// The program, in the story's folder and with nothing of our environment.
    fn weft(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        let store = format!("sqlite:{}", self.folder.path().join("weft.db").display());
        command.env_clear().current_dir(self.folder.path()).args(["--store", &store]);
        command
    }

    fn errors_file(&self) -> PathBuf {
        self.folder.path().join("errors.txt")
    }

    /// Returns the error output of the last process.
    fn errors(&self) -> String {
        std::fs::read_to_string(self.errors_file()).unwrap_or_default()
    }

    /// Everything that was seen of a story that is over.
    pub(crate) fn facts(&self, provider: &Provider) -> Facts {
        let snapshot = self.snapshot();
        let runs = snapshot.runs.iter().zip(&snapshot.events);
        let requests = provider.requests().into_iter().filter(|one| one.story == self.name);
        Facts {
            runs: runs.map(|(row, events)| run_of(row, events)).collect(),
            refunds: refunds(&self.folder.path().join("desk.db")),
            decisions: snapshot.decisions,
            roles: self.roles(),
            calls: snapshot.calls.iter().map(call_of).collect(),
            requests: requests
                .map(|one| Request { number: one.number, prompt: one.prompt })
                .collect(),
            bills: snapshot.bills,
            kills: self.kills.clone(),
        }
    }

    /// The roles of the messages of the thread's state.
    fn roles(&self) -> Vec<String> {
        let output = self.weft().args(["threads", "state", &self.name]).output().expect("runs");
        let state: Value = serde_json::from_slice(&output.stdout).expect("a state in JSON");
        let messages = state["messages"].as_array().expect("messages");
        messages.iter().map(|one| one["role"].as_str().expect("a role").to_owned()).collect()
    }

    /// Reads a copy of the store: a process that opens the store itself would tidy up after the
    /// dead one, and leave nothing to do for the next.
    fn snapshot(&self) -> Snapshot {
        let copy = tempfile::tempdir().expect("a folder");
        // The mark of an open store too: a process that is killed while it closes the store leaves it
        // behind without a log.
        for file in ["weft.db", "weft.db-journal", "weft.db-wal", "weft.db-open"] {
            let original = self.folder.path().join(file);
            if original.exists() {
                std::fs::copy(original, copy.path().join(file)).expect("copies");
            }
        }
        let file = copy.path().join("weft.db");
        if !file.exists() {
            return Snapshot::default();
        }
        let thread = ThreadId::new(&self.name).expect("an id");
        let store = SqliteStore::open(&file, &Options::default()).expect("opens after a kill");
        block_on(Snapshot::read(&store, &thread)).expect("reads")
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

impl Snapshot {
    async fn read(store: &SqliteStore, thread: &ThreadId) -> Result<Self, StoreError> {
        let who = Principal::local();
        let runs = match store.runs(&who, thread).await {
            Err(StoreError::NotFound { .. }) => return Ok(Self::default()),
            runs => runs?,
        };
        let mut events = Vec::new();
        for run in &runs {
            let stored = store.events(&who, &run.new.at, 0, usize::MAX).await?;
            events.push(stored.into_iter().map(|one| (one.seq, one.event)).collect());
        }
        let usage = store.usage_of_thread(&who, thread).await?;
        let attempts = usage.into_iter().filter(|row| row.fact.attempt > 0);
        let bills = attempts.map(|row| Bill {
            prompt: row.fact.prompt_hash.to_string(),
            answered: row.fact.status == UsageStatus::Ok,
        });
        let bills = bills.collect();
        let decisions = decided(store, &who, thread).await?.len();
        Ok(Self { runs, calls: store.calls(&who, thread).await?, events, bills, decisions })
    }
}

fn run_of(row: &RunRow, events: &[(u64, AiEvent)]) -> Run {
    let done = events.iter().enumerate();
    let done = done.filter(|(_, (_, event))| matches!(event, AiEvent::Done { .. }));
    Run {
        id: row.new.at.run.to_string(),
        ended: row.status.is_final() && row.outcome.is_some(),
        seqs: events.iter().map(|(seq, _)| *seq).collect(),
        done_at: done.map(|(at, _)| at).collect(),
    }
}

fn call_of(record: &CallRecord) -> Call {
    let kind = if record.kind == CallKind::Model { Kind::Model } else { Kind::Tool };
    let answer = record.result.as_ref().filter(|_| kind == Kind::Model);
    let id = answer.map(|result| {
        let id = result.value["response"]["provider_call_id"].as_str();
        number_of(id.expect("the id of a request"))
    });
    Call {
        key: record.key.0.to_string(),
        kind,
        reads: record.effect == Effect::ReadOnly,
        settled: record.state == CallState::Settled,
        made: record.made,
        possibly_paid: record.possibly_paid,
        answer_of: id,
    }
}

fn refunds(file: &Path) -> u64 {
    let database = rusqlite::Connection::open(file).expect("the desk's database");
    let sql = "SELECT count(*) FROM refunds WHERE order_id = 'A1001' AND amount_cents = 2500";
    database.query_row(sql, [], |row| row.get(0)).expect("a count")
}

/// Number of ticks of each act, and the time to a process's first tick, without kills.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measure {
    pub(crate) ticks: BTreeMap<Act, u64>,
    pub(crate) start_up_us: u64,
}

impl Measure {
    /// Plays a story without kills.
    pub(crate) fn take(story: &mut Story, watch: &mut Watch) -> Self {
        let mut measure = Self { start_up_us: u64::MAX, ..Self::default() };
        while let Some(act) = story.next() {
            let ended = story.play(act, None, watch);
            measure.ticks.insert(act, ended.ticks);
            let start_up = u64::try_from(ended.start_up.as_micros()).expect("a short time");
            measure.start_up_us = measure.start_up_us.min(start_up);
        }
        measure
    }
}
