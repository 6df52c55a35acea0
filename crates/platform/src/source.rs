//! The agents of a program: their definitions by organisation and slug, with all versions.

use crate::agent::Agent;
use crate::api::{ApiServices, ApiTool, Credentials, Secrets, usual_policy};
use crate::context::Template;
use crate::definition::{AgentType, Definition, DefinitionFolder, Definitions, Outline, Problem};
use crate::exposure::Exposures;
use crate::external::{Breakers, Peer, PeerServices};
use crate::mode::RequestError;
use crate::records::{CONTENT_BYTES_MAX, ContentFormat, Form, RecordError, RecordKind};
use crate::rows::Seen;
use crate::runner;
use crate::skills::Skill;
use crate::versions::{Chosen, Origin, StoredVersion};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use url::Url;
use weftwork_graph::{CompiledGraph, InvalidGraph, RuntimeError};
use weftwork_models::{ChatModel, ModelError, with_fallbacks};
use weftwork_runtime::{GraphSource, ListedGraph, SourcedGraph, unversioned};
use weftwork_sandbox::Sandbox;
use weftwork_schema::Checker;
use weftwork_store::{Sequence, Store, StoreError};
use weftwork_tools::{Policy, Tool, ToolBox, ToolBoxErrors, ToolRunner};
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::exposure::AgentProtocol;
use weftwork_types::peer::{PeerCounts, PeerState};
use weftwork_types::port::{AgentSummary, Clock, Egress};
use weftwork_types::{Principal, Timestamp};

/// Bytes of a deliverable that are left for what stands around the result of a tool.
const RESULT_BYTES_LEFT: usize = 64 << 10;
/// Beginning of the ids of the graphs of defined agents.
pub const AGENTS: &str = "agents:";

/// Function that opens a model by its id, `provider:model`.
type OpenModel = dyn Fn(&str) -> Result<Arc<dyn ChatModel>, ModelError> + Send + Sync;

/// Services through which defined agents reach the outside.
#[derive(Clone)]
pub struct Services {
    /// Model of definitions that name none.
    pub model: Arc<dyn ChatModel>,
    /// Function that opens a model by its id, `provider:model`.
    pub open_model: Arc<OpenModel>,
    /// Tools of the operator.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Rules for the tools.
    pub policy: Policy,
    /// Store of the records.
    pub store: Arc<dyn Store>,
    /// Where the code of function agents is executed.
    pub sandbox: Option<Sandbox>,
    /// Way of the requests of API agents that are for all organisations.
    pub egress: Arc<dyn Egress>,
    /// Way of the requests of API agents of organisations, which reach no address that the operator
    /// allows to itself.
    pub egress_of_organizations: Arc<dyn Egress>,
    /// Function that returns the secret of a name, for a definition of an organisation or of all; the
    /// error is the reason why there is none.
    pub secrets: Arc<Secrets>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("model", &self.model).finish_non_exhaustive()
    }
}

/// The agents of a program that are defined in files. Clones share them.
///
/// An agent has one graph for each of its versions, with the id `agents:SLUG@HASH`. It is compiled when
/// it is first asked for.
#[derive(Debug, Clone)]
pub struct Agents(Arc<Inner>);

/// The agents of a program as one of their graphs has them, which does not hold them.
#[derive(Debug)]
pub(crate) struct WeakAgents(Weak<Inner>);

impl WeakAgents {
    /// Returns the agents, as long as the program has them.
    pub(crate) fn upgrade(&self) -> Option<Agents> {
        self.0.upgrade().map(Agents)
    }

    /// Returns the graph of an agent for a principal, by its id with or without a version.
    ///
    /// # Errors
    /// W1012 if there is none, or the reason why it cannot be compiled.
    pub(crate) fn find(&self, who: &Principal, id: &str) -> Result<SourcedGraph, RuntimeError> {
        let found = self.upgrade().map(|agents| agents.resolve(who, id)).transpose()?.flatten();
        let agent = || id.strip_prefix(AGENTS).unwrap_or(id).to_owned();
        let unknown = || RequestError::Agent { agent: agent(), nearest: None };
        found.ok_or_else(|| RuntimeError::Node(unknown().fault()))
    }
}

