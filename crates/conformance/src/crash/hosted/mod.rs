//! Crashes of hosted runs: the process of a runtime dies at a write, and the next one resumes the
//! thread.
//!
//! A process is a tokio runtime of its own, which is dropped with all its tasks. The store, the
//! long-term store and the side effects of the nodes remain. The next process ends the lease of the
//! dead one, as time does. Then:
//!
//! - The thread has no run of the entry: it repeats the entry.
//! - The run of the entry has ended: there is nothing to do.
//! - The run has not ended: it resumes the thread.

mod cut;
mod pass;

use super::recover::{DROPPED_INPUT, INNER_STOP, WITHIN, runs_subgraph};
use super::{CHANGED_ITEMS, Crash, PlayedScript};
use crate::Setting;
use crate::front::{Front, Hosted, ended, raised, runs};
use crate::node::Shared;
use crate::play::{self, Play, items, made};
use crate::python::Raised;
use crate::setting::Home;
use crate::spec::{Act, Entry, Op, Spec};
use crate::trace;
use crate::{GUARD, Profile};
use cut::Cutting;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use weftwork_graph::CompiledGraph;
use weftwork_graph::run_loop::{CheckpointRef, Snapshot, StateQuery, SubState};
use weftwork_store::items::MemoryItems;
use weftwork_types::WorkerId;

/// Data that outlives processes.
struct LastingParts {
    graph: CompiledGraph,
    home: Home,
    items: Arc<MemoryItems>,
    world: Arc<Shared>,
}

/// A process with a runtime.
struct Process {
    tokio: tokio::runtime::Runtime,
    store: Arc<Cutting>,
    worker: WorkerId,
}

impl LastingParts {
    /// Starts a process, once the lease of an earlier one has ended.
    fn process(&self, dead: Option<&WorkerId>) -> Result<(Process, Front), Json> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let tokio = tokio.map_err(|error| failed(&error))?;
        let store = Cutting::new(Arc::clone(&self.home.store), Arc::clone(&self.world));
        let home = Home { store: Arc::clone(&store) as _, who: self.home.who.clone() };
        let hosted = tokio.block_on(async {
            if let Some(dead) = dead {
                self.home.store.retire(dead).await?;
            }
            let items = Arc::clone(&self.items) as _;
            Hosted::open(self.graph.clone(), &home, items, true, crate::Mode::Straight).await
        });
        let hosted = hosted.map_err(|error| failed(&error))?;
        let worker = hosted.runtime().worker().clone();
        Ok((Process { tokio, store, worker }, Front::Hosted(hosted)))
    }
}

fn failed(error: &dyn std::fmt::Display) -> Json {
    json!({ "harness_error": error.to_string() })
}

fn late() -> Json {
    failed(&format!("no result within {} s", GUARD.as_secs()))
}

/// Waits for work, but not longer than a spec may take.
async fn within_limit(work: impl Future<Output = play::Played<()>>) -> play::Played<()> {
    let late = || Raised::new("Exception", format!("no result within {} s", GUARD.as_secs()));
    tokio::time::timeout(GUARD, work).await.unwrap_or_else(|_| Err(late()))
}

/// Names of the nodes of which the store has the end of an attempt: their failures stay counted.
/// A task that failed runs again, since the run has not ended.
fn recorded(state: &Snapshot) -> BTreeSet<&str> {
    let mut all = BTreeSet::new();
    let mut states = vec![state];
    while let Some(state) = states.pop() {
        for task in &state.tasks {
            if task.result.is_some() || !task.interrupts.is_empty() {
                all.insert(task.name.as_str());
            }
            if let Some(SubState::Snapshot(within)) = &task.state {
                states.push(within);
            }
        }
    }
    all
}

/// Plays the script once, with a crash or undisturbed, on a thread of its own.
pub(super) fn through(
    spec: &Spec,
    setting: &Setting,
    crash: Option<Crash<'_>>,
) -> Result<PlayedScript, Json> {
    std::thread::scope(|scope| {
        let played = scope.spawn(|| Script::new(spec, setting)?.play(setting, crash)).join();
        let panicked = || json!({ "harness_error": "playing the spec panicked" });
        played.unwrap_or_else(|_| Err(panicked()))
    })
}

/// Position of a thread before an entry.
#[derive(Debug, Default)]
struct ThreadBefore {
    runs: usize,
    newest: Option<CheckpointRef>,
    /// `true` if the entry starts from an older checkpoint.
    travels: bool,
}

/// A script between its entries.
struct Script<'a> {
    spec: &'a Spec,
    ground: LastingParts,
    process: Process,
    play: Play<'a>,
}

impl<'a> Script<'a> {
    fn new(spec: &'a Spec, setting: &Setting) -> Result<Self, Json> {
        let world = Arc::new(Shared::default());
        let graph = made(spec, setting, &world)?;
        let home = setting.home().ok_or_else(|| json!({ "harness_error": "no store" }))?;
        let ground = LastingParts { graph, home, items: items(), world };
        let (process, front) = ground.process(None)?;
        let play = Play::new(front, spec, setting.durability);
        Ok(Self { spec, ground, process, play })
    }

