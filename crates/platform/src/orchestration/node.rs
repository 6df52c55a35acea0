//! The nodes of an orchestration.

use super::checkpoint;
use super::pause;
use super::progress::{Change, OrchestrationRequest, Progress, StepRecord};
use super::schedule::{Decision, Next, StepTask, decide};
use super::step::{self, Attempted};
use super::undo;
use crate::agent::Agent;
use crate::definition::{Outline, Work};
use crate::mode::{OrchestrationAction, payload_of, usual};
use crate::state::{AgentState, AgentStateUpdate, last_request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::{
    Arg, Command, Ctx, Deps, END, Graph, Next as Target, NodeError, NodeResult, START, SendTo,
    State,
};
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Mode;

/// Node that begins an orchestration.
const BEGIN: &str = "begin";
/// Node that decides what begins next.
const ORCHESTRATE: &str = "orchestrate";
/// Node that adds the steps to the answer.
const REPORT: &str = "report";
/// Node that undoes the effects of steps that are rolled back.
pub(crate) const UNDO: &str = "undo";
/// Key of the agent's own work among the steps that began. No id has a space.
pub(crate) const OWN_WORK: &str = "own work";

/// Adds the routes to the nodes of the modes, and the nodes of the steps, if the agent has some.
pub(crate) fn add_steps(
    graph: Graph<AgentState>,
    outline: &Outline,
    modes: &[Mode],
) -> Graph<AgentState> {
    let first = usual(modes);
    let mode_of = move |state: &State<AgentState>| {
        let asked = state.mode().and_then(|mode| Mode::of_name(mode));
        asked.unwrap_or(first).name()
    };
    let names = modes.iter().map(|mode| mode.name());
    if outline.steps.is_empty() {
        return graph
            .route_to(START, names, move |state: State<AgentState>| Target::node(mode_of(&state)));
    }
    let steps: Vec<String> = outline.steps.iter().map(|step| node_of(&step.id)).collect();
    let mut graph = graph
        .node(BEGIN, begin)
        .node(ORCHESTRATE, orchestrate)
        .node(REPORT, report)
        .node(UNDO, undo::undo)
        .edge(UNDO, ORCHESTRATE)
        .route_to(START, names.clone().chain([BEGIN]), move |state: State<AgentState>| {
            // Also what an earlier run left is not part of this one.
            let is_left = !state.orchestration().is_null();
            let payload = payload_of(state.payload()).unwrap_or_default();
            match is_left || OrchestrationAction::of(&payload).ok().flatten().is_some() {
                true => Target::node(BEGIN),
                false => Target::node(mode_of(&state)),
            }
        })
        .ends(BEGIN, names.clone().chain([ORCHESTRATE]))
        .ends(
            ORCHESTRATE,
            steps.iter().map(String::as_str).chain(names.clone()).chain([UNDO, END]),
        );
    for step in &steps {
        graph = graph.node(step.as_str(), carry_out).edge(step.as_str(), ORCHESTRATE);
    }
    for name in names {
        graph = graph.route_to(name, [REPORT, END], |state: State<AgentState>| {
            match state.orchestration().is_null() {
                true => Target::End,
                false => Target::node(REPORT),
            }
        });
    }
    graph
}

/// Name of the node of a step.
fn node_of(id: &str) -> String {
    format!("step_{id}")
}

/// Returns the id of the step of a node.
pub(crate) fn id_of_node(node: &str) -> Option<&str> {
    node.strip_prefix("step_")
}

/// Begins the orchestration of a request. A request without one goes to its mode.
async fn begin(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
) -> NodeResult<Command<AgentState>> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    let action = OrchestrationAction::of(&payload).map_err(|error| error.fault())?;
    let asked = state.mode().and_then(|mode| Mode::of_name(mode));
    let request = OrchestrationRequest {
        mode: asked.unwrap_or_else(|| usual(agent.definition.modes())),
        message: last_request(&state).map(Message::joined_text).unwrap_or_default(),
        payload: state.payload().cloned().unwrap_or_default(),
        input: state.input().cloned().unwrap_or_default(),
        depth: state.depth().copied().unwrap_or_default(),
    };
    if action.is_none() {
        return Ok(hand_over(&request, Change { end: true, ..Change::default() }));
    }
    let change = Change { begin: Some(request), ..Change::default() };
    let update = AgentStateUpdate::new().orchestration(json!(change));
    Ok(Command::update(update).goto(ORCHESTRATE))
}

