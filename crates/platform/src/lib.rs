//! Agents that are defined in files, and the [`records`] that they make.
//!
//! A [`Definition`] is read from a folder with an `agent.yaml`, or from the text of one. Reading it
//! executes nothing and fetches nothing. All problems of a definition are reported together, each
//! with its line and column.

mod definition;
pub mod records;

pub use definition::{
    AgentCard, AgentType, ApiTransport, Authentication, AuthenticationType, BodyEncoding,
    Definition, DefinitionFolder, Definitions, Deliverable, DeliverableFormat, Execution,
    ExternalProtocol, ExternalTransport, FunctionTransport, HealthCheck, Llm, Location, Mode,
    Orchestration, OrchestrationMode, Plan, PlanFormat, Problem, ProblemKind, ToolMode, Transport,
    TransportKind, read_definition, read_definitions, read_folder, schema,
};
