//! `weft orchestrations`: lists orchestrations, and acts on them.

use super::agents::exit_of;
use crate::args::{OfConversation, Orchestrations};
use serde_json::{Value, json};
use weftwork::App;
use weftwork::graph::RuntimeError;
use weftwork::types::CallChain;
use weftwork::types::caller::Caller;
use weftwork::types::code::Fault;
use weftwork::types::port::{Platform as _, TaskCaller};
use weftwork::types::task::{Payload, TaskRequest, TaskResponse};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::input::one_line;
use weftwork_cli_base::terminal::{Style, Table, to_plain};

pub(crate) async fn orchestrations(
    command: Orchestrations,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    context.is_there()?;
    let app = Box::pin(context.open_all("scripted", None)).await?;
    let actor = Actor { app: &app, context };
    match command {
        Orchestrations::List { agent, json } => actor.list(agent.as_deref(), json).await,
        Orchestrations::Show { conversation } => {
            let found = actor.read(&conversation).await?;
            context.terminal.line(format_args!("{found:#}"))?;
            Ok(Exit::Done)
        }
        Orchestrations::Continue(of) => actor.act(&of, "continue", Payload::default()).await,
        Orchestrations::Pause { of, expires_in } => actor.pause(&of, expires_in).await,
        Orchestrations::Resume { of, token } => {
            // A token on the command line is in the list of processes.
            let token = if token == "-" { one_line()?.trim().to_owned() } else { token };
            actor.act(&of, "resume", Payload { token: Some(token), ..Payload::default() }).await
        }
        Orchestrations::Approve { of, approval, input } => {
            let input = input.as_deref().map(serde_json::from_str).transpose();
            let input = input.map_err(|error| CliError::BadInput {
                reason: format!("--input is no JSON: {error}"),
            })?;
            let decision = if input.is_some() { "edit" } else { "approve" };
            let answer = Decision { approval, decision, input, message: String::new() };
            actor.decide(&of, answer).await
        }
        Orchestrations::Reject { of, approval, message } => {
            let answer = Decision { approval, decision: "reject", input: None, message };
            actor.decide(&of, answer).await
        }
        Orchestrations::Rollback { of, step, yes } => actor.roll_back(&of, step, yes).await,
    }
}

/// An answer to an approval.
struct Decision {
    approval: Option<String>,
    decision: &'static str,
    input: Option<Value>,
    message: String,
}

/// The actions of the local principal.
struct Actor<'a> {
    app: &'a App,
    context: &'a CommandContext,
}

