//! Arguments of `weft approvals`.

use clap::{Args, Subcommand};
use std::num::NonZeroUsize;
use weftwork::store::approval::ApprovalCursor;

#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// List the calls that wait for a decision, and past decisions and refused answers
    List(ApprovalList),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft approvals list --thread lamp")]
pub struct ApprovalList {
    /// Only approvals of this thread
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Only past decisions after this position, which the list before prints
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<ApprovalCursor>,
    /// Maximum number of calls that wait, and of past decisions
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Print each approval as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
