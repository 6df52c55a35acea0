//! `weft agents add`, `remove` and `reload`: definitions in the store, and servers that follow it.

use super::Definitions;
use std::path::Path;
use weftwork::graph::SystemClock;
use weftwork::platform::{Agents, NewRow, Problem, RowError, RowWriter, read_folder};
use weftwork::types::port::Clock as _;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Terminal;

/// Refuses a store that ends with the command.
pub(super) fn check_lasting(context: &CommandContext) -> Result<(), CliError> {
    if context.lasting {
        return Ok(());
    }
    let reason = "the store `memory` ends with this command; set one that lasts with --store";
    Err(CliError::BadInput { reason: reason.to_owned() })
}

/// Puts the definition of a folder into the store.
pub(super) async fn add(
    folder: &Path,
    org: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    check_lasting(context)?;
    let terminal = &context.terminal;
    let read = read_folder(folder).and_then(|read| {
        let files = read.texts().map_err(|problem| vec![*problem])?;
        Ok((read.slug, files))
    });
    let (slug, files) = match read {
        Ok(read) => read,
        Err(problems) => return refuse(&problems, terminal),
    };
    let defined = Definitions::over(context.store()?, org, context).await?;
    let slug = Some(slug);
    let organization = org.map(str::to_owned);
    let row = NewRow { slug, organization, files, ..NewRow::default() };
    let Definitions { agents, store, now, .. } = &defined;
    let written = agents.put_row(&**store, &row, *now).await;
    match written {
        Ok(written) => {
            context.note_name(&written.slug);
            let of = org.map(|org| format!(" of organisation {org}")).unwrap_or_default();
            terminal.line(format_args!(
                "agent {}{of} in version {}",
                written.slug,
                written.version()
            ))?;
            Ok(Exit::Done)
        }
        Err(RowError::Problems { problems }) => refuse(&problems, terminal),
        Err(RowError::Taken { problem }) => refuse(&[*problem], terminal),
        Err(error) => Err(failed(error)),
    }
}

fn refuse(problems: &[Problem], terminal: &Terminal) -> Result<Exit, CliError> {
    for problem in problems {
        terminal.line(problem)?;
    }
    Ok(Exit::Failed)
}

pub(super) fn failed(error: RowError) -> CliError {
    match error {
        RowError::Store(error) => weftwork::Error::from(error).into(),
        other => CliError::BadInput { reason: other.to_string() },
    }
}

/// Removes a definition from the store.
pub(super) async fn remove(
    slug: &str,
    org: Option<&str>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    check_lasting(context)?;
    let defined = Definitions::read(org, context).await?;
    let Definitions { agents, store, now, .. } = &defined;
    let removed = agents.remove_row(&**store, &RowWriter::Operator, org, slug, *now).await;
    removed.map_err(failed)?;
    context.terminal.line(format_args!(
        "agent {slug} is no longer in the store; runs that began end with their version"
    ))?;
    Ok(Exit::Done)
}

/// Lets servers read their files again. Those of this configuration are checked first.
pub(super) async fn reload(context: &CommandContext) -> Result<Exit, CliError> {
    check_lasting(context)?;
    let read = context.config.read_definitions()?;
    let store = context.store_there()?;
    let requested = Agents::request_reload(&*store, SystemClock::new().now()).await;
    requested.map_err(weftwork::Error::from)?;
    context.terminal.note("servers that use the store read their definitions again within seconds");
    if read.problems.is_empty() {
        return Ok(Exit::Done);
    }
    context.terminal.note("agents with problems stay as they were");
    refuse(&read.problems, &context.terminal)
}
