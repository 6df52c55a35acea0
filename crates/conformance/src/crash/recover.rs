//! Recovery of an entry that was cut off, by the next process.
//!
//! - No write of the entry was stored, or no checkpoint of a change, or the thread has none yet, or
//!   none since an entry that starts from an older one: the process repeats the entry.
//! - All writes were stored: there is nothing to do.
//! - Some changes of a list were stored: the process makes the others.
//! - A run: the process resumes it. It repeats the answers that the run was given, by the ids of
//!   their questions, as far as these are still open. The run may take the supersteps left of its
//!   limit.
//!
//! Some crashes are passed over, each with its reason ([`passed_over`](Recovery::passed_over)):
//! the state of the run at that point is not recorded, in the reference no more than here.

use crate::Profile;
use crate::front::raised;
use crate::input::resume;
use crate::play::{self, Play, Played, Target};
use crate::spec::{Act, Begin, Body, Entry, RunEntry, Spec};
use crate::trace;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;
use weftwork_graph::Answers;
use weftwork_graph::run_loop::{CheckpointRef, Snapshot, Source, SubState};
use weftwork_graph::run_loop::{Continued, StateQuery};
use weftwork_types::run::RunInput;
use weftwork_types::{CheckpointId, InterruptId};

/// Reason to pass over crashes of the reference's graphs that store their own state.
pub(super) const DROPPED_INPUT: &str =
    "the reference drops input of graphs with their own state when it goes on";
/// Reason to pass over crashes of runs that start in a subgraph.
pub(super) const WITHIN: &str = "where to start in a graph within is known to the run alone";
/// Reason to pass over crashes while a subgraph runs that has stops.
pub(super) const INNER_STOP: &str = "a run that goes on passes the stop of a subgraph";

/// Returns `true` if a subgraph has run in the open superstep.
pub(super) fn runs_subgraph(now: &Snapshot) -> bool {
    let begun = |state: &SubState| match state {
        SubState::Snapshot(within) => within.metadata.is_some(),
        SubState::Checkpoint(_) => false,
    };
    now.tasks.iter().filter_map(|task| task.state.as_ref()).any(begun)
}

/// Position of a thread before an entry.
pub(super) struct Before {
    target: Target,
    stood: Snapshot,
    /// The thread's newest checkpoint.
    newest: Option<CheckpointId>,
    open: BTreeSet<InterruptId>,
    /// The answers by id that the entry gives.
    answers: Option<Answers>,
}

impl Before {
    pub(super) async fn of(play: &Play<'_>, entry: &Entry) -> Played<Self> {
        let target = play.target(entry).await?;
        let checkpoint = target.config.map.get("").copied();
        let checkpoint = checkpoint.or(target.config.id).filter(|_| !is_change(entry));
        let at = StateQuery { checkpoint, ..StateQuery::thread(target.thread.as_str()) };
        let at = if is_change(entry) { at.within(target.config.ns.as_str()) } else { at };
        let stood = look(play, &at).await?;
        let newest = id(&look(play, &StateQuery { checkpoint: None, ..at }).await?);
        let answers = match &entry.act {
            Act::Run(run) => match &run.begin {
                Begin::Resume(answer) | Begin::Command { resume: answer, .. } => resume(answer),
                Begin::ResumeByValue(answers) => {
                    Some(Answers::ById(play.answers(entry, answers).await?))
                }
                Begin::Input(_) => None,
            },
            _ => None,
        };
        let open = open(&stood);
        Ok(Self { target, stood, newest, open, answers })
    }
}

fn is_change(entry: &Entry) -> bool {
    matches!(entry.act, Act::Update { .. } | Act::Bulk(_))
}

async fn look(play: &Play<'_>, at: &StateQuery) -> Played<Snapshot> {
    let state = play.front.state(at, true).await;
    state.map_err(|error| raised(&error))
}

/// The superstep of a state; before the first one, where nothing ran.
fn step(state: &Snapshot) -> i64 {
    state.metadata.as_ref().map_or(-2, |metadata| metadata.step)
}

/// Returns the open questions, as recorded by the graphs that asked them.
fn open(state: &Snapshot) -> BTreeSet<InterruptId> {
    let mut all = BTreeSet::new();
    for task in &state.tasks {
        match &task.state {
            Some(SubState::Snapshot(within)) if within.metadata.is_some() => {
                all.extend(open(within));
            }
            _ => all.extend(task.interrupts.iter().map(|question| question.id)),
        }
    }
    all
}

/// An entry that was cut off.
pub(super) struct Recovery<'a> {
    pub(super) spec: &'a Spec,
    pub(super) profile: Profile,
    pub(super) entry: &'a Entry,
    pub(super) before: Before,
    /// Number of its writes that took effect.
    pub(super) kept: usize,
    /// `true` if one of them records that a question was answered.
    pub(super) answered: bool,
    /// `true` if these are all of its writes.
    pub(super) over: bool,
}

