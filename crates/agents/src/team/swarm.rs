//! A swarm: members that hand the conversation to one another.

use super::hand_off::HandOffs;
use super::member::{Member, check_names};
use crate::agent::{Agent, AgentKind, Compile};
use crate::error::AgentError;
use crate::react::ReactAgent;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::{
    Command, CompiledGraph, Conversation, Ctx, END, IntoGraph, InvalidGraph, List, Next,
    NodeResult, START, State, SubgraphState,
};
use weftwork_tools::FnTool;
use weftwork_types::BoxFuture;
use weftwork_types::message::Message;

/// The channel with the name of the active member, in the state of a swarm and in the output of
/// members that are graphs of your own.
const ACTIVE: &str = "active_agent";

/// The state of a swarm.
#[derive(Debug, State)]
pub struct SwarmState {
    /// The conversation, oldest first.
    #[channel(messages)]
    pub messages: List<Message>,
    /// Name of the member that has the conversation, also in the next run of the thread.
    pub active_agent: String,
}

/// A builder of a swarm. Its options are those of [`Agent`].
///
/// A member has a hand-off tool `transfer_to_NAME` for each member that it may hand off to. After a
/// hand-off it ends, and the other member continues the same conversation, without the hand-offs. An
/// answer of a member ends the run. The channel `active_agent` has the name of the member that has
/// the conversation; the next run of the thread begins with it.
///
/// A member is a [`ReactAgent`], or a compiled graph with a channel `messages`, which hands off by
/// an output channel `active_agent`. Members have the names of their agents or graphs. Each run of a
/// member begins with a new state beside the conversation.
///
/// Source: the behaviour of `langgraph-swarm` (hand-off tools, active agent of a thread, default).
pub type Swarm = Agent<kind::Swarm>;

/// Kinds of agents.
pub(crate) mod kind {
    use super::{BTreeMap, SwarmMember};

    /// The kind of [`Swarm`](crate::Swarm).
    #[derive(Debug)]
    pub struct Swarm {
        pub(super) members: Vec<SwarmMember>,
        pub(super) examples: Vec<(String, String)>,
        /// Members that a member may hand off to; all others if it is not in the map.
        pub(super) targets: BTreeMap<String, Vec<String>>,
        pub(super) default: Option<String>,
    }
}

impl AgentKind for kind::Swarm {}

/// A member as it was given, with its description.
#[derive(Debug)]
pub(crate) struct SwarmMember {
    about: String,
    source: MemberSource,
}

/// The graph of a member, or the agent that gets hand-off tools before its graph is compiled.
#[derive(Debug)]
enum MemberSource {
    Agent(Box<dyn HandingAgent>),
    Graph { name: String, graph: Result<CompiledGraph, InvalidGraph> },
}

/// An agent with any state that can get hand-off tools.
trait HandingAgent: std::fmt::Debug + Send + Sync {
    fn name(&self) -> &str;

    fn compile_with(
        self: Box<Self>,
        hand_offs: HandOffs,
        tools: Vec<FnTool>,
    ) -> Result<CompiledGraph, AgentError>;
}

impl<S: Conversation> HandingAgent for ReactAgent<S> {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn compile_with(
        mut self: Box<Self>,
        hand_offs: HandOffs,
        tools: Vec<FnTool>,
    ) -> Result<CompiledGraph, AgentError> {
        self.kind.hand_offs = hand_offs;
        for tool in tools {
            self.options.tools = self.options.tools.with(tool);
        }
        self.build()
    }
}

impl SwarmMember {
    fn name(&self) -> &str {
        match &self.source {
            MemberSource::Agent(agent) => agent.name(),
            MemberSource::Graph { name, .. } => name,
        }
    }
}

impl Swarm {
    /// Creates a swarm without members.
    pub fn new(name: impl Into<String>) -> Self {
        let kind = kind::Swarm {
            members: Vec::new(),
            examples: Vec::new(),
            targets: BTreeMap::new(),
            default: None,
        };
        Self::of_kind(name, kind)
    }

    /// Adds a member, with a description of its work for the models of the others.
    pub fn member<S: Conversation>(
        mut self,
        agent: ReactAgent<S>,
        about: impl Into<String>,
    ) -> Self {
        let source = MemberSource::Agent(Box::new(agent));
        self.kind.members.push(SwarmMember { about: about.into(), source });
        self
    }

    /// Adds a graph of your own as a member, with a description for the models of the others.
    pub fn graph(mut self, graph: impl IntoGraph, about: impl Into<String>) -> Self {
        let graph = graph.into_graph();
        let name = graph.as_ref().map(|graph| graph.name().to_owned()).unwrap_or_default();
        let source = MemberSource::Graph { name, graph };
        self.kind.members.push(SwarmMember { about: about.into(), source });
        self
    }

    /// Adds an example of a request that is handed to a member, for the models of the others.
    pub fn example(mut self, member: impl Into<String>, request: impl Into<String>) -> Self {
        self.kind.examples.push((member.into(), request.into()));
        self
    }

