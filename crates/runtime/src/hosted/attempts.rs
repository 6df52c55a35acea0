//! History of a run before this claim.

use super::open_steps::OpenSteps;
use weftwork_graph::run_loop::Continued;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{Durability, RunInput};
use weftwork_types::usage::{Usage, UsageCount};

/// History of earlier claims, read from the log.
#[derive(Debug, Default)]
pub(super) struct AttemptHistory {
    /// `true` if the first checkpoint exists.
    pub(super) begun: bool,
    /// Number of takeovers since the last progress.
    taken_over: u32,
    /// Number of orderly releases since then.
    released: u32,
    /// The same two, of which a requeue makes no new start: what was begun stays begun.
    begun_again: u32,
    ended: u32,
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

impl AttemptHistory {
    pub(super) fn read(&mut self, told: &AiEvent) {
        self.open_steps.read(told);
        self.usage.read(told);
        match told {
            AiEvent::RunStarted { .. } => self.begun = true,
            AiEvent::TakenOver { .. } => {
                self.taken_over += 1;
                self.begun_again += 1;
            }
            AiEvent::Released { .. } => {
                self.released += 1;
                self.ended += 1;
            }
            step if step.is_step() => {
                self.stepped(step.step_nodes().into_iter().map(str::to_owned).collect());
            }
            // The previous worker had ended the run.
            AiEvent::Requeued { .. } => {
                (self.steps, self.requeued) = (0, true);
                self.ran.clear();
                (self.taken_over, self.released) = (0, 1);
                // Unless it gave up on a run that ends its workers: then it had not begun the run.
                self.ended += u32::from(self.begun_again == 0);
            }
            _ => {}
        }
    }

    /// A superstep of the outermost graph in which these nodes ran was committed.
    fn stepped(&mut self, nodes: Vec<String>) {
        self.steps += 1;
        self.ran = nodes;
        (self.taken_over, self.released) = (0, 0);
        self.died_before = self.begun_again.saturating_sub(self.ended);
        self.died_ever += self.died_before;
        (self.begun_again, self.ended) = (0, 0);
    }

    /// Returns the usage of the run before this claim.
    pub(super) fn used(&self) -> Usage {
        self.usage.used()
    }

    /// Returns the number of workers it ended since then, the previous one included.
    pub(super) fn attempts(&self) -> u32 {
        (self.taken_over + 1).saturating_sub(self.released)
    }

    /// Returns the progress that earlier claims stored, if the newest checkpoint of the thread is
    /// one of the run. A requeued run counts its supersteps anew.
    pub(super) fn progress(&self, input: &RunInput) -> Option<Continued> {
        let brings = matches!(input, RunInput::Start { .. });
        let input = self.begun && brings && !self.requeued;
        let steps = self.steps;
        let ran = self.ran.clone();
        (input || steps > 0).then_some(Continued { steps, ran, input })
    }

    /// Returns the most workers that may have died in the open superstep. With asynchronous
    /// durability, a worker may have died in it although the superstep before was committed by the
    /// next worker; with durability at exit, all earlier deaths count.
    pub(super) fn lost(&self, durability: Durability) -> u32 {
        let since = (self.begun_again + 1).saturating_sub(self.ended);
        since
            + match durability {
                Durability::Sync => 0,
                Durability::Async => self.died_before,
                Durability::Exit => self.died_ever,
            }
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
            attempts.read(&match letter {
                's' => AiEvent::RunStarted { graph: "g".to_owned(), continues: None },
                '.' => AiEvent::Step { step: 1, nodes: Vec::new() },
                't' => AiEvent::TakenOver { claim: 2 },
                'r' => AiEvent::Released { claim: 1 },
                _ => AiEvent::Requeued { by: "ada".to_owned() },
            });
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
        ];
        for (log, expected) in cases {
            assert_eq!(after(log), expected, "{log}");
        }
    }
}
