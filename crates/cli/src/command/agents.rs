//! `weft agents`: lists agents, and asks those that are defined in files.

mod expose;
mod plan;
mod rows;

use self::expose::Wish;
use super::definitions;
use crate::args::{Agents, Ask, EXPOSED};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use weftwork::graph::SystemClock;
use weftwork::platform::{
    AGENTS, Agents as DefinedAgents, DefinitionFolder, VersionInfo, diff_lines,
};
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::ScriptedModel;
use weftwork::types::caller::Caller;
use weftwork::types::event::{AiEvent, RunEvent};
use weftwork::types::exposure::AgentProtocol;
use weftwork::types::port::{Clock as _, TaskCaller};
use weftwork::types::run::{Durability, Multitask};
use weftwork::types::task::{Payload, TaskRequest, TaskResponse};
use weftwork::types::{CallChain, OrgId, Principal, Timestamp};
use weftwork::{AgentDef, find_agent};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, RunSettings};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, Table, Terminal, format_moment, shorten, to_plain};

/// Maximum size of a message from standard input, in bytes.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of a displayed event, in characters.
const EVENT_CHARS_MAX: usize = 500;

pub(crate) async fn agents(command: &Agents, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Agents::List { of } => list(of.org.as_deref(), context).await,
        Agents::Definitions(command) => definitions::definitions(command, context).await,
        Agents::Show { slug, of } => show(slug, of.org.as_deref(), context).await,
        Agents::Run(ask) => Box::pin(run(ask, context)).await,
        Agents::Add { folder, of } => rows::add(folder, of.org.as_deref(), context).await,
        Agents::Remove { slug, of } => rows::remove(slug, of.org.as_deref(), context).await,
        Agents::Reload => rows::reload(context).await,
        Agents::Expose { slug, openai, a2a, agui, mcp, off, url, of } => {
            let named = [
                (*openai, AgentProtocol::OpenAi),
                (*a2a, AgentProtocol::A2a),
                (*agui, AgentProtocol::AgUi),
                (mcp.as_deref() == Some(EXPOSED), AgentProtocol::Mcp),
            ];
            let named = named.into_iter().filter(|(is_named, _)| *is_named);
            let named = named.map(|(_, protocol)| protocol).collect();
            let wish = Wish { named, off: *off };
            let defined = expose::open(slug, of.org.as_deref(), &wish, context).await?;
            expose::expose(defined, wish, url, context).await
        }
        Agents::Versions { slug, of } => versions(slug, of.org.as_deref(), context).await,
        Agents::Use { slug, version, of } => {
            let defined = Defined::open(slug, of.org.as_deref(), context).await?;
            use_version(defined, version, context).await
        }
        Agents::Diff { slug, from, to, of } => {
            let defined = Defined::open(slug, of.org.as_deref(), context).await?;
            diff(&defined, from, to.as_deref(), context)
        }
        Agents::Export { slug, version, folder, of } => {
            let defined = Defined::open(slug, of.org.as_deref(), context).await?;
            export(&defined, version.as_deref(), folder.as_deref(), context)
        }
    }
}

/// Lists the agents of the program and of files, and those of the store; of an organisation only its
/// own.
async fn list(org: Option<&str>, context: &CommandContext) -> Result<Exit, CliError> {
    let mut table = Table::new(&["AGENT", "ID", "DESCRIPTION"]);
    let of_program = context.agents.iter().filter(|_| org.is_none());
    for agent in of_program {
        let cells = [agent.name(), agent.id(), agent.description()];
        table.row(cells.map(str::to_owned));
    }
    let defined = match Definitions::read(org, context).await {
        Ok(defined) => defined,
        Err(error) if org.is_none() => {
            table.write(&context.terminal)?;
            context.terminal.note(format_args!("the agents of the store are not listed: {error}"));
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error),
    };
    for folder in defined.agents.definitions(&defined.who) {
        let own = folder.definition.organization.as_deref();
        let is_row = defined.agents.is_row(own, &folder.slug);
        // Those of files are listed above, except of other organisations.
        if own == org && (is_row || org.is_some()) {
            let about = folder.definition.agent_card.description.clone().unwrap_or_default();
            table.row([folder.slug.clone(), format!("{AGENTS}{}", folder.slug), about]);
        }
    }
    table.write(&context.terminal)?;
    context.note_problems();
    for problem in defined.agents.conflicts() {
        context.terminal.note(problem);
    }
    Ok(Exit::Done)
}

