//! Random graphs under a seeded scheduler with a virtual clock.
//!
//! A seed makes a graph; several ways of running it, each with an order of events of its own, must
//! come to what a plain model of it comes to. A seed that breaks a law prints itself, and
//! `WEFT_SEED=17 cargo nextest run -p weftwork-graph --no-capture sim` runs it alone and shows the
//! graph. `WEFT_SIM_SEEDS` says how many seeds are run.
#![expect(clippy::print_stdout, reason = "what a seed did is told to those who look")]

mod build;
mod laws;
mod logic;
mod model;
mod saver;
mod script;
mod spec;

use model::{Conflict, Model, Point};
use script::{Crashes, Manner, Stage};
use spec::Spec;
use std::fmt;
use std::sync::Arc;
use weftwork_graph::Durability;
use weftwork_graph::run_loop::Source;
use weftwork_testkit::sim::Draw;

/// Seeds that `make test` runs, and those of the full tier.
const SEEDS: (u64, u64) = (60, 4_000);
const ROUNDS: usize = 2;

/// A law that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Broken {
    law: &'static str,
    what: String,
}

impl Broken {
    fn new(law: &'static str, what: impl Into<String>) -> Self {
        Self { law, what: what.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.what)
    }
}

/// Expected result of a graph.
struct Expected {
    points: Vec<Point>,
    ends: Result<(), Conflict>,
}

impl Expected {
    fn of(spec: &Spec) -> Self {
        let mut model = Model::new(spec);
        let ends = (0..ROUNDS).try_for_each(|round| model.round(&logic::input(round)));
        Self { points: model.points, ends }
    }

    fn check(&self, found: &[Point], output: Option<&serde_json::Value>) -> Result<(), Broken> {
        let difference = difference(&self.points, found);
        difference.map_err(|what| Broken::new("a thread comes to what its graph says", what))?;
        self.check_output(output)
    }

    fn check_output(&self, output: Option<&serde_json::Value>) -> Result<(), Broken> {
        let expected = self.points.last().map(|point| &point.values).filter(|_| self.ends.is_ok());
        if output == expected {
            return Ok(());
        }
        let point = |values: Option<&serde_json::Value>| Point {
            values: values.cloned().unwrap_or_default(),
            next: Vec::new(),
        };
        let what = format!("the output: {}", point(expected).difference(&point(output)));
        Err(Broken::new("a thread comes to what its graph says", what))
    }
}

/// The ways in which the graph of a seed may be run.
fn manners(seed: u64, spec: &Spec, expected: &Expected) -> Vec<Manner> {
    let mut draw = Draw::new(seed ^ 0x5eed);
    let mut manner = |name| Manner {
        name,
        seed: draw.bits(),
        crashes: Crashes::Never,
        slow: false,
        stops: false,
        durability: Durability::Sync,
    };
    let mut all = vec![
        manner("straight"),
        Manner { slow: true, ..manner("with a slow saver") },
        Manner { stops: true, ..manner("with stops") },
        Manner { crashes: Crashes::Sometimes, slow: true, ..manner("with crashes") },
        Manner { crashes: Crashes::Sometimes, stops: true, ..manner("with crashes and stops") },
        Manner { durability: Durability::Async, ..manner("keeping behind") },
        Manner { durability: Durability::Async, slow: true, ..manner("keeping behind, slowly") },
        Manner {
            crashes: Crashes::Sometimes,
            durability: Durability::Async,
            slow: true,
            stops: true,
            ..manner("keeping behind with crashes and stops")
        },
    ];
    // In the semantics of the reference half of a superstep that cannot be closed is kept then.
    let half = spec.lenient && expected.ends.is_err();
    if !spec.has_own_state_within() && !half {
        all.push(Manner { durability: Durability::Exit, ..manner("keeping at the end") });
    }
    all
}

/// Runs the graph of a seed straight, and in half of the other manners; returns how many runs it
/// took.
fn check(seed: u64) -> Result<usize, Broken> {
    let spec = Arc::new(Spec::draw(seed));
    let expected = Expected::of(&spec);
    let mut runs = 0;
    let all = manners(seed, &spec, &expected).into_iter().zip(0..);
    for (manner, _) in all.filter(|(_, index)| *index == 0 || (seed + index).is_multiple_of(2)) {
        let played = check_manner(&spec, &expected, manner);
        let within =
            |broken: Broken| Broken { what: format!("{}: {}", manner.name, broken.what), ..broken };
        runs += played.map_err(within)?;
    }
    Ok(runs)
}

