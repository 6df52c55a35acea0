//! Playing a script.

use crate::build::{Maker, into_stops};
use crate::class;
use crate::front::{Front, Hosted, Local, Request, raised};
use crate::input::{as_node, bulk_update, resume, targets, update_values};
use crate::message;
use crate::node::{Counts, Shared};
use crate::python::{self, Raised};
use crate::spec::{Act, Begin, Entry, RunEntry, Spec, StopsSpec, Which};
use crate::trace;
use crate::{Mode, Setting, crash};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::run_loop::{CheckpointRef, Snapshot, SubState};
use weftwork_graph::run_loop::{Continued, Host, StateQuery, StateUpdate};
use weftwork_graph::{Answers, CompiledGraph, Durability, Modes, Semantics, SystemClock};
use weftwork_store::items::MemoryItems;
use weftwork_types::InterruptId;
use weftwork_types::run::{RunCommand, RunInput};

/// Maximum number of supersteps of a run if the spec sets none.
const LIMIT: u32 = 10_007;
/// The thread whose history is stored.
const THREAD: &str = "t";
/// The stream modes of a run when an entry names none; checkpoints only where they are stored.
const MODES: [&str; 5] = ["values", "updates", "tasks", "checkpoints", "custom"];

/// The behaviour of graphs where the reference and this product differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Like the reference, LangGraph 1.2.22.
    #[default]
    LangGraph,
    /// Like the product by default.
    Weft,
}

impl Profile {
    fn semantics(self) -> Semantics {
        match self {
            Self::LangGraph => Semantics::langgraph(),
            Self::Weft => Semantics::weft(),
        }
    }
}

/// Plays a spec and returns its trace.
///
/// Errors of the graph and of its nodes are part of the trace.
pub async fn play(spec: &Spec, setting: &Setting) -> Json {
    if setting.mode == Mode::CrashEachWrite {
        return crash::play(spec, setting).await;
    }
    let world = Arc::new(Shared::default());
    match made(spec, setting, &world) {
        Ok(graph) => play_on(graph, spec, setting, &world.counts).await,
        Err(refused) => refused,
    }
}

/// The graph of a spec, or the trace with the reason why there is none.
pub(crate) fn made(
    spec: &Spec,
    setting: &Setting,
    world: &Arc<Shared>,
) -> Result<CompiledGraph, Json> {
    let maker = Maker::new(Arc::clone(world), setting.profile.semantics());
    maker
        .make(&spec.body)
        .map_err(|raised| json!({ "compile_error": class::shown(&raised.class, &raised.message) }))
}

/// Plays the script of a spec on another graph than its own, and returns the trace.
///
/// A graph of typed nodes that counts its side effects in `counts` gives the trace of the spec
/// when it behaves like the spec's own graph. It is never cut off, whatever the mode.
pub async fn play_on(
    graph: CompiledGraph,
    spec: &Spec,
    setting: &Setting,
    counts: &Counts,
) -> Json {
    let front = match front(graph, spec, setting).await {
        Ok(front) => front,
        Err(error) => return json!({ "harness_error": error.to_string() }),
    };
    let mut play = Play::new(front, spec, setting.durability);
    let mut entries = Vec::with_capacity(spec.script.len());
    for entry in &spec.script {
        let mut shown = Map::new();
        let acted = play.act(entry, &mut shown).await;
        play.show(entry, acted, counts, &mut shown).await;
        entries.push(Json::Object(shown));
    }
    play.whole(entries).await
}

async fn front(
    graph: CompiledGraph,
    spec: &Spec,
    setting: &Setting,
) -> Result<Front, weftwork_graph::RuntimeError> {
    let rebuilding = setting.mode == Mode::RebuildEachStep;
    if let Some(home) = setting.home() {
        let hosted = Hosted::open(graph, &home, items(), spec.checkpointer, setting.mode);
        return Ok(Front::Hosted(hosted.await?));
    }
    let mut host = Host::new().with_items(items());
    if spec.checkpointer {
        host = host.with_checkpointer((setting.store())());
        if rebuilding {
            host = host.rebuilding();
        }
    }
    Ok(Front::Local(Local { graph, host, streamed: setting.mode == Mode::Streamed }))
}

/// A long-term store with nothing in it.
pub(crate) fn items() -> Arc<MemoryItems> {
    Arc::new(MemoryItems::new(Arc::new(SystemClock::new())))
}

/// A graph between the entries of its script.
pub(crate) struct Play<'a> {
    pub(crate) front: Front,
    spec: &'a Spec,
    durability: Durability,
    /// Checkpoints that were saved under a name.
    pub(crate) saved: BTreeMap<String, Target>,
}

/// A place that an entry starts from or looks at.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) thread: String,
    pub(crate) config: CheckpointRef,
}

impl Target {
    pub(crate) fn at(&self) -> StateQuery {
        StateQuery::config(self.thread.as_str(), &self.config)
    }
}

pub(crate) type Played<T> = Result<T, Raised>;

