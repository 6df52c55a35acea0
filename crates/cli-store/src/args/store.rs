//! Arguments of `weft store`.

use clap::Subcommand;
use std::path::PathBuf;

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
    /// Import the threads and items of an export
    Import {
        /// Path of the export; `-` reads from standard input
        file: PathBuf,
    },
}
