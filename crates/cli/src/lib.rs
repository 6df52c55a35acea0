//! The command line of Weftwork as a library, so that programs can offer all commands for their
//! own agents.
//!
//! ```no_run
//! use weftwork::AgentDef;
//! use weftwork::prelude::*;
//!
//! fn main() -> std::process::ExitCode {
//!     weftwork_cli::Program::new()
//!         .agent(|_config| {
//!             AgentDef::new("poet", |model| {
//!                 ReactAgent::new("poet", model).instructions("You answer in verse.").build()
//!             })
//!         })
//!         .run()
//! }
//! ```

mod args;
mod command;
mod demo;
mod demo_agent;
mod log;
mod shell;
mod teams;

pub use args::Cli;
pub use weftwork_cli_base::CliError;
pub use weftwork_cli_base::exit::Exit;

use clap::Parser;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;
use weftwork::config::Flags;
use weftwork::sqlite::wait_until_closed;
use weftwork::{AgentDef, Config};
#[cfg(feature = "sandbox")]
use weftwork_cli_base::context::SANDBOX_PROCESS;
use weftwork_cli_base::context::{CommandContext, Make, load_config};
use weftwork_cli_base::signals;
use weftwork_cli_base::terminal::Terminal;

/// Time that threads of the store have to close it before the process exits.
const CLOSING: Duration = Duration::from_secs(5);
/// Time that background tasks have to finish before the process exits.
const GRACE: Duration = Duration::from_millis(500);

/// The program: all commands, and the agents they work with.
pub struct Program {
    agents: Vec<Box<Make>>,
    build_version: Option<&'static str>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("agents", &self.agents.len()).finish()
    }
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}

impl Program {
    /// Creates a program with the built-in agents.
    #[must_use]
    pub fn new() -> Self {
        let agents: [Box<Make>; 3] =
            [Box::new(demo_agent::desk_agent), Box::new(teams::supervisor), Box::new(teams::swarm)];
        Self { agents: agents.into(), build_version: None }
    }

    /// Adds an agent. `make` is called once the configuration is loaded.
    #[must_use]
    pub fn agent(mut self, make: impl Fn(&Config) -> AgentDef + 'static) -> Self {
        self.agents.push(Box::new(make));
        self
    }

    /// Sets the commit that the program was built from, from [`build_version!`](weftwork::build_version):
    /// see [`AppBuilder::build_version`](weftwork::AppBuilder::build_version).
    #[must_use]
    pub fn build_version(mut self, version: Option<&'static str>) -> Self {
        self.build_version = version;
        self
    }

    /// Parses the command line and executes the command.
    #[must_use]
    pub fn run(self) -> ExitCode {
        // Before anything else: the process has no rights and reads no arguments.
        #[cfg(feature = "sandbox")]
        if std::env::args_os().nth(1).is_some_and(|first| first == SANDBOX_PROCESS) {
            return weftwork_sandbox::main();
        }
        let cli = Cli::parse();
        let terminal = Terminal::of_process(shell::weft_command(&cli));
        log::start_log(cli.log.clone(), cli.log_format, cli.command.usual_log(), &terminal);
        if let Err(error) = signals::handle_signals() {
            return error.report(&terminal);
        }
        let runtime = match tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => return CliError::Input(error.to_string()).report(&terminal),
        };
        let done = runtime.block_on(Box::pin(self.dispatch_command(cli, &terminal)));
        runtime.shutdown_timeout(GRACE);
        // The last one to leave moves the log into the file: a store that nobody uses is one file.
        if !wait_until_closed(CLOSING) {
            terminal.note("the store is still in use; its log stays beside its file");
        }
        match done {
            Ok(exit) => exit.code(),
            Err(error) => error.report(&terminal),
        }
    }

    async fn dispatch_command(self, cli: Cli, terminal: &Terminal) -> Result<Exit, CliError> {
        let mcp = cli.mcp_file();
        let command = match command::without_settings(cli.command, cli.store.as_deref(), terminal)?
        {
            command::Next::Done(exit) => return Ok(exit),
            command::Next::NeedsSettings(command) => *command,
        };
        let flags = Flags {
            model: cli.model,
            store: cli.store,
            config: cli.config,
            policy: cli.policy,
            mcp,
            thread_budget: cli.thread_budget,
        };
        let mut config = load_config(&flags)?;
        config.graph_version = config.graph_version.or(self.build_version.map(str::to_owned));
        let context = CommandContext::new(config, flags, self.agents.into(), terminal.clone());
        let done = command::run(command, &context).await;
        context.close_exports().await;
        if let Some(mcp) = &context.config.mcp {
            mcp.shutdown().await;
        }
        done
    }
}
