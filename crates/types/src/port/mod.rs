//! Ports: traits for access to time, network, budget, ledger, journal and runs.

mod budget;
mod clock;
mod context;
mod dependencies;
mod egress;
mod executor;
mod journal;
mod ledger;
mod manual_clock;
mod observer;
mod past;
mod platform;
mod remote;
mod turn_chain;
mod turns;

pub use budget::{
    Budget, BudgetError, BudgetExceeded, BudgetScope, BudgetWithin, Budgets, Demand, Hold,
    LimitReached, LimitedBudget, Limits, Reservation, Unlimited, WallTime,
};
pub use clock::Clock;
pub use context::{CallContext, Emit, NoJournal, Silent};
pub use dependencies::{Dependencies, Deps};
pub use egress::{
    CheckUrl, Egress, EgressError, EgressRequest, EgressResponse, Method, Redirected, Redirects,
};
pub use executor::{ExecuteError, GraphExecutor, RunHandle};
pub use journal::{
    Attempts, CallKey, CallKind, CallRecord, CallResult, CallState, IdempotencyKey, Intent,
    Journal, JournalError, Opened,
};
pub use ledger::{Ledger, NoLedger};
pub use manual_clock::ManualClock;
pub use observer::RunObserver;
pub use past::{Admission, Admitted, NewArtifact, PastCall};
pub use platform::{
    AgentSummary, DefinitionRefusal, NewDefinition, Platform, RowCondition, TaskCaller,
};
pub use remote::{RemoteAddress, RemoteThreadRecord, RemoteThreads, RemoteUse};
pub use turn_chain::TurnChain;
pub use turns::{AgentTurns, Begun, Says, Turn, TurnRun};
