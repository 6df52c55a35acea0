//! Races of two processes for one thread: they start, answer, update or cancel it at the same
//! moment.
//!
//! At most one run of a thread is executed at any time, no effect happens twice, and each process
//! that loses gets an error code. Nodes record outside of the store when they begin and end.

#[path = "../../it/database.rs"]
mod database;
mod log;
mod racer;

use crate::random::Random;
use log::{Record, faults};
use racer::{Act, Answer, Claims, Place, Racer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weftwork::graph::SystemClock;
use weftwork::types::port::Clock;

/// Draws another series of races.
const SEED: &str = "WEFT_TEST_SEED";
/// Asks for another number of races.
const RACES: &str = "WEFT_RACES";
/// Races until runs without claims must have overlapped.
const PATIENCE: u64 = 200;

/// Returns the number of races: few, a thousand when the full figures are requested, or the number
/// that is named.
fn races_wanted() -> u64 {
    let named = std::env::var(RACES).map(|races| races.parse().expect("a number"));
    let full = std::env::var("WEFT_FAULTS").is_ok_and(|faults| faults == "full");
    named.unwrap_or(if full { 1_000 } else { 20 })
}

/// Two processes on one store.
struct Track {
    folder: tempfile::TempDir,
    racers: [Racer; 2],
    random: Random,
    seed: u64,
}

/// Counts over all races.
#[derive(Debug, Default)]
struct Tally {
    won: u64,
    /// Losers by error code.
    lost: BTreeMap<String, u64>,
    both_won: u64,
    none_won: u64,
    ends: BTreeMap<String, u64>,
    pairs: BTreeMap<String, u64>,
}

impl Track {
    fn new(place: impl FnOnce(&Path) -> Place, claims: Claims) -> Self {
        let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a number"));
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        let log = folder.path().join("nodes.log");
        let racers = [(); 2].map(|()| Racer::start(&place, &log, claims));
        Self { folder, racers, random: Random::new(seed, 3), seed }
    }

    /// Lets both processes act on one thread at the same moment.
    fn race(&mut self, thread: &str, acts: [Act; 2]) -> [Answer; 2] {
        // Late enough for both to have read it.
        let start = SystemClock::new().now().0 + 3;
        for (racer, act) in self.racers.iter_mut().zip(acts) {
            racer.ask(thread, act, start);
        }
        self.racers.each_mut().map(Racer::answer)
    }

    /// Records of the nodes of a thread.
    fn records(&self, thread: &str) -> Vec<Record> {
        log::read(&self.folder.path().join("nodes.log"), thread)
    }

    /// A race on a thread that is new or waits for an answer.
    fn run(&mut self, number: u64, tally: &mut Tally) -> Vec<String> {
        let thread = format!("race-{number}");
        let mut accepted = Vec::new();
        // Two of three threads wait for an answer.
        if self.random.below(3) > 0 {
            self.racers[0].ask(&thread, Act::Start, 0);
            let asked = self.racers[0].answer();
            assert_eq!(asked.result, Ok("interrupted".to_owned()), "{thread}");
            accepted.push(Act::Start);
        }
        let acts = [(); 2].map(|()| Act::ALL[self.random.below(Act::ALL.len() as u64) as usize]);
        let answers = self.race(&thread, acts);
        let mut names = acts.map(Act::name);
        names.sort_unstable();
        *tally.pairs.entry(names.join(" and ")).or_default() += 1;
        let winners = answers.iter().filter(|answer| answer.result.is_ok()).count();
        tally.both_won += u64::from(winners == 2);
        tally.none_won += u64::from(winners == 0);
        for (act, answer) in acts.into_iter().zip(&answers) {
            match &answer.result {
                Ok(end) => {
                    tally.won += 1;
                    *tally.ends.entry(format!("{}: {end}", act.name())).or_default() += 1;
                    accepted.push(act);
                }
                Err(code) => *tally.lost.entry(code.clone()).or_default() += 1,
            }
        }
        let mut found = faults(&self.records(&thread), &accepted);
        found.extend(answers.iter().filter_map(|answer| {
            let Err(code) = &answer.result else { return None };
            let typed = code.len() == 5 && code.starts_with("W0");
            (!typed).then(|| format!("a loser got `{code}`"))
        }));
        found.into_iter().map(|found| format!("{thread} {acts:?} {answers:?}: {found}")).collect()
    }
}

fn report(name: &str, races: u64, tally: &Tally, seconds: f64) {
    let lost: u64 = tally.lost.values().sum();
    let mut figures = format!(
        "{name}: {races} races of two processes, {} winners, {lost} losers ({:?}), both won one \
         after the other in {}, none in {}; 0 runs overlapped, 0 effects doubled; {seconds:.1} s\n",
        tally.won, tally.lost, tally.both_won, tally.none_won
    );
    for (pair, count) in &tally.pairs {
        writeln!(figures, "  {pair}: {count}").expect("a string takes all");
    }
    writeln!(figures, "  ends: {:?}", tally.ends).expect("a string takes all");
    print!("{figures}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.log"));
    std::fs::write(file, figures).expect("the log can be written");
}

fn races(name: &str, place: impl FnOnce(&Path) -> Place) {
    let mut track = Track::new(place, Claims::On);
    let mut tally = Tally::default();
    let races = races_wanted();
    let clock = SystemClock::new();
    let mut found = Vec::new();
    for number in 0..races {
        found.extend(track.run(number, &mut tally));
    }
    assert!(found.is_empty(), "seed {}: {found:#?}", track.seed);
    assert!(tally.won > 0 && !tally.lost.is_empty(), "{tally:?}");
    report(name, races, &tally, clock.elapsed().as_secs_f64());
}

#[test]
fn two_processes_race_for_a_thread_over_sqlite() {
    races("races-sqlite", |folder| Place::Sqlite(folder.join("races.db")));
}

#[test]
fn two_processes_race_for_a_thread_over_postgres() {
    races("races-postgres", |_| Place::Postgres(database::fresh()));
}

#[test]
fn without_claims_the_check_finds_runs_that_overlap() {
    let sqlite = |folder: &Path| Place::Sqlite(folder.join("races.db"));
    let mut track = Track::new(sqlite, Claims::Off);
    for number in 0..PATIENCE {
        let thread = format!("race-{number}");
        let answers = track.race(&thread, [Act::Start; 2]);
        let accepted: Vec<_> =
            answers.iter().filter(|a| a.result.is_ok()).map(|_| Act::Start).collect();
        let found = faults(&track.records(&thread), &accepted);
        if found.iter().any(|found| found.contains("overlap")) {
            println!("found in race {number}: {found:?}");
            return;
        }
    }
    panic!("{PATIENCE} races without claims, and no runs overlapped");
}
