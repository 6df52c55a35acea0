//! A swarm: members that hand the conversation to one another.

use super::hand_off::HandOffs;
use super::member::{Member, check_names};
use crate::error::AgentError;
use crate::react::ReactAgent;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::{
    Command, CompiledGraph, Ctx, END, Graph, List, Next, NodeResult, START, State, SubgraphState,
};
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

/// A builder of a swarm.
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
#[derive(Debug)]
#[must_use]
pub struct Swarm {
    name: String,
    version: String,
    members: Vec<Kind>,
    examples: Vec<(String, String)>,
    /// Members that a member may hand off to; all others if it is not in the map.
    targets: BTreeMap<String, Vec<String>>,
    default: Option<String>,
    step_limit: u32,
}

/// A member as it was given, with its description.
#[derive(Debug)]
enum Kind {
    Agent(Box<ReactAgent>, String),
    Graph(CompiledGraph, String),
}

impl Kind {
    fn name(&self) -> &str {
        match self {
            Self::Agent(agent, _) => &agent.name,
            Self::Graph(graph, _) => graph.name(),
        }
    }

    fn about(&self) -> &str {
        let (Self::Agent(_, about) | Self::Graph(_, about)) = self;
        about
    }
}

impl Swarm {
    /// Creates a swarm without members.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: "0".to_owned(),
            members: Vec::new(),
            examples: Vec::new(),
            targets: BTreeMap::new(),
            default: None,
            step_limit: 100,
        }
    }

    /// Adds a member, with a description of its work for the models of the others.
    pub fn member(mut self, agent: ReactAgent, about: impl Into<String>) -> Self {
        self.members.push(Kind::Agent(Box::new(agent), about.into()));
        self
    }

    /// Adds a graph of your own as a member, with a description for the models of the others.
    pub fn graph(mut self, graph: CompiledGraph, about: impl Into<String>) -> Self {
        self.members.push(Kind::Graph(graph, about.into()));
        self
    }

    /// Adds an example of a request that is handed to a member, for the models of the others.
    pub fn example(mut self, member: impl Into<String>, request: impl Into<String>) -> Self {
        self.examples.push((member.into(), request.into()));
        self
    }

    /// Sets the members that a member may hand off to; by default all others.
    pub fn hand_offs<T: Into<String>>(
        mut self,
        member: impl Into<String>,
        targets: impl IntoIterator<Item = T>,
    ) -> Self {
        self.targets.insert(member.into(), targets.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the member that begins a thread; by default the first.
    pub fn default_member(mut self, name: impl Into<String>) -> Self {
        self.default = Some(name.into());
        self
    }

    /// Sets the version that usage facts record.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the maximum number of members that work one after the other in a run; the default is
    /// 100. It ends hand-offs in a circle.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.step_limit = steps;
        self
    }

    /// Validates the swarm and compiles its graph.
    ///
    /// # Errors
    /// [`AgentError`] if a member has no conversation or an unusable name, a name is that of no
    /// member, or with all problems of a member or the graph.
    pub fn build(self) -> Result<CompiledGraph, AgentError> {
        check_names(&self.name, self.members.iter().map(Kind::name), &[])?;
        let known: Vec<String> = self.members.iter().map(|kind| kind.name().to_owned()).collect();
        self.check_references(&known)?;
        let default = self.default.or_else(|| known.first().cloned()).unwrap_or_default();
        let abouts: Vec<String> = self.members.iter().map(|kind| kind.about().to_owned()).collect();
        let mut all = HandOffs::default();
        known.iter().zip(&abouts).for_each(|(name, about)| drop(all.add(name, about)));
        let all = Arc::new(all);

        let start = (known.clone(), default);
        let mut graph = Graph::<SwarmState>::new(self.name)
            .version(self.version)
            .route_to(START, known.clone(), move |state: State<SwarmState>| {
                let active = state.active_agent().filter(|active| start.0.contains(active));
                Next::node(active.unwrap_or(&start.1))
            })
            .step_limit(self.step_limit);
        for kind in self.members {
            let name = kind.name().to_owned();
            let others = || known.iter().filter(|other| **other != name).cloned();
            let targets = self.targets.get(&name).cloned().unwrap_or_else(|| others().collect());
            let inner = match kind {
                Kind::Graph(graph, _) => graph,
                Kind::Agent(mut agent, _) => {
                    for target in &targets {
                        let about = known.iter().position(|name| name == target);
                        let about = about.and_then(|at| abouts.get(at)).map_or("", String::as_str);
                        let mut tool = agent.hand_offs.add(target, about);
                        for (_, request) in self.examples.iter().filter(|(of, _)| of == target) {
                            tool = tool.example(request, serde_json::json!({}));
                        }
                        agent.tools = agent.tools.with(tool);
                    }
                    agent.build()?
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

    fn check_references(&self, known: &[String]) -> Result<(), AgentError> {
        if let Some((from, _)) = self.targets.iter().find(|(from, to)| to.contains(from)) {
            let others = known.iter().filter(|name| *name != from);
            return Err(AgentError::UnknownMember {
                team: self.name.clone(),
                what: "a hand-off to the member itself",
                found: from.clone(),
                known: others.cloned().collect(),
            });
        }
        let first = known.is_empty().then(|| ("the first member", String::new()));
        let default = self.default.iter().map(|name| ("the default member", name.clone()));
        let from = self.targets.keys().map(|name| ("a member with hand-offs", name.clone()));
        let to = self.targets.values().flatten().map(|name| ("a hand-off", name.clone()));
        let examples = self.examples.iter().map(|(name, _)| ("an example", name.clone()));
        let mut named = first.into_iter().chain(default).chain(from).chain(to).chain(examples);
        match named.find(|(_, name)| !known.contains(name)) {
            None => Ok(()),
            Some((what, found)) => Err(AgentError::UnknownMember {
                team: self.name.clone(),
                what,
                found,
                known: known.to_vec(),
            }),
        }
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
