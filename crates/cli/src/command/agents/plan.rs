//! Plans of orchestrations: a person sees one before it runs.

use crate::args::Ask;
use serde_json::Value;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use weftwork::App;
use weftwork::platform::Watch;
use weftwork::types::port::TaskCaller;
use weftwork::types::task::{Payload, TaskRequest, TaskResponse};
use weftwork_cli_base::CliError;
use weftwork_cli_base::terminal::{Terminal, to_plain};

/// A plan that waits for its approval.
struct WaitingPlan {
    approval: String,
    text: String,
}

impl WaitingPlan {
    fn of(slug: &str, response: &TaskResponse) -> Option<Self> {
        let questions = response.metadata.get("questions")?.as_array()?;
        let name = format!("{slug}/plan");
        let of_plan = |question: &&Value| question["ask"]["tool"].as_str() == Some(&name);
        let question = questions.iter().find(of_plan)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            approval: text(&question["id"])?,
            text: text(&question["ask"]["args"]["plan"])?,
        })
    }
}

/// Where a command shows what happens.
pub(super) struct Shown<'a, 'w> {
    pub(super) terminal: &'a Terminal,
    pub(super) watch: &'a mut Watch<'w>,
}

/// Shows the plan that waits for its approval, and answers it: yes by `--yes`, or as the person at the
/// terminal says. Without a terminal it stays open.
pub(super) async fn decide(
    ask: &Ask,
    app: &App,
    by: &TaskCaller,
    mut response: TaskResponse,
    shown: Shown<'_, '_>,
) -> Result<TaskResponse, CliError> {
    let Shown { terminal, watch } = shown;
    if !ask.orchestrate {
        return Ok(response);
    }
    while let Some(plan) = WaitingPlan::of(&ask.slug, &response) {
        terminal.note(to_plain(plan.text.trim_end()));
        let decision = match ask.yes {
            true => "approve",
            false if std::io::stdin().is_terminal() => read_decision(terminal)?,
            false => return Ok(response),
        };
        let conversation = response.metadata.get("conversationId").and_then(Value::as_str);
        let request = TaskRequest {
            agent: ask.slug.clone(),
            mode: ask.mode.clone(),
            conversation_id: conversation.map(str::to_owned),
            payload: Payload {
                orchestration_action: Some("human-response".to_owned()),
                approval_id: Some(plan.approval),
                decision: Some(decision.to_owned()),
                ..Payload::default()
            },
            ..TaskRequest::default()
        };
        response = app.platform().task_watched(by.clone(), request, watch).await;
    }
    Ok(response)
}

/// Asks the person at the terminal.
fn read_decision(terminal: &Terminal) -> Result<&'static str, CliError> {
    terminal.note("Carry out this plan? [y/N]");
    std::io::stderr().flush().map_err(|error| CliError::Input(error.to_string()))?;
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| CliError::Input(error.to_string()))?;
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => "approve",
        _ => "reject",
    })
}

/// Shows a plan that was refused.
pub(super) fn note_refused(response: &TaskResponse, terminal: &Terminal) {
    let plan = response.metadata.get("refusedPlan").and_then(|plan| plan["content"].as_str());
    if let Some(plan) = plan {
        terminal.note(to_plain(plan.trim_end()));
    }
}
