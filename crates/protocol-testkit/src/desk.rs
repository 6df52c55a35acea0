//! A server with agents, a model that a test scripts, and clients of two organisations.

use axum::Router;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use weftwork::models::{Capability, ChatModel, ChatRequest, ChatStream, ModelError, ModelInfo};
use weftwork::platform::{
    Agents, DefinitionFolder, HostedAgents, NewExposure, RowWriter, Services, read_folder,
};
use weftwork::runtime::Runtime;
use weftwork::runtime::limits::{LimitOwner, LimitRules, UsageLimits};
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::{Policy, Tool, ToolError};
use weftwork::types::exposure::{AgentProtocol, ExposureChange};
use weftwork::types::message::{Message, Role};
use weftwork::types::port::{Egress, EgressError, EgressRequest, EgressResponse};
use weftwork::types::{BoxFuture, OrgId, Principal, Right, Rights, Timestamp};
use weftwork_server::Server;

/// Token of Ada, a subject of the organisation `one`.
pub const ADA: &str = "token-of-ada-in-one";
/// Token of Eve, another subject of the organisation of Ada.
pub const EVE: &str = "token-of-eve-in-one";
/// Token of Bob, a subject of the organisation `two`.
pub const BOB: &str = "token-of-bob-in-two";
/// Token of Ada that reads alone.
pub const READER: &str = "token-of-ada-who-reads";
/// Token of Ada that reads and runs, and does not approve.
pub const RUNNER: &str = "token-of-ada-who-runs";

/// Number of the calls of `desk/write`.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of the calls of `desk/write` in this process.
pub fn written() -> usize {
    WRITTEN.load(Ordering::Relaxed)
}

/// Writes a line, and returns it.
#[weftwork::tool(
    name = "desk/write",
    effect = external_side_effect,
    example(request = "Write a.", args = {"line": "a"})
)]
fn write(line: String) -> Result<String, ToolError> {
    WRITTEN.fetch_add(1, Ordering::Relaxed);
    match line.as_str() {
        "fail" => Err(ToolError::failed("the desk is closed")),
        line => Ok(format!("wrote {line}")),
    }
}

/// Pays a line, and cannot tell whether it did.
#[weftwork::tool(
    name = "desk/pay",
    effect = external_side_effect,
    example(request = "Pay a.", args = {"line": "a"})
)]
fn pay(line: String) -> Result<String, ToolError> {
    Err(ToolError::outcome_unknown(format!("the connection broke while {line} was paid")))
}

/// An agent, its definition, and whether it is exposed.
#[derive(Debug)]
pub struct Agent {
    slug: &'static str,
    definition: String,
    is_exposed: bool,
}

impl Agent {
    /// An exposed agent, with the text of its `agent.yaml`.
    pub fn new(slug: &'static str, definition: impl Into<String>) -> Self {
        Self { slug, definition: definition.into(), is_exposed: true }
    }

    /// The agents that each desk has: `golf` answers, `clerk` writes after an approval, `own` belongs to
    /// the organisation `one`, and `hidden` is not exposed.
    fn usual() -> Vec<Self> {
        let clerk = "type: tool\ntools: [desk/write]\nrequires_confirmation: [desk/write]\n";
        vec![
            Self::new("golf", "type: context\ncontext: Answer in short words.\n"),
            Self::new("clerk", clerk),
            Self::new("own", "type: context\norganization: one\n"),
            Self { is_exposed: false, ..Self::new("hidden", "type: context\n") },
        ]
    }

    fn read(&self) -> DefinitionFolder {
        let root = TempDir::new().expect("a folder");
        let folder = root.path().join(self.slug);
        fs::create_dir(&folder).expect("is made");
        fs::write(folder.join("agent.yaml"), &self.definition).expect("is written");
        read_folder(&folder).expect("sound")
    }
}

/// A scripted model, and the requests that it got.
#[derive(Debug, Clone)]
pub struct Model {
    model: Arc<ScriptedModel>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

impl Model {
    /// A model that answers each request with a step.
    pub fn new(answer: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let model = ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            answer(request)
        });
        Self { model: Arc::new(model), asked }
    }

    /// The requests that it got.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl ChatModel for Model {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.model.stream(request)
    }
}

/// A model that takes no images.
#[derive(Debug)]
pub struct Blind<M>(pub M);

impl<M: ChatModel> ChatModel for Blind<M> {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn lacks(&self) -> &[Capability] {
        &[Capability::Images]
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.0.stream(request)
    }
}

/// A network that nothing reaches.
#[derive(Debug)]
pub struct NoNetwork;

impl Egress for NoNetwork {
    fn send(&self, _: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let reason = "there is no network".to_owned();
        Box::pin(std::future::ready(Err(EgressError::Connect { host: String::new(), reason })))
    }
}

/// The parts of a desk.
#[derive(Debug)]
pub struct DeskParts {
    store: Arc<dyn Store>,
    model: Arc<dyn ChatModel>,
    egress: Arc<dyn Egress>,
    tools: Vec<Arc<dyn Tool>>,
    agents: Vec<Agent>,
    limits: UsageLimits,
}

