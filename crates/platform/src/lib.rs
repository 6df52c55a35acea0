//! Agents that are defined in files, and the [`records`] that they make.
//!
//! A [`Definition`] is read from a folder with an `agent.yaml`, or from the text of one. Reading it
//! executes nothing and fetches nothing. All problems of a definition are reported together, each
//! with its line and column.

mod action;
mod agent;
mod api;
mod budget;
mod call;
mod context;
mod definition;
mod deliver;
mod exposure;
mod external;
mod function_host;
mod mode;
mod orchestration;
mod orchestrations;
mod platform;
pub mod records;
mod rows;
mod runner;
mod skills;
mod source;
mod state;
mod sub_agent;
mod talk;
mod task_list;
mod turns;
mod versions;

pub use definition::{
    AgentCard, AgentType, ApiTransport, Authentication, AuthenticationType, BodyEncoding,
    Checkpoint, Definition, DefinitionFolder, Definitions, Deliverable, DeliverableFormat,
    Execution, ExternalProtocol, ExternalTransport, FileText, ForEach, FunctionTransport, Grant,
    HealthCheck, HealthThresholds, Llm, Location, OnError, OnTimeout, Orchestration,
    OrchestrationMode, OrchestrationStep, Pagination, PaginationKind, Plan, PlanFormat, Planning,
    Problem, ProblemKind, RunBudget, Source, SourceKind, StepRetry, ToolMode, ToolSize, Transport,
    TransportKind, Undo, diff_lines, is_within, read_definition, read_definitions, read_folder,
    read_texts, schema,
};
pub use exposure::NewExposure;
pub use external::{CheckedPeer, check_peer};
pub use mode::RequestError;
pub use platform::{HostedAgents, Watch};
pub use rows::{Followed, NewRow, RowError, RowWriter};
pub use source::{AGENTS, AgentProblem, Agents, Services};
pub use state::{AgentState, AgentStateUpdate, AgentStateView};
pub use versions::VersionInfo;
pub use weftwork_sandbox::Sandbox;
pub use weftwork_types::port::RowCondition;

/// Types of the code of function agents in TypeScript.
pub const FUNCTION_TYPES: &str = include_str!("function.d.ts");
