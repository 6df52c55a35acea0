//! Arguments of `weft usage`.

use clap::Args;
use weftwork::runtime::usage_report::UsageColumn;
use weftwork::types::OrgId;

#[derive(Debug, Args)]
#[command(after_help = "Example: weft usage --by key,day --zone Europe/Berlin --from 2026-03-01")]
pub struct Usage {
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
    /// Print the limits of accounts and keys with what is used of them, in place of the report
    #[arg(long, conflicts_with_all = ["csv", "from", "until"])]
    pub(crate) limits: bool,
    /// Print CSV with a line of names
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print each row as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Organisation; by default that of this machine
    #[arg(long, value_name = "ORGANISATION")]
    pub(crate) org: Option<OrgId>,
}
