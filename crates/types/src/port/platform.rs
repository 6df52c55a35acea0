//! The agents that are defined in files, as servers and commands reach them.

use super::AgentTurns;
use crate::call_chain::CallChain;
use crate::caller::Caller;
use crate::code::Fault;
use crate::exposure::{AgentProtocol, ExposureChange};
use crate::peer::{PeerCounts, PeerState};
use crate::task::{Mode, Payload, TaskRequest, TaskResponse};
use crate::telemetry::ParentSpan;
use crate::{BoxFuture, Principal};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The agents of a program that are asked by their slugs, and the records that they make.
pub trait Platform: AgentTurns {
    /// Returns the agents of a principal, ordered by slug.
    fn agents(&self, who: &Principal) -> Vec<AgentSummary>;

    /// Counts the servers of other programs that agents of this process asked, by their states.
    fn peers(&self) -> PeerCounts;

    /// Fulfils a request. What is wrong with it, and what fails, is in the response.
    ///
    /// # Cancel safety
    /// The run of the request continues.
    fn task(&self, by: TaskCaller, request: TaskRequest) -> BoxFuture<'_, TaskResponse>;

    /// Reads or changes plans (mode `plan`) or deliverables (mode `build`) of a conversation, without a
    /// run.
    fn record<'a>(
        &'a self,
        who: &'a Principal,
        mode: Mode,
        conversation: &'a str,
        payload: &'a Payload,
    ) -> BoxFuture<'a, TaskResponse>;

    /// Returns the conversations of a principal, the last changed first; `after` is the position of an
    /// earlier result.
    ///
    /// # Errors
    /// Those of the store.
    fn conversations<'a>(
        &'a self,
        who: &'a Principal,
        agent: Option<&'a str>,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Returns a conversation with its tasks, plans and deliverables; with all contents if `whole`.
    ///
    /// # Errors
    /// The code W0201 if the principal has no such conversation, and errors of the store.
    fn conversation<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a str,
        whole: bool,
    ) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Returns the orchestrations of a principal that have not ended, with their steps and what they wait
    /// for.
    ///
    /// # Errors
    /// Those of the store.
    fn orchestrations<'a>(
        &'a self,
        who: &'a Principal,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Returns the last orchestration of a conversation.
    ///
    /// # Errors
    /// The code W0201 if the principal has no such conversation, W1074 if its last request began no
    /// orchestration, and errors of the store.
    fn orchestration<'a>(
        &'a self,
        who: &'a Principal,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Deletes a conversation with all that it has.
    ///
    /// # Errors
    /// As [`conversation`](Self::conversation).
    fn erase<'a>(&'a self, who: &'a Principal, id: &'a str) -> BoxFuture<'a, Result<(), Fault>>;

    /// Writes a definition as a row of the store, for a principal that may change definitions.
    ///
    /// # Errors
    /// [`DefinitionRefusal`]. Nothing was written.
    fn put_definition<'a>(
        &'a self,
        who: &'a Principal,
        new: NewDefinition,
    ) -> BoxFuture<'a, Result<AgentSummary, DefinitionRefusal>>;

    /// Removes the row of a definition: of an organisation, or of all if `None`.
    ///
    /// # Errors
    /// [`DefinitionRefusal`]. Nothing was removed.
    fn remove_definition<'a>(
        &'a self,
        who: &'a Principal,
        organization: Option<&'a str>,
        slug: &'a str,
    ) -> BoxFuture<'a, Result<(), DefinitionRefusal>>;

    /// Changes the protocols by which an agent is exposed, for a principal that may change its
    /// definition. The exposure is that of the agent in all its versions.
    ///
    /// # Errors
    /// [`DefinitionRefusal`]; the code W0201 if there is no such agent. Nothing was changed.
    fn expose<'a>(
        &'a self,
        who: &'a Principal,
        slug: &'a str,
        change: ExposureChange,
    ) -> BoxFuture<'a, Result<AgentSummary, DefinitionRefusal>>;
}

/// A definition to be written as a row of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewDefinition {
    /// Slug; by default that of the definition.
    pub slug: Option<String>,
    /// Organisation; by default that of the definition, else all.
    pub organization: Option<String>,
    /// Texts of the files by their names: `agent.yaml`, and those that it names.
    pub files: BTreeMap<String, String>,
    /// Condition of the write.
    pub condition: RowCondition,
}

/// The condition under which a row is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RowCondition {
    /// There may be a row, which is replaced.
    #[default]
    Any,
    /// There is no row.
    New,
    /// The row has the version with this beginning of the hash.
    Version(String),
}

/// A change of a definition that was refused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DefinitionRefusal {
    /// The definition has problems.
    Problems {
        /// Text with a line for each.
        text: String,
        /// All of them, as JSON.
        problems: Vec<Value>,
    },
    /// Another definition has the organisation and the slug.
    Taken {
        /// The problem in one line.
        text: String,
        /// The problem as JSON.
        problem: Value,
    },
    /// The principal may not change definitions of that organisation.
    Forbidden {
        /// Reason.
        text: String,
    },
    /// The store.
    Store(Fault),
}

/// An agent in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSummary {
    /// Slug.
    pub slug: String,
    /// Name for people.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub agent_type: String,
    /// Purpose, in a sentence.
    pub description: String,
    /// Modes.
    pub modes: Vec<Mode>,
    /// Current version: the beginning of the hash of the definition.
    pub version: String,
    /// Version as the definition has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    /// `true` if the definition is a row of the store, and not a file.
    pub stored: bool,
    /// Organisation, if the agent is not for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// JSON Schema of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Map<String, Value>>,
    /// JSON Schema of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// Protocols of other programs by which the agent is reached.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exposed: BTreeSet<AgentProtocol>,
    /// State of the circuit to the server of an agent of another server, in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerState>,
    /// Reason for which the agent cannot be asked here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The client of a task.
#[derive(Debug, Clone)]
pub struct TaskCaller {
    /// Principal.
    pub principal: Principal,
    /// Billing identity.
    pub caller: Caller,
    /// Span in which the client made the request.
    pub parent_span: Option<ParentSpan>,
    /// Idempotency key, unique within the organisation: a repeated request returns the answer of the
    /// first one.
    pub idempotency_key: Option<String>,
    /// Agents that asked one another before, as the client claims.
    pub chain: CallChain,
}