fn check_manner(spec: &Arc<Spec>, expected: &Expected, manner: Manner) -> Result<usize, Broken> {
    let loud = number("WEFT_SEED").is_some();
    if loud && manner.name == "straight" {
        println!("{spec:#?}");
    }
    let mut stage = Stage::new(spec, manner);
    let told = stage.play(ROUNDS);
    if loud {
        stage.show();
    }
    let told = told?;
    if manner.durability == Durability::Exit {
        expected.check_output(told.output.as_ref())?;
    } else {
        let found: Vec<Point> =
            stage.checkpointer.outermost().into_iter().map(|kept| kept.point).collect();
        expected.check(&found, told.output.as_ref())?;
    }
    laws::check(spec, &stage, manner.durability)?;
    // The state that graphs within keep of their own is that of the newest branch.
    let whole = !spec.has_own_state_within();
    if whole && manner.durability != Durability::Exit && expected.ends.is_ok() {
        check_replay(&mut stage, manner)?;
        laws::check(spec, &stage, manner.durability)?;
    }
    Ok(told.runs)
}

/// Checks that the tasks due at an old checkpoint have the same result when they run again.
fn check_replay(stage: &mut Stage, manner: Manner) -> Result<(), Broken> {
    let kept = stage.checkpointer.outermost();
    let mut draw = Draw::new(manner.seed ^ 0xf0f0);
    let open: Vec<usize> = (0..kept.len()).filter(|n| !kept[*n].point.next.is_empty()).collect();
    let Some(from) = draw.pick(&open).copied() else { return Ok(()) };
    let rest = kept[from..].iter().skip(1);
    let rest = rest.take_while(|kept| kept.source == Source::Loop);
    let expected: Vec<Point> = rest.map(|kept| kept.point.clone()).collect();
    stage.replay(kept[from].id)?;
    let again = stage.checkpointer.outermost().into_iter().skip(kept.len());
    let again = again.filter(|kept| kept.source == Source::Loop);
    let found: Vec<Point> = again.map(|kept| kept.point).collect();
    difference(&expected, &found).map_err(|what| {
        Broken::new("a replay comes to the same", format!("from checkpoint {from}: {what}"))
    })
}

/// Where two threads part.
fn difference(expected: &[Point], found: &[Point]) -> Result<(), String> {
    let pairs = expected.iter().zip(found).enumerate();
    if let Some((step, (expected, found))) = pairs.into_iter().find(|(_, (a, b))| a != b) {
        return Err(format!("checkpoint {step}: expected {}", expected.difference(found)));
    }
    let expected = expected.len();
    let found = found.len();
    if expected == found {
        Ok(())
    } else {
        Err(format!("expected {expected} checkpoints, found {found}"))
    }
}

/// The number in an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = number("WEFT_SEED") {
        return seed..seed + 1;
    }
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let usual = if full { SEEDS.1 } else { SEEDS.0 };
    0..number("WEFT_SIM_SEEDS").unwrap_or(usual)
}

/// Names a seed that breaks a law, also when it does so by a panic.
struct Naming(u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("WEFT_SEED={} cargo nextest run -p weftwork-graph --no-capture sim", self.0);
        }
    }
}

/// Checks the seeds of one half.
fn check_half(half: u64) {
    let mut runs = 0;
    let mut broken = Vec::new();
    let seeds: Vec<u64> = seeds().filter(|seed| seed % 2 == half).collect();
    for seed in &seeds {
        let _naming = Naming(*seed);
        match check(*seed) {
            Ok(taken) => runs += taken,
            Err(found) => broken.push(format!("\nWEFT_SEED={seed}: {found}")),
        }
    }
    println!("{} seeds, {runs} runs", seeds.len());
    assert!(broken.is_empty(), "{} seeds break a law:{}", broken.len(), broken.concat());
}

#[test]
fn even_seeds_keep_every_law() {
    check_half(0);
}

#[test]
fn odd_seeds_keep_every_law() {
    check_half(1);
}

#[test]
fn a_crash_at_any_poll_changes_nothing() {
    let seeds = seeds();
    let stride = if number("WEFT_SEED").is_some() { 1 } else { 30 };
    for seed in seeds.step_by(stride) {
        let _naming = Naming(seed);
        let spec = Arc::new(Spec::draw(seed));
        let expected = Expected::of(&spec);
        let slow = manners(seed, &spec, &expected).into_iter();
        let slow = slow.filter(|manner| manner.slow && manner.crashes == Crashes::Never);
        for manner in slow {
            let polls = Stage::new(&spec, manner).play(1).map_or(0, |told| told.polls);
            for poll in 0..polls.min(150) {
                let cut = Manner { crashes: Crashes::At(poll), ..manner };
                if let Err(broken) = check_manner(&spec, &expected, cut) {
                    panic!("seed {seed}, {}, cut after {poll} polls: {broken}", manner.name);
                }
            }
        }
    }
}
