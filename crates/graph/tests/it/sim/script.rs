//! Takes a graph through its rounds of input, whatever happens on the way: crashes, failures,
//! questions, stops, limits.

use super::Broken;
use super::build::{self, Probe, Scene};
use super::logic;
use super::saver::Watching;
use super::spec::{Fate, Spec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_graph::run_loop::Source;
use weftwork_graph::run_loop::{Checkpointer, Host, Start, StartCommand, StateQuery};
use weftwork_graph::{
    Answers, CompiledGraph, Durability, Modes, RunOutcome, RuntimeError, Stops, StreamEvent,
};
use weftwork_testkit::World;
use weftwork_testkit::sim::{Draw, Driven};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{CheckpointId, InterruptId};

/// Runs that a script may take.
const RUNS_MAX: usize = 1_000;
/// Runs in a row that may not be able to close a superstep.
const CONFLICTS_MAX: usize = 3;
/// Crashes that a script may have.
const CRASHES_MAX: usize = 6;
/// The code of a superstep that cannot be closed.
const CONFLICT: &str = "W0102";
const THREAD: &str = "t";

/// Conditions under which a graph runs through its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) name: &'static str,
    /// Seed of the order of events.
    pub(super) seed: u64,
    pub(super) crashes: Crashes,
    /// `true` if the checkpointer takes its time.
    pub(super) slow: bool,
    /// `true` if runs have step limits, and stop before and after nodes.
    pub(super) stops: bool,
    pub(super) durability: Durability,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crashes {
    Never,
    Sometimes,
    /// The first run is cut off after so many polls.
    At(u64),
}

/// Result of a script.
#[derive(Debug)]
pub(super) struct Told {
    /// The output of the last round; none when a superstep cannot be closed.
    pub(super) output: Option<Value>,
    pub(super) polls: u64,
    pub(super) runs: usize,
}

/// A thread and what it runs on.
pub(super) struct Stage {
    pub(super) graph: CompiledGraph,
    pub(super) checkpointer: Arc<Watching>,
    pub(super) probe: Arc<Probe>,
    world: World,
    draw: Draw,
    manner: Manner,
    nodes: Vec<String>,
    lenient: bool,
    /// `true` if the graph has error handlers.
    handles: bool,
    /// `true` if the stage prints the events.
    loud: bool,
    crashes: usize,
    pub(super) runs: usize,
    /// Number of writes when a run last stopped at a node.
    stopped_at: Option<usize>,
    /// Questions that the next run answers by id.
    given: BTreeSet<InterruptId>,
}

type Ended = Result<RunOutcome, RuntimeError>;

impl Stage {
    pub(super) fn new(spec: &Arc<Spec>, manner: Manner) -> Self {
        let mut draw = Draw::new(manner.seed);
        let world = World::new(draw.bits());
        let probe = Arc::new(Probe::default());
        let scene = Scene { world: world.clone(), probe: Arc::clone(&probe), keeps: true };
        let checkpointer = Watching::new(&world, &probe, manner.slow, draw.split());
        Self {
            graph: build::graph("outer", spec, &scene),
            checkpointer,
            probe,
            world,
            draw,
            manner,
            nodes: spec.nodes.iter().map(|node| node.name.clone()).collect(),
            lenient: spec.lenient,
            handles: spec.nodes.iter().any(|node| node.fate == Fate::Handled),
            loud: super::number("WEFT_SEED").is_some(),
            crashes: 0,
            runs: 0,
            stopped_at: None,
            given: BTreeSet::new(),
        }
    }

    /// Takes the thread through so many rounds.
    pub(super) fn play(&mut self, rounds: usize) -> Result<Told, Broken> {
        let mut output = None;
        for round in 0..rounds {
            output = self.play_out(Start::Input(logic::input(round)), None, round + 1)?;
            if output.is_none() {
                break;
            }
        }
        Ok(Told { output, polls: self.world.polls(), runs: self.runs })
    }

    /// Tells what was kept.
    pub(super) fn show(&self) {
        for (place, kept) in self.checkpointer.kept().iter() {
            println!("{}: checkpoints of `{}`", self.manner.name, place.ns);
            for one in kept {
                println!("  {} step {}: {:?}", one.id, one.step, one.point);
            }
        }
    }

    /// Runs what was due at an old checkpoint again, to its end.
    pub(super) fn replay(&mut self, from: CheckpointId) -> Result<Option<Value>, Broken> {
        self.manner.crashes = Crashes::Never;
        self.play_out(Start::Continue, Some(from), 0)
    }

    fn play_out(
        &mut self,
        start: Start,
        mut from: Option<CheckpointId>,
        inputs: usize,
    ) -> Result<Option<Value>, Broken> {
        let mut conflicts = 0;
        let mut start = start;
        loop {
            self.runs += 1;
            if self.runs > RUNS_MAX {
                return Err(Broken::new("a thread comes to its end", "it takes too many runs"));
            }
            let goes_on = matches!(start, Start::Continue);
            let shown = if self.loud { format!("{start:?}") } else { String::new() };
            let ended = self.run_once(start, from.take())?;
            if self.loud {
                println!("{}: {shown} -> {ended:?}", self.manner.name);
            }
            if let Some(Err(error)) = &ended {
                let code = error.fault().code;
                conflicts += usize::from(code == CONFLICT);
                if ![CONFLICT, "W0109"].contains(&code.as_str()) {
                    return Err(Broken::new("only nodes fail", format!("{code}: {error}")));
                }
            }
            start = match ended {
                None => self.go_on(inputs),
                Some(Ok(RunOutcome::Completed { output })) => return Ok(Some(output)),
                Some(Ok(RunOutcome::Interrupted { questions: interrupts, .. }))
                    if interrupts.is_empty() =>
                {
                    self.check_progress(goes_on)?;
                    Start::Continue
                }
                Some(Ok(RunOutcome::Interrupted { questions: interrupts, .. })) => {
                    self.answers(&interrupts)
                }
                Some(Ok(_)) => Start::Continue,
                Some(Err(_)) if conflicts >= CONFLICTS_MAX => return Ok(None),
                Some(Err(_)) => self.go_on(inputs),
            };
        }
    }

    /// Goes on after a crash or a failure; with the input again when that was not kept.
    fn go_on(&self, inputs: usize) -> Start {
        if self.manner.durability == Durability::Exit {
            // The input is not kept, what came of it is.
            return Start::Continue;
        }
        let kept = self.checkpointer.outermost();
        let taken = kept.iter().filter(|kept| kept.source == Source::Input).count();
        match inputs.checked_sub(1) {
            Some(round) if taken < inputs => Start::Input(logic::input(round)),
            _ => Start::Continue,
        }
    }

    /// A run that goes on from a stop runs something before it stops again.
    fn check_progress(&mut self, goes_on: bool) -> Result<(), Broken> {
        let now = self.checkpointer.changes();
        let stood = self.stopped_at.replace(now) == Some(now);
        if goes_on && stood && self.manner.durability != Durability::Exit {
            return Err(Broken::new("a stop holds once", "a run that went on stopped again"));
        }
        Ok(())
    }

    /// Answers some of the questions, or all.
    fn answers(&mut self, open: &[Interrupt]) -> Start {
        let answer = |interrupt: &Interrupt| logic::answer(&build::asked(interrupt));
        // In the semantics of the reference an answer without an id stays on record until another
        // one comes, and is given to other questions too.
        let one = open.len() == 1 && !self.lenient && self.draw.chance(50);
        let resume = if one {
            Answers::One(answer(&open[0]))
        } else {
            let mut chosen = self.draw.some(open, 60);
            if chosen.is_empty() {
                chosen = open.to_vec();
            }
            self.given = chosen.iter().map(|one| one.id).collect();
            Answers::ById(chosen.iter().map(|one| (one.id, answer(one))).collect())
        };
        Start::Command(StartCommand { resume: Some(resume), ..StartCommand::default() })
    }

    /// Runs the graph once; `None` if the run was cut off.
    fn run_once(
        &mut self,
        start: Start,
        from: Option<CheckpointId>,
    ) -> Result<Option<Ended>, Broken> {
        let given = std::mem::take(&mut self.given);
        let saver: Arc<dyn Checkpointer> = self.checkpointer.clone();
        let host = Host::new().with_checkpointer(saver).with_clock(Arc::new(self.world.clone()));
        let mut run = self.graph.run(&host, start).thread(THREAD);
        run = run.durability(self.manner.durability);
        if let Some(from) = from {
            run = run.at(from);
        }
        if self.manner.stops {
            if self.draw.chance(40) {
                run = run.step_limit([1, 1, 2, 3][self.draw.below(4)]);
            }
            if self.draw.chance(30) {
                run = run.interrupt_before(Stops::at(self.draw.some(&self.nodes, 40)));
            }
            if self.draw.chance(30) {
                run = run.interrupt_after(Stops::at(self.draw.some(&self.nodes, 40)));
            }
        }
        let polls = self.cut_after();
        let told = self.draw.chance(50);
        let saver = Arc::clone(&self.checkpointer);
        let probe = Arc::clone(&self.probe);
        let keeps = self.manner.durability != Durability::Exit;
        let idle = || {
            // What finished is kept before the run waits for anything but its saver.
            if keeps && !saver.is_busy() {
                probe.keep_fresh();
            }
        };
        let cut = self.checkpointer.cut();
        let driven = if told {
            self.world.drive(Self::streamed(run), polls, idle)
        } else {
            let quiet = async move { (run.outcome().await, Vec::new()) };
            self.world.drive(quiet, polls, idle)
        };
        match driven {
            Driven::Ended((ended, events)) => {
                // A failure cuts off graphs side by side with it, also while they keep something.
                let exit = self.manner.durability == Durability::Exit;
                if self.checkpointer.cut() == cut && !exit {
                    self.probe.keep_fresh();
                }
                self.probe.forget_fresh();
                if told {
                    self.check_told(&host, &ended, &events)?;
                }
                self.check_questions(&host, &ended, &given)?;
                Ok(Some(ended))
            }
            Driven::Cut => {
                self.crashes += 1;
                self.probe.forget_fresh();
                Ok(None)
            }
            Driven::Stuck => Err(Broken::new("a run never hangs", "it waits for nothing")),
        }
    }

    fn cut_after(&mut self) -> Option<u64> {
        match self.manner.crashes {
            Crashes::Never => None,
            Crashes::At(polls) => Some(polls).filter(|_| self.runs == 1),
            Crashes::Sometimes => {
                let cuts = self.crashes < CRASHES_MAX && self.draw.chance(60);
                let longest = if self.draw.chance(50) { 12 } else { 60 };
                let polls = u64::try_from(self.draw.below(longest)).unwrap_or_default();
                Some(polls).filter(|_| cuts)
            }
        }
    }

    async fn streamed(run: weftwork_graph::run_loop::Run) -> (Ended, Vec<Value>) {
        let mut stream = run.modes(Modes::VALUES | Modes::UPDATES | Modes::TASKS).stream();
        let mut values = Vec::new();
        while let Some(item) = stream.next().await {
            if let (true, StreamEvent::Values { values: told, .. }) =
                (item.ns.is_empty(), item.event)
            {
                values.push(told);
            }
        }
        let ended = stream.outcome().cloned().expect("the stream has ended");
        (ended, values)
    }

    /// The questions at which a run ended are those that the state lists, and none of them has taken
    /// its answer in this run. In the semantics of the reference both are otherwise.
    fn check_questions(
        &self,
        host: &Host,
        ended: &Ended,
        given: &BTreeSet<InterruptId>,
    ) -> Result<(), Broken> {
        let Ok(RunOutcome::Interrupted { questions, .. }) = ended else { return Ok(()) };
        if self.lenient || questions.is_empty() {
            return Ok(());
        }
        let ids = |all: &[Interrupt]| all.iter().map(|one| one.id).collect::<BTreeSet<_>>();
        let asked = ids(questions);
        if let Some(id) = asked.intersection(given).next() {
            return Err(Broken::new("a question is answered once", format!("{id} is asked again")));
        }
        let law = "open questions are listed";
        let at = StateQuery::thread(THREAD);
        let state = self.graph.state(host, &at, false);
        match self.world.drive(state, None, || {}) {
            Driven::Ended(Ok(state)) if ids(&state.interrupts) == asked => Ok(()),
            Driven::Ended(Ok(state)) => {
                let what =
                    format!("the run asks {asked:?}, listed are {:?}", ids(&state.interrupts));
                Err(Broken::new(law, what))
            }
            other => Err(Broken::new(law, format!("no state: {other:?}"))),
        }
    }

    /// The values that were told last are those of the thread.
    fn check_told(&self, host: &Host, ended: &Ended, told: &[Value]) -> Result<(), Broken> {
        let law = "the values told last are the state";
        let Ok(outcome) = ended else { return Ok(()) };
        let expected = match outcome {
            RunOutcome::Completed { output } => output.clone(),
            // In the semantics of the reference a state does not show what error handlers did.
            _ if self.lenient && self.handles => return Ok(()),
            _ => {
                let at = StateQuery::thread(THREAD);
                let state = self.graph.state(host, &at, false);
                match self.world.drive(state, None, || {}) {
                    Driven::Ended(Ok(state)) => state.values,
                    other => return Err(Broken::new(law, format!("no state: {other:?}"))),
                }
            }
        };
        let Some(last) = told.last() else {
            return Err(Broken::new(law, format!("nothing was told, the state is {expected}")));
        };
        // What lasts one superstep is not shown of a superstep that is still open.
        let lasting = |values: &Value| {
            let mut values = values.clone();
            if let (Some(members), false) =
                (values.as_object_mut(), matches!(outcome, RunOutcome::Completed { .. }))
            {
                members.retain(|name, _| !["topic", "one", "any"].contains(&name.as_str()));
            }
            values
        };
        if lasting(last) == lasting(&expected) {
            return Ok(());
        }
        Err(Broken::new(law, format!("told {last}, found {expected} after {outcome:?}")))
    }
}