#[derive(Debug)]
struct Inner {
    services: Services,
    versions: RwLock<Versions>,
    compiled: Mutex<BTreeMap<String, CompiledGraph>>,
    seen: Mutex<Option<Seen>>,
    /// Held while rows and versions are read, so that an earlier read does not replace a later one.
    reading: tokio::sync::Mutex<()>,
    /// Records that cannot be read, each of which is warned of once.
    unreadable: Mutex<BTreeSet<String>>,
    breakers: Breakers,
}

/// An organisation, `None` for all, and a slug.
pub(crate) type Name = (Option<String>, String);

/// The definitions of a program.
#[derive(Debug, Default)]
struct Versions {
    current: BTreeMap<Name, Arc<DefinitionFolder>>,
    /// Definitions of the files.
    of_files: BTreeMap<Name, Arc<DefinitionFolder>>,
    /// Definitions of the rows of the store.
    of_rows: BTreeMap<Name, Arc<DefinitionFolder>>,
    /// Folders whose files have problems, with the names of their agents where those are known.
    broken: BTreeMap<String, Option<Name>>,
    /// Newest versions of the store that are or were those of files.
    newest: BTreeMap<Name, (Timestamp, Arc<DefinitionFolder>)>,
    /// Versions that operators made current.
    chosen: BTreeMap<Name, Chosen>,
    exposures: Exposures,
    /// All versions by their ids, with their organisations.
    all: BTreeMap<String, BTreeMap<Option<String>, Arc<DefinitionFolder>>>,
}

impl Versions {
    /// The definition that a principal gets for a slug: that of its organisation, or that for all.
    fn current(&self, who: &Principal, slug: &str) -> Option<&Arc<DefinitionFolder>> {
        let own = Some(who.org.to_string());
        let own = self.current.get(&(own, slug.to_owned()));
        own.or_else(|| self.current.get(&(None, slug.to_owned())))
    }

    /// The definition of a version, if it is one of the organisation of the principal or of all.
    fn version(&self, who: &Principal, id: &str) -> Option<&Arc<DefinitionFolder>> {
        let of = self.all.get(id)?;
        of.get(&Some(who.org.to_string())).or_else(|| of.get(&None))
    }

    /// Adds the definition of a file.
    fn add_file(&mut self, folder: DefinitionFolder) {
        let folder = Arc::new(folder);
        self.add_version(Arc::clone(&folder));
        // A stored version of the same content does not know the folder.
        self.of_files.insert(name_of(&folder), folder);
    }

    fn add_version(&mut self, folder: Arc<DefinitionFolder>) -> Arc<DefinitionFolder> {
        let of = self.all.entry(id_of(&folder)).or_default();
        let org = folder.definition.organization.clone();
        Arc::clone(of.entry(org).or_insert(folder))
    }

    /// The versions of an agent.
    fn versions_of(&self, name: &Name) -> impl Iterator<Item = &Arc<DefinitionFolder>> {
        let (org, slug) = name;
        self.all.values().filter_map(move |of| of.get(org)).filter(move |of| of.slug == *slug)
    }

    /// Returns `true` if the file of an agent has problems. One that cannot be read as YAML is that of
    /// the slug of its folder.
    fn is_broken(&self, name: &Name) -> bool {
        self.broken.iter().any(|(folder, known)| match known {
            Some(known) => known == name,
            None => *folder == name.1,
        })
    }

    /// The definition of the row or the file of an agent; the newest version that a file had, if the
    /// file has problems. All processes have the row, so that it counts if there is a file, too.
    fn defined(&self, name: &Name) -> Option<&Arc<DefinitionFolder>> {
        let stands_in = || self.newest.get(name).filter(|_| self.is_broken(name));
        let written = self.of_rows.get(name).or_else(|| self.of_files.get(name));
        written.or_else(|| stands_in().map(|(_, folder)| folder))
    }

