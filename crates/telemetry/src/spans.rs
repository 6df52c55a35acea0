//! The spans of a run: a tree of the run, its supersteps, their tasks, and the model attempts and tool
//! calls of tasks.

use crate::attributes::{self as keys, Attributes};
use crate::ids::{SpanIds, Trace};
use crate::otlp;
use crate::run_trace::{ModelAttempt, RunTrace, Step, Task, ToolUse};
use crate::settings::Content;
use std::collections::BTreeMap;
use weftwork_store::RunRow;
use weftwork_types::canonical::{Hash, first_128, hash_bytes};
use weftwork_types::event::TaskStatus;
use weftwork_types::message::Message;
use weftwork_types::run::{RunInput, RunOutcome, RunStatus};
use weftwork_types::shown::show;
use weftwork_types::telemetry::{self, ParentSpan, SpanId};
use weftwork_types::usage::{Tokens, UsageStatus, dollars};
use weftwork_types::{Principal, TaskId, Timestamp};

/// Type of errors without a code of ours, as the conventions name it.
const OTHER_ERROR: &str = "_OTHER";
/// Longest chain of spans within spans.
const DEPTH_MAX: usize = 1_000;
/// Flag of a sampled trace.
const SAMPLED: u32 = 1;
/// Most tags of a trace.
const TAGS_MAX: usize = 20;
/// Number of bytes of the hash of a user.
const USER_BYTES: usize = 8;

/// A run of which spans are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TracedRun<'a> {
    pub(crate) who: &'a Principal,
    pub(crate) row: &'a RunRow,
    pub(crate) trace: &'a RunTrace,
    pub(crate) content: Content,
}

impl<'a> TracedRun<'a> {
    /// Returns the trace that the run belongs to.
    pub(crate) fn trace_id(self) -> Trace {
        Trace::of(&self.row.new.caller.trace)
    }

    /// Returns the span of the client in which the run was requested.
    pub(crate) fn parent(self) -> Option<&'a ParentSpan> {
        let parent = self.row.new.options.parent_span.as_ref();
        parent.filter(|parent| parent.trace == self.row.new.caller.trace)
    }

    /// Returns the spans, each after those within it.
    pub(crate) fn spans(self) -> Vec<otlp::Span> {
        Builder::new(self).build()
    }
}

/// A span with its place in the tree.
#[derive(Debug)]
struct Node {
    id: SpanId,
    parent: Option<usize>,
    name: String,
    kind: otlp::SpanKind,
    from: Timestamp,
    /// End; at least that of the spans within it.
    to: Timestamp,
    attributes: Attributes,
    error: Option<String>,
}

struct Builder<'a> {
    run: TracedRun<'a>,
    ids: SpanIds,
    nodes: Vec<Node>,
    /// Index of the first superstep among the nodes.
    first_step: usize,
    tasks: BTreeMap<TaskId, usize>,
    /// Tool calls by task and number of the graph that a call runs.
    called: BTreeMap<(TaskId, u32), usize>,
    ended_at: Timestamp,
    user: String,
}

impl<'a> Builder<'a> {
    fn new(run: TracedRun<'a>) -> Self {
        let ids = SpanIds::new(run.row.new.at.run.clone(), run.trace.segment);
        let started_at = run.trace.started_at.unwrap_or(run.row.new.created_at);
        let ended_at = run.trace.end.map_or(started_at, |end| end.at);
        let user = user_of(run.who, run.content);
        Self {
            run,
            ids,
            nodes: Vec::new(),
            first_step: 0,
            tasks: BTreeMap::new(),
            called: BTreeMap::new(),
            ended_at,
            user,
        }
    }

    fn build(mut self) -> Vec<otlp::Span> {
        let trace = self.run.trace;
        self.add_run();
        self.first_step = self.nodes.len();
        trace.steps.iter().for_each(|step| self.add_step(step));
        trace.tasks.iter().for_each(|(id, task)| self.add_task(*id, task));
        self.place_tasks();
        trace.attempts.iter().for_each(|attempt| self.add_attempt(attempt));
        trace.tools.iter().for_each(|tool| self.add_tool(tool));
        self.place_steps();
        self.widen();
        self.into_spans()
    }

