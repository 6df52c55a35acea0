//! Arguments of `weft keys`.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use weftwork::types::Rights;

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a token, print it once, and add its key to a file
    Add(AddKey),
    /// List the keys of a file, which does not have their tokens
    List {
        /// Path of the file
        file: PathBuf,
        /// Print each key as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a key from a file; requests, streams and sessions with its token end within seconds
    Revoke {
        /// Path of the file
        file: PathBuf,
        /// Id of the key, as in the list: at least the first 8 digits of the hash
        id: String,
    },
}

const ADD_HELP: &str = "\
Rights: read (threads, runs, items, streams), run (create, change, cancel and delete them), approve
(answer questions and decide about calls), admin (assistants, prune, whole artifacts). None includes
another one.

Example: weft keys add keys.txt --subject ada --rights read,run,approve";

#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub struct AddKey {
    /// Path of the file, which is created with mode 600 if it does not exist
    pub(crate) file: PathBuf,
    /// Person or service, as records show it
    #[arg(long, value_name = "NAME")]
    pub(crate) subject: String,
    /// Organisation whose data the key reaches
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) org: String,
    /// Account that is billed for its runs
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) account: String,
    /// Virtual key of the calls of its runs
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) virtual_key: String,
    /// Rights, with commas: some of read, run, approve and admin
    #[arg(long, value_name = "RIGHTS", default_value = "read,run")]
    pub(crate) rights: Rights,
}
