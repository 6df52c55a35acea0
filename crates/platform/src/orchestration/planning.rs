//! Plans: the steps of an orchestration that the model of its agent, or a person, made for a request.

use super::node::{ORCHESTRATE, end_without_result, progress_of};
use super::progress::{Change, Progress, RunPlan};
use super::roster::Roster;
use super::{PLAN_REFUSED, REJECTED};
use crate::agent::{Agent, WrittenRecord, content_in, system};
use crate::context;
use crate::definition::{DefinitionFolder, PlanRules, plan_to_yaml};
use crate::mode::payload_of;
use crate::records::{ContentFormat, Form, NewVersion, RecordKind};
use crate::state::{AgentState, AgentStateUpdate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::{
    Command, Ctx, Deps, END, Graph, NodeError, NodeResult, Once, Question, State,
};
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest, Verdict};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Payload;
use weftwork_types::tool::Effect;

/// Node that makes or reads the plan.
pub(super) const MAKE_PLAN: &str = "make_plan";
/// Node that asks a person about the plan.
const CONFIRM_PLAN: &str = "confirm_plan";
/// Node of all steps of a plan: the graph is compiled before there is one.
pub(crate) const PLANNED_STEP: &str = "planned_step";
/// Number of times that a plan with problems goes back to the model.
const REPAIRS_MAX: u32 = 1;
/// Maximum number of problems in the text of an error; the metadata of the answer have all.
const PROBLEMS_SHOWN_MAX: usize = 10;

/// Adds the nodes of plans.
pub(super) fn add_nodes(graph: Graph<AgentState>) -> Graph<AgentState> {
    graph
        .node(MAKE_PLAN, make_plan)
        .ends(MAKE_PLAN, [CONFIRM_PLAN, ORCHESTRATE, END])
        .node(CONFIRM_PLAN, confirm_plan)
        .ends(CONFIRM_PLAN, [ORCHESTRATE, END])
}

/// A problem of a plan, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PlanProblem {
    text: String,
    problem: Value,
}

/// A plan that is refused.
struct RefusedPlan {
    text: String,
    problems: Vec<PlanProblem>,
}