impl DeskParts {
    /// The usual agents over a store in memory, with a model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            model: Arc::new(model),
            egress: Arc::new(NoNetwork),
            tools: vec![Arc::new(write)],
            agents: Agent::usual(),
            limits: UsageLimits::new("UTC").expect("a zone"),
        }
    }

    /// Another store.
    #[must_use]
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self }
    }

    /// Another network.
    #[must_use]
    pub fn egress(self, egress: Arc<dyn Egress>) -> Self {
        Self { egress, ..self }
    }

    /// A further tool. The policy allows those that begin with `desk/`.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// A further agent.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agents.push(agent);
        self
    }

    /// The agent `cashier`, whose payments have no known outcome.
    #[must_use]
    pub fn cashier(self) -> Self {
        self.tool(pay).agent(Agent::new("cashier", "type: tool\ntools: [desk/pay]\n"))
    }

    /// The maximum of a limit of each account.
    #[must_use]
    pub fn limit(mut self, name: &str, max: u64) -> Self {
        let rules = LimitRules::from([(name.parse().expect("a limit"), max)]);
        let limits = self.limits.with(LimitOwner::Account, UsageLimits::ALL, rules);
        self.limits = limits.expect("rules for all");
        self
    }
}

/// A server of agents that a protocol exposes.
#[derive(Debug)]
pub struct Desk {
    /// The agents.
    pub agents: Agents,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The runtime.
    pub runtime: Runtime,
    /// The agents as protocols ask them.
    pub platform: Arc<HostedAgents>,
    protocol: AgentProtocol,
}

impl Desk {
    /// Opens a desk whose agents are exposed by a protocol.
    pub async fn open(protocol: AgentProtocol, parts: DeskParts) -> Self {
        let DeskParts { store, model, egress, tools, agents: own, limits } = parts;
        let services = Services {
            model,
            open_model: Arc::new(|id| {
                Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
            }),
            tools,
            policy: Policy::new().allow("desk/*").expect("a pattern"),
            store: Arc::clone(&store),
            sandbox: None,
            egress: Arc::clone(&egress),
            egress_of_organizations: egress,
            secrets: Arc::new(|_, _| Err("there are none".to_owned())),
        };
        let folders: Vec<_> = own.iter().map(Agent::read).collect();
        let exposed: Vec<_> = own
            .iter()
            .zip(&folders)
            .filter(|(agent, _)| agent.is_exposed)
            .map(|(agent, folder)| (folder.definition.organization.clone(), agent.slug))
            .collect();
        let agents = Agents::new(folders.into(), services);
        let runtime = Runtime::builder(Arc::clone(&store)).graph_source(Arc::new(agents.clone()));
        let runtime = runtime.limits(limits).open().await.expect("opens");
        let platform = Arc::new(HostedAgents::new(runtime.clone(), agents.clone()));
        let desk = Self { agents, store, runtime, platform, protocol };
        for (organization, slug) in exposed {
            desk.expose(organization.as_deref(), slug, true).await;
        }
        desk
    }

    /// The server without its protocol, and without clients.
    pub fn server(&self) -> Server {
        Server::new(self.runtime.clone()).platform(self.platform.clone())
    }

    /// The routes of a server for the clients.
    pub fn router(server: Server) -> Router {
        let of =
            |org: &str, subject: &str| Principal::new(OrgId::new(org).expect("valid"), subject);
        let tokens = [
            (ADA, of("one", "ada")),
            (EVE, of("one", "eve")),
            (BOB, of("two", "bob")),
            (READER, of("one", "ada").with_rights(Rights::of(&[Right::Read]))),
            (RUNNER, of("one", "ada").with_rights(Rights::of(&[Right::Read, Right::Run]))),
        ];
        let server = tokens
            .into_iter()
            .fold(server, |server, (token, who)| server.token(token, who).expect("valid"));
        server.router().expect("has tokens")
    }

    /// Exposes an agent, or no longer.
    pub async fn expose(&self, organization: Option<&str>, slug: &str, is_on: bool) {
        let protocols = [self.protocol].into();
        let change = match is_on {
            true => ExposureChange { on: protocols, ..ExposureChange::default() },
            false => ExposureChange { off: protocols, ..ExposureChange::default() },
        };
        let new = NewExposure {
            organization: organization.map(str::to_owned),
            slug: slug.to_owned(),
            change,
            by: RowWriter::Operator,
        };
        self.agents.expose(&*self.store, new, Timestamp(1)).await.expect("exposed");
    }
}

/// An error of a model that no further attempt repairs.
#[must_use]
pub fn malformed() -> ModelError {
    ModelError::Malformed { provider: "p".to_owned(), reason: "no".to_owned(), retriable: false }
}

/// The text of the last message of the user.
#[must_use]
pub fn last_text(request: &ChatRequest) -> String {
    let last = request.messages.iter().rev().find(|message| message.role == Role::User);
    last.map(Message::joined_text).unwrap_or_default()
}
