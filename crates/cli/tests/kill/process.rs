//! A process of `weft`, watched from outside and killed at a chosen moment.

use crate::check::Kind;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::types::port::Clock;

/// A process that says nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(60);
/// Phase of a process before its first event.
const START_UP: &str = "start-up";
/// Phases of a process once its run has ended and it prints the result, line by line.
const QUESTION: &str = "question";
const END: &str = "end";
const OUTCOME: &str = "outcome";

/// Something that was seen from outside while a process ran.
#[derive(Debug)]
pub(crate) enum Tick {
    /// A line of output of the process with this number.
    Line(u64, String),
    /// The process with this number has closed its output.
    Closed(u64),
    /// The provider tells of a request.
    Told(String),
}

/// When to kill: after so many ticks, and a moment more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) ticks: u64,
    pub(crate) moment: Duration,
    /// `true` to kill also after the run has ended, when the process has next to nothing left to
    /// do.
    pub(crate) after_end: bool,
}

/// End of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `Some` if it was killed, with `true` if it still ran then; `None` if it ended before.
    pub(crate) landed: Option<bool>,
    /// Its last observed phase.
    pub(crate) phase: &'static str,
    pub(crate) status: ExitStatus,
    pub(crate) ticks: u64,
    /// Time to the first tick.
    pub(crate) start_up: Duration,
}

impl Ended {
    /// Says more exactly where it died: a call of this kind was under way, unless that was left by
    /// a process before it.
    pub(crate) fn died_in(&mut self, kind: Kind) {
        self.phase = match kind {
            _ if self.phase == START_UP => self.phase,
            Kind::Model => "model call",
            Kind::Tool => "tool call",
        };
    }
}

/// Starts processes, one after the other.
#[derive(Debug)]
pub(crate) struct Watch {
    sender: Sender<Tick>,
    ticks: Receiver<Tick>,
    clock: SystemClock,
    started: u64,
}

impl Watch {
    /// Watches a provider too.
    pub(crate) fn new(told: impl Iterator<Item = String> + Send + 'static) -> Self {
        let (sender, ticks) = channel();
        let from_provider = sender.clone();
        std::thread::spawn(move || {
            told.map(Tick::Told).try_for_each(|tick| from_provider.send(tick)).ok();
        });
        Self { sender, ticks, clock: SystemClock::new(), started: 0 }
    }

    /// Time since some moment.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Runs a process to its end, or to the moment at which it is to be killed.
    pub(crate) fn run(&mut self, mut command: Command, errors: &Path, plan: Option<Plan>) -> Ended {
        self.started += 1;
        let number = self.started;
        let errors = File::create(errors).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        while self.ticks.try_recv().is_ok() {}
        let began = self.elapsed();
        let mut child = command.spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let mut lines = lines.map_while(Result::ok).map(|line| Tick::Line(number, line));
            lines.try_for_each(|tick| sender.send(tick)).ok();
            sender.send(Tick::Closed(number)).ok();
        });
        let mut seen =
            Seen { number, began, ticks: 0, phase: START_UP, first: None, closed: false };
        if let Some(plan) = plan
            && self.reach(&mut seen, plan)
        {
            child.kill().expect("the child is not waited for yet");
            let status = child.wait().expect("ends");
            return seen.ended(Some(status.code().is_none()), status);
        }
        while !seen.closed {
            self.next(&mut seen, None);
        }
        let status = child.wait().expect("ends");
        seen.ended(None, status)
    }

    /// Waits for the planned moment; false when it does not come before the run has ended.
    fn reach(&self, seen: &mut Seen, plan: Plan) -> bool {
        let is_over = |seen: &Seen| match seen.phase {
            QUESTION | END => !plan.after_end,
            OUTCOME => true,
            _ => seen.closed,
        };
        while seen.ticks < plan.ticks && !is_over(seen) {
            self.next(seen, None);
        }
        let until = self.elapsed() + plan.moment;
        while !is_over(seen) {
            // At the moment itself: nothing that was seen is left to take up. After the end of
            // the run there is no time for another moment.
            let ended = matches!(seen.phase, QUESTION | END);
            let left = if ended { Duration::ZERO } else { until.saturating_sub(self.elapsed()) };
            if !self.next(seen, Some(left)) {
                return true;
            }
        }
        false
    }

    /// Takes up the next tick; false when there is none in time.
    fn next(&self, seen: &mut Seen, patience: Option<Duration>) -> bool {
        match self.ticks.recv_timeout(patience.unwrap_or(HANGS)) {
            Ok(Tick::Line(number, line)) if number == seen.number => {
                seen.take(self.elapsed(), phase_of(&line));
            }
            Ok(Tick::Closed(number)) if number == seen.number => seen.closed = true,
            Ok(Tick::Told(told)) => {
                let asked = told.contains(" asked ");
                let phase = if asked { "model call" } else { "model answer" };
                seen.take(self.elapsed(), Some(phase));
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                assert!(patience.is_some(), "a process hangs: {seen:?}");
                return false;
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender"),
        }
        true
    }
}

#[derive(Debug)]
struct Seen {
    number: u64,
    began: Duration,
    ticks: u64,
    phase: &'static str,
    first: Option<Duration>,
    closed: bool,
}

impl Seen {
    fn take(&mut self, now: Duration, phase: Option<&'static str>) {
        self.ticks += 1;
        self.first.get_or_insert(now - self.began);
        self.phase = phase.unwrap_or(self.phase);
    }

    fn ended(self, landed: Option<bool>, status: ExitStatus) -> Ended {
        let start_up = self.first.unwrap_or_default();
        Ended { landed, phase: self.phase, status, ticks: self.ticks, start_up }
    }
}

/// Returns the phase that follows an event.
fn phase_of(line: &str) -> Option<&'static str> {
    let event: serde_json::Value = serde_json::from_str(line).expect("an event in JSON");
    match event["type"].as_str().expect("a type") {
        "run_started" => Some("begin"),
        "usage_report" => Some("model answer"),
        "message_final" | "step" | "checkpoint" | "tool_call_result" => Some("commit"),
        "tool_call_start" => Some("tool call"),
        "human_input_required" => Some(QUESTION),
        "done" => Some(END),
        "outcome" => Some(OUTCOME),
        _ => None,
    }
}
