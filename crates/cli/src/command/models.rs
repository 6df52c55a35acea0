//! `weft models`: lists models, and installs the weights of the embedded model.

use crate::args::Models;
use serde::Serialize;
use std::path::{Path, PathBuf};
use weftwork::local::weights::{self, Known, Sources};
use weftwork::models::{Capability, ModelError, ModelFacts};
use weftwork::types::usage::dollars;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, weights_progress};

pub(crate) async fn models(command: Models, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Models::List => list_models(context).await,
        Models::Show { id, json } => show_model(&id, json, context),
        Models::Pull { name } => {
            let known = weights::find(name.as_deref().unwrap_or(weights::DEFAULT))?;
            context.terminal.line(pull_weights(known, context).await?.display())?;
            Ok(Exit::Done)
        }
        Models::Import { file } => import_weights(&file, context),
    }
}

async fn list_models(context: &CommandContext) -> Result<Exit, CliError> {
    let mut table = Table::new(&["MODEL", "STATE", "DESCRIPTION"]);
    for known in weights::known() {
        let state = weights_state(known, context).await?;
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

/// Known properties of a model.
#[derive(Debug, Serialize)]
struct ModelSummary {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    can: Vec<&'static str>,
    cannot: Vec<&'static str>,
    /// Maximum number of tokens of request and answer together.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_tokens: Option<u64>,
    /// Maximum number of tokens of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    /// US dollars per million tokens of input and of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    price_usd: Option<(String, String)>,
    fallback: Vec<String>,
}

/// Shows a model. Neither a key nor a connection is needed.
fn show_model(id: &str, json: bool, context: &CommandContext) -> Result<Exit, CliError> {
    let (provider, model) = id.split_once(':').unwrap_or((id, ""));
    let row = context.config.providers.row(provider).filter(|_| !model.is_empty());
    let (id, facts, price) = match row {
        Some(row) => (id.to_owned(), row.facts(model), row.price(model)),
        None => {
            let model = context.config.open_model(id)?;
            (
                model.info().id(),
                ModelFacts { lacks: model.lacks().to_vec(), limits: model.token_limits() },
                model.price(),
            )
        }
    };
    let named = |is_lacking: bool| {
        let all = Capability::ALL.into_iter();
        all.filter(|one| facts.lacks.contains(one) == is_lacking).map(Capability::name).collect()
    };
    let settings = context.config.models.get(&id);
    let shown = ModelSummary {
        protocol: row.map(|row| row.protocol.name()),
        url: row.map(|row| row.url.clone()),
        source: row.and_then(|row| row.source.clone()),
        can: named(false),
        cannot: named(true),
        context_tokens: facts.limits.context,
        output_tokens: facts.limits.output,
        price_usd: price.map(|price| (dollars(price.input), dollars(price.output))),
        fallback: settings.map(|settings| settings.fallback.clone()).unwrap_or_default(),
        id,
    };
    if json {
        context.terminal.line(serde_json::json!(shown))?;
        return Ok(Exit::Done);
    }
    let line = |name: &str, value: String| context.terminal.line(format_args!("{name:<9} {value}"));
    line("model", shown.id)?;
    if let Some(protocol) = shown.protocol
        && let Some(url) = shown.url
    {
        line("protocol", format!("{protocol} at {url}"))?;
    }
    if let Some(source) = shown.source {
        line("source", source)?;
    }
    line("can", shown.can.join(", "))?;
    if !shown.cannot.is_empty() {
        line("cannot", shown.cannot.join(", "))?;
    }
    let limit = |limit: Option<u64>| limit.map_or("unknown".to_owned(), |limit| limit.to_string());
    line("context", format!("{} tokens", limit(shown.context_tokens)))?;
    line("answer", format!("{} tokens", limit(shown.output_tokens)))?;
    let price = shown.price_usd.map_or("unknown".to_owned(), |(input, output)| {
        format!("{input} USD for a million tokens of input, {output} of output")
    });
    line("price", price)?;
    if !shown.fallback.is_empty() {
        line("fallback", shown.fallback.join(", "))?;
    }
    Ok(Exit::Done)
}

/// Describes the state of a known model's weights. Installed files are verified by their hash.
pub(crate) async fn weights_state(
    known: &Known,
    context: &CommandContext,
) -> Result<String, CliError> {
    let weights = context.config.weights();
    if let Some(file) = weights.named() {
        let there = if file.is_file() { "configured" } else { "missing" };
        return Ok(format!("{there}: {}", file.display()));
    }
    let folder = weights.folder()?;
    let file = weights.file(known)?;
    if !file.is_file() {
        return Ok("missing; weft models pull".to_owned());
    }
    let nowhere = Sources { egress: None, mirror: None, pip: Vec::new() };
    match weights::pull(known, &folder, &nowhere, &mut |_| {}).await {
        Ok(_) => Ok("installed, verified".to_owned()),
        Err(weftwork::local::Error::NoSource { .. }) => Ok("damaged; weft models pull".to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// Downloads weights, showing the progress.
pub(crate) async fn pull_weights(
    known: &Known,
    context: &CommandContext,
) -> Result<PathBuf, CliError> {
    let mut progress = weights_progress(&context.terminal, known);
    Ok(context.config.pull_weights(known, &mut progress).await?)
}

fn import_weights(file: &Path, context: &CommandContext) -> Result<Exit, CliError> {
    let folder = context.config.weights().folder()?;
    let (known, path) = weights::import(weights::known(), file, &folder)?;
    context.terminal.note(format_args!(
        "{}: {} bytes, SHA-256 {}, licence {}",
        known.name, known.bytes, known.sha256, known.licence
    ));
    context.terminal.line(path.display())?;
    Ok(Exit::Done)
}
