//! History of a run before this claim.

use super::open_steps::OpenSteps;
use weftwork_graph::run_loop::Continued;
use weftwork_types::Timestamp;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{Durability, RunInput};
use weftwork_types::usage::{Usage, UsageCount};

/// History of earlier claims, read from the log.
#[derive(Debug, Default)]
pub(super) struct AttemptHistory {
    /// `true` if the first checkpoint exists.
    pub(super) begun: bool,
    /// Workers since the last progress: a committed superstep, or a requeue.
    since_progress: Workers,
    /// Workers of the open superstep. A requeue keeps the start of the attempt, so that calls of
    /// workers before it may be on record.
    in_step: Workers,
    /// Number of workers that died between the last two committed supersteps; `died_ever` includes
    /// all supersteps before.
    died_before: u32,
    died_ever: u32,
    /// Reported attempts of model calls, and announced tool calls that were charged.
    usage: UsageCount,
    /// Supersteps since the run was accepted or requeued.
    steps: u32,
    /// Nodes of the last superstep.
    ran: Vec<String>,
    requeued: bool,
    /// Supersteps whose tasks are reported.
    pub(super) open_steps: OpenSteps,
}

/// Workers of a run from some moment on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Workers {
    /// Number of workers that another one took over from without a release: they died.
    died: u32,
    last: LastWorker,
}

/// The last worker that the log names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LastWorker {
    /// The worker at that moment. If there is a claim after it, it died.
    #[default]
    First,
    /// A worker that took over since. If there is a claim after it, it died too.
    TookOver,
    /// It released the run, or ended it.
    Ended,
}

impl Workers {
    fn take_over(&mut self) {
        self.died = self.lost();
        self.last = LastWorker::TookOver;
    }

    fn release(&mut self) {
        self.last = LastWorker::Ended;
    }

    /// The run is requeued after its last worker ended it. A worker that took over and gave up on a
    /// run that ends its workers had not begun the run, so that it counts as one that died.
    fn requeue(&mut self) {
        if self.last == LastWorker::First {
            self.last = LastWorker::Ended;
        }
    }

    /// Returns the number of workers that died, the last one included, given that another claim
    /// follows it.
    fn lost(self) -> u32 {
        match self.last {
            LastWorker::First | LastWorker::TookOver => self.died + 1,
            LastWorker::Ended => self.died,
        }
    }
}

impl AttemptHistory {
    pub(super) fn read(&mut self, at: Timestamp, event: &AiEvent) {
        self.open_steps.read(event);
        // Not reset by a requeue: what was paid before it counts against the budget.
        self.usage.read_logged(at, event);
        match event {
            AiEvent::RunStarted { .. } => self.begun = true,
            AiEvent::TakenOver { .. } => {
                self.since_progress.take_over();
                self.in_step.take_over();
            }
            AiEvent::Released { .. } => {
                self.since_progress.release();
                self.in_step.release();
            }
            step if step.is_step() => {
                self.count_step(step.step_nodes().into_iter().map(str::to_owned).collect());
            }
            // The previous worker had ended the run.
            AiEvent::Requeued { .. } => {
                self.steps = 0;
                self.requeued = true;
                self.ran.clear();
                self.since_progress = Workers { died: 0, last: LastWorker::Ended };
                self.in_step.requeue();
            }
            _ => {}
        }
    }

    /// A superstep of the outermost graph in which these nodes ran was committed.
    fn count_step(&mut self, nodes: Vec<String>) {
        self.steps += 1;
        self.ran = nodes;
        // The worker that committed the superstep lives: only those before it died in it.
        self.died_before = self.in_step.died;
        self.died_ever += self.died_before;
        self.since_progress = Workers::default();
        self.in_step = Workers::default();
    }

    /// Returns the usage of the run before this claim.
    pub(super) fn used(&self) -> Usage {
        self.usage.used_with_time()
    }

    /// Returns the number of workers it ended since then, the previous one included.
    pub(super) fn attempts(&self) -> u32 {
        self.since_progress.lost()
    }

    /// Returns the progress that earlier claims stored, if the newest checkpoint of the thread is
    /// one of the run. A requeued run counts its supersteps anew.
    pub(super) fn progress(&self, input: &RunInput) -> Option<Continued> {
        let brings = matches!(input, RunInput::Start { .. });
        let input = self.begun && brings && !self.requeued;
        let steps = self.steps;
        (input || steps > 0).then(|| Continued { steps, ran: self.ran.clone(), input })
    }

    /// Returns the most workers that may have died in the open superstep. With asynchronous
    /// durability, a worker may have died in it although the superstep before was committed by the
    /// next worker; with durability at exit, all earlier deaths count.
    pub(super) fn lost(&self, durability: Durability) -> u32 {
        let before = match durability {
            Durability::Sync => 0,
            Durability::Async => self.died_before,
            Durability::Exit => self.died_ever,
        };
        self.in_step.lost() + before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Summarises a log of starts (`s`), steps (`.`), takeovers (`t`), releases (`r`) and requeues
    /// (`q`): the number of workers it ended without progress, and the number that died in the open
    /// superstep, for each durability.
    fn after(log: &str) -> (u32, [u32; 3]) {
        let mut attempts = AttemptHistory::default();
        for letter in log.chars() {
            let event = match letter {
                's' => AiEvent::RunStarted { graph: "g".to_owned(), continues: None },
                '.' => AiEvent::Step { step: 1, nodes: Vec::new() },
                't' => AiEvent::TakenOver { claim: 2 },
                'r' => AiEvent::Released { claim: 1 },
                _ => AiEvent::Requeued { by: "ada".to_owned() },
            };
            attempts.read(Timestamp(0), &event);
        }
        assert_eq!(attempts.begun, log.contains('s'));
        let modes = [Durability::Sync, Durability::Async, Durability::Exit];
        (attempts.attempts(), modes.map(|durability| attempts.lost(durability)))
    }

    #[test]
    fn deaths_count_until_the_run_gets_further() {
        let cases = [
            // The worker before this claim died.
            ("", (1, [1; 3])),
            ("s..", (1, [1; 3])),
            ("s.t", (2, [2; 3])),
            ("s.tt", (3, [3; 3])),
            // The workers may have been ahead of the commits, by one superstep or by all.
            ("s.tt.", (1, [1, 3, 3])),
            ("s.tt.t", (2, [2, 4, 4])),
            ("s.tt..", (1, [1, 1, 3])),
            ("s.t.t.", (1, [1, 2, 3])),
            // The run was released in order.
            ("s.r", (0, [0; 3])),
            ("s.tr", (1, [1; 3])),
            ("s.rt", (1, [1; 3])),
            ("s.rt.", (1, [1; 3])),
            // The run failed in order, or because it ended its workers.
            ("s.q", (0, [0; 3])),
            ("s.q.", (1, [1; 3])),
            ("s.qt", (1, [1; 3])),
            ("s.ttq", (0, [3; 3])),
            ("s.tq", (0, [2; 3])),
            ("s.rtq", (0, [1; 3])),
            ("s.trq", (0, [1; 3])),
            ("s.ttqt", (1, [4; 3])),
            ("s.trt.", (1, [1, 2, 2])),
        ];
        for (log, expected) in cases {
            assert_eq!(after(log), expected, "{log}");
        }
    }
}