/// Returns the agent with a slug, which must be defined in a file.
fn find<'a>(slug: &str, context: &'a CommandContext) -> Result<&'a AgentDef, CliError> {
    // An agent of the program may have the name too.
    let defined = find_agent(&context.agents, &format!("{AGENTS}{slug}"));
    let agent = defined.or_else(|_| find_agent(&context.agents, slug))?;
    if agent.is_defined() {
        return Ok(agent);
    }
    Err(CliError::BadInput {
        reason: format!(
            "agent {slug} is not defined in a file; `weft run` and `weft chat` ask it, and `weft agents new` makes a definition"
        ),
    })
}

/// Refuses the slug of an agent that only organisations have, for a command that names none.
fn check_organization(organizations: &[String], slug: &str) -> Result<(), CliError> {
    let [first, ..] = organizations else { return Ok(()) };
    let all = organizations.join(", ");
    Err(CliError::BadInput {
        reason: format!(
            "agent {slug} is one of organisation {all}; commands that have `--org` find it by `--org {first}`"
        ),
    })
}

/// The definitions of files and of the store, for commands that ask no agent.
pub(super) struct Definitions {
    pub(super) agents: DefinedAgents,
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Timestamp,
    /// Principal of the organisation of the command.
    pub(super) who: Principal,
}

impl Definitions {
    pub(super) async fn read(
        org: Option<&str>,
        context: &CommandContext,
    ) -> Result<Self, CliError> {
        let store: Arc<dyn Store> = match context.is_new() {
            true => Arc::new(MemoryStore::new()),
            false => context.store()?,
        };
        Self::over(store, org, context).await
    }

    pub(super) async fn over(
        store: Arc<dyn Store>,
        org: Option<&str>,
        context: &CommandContext,
    ) -> Result<Self, CliError> {
        let who = match org {
            Some(org) => {
                Principal::new(OrgId::new(org).map_err(weftwork::Error::from)?, "operator")
            }
            None => Principal::local(),
        };
        let definitions = context.config.read_definitions()?;
        let model = Arc::new(ScriptedModel::rules());
        let agents = context.config.define_agents(definitions, model, Arc::clone(&store));
        let now = SystemClock::new().now();
        agents.keep_versions(&*store, now).await.map_err(weftwork::Error::from)?;
        Ok(Self { agents, store, now, who })
    }
}

/// An agent with its versions.
struct Defined {
    all: Definitions,
    slug: String,
    /// Organisation of the agent; `None` if it is for all.
    organization: Option<String>,
}

impl Defined {
    async fn open(
        slug: &str,
        org: Option<&str>,
        context: &CommandContext,
    ) -> Result<Self, CliError> {
        Self::among(Definitions::read(org, context).await?, slug, org, context).await
    }

    /// Finds an agent among definitions.
    async fn among(
        all: Definitions,
        slug: &str,
        org: Option<&str>,
        context: &CommandContext,
    ) -> Result<Self, CliError> {
        let found = all.agents.definition(&all.who, slug);
        let found =
            found.filter(|of| org.is_none() || of.definition.organization.as_deref() == org);
        let organization = match &found {
            Some(folder) => folder.definition.organization.clone(),
            None => org.map(str::to_owned),
        };
        let Definitions { agents, store, .. } = &all;
        if found.is_none() {
            let stored = agents.stored_versions(&**store, org, slug).await;
            if stored.map_err(weftwork::Error::from)?.is_empty() {
                if org.is_none() {
                    check_organization(&agents.organizations_with(slug), slug)?;
                    find(slug, context)?;
                }
                let of = org.map(|org| format!(" of its own in organisation {org}"));
                let of = of.unwrap_or_default();
                let reason = format!("there is no agent {slug}{of}; `weft agents list` lists them");
                return Err(CliError::BadInput { reason });
            }
        }
        Ok(Self { all, slug: slug.to_owned(), organization })
    }

