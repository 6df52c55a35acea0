//! Checkpoints: a person approves, edits or rejects values before the steps behind them begin.

use super::STEP_FAILED;
use super::progress::{Progress, StepRecord};
use crate::agent::Agent;
use crate::definition::{CheckpointWork, OnTimeout, Outline, OutlineStep, Work, fill_value};
use serde_json::{Value, json};
use weftwork_graph::{Ctx, NodeResult, Question};
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest, Verdict};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Ask;
use weftwork_types::tool::Effect;

/// Asks a person about the values of a checkpoint.
pub(super) fn ask(
    agent: &Agent,
    progress: &Progress,
    place: usize,
    work: &CheckpointWork,
    ctx: &Ctx,
) -> NodeResult<StepRecord> {
    let outline = progress.outline(agent)?;
    let known = Value::Object(progress.values(&outline));
    let wrong = |reason| Fault::new(STEP_FAILED, format!("the checkpoint cannot ask: {reason}"));
    let values = fill_value(&work.input, &known).map_err(wrong)?;
    let text = fill_value(&Value::String(work.question.clone()), &known).map_err(wrong)?;
    let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    let id = outline.steps.get(place).map(|step| step.id.as_str()).unwrap_or_default();
    let name = format!("{}/{id}", agent.slug);
    let call = ctx.tool_call_id(&name);
    let binding = ApprovalRequest::bind(ctx.thread(), &call, &name, &values);
    let request = ApprovalRequest {
        tool_call_id: call,
        tool: name,
        args: values.clone(),
        effect: Effect::ExternalSideEffect,
        binding,
        reason: format!("{text}{}", steps_behind(&outline, place)),
    };
    let schema = ApprovalDecision::schema(binding, work.input_schema.clone());
    let mut question = Question::new(Ask::Approval(request)).answer_schema(schema);
    if let Some(timeout) = work.timeout {
        let verdict = match work.on_timeout {
            OnTimeout::Approve => Verdict::Approve,
            OnTimeout::Reject => Verdict::Lapse,
        };
        let default = json!(ApprovalDecision::new(binding, verdict));
        question = question.expires_at(ctx.clock().now().plus(timeout), default);
    }
    let answer = ctx.ask_question(question)?;
    let decision: ApprovalDecision = serde_json::from_value(answer.value)?;
    Ok(match decision.verdict {
        Verdict::Approve => StepRecord::Done { content: values },
        Verdict::Edit { args } => StepRecord::Done { content: args },
        Verdict::Reject => StepRecord::Rejected { comment: decision.comment },
        Verdict::Respond { text } => StepRecord::Rejected { comment: Some(text) },
        Verdict::Lapse => {
            let comment = Some("nobody decided in time".to_owned());
            StepRecord::Rejected { comment }
        }
    })
}

/// Names the agents that the approval lets begin.
fn steps_behind(outline: &Outline, place: usize) -> String {
    let mut behind = vec![place];
    let mut named = Vec::new();
    // Steps may stand before those that they need.
    let mut next = 0;
    while let Some(of) = behind.get(next).copied() {
        next += 1;
        for (other, OutlineStep { id, work, needs, .. }) in outline.steps.iter().enumerate() {
            if needs.contains(&of) && !behind.contains(&other) {
                behind.push(other);
                if let Work::Agent(work) = work {
                    named.push(format!("`{id}` (agent {})", work.agent));
                }
            }
        }
    }
    match named.is_empty() {
        true => String::new(),
        false => format!(" Behind it: {}.", named.join(", ")),
    }
}
