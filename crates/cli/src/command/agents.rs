//! `weft agents`: lists agents, and asks those that are defined in files.

use super::definitions;
use crate::args::{Agents, Ask};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use weftwork::AgentDef;
use weftwork::graph::SystemClock;
use weftwork::platform::{
    AGENTS, Agents as DefinedAgents, DefinitionFolder, VersionInfo, diff_lines,
};
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::ScriptedModel;
use weftwork::types::caller::Caller;
use weftwork::types::port::{Clock as _, Platform as _, TaskCaller};
use weftwork::types::run::{Durability, Multitask};
use weftwork::types::task::{Payload, TaskRequest};
use weftwork::types::{Principal, Timestamp};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, RunSettings};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, Table, format_moment, to_plain};

/// Maximum size of a message from standard input, in bytes.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

pub(crate) async fn agents(command: &Agents, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Agents::List => list(context),
        Agents::Definitions(command) => definitions::definitions(command, context),
        Agents::Show { slug } => show(slug, context).await,
        Agents::Run(ask) => run(ask, context).await,
        Agents::Versions { slug } => versions(slug, context).await,
        Agents::Use { slug, version } => use_version(slug, version, context).await,
        Agents::Diff { slug, from, to } => diff(slug, from, to.as_deref(), context).await,
        Agents::Export { slug, version, folder } => {
            export(slug, version.as_deref(), folder.as_deref(), context).await
        }
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

/// Returns the agent with a slug, which must be defined in a file.
fn find<'a>(slug: &str, context: &'a CommandContext) -> Result<&'a AgentDef, CliError> {
    // An agent of the program may have the name too.
    let defined = context.agent(&format!("{AGENTS}{slug}"));
    let agent = defined.or_else(|_| context.agent(slug))?;
    if agent.is_defined() {
        return Ok(agent);
    }
    Err(CliError::BadInput {
        reason: format!(
            "agent {slug} is not defined in a file; `weft run` and `weft chat` ask it, and `weft agents new` makes a definition"
        ),
    })
}

/// The definitions with their versions, for commands that ask no agent.
struct Defined {
    agents: DefinedAgents,
    store: Arc<dyn Store>,
    now: Timestamp,
    slug: String,
    /// Organisation of the agent; `None` if it is for all.
    organization: Option<String>,
}

impl Defined {
    async fn open(slug: &str, context: &CommandContext) -> Result<Self, CliError> {
        let store: Arc<dyn Store> = match context.is_new() {
            true => Arc::new(MemoryStore::new()),
            false => context.store()?,
        };
        let definitions = context.config.read_definitions()?;
        let model = Arc::new(ScriptedModel::rules());
        let agents = context.config.define_agents(definitions, model, Arc::clone(&store));
        let now = SystemClock::new().now();
        agents.keep_versions(&*store, now).await.map_err(weftwork::Error::from)?;
        let found = agents.definition(&Principal::local(), slug);
        if found.is_none()
            && agents
                .stored_versions(&*store, None, slug)
                .await
                .map_err(weftwork::Error::from)?
                .is_empty()
        {
            find(slug, context)?;
        }
        let organization = found.and_then(|folder| folder.definition.organization.clone());
        Ok(Self { agents, store, now, slug: slug.to_owned(), organization })
    }

    /// A version of the agent, or the current one.
    fn version(&self, version: Option<&str>) -> Result<Arc<DefinitionFolder>, CliError> {
        let Self { agents, slug, organization, .. } = self;
        let found = match version {
            Some(version) => agents.find_versions(organization.as_deref(), slug, version),
            None => agents.definition(&Principal::local(), slug).into_iter().collect(),
        };
        let version = version.unwrap_or_default();
        match found.as_slice() {
            [found] => Ok(Arc::clone(found)),
            [] => Err(CliError::BadInput {
                reason: format!(
                    "agent {slug} has no version {version}; `weft agents versions {slug}` lists those there are"
                ),
            }),
            several => {
                let hashes: Vec<_> = several.iter().map(|folder| folder.version()).collect();
                Err(CliError::BadInput {
                    reason: format!(
                        "agent {slug} has several versions {version}; name one by its hash: {}",
                        hashes.join(", ")
                    ),
                })
            }
        }
    }
}

