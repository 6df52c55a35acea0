//! Decisions about tools.

use crate::args::{EffectName, OutputName};
use weftwork::mcp::{McpError, McpServers, Output, Terms};
use weftwork::types::tool::Effect;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, Terminal, to_plain};

pub(super) fn terms_of(
    effect: EffectName,
    idempotent: bool,
    output: Option<OutputName>,
    shown: Vec<String>,
) -> Terms {
    Terms {
        effect: match effect {
            EffectName::ReadOnly => Effect::ReadOnly,
            EffectName::StateChange => Effect::StateChange,
            EffectName::ExternalSideEffect => Effect::ExternalSideEffect,
        },
        idempotent,
        output: output.map(|output| match output {
            OutputName::Schema => Output::Schema,
            OutputName::Opaque => Output::Opaque,
        }),
        shown,
        secret: Vec::new(),
    }
}

/// Allows all of the tools, or no tool if one cannot be allowed.
pub(super) async fn allow(
    servers: &McpServers,
    tools: &[String],
    terms: &Terms,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let mut lock = servers.lock().clone();
    for tool in tools {
        let offer = servers.offer(server_of(tool)?).await?;
        lock.allow(offer.find(tool)?, terms.clone())?;
    }
    lock.write()?;
    for tool in tools {
        terminal.note(format_args!("allowed {tool} in {}", lock.path().display()));
    }
    if terms.shown.is_empty() {
        terminal.note("nothing of their results is shown to users; --shown changes that");
    }
    Ok(Exit::Done)
}

pub(super) fn deny(
    servers: &McpServers,
    tools: &[String],
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let mut lock = servers.lock().clone();
    for tool in tools {
        if !lock.deny(tool) {
            return Err(McpError::NotAllowed { tool: to_plain(tool) }.into());
        }
    }
    lock.write()?;
    terminal.note(format_args!("denied {}", tools.join(", ")));
    Ok(Exit::Done)
}

/// Prints the differences. The exit status shows if there are any.
pub(super) async fn diff(
    servers: &McpServers,
    tools: &[String],
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    let chosen = |name: &str| tools.is_empty() || tools.iter().any(|tool| tool == name);
    if let Some(unknown) = tools.iter().find(|tool| servers.lock().get(tool).is_none()) {
        return Err(McpError::NotAllowed { tool: to_plain(unknown) }.into());
    }
    for (name, allowed) in servers.lock().tools().filter(|(name, _)| chosen(name)) {
        let found = match servers.offer(server_of(name)?).await {
            Ok(offer) => offer.find(name).cloned(),
            Err(error) => Err(error),
        };
        let differences = match found {
            Ok(offered) => allowed.differences(&offered),
            Err(error) => {
                exit = Exit::Failed;
                terminal.line(to_plain(&format!("{name}: [{}] {error}", error.code())))?;
                continue;
            }
        };
        for (part, old, new) in differences {
            exit = Exit::Failed;
            terminal.line(to_plain(&format!("{name}: {part}")))?;
            for (line, added) in changed_lines(&old, &new) {
                let (sign, style) = if added { ("+", Style::Good) } else { ("-", Style::Bad) };
                let text = format!("  {sign} {}", to_plain(line));
                terminal.line(terminal.paint(style, text))?;
            }
        }
    }
    if exit == Exit::Done {
        terminal.note("the allowed tools are as they were");
    }
    Ok(exit)
}

/// The lines that one text has and the other has not, in the order of the texts.
fn changed_lines<'a>(old: &'a str, new: &'a str) -> Vec<(&'a str, bool)> {
    let lacks = |text: &str, line: &str| text.lines().all(|other| other != line);
    let removed = old.lines().filter(|line| lacks(new, line)).map(|line| (line, false));
    let added = new.lines().filter(|line| lacks(old, line)).map(|line| (line, true));
    removed.chain(added).collect()
}

pub(super) fn server_of(tool: &str) -> Result<&str, CliError> {
    match tool.split_once('/') {
        Some((server, _)) => Ok(server),
        None => Err(CliError::BadInput {
            reason: format!("tool `{}`: expected SERVER/TOOL", to_plain(tool)),
        }),
    }
}
