//! The nodes of an orchestration.

use super::checkpoint;
use super::event::{StepChange, StepEvents};
use super::progress::{Change, OrchestrationRequest, Progress, StepRecord};
use super::schedule::{Decision, Next, StepTask, decide};
use super::step::{self, Attempted};
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
        .ends(ORCHESTRATE, steps.iter().map(String::as_str).chain(names.clone()).chain([END]));
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
        steps: agent.outline.steps.iter().map(|step| step.id.clone()).collect(),
        path: path_of(&state)?,
    };
    if action.is_none() {
        return Ok(hand_over(&request, Change { end: true, ..Change::default() }));
    }
    let change = Change { begin: Some(request), ..Change::default() };
    let update = AgentStateUpdate::new().orchestration(json!(change));
    Ok(Command::update(update).goto(ORCHESTRATE))
}

/// Returns the steps around the agent.
fn path_of(state: &State<AgentState>) -> NodeResult<Vec<String>> {
    let path = state.path().cloned().map(serde_json::from_value);
    Ok(path.transpose()?.unwrap_or_default())
}

/// Writes the request again for the node of its mode: the channels of requests last one superstep.
fn hand_over(request: &OrchestrationRequest, change: Change) -> Command<AgentState> {
    let OrchestrationRequest { mode, payload, input, depth, path, .. } = request;
    let mut update = AgentStateUpdate::new()
        .orchestration(json!(change))
        .mode(mode.name().to_owned())
        .payload(payload.clone())
        .depth(*depth)
        .path(json!(path));
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
    let run = ctx.calls().origin.run().map(|caller| &caller.run);
    let Decision { records, failures, next } = decide(&agent.outline, &progress, run);
    let events = StepEvents::of(&progress, &agent.outline, &ctx);
    events.emit_decided(|id| records.get(id).cloned());
    let change = Change { records, failures, ..Change::default() };
    match next {
        Next::Own => Ok(hand_over(&progress.request, change)),
        Next::Tasks(tasks) => {
            let mut command = Command::update(AgentStateUpdate::new().orchestration(json!(change)));
            for task in tasks {
                let step = agent.outline.steps.get(task.position);
                let node = step.map(|step| node_of(&step.id)).unwrap_or_default();
                let key = task.key(&agent.outline);
                // A step about which a person is asked makes no attempt.
                if !matches!(progress.records.get(&key), Some(StepRecord::Asking { .. })) {
                    events.emit(&key, &StepChange::Started);
                }
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
    let key = task.key(&agent.outline);
    let events = StepEvents::of(&progress, &agent.outline, &ctx);
    let attempted = match &planned.work {
        Work::Agent(work) => step::carry_out(&agent, &progress, &task, work, &ctx).await,
        Work::Checkpoint(work) => {
            checkpoint::ask(&agent, &progress, task.position, work, &ctx).map(Attempted::ended)
        }
        Work::Wait(time) => {
            let slept = ctx.sleep(*time).await;
            slept.map(|()| Attempted::ended(StepRecord::Done { content: Value::Null }))
        }
    };
    if attempted.as_ref().is_err_and(NodeError::is_interrupt) {
        let change = match &planned.work {
            Work::Agent(_) | Work::Checkpoint(_) => StepChange::Asked,
            Work::Wait(_) => StepChange::Waiting,
        };
        events.emit(&key, &change);
    }
    let Attempted { record, failure } = attempted?;
    events.emit(&key, &StepChange::Recorded { record: &record, failure: failure.as_ref() });
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
    answer["metadata"]["steps"] = progress.report(outline);
    if !progress.failures.is_empty() {
        answer["metadata"]["failures"] = json!(progress.failures);
    }
}

/// Returns the progress, without which no node of an orchestration runs.
fn progress_of(state: &State<AgentState>) -> NodeResult<Progress> {
    let missing = || NodeError::message("the run has no orchestration");
    Progress::of(state)?.ok_or_else(missing)
}