impl Actor<'_> {
    async fn list(&self, agent: Option<&str>, as_json: bool) -> Result<Exit, CliError> {
        let found = self.app.platform().orchestrations(self.app.principal(), agent).await;
        let found = found.map_err(failed)?;
        let terminal = &self.context.terminal;
        let listed = found["orchestrations"].as_array().map_or(&[][..], Vec::as_slice);
        if as_json {
            for one in listed {
                terminal.line(one)?;
            }
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["CONVERSATION", "AGENT", "STATUS", "STEPS", "WAITS FOR"]);
        for one in listed {
            let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            let cells = ["conversationId", "agent", "status"].map(text);
            let waits = one["waits"].as_array().into_iter().flatten();
            let waits: Vec<_> = waits.filter_map(|of| of["question"].as_str()).collect();
            let waits = to_plain(&waits.join("; ")).to_string();
            table.row(cells.into_iter().chain([steps_of(one), waits]));
        }
        table.write(terminal)?;
        Ok(Exit::Done)
    }

    async fn read(&self, conversation: &str) -> Result<Value, CliError> {
        let found = self.app.platform().orchestration(self.app.principal(), conversation).await;
        found.map_err(failed)
    }

    /// Requests an action from the agent of the conversation.
    async fn request(
        &self,
        conversation: &str,
        request: TaskRequest,
    ) -> Result<TaskResponse, CliError> {
        let found = self.read(conversation).await?;
        let request = TaskRequest {
            agent: found["agent"].as_str().unwrap_or_default().to_owned(),
            conversation_id: Some(conversation.to_owned()),
            ..request
        };
        let id = self.app.new_thread().to_string();
        let by = TaskCaller {
            principal: self.app.principal().clone(),
            caller: Caller::local(id).map_err(weftwork::Error::from)?,
            parent_span: None,
            idempotency_key: None,
            chain: CallChain::default(),
        };
        Ok(self.app.platform().task(by, request).await)
    }

    async fn act(
        &self,
        of: &OfConversation,
        action: &str,
        payload: Payload,
    ) -> Result<Exit, CliError> {
        let payload = Payload { orchestration_action: Some(action.to_owned()), ..payload };
        let request = TaskRequest { payload, ..TaskRequest::default() };
        let response = self.request(&of.conversation, request).await?;
        self.print(of, &response)
    }

    /// Pauses, and prints the token alone, so that another command can read it.
    async fn pause(
        &self,
        of: &OfConversation,
        expires_in: Option<String>,
    ) -> Result<Exit, CliError> {
        let action = Some("pause".to_owned());
        let payload = Payload { orchestration_action: action, expires_in, ..Payload::default() };
        let request = TaskRequest { payload, ..TaskRequest::default() };
        let response = self.request(&of.conversation, request).await?;
        let token = response.content.as_ref().and_then(|content| content["token"].as_str());
        let Some(token) = token.filter(|_| !of.json) else { return self.print(of, &response) };
        self.context.terminal.note("status paused");
        self.context.terminal.line(token)?;
        Ok(exit_of(&response))
    }

    async fn decide(&self, of: &OfConversation, answer: Decision) -> Result<Exit, CliError> {
        let Decision { approval, decision, input, message } = answer;
        let approval_id = match approval {
            Some(id) => Some(id),
            None => Some(self.only_approval(&of.conversation).await?),
        };
        let payload = Payload {
            orchestration_action: Some("human-response".to_owned()),
            approval_id,
            decision: Some(decision.to_owned()),
            ..Payload::default()
        };
        let request = TaskRequest { payload, input, user_message: message, ..Default::default() };
        let response = self.request(&of.conversation, request).await?;
        self.print(of, &response)
    }

    /// Returns the only approval that waits.
    async fn only_approval(&self, conversation: &str) -> Result<String, CliError> {
        let found = self.read(conversation).await?;
        let waits = found["waits"].as_array().into_iter().flatten();
        let ids: Vec<&str> = waits.filter_map(|of| of["approvalId"].as_str()).collect();
        match ids.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(CliError::BadInput { reason: without_approval(&found, conversation) }),
            several => Err(CliError::BadInput {
                reason: format!(
                    "{} approvals wait in conversation {conversation}; name one with --approval: {}",
                    several.len(),
                    several.join(", ")
                ),
            }),
        }
    }

    /// Prints the list of effects, and rolls back once it is confirmed.
    async fn roll_back(
        &self,
        of: &OfConversation,
        step: Option<String>,
        yes: bool,
    ) -> Result<Exit, CliError> {
        let action = || Some("rollback".to_owned());
        let payload = Payload { orchestration_action: action(), step, ..Payload::default() };
        let request = TaskRequest { payload, ..TaskRequest::default() };
        let list = self.request(&of.conversation, request).await?;
        let Some(confirm) = list.metadata.get("confirm").and_then(Value::as_str) else {
            return self.print(of, &list);
        };
        let rollback = list.metadata.get("rollback").cloned().unwrap_or_default();
        self.print_effects(&rollback)?;
        let step = rollback["step"].as_str().unwrap_or_default();
        if !yes && !self.confirms(of, step)? {
            return Ok(Exit::Done);
        }
        let payload = Payload {
            step: Some(step.to_owned()),
            confirm: Some(confirm.to_owned()),
            ..Payload::default()
        };
        self.context.terminal.note(format_args!("going back to the state before step {step}"));
        self.act(of, "rollback", payload).await
    }

    fn confirms(&self, of: &OfConversation, step: &str) -> Result<bool, CliError> {
        let terminal = &self.context.terminal;
        let what = format!("the rollback of {} to step {step}", of.conversation);
        if !terminal.typed {
            return Err(CliError::NotConfirmed { what });
        }
        terminal.piece(format_args!("{what} is not undone itself. Continue? [y/n] "))?;
        let yes = matches!(one_line()?.trim().to_lowercase().as_str(), "y" | "yes");
        if !yes {
            terminal.note("nothing was changed");
        }
        Ok(yes)
    }

    fn print_effects(&self, rollback: &Value) -> Result<(), CliError> {
        let mut table = Table::new(&["STEP", "EFFECTS", "UNDONE BY", "CALLS"]);
        for effects in rollback["effects"].as_array().into_iter().flatten() {
            let text = |name: &str| effects[name].as_str().unwrap_or_default().to_owned();
            let calls = effects["calls"].as_array().into_iter().flatten();
            let call = |of: &Value| {
                let outcome = of["outcome"].as_str().unwrap_or_default();
                format!("{} {} {outcome}", of["tool"].as_str().unwrap_or_default(), of["arguments"])
            };
            let calls: Vec<_> = calls.map(call).collect();
            let calls = to_plain(&calls.join("; ")).to_string();
            table.row(["step", "status", "undo"].map(text).into_iter().chain([calls]));
        }
        let terminal = &self.context.terminal;
        table.write(terminal)?;
        for record in rollback["records"].as_array().into_iter().flatten() {
            let kind = record["kind"].as_str().unwrap_or_default();
            let id = record["id"].as_str().unwrap_or_default();
            match record["former"].as_u64() {
                Some(former) => {
                    terminal.line(format_args!("{kind} {id} gets version {former} back"))?;
                }
                None => terminal.line(format_args!("{kind} {id} stays as it is"))?,
            }
        }
        Ok(())
    }

    fn print(&self, of: &OfConversation, response: &TaskResponse) -> Result<Exit, CliError> {
        let terminal = &self.context.terminal;
        let exit = exit_of(response);
        if of.json {
            terminal.line(format_args!("{:#}", json!(response)))?;
            return Ok(exit);
        }
        if let Some(error) = &response.error {
            let code = response.metadata.get("code").and_then(Value::as_str).unwrap_or_default();
            let word = terminal.paint_error(Style::Bad, format!("error[{code}]"));
            terminal.note(format_args!("{word}: {}", to_plain(error)));
            return Ok(exit);
        }
        if let Some(status) = response.metadata.get("status").and_then(Value::as_str) {
            terminal.note(format_args!("status {status}"));
        }
        match &response.content {
            Some(Value::String(text)) => terminal.line(to_plain(text))?,
            Some(content) => terminal.line(format_args!("{content:#}"))?,
            None => {}
        }
        Ok(exit)
    }
}

/// Says that no approval waits, and how another question is answered.
fn without_approval(found: &Value, conversation: &str) -> String {
    let none = format!("no approval waits in conversation {conversation}");
    let waits = found["waits"].as_array().is_some_and(|waits| !waits.is_empty());
    match found["thread"].as_str().filter(|_| waits) {
        Some(thread) => format!(
            "{none}; it waits for another answer: `weft threads resume {thread}` shows the question"
        ),
        None => none,
    }
}

/// Describes the steps of an orchestration in a line.
fn steps_of(one: &Value) -> String {
    let steps = one["steps"].as_array().into_iter().flatten();
    let text = |of: &Value| format!("{} {}", of["id"], of["status"]).replace('"', "");
    steps.map(text).collect::<Vec<_>>().join(", ")
}

fn failed(fault: Fault) -> CliError {
    CliError::App(weftwork::Error::Runtime(RuntimeError::Node(fault)))
}
