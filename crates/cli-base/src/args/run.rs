//! Arguments of commands that start runs.

use super::parse;
use clap::Args;
use std::time::Duration;
use weftwork::App;
use weftwork::types::port::Limits;
use weftwork::types::run::{Durability, Multitask};

/// Limits of each run.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct LimitFlags {
    /// Cut each run off after this time, such as `30s` or `1m30s`
    #[arg(long, value_name = "TIME", value_parser = parse::time_limit)]
    pub deadline: Option<Duration>,
    /// Limit what each run uses: `tokens=N,usd=X,calls=N,tools=N,time=T`, or some of them
    #[arg(long, value_name = "LIMITS", value_parser = weftwork::config::read_limits)]
    pub budget: Option<Limits>,
}

impl LimitFlags {
    /// Returns `true` if there is a limit.
    pub fn is_set(&self) -> bool {
        self.deadline.is_some() || self.budget.is_some()
    }

    /// Returns the app with these limits for the runs it starts.
    pub fn limit(&self, mut app: App) -> App {
        if let Some(limit) = self.deadline {
            app = app.with_deadline(limit);
        }
        if let Some(limits) = self.budget {
            app = app.with_budget(limits);
        }
        app
    }
}

/// Durability of new runs.
#[derive(Debug, Default, Args)]
pub struct Keeping {
    /// Store each superstep before the next one, during the next one, or at the end of the run
    #[arg(long, value_name = "WHEN", default_value = "sync")]
    durability: When,
}

/// Handling of new runs on a busy thread.
#[derive(Debug, Default, Args)]
pub struct Busy {
    /// If the thread has an active run: refuse the new one, queue it, cancel the active run, or
    /// cancel it and roll it back
    #[arg(long, value_name = "STRATEGY", default_value = "reject")]
    multitask: Strategy,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Strategy {
    #[default]
    Reject,
    Enqueue,
    Interrupt,
    Rollback,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum When {
    #[default]
    Sync,
    Async,
    Exit,
}

impl Busy {
    /// Converts the argument to the option of runs.
    pub fn multitask(&self) -> Multitask {
        match self.multitask {
            Strategy::Reject => Multitask::Reject,
            Strategy::Enqueue => Multitask::Enqueue,
            Strategy::Interrupt => Multitask::Interrupt,
            Strategy::Rollback => Multitask::Rollback,
        }
    }
}

impl Keeping {
    /// Converts the argument to the option of runs.
    pub fn durability(&self) -> Durability {
        match self.durability {
            When::Sync => Durability::Sync,
            When::Async => Durability::Async,
            When::Exit => Durability::Exit,
        }
    }
}
