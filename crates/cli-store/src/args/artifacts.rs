//! Arguments of `weft artifacts`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Artifacts {
    /// List the results of a thread that were too large for a message
    List {
        /// Thread id
        thread: String,
        /// Only results of this run
        #[arg(long, value_name = "ID")]
        run: Option<String>,
        /// Print each result, without its value, as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the whole value of a result as JSON
    #[command(after_help = "Example: weft artifacts get lamp/3f9d0c1b2a4e5d6f7a8b9c0d1e2f3a4b")]
    Get {
        /// Reference, as in the result of the call
        id: String,
    },
    /// Delete the results that have lapsed
    Prune,
}
