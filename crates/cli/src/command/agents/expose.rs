//! `weft agents expose`: the protocols by which programs reach an agent.

use super::rows::{check_lasting, failed};
use super::{Defined, Definitions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weftwork::Config;
use weftwork::config::{AGENTS_VARIABLE, StorePlace};
use weftwork::platform::{NewExposure, RowWriter};
use weftwork::types::exposure::{AccessText, AgentAccess, AgentProtocol, ExposureChange};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Terminal;

/// The protocols that a command names, and what it is to do with them.
pub(super) struct Wish {
    pub(super) named: BTreeSet<AgentProtocol>,
    /// Ends the exposure; by all protocols if none is named.
    pub(super) off: bool,
}

impl Wish {
    /// Returns `true` if the command only asks.
    fn asks(&self) -> bool {
        self.named.is_empty() && !self.off
    }

    /// Returns the change; `None` for a command that only asks.
    fn change(self) -> Option<ExposureChange> {
        match (self.off, self.named.is_empty()) {
            (true, true) => {
                let off = AgentProtocol::ALL.into();
                Some(ExposureChange { off, ..ExposureChange::default() })
            }
            (true, false) => Some(ExposureChange { off: self.named, ..ExposureChange::default() }),
            (false, false) => Some(ExposureChange { on: self.named, ..ExposureChange::default() }),
            (false, true) => None,
        }
    }
}

/// Finds the agent of a command. One that changes something needs a store that lasts, and makes it.
pub(super) async fn open(
    slug: &str,
    org: Option<&str>,
    wish: &Wish,
    context: &CommandContext,
) -> Result<Defined, CliError> {
    if wish.asks() {
        return Defined::open(slug, org, context).await;
    }
    check_lasting(context)?;
    let all = Definitions::over(context.store()?, org, context).await?;
    Defined::among(all, slug, org, context).await
}

/// Changes the exposure of an agent, and prints it with an example for each protocol.
pub(super) async fn expose(
    defined: Defined,
    wish: Wish,
    url: &str,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let Defined { all: Definitions { agents, store, now, .. }, slug, organization } = defined;
    let terminal = &context.terminal;
    let is_for_all = organization.is_none();
    let exposed = match wish.change() {
        None => agents.exposed(organization.as_deref(), &slug),
        Some(change) => {
            let by = RowWriter::Operator;
            let new = NewExposure { organization, slug: slug.clone(), change, by };
            agents.expose(&*store, new, now).await.map_err(failed)?
        }
    };
    let names: Vec<_> = exposed.iter().map(|protocol| protocol.name()).collect();
    if names.is_empty() {
        terminal.line(format_args!("agent {slug} is not exposed"))?;
        return Ok(Exit::Done);
    }
    terminal.line(format_args!("agent {slug} is exposed by {}", names.join(", ")))?;
    for protocol in exposed {
        print_access(&AgentAccess::new(protocol, &slug, url), terminal)?;
        // Standard streams serve the local user, who has no agents of organisations.
        if protocol == AgentProtocol::Mcp && is_for_all {
            terminal.line(format_args!("\n{:#}", mcp_command(&context.config)))?;
        }
    }
    Ok(Exit::Done)
}

fn print_access(access: &AgentAccess, terminal: &Terminal) -> Result<(), CliError> {
    terminal.line("")?;
    for AccessText { name, text } in &access.settings {
        terminal.line(format_args!("{name}: {text}"))?;
    }
    for AccessText { text, .. } in &access.examples {
        terminal.line(format_args!("\n{text}"))?;
    }
    Ok(())
}

/// Returns the entry for the file of a host that starts this program and speaks with it over standard
/// streams. It names the store and the files of the program, because hosts start commands in folders of
/// their own.
fn mcp_command(config: &Config) -> Value {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("weft"));
    let mut entry = json!({"command": program, "args": serve_args(config)});
    if let Some(folder) = &config.agents {
        entry["env"] = json!({AGENTS_VARIABLE: whole(&folder.value)});
    }
    json!({"mcpServers": {"weft": entry}})
}

/// Returns the arguments that serve agents with the settings of this command.
fn serve_args(config: &Config) -> Vec<String> {
    let files = [
        ("--config", config.file.as_ref()),
        ("--policy", config.rules.as_ref().map(|rules| &rules.file.value)),
        ("--mcp", config.mcp.as_ref().map(|mcp| &mcp.file.value)),
    ];
    let files = files.into_iter().filter_map(|(flag, file)| Some((flag, whole(file?))));
    let model = config.model.as_ref().map(|model| ("--model", model.value.clone()));
    // The address of another kind of store may have a password: the environment has it.
    let store = match &config.store.value {
        StorePlace::Sqlite(path) => Some(("--store", format!("sqlite:{}", whole(path)))),
        _ => None,
    };
    let flags = files.chain(model).chain(store);
    let flags = flags.flat_map(|(flag, value)| [flag.to_owned(), value]);
    flags.chain(["mcp", "serve"].map(str::to_owned)).collect()
}

/// Returns a path from the root.
fn whole(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.display().to_string()
}