    fn add_run(&mut self) {
        let TracedRun { row, trace, content, .. } = self.run;
        let graph = &*row.new.graph;
        let is_agent = !trace.attempts.is_empty();
        let operation = if is_agent { keys::INVOKE_AGENT } else { telemetry::INVOKE_WORKFLOW };
        let mut attributes = self.common(if is_agent { "AGENT" } else { "CHAIN" });
        attributes.text(keys::OBSERVATION_TYPE, if is_agent { "agent" } else { "chain" });
        attributes.text(telemetry::OPERATION, operation);
        attributes.text(telemetry::GRAPH, graph);
        attributes.text(telemetry::THREAD, row.new.at.thread.as_str());
        attributes.text(telemetry::RUN_ID, row.new.at.run.as_str());
        attributes.integer(telemetry::CLAIM, trace.claim);
        attributes.text_if(keys::CONTINUES, trace.continues.as_ref().map(|run| run.as_str()));
        if self.run.parent().is_none() {
            attributes.text(keys::TRACE_NAME, graph);
        }
        if !row.new.options.tags.is_empty() && content == Content::Shown {
            let tags = row.new.options.tags.iter().take(TAGS_MAX).map(String::as_str);
            attributes.texts(keys::TRACE_TAGS, tags);
        }
        let status = trace.end.map(|end| end.status);
        attributes.text_if(telemetry::OUTCOME, status.map(RunStatus::name));
        let error = match (&row.outcome, status) {
            (Some(RunOutcome::Failed { fault }), Some(RunStatus::Failed)) => Some(&*fault.code),
            (_, Some(RunStatus::Failed)) => Some(OTHER_ERROR),
            _ => None,
        };
        if content == Content::Shown {
            if let RunInput::Start { input } = &row.new.input {
                let mut input = input.clone();
                show(&mut input);
                attributes.content(keys::INPUT, &input);
            }
            let last = trace.last_message.as_ref().and_then(|id| trace.messages.get(id));
            add_message(&mut attributes, last);
        }
        self.nodes.push(Node {
            id: self.ids.span("run", ""),
            parent: None,
            name: format!("{operation} {graph}"),
            kind: otlp::SpanKind::Internal,
            from: trace.started_at.unwrap_or(self.ended_at),
            to: self.ended_at,
            attributes,
            error: error.map(error_type),
        });
    }

    fn add_step(&mut self, step: &Step) {
        let mut attributes = self.common("CHAIN");
        attributes.text(keys::OBSERVATION_TYPE, "chain");
        if let Some(number) = step.number {
            attributes.integer(telemetry::STEP, u64::try_from(number).unwrap_or_default());
        }
        if !step.ns.is_empty() {
            attributes.text(telemetry::NAMESPACE, &step.ns);
        }
        let base = step.base.map(|base| base.to_string()).unwrap_or_default();
        let name = match step.number {
            Some(number) => format!("{} {number}", telemetry::SUPERSTEP),
            None => telemetry::SUPERSTEP.to_owned(),
        };
        self.nodes.push(Node {
            id: self.ids.span("step", &format!("{}\n{base}", step.ns)),
            parent: Some(0),
            name,
            kind: otlp::SpanKind::Internal,
            from: step.started_at,
            to: step.ended_at.unwrap_or(self.ended_at),
            attributes,
            error: None,
        });
    }

    fn add_task(&mut self, id: TaskId, task: &Task) {
        let mut attributes = self.common("CHAIN");
        attributes.text(keys::OBSERVATION_TYPE, "chain");
        attributes.text(telemetry::NODE, &task.node);
        attributes.text(telemetry::TASK_ID, &id.to_string());
        let to = task.end.as_ref().map_or(self.ended_at, |end| end.at);
        let outcome = task.end.as_ref().and_then(|end| outcome_of(end.status));
        attributes.text_if(telemetry::OUTCOME, outcome);
        let failed = task.end.as_ref().filter(|end| end.status == TaskStatus::Failed);
        let error = failed.map(|end| error_type(end.code.as_deref().unwrap_or_default()));
        self.tasks.insert(id, self.nodes.len());
        self.nodes.push(Node {
            id: self.ids.span("task", &id.to_string()),
            parent: Some(0),
            name: format!("{} {}", telemetry::TASK, task.node),
            kind: otlp::SpanKind::Internal,
            // That of the spans within it, if its start is not known.
            from: task.started_at.unwrap_or(to),
            to,
            attributes,
            error,
        });
    }