    /// Computes the current versions: those of the rows and files, and those that operators chose in
    /// place of them.
    fn settle(&mut self) {
        let names = self.of_rows.keys().chain(self.of_files.keys()).chain(self.newest.keys());
        let found = names.filter_map(|name| Some((name.clone(), Arc::clone(self.defined(name)?))));
        let mut current: BTreeMap<_, _> = found.collect();
        for (name, chosen) in &self.chosen {
            let defined = current.get(name).map(|folder| folder.hash);
            if defined != chosen.in_place_of {
                continue;
            }
            let found = self.versions_of(name).find(|folder| folder.hash == chosen.hash);
            if let Some(folder) = found.cloned() {
                current.insert(name.clone(), folder);
            }
        }
        self.current = current;
    }
}

/// Form of the plans or deliverables of a definition: Markdown, and JSON for the results of agents
/// that are no context agents, unless the definition has another one.
fn form_of(definition: Option<&Definition>, kind: RecordKind) -> Result<Form, RecordError> {
    let usual = |format| Ok(Form::of_format(format));
    let Some(definition) = definition else { return usual(ContentFormat::Markdown) };
    match kind {
        RecordKind::Plan => match &definition.plan {
            Some(plan) => Form::of_plan(plan),
            None => usual(ContentFormat::Markdown),
        },
        RecordKind::Deliverable => match (&definition.deliverable, definition.agent_type) {
            (Some(deliverable), _) => Form::of_deliverable(deliverable),
            (None, AgentType::Context) => usual(ContentFormat::Markdown),
            (None, _) => usual(ContentFormat::Json),
        },
    }
}

/// Names the row of a definition, in messages.
pub(crate) fn describe_row(folder: &DefinitionFolder) -> String {
    match &folder.definition.organization {
        Some(org) => format!("the row `{}` of organisation {org} in the store", folder.slug),
        None => format!("the row `{}` of the store", folder.slug),
    }
}

pub(crate) fn name_of(folder: &DefinitionFolder) -> Name {
    (folder.definition.organization.clone(), folder.slug.clone())
}

/// Id of the graph of a definition.
fn id_of(folder: &DefinitionFolder) -> String {
    format!("{AGENTS}{}@{}", folder.slug, folder.version())
}

/// An agent cannot be compiled here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentProblem {
    /// The request or the definition needs what this version does not have.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The model cannot be opened.
    #[error("agent {agent}: {source}")]
    Model {
        /// Slug of the agent.
        agent: String,
        /// Reason.
        source: Box<ModelError>,
    },
    /// The tools or their rules are wrong.
    #[error("agent {agent}: {source}")]
    Tools {
        /// Slug of the agent.
        agent: String,
        /// Reason.
        source: ToolBoxErrors,
    },
    /// The OpenAPI file is wrong.
    #[error("agent {agent}: {}", problems.first().map(ToString::to_string).unwrap_or_default())]
    Operations {
        /// Slug of the agent.
        agent: String,
        /// All problems.
        problems: Vec<Problem>,
    },
    /// The form of plans or deliverables is wrong.
    #[error("agent {agent}: {source}")]
    Form {
        /// Slug of the agent.
        agent: String,
        /// Reason.
        source: Box<RecordError>,
    },
    /// The graph is wrong.
    #[error(transparent)]
    Graph(#[from] InvalidGraph),
}

impl AgentProblem {
    /// Converts the problem to the form in which it is shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Request(error) => error.fault(),
            Self::Form { source, .. } => Fault::new(source.code(), self.to_string()),
            Self::Model { source, .. } => Fault::new(source.code(), self.to_string()),
            Self::Operations { .. } | Self::Tools { .. } | Self::Graph(_) => {
                Fault::new(weftwork_types::ErrorCode("W1035"), self.to_string())
            }
        }
    }
}

impl Agents {
    /// Creates the agents of a folder that was read. For a file that has problems, the newest version
    /// of the store stands in, once [`keep_versions`](Self::keep_versions) has read it.
    #[must_use]
    pub fn new(read: Definitions, services: Services) -> Self {
        let agents = Self(Arc::new(Inner {
            services,
            versions: RwLock::default(),
            compiled: Mutex::default(),
            seen: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            unreadable: Mutex::default(),
            breakers: Breakers::default(),
        }));
        agents.reload(read);
        agents
    }