/// Makes the plan of the request, or reads the one that it names, and checks it.
async fn make_plan(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<Command<AgentState>> {
    let progress = progress_of(&state)?;
    let payload = payload_of(Some(&progress.request.payload)).map_err(|error| error.fault())?;
    let made = match payload.plan_id.as_deref() {
        Some(id) => read_plan(&agent, &progress, id, &ctx).await?,
        None => plan_with_model(&agent, &state, &progress, &payload, &ctx).await?,
    };
    let plan = match made {
        Ok(plan) => plan,
        Err(refused) => return refuse(&agent, &progress, refused, &ctx),
    };
    ctx.emit(json!({"orchestration": {"plan": plan.id, "status": "made"}}));
    let planning = agent.definition.orchestration.as_ref().and_then(|of| of.planning.as_ref());
    let confirm = planning.and_then(|of| of.confirm).unwrap_or_default();
    let is_shown = confirm || payload.orchestration_plan == Some(true);
    Ok(go_on_with(plan, if is_shown { CONFIRM_PLAN } else { ORCHESTRATE }))
}

fn go_on_with(plan: RunPlan, node: &str) -> Command<AgentState> {
    let change = Change { plan: Some(plan), ..Change::default() };
    Command::update(AgentStateUpdate::new().orchestration(json!(change))).goto(node)
}

/// Reads the current version of the plan that a request names.
async fn read_plan(
    agent: &Agent,
    progress: &Progress,
    id: &str,
    ctx: &Ctx,
) -> NodeResult<Result<RunPlan, RefusedPlan>> {
    let read = async |_| {
        let found = context::record_content(agent, RecordKind::Plan, Some(id), ctx).await?;
        let found = found.ok_or_else(|| NodeError::message("the plan is not there"))?;
        Ok(RunPlan {
            id: id.to_owned(),
            title: found.version.title,
            version: Some(found.version.number),
            text: found.content,
        })
    };
    let plan: RunPlan = ctx.once(Once::new("plan").reads(), read).await?;
    let problems = check_plan(agent, progress, "check", &plan.text, ctx).await?;
    Ok(match problems.is_empty() {
        true => Ok(plan),
        false => Err(RefusedPlan { text: plan.text, problems }),
    })
}

/// Lets the model make a plan, which becomes a record. One with problems goes back to it once.
async fn plan_with_model(
    agent: &Agent,
    state: &State<AgentState>,
    progress: &Progress,
    payload: &Payload,
    ctx: &Ctx,
) -> NodeResult<Result<RunPlan, RefusedPlan>> {
    let roster = async |_| Roster::of(agent, ctx);
    let roster: Roster = ctx.once(Once::new("agents").reads(), roster).await?;
    let instructions = context::instructions(agent, state, ctx).await?;
    let mut messages = vec![system(roster.instructions(&instructions))?];
    messages.extend(state.messages().iter().cloned());
    if progress.request.message.is_empty() {
        messages.push(Message::text(ctx.message_id(), Role::User, "Make the plan."));
    }
    let schema = roster.schema();
    let mut repairs = 0;
    let text = loop {
        let answer = agent.ask_unchecked(messages.clone(), &schema, ctx).await?;
        let text = text_of(agent, &answer.joined_text());
        let problems = check_plan(agent, progress, &format!("check/{repairs}"), &text, ctx).await?;
        if problems.is_empty() {
            break text;
        }
        if repairs == REPAIRS_MAX {
            return Ok(Err(RefusedPlan { text, problems }));
        }
        repairs += 1;
        let listed: String = problems.iter().map(|of| format!("- {}\n", of.text)).collect();
        let request = format!(
            "As a definition, the plan is:\n{text}\nIts problems:\n{listed}Answer again with the whole corrected plan as JSON."
        );
        messages.push(answer);
        messages.push(Message::text(ctx.message_id(), Role::User, request));
    };
    let title = payload.title.clone();
    let title = title.unwrap_or_else(|| format!("Orchestration of {}", agent.name()));
    let new = NewVersion { title, content: text.clone(), ..NewVersion::default() };
    let form = Form::of_orchestration();
    let record = WrittenRecord { kind: RecordKind::Plan, id: None, form: &form };
    let written = agent.write_formed(record, new, ctx).await?;
    let id = written.at.id.as_str().to_owned();
    Ok(Ok(RunPlan { id, title: written.title, version: Some(1), text }))
}

/// Returns the text of the plan in an answer of the model. One that is no JSON stays as it is, to be
/// checked and shown.
fn text_of(agent: &Agent, answer: &str) -> String {
    let content = content_in(ContentFormat::Json, answer);
    let Ok(answered) = serde_json::from_str::<Value>(&content) else { return content };
    let Value::Object(members) = answered else { return plan_to_yaml(&answered) };
    let own = agent.definition.orchestration.as_ref();
    let mut all = Map::new();
    if let Some(own) = own {
        all.insert("availableAgents".to_owned(), json!(own.available_agents));
        all.extend(own.default_mode.map(|mode| ("defaultMode".to_owned(), json!(mode))));
        all.extend(own.max_depth.map(|depth| ("maxDepth".to_owned(), depth.into())));
    }
    all.extend(members);
    plan_to_yaml(&Value::Object(all))
}

/// Checks a plan against the definitions of now. The result is recorded under the name, so that a node
/// that is executed again decides the same.
async fn check_plan(
    agent: &Agent,
    progress: &Progress,
    name: &str,
    text: &str,
    ctx: &Ctx,
) -> NodeResult<Vec<PlanProblem>> {
    let check = async |_| {
        let ended = || NodeError::message("the program ends");
        let agents = agent.others.upgrade().ok_or_else(ended)?;
        let all = agents.definitions(&ctx.calls().principal);
        let others: Vec<&DefinitionFolder> = all.iter().map(|folder| &**folder).collect();
        let rules = PlanRules {
            slug: &agent.slug,
            definition: &agent.definition,
            depth: progress.request.depth,
            others: &others,
        };
        let problems = rules.check(text).into_iter();
        let recorded = problems
            .map(|problem| PlanProblem { text: problem.to_string(), problem: json!(problem) });
        Ok(recorded.collect())
    };
    ctx.once(Once::new(name).reads(), check).await
}

/// Ends an orchestration whose plan is refused.
fn refuse(
    agent: &Agent,
    progress: &Progress,
    refused: RefusedPlan,
    ctx: &Ctx,
) -> NodeResult<Command<AgentState>> {
    let RefusedPlan { text, problems } = refused;
    let fault = Fault::new(
        PLAN_REFUSED,
        format!("the plan of agent {} is refused: {}", agent.slug, list(&problems)),
    );
    let problems: Vec<_> = problems.into_iter().map(|of| of.problem).collect();
    let shown = json!({"refusedPlan": {"content": text, "problems": problems}});
    end_without_result(agent, progress, fault, shown, ctx)
}

/// Lists problems in one line.
fn list(problems: &[PlanProblem]) -> String {
    let shown: Vec<_> =
        problems.iter().take(PROBLEMS_SHOWN_MAX).map(|of| of.text.as_str()).collect();
    let listed = shown.join("; ");
    match problems.len().checked_sub(PROBLEMS_SHOWN_MAX) {
        Some(more @ 1..) => format!("{listed}; and {more} more"),
        _ => listed,
    }
}

/// Asks a person about the plan, again after an edit that has problems.
async fn confirm_plan(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<Command<AgentState>> {
    let progress = progress_of(&state)?;
    let missing = || NodeError::message("the orchestration has no plan");
    let plan = progress.plan.clone().ok_or_else(missing)?;
    let mut note = String::new();
    let mut edits = 0;
    loop {
        let ApprovalDecision { verdict, comment, .. } =
            ask_person(&agent, &plan, &progress, &note, &ctx)?;
        let edited = match verdict {
            Verdict::Approve => return Ok(go_on_with(plan, ORCHESTRATE)),
            Verdict::Edit { args } => args["plan"].as_str().unwrap_or_default().to_owned(),
            Verdict::Respond { text } => return reject(&agent, &progress, Some(text), &ctx),
            Verdict::Reject | Verdict::Lapse => return reject(&agent, &progress, comment, &ctx),
        };
        let name = format!("edit/{edits}");
        let problems = check_plan(&agent, &progress, &name, &edited, &ctx).await?;
        if problems.is_empty() {
            return Ok(go_on_with(write_edited(&agent, plan, edited, &ctx).await?, ORCHESTRATE));
        }
        note = format!(" The edited plan is refused: {}.", list(&problems));
        edits += 1;
    }
}

/// Adds the edited text of a plan to its record.
async fn write_edited(
    agent: &Agent,
    plan: RunPlan,
    text: String,
    ctx: &Ctx,
) -> NodeResult<RunPlan> {
    let new = NewVersion {
        title: plan.title.clone(),
        content: text.clone(),
        parent: plan.version,
        ..NewVersion::default()
    };
    let form = Form::of_orchestration();
    let record = WrittenRecord { kind: RecordKind::Plan, id: Some(&plan.id), form: &form };
    agent.write_formed(record, new, ctx).await?;
    // Others may have added versions meanwhile.
    Ok(RunPlan { text, version: None, ..plan })
}

fn reject(
    agent: &Agent,
    progress: &Progress,
    comment: Option<String>,
    ctx: &Ctx,
) -> NodeResult<Command<AgentState>> {
    let comment = comment.map(|text| format!(": {text}")).unwrap_or_default();
    let fault = Fault::new(REJECTED, format!("the plan was rejected{comment}"));
    end_without_result(agent, progress, fault, Value::Null, ctx)
}

/// Asks for the approval of a plan, whose text is bound to it.
fn ask_person(
    agent: &Agent,
    plan: &RunPlan,
    progress: &Progress,
    note: &str,
    ctx: &Ctx,
) -> NodeResult<ApprovalDecision> {
    let steps = &progress.outline(agent)?.steps;
    let ids: Vec<_> = steps.iter().map(|step| format!("`{}`", step.id)).collect();
    let name = format!("{}/plan", agent.slug);
    let call = ctx.tool_call_id(&name);
    let args = json!({"plan": plan.text});
    let binding = ApprovalRequest::bind(ctx.thread(), &call, &name, &args);
    let request = ApprovalRequest {
        tool_call_id: call,
        tool: name,
        args,
        effect: Effect::ExternalSideEffect,
        binding,
        reason: format!("Carry out this plan? Its steps: {}.{note}", ids.join(", ")),
    };
    let edited = json!({
        "type": "object",
        "properties": {"plan": {"type": "string"}},
        "required": ["plan"],
        "additionalProperties": false,
    });
    let schema = ApprovalDecision::schema(binding, Some(edited));
    let question = Question::new(Ask::Approval(request)).answer_schema(schema);
    Ok(serde_json::from_value(ctx.ask_question(question)?.value)?)
}
