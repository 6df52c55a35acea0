//! The nodes of an orchestration.

use super::checkpoint;
use super::event::{StepChange, StepEvents};
use super::pause;
use super::planning::{self, MAKE_PLAN, PLANNED_STEP};
use super::progress::{Change, OrchestrationRequest, Progress, RunPlan, StepRecord};
use super::schedule::{Decision, Next, StepTask, decide};
use super::step::{self, Attempted};
use super::undo;
use crate::agent::Agent;
use crate::definition::{Outline, Work};
use crate::mode::{OrchestrationAction, payload_of, usual};
use crate::state::{AgentState, AgentStateUpdate, chain_of, last_request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::{
    Arg, Command, Ctx, Deps, END, Graph, Next as Target, NodeError, NodeResult, START, SendTo,
    State,
};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Mode;

/// Node that begins an orchestration.
const BEGIN: &str = "begin";
/// Node that decides what begins next.
pub(super) const ORCHESTRATE: &str = "orchestrate";
/// Node that adds the steps to the answer.
const REPORT: &str = "report";
/// Node that undoes the effects of steps that are rolled back.
pub(crate) const UNDO: &str = "undo";
/// Key of the agent's own work among the steps that began. No id has a space.
pub(crate) const OWN_WORK: &str = "own work";

/// Adds the routes to the nodes of the modes, and the nodes of the steps, if the agent has some.
pub(crate) fn add_steps(
    graph: Graph<AgentState>,
    agent: &Agent,
    modes: &[Mode],
) -> Graph<AgentState> {
    let first = usual(modes);
    let mode_of = move |state: &State<AgentState>| {
        let asked = state.mode().and_then(|mode| Mode::of_name(mode));
        asked.unwrap_or(first).name()
    };
    let names = modes.iter().map(|mode| mode.name());
    let is_planned = agent.plans_steps();
    if agent.outline.steps.is_empty() && !is_planned {
        return graph
            .route_to(START, names, move |state: State<AgentState>| Target::node(mode_of(&state)));
    }
    let steps: Vec<String> = match is_planned {
        true => vec![PLANNED_STEP.to_owned()],
        false => agent.outline.steps.iter().map(|step| node_of(&step.id)).collect(),
    };
    let first = if is_planned { MAKE_PLAN } else { ORCHESTRATE };
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
        .ends(BEGIN, names.clone().chain([first]))
        .ends(
            ORCHESTRATE,
            steps.iter().map(String::as_str).chain(names.clone()).chain([UNDO, END]),
        );
    if is_planned {
        graph = planning::add_nodes(graph);
    }
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
    let chain = chain_of(&state)?;
    let request = OrchestrationRequest {
        mode: asked.unwrap_or_else(|| usual(agent.definition.modes())),
        message: last_request(&state).map(Message::joined_text).unwrap_or_default(),
        payload: state.payload().cloned().unwrap_or_default(),
        input: state.input().cloned().unwrap_or_default(),
        depth: chain.depth,
        ancestors: chain.agents,
        steps: agent.outline.steps.iter().map(|step| step.id.clone()).collect(),
        path: path_of(&state)?,
    };
    if action.is_none() {
        return Ok(hand_over(&request, Change { end: true, ..Change::default() }));
    }
    let change = Change { begin: Some(request), ..Change::default() };
    let update = AgentStateUpdate::new().orchestration(json!(change));
    Ok(Command::update(update).goto(if agent.plans_steps() { MAKE_PLAN } else { ORCHESTRATE }))
}

/// Returns the steps around the agent.
fn path_of(state: &State<AgentState>) -> NodeResult<Vec<String>> {
    let path = state.path().cloned().map(serde_json::from_value);
    Ok(path.transpose()?.unwrap_or_default())
}

/// Writes the request again for the node of its mode: the channels of requests last one superstep.
fn hand_over(request: &OrchestrationRequest, change: Change) -> Command<AgentState> {
    let OrchestrationRequest { mode, payload, input, depth, ancestors, path, .. } = request;
    let mut update = AgentStateUpdate::new()
        .orchestration(json!(change))
        .mode(mode.name().to_owned())
        .payload(payload.clone())
        .depth(*depth)
        .ancestors(json!(ancestors))
        .path(json!(path));
    if !input.is_null() {
        update = update.input(input.clone());
    }
    Command::update(update).goto(mode.name())
}

/// The request for the own work, behind the steps. In the mode `plan` it makes a plan of its own, and no
/// version of the one that was carried out.
fn own_request(progress: &Progress) -> OrchestrationRequest {
    let mut request = progress.request.clone();
    if progress.plan.is_some()
        && request.mode == Mode::Plan
        && let Some(members) = request.payload.as_object_mut()
    {
        members.remove("planId");
    }
    request
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
    let outline = progress.outline(&agent)?;
    let Decision { records, failures, next } = decide(&outline, &progress, run);
    let starts: Vec<String> = match &next {
        Next::Own => vec![OWN_WORK.to_owned()],
        Next::Tasks(tasks) => tasks.iter().map(|task| task.key(&outline)).collect(),
        Next::Abort(_) => Vec::new(),
    };
    let mut change = Change { records, failures, ..Change::default() };
    if !starts.is_empty() {
        pause::hold(&*agent.store, &ctx).await?;
        change.starts = starts;
        change.versions = Some(agent.current_versions(&ctx).await?);
    }
    // An orchestration that is held decides again when it goes on.
    let events = StepEvents::of(&progress, &outline, &ctx);
    events.emit_decided(|id| change.records.get(id).cloned());
    match next {
        Next::Own => Ok(hand_over(&own_request(&progress), change)),
        Next::Tasks(tasks) => {
            let mut command = Command::update(AgentStateUpdate::new().orchestration(json!(change)));
            for task in tasks {
                let step = outline.steps.get(task.position);
                let node = match &progress.plan {
                    Some(_) => PLANNED_STEP.to_owned(),
                    None => step.map(|step| node_of(&step.id)).unwrap_or_default(),
                };
                let key = task.key(&outline);
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
            end_without_result(&agent, &ended, fault, Value::Null, &ctx)
        }
    }
}

/// Ends an orchestration without a result. The metadata of the answer have these members, too.
pub(super) fn end_without_result(
    agent: &Agent,
    progress: &Progress,
    fault: Fault,
    more: Value,
    ctx: &Ctx,
) -> NodeResult<Command<AgentState>> {
    let mut answer = agent.failed_answer(progress.request.mode, &fault);
    describe(progress, &*progress.outline(agent)?, &mut answer);
    if let (Value::Object(more), Some(metadata)) = (more, answer["metadata"].as_object_mut()) {
        metadata.extend(more);
    }
    let message = Message::text(ctx.message_id(), Role::Assistant, fault.message);
    let end = Change { end: true, ..Change::default() };
    let update = AgentStateUpdate::new().messages([message]).answer(answer);
    Ok(Command::update(update.orchestration(json!(end))))
}

/// Carries out a step, or an item of a loop.
async fn carry_out(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    task: Arg<StepTask>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let progress = progress_of(&state)?;
    let outline = progress.outline(&agent)?;
    let Some(planned) = outline.steps.get(task.position) else {
        return Err(NodeError::message("the orchestration has no such step"));
    };
    let key = task.key(&outline);
    let events = StepEvents::of(&progress, &outline, &ctx);
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
    let Attempted { record, failures } = attempted?;
    events.emit(&key, &StepChange::Recorded { record: &record, failure: failures.last() });
    let records = BTreeMap::from([(key, record)]);
    let change = Change { records, failures, ..Change::default() };
    Ok(AgentStateUpdate::new().orchestration(json!(change)))
}

/// Adds the steps to the answer of the agent's own work.
async fn report(state: State<AgentState>, agent: Deps<Arc<Agent>>) -> NodeResult<AgentStateUpdate> {
    let progress = progress_of(&state)?;
    let mut answer = state.answer().cloned().unwrap_or_default();
    describe(&progress, &*progress.outline(&agent)?, &mut answer);
    let end = Change { end: true, ..Change::default() };
    Ok(AgentStateUpdate::new().answer(answer).orchestration(json!(end)))
}

fn describe(progress: &Progress, outline: &Outline, answer: &mut Value) {
    // The own work in the mode `plan` has made another one.
    if let Some(plan) = &progress.plan
        && answer["metadata"].get("plan").is_none()
    {
        let RunPlan { id, title, version, .. } = plan;
        answer["metadata"]["plan"] = match version {
            Some(version) => json!({"id": id, "title": title, "version": version}),
            None => json!({"id": id, "title": title}),
        };
    }
    let own = answer["metadata"].get("failures").and_then(Value::as_array).cloned();
    for (name, value) in progress.describe(outline) {
        answer["metadata"][name] = value;
    }
    if let Some(own) = own {
        let of_steps = progress.failures.iter().map(|failure| json!(failure));
        answer["metadata"]["failures"] = of_steps.chain(own).collect();
    }
}

/// Returns the progress, without which no node of an orchestration runs.
pub(super) fn progress_of(state: &State<AgentState>) -> NodeResult<Progress> {
    let missing = || NodeError::message("the run has no orchestration");
    Progress::of(state)?.ok_or_else(missing)
}