async fn show(slug: &str, context: &CommandContext) -> Result<Exit, CliError> {
    let defined = Defined::open(slug, context).await?;
    let found = defined.agents.summaries(&Principal::local());
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
    let input = ask.input.as_deref().map(serde_json::from_str).transpose();
    let input = input
        .map_err(|error| CliError::BadInput { reason: format!("--input is no JSON: {error}") })?;
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
        input,
        conversation_id: ask.conversation.clone(),
        payload,
    };
    let agent = find(&ask.slug, context)?;
    let settings =
        RunSettings { durability: Durability::default(), multitask: Multitask::default() };
    let app = context.open(agent, None, None, settings).await?;
    let request_id = app.new_thread().to_string();
    let by = TaskCaller {
        principal: app.principal().clone(),
        caller: Caller::local(request_id).map_err(weftwork::Error::from)?,
        idempotency_key: None,
    };
    let response = app.platform().task(by, request).await;
    let terminal = &context.terminal;
    let waits = response.metadata.get("status").is_some_and(|status| status == "input_required");
    let exit = match response.success {
        true if waits => Exit::Waiting,
        true => Exit::Done,
        false => Exit::Failed,
    };
    if ask.json {
        terminal.line(format_args!("{:#}", json!(response)))?;
        return Ok(exit);
    }
    if let Some(id) = response.metadata.get("conversationId").and_then(Value::as_str) {
        terminal.note(format_args!("conversation {id}"));
    }
    note_records(&response.metadata, context);
    if let Some(error) = &response.error {
        let code = response.metadata.get("code").and_then(Value::as_str).unwrap_or_default();
        let word = terminal.paint_error(Style::Bad, format!("error[{code}]"));
        terminal.note(format_args!("{word}: {}", to_plain(error)));
        return Ok(exit);
    }
    match &response.content {
        Some(Value::String(text)) => terminal.line(to_plain(text))?,
        Some(content) => terminal.line(format_args!("{content:#}"))?,
        None => {}
    }
    if waits {
        let thread = response.metadata.get("thread").and_then(Value::as_str).unwrap_or_default();
        terminal.note(format_args!("the agent waits for an answer: weft chat --thread {thread}"));
    }
    Ok(exit)
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

async fn versions(slug: &str, context: &CommandContext) -> Result<Exit, CliError> {
    let Defined { agents, store, organization, .. } = Defined::open(slug, context).await?;
    let found = agents.stored_versions(&*store, organization.as_deref(), slug).await;
    let mut table = Table::new(&["VERSION", "SEMVER", "CURRENT", "FIRST SEEN (UTC)"]);
    for VersionInfo { version, semver, at, current, .. } in found.map_err(weftwork::Error::from)? {
        let current = if current { "yes" } else { "" };
        table.row([
            version,
            semver.unwrap_or_default(),
            current.to_owned(),
            at.map(format_moment).unwrap_or_default(),
        ]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

async fn use_version(
    slug: &str,
    version: &str,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let Defined { agents, store, organization, now, .. } = Defined::open(slug, context).await?;
    let used = agents.use_version(&*store, organization.as_deref(), slug, version, now).await;
    let used = used.map_err(weftwork::Error::from)?;
    context.terminal.line(format_args!(
        "new threads of {slug} get version {}, in servers that run after they start again; a change of its file makes that one current",
        used.version
    ))?;
    Ok(Exit::Done)
}

async fn diff(
    slug: &str,
    from: &str,
    to: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let defined = Defined::open(slug, context).await?;
    for line in diff_lines(&defined.version(Some(from))?.to_yaml(), &defined.version(to)?.to_yaml())
    {
        context.terminal.line(line)?;
    }
    Ok(Exit::Done)
}

/// Prints a definition, or writes it with the files that its sources name into a new folder.
async fn export(
    slug: &str,
    version: Option<&str>,
    folder: Option<&Path>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let defined = Defined::open(slug, context).await?;
    let version = defined.version(version)?;
    let Some(folder) = folder else {
        context.terminal.line(version.to_yaml().trim_end())?;
        return Ok(Exit::Done);
    };
    let not_written = |path: &Path, error: &std::io::Error| CliError::BadInput {
        reason: format!("{} cannot be written: {error}", path.display()),
    };
    std::fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))?;
    let definition = [("agent.yaml", version.to_yaml())].into_iter();
    let files = version.files.iter().map(|file| (file.path.as_str(), file.text.clone()));
    for (name, text) in definition.chain(files) {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| not_written(parent, &error))?;
        }
        let file = File::create_new(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| not_written(&path, &error))?;
        context.terminal.line(path.display())?;
    }
    Ok(Exit::Done)
}