    /// Places supersteps of subgraphs within the tasks that run them, and those of agents that are tools
    /// within the calls.
    fn place_steps(&mut self) {
        for (index, step) in self.run.trace.steps.iter().enumerate() {
            let parent = self.parent_of(&step.ns);
            if let Some(node) = self.nodes.get_mut(self.first_step + index) {
                node.parent = Some(parent.unwrap_or(0));
            }
        }
    }

    /// Returns the index of the span around a graph. Its namespace is `node:task` for each task that runs
    /// a graph, from the outside in; for a graph that the code of a task calls, its number follows.
    fn parent_of(&self, ns: &str) -> Option<usize> {
        let mut called = None;
        for part in ns.rsplit('|') {
            match part.rsplit_once(':') {
                None => called = part.parse().ok(),
                Some(named) => {
                    let id = named.1.parse().ok()?;
                    let tool = called.take().and_then(|number| self.called.get(&(id, number)));
                    if let Some(index) = tool.or_else(|| self.tasks.get(&id)) {
                        return Some(*index);
                    }
                }
            }
        }
        None
    }

    /// Places tasks within their supersteps, and those that the code of a flow called within it.
    fn place_tasks(&mut self) {
        for (id, task) in &self.run.trace.tasks {
            let caller = task.caller.and_then(|caller| self.tasks.get(&caller));
            let parent = caller.copied().unwrap_or(self.first_step + task.step);
            if let Some(node) = self.tasks.get(id).and_then(|index| self.nodes.get_mut(*index)) {
                node.parent = Some(parent);
            }
        }
    }

    fn add_attempt(&mut self, attempt: &ModelAttempt) {
        let ModelAttempt { fact, task, message, finish } = attempt;
        let mut attributes = self.common("LLM");
        attributes.text(keys::OBSERVATION_TYPE, "generation");
        attributes.text(telemetry::OPERATION, telemetry::CHAT);
        attributes.text(telemetry::PROVIDER, provider_name(&fact.provider));
        attributes.text(telemetry::REQUEST_MODEL, &fact.model);
        attributes.text(keys::LLM_MODEL, &fact.model);
        attributes.text(telemetry::THREAD, self.run.row.new.at.thread.as_str());
        attributes.integer(telemetry::ATTEMPT, u64::from(fact.attempt));
        if fact.status == UsageStatus::Ok {
            attributes.text(telemetry::RESPONSE_MODEL, &fact.model);
        }
        attributes.text_if(telemetry::RESPONSE_ID, fact.provider_call_id.as_deref());
        if let Some(finish) = finish {
            attributes.texts(keys::FINISH_REASONS, [&**finish]);
        }
        if let Some(first_ms) = fact.first_token_ms {
            attributes.number(keys::TIME_TO_FIRST_CHUNK, seconds(first_ms));
        }
        let tokens = fact.tokens;
        attributes.integer(telemetry::INPUT_TOKENS, tokens.input);
        attributes.integer(telemetry::OUTPUT_TOKENS, tokens.output);
        if tokens.cached > 0 {
            attributes.integer(keys::CACHED_TOKENS, tokens.cached);
        }
        if tokens.reasoning > 0 {
            attributes.integer(keys::REASONING_TOKENS, tokens.reasoning);
        }
        attributes.integer(keys::PROMPT_TOKENS, tokens.input);
        attributes.integer(keys::COMPLETION_TOKENS, tokens.output);
        attributes.integer(keys::TOTAL_TOKENS, tokens.total());
        attributes.text(keys::USAGE_DETAILS, &usage_details(tokens));
        if let Some(cost) = fact.cost_micro_usd {
            attributes.text(keys::COST_DETAILS, &format!("{{\"total\":{}}}", dollars(cost)));
        }
        if fact.status == UsageStatus::Ok {
            let answer = message.as_ref().and_then(|id| self.run.trace.messages.get(id));
            add_message(&mut attributes, answer);
        }
        let failed = (fact.status == UsageStatus::Error).then_some(());
        let error = failed.map(|()| error_type(fact.error_code.as_deref().unwrap_or_default()));
        self.nodes.push(Node {
            id: self.ids.span("attempt", fact.invocation_id.as_str()),
            parent: Some(self.place_of(*task)),
            name: format!("{} {}", telemetry::CHAT, fact.model),
            kind: otlp::SpanKind::Client,
            from: fact.started_at,
            to: fact.started_at.plus(std::time::Duration::from_millis(fact.latency_ms)),
            attributes,
            error,
        });
    }

