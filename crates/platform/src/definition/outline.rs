//! The steps of an orchestration in the form in which they run: a list without groups, of which each
//! step has the steps that end before it.

use super::file::Orchestration;
use super::problem::ProblemKind;
use super::source::{DURATION_MAX, parse_duration};
use super::steps::{
    Checkpoint, ForEach, OnError, OnTimeout, OrchestrationMode, OrchestrationStep, Undo,
};
use super::transform::{paths_of, paths_of_text};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weftwork_schema::Checker;
use weftwork_tools::Condition;
use weftwork_types::task::Mode;

/// Maximum number of steps, without groups.
const STEPS_MAX: usize = 64;
/// Maximum nesting of groups.
const GROUPS_MAX: usize = 4;
/// Number of attempts of `on_error: retry`, if `retry` names none.
const ATTEMPTS: u32 = 3;
/// Maximum number of items of a loop, if `max` names none.
const ITEMS: usize = 20;
/// Word of `on_reject` for the end of the orchestration.
const ABORT: &str = "abort";
/// Variables of conditions.
const VARIABLES: [&str; 3] = ["message", "input", "steps"];

/// The steps of an orchestration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outline {
    /// Steps, in the order of the definition.
    pub(crate) steps: Vec<OutlineStep>,
}

/// A step.
#[derive(Debug, Clone)]
pub(crate) struct OutlineStep {
    pub(crate) id: String,
    pub(crate) work: Work,
    pub(crate) when: Option<Condition>,
    /// Steps that end before it, by their places.
    pub(crate) needs: BTreeSet<usize>,
    /// Checkpoints whose rejection leads to it. A step that has some begins in no other way.
    pub(crate) rejections: BTreeSet<usize>,
}

/// The work of a step.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Agent(AgentWork),
    Checkpoint(CheckpointWork),
    Wait(Duration),
}

/// An agent that is asked.
#[derive(Debug, Clone)]
pub(crate) struct AgentWork {
    pub(crate) agent: String,
    pub(crate) mode: Mode,
    pub(crate) message: Option<String>,
    pub(crate) input: Option<Json>,
    pub(crate) payload: Map<String, Json>,
    /// Maximum number of attempts.
    pub(crate) attempts: u32,
    pub(crate) on_error: OnError,
    pub(crate) items: Option<Items>,
    /// Agent that undoes the effects.
    pub(crate) undo: Option<Box<AgentWork>>,
}

impl AgentWork {
    /// Returns the work that undoes the effects of a step.
    fn of_undo(undo: &Undo) -> Self {
        Self {
            agent: undo.agent.clone(),
            mode: undo.mode.unwrap_or(Mode::Build),
            message: undo.message.clone(),
            input: undo.input.clone(),
            payload: undo.payload.clone(),
            attempts: 1,
            on_error: OnError::Ask,
            items: None,
            undo: None,
        }
    }
}

/// The items of a loop.
#[derive(Debug, Clone)]
pub(crate) struct Items {
    pub(crate) list: Json,
    pub(crate) max: usize,
    pub(crate) mode: OrchestrationMode,
}

/// A question to a person.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointWork {
    pub(crate) question: String,
    pub(crate) input: Json,
    pub(crate) input_schema: Option<Json>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_timeout: OnTimeout,
    pub(crate) on_reject: OnReject,
}

/// Consequences of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnReject {
    /// The orchestration ends.
    Abort,
    /// The steps that have the checkpoint in their `rejections` begin.
    Step,
}

/// A problem of a step.
#[derive(Debug)]
pub(super) struct StepProblem {
    pub(super) kind: ProblemKind,
    /// Pointer of the key in the definition.
    pub(super) pointer: String,
    pub(super) found: Option<String>,
    pub(super) expected: String,
    /// Known names, of which the nearest one may be meant.
    pub(super) known: Vec<String>,
}

impl Outline {
    /// Reads the steps of an orchestration; the problems are left out.
    pub(crate) fn of(orchestration: &Orchestration) -> Self {
        Builder::read(orchestration).outline
    }

    /// Returns the problems of the steps of an orchestration.
    pub(super) fn problems(orchestration: &Orchestration) -> Vec<StepProblem> {
        let mut builder = Builder::read(orchestration);
        if builder.problems.is_empty() {
            builder.check_order();
        }
        if builder.problems.is_empty() {
            builder.check_references();
        }
        builder.problems
    }
}

