//! `weft agents check` and `weft agents new`: definitions of agents in files.

use crate::args::{DefinitionCommand, NewAgent};
use serde_json::json;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use weftwork::config::Origin;
use weftwork::graph::SystemClock;
use weftwork::platform::{
    DefinitionFolder, Definitions, Problem, ToolSize, read_definition, read_definitions,
    read_folder,
};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, Terminal};

pub(crate) async fn definitions(
    command: &DefinitionCommand,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let configured = context.config.agents.as_ref();
    let configured = configured.filter(|folder| folder.origin != Origin::Default);
    let usual =
        || configured.map_or_else(|| PathBuf::from("agents"), |folder| folder.value.clone());
    match command {
        DefinitionCommand::Check { folder, json } => {
            check(&folder.clone().unwrap_or_else(usual), *json, context).await
        }
        DefinitionCommand::New { slug, agent_type, folder } => {
            make(slug, *agent_type, &folder.clone().unwrap_or_else(usual), terminal)
        }
    }
}

/// Checks the definitions of a folder, and prints their problems.
async fn check(folder: &Path, json: bool, context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let read = match folder.join("agent.yaml").exists() {
        true => Ok(Definitions::from(read_folder(folder))),
        false => read_definitions(folder),
    };
    let read = read.map_err(|problem| CliError::BadInput { reason: problem.to_string() })?;
    let Definitions { sound, mut problems, .. } = read;
    problems.extend(check_programs(&sound, context).await);
    for agent in &sound {
        context.note_name(&agent.slug);
    }
    for problem in &problems {
        match json {
            true => terminal.line(serde_json::to_string(problem).unwrap_or_default())?,
            false => terminal.line(problem)?,
        }
    }
    if !problems.is_empty() {
        return Ok(Exit::Failed);
    }
    if sound.is_empty() {
        return Err(CliError::BadInput {
            reason: format!(
                "{} has no definition; expected folders with an `agent.yaml` each; `weft agents new SLUG` makes one",
                folder.display()
            ),
        });
    }
    if !json {
        for agent in &sound {
            let of = agent.definition.agent_type.name();
            let slug = terminal.paint(Style::Strong, &agent.slug);
            terminal.line(format_args!("{slug}  {of}  {}", agent.path.display()))?;
            for ToolSize { name, tokens } in agent.tool_sizes() {
                let size = tokens.map_or_else(
                    || "declared by its server".to_owned(),
                    |tokens| format!("about {tokens} tokens"),
                );
                terminal.line(format_args!("  {name}  {size}"))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Checks the programs of jq in transforms. Where they cannot be read, a note says so.
async fn check_programs(sound: &[DefinitionFolder], context: &CommandContext) -> Vec<Problem> {
    let Some(sandbox) = &context.config.sandbox else { return Vec::new() };
    let mut problems = Vec::new();
    for agent in sound {
        match agent.check_programs(sandbox, &SystemClock::new()).await {
            Ok(found) => problems.extend(found),
            Err(error) => {
                let agent = &agent.slug;
                context
                    .terminal
                    .note(format_args!("programs of `{agent}` are not checked: {error}"));
            }
        }
    }
    problems
}

/// Makes the folder of a new definition. Nothing that exists is changed.
fn make(slug: &str, of: NewAgent, folder: &Path, terminal: &Terminal) -> Result<Exit, CliError> {
    let Beginning { definition, beside } = of.beginning();
    // JSON is YAML, and leaves a text what it is.
    let named = json!({"slug": slug, "type": "graph"}).to_string();
    if let Err(problems) = read_definition(&named) {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        return Err(CliError::BadInput { reason: problems.join("; ") });
    }
    let made = folder.join(slug);
    let agent = format!("{FOR_EDITORS}weft: 1\n{definition}");
    let files = [("agent.yaml", agent.as_str())].into_iter().chain(beside);
    std::fs::create_dir_all(&made).map_err(|error| not_made(&made, &error))?;
    for (name, text) in files {
        let path = made.join(name);
        let file = File::create_new(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| not_made(&path, &error))?;
        terminal.line(path.display())?;
    }
    Ok(Exit::Done)
}

fn not_made(path: &Path, error: &std::io::Error) -> CliError {
    let path = path.display();
    let reason = match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{path} exists; choose another slug, or change the file")
        }
        _ => format!("{path} cannot be made: {error}"),
    };
    CliError::BadInput { reason }
}

/// Line by which editors find the schema: `weft schema agent > agents/agent.schema.json` makes it.
const FOR_EDITORS: &str = "# yaml-language-server: $schema=../agent.schema.json\n";

/// The files of a new definition, without the slug, which is the name of its folder.
struct Beginning {
    definition: &'static str,
    /// A file beside the definition, by its name.
    beside: Option<(&'static str, &'static str)>,
}

impl NewAgent {
    fn beginning(self) -> Beginning {
        match self {
            Self::Context => Beginning {
                definition: "type: context\nagent_card:\n  description: Answers questions about ...\n  modes: [converse, plan, build]\n",
                beside: Some((
                    "context.md",
                    "# Instructions\n\nWhat the agent knows, and how it answers.\n",
                )),
            },
            Self::Tool => Beginning {
                definition: "type: tool\nagent_card:\n  description: Calls ...\n  modes: [build]\ntools:\n  - server/tool\ntool_mode: sequential\n",
                beside: None,
            },
            Self::Api => Beginning {
                definition: "type: api\nagent_card:\n  description: Asks ...\n  modes: [build]\ntransport:\n  kind: api\n  api:\n    endpoint: https://api.example.com/v1\n    method: GET\n",
                beside: None,
            },
            Self::External => Beginning {
                definition: "type: external\nagent_card:\n  description: Asks the agent of ...\n  modes: [build]\ntransport:\n  kind: external\n  external:\n    endpoint: https://agents.example.com/agent-to-agent/tasks\n    protocol: a2a\n",
                beside: None,
            },
            Self::Function => Beginning {
                definition: "type: function\nagent_card:\n  description: Computes ...\n  modes: [build]\ntransport:\n  kind: function\n  function:\n    timeout_ms: 20000\n",
                beside: Some((
                    "function.js",
                    "async function handler(input, ctx) {\n  return { result: input.message };\n}\n",
                )),
            },
        }
    }
}