    fn add_tool(&mut self, tool: &ToolUse) {
        let mut attributes = self.common("TOOL");
        attributes.text(keys::OBSERVATION_TYPE, "tool");
        attributes.text(telemetry::OPERATION, telemetry::EXECUTE_TOOL);
        attributes.text(telemetry::TOOL, &tool.name);
        attributes.text(keys::OPENINFERENCE_TOOL, &tool.name);
        attributes.text(telemetry::TOOL_CALL_ID, tool.id.as_str());
        if tool.replayed {
            attributes.flag(telemetry::REPLAYED, true);
        }
        let code = tool.end.as_ref().and_then(|end| end.code.as_deref());
        let outcome = tool.end.as_ref().map(|_| if code.is_some() { "failed" } else { "ok" });
        attributes.text_if(telemetry::OUTCOME, outcome);
        if let Some(args) = &tool.args {
            attributes.content(keys::TOOL_ARGUMENTS, args);
            attributes.content(keys::INPUT, args);
        }
        if let Some(result) = tool.end.as_ref().and_then(|end| end.result.as_ref()) {
            attributes.content(keys::TOOL_RESULT, result);
            attributes.content(keys::OUTPUT, result);
        }
        if let Some(task) = tool.task {
            self.called.insert((task, called_number(tool.id.as_str())), self.nodes.len());
        }
        let task = tool.task.map(|task| task.to_string()).unwrap_or_default();
        self.nodes.push(Node {
            id: self.ids.span("tool", &format!("{task}\n{}\n{}", tool.id, tool.before)),
            parent: Some(self.place_of(tool.task)),
            name: format!("{} {}", telemetry::EXECUTE_TOOL, keys::cut(&tool.name, 128)),
            kind: otlp::SpanKind::Internal,
            from: tool.started_at,
            to: tool.end.as_ref().map_or(self.ended_at, |end| end.at),
            attributes,
            error: code.map(error_type),
        });
    }

    /// Returns the index of the span of a task; that of the run for a task that the log does not have.
    fn place_of(&self, task: Option<TaskId>) -> usize {
        task.and_then(|task| self.tasks.get(&task)).copied().unwrap_or(0)
    }

