//! A supervisor: a model that hands work to members, and answers with what they report.

use super::hand_off::HandOffs;
use super::member::{Member, check_names};
use crate::agent::{Agent, AgentKind, AsksModel, CallsTools, Compile, TakesInstructions};
use crate::bound::BoundModel;
use crate::calls::{left_open, outcome_of_call, result_message};
use crate::conversation::{for_model, invalid_rounds};
use crate::error::{AgentError, cannot_repair};
use crate::evaluate::PromptScope;
use crate::react::{REPAIRS_MAX, check_new_media, system_message};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_graph::{
    Arg, Command, CompiledGraph, Ctx, Deps, END, IntoGraph, InvalidGraph, List, NodeResult, OUTPUT,
    START, SendTo, State, SubgraphState,
};
use weftwork_models::{ChatModel, IntoModel};
use weftwork_tools::{ASK_HUMAN, ToolRunner};
use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::tool::ToolOutcome;
use weftwork_types::{BoxFuture, MessageId};

const SUPERVISOR: &str = "supervisor";
const HAND_OFF: &str = "hand_off";
const TOOL: &str = "tool";
const HUMAN: &str = "human";

/// The state of a team with a supervisor.
#[derive(Debug, State)]
pub struct TeamState {
    /// The conversation, oldest first.
    #[channel(messages)]
    pub messages: List<Message>,
    /// The hand-offs of the last superstep, which are due.
    #[channel(topic)]
    pub handed: List<Handed>,
    /// The work that members reported, oldest first.
    #[channel(append)]
    pub reports: List<Report>,
}

/// A hand-off that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handed {
    /// Name of the member.
    pub member: String,
    /// The call of the hand-off tool.
    pub call: ToolCall,
}

/// The report of a member to its supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Name of the member.
    pub member: String,
    /// The call by which the supervisor handed the work over.
    pub call: ToolCall,
    /// The message of the conversation with the answer of the member.
    pub answer: MessageId,
}

/// The messages of a member that become part of the conversation of its team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputMode {
    /// The last answer of the member.
    #[default]
    LastMessage,
    /// Everything that the member added: its calls, their results, and its answers.
    FullHistory,
}

/// A builder of a team with a supervisor. Its options are those of [`Agent`].
///
/// In the graph, the node `supervisor` sends the conversation to the model, which has a hand-off tool
/// `transfer_to_NAME` for each member. A hand-off is a tool call in the node `hand_off`, to which the
/// policy applies; then the node of the member runs the member's graph on the conversation, without
/// the hand-offs. Afterwards the supervisor's model reads the answer of the member as the result of
/// its hand-off. Members whose hand-offs are in one message run side by side; a member that is named
/// twice runs once. An answer without calls ends the run.
///
/// Members are graphs with a channel `messages`: agents, other teams, graphs of your own.
/// The name of a graph is the name of the member. Each hand-off begins with a new state of the
/// member.
///
/// Source: the behaviour of `langgraph-supervisor` (prompt, output modes, hand-off messages). There,
/// control returns with two further messages; here the report is the result of the hand-off.
pub type Supervisor = Agent<kind::Supervisor>;

/// Kinds of agents.
pub(crate) mod kind {
    use super::{Arc, ChatModel, GivenMember, OutputMode};

    /// The kind of [`Supervisor`](crate::Supervisor).
    #[derive(Debug)]
    pub struct Supervisor {
        pub(super) model: Arc<dyn ChatModel>,
        pub(super) members: Vec<GivenMember>,
        pub(super) examples: Vec<(String, String)>,
        pub(super) output: OutputMode,
        pub(super) hand_off_messages: bool,
    }
}

impl AgentKind for kind::Supervisor {}
impl AsksModel for kind::Supervisor {}
impl TakesInstructions for kind::Supervisor {}
impl CallsTools for kind::Supervisor {}

/// The data that the nodes share.
#[derive(Debug)]
struct SupervisorParts {
    instructions: Option<Message>,
    bound: BoundModel,
    runner: ToolRunner,
    hand_offs: HandOffs,
    output: OutputMode,
    hand_off_messages: bool,
    /// The nodes for the supervisor's own tools.
    own: Vec<&'static str>,
}

