//! Arguments of `weft instances`.

use super::parse;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::time::Duration;
use weftwork::types::Timestamp;

#[derive(Debug, Subcommand)]
pub(crate) enum Instances {
    /// Create an instance of an agent: a state with a mailbox
    ///
    /// A repetition with the same id and options returns the instance, and ignores the initial
    /// state.
    #[command(after_help = "Example: weft instances create desk --id front-desk")]
    Create(CreateInstance),
    /// List instances, oldest first
    List {
        /// Maximum number of instances
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Print each instance as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an instance: its status, its statistics and its state
    Show {
        /// Instance id
        id: String,
        /// Print the instance and its state as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Send an activity to an instance. Without a worker, it is executed here
    #[command(after_help = "Example: weft instances send front-desk --message \"Hello\"")]
    Send(Box<SendActivity>),
    /// Print the states and ends of the activities of an instance as lines of JSON, until Ctrl-C
    Watch {
        /// Instance id
        id: String,
    },
    /// Terminate an instance: it takes no more activities. Its state stays
    Terminate {
        /// Instance id
        id: String,
        /// Time after which the activity that is executed is cut off
        #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "30s")]
        deadline: Duration,
        /// End the activities that wait as cancelled; by default they stay in the mailbox
        #[arg(long)]
        dead_letter: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateInstance {
    /// Agent
    pub(crate) agent: String,
    /// Instance id; a new one by default
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Initial state: a JSON object of channel values
    #[arg(long, value_name = "JSON", value_parser = parse::json)]
    pub(crate) state: Option<Value>,
    /// Maximum number of unfinished activities
    #[arg(long, value_name = "NUMBER", default_value_t = weftwork::agents::MAILBOX_CAPACITY)]
    pub(crate) mailbox: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SendActivity {
    /// Instance id
    pub(crate) id: String,
    /// Payload: a JSON value; null by default
    #[arg(value_parser = parse::json)]
    pub(crate) payload: Option<Value>,
    /// Message of the user, which is added to the channel `messages`
    #[arg(long)]
    pub(crate) message: Option<String>,
    /// Priority; activities with higher values begin first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,
    /// Time before which the activity does not begin, in milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) not_before: Option<Timestamp>,
    /// Time after which the activity is cut off
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Idempotency key: a repeated activity is accepted once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Only store the activity, for execution by a worker
    #[arg(long)]
    pub(crate) leave: bool,
}

fn time(text: &str) -> Result<Timestamp, String> {
    let ms = text.parse().map_err(|_| "expected milliseconds since 1970".to_owned())?;
    Ok(Timestamp(ms))
}