    /// Takes the definitions of a folder that was read again. Earlier versions stay, for the threads
    /// that began with them. An agent whose file has problems now stays as it was; one that is no longer
    /// defined accepts no new threads.
    pub fn reload(&self, read: Definitions) {
        let broken = read.broken_names();
        let mut next = read.sound;
        let mut versions = self.0.versions.write().unwrap_or_else(PoisonError::into_inner);
        for folder in versions.of_files.values() {
            let name = folder.path.file_name().unwrap_or_default().to_string_lossy();
            if broken.contains_key(&*name) && !next.iter().any(|new| new.path == folder.path) {
                next.push(DefinitionFolder::clone(folder));
            }
        }
        versions.of_files.clear();
        next.into_iter().for_each(|folder| versions.add_file(folder));
        versions.broken = broken;
        versions.settle();
    }

    /// Returns the changes of the store that were taken over; `None` before the first read.
    pub(crate) fn seen_changes(&self) -> &Mutex<Option<Seen>> {
        &self.0.seen
    }

    /// Returns the lock of reads of rows and versions.
    pub(crate) fn reading(&self) -> &tokio::sync::Mutex<()> {
        &self.0.reading
    }

    /// Warns of a record of the store that cannot be read, once.
    pub(crate) fn warn_unreadable(&self, sequence: &Sequence, error: &StoreError) {
        let mut warned = self.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let Sequence { kind, key } = sequence;
        if warned.insert(format!("{kind}/{key}")) {
            tracing::warn!(%error, kind, key, "a record of an agent cannot be read");
        }
    }

    /// Returns all versions.
    pub(crate) fn versions(&self) -> Vec<Arc<DefinitionFolder>> {
        self.read(|versions| versions.all.values().flat_map(BTreeMap::values).cloned().collect())
    }

    /// Adds versions of the store.
    pub(crate) fn add_stored(&self, stored: Vec<StoredVersion>) {
        let mut versions = self.0.versions.write().unwrap_or_else(PoisonError::into_inner);
        for stored in stored {
            let at = stored.at();
            let origin = stored.origin();
            let folder = versions.add_version(Arc::new(stored.into_folder()));
            if origin != Origin::File {
                continue;
            }
            let newest = versions.newest.entry(name_of(&folder));
            let newest = newest.or_insert_with(|| (at, Arc::clone(&folder)));
            if newest.0 < at {
                *newest = (at, folder);
            }
        }
        versions.settle();
    }

    /// Returns the versions of an agent with this beginning of the hash, or this semver. There are
    /// several if a definition was changed without a new semver.
    #[must_use]
    pub fn find_versions(
        &self,
        org: Option<&str>,
        slug: &str,
        version: &str,
    ) -> Vec<Arc<DefinitionFolder>> {
        let name = (org.map(str::to_owned), slug.to_owned());
        let is_it = |folder: &&Arc<DefinitionFolder>| {
            let semver = folder.definition.version.as_deref();
            semver == Some(version) || version.len() >= 4 && folder.version().starts_with(version)
        };
        self.read(|versions| versions.versions_of(&name).filter(is_it).cloned().collect())
    }

    /// Returns the definition that the row or the file of an agent has.
    pub(crate) fn defined(&self, org: Option<&str>, slug: &str) -> Option<Arc<DefinitionFolder>> {
        let name = (org.map(str::to_owned), slug.to_owned());
        self.read(|versions| versions.defined(&name).cloned())
    }

    /// Returns the definition that the file of an agent has, without problems.
    pub(crate) fn of_file(&self, org: Option<&str>, slug: &str) -> Option<Arc<DefinitionFolder>> {
        let name = (org.map(str::to_owned), slug.to_owned());
        self.read(|versions| versions.of_files.get(&name).cloned())
    }

    /// Returns the version of a hash, of exactly this organisation.
    pub(crate) fn version_of(
        &self,
        org: Option<&str>,
        slug: &str,
        hash: Hash,
    ) -> Option<Arc<DefinitionFolder>> {
        let name = (org.map(str::to_owned), slug.to_owned());
        self.read(|versions| versions.versions_of(&name).find(|of| of.hash == hash).cloned())
    }

    /// Returns the current definitions of all organisations.
    pub(crate) fn all_current(&self) -> Vec<Arc<DefinitionFolder>> {
        self.read(|versions| versions.current.values().cloned().collect())
    }

