//! `weft models`: lists models, and installs the weights of the embedded model.

use crate::CliError;
use crate::args::Models;
use crate::context::CommandContext;
use crate::exit::Exit;
use crate::terminal::{Table, weights_progress};
use std::path::{Path, PathBuf};
use weftwork::local::weights::{self, Known, Sources};
use weftwork::models::ModelError;

pub(crate) async fn models(command: Models, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Models::List => list(context).await,
        Models::Pull { name } => {
            let known = weights::find(name.as_deref().unwrap_or(weights::DEFAULT))?;
            context.terminal.line(pull(known, context).await?.display())?;
            Ok(Exit::Done)
        }
        Models::Import { file } => import(&file, context),
    }
}

async fn list(context: &CommandContext) -> Result<Exit, CliError> {
    let mut table = Table::new(&["MODEL", "STATE", "DESCRIPTION"]);
    for known in weights::known() {
        let state = state(known, context).await?;
        table.row([format!("local:{}", known.name), state, known.label.to_owned()]);
    }
    for provider in context.config.models()?.providers() {
        let name = provider.name();
        if name == "local" {
            continue;
        }
        let models = provider.list();
        let id = models.first().map_or_else(|| format!("{name}:MODEL"), |model| model.id());
        let row = context.config.providers.row(name);
        let state = match provider.ready() {
            Ok(()) if row.is_some_and(|row| row.key.is_none()) => "needs no key".to_owned(),
            Ok(()) if row.is_some() => "key set".to_owned(),
            Ok(()) => "ready".to_owned(),
            Err(ModelError::KeyMissing { variable, .. }) => format!("needs {variable}"),
            Err(error) => error.to_string(),
        };
        let about = match (row, models.first().and_then(|model| model.label.clone())) {
            (Some(row), _) => row.url.clone(),
            (None, Some(label)) => label,
            (None, None) => "recorded answers; MODEL is the file".to_owned(),
        };
        table.row([id, state, about]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

/// Describes the state of a known model's weights. Installed files are verified by their hash.
pub(crate) async fn state(known: &Known, context: &CommandContext) -> Result<String, CliError> {
    let weights = context.config.weights();
    if let Some(file) = weights.named() {
        let there = if file.is_file() { "configured" } else { "missing" };
        return Ok(format!("{there}: {}", file.display()));
    }
    let (folder, file) = (weights.folder()?, weights.file(known)?);
    if !file.is_file() {
        return Ok("missing; weft models pull".to_owned());
    }
    let nowhere = Sources { egress: None, pip: Vec::new() };
    match weights::pull(known, &folder, &nowhere, &mut |_| {}).await {
        Ok(_) => Ok("installed, verified".to_owned()),
        Err(weftwork::local::Error::NoSource { .. }) => Ok("damaged; weft models pull".to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// Downloads weights, showing the progress.
pub(crate) async fn pull(known: &Known, context: &CommandContext) -> Result<PathBuf, CliError> {
    let folder = context.config.weights().folder()?;
    let egress = context.config.egress()?;
    let sources = Sources::all(egress.as_ref());
    let mut tell = weights_progress(&context.terminal, known);
    Ok(weights::pull(known, &folder, &sources, &mut tell).await?)
}

fn import(file: &Path, context: &CommandContext) -> Result<Exit, CliError> {
    let folder = context.config.weights().folder()?;
    let (known, path) = weights::import(weights::known(), file, &folder)?;
    context.terminal.note(format_args!(
        "{}: {} bytes, SHA-256 {}, licence {}",
        known.name, known.bytes, known.sha256, known.licence
    ));
    context.terminal.line(path.display())?;
    Ok(Exit::Done)
}
