//! `weft agents`: lists agents, and asks those that are defined in files.

use super::definitions;
use crate::args::{Agents, Ask};
use serde_json::{Map, Value, json};
use std::io::Read;
use weftwork::App;
use weftwork::platform::{DefinitionFolder, VersionInfo};
use weftwork::types::Principal;
use weftwork::types::caller::Caller;
use weftwork::types::port::{Platform as _, TaskCaller};
use weftwork::types::run::{Durability, Multitask};
use weftwork::types::task::{Payload, TaskRequest};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, RunSettings};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, Table};

/// Maximum size of a message from standard input, in bytes.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

pub(crate) async fn agents(command: &Agents, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Agents::List => list(context),
        Agents::Definitions(command) => definitions::definitions(command, &context.terminal),
        Agents::Show { slug } => show(slug, context).await,
        Agents::Run(ask) => run(ask, context).await,
        Agents::Versions { slug } => versions(slug, context).await,
        Agents::Use { slug, version } => use_version(slug, version, context).await,
        Agents::Diff { slug, from, to } => diff(slug, from, to.as_deref(), context).await,
        Agents::Export { slug, version } => export(slug, version.as_deref(), context).await,
    }
}

fn list(context: &CommandContext) -> Result<Exit, CliError> {
    let mut table = Table::new(&["AGENT", "ID", "DESCRIPTION"]);
    for agent in &context.agents {
        let cells = [agent.name(), agent.id(), agent.description()];
        table.row(cells.map(str::to_owned));
    }
    table.write(&context.terminal)?;
    context.note_problems();
    Ok(Exit::Done)
}

/// Opens an app for the agent with a slug.
async fn open(slug: &str, context: &CommandContext) -> Result<App, CliError> {
    let agent = context.agent(slug)?;
    if !agent.is_defined() {
        return Err(CliError::BadInput {
            reason: format!(
                "agent {slug} is not defined in a file; `weft run` and `weft chat` ask it, and `weft agents new` makes a definition"
            ),
        });
    }
    let settings =
        RunSettings { durability: Durability::default(), multitask: Multitask::default() };
    context.open(agent, None, None, settings).await
}

async fn show(slug: &str, context: &CommandContext) -> Result<Exit, CliError> {
    let app = open(slug, context).await?;
    let found = app.platform().agents(app.principal());
    let agent = found.iter().find(|agent| agent.slug == slug);
    context.terminal.line(format_args!("{:#}", json!(agent)))?;
    Ok(Exit::Done)
}

/// Asks an agent, and prints its answer.
async fn run(ask: &Ask, context: &CommandContext) -> Result<Exit, CliError> {
    let mut payload: Payload = match &ask.payload {
        Some(text) => serde_json::from_str(text).map_err(|error| CliError::BadInput {
            reason: format!("--payload is no JSON object of a payload: {error}"),
        })?,
        None => Payload::default(),
    };
    payload.title = ask.title.clone().or(payload.title);
    payload.action = ask.action.clone().or(payload.action);
    payload.version = ask.version.or(payload.version);
    match ask.mode.as_deref() {
        Some("plan") => payload.plan_id = ask.id.clone().or(payload.plan_id),
        _ => payload.deliverable_id = ask.id.clone().or(payload.deliverable_id),
    }
    let request = TaskRequest {
        agent: ask.slug.clone(),
        mode: ask.mode.clone(),
        user_message: read_message(&ask.message)?,
        conversation_id: ask.conversation.clone(),
        payload,
    };
    let app = open(&ask.slug, context).await?;
    let request_id = app.new_thread().to_string();
    let by = TaskCaller {
        principal: app.principal().clone(),
        caller: Caller::local(request_id).map_err(weftwork::Error::from)?,
        idempotency_key: None,
    };
    let response = app.platform().task(by, request).await;
    let terminal = &context.terminal;
    if ask.json {
        terminal.line(format_args!("{:#}", json!(response)))?;
        return Ok(if response.success { Exit::Done } else { Exit::Failed });
    }
    if let Some(id) = response.metadata.get("conversationId").and_then(Value::as_str) {
        terminal.note(format_args!("conversation {id}"));
    }
    note_records(&response.metadata, context);
    if let Some(error) = &response.error {
        let code = response.metadata.get("code").and_then(Value::as_str).unwrap_or_default();
        let word = terminal.paint_error(Style::Bad, "error");
        terminal.note(format_args!("{word}: {code}: {error}"));
        return Ok(Exit::Failed);
    }
    match &response.content {
        Some(Value::String(text)) => terminal.line(text)?,
        Some(content) => terminal.line(format_args!("{content:#}"))?,
        None => {}
    }
    let waits = response.metadata.get("status").is_some_and(|status| status == "input_required");
    if waits {
        let thread = response.metadata.get("thread").and_then(Value::as_str).unwrap_or_default();
        terminal.note(format_args!("the agent waits for an answer: weft chat --thread {thread}"));
        return Ok(Exit::Waiting);
    }
    Ok(Exit::Done)
}

