//! Arguments of `weft usage`.

use clap::{Args, Subcommand};
use weftwork::runtime::usage_report::UsageColumn;
use weftwork::store::Payer;
use weftwork::types::OrgId;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: weft usage --by key,day --zone Europe/Berlin --from 2026-03-01"
)]
pub struct Usage {
    #[command(subcommand)]
    pub(crate) command: Option<UsageCommand>,
    #[command(flatten)]
    pub(crate) report: Report,
    /// Organisation; without it, that of this machine
    #[arg(long, global = true, value_name = "ORG")]
    pub(crate) org: Option<OrgId>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Remove the names of an account or key from the bill; amounts stay
    Erase(Erase),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft usage erase account:ann --yes

Delete the threads of the account first: their runs keep its name.")]
pub(crate) struct Erase {
    /// The account or the virtual key, such as account:ann or key:phone
    #[arg(value_name = "PAYER")]
    pub(crate) payer: Payer,
    /// Erase without a question
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Properties by which usage is divided: account, key, agent, version, model, day
    #[arg(long, value_name = "PROPERTIES", value_delimiter = ',', default_value = "model")]
    pub(crate) by: Vec<UsageColumn>,
    /// Time zone of the days, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) zone: String,
    /// First day, such as 2026-03-01
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<String>,
    /// Last day, which is included
    #[arg(long, value_name = "DAY")]
    pub(crate) until: Option<String>,
    /// Print CSV with a line of names
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print each row as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