/// Writes the request again for the node of its mode: the channels of requests last one superstep.
fn hand_over(request: &OrchestrationRequest, change: Change) -> Command<AgentState> {
    let OrchestrationRequest { mode, payload, input, depth, .. } = request;
    let mut update = AgentStateUpdate::new()
        .orchestration(json!(change))
        .mode(mode.name().to_owned())
        .payload(payload.clone())
        .depth(*depth);
    if !input.is_null() {
        update = update.input(input.clone());
    }
    Command::update(update).goto(mode.name())
}

/// Decides what begins next.
async fn orchestrate(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<Command<AgentState>> {
    let progress = progress_of(&state)?;
    if progress.rolls_back() {
        return Ok(Command::update(AgentStateUpdate::new()).goto(UNDO));
    }
    let run = ctx.calls().origin.run().map(|caller| &caller.run);
    let Decision { records, failures, next } = decide(&agent.outline, &progress, run);
    let starts: Vec<String> = match &next {
        Next::Own => vec![OWN_WORK.to_owned()],
        Next::Tasks(tasks) => tasks.iter().map(|task| task.key(&agent.outline)).collect(),
        Next::Abort(_) => Vec::new(),
    };
    let mut change = Change { records, failures, ..Change::default() };
    if !starts.is_empty() {
        pause::hold(&*agent.store, &ctx).await?;
        change.starts = starts;
        change.versions = Some(agent.current_versions(&ctx).await?);
    }
    match next {
        Next::Own => Ok(hand_over(&progress.request, change)),
        Next::Tasks(tasks) => {
            let mut command = Command::update(AgentStateUpdate::new().orchestration(json!(change)));
            for task in tasks {
                let step = agent.outline.steps.get(task.position);
                let node = step.map(|step| node_of(&step.id)).unwrap_or_default();
                ctx.emit(json!({"orchestration": {"step": task.key(&agent.outline), "status": "started"}}));
                command = command.send(SendTo::to(node, task));
            }
            Ok(command)
        }
        Next::Abort(fault) => {
            let mut ended = progress.clone();
            ended.records.extend(change.records);
            ended.failures.extend(change.failures);
            let mut answer = agent.failed_answer(progress.request.mode, &fault);
            describe(&ended, &agent.outline, &mut answer);
            let message = Message::text(ctx.message_id(), Role::Assistant, fault.message);
            let end = Change { end: true, ..Change::default() };
            let update = AgentStateUpdate::new().messages([message]).answer(answer);
            Ok(Command::update(update.orchestration(json!(end))))
        }
    }
}

/// Carries out a step, or an item of a loop.
async fn carry_out(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    task: Arg<StepTask>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let progress = progress_of(&state)?;
    let Some(planned) = agent.outline.steps.get(task.position) else {
        return Err(NodeError::message("the definition has no such step"));
    };
    let Attempted { record, failure } = match &planned.work {
        Work::Agent(work) => step::carry_out(&agent, &progress, &task, work, &ctx).await?,
        Work::Checkpoint(work) => {
            Attempted::ended(checkpoint::ask(&agent, &progress, task.position, work, &ctx)?)
        }
        Work::Wait(time) => {
            ctx.sleep(*time).await?;
            Attempted::ended(StepRecord::Done { content: Value::Null })
        }
    };
    let key = task.key(&agent.outline);
    ctx.emit(json!({"orchestration": {"step": key, "status": json!(record)["status"]}}));
    let records = BTreeMap::from([(key, record)]);
    let change = Change { records, failures: failure.into_iter().collect(), ..Change::default() };
    Ok(AgentStateUpdate::new().orchestration(json!(change)))
}

/// Adds the steps to the answer of the agent's own work.
async fn report(state: State<AgentState>, agent: Deps<Arc<Agent>>) -> NodeResult<AgentStateUpdate> {
    let progress = progress_of(&state)?;
    let mut answer = state.answer().cloned().unwrap_or_default();
    describe(&progress, &agent.outline, &mut answer);
    let end = Change { end: true, ..Change::default() };
    Ok(AgentStateUpdate::new().answer(answer).orchestration(json!(end)))
}

fn describe(progress: &Progress, outline: &Outline, answer: &mut Value) {
    for (name, value) in progress.describe(outline) {
        answer["metadata"][name] = value;
    }
}

/// Returns the progress, without which no node of an orchestration runs.
pub(super) fn progress_of(state: &State<AgentState>) -> NodeResult<Progress> {
    let missing = || NodeError::message("the run has no orchestration");
    Progress::of(state)?.ok_or_else(missing)
}
