use super::{Run, Thread};
use crate::invariants;
use crate::record::{Commit, Committed, InterruptRow, StoredEvent};
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::RunStatus;
use weftwork_types::{CheckpointId, InterruptId, RunId, Timestamp};

/// The checkpoints that a commit stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// `true` if there were any.
    pub(super) checkpoints: bool,
    /// Last checkpoint of the root graph.
    pub(super) head: Option<CheckpointId>,
}

impl Thread {
    /// Applies a validated commit to the run at `index`, except checkpoints and usage, which the
    /// caller has stored before.
    pub(super) fn commit(&mut self, index: usize, commit: Commit, kept: Kept) -> Committed {
        let leaves_step = kept.checkpoints || commit.finish.is_some();
        self.row.head = kept.head.or(self.row.head);
        let run = self.runs[index].row.new.at.run.clone();
        let keeps_run = commit.keeps_asking_run();
        for call in commit.calls {
            let call = Arc::unwrap_or_clone(call);
            match self.calls.iter_mut().find(|(_, known)| known.key == call.key) {
                Some((_, known)) => invariants::record_call(known, call),
                None => self.add_call(call),
            }
        }
        if leaves_step {
            self.close_questions(&commit.interrupts);
        }
        self.ask(commit.interrupts, &run, keeps_run);
        self.row.updated_at = commit.at;
        let run = &mut self.runs[index];
        let first_seq = run.append(commit.events, commit.at);
        if let Some(void) = commit.void {
            run.pieces.retain(|last, _| *last > void);
        }
        if let Some(last) = commit.pieces.last() {
            run.pieces.insert(last.at.end, commit.pieces);
        }
        if let Some(end) = commit.finish {
            run.row.status = end.status();
            run.row.outcome = Some(end);
            run.row.ended_at = Some(commit.at);
            run.row.last_checkpoint = self.row.head;
            self.row.status = Some(run.row.status);
            self.row.wakes_at = commit.wakes_at;
        }
        Committed { first_seq, cancel_requested: run.row.cancel_requested }
    }

    /// Sets a run to pending and returns the number of the event that reports it.
    pub(super) fn put_back(&mut self, index: usize, told: AiEvent, at: Timestamp) -> u64 {
        self.row.status = Some(RunStatus::Pending);
        (self.row.updated_at, self.row.wakes_at) = (at, None);
        let run = &mut self.runs[index];
        (run.row.status, run.row.worker) = (RunStatus::Pending, None);
        run.append(vec![told], at)
    }

    /// Closes all questions except those that are still open.
    fn close_questions(&mut self, open: &[Interrupt]) {
        let open: BTreeSet<InterruptId> = open.iter().map(|asked| asked.id).collect();
        let unanswered = self.interrupts.iter_mut().filter(|row| row.answer.is_none());
        unanswered
            .filter(|row| !open.contains(&row.interrupt.id))
            .for_each(|row| row.closed = true);
    }

    fn ask(&mut self, interrupts: Vec<Interrupt>, run: &RunId, keeps_run: bool) {
        for interrupt in interrupts {
            let new = InterruptRow { interrupt, run: run.clone(), answer: None, closed: false };
            match self.interrupts.iter_mut().find(|row| row.interrupt.id == new.interrupt.id) {
                None => self.interrupts.push(new),
                Some(known) if known.answer.is_none() && keeps_run => {
                    *known = InterruptRow { run: known.run.clone(), ..new };
                }
                Some(known) if known.answer.is_none() => *known = new,
                Some(_) => {}
            }
        }
    }
}

impl Run {
    /// Appends events to the log and returns the number of the first.
    pub(super) fn append(&mut self, events: Vec<AiEvent>, at: Timestamp) -> u64 {
        let first = self.events.last().map_or(1, |event| event.seq + 1);
        let numbered = (first..).zip(events);
        self.events.extend(numbered.map(|(seq, event)| StoredEvent { seq, at, event }));
        first
    }
}