    /// Returns attributes that all spans have.
    fn common(&self, kind: &str) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.text(keys::SPAN_KIND, kind);
        attributes.text(keys::SESSION, self.run.row.new.at.thread.as_str());
        attributes.text(keys::USER, &self.user);
        attributes
    }

    /// Extends each span to those within it. Times of the log are those of its commits, and model
    /// attempts have their own.
    fn widen(&mut self) {
        let depths = (0..self.nodes.len()).map(|index| (self.depth(index), index));
        let mut order: Vec<_> = depths.collect();
        order.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in order {
            let Some(node) = self.nodes.get_mut(index) else { continue };
            node.to = node.to.max(node.from);
            let span = (node.from, node.to);
            if let Some(parent) = node.parent.and_then(|parent| self.nodes.get_mut(parent)) {
                parent.from = parent.from.min(span.0);
                parent.to = parent.to.max(span.1);
            }
        }
    }

    fn depth(&self, index: usize) -> usize {
        let parent = |index: &usize| self.nodes.get(*index).and_then(|node| node.parent);
        std::iter::successors(Some(index), parent).take(DEPTH_MAX).count()
    }

    fn into_spans(self) -> Vec<otlp::Span> {
        let trace_id = self.run.trace_id().0.to_vec();
        let outer = self.run.parent().map(|parent| parent.id);
        let ids: Vec<_> = self.nodes.iter().map(|node| node.id).collect();
        let bytes = |id: SpanId| id.0.get().to_be_bytes().to_vec();
        let spans = self.nodes.into_iter().map(|node| {
            let parent = node.parent.and_then(|parent| ids.get(parent)).copied().or(outer);
            let mut attributes = node.attributes;
            attributes.text_if(telemetry::ERROR_TYPE, node.error.as_deref());
            let code = otlp::StatusCode::Error as i32;
            // A description would be content.
            let status = node.error.map(|_| otlp::Status { message: String::new(), code });
            otlp::Span {
                trace_id: trace_id.clone(),
                span_id: bytes(node.id),
                parent_span_id: parent.map(bytes).unwrap_or_default(),
                name: node.name,
                kind: node.kind as i32,
                start_time_unix_nano: nanoseconds(node.from),
                end_time_unix_nano: nanoseconds(node.to),
                attributes: attributes.into_list(),
                status,
                flags: SAMPLED,
            }
        });
        spans.collect()
    }
}

/// Returns the number of a graph that the code of a task calls under a name, as agents that are tools are
/// called under the ids of their calls (`Ctx::call_named`).
#[expect(clippy::cast_possible_truncation, reason = "the number is a part of the hash")]
fn called_number(name: &str) -> u32 {
    (first_128(name) as u32) | (1 << 31)
}

/// Returns tokens as Langfuse adds them up: each part once.
fn usage_details(tokens: Tokens) -> String {
    let mut details = serde_json::json!({
        "input": tokens.input.saturating_sub(tokens.cached),
        "output": tokens.output.saturating_sub(tokens.reasoning),
        "total": tokens.total(),
    });
    if tokens.cached > 0 {
        details["input_cached_tokens"] = tokens.cached.into();
    }
    if tokens.reasoning > 0 {
        details["output_reasoning_tokens"] = tokens.reasoning.into();
    }
    details.to_string()
}

/// Returns the outcome of a task; `None` if it was cut off.
fn outcome_of(status: TaskStatus) -> Option<&'static str> {
    match status {
        TaskStatus::Ok | TaskStatus::Cached => Some("ok"),
        TaskStatus::Failed => Some("failed"),
        TaskStatus::Asks => Some("asks"),
        TaskStatus::Stopped => None,
    }
}

/// Adds the text and the tool calls of a message.
fn add_message(attributes: &mut Attributes, message: Option<&Message>) {
    if let Some(message) = message {
        attributes.content(keys::OUTPUT, &serde_json::json!(message.parts));
    }
}

/// Returns the type of an error: a code of ours, and no other text, which would be content.
pub(crate) fn error_type(code: &str) -> String {
    let digits = code.strip_prefix('W').unwrap_or_default();
    let is_ours = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_ours { code.to_owned() } else { OTHER_ERROR.to_owned() }
}

/// Returns the user of a run: a hash, unless content is shown.
fn user_of(who: &Principal, content: Content) -> String {
    match content {
        Content::Shown => who.subject.clone(),
        Content::Omitted => {
            let Hash(hash) = hash_bytes(format!("{}\n{}", who.org, who.subject).as_bytes());
            hash.iter().take(USER_BYTES).map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

/// Returns the name that the conventions give to a provider.
pub(crate) fn provider_name(provider: &str) -> &str {
    match provider {
        "openai-responses" => "openai",
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "xai" => "x_ai",
        other => other,
    }
}

/// Returns milliseconds as seconds.
pub(crate) fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

/// Returns a time in nanoseconds.
pub(crate) fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000_000)
}
