//! Arguments of `weft conformance`.

use clap::Args;

#[derive(Debug, Args)]
pub struct Conformance {
    /// Read one spec per line, and answer each with one line
    #[arg(long)]
    pub(crate) batch: bool,
    /// Semantics of graphs where LangGraph and Weftwork differ
    #[arg(long, default_value = "langgraph")]
    pub(crate) profile: ProfileName,
    /// Database for `--store postgres`; defaults to that of `WEFT_TEST_POSTGRES`
    #[arg(long, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// Runs of this program, or hosted runs of a runtime
    #[arg(long, default_value = "local")]
    pub(crate) runs: RunsName,
    /// Mode of execution
    #[arg(long, default_value = "straight")]
    pub(crate) mode: ModeName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunsName {
    /// Runs of this program
    Local,
    /// Runs on the threads of a runtime, each under a claim
    Hosted,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ModeName {
    /// Execute once, as in normal use
    Straight,
    /// Execute each run apart from the reader of its events, who reads them as they come
    Streamed,
    /// Drop the state of the run after each superstep, and read it back
    RebuildEachStep,
    /// Execute once, then again with a crash before and after each write to the store
    CrashEachWrite,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ProfileName {
    Langgraph,
    Weft,
}