    /// The error of a command that needs a current version.
    fn not_current(&self) -> CliError {
        let Self { slug, .. } = self;
        let reason = format!(
            "agent {slug} has no definition now; `weft agents versions {slug}` lists the versions that the store has"
        );
        CliError::BadInput { reason }
    }

    /// A version of the agent, or the current one.
    fn version(&self, version: Option<&str>) -> Result<Arc<DefinitionFolder>, CliError> {
        let Self { all: Definitions { agents, who, .. }, slug, organization } = self;
        let found = match version {
            Some(version) => agents.find_versions(organization.as_deref(), slug, version),
            None => agents.definition(who, slug).into_iter().collect(),
        };
        let Some(version) = version else {
            return found.into_iter().next().ok_or_else(|| self.not_current());
        };
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

async fn show(slug: &str, org: Option<&str>, context: &CommandContext) -> Result<Exit, CliError> {
    let defined = Defined::open(slug, org, context).await?;
    let found = defined.all.agents.summaries(&defined.all.who);
    let agent = found.iter().find(|agent| agent.slug == slug);
    let agent = agent.ok_or_else(|| defined.not_current())?;
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
    if ask.orchestrate {
        payload.orchestrate = Some(true);
        payload.orchestration_plan = ask.plan.then_some(true).or(payload.orchestration_plan);
    }
    match ask.orchestrate || ask.mode.as_deref() == Some("plan") {
        true => payload.plan_id = ask.id.clone().or(payload.plan_id),
        false => payload.deliverable_id = ask.id.clone().or(payload.deliverable_id),
    }
    let request = TaskRequest {
        agent: ask.slug.clone(),
        mode: ask.mode.clone(),
        user_message: read_message(&ask.message)?,
        input,
        conversation_id: ask.conversation.clone(),
        payload,
    };
    let agent = match find(&ask.slug, context) {
        Ok(agent) => agent.clone(),
        // Rows are known once the store is open.
        Err(_) => {
            Defined::open(&ask.slug, None, context).await?;
            AgentDef::of_row(&ask.slug)
        }
    };
    let settings =
        RunSettings { durability: Durability::default(), multitask: Multitask::default() };
    let app = context.open(&agent, None, None, settings).await?;
    let request_id = app.new_thread().to_string();
    let by = TaskCaller {
        principal: app.principal().clone(),
        caller: Caller::local(request_id).map_err(weftwork::Error::from)?,
        parent_span: None,
        idempotency_key: None,
        chain: CallChain::default(),
    };
    let terminal = &context.terminal;
    let mut watch = |event: &RunEvent| {
        if !ask.json {
            note_event(&event.event, terminal);
        }
    };
    let response = app.platform().task_watched(by.clone(), request, &mut watch).await;
    let shown = plan::Shown { terminal, watch: &mut watch };
    let response = plan::decide(ask, &app, &by, response, shown).await?;
    let waits = response.metadata.get("status").is_some_and(|status| status == "input_required");
    let exit = exit_of(&response);
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
        plan::note_refused(&response, terminal);
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

/// Returns the status of a command for the answer to its request.
pub(super) fn exit_of(response: &TaskResponse) -> Exit {
    let text = |name: &str| response.metadata.get(name).and_then(Value::as_str);
    match (response.success, text("status")) {
        (true, Some("input_required")) => Exit::Waiting,
        (true, _) => Exit::Done,
        (false, _) => Exit::of_code(text("code").unwrap_or_default()),
    }
}

/// Shows a call of a tool, or a value that the agent emits, while it works.
fn note_event(event: &AiEvent, terminal: &Terminal) {
    match event {
        AiEvent::ToolCallStart { tool_name, args, .. } => {
            let args = shorten(&args.to_string(), EVENT_CHARS_MAX);
            terminal.note(format_args!("→ {} {}", to_plain(tool_name), to_plain(&args)));
        }
        AiEvent::Custom { value, .. } => {
            let line = match value.get("orchestration") {
                Some(change) => step_line(change),
                None => value.to_string(),
            };
            terminal.note(to_plain(&shorten(&line, EVENT_CHARS_MAX)));
        }
        _ => {}
    }
}

/// Line for a change of a step, with the steps around it: `step outer/inner: failed, agent desk: ...`.
fn step_line(change: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let around = change["path"].as_array().into_iter().flatten().map(text);
    let path: Vec<String> = around.chain([text(&change["step"])]).collect();
    let agent = change.get("agent").map(|agent| format!(", agent {}", text(agent)));
    let failure = change.get("failure").map(|failure| {
        format!(", attempt {}: {}", failure["attempt"], text(&failure["safe_message"]))
    });
    let status = text(&change["status"]).replace('_', " ");
    let agent = agent.unwrap_or_default();
    format!("step {}: {status}{agent}{}", path.join("/"), failure.unwrap_or_default())
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

async fn versions(
    slug: &str,
    org: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let Defined { all, organization, .. } = Defined::open(slug, org, context).await?;
    let Definitions { agents, store, .. } = &all;
    let found = agents.stored_versions(&**store, organization.as_deref(), slug).await;
    let mut table = Table::new(&["VERSION", "SEMVER", "STATUS", "FIRST SEEN (UTC)"]);
    for info in found.map_err(weftwork::Error::from)? {
        let VersionInfo { version, semver, at, current, draft, .. } = info;
        let status = match (current, draft) {
            (true, _) => "current",
            (false, true) => "draft",
            (false, false) => "",
        };
        table.row([
            version,
            semver.unwrap_or_default(),
            status.to_owned(),
            at.map(format_moment).unwrap_or_default(),
        ]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

async fn use_version(
    defined: Defined,
    version: &str,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let Defined { all: Definitions { agents, store, now, .. }, slug, organization } = defined;
    let used = agents.use_version(&*store, organization.as_deref(), &slug, version, now).await;
    let used = used.map_err(weftwork::Error::from)?;
    context.terminal.line(format_args!(
        "new threads of {slug} get version {}, in servers that run within seconds; a change of its definition makes that one current",
        used.version
    ))?;
    Ok(Exit::Done)
}

fn diff(
    defined: &Defined,
    from: &str,
    to: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    for line in diff_lines(&defined.version(Some(from))?.to_yaml(), &defined.version(to)?.to_yaml())
    {
        context.terminal.line(line)?;
    }
    Ok(Exit::Done)
}

/// Prints a definition, or writes it with the files that its sources name into a new folder.
fn export(
    defined: &Defined,
    version: Option<&str>,
    folder: Option<&Path>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let version = defined.version(version)?;
    let Some(folder) = folder else {
        context.terminal.line(version.to_yaml().trim_end())?;
        return Ok(Exit::Done);
    };
    let not_written = |path: &Path, error: &std::io::Error| CliError::BadInput {
        reason: format!("{} cannot be written: {error}", path.display()),
    };
    // Versions of earlier programs may name others; nothing is written before all names are sound.
    if let Some(outside) =
        version.files.iter().find(|file| !weftwork::platform::is_within(&file.path))
    {
        let reason =
            format!("the definition has a file {:?}, which is not within a folder", outside.path);
        return Err(CliError::BadInput { reason });
    }
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