impl Supervisor {
    /// Creates a team without members.
    pub fn new(name: impl Into<String>, model: impl IntoModel) -> Self {
        let kind = kind::Supervisor {
            model: model.into_model(),
            members: Vec::new(),
            examples: Vec::new(),
            output: OutputMode::LastMessage,
            hand_off_messages: true,
        };
        Self::of_kind(name, kind)
    }

    /// Adds a member, with a description of its work for the supervisor's model. Problems of a graph
    /// that is not compiled are reported by [`build`](Self::build).
    pub fn member(mut self, graph: impl IntoGraph, about: impl Into<String>) -> Self {
        self.kind.members.push(GivenMember { graph: graph.into_graph(), about: about.into() });
        self
    }

    /// Adds an example of a request that is handed to a member, for the supervisor's model.
    pub fn example(mut self, member: impl Into<String>, request: impl Into<String>) -> Self {
        self.kind.examples.push((member.into(), request.into()));
        self
    }

    /// Sets the messages of members that become part of the conversation; by default the last ones.
    pub fn output_mode(mut self, output: OutputMode) -> Self {
        self.kind.output = output;
        self
    }

    /// Sets whether hand-offs, calls with their results, are part of the conversation, as they are by
    /// default. The supervisor's model reads them in either case, and members in none.
    pub fn add_hand_off_messages(mut self, add: bool) -> Self {
        self.kind.hand_off_messages = add;
        self
    }
}

impl Compile for kind::Supervisor {
    fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError> {
        let Agent { options, kind } = agent;
        let given = compiled_members(kind.members)?;
        check_members(&options.name, &given, &kind.examples)?;
        let graph = options.with_output(options.graph::<TeamState>());
        let bound = options.bind(&kind.model);
        let mut hand_offs = HandOffs::default();
        let mut tools = options.tools;
        let mut members = Vec::new();
        for CompiledMember { graph, about } in given {
            let mut tool = hand_offs.add(graph.name(), &about);
            for (_, request) in kind.examples.iter().filter(|(of, _)| of == graph.name()) {
                tool = tool.example(request, json!({}));
            }
            tools = tools.with(tool);
            members.push(Member::new(graph, "a member of a team")?);
        }
        let runner = ToolRunner::new(tools, options.policy)
            .map_err(|source| AgentError::Tools { agent: options.name, source })?;
        let own = own_nodes(&runner, members.len());
        let tools = hand_offs.other_tools(runner.summaries());
        let model = kind.model;
        let parts = SupervisorParts {
            instructions: system_message(options.instructions),
            bound,
            runner,
            hand_offs,
            output: kind.output,
            hand_off_messages: kind.hand_off_messages,
            own: own.clone(),
        };
        // The supervisor waits for all members: those of one message may take different numbers of
        // supersteps.
        let mut graph = graph
            .with(parts)
            .with(tools)
            .check_input(move |input| check_new_media(&*model, input))
            .node(SUPERVISOR, run_supervisor)
            .defer(SUPERVISOR)
            .node(HAND_OFF, hand_off)
            .on_left_open(HAND_OFF, close_call)
            .edge(START, SUPERVISOR)
            .edge(HAND_OFF, SUPERVISOR)
            .ends(SUPERVISOR, [HAND_OFF].into_iter().chain(own.clone()).chain([END]))
            .ends(HAND_OFF, members.iter().map(Member::name));
        for name in own {
            graph =
                graph.node(name, run_tool).on_left_open(name, close_call).edge(name, SUPERVISOR);
        }
        for member in members {
            let name = member.name().to_owned();
            let inner = member.graph().clone();
            graph = graph
                .on_left_open(name.as_str(), close_work(member.clone()))
                .node(name.as_str(), run_member(member))
                .calls(name.as_str(), inner, SubgraphState::PerTask)
                .edge(name.as_str(), SUPERVISOR);
        }
        Ok(graph.build()?)
    }
}

/// A member as it was given, with its description.
#[derive(Debug)]
pub(crate) struct GivenMember {
    graph: Result<CompiledGraph, InvalidGraph>,
    about: String,
}

/// A member whose graph is compiled.
struct CompiledMember {
    graph: CompiledGraph,
    about: String,
}