impl<'a> Play<'a> {
    pub(crate) fn new(front: Front, spec: &'a Spec, durability: Durability) -> Self {
        Self { front, spec, durability, saved: BTreeMap::new() }
    }

    /// The trace of these entries.
    pub(crate) async fn whole(&self, entries: Vec<Json>) -> Json {
        let mut whole = json!({ "trace": entries });
        if self.spec.checkpointer {
            whole["history"] = self.history().await;
        }
        whole
    }

    /// Shows how an entry ended, and what came of it.
    pub(crate) async fn show(
        &self,
        entry: &Entry,
        acted: Played<()>,
        counts: &Counts,
        shown: &mut Map<String, Json>,
    ) {
        if let Err(raised) = acted {
            shown.insert("error".to_owned(), class::shown(&raised.class, &raised.message));
        }
        if self.spec.checkpointer {
            let at = StateQuery::thread(entry.thread.as_str());
            let state = match self.front.state(&at, entry.with_subgraphs).await {
                Ok(snapshot) => trace::snapshot(&snapshot),
                Err(error) => {
                    let raised = raised(&error);
                    json!({ "error": class::shown(&raised.class, &raised.message) })
                }
            };
            shown.insert("state".to_owned(), state);
        }
        let counts = counts.so_far();
        if !counts.is_empty() {
            shown.insert("counts".to_owned(), Json::Object(counts));
        }
    }

    pub(crate) async fn act(&mut self, entry: &Entry, shown: &mut Map<String, Json>) -> Played<()> {
        let target = self.target(entry).await?;
        match &entry.act {
            Act::Update { values, as_node: name, save } => {
                let update = StateUpdate {
                    values: update_values(values)?,
                    as_node: as_node(name.as_deref()),
                };
                let config = self.front.change(&target, vec![vec![update]]).await?;
                shown.insert("config".to_owned(), trace::config(Some(&config)));
                if let Some(name) = save {
                    self.saved.insert(name.clone(), Target { config, ..target });
                }
            }
            Act::Bulk(steps) => {
                self.bulk(&target, steps, shown).await?;
            }
            Act::Look if entry.inside.is_some() || entry.at.is_some() => {
                let state = self.front.state(&target.at(), entry.with_subgraphs).await;
                let state = state.map_err(|error| raised(&error))?;
                shown.insert("at".to_owned(), trace::snapshot(&state));
            }
            Act::Look => {}
            Act::Run(run) => self.run(entry, run, &target, shown).await?,
        }
        Ok(())
    }

    pub(crate) async fn bulk(
        &self,
        target: &Target,
        steps: &[Vec<(Json, Option<String>)>],
        shown: &mut Map<String, Json>,
    ) -> Played<()> {
        let steps = steps.iter().map(|step| {
            step.iter().map(|(values, name)| bulk_update(values, name.as_deref())).collect()
        });
        let steps = steps.collect::<Played<_>>()?;
        let config = self.front.change(target, steps).await?;
        shown.insert("config".to_owned(), trace::config(Some(&config)));
        Ok(())
    }

    async fn run(
        &self,
        entry: &Entry,
        run: &RunEntry,
        target: &Target,
        shown: &mut Map<String, Json>,
    ) -> Played<()> {
        let input = match self.input(entry, run).await? {
            Ok(input) => input,
            Err(raised) => {
                shown.insert("events".to_owned(), json!([]));
                return Err(raised);
            }
        };
        if self.limit(run) == 0 {
            shown.insert("events".to_owned(), json!([]));
            return Err(Raised::new("ValueError", "the limit must be at least 1"));
        }
        self.run_input(run, target, input, None, shown).await
    }

    /// Runs the graph with an input, and shows each event; what ends the run early is an error of the
    /// entry.
    pub(crate) async fn run_input(
        &self,
        run: &RunEntry,
        target: &Target,
        input: RunInput,
        continued: Option<Continued>,
        shown: &mut Map<String, Json>,
    ) -> Played<()> {
        // An empty list of stops is none, and then those of the graph hold.
        let given = |stops: &Option<StopsSpec>| {
            stops.clone().filter(|stops| !stops.is_empty()).map(into_stops)
        };
        let request = Request {
            target: target.clone(),
            input,
            limit: self.limit(run),
            continued,
            modes: self.modes(run),
            context: run.context.clone().unwrap_or_default(),
            durability: run.durability.unwrap_or(self.durability),
            interrupt_before: given(&run.interrupt_before),
            interrupt_after: given(&run.interrupt_after),
        };
        let mut events = Vec::new();
        let ended = self.front.run(request, &mut events).await;
        shown.insert("events".to_owned(), Json::Array(events));
        ended
    }

    pub(crate) fn limit(&self, run: &RunEntry) -> u32 {
        run.limit.or(self.spec.recursion_limit).unwrap_or(LIMIT)
    }

    /// The stream modes of a run. Names that are no mode are ignored, as in the reference.
    fn modes(&self, run: &RunEntry) -> Modes {
        let default: Vec<String> = MODES
            .iter()
            .filter(|mode| self.spec.checkpointer || **mode != "checkpoints")
            .map(|mode| (*mode).to_owned())
            .collect();
        let names = run.modes.as_ref().unwrap_or(&default).iter();
        names.filter_map(|name| Modes::parse(name)).fold(Modes::NONE, |all, mode| all | mode)
    }