    /// Sets the members that a member may hand off to; by default all others.
    pub fn hand_offs<T: Into<String>>(
        mut self,
        member: impl Into<String>,
        targets: impl IntoIterator<Item = T>,
    ) -> Self {
        self.kind.targets.insert(member.into(), targets.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the member that begins a thread; by default the first.
    pub fn default_member(mut self, name: impl Into<String>) -> Self {
        self.kind.default = Some(name.into());
        self
    }
}

impl Compile for kind::Swarm {
    fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError> {
        let Agent { options, kind } = agent;
        check_graphs(&kind.members)?;
        check_names(&options.name, kind.members.iter().map(SwarmMember::name), &[])?;
        let known: Vec<String> = kind.members.iter().map(|one| one.name().to_owned()).collect();
        check_references(&options.name, &kind, &known)?;
        let default = kind.default.or_else(|| known.first().cloned()).unwrap_or_default();
        let abouts: Vec<String> = kind.members.iter().map(|one| one.about.clone()).collect();
        let mut all = HandOffs::default();
        known.iter().zip(&abouts).for_each(|(name, about)| drop(all.add(name, about)));
        let all = Arc::new(all);

        let members = known.clone();
        let mut graph = options.graph::<SwarmState>().route_to(
            START,
            known.clone(),
            move |state: State<SwarmState>| {
                let active = state.active_agent().filter(|active| members.contains(active));
                Next::node(active.unwrap_or(&default))
            },
        );
        for member in kind.members {
            let name = member.name().to_owned();
            let others = || known.iter().filter(|other| **other != name).cloned();
            let targets = kind.targets.get(&name).cloned().unwrap_or_else(|| others().collect());
            let inner = match member.source {
                MemberSource::Graph { graph, .. } => graph?,
                MemberSource::Agent(agent) => {
                    let mut hand_offs = HandOffs::default();
                    let mut tools = Vec::new();
                    for target in &targets {
                        let about = known.iter().position(|name| name == target);
                        let about = about.and_then(|at| abouts.get(at)).map_or("", String::as_str);
                        let mut tool = hand_offs.add(target, about);
                        for (_, request) in kind.examples.iter().filter(|(of, _)| of == target) {
                            tool = tool.example(request, serde_json::json!({}));
                        }
                        tools.push(tool);
                    }
                    agent.compile_with(hand_offs, tools)?
                }
            };
            let member = Member::new(inner.clone(), "a member of a swarm")?;
            let ends = targets.iter().map(String::as_str).chain([END]);
            graph = graph
                .on_left_open(name.as_str(), close_work(member.clone(), Arc::clone(&all)))
                .node(name.as_str(), run_member(member, Arc::clone(&all), targets.clone()))
                .calls(name.as_str(), inner, SubgraphState::PerTask)
                .ends(name.as_str(), ends);
        }
        Ok(graph.build()?)
    }
}

/// Refuses graphs of members that are not valid: their names are not known.
fn check_graphs(members: &[SwarmMember]) -> Result<(), AgentError> {
    let graphs = members.iter().filter_map(|member| match &member.source {
        MemberSource::Graph { graph, .. } => graph.as_ref().err().cloned(),
        MemberSource::Agent(_) => None,
    });
    InvalidGraph::join(graphs.collect()).map_or(Ok(()), |error| Err(error.into()))
}

/// Checks the names by which options refer to members.
fn check_references(team: &str, kind: &kind::Swarm, known: &[String]) -> Result<(), AgentError> {
    if let Some((from, _)) = kind.targets.iter().find(|(from, to)| to.contains(from)) {
        let others = known.iter().filter(|name| *name != from);
        return Err(AgentError::UnknownMember {
            team: team.to_owned(),
            what: "a hand-off to the member itself",
            found: from.clone(),
            known: others.cloned().collect(),
        });
    }
    let first = known.is_empty().then(|| ("the first member", String::new()));
    let default = kind.default.iter().map(|name| ("the default member", name.clone()));
    let from = kind.targets.keys().map(|name| ("a member with hand-offs", name.clone()));
    let to = kind.targets.values().flatten().map(|name| ("a hand-off", name.clone()));
    let examples = kind.examples.iter().map(|(name, _)| ("an example", name.clone()));
    let mut named = first.into_iter().chain(default).chain(from).chain(to).chain(examples);
    match named.find(|(_, name)| !known.contains(name)) {
        None => Ok(()),
        Some((what, found)) => Err(AgentError::UnknownMember {
            team: team.to_owned(),
            what,
            found,
            known: known.to_vec(),
        }),
    }
}

/// The node of a member: it runs the member's graph on the conversation, and goes on with the member
/// that the conversation was handed to.
fn run_member(
    member: Member,
    all: Arc<HandOffs>,
    targets: Vec<String>,
) -> impl Fn(State<SwarmState>, Ctx) -> BoxFuture<'static, NodeResult<Command<SwarmState>>>
+ Send
+ Sync
+ 'static {
    let parts = Arc::new((member, all, targets));
    move |state, ctx| {
        let parts = Arc::clone(&parts);
        Box::pin(async move {
            let (member, all, targets) = &*parts;
            let conversation = all.without(state.messages().iter());
            let work = member.work(&ctx, &conversation).await?;
            let written = work.output.get(ACTIVE).and_then(serde_json::Value::as_str);
            let next = written.or_else(|| all.taken_in(work.messages.iter())).map(str::to_owned);
            let next = next.filter(|next| next != member.name() && targets.contains(next));
            let active = next.clone().unwrap_or_else(|| member.name().to_owned());
            let update = SwarmStateUpdate::new().messages(work.messages).active_agent(active);
            let command = Command::update(update);
            Ok(match next {
                Some(next) => command.goto(next),
                None => command,
            })
        })
    }
}

/// Closes the work of a member that is left open, which stays the active one.
fn close_work(
    member: Member,
    all: Arc<HandOffs>,
) -> impl Fn(State<SwarmState>, Ctx) -> BoxFuture<'static, NodeResult<SwarmStateUpdate>>
+ Send
+ Sync
+ 'static {
    let member = Arc::new(member);
    move |state, ctx| {
        let member = Arc::clone(&member);
        let all = Arc::clone(&all);
        Box::pin(async move {
            let conversation = all.without(state.messages().iter());
            let work = member.work(&ctx, &conversation).await?;
            let active = member.name().to_owned();
            Ok(SwarmStateUpdate::new().messages(work.messages).active_agent(active))
        })
    }
}
