//! Arguments of `weft instances`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value};
use std::time::Duration;
use weftwork::agents::{MAILBOX_CAPACITY, MAILBOX_CAPACITY_MAX, OnQuestion};
use weftwork::types::Timestamp;
use weftwork::types::port::Limits;
use weftwork_cli_base::args::parse;
use weftwork_cli_base::terminal::parse_instant;

#[derive(Debug, Subcommand)]
pub enum Instances {
    /// Create an instance of an agent: a state with a mailbox
    ///
    /// A repetition with the same id and options returns the instance, and ignores the initial
    /// state.
    #[command(after_help = "Example: weft instances create desk --id front-desk")]
    Create(Box<CreateInstance>),
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
    ///
    /// An activity that waits for an answer or for a time is cancelled.
    Terminate(TerminateInstance),
    /// Send an activity again: a dead letter, or one that failed or was cancelled
    ///
    /// It has the payload, the input, the priority and the settings with which it was sent. Its
    /// messages have new ids.
    #[command(
        after_help = "Example: weft instances resend front-desk 019f3ad0-8c56-7c10-b2f5-0a4a2a4f6f11 --to back-desk"
    )]
    Resend(ResendActivity),
}

#[derive(Debug, Args)]
pub struct TerminateInstance {
    /// Instance id
    pub(crate) id: String,
    /// Time after which the activity that is executed is cut off
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "30s")]
    pub(crate) deadline: Duration,
    /// End the activities that wait as cancelled; by default they stay in the mailbox
    #[arg(long)]
    pub(crate) dead_letter: bool,
    /// Print the report as a line of JSON, with all that is needed to send the activities again
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub struct ResendActivity {
    /// Instance to which the activity was sent
    pub(crate) id: String,
    /// Activity
    pub(crate) activity: String,
    /// Instance to which it is sent now
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) to: String,
    /// Time after which the activity is cut off, counted from now; by default as it was sent
    #[arg(long, value_name = "DURATION", value_parser = parse::time_limit)]
    pub(crate) timeout: Option<Duration>,
    /// Idempotency key, unique within the organisation: a repeated activity is accepted once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Only store the activity, for execution by a worker
    #[arg(long)]
    pub(crate) leave: bool,
}

#[derive(Debug, Args)]
pub struct CreateInstance {
    /// Agent
    pub(crate) agent: String,
    /// Instance id; a new one by default
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Initial state: a JSON object of channel values
    #[arg(long, value_name = "JSON", value_parser = parse::json)]
    pub(crate) state: Option<Value>,
    /// Maximum number of unfinished activities, from 1 to 100000
    #[arg(long, value_name = "NUMBER", default_value_t = MAILBOX_CAPACITY)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAILBOX_CAPACITY_MAX)))]
    pub(crate) mailbox: u32,
    /// Treatment of an activity that asks a question
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = QuestionPolicy::Hold)]
    pub(crate) on_question: QuestionPolicy,
    /// Named settings that nodes read in each activity
    #[arg(long, value_name = "JSON", value_parser = parse::object)]
    pub(crate) configurable: Option<Map<String, Value>>,
    /// Limit what each activity uses: `tokens=N,usd=X,calls=N,tools=N,time=T`, or some of them
    #[arg(long, value_name = "LIMITS", value_parser = weftwork::config::read_limits)]
    pub(crate) budget: Option<Limits>,
    /// Maximum number of supersteps of each activity
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) step_limit: Option<u32>,
}

/// The treatment of an activity that asks a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QuestionPolicy {
    /// Holds the mailbox: the activities behind it wait for the answer
    Hold,
    /// Continues in a thread of its own, which has the question: the activities behind it go on
    SetAside,
}

impl From<QuestionPolicy> for OnQuestion {
    fn from(policy: QuestionPolicy) -> Self {
        match policy {
            QuestionPolicy::Hold => Self::Hold,
            QuestionPolicy::SetAside => Self::SetAside,
        }
    }
}

#[derive(Debug, Args)]
pub struct SendActivity {
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
    /// Time before which the activity does not begin: a delay such as 5m, a time such as
    /// 2026-11-25T09:00:00Z, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = parse_begin)]
    pub(crate) not_before: Option<Begin>,
    /// Time after which the activity is cut off, counted from now, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = parse::time_limit)]
    pub(crate) timeout: Option<Duration>,
    /// Idempotency key, unique within the organisation: a repeated activity is accepted once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Named settings for this activity, in place of those of the instance with the same names
    #[arg(long, value_name = "JSON", value_parser = parse::object)]
    pub(crate) configurable: Option<Map<String, Value>>,
    /// Only store the activity, for execution by a worker
    #[arg(long)]
    pub(crate) leave: bool,
}

/// Time before which an activity does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    At(Timestamp),
    After(Duration),
}

/// Parses a delay, a time in the form of RFC 3339, or milliseconds since 1970.
fn parse_begin(text: &str) -> Result<Begin, String> {
    let at = text.parse().ok().map(Timestamp).or_else(|| parse_instant(text)).map(Begin::At);
    let begin = at.or_else(|| parse::duration(text).ok().map(Begin::After));
    begin.ok_or_else(|| {
        "expected a delay such as 5m, a time such as 2026-11-25T09:00:00Z, or milliseconds since 1970"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_begins_after_a_delay_or_at_a_time() {
        assert_eq!(parse_begin("5m"), Ok(Begin::After(Duration::from_secs(300))));
        let at = Ok(Begin::At(Timestamp(1_767_225_600_000)));
        assert_eq!(parse_begin("1767225600000"), at);
        assert_eq!(parse_begin("2026-01-01T00:00:00Z"), at);
        assert!(parse_begin("tomorrow").is_err_and(|why| why.contains("5m")));
    }
}