    fn play(mut self, setting: &Setting, crash: Option<Crash<'_>>) -> Result<PlayedScript, Json> {
        let mut entries = Vec::new();
        let mut writes = Vec::new();
        let mut crashed = false;
        for (index, entry) in self.spec.script.iter().enumerate() {
            let mut shown = Map::new();
            let at = crash.filter(|crash| crash.entry == index).map(|crash| crash.at);
            let before = match at {
                Some(_) => self.before(entry)?,
                None => ThreadBefore::default(),
            };
            self.process.store.begin(at);
            let acted = match self.act(entry, &mut shown)? {
                Some(acted) => acted,
                None => {
                    crashed = true;
                    shown.clear();
                    self.next_process()?;
                    if let Some(reason) = self.passed_over(setting.profile, entry, &before) {
                        return Ok(PlayedScript {
                            trace: Json::Null,
                            writes,
                            fault: None,
                            crashed,
                            passed_over: Some(reason),
                        });
                    }
                    self.recover(entry, before.runs, &mut shown)
                }
            };
            writes.push(self.process.store.writes());
            let counts = &self.ground.world.counts;
            self.process.tokio.block_on(self.play.show(entry, acted, counts, &mut shown));
            entries.push(Json::Object(shown));
        }
        let trace = self.process.tokio.block_on(self.play.whole(entries));
        Ok(PlayedScript { trace, writes, fault: None, crashed, passed_over: None })
    }

    /// Returns the position of the thread of an entry.
    fn before(&self, entry: &Entry) -> Result<ThreadBefore, Json> {
        let Self { ground, process, play, .. } = self;
        process.tokio.block_on(async {
            // An entry without a thread to start from fails by itself.
            let Ok(target) = play.target(entry).await else { return Ok(ThreadBefore::default()) };
            let runs = runs(&ground.home.store, &ground.home.who, &target.thread).await;
            let runs = runs.map_err(|error| failed(&error))?.len();
            let state = play.front.state(&StateQuery::thread(target.thread.as_str()), false).await;
            let newest = state.map_err(|error| failed(&error))?.config;
            Ok(ThreadBefore { runs, newest, travels: target.config.id.is_some() })
        })
    }

    /// Plays an entry; `None` if the process died.
    fn act(
        &mut self,
        entry: &Entry,
        shown: &mut Map<String, Json>,
    ) -> Result<Option<play::Played<()>>, Json> {
        let store = Arc::clone(&self.process.store);
        let acted = async {
            tokio::select! {
                biased;
                () = store.dies() => Ok(None),
                acted = self.play.act(entry, shown) => Ok(Some(acted)),
                () = tokio::time::sleep(GUARD) => Err(late()),
            }
        };
        self.process.tokio.block_on(acted)
    }

    fn next_process(&mut self) -> Result<(), Json> {
        let (process, front) = self.ground.process(Some(&self.process.worker))?;
        let dead = std::mem::replace(&mut self.process, process);
        // With it go the runs of the dead process.
        drop(dead.tokio);
        self.play.front = front;
        Ok(())
    }

    fn passed_over(
        &self,
        profile: Profile,
        entry: &Entry,
        before: &ThreadBefore,
    ) -> Option<&'static str> {
        let spec = self.spec;
        let world = &self.ground.world;
        if world.has_changed_items() && spec.has_changing_nodes() {
            return Some(CHANGED_ITEMS);
        }
        if spec.has_op(|op| matches!(op, Op::Drain)) {
            return Some("that a node asked its run to stop is not recorded");
        }
        if profile == Profile::LangGraph && spec.has_own_graphs() {
            return Some(DROPPED_INPUT);
        }
        let at = StateQuery::thread(entry.thread.as_str());
        let state = self.process.tokio.block_on(self.play.front.state(&at, true));
        let state = state.ok()?;
        let runs = matches!(entry.act, Act::Run(_));
        let reference = profile == Profile::LangGraph;
        if runs && entry.inside.is_some() {
            return Some(WITHIN);
        }
        if reference && state.config == before.newest && entry.answers() {
            return Some("the reference takes an answer again for the next question of a task");
        }
        if reference && runs && before.travels && spec.has_managed() {
            return Some("the reference counts the checkpoint of a branch against the limit");
        }
        if before.travels && runs && state.config == before.newest {
            return Some("a run from an older checkpoint has stored none of its own");
        }
        (spec.has_inner_stops() && runs_subgraph(&state)).then_some(INNER_STOP)
    }

    /// Takes an entry up that a dead process left behind.
    fn recover(
        &mut self,
        entry: &Entry,
        before: usize,
        shown: &mut Map<String, Json>,
    ) -> play::Played<()> {
        let Self { ground, process, play, .. } = self;
        process.tokio.block_on(within_limit(async {
            let Front::Hosted(hosted) = &play.front else { return Ok(()) };
            let target = play.target(entry).await?;
            let thread = target.thread.as_str();
            let at = StateQuery::thread(thread);
            let state = play.front.state(&at, true).await.map_err(|error| raised(&error))?;
            let recorded = recorded(&state);
            ground.world.kept(|node| recorded.contains(node));
            ground.world.lost();
            let runs = runs(&ground.home.store, &ground.home.who, thread).await;
            let runs = runs.map_err(|error| raised(&error))?;
            let Some(run) = runs.get(before..).and_then(<[_]>::last) else {
                return play.act(entry, shown).await;
            };
            match &run.outcome {
                Some(outcome) => ended(outcome)?,
                None => hosted.resume(thread).await?,
            }
            if let Act::Bulk(steps) = &entry.act {
                let left = steps.get(runs.len() - before..).unwrap_or_default();
                if !left.is_empty() {
                    return play.bulk(&target, left, shown).await;
                }
            }
            if let Act::Update { .. } | Act::Bulk(_) = &entry.act {
                let config = hosted.newest(thread, &target.config.ns).await?;
                shown.insert("config".to_owned(), trace::config(Some(&config)));
                if let Act::Update { save: Some(name), .. } = &entry.act {
                    play.saved.insert(name.clone(), play::Target { config, ..target });
                }
            }
            Ok(())
        }))
    }
}
