//! Arguments of commands that start runs.

use clap::Args;
use serde_json::{Map, Value};
use weftwork::types::CheckpointId;
use weftwork::types::run::{ReuseFrom, RunOptions, Stops};
use weftwork_cli_base::args::{Busy, FrameFlags, Keeping, LimitFlags, parse};

const CHAT_HELP: &str = "\
On a terminal, lines can be edited, earlier messages are found with the arrow keys, and /help lists
the commands of a chat. Otherwise each line of standard input is a message, or the answer to an open
question.

Examples:
  weft chat
  weft chat desk --thread lamp
  weft chat --url http://127.0.0.1:8123 --token TOKEN";

const RUN_EXAMPLES: &str = "\
Examples:
  weft run desk --input 'Where is order A1001?'
  weft run desk --thread t --input-json '{\"messages\": []}' --before tool --deadline 30s
  weft run desk --input 'Where is order A1001?' --budget calls=4,tokens=5000,usd=0.05
  weft run desk --input 'Where is order A1001?' --mode values,messages";

#[derive(Debug, Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct Chat {
    /// Agent to chat with; defaults to the agent of the thread
    pub(crate) agent: Option<String>,
    /// Continue this thread, or start one with this id
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) busy: Busy,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
}

/// The server of a chat.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerFlags {
    /// Chat at this server, such as `http://127.0.0.1:8123`, instead of a store
    #[arg(long, value_name = "URL", conflicts_with_all = ["durability", "multitask", "deadline", "budget"])]
    pub(crate) url: Option<String>,
    /// Token for the server; defaults to `WEFT_TOKEN`, then to the saved one
    #[arg(long, value_name = "TOKEN", requires = "url")]
    pub(crate) token: Option<String>,
    /// Save the token for this server, once the server has accepted it
    #[arg(long, requires = "url")]
    pub(crate) save_token: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Agent to run
    pub(crate) agent: String,
    /// Message for the agent; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", required_unless_present = "input_json")]
    pub(crate) input: Option<String>,
    /// Input as a JSON object of channel values; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "input")]
    pub(crate) input_json: Option<String>,
    /// Continue this thread, or start one with this id
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) busy: Busy,
    #[command(flatten)]
    pub(crate) options: RunFlags,
    #[command(flatten)]
    pub(crate) frames: FrameFlags,
    /// Print every event as a line of JSON, followed by the outcome
    #[arg(long)]
    pub(crate) json: bool,
}

/// Further options of a run.
#[derive(Debug, Default, Args)]
pub(crate) struct RunFlags {
    /// Stop before these nodes; comma-separated names, or `*` for all
    #[arg(long, value_name = "NODES", value_parser = parse::stops)]
    before: Option<Stops>,
    /// Stop after these nodes; comma-separated names, or `*` for all
    #[arg(long, value_name = "NODES", value_parser = parse::stops)]
    after: Option<Stops>,
    /// Value that nodes read besides the state
    #[arg(long, value_name = "JSON", value_parser = parse::json)]
    context: Option<Value>,
    /// Named settings that nodes read
    #[arg(long, value_name = "JSON", value_parser = parse::object)]
    configurable: Option<Map<String, Value>>,
    /// Data to store with the run: `KEY=VALUE` or a JSON object; may be repeated
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = parse::metadata)]
    metadata: Vec<Map<String, Value>>,
    /// Label to store with the run; may be repeated
    #[arg(long, value_name = "TEXT")]
    tag: Vec<String>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// Maximum number of supersteps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    step_limit: Option<u32>,
    /// Maximum number of tasks of a superstep that run at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Start from this checkpoint of the thread, on a new branch
    #[arg(long, value_name = "CHECKPOINT", requires = "thread")]
    at: Option<CheckpointId>,
    /// Reuse recorded calls of the branch of `--at` instead of making them again
    #[arg(long, requires = "at")]
    reuse_calls: bool,
    /// Key of the request: a repetition with the same key shows the first run, whose deadline holds
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

impl RunFlags {
    /// Returns `options` with the options that are set here, except for the deadline, which is
    /// counted from the acceptance of the run.
    pub(crate) fn apply(&self, options: RunOptions) -> RunOptions {
        RunOptions {
            interrupt_before: self.before.clone(),
            interrupt_after: self.after.clone(),
            context: self.context.clone().unwrap_or_default(),
            configurable: self.configurable.clone().unwrap_or_default(),
            metadata: self.metadata.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect(),
            tags: self.tag.clone(),
            step_limit: self.step_limit,
            concurrency: self.concurrency,
            at: self.at,
            reuse_from: if self.reuse_calls { ReuseFrom::Origin } else { ReuseFrom::Own },
            idempotency_key: self.idempotency_key.clone(),
            budget: self.limits.budget,
            ..options
        }
    }
}