/// Returns the agents that steps ask, each with the pointer of its key.
pub(super) fn agents_of(steps: &[OrchestrationStep]) -> Vec<AskedAgent<'_>> {
    let mut found = Vec::new();
    find_agents(steps, "/orchestration/steps", &mut found);
    found
}

/// An agent that a step asks, or that undoes its effects.
#[derive(Debug, Clone)]
pub(super) struct AskedAgent<'a> {
    /// Pointer of the step, or of its `undo`.
    pub(super) pointer: String,
    pub(super) agent: &'a str,
    pub(super) mode: Option<Mode>,
    pub(super) input: Option<&'a Json>,
    pub(super) payload: &'a Map<String, Json>,
}

fn find_agents<'a>(steps: &'a [OrchestrationStep], pointer: &str, found: &mut Vec<AskedAgent<'a>>) {
    for (place, step) in steps.iter().enumerate() {
        let pointer = format!("{pointer}/{place}");
        let OrchestrationStep { agent, mode, input, payload, undo, .. } = step;
        if let Some(agent) = agent {
            let pointer = pointer.clone();
            found.push(AskedAgent { pointer, agent, mode: *mode, input: input.as_ref(), payload });
        }
        if let Some(Undo { agent, mode, input, payload, .. }) = undo {
            let pointer = format!("{pointer}/undo");
            found.push(AskedAgent { pointer, agent, mode: *mode, input: input.as_ref(), payload });
        }
        find_agents(&step.steps, &format!("{pointer}/steps"), found);
        find_agents(&step.parallel, &format!("{pointer}/parallel"), found);
    }
}

/// A step as it was read, beside the form in which it runs.
struct ReadStep<'a> {
    step: &'a OrchestrationStep,
    pointer: String,
}

/// A group of steps that is read.
struct Group<'a> {
    steps: &'a [OrchestrationStep],
    pointer: String,
    mode: OrchestrationMode,
    /// Steps that end before those of the group.
    after: BTreeSet<usize>,
    depth: usize,
}

struct Builder<'a> {
    orchestration: &'a Orchestration,
    outline: Outline,
    read: Vec<ReadStep<'a>>,
    /// Places of the steps of an id: one, or those of a group.
    places: BTreeMap<&'a str, BTreeSet<usize>>,
    /// Ids of steps that a rejection leads to.
    targets: BTreeSet<&'a str>,
    problems: Vec<StepProblem>,
}

impl<'a> Builder<'a> {
    fn read(orchestration: &'a Orchestration) -> Self {
        let mut builder = Self {
            orchestration,
            outline: Outline::default(),
            read: Vec::new(),
            places: BTreeMap::new(),
            targets: BTreeSet::new(),
            problems: Vec::new(),
        };
        builder.find_targets(&orchestration.steps);
        builder.read_group(Group {
            steps: &orchestration.steps,
            pointer: "/orchestration/steps".to_owned(),
            mode: orchestration.default_mode.unwrap_or_default(),
            after: BTreeSet::new(),
            depth: 0,
        });
        if builder.read.len() > STEPS_MAX {
            let found = format!("{} steps", builder.read.len());
            let pointer = "/orchestration/steps".to_owned();
            let expected = format!("at most {STEPS_MAX} steps, with those of groups");
            builder.report_found(ProblemKind::TooLarge, pointer, Some(found), expected);
        }
        builder.connect();
        builder
    }

    fn report(&mut self, kind: ProblemKind, pointer: String, expected: impl Into<String>) {
        self.report_found(kind, pointer, None, expected);
    }

    fn report_found(
        &mut self,
        kind: ProblemKind,
        pointer: String,
        found: Option<String>,
        expected: impl Into<String>,
    ) {
        let expected = expected.into();
        self.problems.push(StepProblem { kind, pointer, found, expected, known: Vec::new() });
    }

    fn report_unknown(&mut self, pointer: String, found: &str) {
        self.problems.push(StepProblem {
            kind: ProblemKind::UnknownStep,
            pointer,
            found: Some(found.to_owned()),
            expected: "the id of a step".to_owned(),
            known: self.places.keys().map(|&id| id.to_owned()).collect(),
        });
    }

