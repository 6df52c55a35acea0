//! The arguments of `weft orchestrations`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Orchestrations {
    /// List the orchestrations that have not ended: their steps, and what they wait for
    List {
        /// Slug of the only agent
        #[arg(long)]
        agent: Option<String>,
        /// Print one JSON object per orchestration
        #[arg(long)]
        json: bool,
    },
    /// Print the last orchestration of a conversation as JSON
    Show {
        /// Id of the conversation
        conversation: String,
    },
    /// Continue an orchestration whose run failed, was cancelled, or whose process is gone
    Continue(OfConversation),
    /// Let an orchestration begin no further step, and print the token that resumes it
    Pause {
        #[command(flatten)]
        of: OfConversation,
        /// Time in which the token is taken, such as `2h`; 7 days at most and by default
        #[arg(long, value_name = "TIME")]
        expires_in: Option<String>,
    },
    /// Resume an orchestration that is paused
    Resume {
        #[command(flatten)]
        of: OfConversation,
        /// Token of the pause; `-` reads it from standard input
        token: String,
    },
    /// Approve the values of a checkpoint
    Approve {
        #[command(flatten)]
        of: OfConversation,
        /// Approval; by default the only one that waits
        #[arg(long, value_name = "ID")]
        approval: Option<String>,
        /// Values in place of those that the checkpoint shows, as JSON
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Reject the values of a checkpoint
    Reject {
        #[command(flatten)]
        of: OfConversation,
        /// Approval; by default the only one that waits
        #[arg(long, value_name = "ID")]
        approval: Option<String>,
        /// Reason
        #[arg(long, default_value = "")]
        message: String,
    },
    /// List the effects since a step, and go back to it once they are confirmed
    Rollback {
        #[command(flatten)]
        of: OfConversation,
        /// Step that begins again; by default the one that ended last
        #[arg(long)]
        step: Option<String>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OfConversation {
    /// Id of the conversation
    pub(crate) conversation: String,
    /// Print the whole answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
