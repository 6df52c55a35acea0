//! A single superstep: plan, start, settle, close.

use super::api::{Going, Limits, LoopOutcome, Resuming, Stops};
use super::cycle::Cycle;
use super::event::{Modes, Source};
use super::job::End;
use super::node_cache::CacheKey;
use super::saver::SaverError;
use super::scope::{lock, turn};
use super::slot::{Slot, SlotState};
use super::start::Started;
use crate::error::RuntimeError;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weftwork_engine::TaskOutput;
use weftwork_engine::planted;
use weftwork_engine::pregel::{Path, Task};
use weftwork_types::BoxFuture;

/// After how many supersteps that never waited the run lets others run.
const STEPS_BETWEEN_YIELDS: u32 = 64;

pub(super) type Running = FuturesUnordered<BoxFuture<'static, (usize, End)>>;

impl Cycle {
    pub(super) async fn supersteps(&mut self) -> Going<LoopOutcome> {
        let mut taken = 0u32;
        loop {
            taken += 1;
            if taken.is_multiple_of(STEPS_BETWEEN_YIELDS) {
                tokio::task::yield_now().await;
            }
            if self.scope.is_nested() {
                turn().await;
            }
            if let Some(ended) = self.plan()? {
                return Ok(ended);
            }
            self.tell_start();
            self.tell_cached();
            self.use_cache();
            self.know_messages();
            if let Some(ended) = self.settle_all().await? {
                return Ok(ended);
            }
            if let Some(ended) = self.close().await? {
                return Ok(ended);
            }
        }
    }

    /// Makes the tasks of the superstep; says when there is nothing to run.
    fn plan(&mut self) -> Going<Option<LoopOutcome>> {
        let limits = self.scope.graph.semantics().limits;
        let over = self.step > self.stop;
        self.make_tasks();
        self.tell_checkpoint();
        if limits == Limits::Reference && over {
            return Ok(Some(LoopOutcome::LimitReached));
        }
        if self.tasks.is_empty() {
            return Ok(Some(LoopOutcome::Completed));
        }
        if limits == Limits::Exact && self.step >= self.stop {
            return Ok(Some(LoopOutcome::LimitReached));
        }
        if self.replaying {
            self.take_answers();
        } else {
            self.take_known();
        }
        let graph = &self.scope.graph;
        let stops = !self.before.is_none() && self.machine.changed_since_passed();
        if stops && self.tasks.iter().any(|slot| holds(&self.before, slot.name(graph))) {
            return Ok(Some(LoopOutcome::Interrupted(Vec::new())));
        }
        Ok(self.scope.shared.drained().map(LoopOutcome::Drained))
    }

    fn make_tasks(&mut self) {
        self.machine.set_managed(self.step, self.stop);
        let at = (self.id, self.step);
        let single = self.single_arg();
        let Self { tasks, machine, .. } = self;
        tasks.clear();
        tasks.reserve(machine.sent());
        machine.each_due(|mut task: Task| {
            if single.is_some() && task.arg.is_none() {
                task.arg.clone_from(&single);
            }
            tasks.push(Slot::new(task, at));
        });
    }

    fn tell_cached(&self) {
        for slot in self.tasks.iter().filter(|slot| slot.cached) {
            self.scope.tell_end(slot, self.step, self.machine.slots(), true);
        }
    }

    /// Uses results of nodes that got the same input before.
    fn use_cache(&mut self) {
        for index in 0..self.tasks.len() {
            let Some(slot) = self.tasks.get(index) else { continue };
            let node = self.scope.graph.node(slot.task.node);
            let cache = node.and_then(|node| node.options.cache);
            let handler = matches!(slot.task.path, Path::Handler(_));
            let Some(cache) = cache.filter(|_| slot.state == SlotState::Open && !handler) else {
                continue;
            };
            let input = self.input_json(slot);
            let (host, graph) = (&self.scope.shared.host, &self.scope.graph);
            let key = CacheKey::new(graph.name(), slot.name(graph), &input, cache);
            let found = host.cached(&key);
            let Some(slot) = self.tasks.get_mut(index) else { continue };
            slot.cache = Some(Box::new(key));
            if let Some(output) = found {
                slot.record.output = Some(output);
                slot.record.edges = true;
                slot.state = SlotState::Ended;
                slot.cached = true;
                slot.cache = None;
                let slot = &*slot;
                self.scope.tell_end(slot, self.step, self.machine.slots(), true);
            }
        }
    }

    /// Runs the tasks that have not finished, each polled once in order, and settles each as it
    /// ends. Returns the outcome of the loop if the superstep stopped early.
    async fn settle_all(&mut self) -> Going<Option<LoopOutcome>> {
        let mut ends = None;
        let mut next = 0;
        // Most supersteps are over when each task was polled once.
        while next < self.tasks.len() {
            let index = next;
            next += 1;
            if self.tasks.get(index).is_some_and(|slot| slot.state == SlotState::Open) {
                match self.start(index).await {
                    Started::Ended(end) => {
                        if end.asks() {
                            self.caught_up().await?;
                        }
                        self.settle(index, end, &mut ends);
                    }
                    Started::Running(future) => {
                        let running = Running::from_iter([future]);
                        self.wait_for(running, next, &mut ends).await?;
                        break;
                    }
                }
            }
        }
        self.stopped(ends).await
    }