/// Returns the graphs of the members, or the problems of all of them.
fn compiled_members(given: Vec<GivenMember>) -> Result<Vec<CompiledMember>, AgentError> {
    let mut members = Vec::new();
    let mut invalid = Vec::new();
    for GivenMember { graph, about } in given {
        match graph {
            Ok(graph) => members.push(CompiledMember { graph, about }),
            Err(error) => invalid.push(error),
        }
    }
    InvalidGraph::join(invalid).map_or(Ok(members), |error| Err(error.into()))
}

/// Checks the names of the members, and those that examples refer to.
fn check_members(
    team: &str,
    members: &[CompiledMember],
    examples: &[(String, String)],
) -> Result<(), AgentError> {
    let names = members.iter().map(|member| member.graph.name());
    check_names(team, names.clone(), &[SUPERVISOR, HAND_OFF, TOOL, HUMAN])?;
    let known: Vec<String> = names.map(str::to_owned).collect();
    let mentioned = examples.iter().map(|(member, _)| ("an example", member.clone()));
    let first = known.is_empty().then(|| ("the first member", String::new()));
    for (what, found) in first.into_iter().chain(mentioned) {
        if !known.contains(&found) {
            return Err(AgentError::UnknownMember { team: team.to_owned(), what, found, known });
        }
    }
    Ok(())
}

/// Returns the nodes for the supervisor's own tools.
fn own_nodes(runner: &ToolRunner, members: usize) -> Vec<&'static str> {
    let specs = runner.specs();
    let has_human = specs.iter().any(|spec| spec.name == ASK_HUMAN);
    let has_tools = specs.len() > members + usize::from(has_human);
    let own = [(TOOL, has_tools), (HUMAN, has_human)];
    own.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

/// Calls the supervisor's model, and starts a task for each of its calls.
async fn run_supervisor(
    state: State<TeamState>,
    parts: Deps<SupervisorParts>,
    ctx: Ctx,
) -> NodeResult<Command<TeamState>> {
    let rounds = invalid_rounds(state.messages().iter());
    if rounds > REPAIRS_MAX {
        return Err(cannot_repair(&parts.bound.model.info().id(), rounds).into());
    }
    let mut messages: Vec<Message> = parts.instructions.iter().cloned().collect();
    messages.extend(for_model(parts.seen(&state).iter(), &ctx.calls().hidden));
    let answer = parts.bound.answer(messages, parts.runner.specs(), &ctx).await?;
    if let Some(value) = parts.bound.final_value(&answer)? {
        ctx.write_also(OUTPUT, value);
    }
    let sends: Vec<SendTo> = answer.tool_calls().map(|call| parts.send(call)).collect();
    let stored = match parts.hand_off_messages {
        true => Some(answer),
        false => parts.hand_offs.reduced(&answer, |_| true),
    };
    let command = Command::update(TeamStateUpdate::new().messages(stored));
    Ok(sends.into_iter().fold(command, Command::send))
}

impl SupervisorParts {
    fn send(&self, call: &ToolCall) -> SendTo {
        let node = match call.name.as_str() {
            name if self.hand_offs.member(name).is_some() => HAND_OFF,
            ASK_HUMAN => HUMAN,
            _ => TOOL,
        };
        // A call of a tool that does not exist gets its refusal where there is a node.
        let node = if self.own.contains(&node) { node } else { HAND_OFF };
        SendTo::to(node, call.clone())
    }

    /// Returns the conversation as the supervisor's model reads it: the answer of a member is the
    /// result of its hand-off.
    fn seen(&self, state: &State<TeamState>) -> Vec<Message> {
        let mut reports: BTreeMap<&str, Vec<&Report>> = BTreeMap::new();
        for report in state.reports() {
            reports.entry(report.answer.as_str()).or_default().push(report);
        }
        let reported: BTreeSet<&str> =
            state.reports().iter().map(|report| report.call.id.as_str()).collect();
        let mut seen = Vec::new();
        for message in state.messages().iter() {
            match reports.get(message.id.as_str()) {
                Some(reports) => {
                    seen.extend(reports.iter().flat_map(|report| as_result(report, message)));
                }
                None => {
                    seen.extend(self.hand_offs.reduced(message, |call| reported.contains(call)));
                }
            }
        }
        seen
    }
}

/// A hand-off with the answer of its member.
fn as_result(report: &Report, answer: &Message) -> [Message; 2] {
    let call = report.call.clone();
    let result = ToolResult {
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
        value: json!(answer.joined_text()),
        shown: None,
        is_error: false,
    };
    // Providers do not see ids.
    let of = || answer.id.clone();
    let call = Message::new(of(), Role::Assistant, vec![Part::ToolCall(call)]);
    [call, Message::tool_result(of(), result)]
}