    /// Returns a problem for each file whose organisation and slug a row has, too. The row counts.
    #[must_use]
    pub fn conflicts(&self) -> Vec<Problem> {
        self.read(|versions| {
            let both =
                versions.of_files.iter().filter(|(name, _)| versions.of_rows.contains_key(name));
            both.map(|(_, folder)| folder.taken(describe_row(folder))).collect()
        })
    }

    /// Returns `true` if the agent is a row of the store.
    #[must_use]
    pub fn is_row(&self, org: Option<&str>, slug: &str) -> bool {
        let name = (org.map(str::to_owned), slug.to_owned());
        self.read(|versions| versions.of_rows.contains_key(&name))
    }

    /// Replaces the rows, the choices of operators, and the exposures.
    pub(crate) fn set_rows(
        &self,
        rows: Vec<Arc<DefinitionFolder>>,
        chosen: &[Chosen],
        exposures: Exposures,
    ) {
        let mut versions = self.0.versions.write().unwrap_or_else(PoisonError::into_inner);
        let by_name = |one: &Chosen| ((one.organization.clone(), one.slug.clone()), one.clone());
        versions.chosen = chosen.iter().map(by_name).collect();
        versions.exposures = exposures;
        versions.of_rows = rows.into_iter().map(|folder| (name_of(&folder), folder)).collect();
        versions.settle();
    }

    pub(crate) fn exposure_of(&self, name: &Name) -> BTreeSet<AgentProtocol> {
        self.read(|versions| versions.exposures.get(name).cloned()).unwrap_or_default()
    }

    /// Returns the current definition of exactly this organisation.
    pub(crate) fn current_of(
        &self,
        org: Option<&str>,
        slug: &str,
    ) -> Option<Arc<DefinitionFolder>> {
        let name = (org.map(str::to_owned), slug.to_owned());
        self.read(|versions| versions.current.get(&name).cloned())
    }

    /// Returns the current definition that a principal gets for a slug.
    #[must_use]
    pub fn definition(&self, who: &Principal, slug: &str) -> Option<Arc<DefinitionFolder>> {
        self.read(|versions| versions.current(who, slug).cloned())
    }

    /// Returns the organisations that have an agent of their own with a slug.
    #[must_use]
    pub fn organizations_with(&self, slug: &str) -> Vec<String> {
        self.read(|versions| {
            let named = versions.current.keys().filter(|(_, found)| found == slug);
            named.filter_map(|(organization, _)| organization.clone()).collect()
        })
    }

    /// Returns the definition of a version of a graph, if the principal has it.
    pub(crate) fn of_version(&self, who: &Principal, id: &str) -> Option<Arc<DefinitionFolder>> {
        self.read(|versions| versions.version(who, id).cloned())
    }