/// Says which records a run wrote.
fn note_records(metadata: &Map<String, Value>, context: &CommandContext) {
    for kind in ["plan", "deliverable"] {
        let Some(record) = metadata.get(kind) else { continue };
        let id = record.get("id").and_then(Value::as_str).unwrap_or_default();
        let version = record.get("version").and_then(Value::as_u64).unwrap_or_default();
        context.terminal.note(format_args!("{kind} {id}, version {version}"));
    }
}

fn read_message(given: &str) -> Result<String, CliError> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MESSAGE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| CliError::Input(error.to_string()))?;
    Ok(text)
}

/// Organisation of an agent of the local principal; `None` if it is for all.
fn organization(app: &App, slug: &str) -> Option<String> {
    let found = app.defined_agents().definition(&Principal::local(), slug);
    found.and_then(|folder| folder.definition.organization.clone())
}

async fn versions(slug: &str, context: &CommandContext) -> Result<Exit, CliError> {
    let app = open(slug, context).await?;
    let org = organization(&app, slug);
    let store = app.store();
    let found = app.defined_agents().stored_versions(&**store, org.as_deref(), slug).await;
    let mut table = Table::new(&["VERSION", "SEMVER", "CURRENT", "FIRST SEEN (UTC)"]);
    for VersionInfo { version, semver, at, current, .. } in found.map_err(weftwork::Error::from)? {
        let at = at.map(weftwork_cli_base::terminal::format_moment).unwrap_or_default();
        let current = if current { "yes" } else { "" };
        table.row([version, semver.unwrap_or_default(), current.to_owned(), at]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

async fn use_version(
    slug: &str,
    version: &str,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let app = open(slug, context).await?;
    let org = organization(&app, slug);
    let store = app.store();
    let now = app.runtime().clock().now();
    let agents = app.defined_agents();
    let used = agents.use_version(&**store, org.as_deref(), slug, version, now).await;
    let used = used.map_err(weftwork::Error::from)?;
    let text = format!(
        "new threads of {slug} get version {}; a change of its file makes that one current",
        used.version
    );
    context.terminal.line(text)?;
    Ok(Exit::Done)
}

/// A version of an agent, or the current one, as the text of a definition.
fn text_of(app: &App, slug: &str, version: Option<&str>) -> Result<String, CliError> {
    let org = organization(app, slug);
    let agents = app.defined_agents();
    let found = match version {
        Some(version) => agents.find_version(org.as_deref(), slug, version),
        None => agents.definition(&Principal::local(), slug),
    };
    let found = found.ok_or_else(|| CliError::BadInput {
        reason: format!(
            "agent {slug} has no version {}; `weft agents versions {slug}` lists those there are",
            version.unwrap_or_default()
        ),
    })?;
    Ok(DefinitionFolder::to_yaml(&found))
}

async fn diff(
    slug: &str,
    from: &str,
    to: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let app = open(slug, context).await?;
    let before = text_of(&app, slug, Some(from))?;
    let after = text_of(&app, slug, to)?;
    for line in weftwork::platform::diff_lines(&before, &after) {
        context.terminal.line(line)?;
    }
    Ok(Exit::Done)
}

async fn export(
    slug: &str,
    version: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let app = open(slug, context).await?;
    context.terminal.line(text_of(&app, slug, version)?.trim_end())?;
    Ok(Exit::Done)
}