    /// The input of a run. The inner error is an exception that starting it raises.
    async fn input(&self, entry: &Entry, run: &RunEntry) -> Played<Played<RunInput>> {
        let input = match &run.begin {
            Begin::Input(input) => match message::records(input.alone()?) {
                Json::Null => RunInput::Continue,
                input => RunInput::Start { input },
            },
            Begin::Resume(answer) => answers(resume(answer)),
            Begin::ResumeByValue(given) => {
                RunInput::answers(Answers::ById(self.answers(entry, given).await?))
            }
            Begin::Command { goto, update, resume } => {
                let goto = match targets(&goto.alone()?) {
                    Ok(goto) => goto,
                    Err(raised) => return Ok(Err(raised)),
                };
                let members = update.as_object().cloned().unwrap_or_default();
                let answers = self::resume(resume);
                let update = members.into_iter().map(|(key, value)| (key, message::record(value)));
                let update = update.collect();
                RunInput::Command(RunCommand { goto, update, answers })
            }
        };
        Ok(Ok(input))
    }

    /// The ids of the open questions with these texts, each with its answer.
    pub(crate) async fn answers(
        &self,
        entry: &Entry,
        answers: &[(String, Json)],
    ) -> Played<BTreeMap<InterruptId, Json>> {
        let at = StateQuery::thread(entry.thread.as_str());
        let state = self.front.state(&at, true).await;
        let state = state.map_err(|error| raised(&error))?;
        let open = state.interrupts.iter().filter_map(|open| {
            let text = python::text(&trace::question(open));
            let (_, answer) = answers.iter().find(|(question, _)| *question == text)?;
            Some((open.id, answer.clone()))
        });
        Ok(open.collect())
    }

    /// Returns the start of an entry. Saved checkpoints are on the thread on which they were saved.
    pub(crate) async fn target(&self, entry: &Entry) -> Played<Target> {
        let here = |config| Target { thread: entry.thread.clone(), config };
        let inner = match &entry.inside {
            Some(path) => self.inner(entry, path).await?,
            None => CheckpointRef::default(),
        };
        match &entry.at {
            None => Ok(here(inner)),
            Some(Which::Saved(name)) => {
                let found = self.saved.get(name).cloned();
                found.ok_or_else(|| Raised::new("KeyError", name.as_str()))
            }
            Some(Which::Match { wanted, pick }) => {
                let history = self.snapshots(entry, &inner.ns).await?;
                let mut found = history.into_iter().filter(|snapshot| {
                    let (source, step) = trace::made_by(snapshot);
                    let next = json!(snapshot.next);
                    wanted.iter().all(|(name, value)| {
                        let have = match name.as_str() {
                            "step" => &step,
                            "source" => &source,
                            _ => &next,
                        };
                        python::equal(have, value)
                    })
                });
                let found = found.nth(*pick);
                let found =
                    found.ok_or_else(|| Raised::new("IndexError", "list index out of range"))?;
                Ok(here(found.config.unwrap_or_default()))
            }
        }
    }

    /// The graph reached by names of nodes: through the newest checkpoint that has such a task,
    /// level by level.
    async fn inner(&self, entry: &Entry, path: &[String]) -> Played<CheckpointRef> {
        let mut ns = String::new();
        for name in path {
            let history = self.snapshots(entry, &ns).await?;
            let mut tasks = history
                .iter()
                .filter_map(|snapshot| snapshot.tasks.iter().rfind(|task| task.name == *name));
            let task = tasks.next();
            let task = task.ok_or_else(|| Raised::new("ValueError", format!("no task {name}")))?;
            ns = match &task.state {
                Some(SubState::Checkpoint(config)) => config.ns.clone(),
                _ if ns.is_empty() => format!("{name}:{}", task.id),
                _ => format!("{ns}|{name}:{}", task.id),
            };
        }
        Ok(CheckpointRef { ns, ..CheckpointRef::default() })
    }

    async fn snapshots(&self, entry: &Entry, ns: &str) -> Played<Vec<Snapshot>> {
        if !self.spec.checkpointer {
            return Err(Raised::new("ValueError", "No checkpointer set"));
        }
        let at = StateQuery::thread(entry.thread.as_str()).within(ns);
        self.front.history(&at).await.map_err(|error| raised(&error))
    }

    async fn history(&self) -> Json {
        match self.front.history(&StateQuery::thread(THREAD)).await {
            Ok(all) => all.iter().map(trace::snapshot).collect(),
            Err(error) => {
                let raised = raised(&error);
                json!({ "error": class::shown(&raised.class, &raised.message) })
            }
        }
    }
}

/// A command that only answers.
pub(crate) fn answers(answers: Option<Answers>) -> RunInput {
    RunInput::Command(RunCommand { answers, ..RunCommand::default() })
}