    /// Goes on with tasks of which some wait.
    async fn wait_for(
        &mut self,
        mut running: Running,
        mut next: usize,
        ends: &mut Option<LoopOutcome>,
    ) -> Going<()> {
        let scope = &self.scope;
        let most = scope.shared.concurrency.or(scope.graph.concurrency()).unwrap_or(usize::MAX);
        let mut parked = Vec::new();
        loop {
            while next < self.tasks.len() && running.len() < most {
                let index = next;
                next += 1;
                if self.tasks.get(index).is_some_and(|slot| slot.state == SlotState::Open) {
                    match self.start(index).await {
                        Started::Ended(end) => {
                            self.settle_or_park((index, end), ends, &mut parked);
                        }
                        Started::Running(future) => running.push(future),
                    }
                }
            }
            while let Some(Some(ended)) = running.next().now_or_never() {
                self.settle_or_park(ended, ends, &mut parked);
            }
            if !self.is_behind() {
                parked.drain(..).for_each(|(index, end)| self.settle(index, end, ends));
            }
            if self.failed() || (running.is_empty() && next >= self.tasks.len()) {
                break;
            }
            if running.is_empty() || next < self.tasks.len() && running.len() < most {
                continue;
            }
            if self.writing.is_some() {
                if let Some(ended) = self.write_beside(&mut running).await? {
                    self.settle_or_park(ended, ends, &mut parked);
                }
                continue;
            }
            match self.flushing() {
                Some(flushed) => {
                    self.flush_beside(flushed, &mut running, ends, &mut parked).await?;
                }
                None => {
                    // Calls of tasks that go on waiting are kept meanwhile.
                    let scope = Arc::clone(&self.scope);
                    let noted = std::pin::pin!(scope.noted.notified());
                    if let Either::Left((Some(ended), _)) = select(running.next(), noted).await {
                        self.settle_or_park(ended, ends, &mut parked);
                    }
                }
            }
        }
        // Dropping what still runs cuts it off at its await point.
        drop(running);
        if !parked.is_empty() {
            self.caught_up().await?;
            parked.into_iter().for_each(|(index, end)| self.settle(index, end, ends));
        }
        Ok(())
    }

    /// Flushes while the tasks go on. They must: a task may hold the store's only connection.
    async fn flush_beside(
        &mut self,
        mut flushed: BoxFuture<'static, Result<(), SaverError>>,
        running: &mut Running,
        ends: &mut Option<LoopOutcome>,
        parked: &mut Vec<(usize, End)>,
    ) -> Going<()> {
        loop {
            match select(&mut flushed, running.next()).await {
                Either::Left((done, _)) => return Ok(done?),
                Either::Right((Some(ended), _)) => self.settle_or_park(ended, ends, parked),
                Either::Right((None, _)) => return Ok(flushed.await?),
            }
        }
    }

    /// Closes the superstep: applies what the tasks wrote, and makes the next checkpoint.
    async fn close(&mut self) -> Going<Option<LoopOutcome>> {
        self.rebuild_behind().await?;
        let nothing = TaskOutput::default();
        if self.scope.graph.plan().counted().next().is_some() {
            self.recount_overwritten();
        }
        let mut written = std::mem::take(&mut self.written);
        let exact = self.scope.graph.semantics().resuming == Resuming::Exact;
        let before = (exact && self.on_exit() && self.keeps()).then(|| self.machine.clone());
        let applied = match self.tasks.as_mut_slice() {
            [only] => {
                let ahead = only.ahead.take().map(|ahead| *ahead);
                self.machine.apply_ahead(&mut [only.done(&nothing)], ahead, &mut written)
            }
            tasks => {
                // TaskOutcome nobody else holds is changed in place.
                tasks.iter_mut().for_each(|slot| slot.ahead = None);
                let mut done: Vec<_> = tasks.iter().map(|slot| slot.done(&nothing)).collect();
                planted::by_completion(&mut done);
                self.machine.apply(&mut done, &mut written)
            }
        };
        if let Err(error) = applied {
            if let Some(before) = before {
                self.machine = before;
            }
            self.flush().await?;
            return Err(RuntimeError::Engine(error));
        }
        self.written = written;
        self.written.retain(|index| self.machine.slots().get(index.0).is_some());
        if self.written.iter().any(|index| self.scope.tells(*index)) {
            self.tell_output();
        }
        let open = std::mem::take(&mut self.has_open);
        self.had_open = open;
        if open {
            self.known.clear();
            self.outside = super::saver::Outside::default();
            *lock(&self.scope.answer) = None;
        }
        self.replaying = false;
        self.checkpoint(Source::Loop).await?;
        if self.scope.called.load(Ordering::Relaxed) || open {
            self.scope.called.store(false, Ordering::Relaxed);
            lock(&self.scope.calls).clear();
        }
        let graph = &self.scope.graph;
        let stops = !self.after.is_none() && self.machine.changed_since_passed();
        if stops && self.tasks.iter().any(|slot| holds(&self.after, slot.name(graph))) {
            self.make_tasks();
            self.tell_checkpoint();
            self.tasks.clear();
            return Ok(Some(LoopOutcome::Interrupted(Vec::new())));
        }
        self.scope.set_resuming(None);
        Ok(None)
    }

    fn tell_output(&mut self) {
        if self.scope.is_nested() {
            self.told = Some(self.machine.slots().clone());
        }
        if self.scope.shared.wants(Modes::VALUES) {
            self.scope.tell_values(self.machine.slots(), None);
        }
    }
}

/// Returns `true` if the run stops at a node. The hidden first node counts only if it is named.
fn holds(stops: &Stops, node: &str) -> bool {
    let hidden = *stops == Stops::All && node == weftwork_engine::plan::START_NAME;
    !hidden && stops.contains(node)
}