/// Makes a hand-off; the member of a successful one runs next.
async fn hand_off(
    Arg(call): Arg<ToolCall>,
    parts: Deps<SupervisorParts>,
    ctx: Ctx,
) -> NodeResult<Command<TeamState>> {
    let outcome = outcome_of_call(&ctx, &parts.runner, &call, &PromptScope::none()).await?;
    let result = result_message(&ctx, &call, &outcome);
    let member = parts.hand_offs.member(&call.name);
    // The call of a tool that does not exist is part of the conversation in either case.
    let is_stored = parts.hand_off_messages || member.is_none();
    let member = member.filter(|_| matches!(outcome, ToolOutcome::Ok { .. }));
    let messages = match (is_stored, member) {
        (true, _) => vec![result],
        (false, Some(_)) => Vec::new(),
        // The model has to read the refusal of its call.
        (false, None) => {
            let parts = vec![Part::ToolCall(call.clone())];
            vec![Message::new(ctx.message_id(), Role::Assistant, parts), result]
        }
    };
    let update = TeamStateUpdate::new().messages(messages);
    Ok(match member {
        Some(member) => {
            // No send: the supervisor, which is deferred, waits for nodes and not for sends.
            let handed = Handed { member: member.to_owned(), call };
            Command::update(update.handed([handed])).goto(member)
        }
        None => Command::update(update),
    })
}

/// Brings a call of the supervisor's own tools to its result.
async fn run_tool(
    Arg(call): Arg<ToolCall>,
    parts: Deps<SupervisorParts>,
    ctx: Ctx,
) -> NodeResult<TeamStateUpdate> {
    let outcome = outcome_of_call(&ctx, &parts.runner, &call, &PromptScope::none()).await?;
    Ok(TeamStateUpdate::new().messages([result_message(&ctx, &call, &outcome)]))
}

/// Closes a call of the supervisor that is left open.
async fn close_call(
    Arg(call): Arg<ToolCall>,
    parts: Deps<SupervisorParts>,
    ctx: Ctx,
) -> NodeResult<TeamStateUpdate> {
    let outcome = left_open(&ctx, &parts.runner, &call, &PromptScope::none()).await?;
    Ok(TeamStateUpdate::new().messages([result_message(&ctx, &call, &outcome)]))
}

/// Closes the work of a member that is left open: whichever messages a team keeps of its members,
/// calls that a member has made become part of the conversation.
fn close_work(
    member: Member,
) -> impl Fn(
    State<TeamState>,
    Deps<SupervisorParts>,
    Ctx,
) -> BoxFuture<'static, NodeResult<TeamStateUpdate>>
+ Send
+ Sync
+ 'static {
    let member = Arc::new(member);
    move |state, parts, ctx| {
        let member = Arc::clone(&member);
        Box::pin(async move {
            let conversation = parts.hand_offs.without(state.messages().iter());
            let work = member.work(&ctx, &conversation).await?;
            Ok(TeamStateUpdate::new().messages(work.messages))
        })
    }
}

/// The node of a member.
fn run_member(
    member: Member,
) -> impl Fn(
    State<TeamState>,
    Deps<SupervisorParts>,
    Ctx,
) -> BoxFuture<'static, NodeResult<TeamStateUpdate>>
+ Send
+ Sync
+ 'static {
    let member = Arc::new(member);
    move |state, parts, ctx| {
        let member = Arc::clone(&member);
        Box::pin(async move {
            let conversation = parts.hand_offs.without(state.messages().iter());
            let work = member.work(&ctx, &conversation).await?;
            let answer = work.answer(member.name())?.clone();
            let handed = state.handed().into_iter().flatten();
            let own = handed.filter(|handed| handed.member == member.name());
            let report = |Handed { member, call }: &Handed| Report {
                member: member.clone(),
                call: call.clone(),
                answer: answer.id.clone(),
            };
            let reports: Vec<Report> = own.map(report).collect();
            let messages = match parts.output {
                OutputMode::LastMessage => vec![answer.clone()],
                OutputMode::FullHistory => work.messages,
            };
            Ok(TeamStateUpdate::new().messages(messages).reports(reports))
        })
    }
}
