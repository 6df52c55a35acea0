//! Kills a committing process repeatedly. Every acknowledged commit is present, complete and
//! without gaps, and the next process takes over its runs immediately.

use crate::support::{
    at, begin, block_on, checkpoints, commit_of, custom_event, new_run, numbers, register,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{Claim, Commit, StoredEvent};
use weftwork_store::{ReadEvents, ReadRuns, ReadThreads, WriteRuns};
use weftwork_types::run::RunOutcome;
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Kills in the fast tier, and in the full one.
const KILLS: (usize, usize) = (15, 40);
const WRITERS: usize = 3;
/// Environment variable with the file of the process that is killed.
const FILE: &str = "WEFT_TEST_KILL_FILE";
const ROUND: &str = "WEFT_TEST_KILL_ROUND";

fn options(round: usize) -> Options {
    let durability = if round.is_multiple_of(4) { Durability::Full } else { Durability::Normal };
    Options { durability, ..Options::default() }
}

fn body(number: u128) -> Vec<u8> {
    let size = usize::try_from(number * 37 % 6_000).expect("a small number");
    number.to_be_bytes().into_iter().cycle().take(size).collect()
}

/// Checkpoint `n` is committed together with the events `2n - 1` and `2n`.
fn commit(number: u128) -> Commit {
    let mut commit = commit_of(number, body(number));
    commit.events.push(custom_event(format!("end of {number}")));
    commit
}

/// Body of the killed process; passes immediately in any other process.
#[test]
fn writer_process() {
    let (Ok(file), Ok(round)) = (std::env::var(FILE), std::env::var(ROUND)) else { return };
    let round: usize = round.parse().expect("a number");
    let store = SqliteStore::open(file, &options(round)).expect("opens");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || write_on(store, writer, round));
        }
    });
}

/// Takes over the run of the thread and commits until it is killed. Every acknowledged commit is
/// printed.
fn write_on(store: &SqliteStore, writer: usize, round: usize) {
    let who = Principal::local();
    let worker = register(store, &format!("w{writer}-{round}"));
    let thread = format!("t{writer}");
    let mut claim: Option<Claim> = None;
    let mut number = numbers(store, &thread).last().copied().unwrap_or(0);
    loop {
        let held = claim.take().unwrap_or_else(|| {
            let id = ThreadId::new(&thread).expect("an id");
            let open = block_on(store.runs(&who, &id)).unwrap_or_default().pop();
            let run = open.filter(|row| !row.status.is_final()).map(|row| row.new.at);
            let run = run.unwrap_or_else(|| {
                let new = new_run(&thread, &format!("r{writer}-{}", number + 1));
                block_on(store.create_run(&who, new, BTreeMap::new())).expect("a run").new.at
            });
            block_on(store.claim(&who, &run, &worker, Timestamp(1))).expect("claims").0
        });
        number += 1;
        let mut next = commit(number);
        if number.is_multiple_of(10) {
            next.finish = Some(RunOutcome::cancelled());
        } else {
            claim = Some(held.clone());
        }
        block_on(store.commit(&who, &held, next)).expect("commits");
        writeln!(std::io::stdout(), "acknowledged {writer} {number}").expect("the parent listens");
    }
}

fn spawn(file: &Path, round: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "kill::writer_process", "--nocapture"]);
    command.env(FILE, file).env(ROUND, round.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.spawn().expect("starts")
}

/// Kills the process after some acknowledgements and a short delay, and adds the acknowledged
/// commits to `known`.
fn run_and_kill(file: &Path, round: usize, random: &mut Random, known: &mut [u128; WRITERS]) {
    let mut child = spawn(file, round);
    let stdout = child.stdout.take().expect("a pipe");
    let mut kill_after = random.below(40);
    let mut note = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "acknowledged").skip(1);
        if let (Some(writer), Some(number)) = (words.next(), words.next()) {
            let writer: usize = writer.parse().expect("a writer");
            known[writer] = known[writer].max(number.parse().expect("a number"));
            return true;
        }
        false
    };
    for line in BufReader::new(stdout).lines() {
        let told = note(&line.expect("a line"));
        if told && kill_after == 0 {
            for _ in 0..random.below(200_000) {
                std::hint::spin_loop();
            }
            child.kill().expect("kills");
        }
        kill_after = kill_after.saturating_sub(usize::from(told));
    }
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), None, "it ended by the kill, not by itself: {status}");
}

/// Checks the whole content, and treats it as acknowledged from then on.
fn check(file: &Path, round: usize, known: &mut [u128; WRITERS]) {
    let store = SqliteStore::open(file, &options(round)).expect("opens after a kill");
    let who = Principal::local();
    for (writer, known) in known.iter_mut().enumerate() {
        let id = ThreadId::new(format!("t{writer}")).expect("an id");
        let Ok(runs) = block_on(store.runs(&who, &id)) else {
            assert_eq!(*known, 0, "thread {id} is lost");
            continue;
        };
        let kept = checkpoints(&store, id.as_str());
        let last = kept.len() as u128;
        // A commit may be present whose acknowledgement was lost with the process.
        assert!((*known..=*known + 1).contains(&last), "{id}: {known} acknowledged, {last} there");
        *known = last;
        let head = block_on(store.thread(&who, &id)).expect("the thread").head;
        assert_eq!(head.map_or(0, |head| head.0), last, "{id}");
        for (number, kept) in (1..).zip(kept) {
            assert_eq!(kept, (number, body(number)), "{id}");
        }
        let mut events: Vec<StoredEvent> = Vec::new();
        for run in &runs {
            let log = block_on(store.events(&who, &run.new.at, 0, usize::MAX)).expect("events");
            let numbers: Vec<u64> = log.iter().map(|event| event.seq).collect();
            assert_eq!(numbers, Vec::from_iter(1..=log.len() as u64), "gapless");
            events.extend(log);
        }
        let expected: Vec<_> = (1..=last).flat_map(|number| commit(number).events).collect();
        let found: Vec<_> = events.into_iter().map(|event| event.event).collect();
        assert_eq!(found, expected, "each commit came whole");
        let open: Vec<_> = runs.iter().filter(|run| !run.status.is_final()).collect();
        let orphans = block_on(store.orphans(Timestamp(1), 99)).expect("orphans");
        let ours = orphans.iter().filter(|(_, run)| run.new.at.thread == id).count();
        assert_eq!(ours, open.len(), "what the dead process had is free at once");
    }
}

#[test]
fn acknowledged_commits_outlive_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("weft.db");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut known = [0; WRITERS];
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let kills = if full { KILLS.1 } else { KILLS.0 };
    for round in 0..kills {
        run_and_kill(&file, round, &mut random, &mut known);
        check(&file, round, &mut known);
    }
    println!("{kills} kills, commits: {known:?}");
    assert!(known.iter().all(|known| *known > 0));
    // The file accepts new work.
    let store = SqliteStore::open(&file, &Options::default()).expect("opens");
    let claim = begin(&store, "fresh", "fresh");
    block_on(store.commit(&Principal::local(), &claim, commit(1))).expect("commits");
    assert_eq!(claim.at, at("fresh", "fresh"));
}

/// A random number generator with a fixed sequence: xorshift64. Kills occur at the same points in
/// each run, as far as the machine allows.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("below a usize")
    }
}
