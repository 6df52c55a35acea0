//! Arguments of `weft store`.

use clap::Subcommand;
use std::path::PathBuf;
use weftwork::store::BilledTo;
use weftwork::types::OrgId;

#[derive(Debug, Subcommand)]
pub enum Store {
    /// Read the whole store and report damage
    Verify {
        /// Print each finding as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove unreferenced data and free its space
    Compact,
    /// Copy a SQLite store to a new file, while it is in use
    Backup {
        /// Path of the new file
        file: PathBuf,
    },
    /// Replace a SQLite store by a backup, while no process uses it
    Restore {
        /// Path of the backup
        file: PathBuf,
    },
    /// Write threads and items, with the whole results of tools, to a file for import into any
    /// store
    Export {
        /// Path of the new file; `-` writes to standard output
        file: PathBuf,
        /// Export only this thread, and no items; may be repeated
        #[arg(long, value_name = "ID")]
        thread: Vec<String>,
    },
    /// Remove the names of an account or key from the bill; amounts stay
    #[command(after_help = "Example: weft store erase account:ann --yes

Delete the threads of the account first: their runs keep its name.")]
    Erase {
        /// The account or the virtual key, such as account:ann or key:phone
        #[arg(value_name = "ACCOUNT_OR_KEY")]
        payer: BilledTo,
        /// Organisation; by default that of this machine
        #[arg(long, value_name = "ORGANISATION")]
        org: Option<OrgId>,
        /// Erase without a question
        #[arg(long)]
        yes: bool,
    },
    /// Import the threads and items of an export
    Import {
        /// Path of the export; `-` reads from standard input
        file: PathBuf,
    },
}