/// The outcome of continuing an entry.
pub(super) enum Taken {
    Up(Played<()>),
    /// The run took another course this time, and did not come to the write of its crash.
    Uncut(Played<()>),
    /// Nothing can be said, for this reason.
    PassedOver(&'static str),
}

impl Recovery<'_> {
    pub(super) async fn take_up(
        self,
        play: &mut Play<'_>,
        shown: &mut Map<String, Json>,
    ) -> Played<Taken> {
        let target = &self.before.target;
        let at = StateQuery::thread(target.thread.as_str());
        let within = at.clone().within(target.config.ns.as_str());
        let now = look(play, if is_change(self.entry) { &within } else { &at }).await?;
        let act = &self.entry.act;
        let elsewhere = id(&self.before.stood) != self.before.newest;
        // A change of a graph within makes the tasks around it due before it stores its own.
        let unchanged = is_change(self.entry) && id(&now) == id(&self.before.stood);
        let nothing = self.kept == 0 || now.metadata.is_none() || unchanged;
        if nothing || elsewhere && id(&now) == self.before.newest && !is_change(self.entry) {
            return Ok(Taken::Up(play.act(self.entry, shown).await));
        }
        let thread = target.thread.clone();
        match act {
            Act::Run(run) if !self.over => return self.continue_run(play, run, &now, shown).await,
            Act::Bulk(steps) if !self.over => {
                let newest = Target { thread, config: now.config.unwrap_or_default() };
                let left = steps.get(self.kept..).unwrap_or_default();
                return Ok(Taken::Up(play.bulk(&newest, left, shown).await));
            }
            Act::Update { .. } | Act::Bulk(_) => {
                let config = now.config.unwrap_or_default();
                shown.insert("config".to_owned(), trace::config(Some(&config)));
                if let Act::Update { save: Some(name), .. } = act {
                    play.saved.insert(name.clone(), Target { thread, config });
                }
            }
            Act::Run(_) | Act::Look => {}
        }
        Ok(Taken::Up(Ok(())))
    }

    async fn continue_run(
        &self,
        play: &Play<'_>,
        run: &RunEntry,
        now: &Snapshot,
        shown: &mut Map<String, Json>,
    ) -> Played<Taken> {
        if let Some(reason) = self.passed_over(now) {
            return Ok(Taken::PassedOver(reason));
        }
        let taken = step(now).saturating_sub(step(&self.before.stood));
        let limit = i64::from(play.limit(run)).saturating_add(self.free(run)?);
        let Ok(left) = u32::try_from(limit.saturating_sub(taken)) else {
            return Ok(Taken::PassedOver("the reference lets a run go beyond its limit"));
        };
        // The limit of subgraphs stays as it is.
        let continued = play.limit(run).checked_sub(left).filter(|steps| *steps > 0);
        let continued = continued.map(|steps| Continued { steps, ran: Vec::new(), input: false });
        let limit = play.limit(run).max(left);
        let start = match self.answers_left(now) {
            None => RunInput::Continue,
            left => play::answers(left),
        };
        let run = RunEntry { limit: Some(limit), ..run.clone() };
        let newest =
            Target { thread: self.before.target.thread.clone(), config: CheckpointRef::default() };
        Ok(Taken::Up(play.run_input(&run, &newest, start, continued, shown).await))
    }

    /// Supersteps that did not count: where limits are exact, the one that makes the checkpoint of
    /// the input or of a branch, and the hidden first one.
    fn free(&self, run: &RunEntry) -> Played<i64> {
        if self.profile == Profile::LangGraph {
            return Ok(0);
        }
        let before = &self.before;
        let input = match &run.begin {
            Begin::Input(input) => !input.alone()?.is_null(),
            Begin::Command { .. } => before.stood.metadata.is_none(),
            Begin::Resume(_) | Begin::ResumeByValue(_) => false,
        };
        let hidden = input && matches!(self.spec.body, Body::Graph(_));
        let source = before.stood.metadata.as_ref().map(|made| made.source);
        let branch = matches!(source, Some(Source::Update | Source::Fork));
        let travels = before.target.config.id.is_some() && before.answers.is_none();
        let forks = travels && (!branch || id(&before.stood) != before.newest);
        Ok(i64::from(input || forks) + i64::from(hidden))
    }

    fn passed_over(&self, now: &Snapshot) -> Option<&'static str> {
        let before = &self.before;
        if !before.target.config.ns.is_empty() {
            return Some(WITHIN);
        }
        if self.spec.has_inner_stops() && runs_subgraph(now) {
            return Some(INNER_STOP);
        }
        if self.profile == Profile::Weft {
            return None;
        }
        if self.spec.has_own_graphs() {
            return Some(DROPPED_INPUT);
        }
        let unnamed = matches!(before.answers, Some(Answers::One(_)));
        (unnamed && self.answered && id(&before.stood) == id(now))
            .then_some("the reference offers an answer without an id again after it was taken")
    }

    fn answers_left(&self, now: &Snapshot) -> Option<Answers> {
        let open = match self.profile {
            Profile::Weft => now.interrupts.iter().map(|asked| asked.id).collect(),
            Profile::LangGraph => open(now),
        };
        let only = self.before.stood.interrupts.first().map(|only| only.id);
        let answers = match (self.before.answers.clone()?, only) {
            (Answers::One(answer), Some(only))
                if self.profile == Profile::Weft && !self.just_forked(now) =>
            {
                Answers::ById([(only, answer)].into())
            }
            (answers, _) => answers,
        };
        match answers {
            Answers::ById(mut answers) => {
                answers.retain(|id, _| open.contains(id));
                (!answers.is_empty()).then_some(Answers::ById(answers))
            }
            one => {
                let still = !self.before.open.is_disjoint(&open);
                (still || self.just_forked(now)).then_some(one)
            }
        }
    }

    /// `true` if the only stored change is the beginning of a branch, where questions have other
    /// ids.
    fn just_forked(&self, now: &Snapshot) -> bool {
        let forked = now.metadata.as_ref().is_some_and(|made| made.source == Source::Fork);
        let at_once = step(now) == step(&self.before.stood) + 1;
        let nothing = now.tasks.iter().all(|task| task.result.is_none());
        forked && at_once && nothing && id(&self.before.stood) != id(now)
    }
}

fn id(state: &Snapshot) -> Option<CheckpointId> {
    state.checkpoint()
}