    /// Returns the current definitions of a principal, ordered by slug.
    #[must_use]
    pub fn definitions(&self, who: &Principal) -> Vec<Arc<DefinitionFolder>> {
        self.read(|versions| {
            let slugs: BTreeSet<&String> = versions.current.keys().map(|(_, slug)| slug).collect();
            let found = slugs.into_iter().filter_map(|slug| versions.current(who, slug));
            found.cloned().collect()
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Versions) -> T) -> T {
        read(&self.0.versions.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the graph of a definition.
    ///
    /// # Errors
    /// [`AgentProblem`] if it cannot be compiled here.
    pub fn compile(&self, folder: &DefinitionFolder) -> Result<CompiledGraph, AgentProblem> {
        let id = id_of(folder);
        let compiled = || self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        // Two definitions with one hash have one graph, whatever their organisations.
        if let Some(graph) = compiled().get(&id) {
            return Ok(graph.clone());
        }
        let graph = self.compile_new(folder)?;
        compiled().insert(id, graph.clone());
        Ok(graph)
    }

    fn compile_new(&self, folder: &DefinitionFolder) -> Result<CompiledGraph, AgentProblem> {
        let definition = &folder.definition;
        let services = &self.0.services;
        let slug = || folder.slug.clone();
        let unknown = || RequestError::AgentType { name: definition.agent_type.name().to_owned() };
        let runner = runner::find(definition.agent_type).ok_or_else(unknown)?;
        let open = |llm: &crate::definition::Llm| {
            (services.open_model)(&format!("{}:{}", llm.provider, llm.model))
                .map_err(|source| AgentProblem::Model { agent: slug(), source: Box::new(source) })
        };
        let model = match &definition.llm {
            Some(llm) => open(llm)?,
            None => Arc::clone(&services.model),
        };
        let others = definition.fallback.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let model = with_fallbacks(model, others.into_iter());
        let form = |source| AgentProblem::Form { agent: slug(), source: Box::new(source) };
        let plan = form_of(Some(definition), RecordKind::Plan).map_err(form)?;
        let deliverable = form_of(Some(definition), RecordKind::Deliverable).map_err(form)?;
        let schema = definition.input_schema.clone().map(Value::Object);
        // Reading the definition has compiled it before.
        let input = schema.and_then(|schema| Checker::compile(&schema).ok());
        let schema = definition.output_schema.clone().map(Value::Object);
        let output = schema.and_then(|schema| Checker::compile(&schema).ok());
        let context = definition.context.as_deref().map(Template::parse);
        let tools = self.tools_of(folder)?;
        let agent = Agent {
            slug: slug(),
            version: folder.version(),
            tools: definition.tool_names(&folder.slug),
            definition: definition.clone(),
            outline: definition.orchestration.as_ref().map(Outline::of).unwrap_or_default(),
            context,
            files: folder.files.clone(),
            skills: Skill::all(&definition.skills, &folder.files),
            model,
            input,
            output,
            plan,
            deliverable,
            store: Arc::clone(&services.store),
            sandbox: services.sandbox.clone(),
            peer: self.peer_of(folder).map(Arc::new),
            // Graphs are held by the agents, and not the reverse.
            others: WeakAgents(Arc::downgrade(&self.0)),
        };
        Ok(runner::compile(runner, agent, tools)?)
    }

    /// Returns the form of the plans or deliverables of an agent; without an agent, Markdown.
    pub(crate) fn form(
        &self,
        who: &Principal,
        agent: Option<&str>,
        kind: RecordKind,
    ) -> Result<Form, RecordError> {
        let folder = agent.and_then(|agent| self.definition(who, agent));
        form_of(folder.as_deref().map(|folder| &folder.definition), kind)
    }

    /// Describes the agents of a principal, ordered by slug.
    #[must_use]
    pub fn summaries(&self, who: &Principal) -> Vec<AgentSummary> {
        self.definitions(who).iter().map(|folder| self.summary(folder)).collect()
    }

    /// Describes an agent.
    pub(crate) fn summary(&self, folder: &DefinitionFolder) -> AgentSummary {
        let definition = &folder.definition;
        let card = &definition.agent_card;
        AgentSummary {
            slug: folder.slug.clone(),
            name: card.name.clone().unwrap_or_else(|| folder.slug.clone()),
            agent_type: definition.agent_type.name().to_owned(),
            description: card.description.clone().unwrap_or_default(),
            modes: definition.modes().to_vec(),
            version: folder.version(),
            semver: definition.version.clone(),
            stored: self.is_row(definition.organization.as_deref(), &folder.slug),
            organization: definition.organization.clone(),
            input_schema: definition.input_schema.clone(),
            output_schema: definition.output_schema.clone(),
            exposed: self.exposure_of(&name_of(folder)),
            peer: None,
            problem: self.compile(folder).err().map(|problem| problem.to_string()),
        }
    }

    /// Way of the requests of a definition.
    fn egress_of(&self, definition: &Definition) -> Arc<dyn Egress> {
        let services = &self.0.services;
        Arc::clone(match definition.organization {
            Some(_) => &services.egress_of_organizations,
            None => &services.egress,
        })
    }

    /// Returns the state of the circuit to the server that a definition names.
    pub(crate) fn peer_state(
        &self,
        folder: &DefinitionFolder,
        clock: &dyn Clock,
    ) -> Option<PeerState> {
        let definition = &folder.definition;
        let external = definition.transport.as_ref().and_then(|of| of.external.as_ref())?;
        let url = Url::parse(&external.endpoint).ok()?;
        let breaker = self.0.breakers.of(definition.organization.as_deref(), &url);
        Some(breaker.state(clock.elapsed()))
    }

    /// Counts the servers that agents of this process may ask, by their states.
    pub(crate) fn peers(&self, clock: &dyn Clock) -> PeerCounts {
        self.0.breakers.counts(clock.elapsed())
    }

    /// The agent of another server that a definition names.
    pub(crate) fn peer_of(&self, folder: &DefinitionFolder) -> Option<Peer> {
        let definition = &folder.definition;
        let external = definition.transport.as_ref().and_then(|of| of.external.as_ref())?;
        let organization = definition.organization.as_deref();
        let credentials = external.authentication.as_ref().map(|of| {
            let secrets = Arc::clone(&self.0.services.secrets);
            Credentials::new(&folder.slug, organization, of, secrets)
        });
        let url = Url::parse(&external.endpoint).ok()?;
        let breaker = self.0.breakers.of(organization, &url);
        let egress = self.egress_of(definition);
        Peer::new(&folder.slug, external, PeerServices { credentials, egress, breaker })
    }

    /// The tools that a definition names, with the rules for them: a person confirms those of
    /// `requires_confirmation`.
    fn tools_of(&self, folder: &DefinitionFolder) -> Result<ToolRunner, AgentProblem> {
        let definition = &folder.definition;
        let services = &self.0.services;
        let wrong = |source| AgentProblem::Tools { agent: folder.slug.clone(), source };
        let mut tools = ToolBox::new();
        for name in definition.tools.iter().flatten() {
            let found = services.tools.iter().find(|tool| tool.spec().name == *name);
            let Some(tool) = found else {
                let agent = folder.slug.clone();
                return Err(RequestError::MissingTool { agent, tool: name.clone() }.into());
            };
            tools = tools.with_shared(Arc::clone(tool));
        }
        let mut usual = Policy::new();
        let transport = definition.transport.as_ref();
        if let Some(api) = transport.and_then(|transport| transport.api.as_ref()) {
            let egress = self.egress_of(definition);
            let of_api = ApiServices { secrets: Arc::clone(&services.secrets), egress };
            let operations = folder.operations().map_err(|problems| {
                let agent = folder.slug.clone();
                AgentProblem::Operations { agent, problems }
            })?;
            let of_api = ApiTool::all(folder, api, operations, &of_api);
            usual = usual_policy(&of_api).map_err(wrong)?;
            tools = of_api.into_iter().fold(tools, ToolBox::with);
        }
        let mut confirmed = Policy::builder();
        for name in &definition.requires_confirmation {
            confirmed = confirmed.ask_human(name, "the definition of the agent requires it");
        }
        let confirmed = confirmed.build().map_err(wrong)?;
        let policy = services.policy.for_tools(&tools).then(usual).confirmed_by(confirmed);
        // A result becomes a deliverable, and is cut no earlier than that.
        let runner = ToolRunner::new(tools, policy).map_err(wrong)?;
        Ok(runner.result_bytes_max(CONTENT_BYTES_MAX - RESULT_BYTES_LEFT))
    }
}

impl GraphSource for Agents {
    fn resolve(&self, who: &Principal, id: &str) -> Result<Option<SourcedGraph>, RuntimeError> {
        let slug = id.strip_prefix(AGENTS).unwrap_or(id);
        let found = self.read(|versions| match unversioned(id) == id {
            true => versions.current(who, slug).cloned(),
            false => versions.version(who, id).cloned(),
        });
        let Some(folder) = found else { return Ok(None) };
        let graph = self.compile(&folder).map_err(|problem| RuntimeError::Node(problem.fault()))?;
        let description = folder.definition.agent_card.description.clone().unwrap_or_default();
        Ok(Some(SourcedGraph { id: id_of(&folder), graph, description }))
    }

    fn list(&self, who: &Principal) -> Vec<ListedGraph> {
        let listed = |folder: Arc<DefinitionFolder>| ListedGraph {
            id: format!("{AGENTS}{}", folder.slug),
            version: folder.version(),
            description: folder.definition.agent_card.description.clone().unwrap_or_default(),
        };
        self.definitions(who).into_iter().map(listed).collect()
    }

    fn ids(&self) -> Vec<String> {
        self.read(|versions| versions.all.keys().cloned().collect())
    }
}