    fn find_targets(&mut self, steps: &'a [OrchestrationStep]) {
        for step in steps {
            let target = step.checkpoint.as_ref().and_then(|of| of.on_reject.as_deref());
            self.targets.extend(target.filter(|target| *target != ABORT));
            self.find_targets(&step.steps);
            self.find_targets(&step.parallel);
        }
    }

    /// Reads the steps of a group, and returns their places.
    fn read_group(&mut self, group: Group<'a>) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for (place, step) in group.steps.iter().enumerate() {
            let pointer = format!("{}/{place}", group.pointer);
            let is_target = step.id.as_deref().is_some_and(|id| self.targets.contains(id));
            let mut after = if is_target { BTreeSet::new() } else { group.after.clone() };
            if group.mode == OrchestrationMode::Sequential && step.needs.is_none() && !is_target {
                after.extend(&all);
            }
            let made = self.read_step(step, pointer, after, group.depth);
            if !is_target {
                all.extend(made);
            }
        }
        all
    }

    fn read_step(
        &mut self,
        step: &'a OrchestrationStep,
        pointer: String,
        after: BTreeSet<usize>,
        depth: usize,
    ) -> BTreeSet<usize> {
        let kinds = [
            step.agent.is_some(),
            step.checkpoint.is_some(),
            step.wait.is_some(),
            !step.steps.is_empty(),
            !step.parallel.is_empty(),
        ];
        if kinds.into_iter().filter(|is_there| *is_there).count() != 1 {
            let expected = "exactly one of `agent`, `checkpoint`, `wait`, `steps` and `parallel`";
            self.report(ProblemKind::TypeMismatch, pointer, expected);
            return BTreeSet::new();
        }
        self.check_keys(step, &pointer);
        let is_group = !step.steps.is_empty() || !step.parallel.is_empty();
        let made = match is_group {
            true if depth == GROUPS_MAX => {
                let expected = format!("at most {GROUPS_MAX} groups, one within the other");
                self.report(ProblemKind::TooLarge, pointer.clone(), expected);
                return BTreeSet::new();
            }
            true => {
                let (steps, key, mode) = match step.parallel.is_empty() {
                    true => (&step.steps, "steps", OrchestrationMode::Sequential),
                    false => (&step.parallel, "parallel", OrchestrationMode::Parallel),
                };
                let pointer = format!("{pointer}/{key}");
                self.read_group(Group { steps, pointer, mode, after, depth: depth + 1 })
            }
            false => {
                let id = step.id.clone().unwrap_or_default();
                if id.is_empty() {
                    self.report(ProblemKind::MissingKey, pointer.clone(), "the key `id`");
                }
                let work = self.read_work(step, &pointer);
                let when = self.read_condition(step, &pointer);
                let rejections = BTreeSet::new();
                self.outline.steps.push(OutlineStep { id, work, when, needs: after, rejections });
                self.read.push(ReadStep { step, pointer: pointer.clone() });
                BTreeSet::from([self.read.len() - 1])
            }
        };
        if let Some(id) = step.id.as_deref() {
            if id == ABORT {
                let expected = "another id: `abort` is a word of `on_reject`";
                self.report(ProblemKind::BadValue, format!("{pointer}/id"), expected);
            }
            if self.places.insert(id, made.clone()).is_some() {
                let expected = "an id that no other step has";
                self.report(ProblemKind::Twice, format!("{pointer}/id"), expected);
            }
        }
        made
    }

    /// Checks that a step has the keys of its kind alone.
    fn check_keys(&mut self, step: &OrchestrationStep, pointer: &str) {
        let of_agents = [
            ("mode", step.mode.is_some()),
            ("message", step.message.is_some()),
            ("input", step.input.is_some()),
            ("payload", !step.payload.is_empty()),
            ("for_each", step.for_each.is_some()),
            ("retry", step.retry.is_some()),
            ("on_error", step.on_error.is_some()),
            ("undo", step.undo.is_some()),
        ];
        for (key, is_there) in of_agents {
            if is_there && step.agent.is_none() {
                let pointer = format!("{pointer}/{key}");
                let expected = format!("no `{key}` in a step without `agent`");
                self.report(ProblemKind::TypeMismatch, pointer, expected);
            }
        }
        let is_group = !step.steps.is_empty() || !step.parallel.is_empty();
        for (key, is_there) in [("when", step.when.is_some()), ("needs", step.needs.is_some())] {
            if is_there && is_group {
                let pointer = format!("{pointer}/{key}");
                let expected = format!("`{key}` in the steps of the group");
                self.report(ProblemKind::TypeMismatch, pointer, expected);
            }
        }
    }

    fn read_condition(&mut self, step: &OrchestrationStep, pointer: &str) -> Option<Condition> {
        match Condition::over(step.when.as_deref()?, &VARIABLES) {
            Ok(condition) => Some(condition),
            Err(reason) => {
                let expected = reason.strip_prefix("expected ").unwrap_or(&reason);
                self.report(ProblemKind::BadValue, format!("{pointer}/when"), expected);
                None
            }
        }
    }

    fn read_work(&mut self, step: &OrchestrationStep, pointer: &str) -> Work {
        if let Some(checkpoint) = &step.checkpoint {
            return Work::Checkpoint(self.read_checkpoint(checkpoint, pointer));
        }
        if let Some(wait) = &step.wait {
            return Work::Wait(self.read_time(wait, format!("{pointer}/wait")));
        }
        let agent = step.agent.clone().unwrap_or_default();
        self.check_available(&agent, format!("{pointer}/agent"));
        if let Some(undo) = &step.undo {
            self.check_available(&undo.agent, format!("{pointer}/undo/agent"));
        }
        let on_error = step.on_error.unwrap_or_default();
        let usual = if on_error == OnError::Retry { ATTEMPTS } else { 1 };
        Work::Agent(AgentWork {
            agent,
            mode: step.mode.unwrap_or(Mode::Build),
            message: step.message.clone(),
            input: step.input.clone(),
            payload: step.payload.clone(),
            attempts: step.retry.map_or(usual, |retry| retry.attempts),
            on_error,
            items: step.for_each.as_ref().map(|of| self.items(of)),
            undo: step.undo.as_ref().map(|undo| Box::new(AgentWork::of_undo(undo))),
        })
    }

    fn check_available(&mut self, agent: &str, pointer: String) {
        let available = &self.orchestration.available_agents;
        if !available.is_empty() && !available.iter().any(|slug| slug == agent) {
            self.problems.push(StepProblem {
                kind: ProblemKind::UnknownAgent,
                pointer,
                found: Some(agent.to_owned()),
                expected: "one of `availableAgents`".to_owned(),
                known: available.clone(),
            });
        }
    }

    fn items(&self, of: &ForEach) -> Items {
        Items {
            list: of.list.clone(),
            max: of.max.map_or(ITEMS, |max| usize::try_from(max).unwrap_or(ITEMS)),
            mode: of.mode.or(self.orchestration.default_mode).unwrap_or_default(),
        }
    }

    fn read_checkpoint(&mut self, of: &Checkpoint, pointer: &str) -> CheckpointWork {
        let pointer = format!("{pointer}/checkpoint");
        let schema = of.input_schema.clone().map(Json::Object);
        if let Some(schema) = &schema
            && let Err(error) = Checker::compile(schema)
        {
            let expected = format!("a JSON Schema ({error})");
            self.report(ProblemKind::BadSchema, format!("{pointer}/input_schema"), expected);
        }
        if of.input.is_none() && schema.is_some() {
            let expected = "the key `input`, whose values the schema describes";
            self.report(ProblemKind::MissingKey, pointer.clone(), expected);
        }
        if of.on_timeout.is_some() && of.timeout.is_none() {
            let expected = "the key `timeout` beside it";
            self.report(ProblemKind::TypeMismatch, format!("{pointer}/on_timeout"), expected);
        }
        let timeout = of.timeout.as_deref();
        let on_reject = match of.on_reject.as_deref() {
            None | Some(ABORT) => OnReject::Abort,
            Some(_) => OnReject::Step,
        };
        CheckpointWork {
            question: of.question.clone(),
            input: of.input.clone().unwrap_or_default(),
            input_schema: schema,
            timeout: timeout.map(|text| self.read_time(text, format!("{pointer}/timeout"))),
            on_timeout: of.on_timeout.unwrap_or_default(),
            on_reject,
        }
    }

    fn read_time(&mut self, text: &str, pointer: String) -> Duration {
        let time = parse_duration(text).unwrap_or_default();
        if time.is_zero() || time > DURATION_MAX {
            self.report(ProblemKind::BadValue, pointer, "a time from `1ms` to `52w`");
        }
        time
    }

    /// Connects steps with those that they need, and with the checkpoints whose rejection leads to them.
    fn connect(&mut self) {
        for place in 0..self.read.len() {
            let ReadStep { step, pointer } = &self.read[place];
            let step = *step;
            let pointer = pointer.clone();
            for (number, id) in step.needs.iter().flatten().enumerate() {
                match self.places.get(id.as_str()) {
                    Some(needed) => self.outline.steps[place].needs.extend(needed),
                    None => self.report_unknown(format!("{pointer}/needs/{number}"), id),
                }
            }
            let target = step.checkpoint.as_ref().and_then(|of| of.on_reject.as_deref());
            let Some(target) = target.filter(|target| *target != ABORT) else { continue };
            let on_reject = format!("{pointer}/checkpoint/on_reject");
            match self.places.get(target) {
                None => self.report_unknown(on_reject, target),
                Some(of_target) => {
                    let is_step = of_target.len() == 1
                        && of_target.iter().all(|of| self.outline.steps[*of].id == target);
                    let of_target = of_target.clone();
                    if !is_step {
                        let expected = "the id of a step that is no group";
                        self.report(ProblemKind::BadValue, on_reject, expected);
                    }
                    for of in of_target {
                        self.outline.steps[of].rejections.insert(place);
                    }
                }
            }
        }
        for place in 0..self.read.len() {
            let is_target = !self.outline.steps[place].rejections.is_empty();
            if is_target && self.read[place].step.needs.is_some() {
                let pointer = format!("{}/needs", self.read[place].pointer);
                let expected = "no `needs`: the step begins when its checkpoint is rejected";
                self.report(ProblemKind::TypeMismatch, pointer, expected);
            }
        }
    }

    /// Returns the steps that end before a step, in any number of links.
    fn before(
        &self,
        place: usize,
        links: impl Fn(&OutlineStep) -> BTreeSet<usize>,
    ) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = links(&self.outline.steps[place]);
        while let Some(next) = open.pop_first() {
            if found.insert(next) {
                open.extend(links(&self.outline.steps[next]));
            }
        }
        found
    }

    /// Checks that no step waits for itself, and that each can begin.
    fn check_order(&mut self) {
        let all_links = |step: &OutlineStep| &step.needs | &step.rejections;
        for place in 0..self.read.len() {
            let ReadStep { step, pointer } = &self.read[place];
            if self.before(place, all_links).contains(&place) {
                let key = match step.needs.is_some() {
                    true => format!("{pointer}/needs"),
                    false => pointer.clone(),
                };
                let id = self.outline.steps[place].id.clone();
                let expected = "steps of which none waits for itself";
                self.report_found(ProblemKind::StepCycle, key, Some(id), expected);
                continue;
            }
            let needed = self.before(place, |step| step.needs.clone());
            let both = needed.iter().find_map(|of| {
                let checkpoint = self.outline.steps[*of].rejections.intersection(&needed).next()?;
                Some((*of, *checkpoint))
            });
            if let Some((target, checkpoint)) = both {
                let name = |place: usize| self.outline.steps[place].id.as_str();
                let expected = format!(
                    "no need of both `{}` and `{}`: one ends only if the other is rejected",
                    name(checkpoint),
                    name(target)
                );
                let pointer = pointer.clone();
                let id = self.outline.steps[place].id.clone();
                self.report_found(ProblemKind::Unreachable, pointer, Some(id), expected);
            }
        }
    }

    /// Checks that placeholders and conditions name steps that have ended by then.
    fn check_references(&mut self) {
        for place in 0..self.read.len() {
            let before = self.before(place, |step| &step.needs | &step.rejections);
            let ReadStep { step, pointer } = &self.read[place];
            for Placeholder { key, name } in unknown_names(step) {
                self.problems.push(StepProblem {
                    kind: ProblemKind::BadValue,
                    pointer: format!("{pointer}/{key}"),
                    found: Some(name),
                    expected: "a placeholder that begins with `message`, `input`, `payload` or `steps`; in a loop also `item` and `index`".to_owned(),
                    known: NAMES.map(str::to_owned).to_vec(),
                });
            }
            for reference in references_of(step) {
                let pointer = format!("{pointer}/{}", reference.key);
                let known = self.outline.steps.iter().position(|of| of.id == reference.id);
                // An undo reads the result of its own step, too.
                let is_own = known == Some(place) && reference.key.starts_with("undo/");
                match known {
                    None => self.problems.push(StepProblem {
                        kind: ProblemKind::UnknownStep,
                        pointer,
                        found: Some(reference.id),
                        expected: "the id of a step".to_owned(),
                        known: self.outline.steps.iter().map(|of| of.id.clone()).collect(),
                    }),
                    Some(of) if !before.contains(&of) && !is_own => {
                        self.problems.push(StepProblem {
                            kind: ProblemKind::UnknownStep,
                            pointer,
                            found: Some(reference.id),
                            expected: "a step that has ended by then; name it in `needs`"
                                .to_owned(),
                            known: Vec::new(),
                        })
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// First names of placeholders.
const NAMES: [&str; 6] = ["message", "input", "payload", "steps", "item", "index"];

/// A step that a key of another one names.
struct Reference {
    key: &'static str,
    id: String,
}

/// A placeholder, by its first name.
struct Placeholder {
    key: &'static str,
    name: String,
}

/// The paths of the placeholders of a key.
struct PathsOf<'a> {
    key: &'static str,
    paths: Vec<&'a str>,
}

/// Returns the placeholders of a step whose first name is not known.
fn unknown_names(step: &OrchestrationStep) -> Vec<Placeholder> {
    let mut unknown = Vec::new();
    for PathsOf { key, paths } in placeholders_of(step) {
        let is_item = step.for_each.is_some() && key != "for_each/list";
        let known = if is_item { NAMES.len() } else { NAMES.len() - 2 };
        for path in paths {
            let name = path.split('.').next().unwrap_or_default();
            if !NAMES.iter().take(known).any(|of| *of == name) {
                unknown.push(Placeholder { key, name: name.to_owned() });
            }
        }
    }
    unknown
}

/// Returns the steps that the placeholders and the condition of a step name.
fn references_of(step: &OrchestrationStep) -> Vec<Reference> {
    let condition = step.when.as_deref().map(paths_of_condition).unwrap_or_default();
    let all = placeholders_of(step).into_iter().chain([PathsOf { key: "when", paths: condition }]);
    let found = all.flat_map(|PathsOf { key, paths }| {
        let ids = paths.into_iter().filter_map(|path| path.strip_prefix("steps."));
        let ids = ids.map(|path| path.split('.').next().unwrap_or_default());
        ids.map(move |id| Reference { key, id: id.to_owned() }).collect::<Vec<_>>()
    });
    found.collect()
}

/// Returns the paths of the placeholders of a step.
fn placeholders_of(step: &OrchestrationStep) -> Vec<PathsOf<'_>> {
    let mut found: Vec<PathsOf<'_>> = Vec::new();
    let mut add = |key, paths| found.push(PathsOf { key, paths });
    add("message", step.message.as_deref().map(paths_of_text).unwrap_or_default());
    add("input", step.input.as_ref().map(paths_of).unwrap_or_default());
    add("payload", step.payload.values().flat_map(paths_of).collect());
    if let Some(undo) = &step.undo {
        add("undo/message", undo.message.as_deref().map(paths_of_text).unwrap_or_default());
        add("undo/input", undo.input.as_ref().map(paths_of).unwrap_or_default());
        add("undo/payload", undo.payload.values().flat_map(paths_of).collect());
    }
    if let Some(of) = &step.for_each {
        add("for_each/list", paths_of(&of.list));
    }
    if let Some(of) = &step.checkpoint {
        add("checkpoint/question", paths_of_text(&of.question));
        add("checkpoint/input", of.input.as_ref().map(paths_of).unwrap_or_default());
    }
    found
}

/// Returns the paths in a condition that begin with `steps`, without those in its literals.
fn paths_of_condition(text: &str) -> Vec<&str> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '.';
    let outside = text.split(['"', '\'']).step_by(2);
    let names = outside.flat_map(|part| part.split(move |char| !is_name(char)));
    names.filter(|name| name.starts_with("steps.")).collect()
}
