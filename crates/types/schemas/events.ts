// Generated from the schema beside it. Do not edit.

/**
 * An event with its position in the run.
 *
 * Durable events have a number in the log; partial text has a position between them. An event with
 * neither was emitted by a run whose log is not accessible.
 */
export type RunEvent = ({
  type: "run_started";
  /** The graph's id. */
  graph: string;
  /**
   * Run of the thread that this one continues: it answers its questions, or goes on where it
   * stopped.
   */
  continues?: RunId | null;
} | {
  type: "taken_over";
  /** Number of the claim, from 2. */
  claim: number;
} | {
  type: "released";
  /** Number of the claim that was released. */
  claim: number;
} | {
  type: "requeued";
  /** Subject of the principal that requeued it. */
  by: string;
} | {
  type: "text_delta";
  /** The partial text. */
  delta: string;
} | {
  type: "reasoning_delta";
  /** The partial text. */
  delta: string;
} | {
  type: "tool_call_delta";
  /** Id of the call. */
  tool_call_id: ToolCallId;
  /** Wire name of the tool. */
  tool_name: string;
  /** Position of the call in the message, from 0. */
  index: number;
  /** The part of the arguments' JSON text. */
  delta: string;
} | AttemptReset & {
  type: "attempt_reset";
} | {
  type: "message_final";
  /** The message. */
  message: Message;
} | {
  type: "text_stopped";
  /** Origin of the text. */
  at: PieceAt;
  /** The text. */
  text: string;
} | {
  type: "tool_call_start";
  /** Id of the call. */
  tool_call_id: ToolCallId;
  /** Wire name of the tool. */
  tool_name: string;
  /** Arguments of the call. */
  args: unknown;
  /**
   * `false` if the call takes nothing from the budget, because no tool runs for it: it was
   * refused, or a person answers it.
   */
  charged?: boolean;
  /**
   * Task that makes the call, by which calls of several members with one id differ; `None` in
   * events of older programs.
   */
  task?: TaskId | null;
  /** Namespace of the graph of the task; empty for the outermost graph. */
  ns?: string;
} | {
  type: "tool_call_result";
  /** Id of the call. */
  tool_call_id: ToolCallId;
  /** The members of the result that may be shown, or an error object. */
  result: unknown;
  /** `true` if the call failed. */
  is_error?: boolean;
  /** Task that made the call, as at its start. */
  task?: TaskId | null;
} | {
  type: "usage_report";
  /** The usage fact. */
  fact: UsageFact;
  /**
   * Message that the attempt produced or would have produced; `None` in events of older
   * programs.
   */
  message?: MessageId | null;
  /**
   * Reason for which the answer ended, such as `stop` or `tool_calls`; `None` without an answer,
   * and in events of older programs.
   */
  finish?: string | null;
  /** Task that made the call; `None` in events of older programs. */
  task?: TaskId | null;
} | {
  type: "call_reused";
  /** `model` or `tool`. */
  kind: string;
  /** Name of the model or tool. */
  name: string;
} | {
  type: "human_input_required";
  /** Id of the question. */
  interrupt_id: InterruptId;
  /** Content of the question. */
  ask: Ask;
  /**
   * Name of the subgraph whose node asked, such as the member of a team; absent if it is a
   * node of the outermost graph.
   */
  graph?: string | null;
} | CheckpointStored & {
  type: "checkpoint";
} | {
  type: "tasks_started";
  /** Namespace of their graph; empty for the outermost graph. */
  ns?: string;
  /** Checkpoint that the superstep starts from. */
  checkpoint: CheckpointId;
  /** The tasks, those included that had finished before. */
  tasks: Array<TaskDue>;
  /** Part of the writes stored with the checkpoint that applies to its state in this run. */
  outside?: OutsideWrites;
} | {
  type: "tasks_ended";
  /** Namespace of their graph; empty for the outermost graph. */
  ns?: string;
  /** Checkpoint that the superstep starts from. */
  checkpoint: CheckpointId;
  /** The tasks. */
  ended: Array<TaskEnd>;
} | {
  type: "step";
  /** Number of the superstep within the thread. */
  step: number;
  /** Nodes that ran in the superstep, in task order. */
  nodes: Array<string>;
} | {
  type: "custom";
  /** Namespace of the graph that emitted it; empty for the outermost graph. */
  ns?: string;
  /** The node; empty in logs of earlier versions. */
  node?: string;
  /** Tool call whose tool reports its progress; `None` for a value of the node. */
  tool_call_id?: ToolCallId | null;
  /** The value. */
  value: unknown;
} | {
  type: "remote_frame";
  /** Namespace of the graph it is about: that of the task, followed by its namespace there. */
  ns: string;
  /** Stream mode: `values`, `updates` or `custom`. */
  mode: string;
  /** Data of the frame in the form of that server. */
  data: unknown;
} | {
  type: "store_unavailable";
  /** Reason, with its code: `W0207` for a store that is full. */
  fault: Fault;
} | {
  type: "store_available";
} | {
  type: "done";
  /** Final status. */
  outcome: RunStatus;
}) & {
  /** Number in the durable log, from 1 without gaps; `None` for partial text. */
  seq?: number | null;
  /** Position and origin of partial text. */
  piece?: PieceAt | null;
  /**
   * Time of the commit of a durable event, or time at which partial text was emitted; `None` for
   * events without a position.
   */
  at?: Timestamp | null;
};

/** Position and origin of partial text. */
export type PieceAt = {
  /** Position after the text. */
  end: Position;
  /** Node that emitted the text. */
  node: string;
  /** Task of the node. It distinguishes tasks that emit text at the same time. */
  task: TaskId;
  /** Namespace of the graph that emitted the text; empty for the outermost graph. */
  ns?: string;
  /** Superstep of that graph; 0 in pieces of earlier versions. */
  step?: number;
  /**
   * Message that the text is part of, if its source names one. The final message has the same
   * id.
   */
  message?: MessageId | null;
};

/**
 * A position in the output of a run. Positions of one run sort in the order of emission. They are
 * the same in a live stream and in the store, and in every process.
 */
export type Position = {
  /** Number of the last durable event that was read; 0 if there was none. */
  seq: number;
  /** Bytes of partial text read since that event. */
  bytes?: number;
};

/** Id of a task of one superstep. */
export type TaskId = string;

/** Id of a message in a thread. */
export type MessageId = string;

/** Milliseconds since the Unix epoch, UTC. */
export type Timestamp = number;

/** Id of a run. */
export type RunId = string;

/** Id of a tool call. */
export type ToolCallId = string;

/** The end of an attempt whose partial text is void. */
export type AttemptReset = {
  /** Node whose attempt failed. */
  node: string;
  /** Namespace of the graph of the node; empty for the outermost graph. */
  ns?: string;
  /**
   * Task of the node; `None` in logs of earlier versions, where the text of all nodes of this name
   * is void.
   */
  task?: TaskId | null;
  /** Message whose text is void; `None` if all text of the task is. */
  message?: MessageId | null;
};

/** A message. Its parts are in the order in which they were produced. */
export type Message = {
  /** Id, unique within the thread. A message with an existing id replaces the older one. */
  id: MessageId;
  /** Author of the message. */
  role: Role;
  /** Content, in order. */
  parts: Array<Part>;
  /** Members that clients of LangChain's protocols gave the message. Models do not read them. */
  extra?: MessageExtra | null;
};

/** The author of a message. */
export type Role = "system" | "user" | "assistant" | "tool";

/** A part of a message. */
export type Part = {
  type: "text";
  /** The text. */
  text: string;
} | {
  type: "reasoning";
  /** The text. */
  text: string;
  /** Signature with which the provider accepts the reasoning back, if it issued one. */
  signature?: string | null;
} | Media & {
  type: "media";
} | ToolCall & {
  type: "tool_call";
} | ToolResult & {
  type: "tool_result";
};

/** An image, audio, video or file, by reference or inline. */
export type Media = {
  /** Media type, such as `image/png`. */
  media_type: string;
  /** Location: an `https:`, `data:` or `blob:` URL. It is never fetched automatically. */
  url: string;
};

/** A tool call requested by a model. */
export type ToolCall = {
  /** Id assigned by the model, or generated here if the model assigned none. */
  id: ToolCallId;
  /** Wire name of the tool. */
  name: string;
  /** Arguments, not yet validated. A JSON string if the model produced invalid JSON. */
  args: unknown;
  /** Arguments without secret ones. `None` if all arguments may be shown. */
  shown?: unknown;
};

/** The result of a tool call. */
export type ToolResult = {
  /** The call that this result belongs to. */
  tool_call_id: ToolCallId;
  /** Wire name of the tool. */
  name: string;
  /** The validated value, as the model reads it, or an error object. */
  value: unknown;
  /**
   * The members of the value that may be shown. `None` if the whole value may be shown, as in
   * messages that older programs stored.
   */
  shown?: unknown;
  /** `true` if the call failed. */
  is_error?: boolean;
};

/** Members of a message in LangChain's protocols that have no other place here. */
export type MessageExtra = {
  /** Name of the author. */
  name?: string | null;
  /** Further members of the message of a provider. */
  additional_kwargs?: Record<string, unknown>;
  /** Data of a provider about its answer. */
  response_metadata?: Record<string, unknown>;
};

/** Usage of one attempt of a model call. Failed attempts are recorded too. */
export type UsageFact = {
  /** Id of the attempt, unique. */
  invocation_id: InvocationId;
  /**
   * Number of the attempt within its call, from 1; 0 for an answer of the response cache or of the
   * journal, which used nothing.
   */
  attempt: number;
  /** Provider, such as `openai` or `local`. */
  provider: string;
  /** Model name on the wire. */
  model: string;
  /** Result of the attempt. */
  status: UsageStatus;
  /** Error code of a failed attempt. */
  error_code?: string | null;
  /** Token counts. */
  tokens: Tokens;
  /**
   * Cost in millionths of a US dollar, if known: that of the provider, or else that of the price
   * table.
   */
  cost_micro_usd?: number | null;
  /** Cost that the provider stated, if it did. */
  provider_cost_micro_usd?: number | null;
  /**
   * Cost by the price table, if the provider stated a cost and the price is known; see
   * [`price_micro_usd`](Self::price_micro_usd).
   */
  compared_micro_usd?: number | null;
  /**
   * Cost of the answer that this call got without an attempt, from the response cache or the
   * journal, if it is known.
   */
  saved_micro_usd?: number | null;
  /** Call id assigned by the provider. */
  provider_call_id?: string | null;
  /** Hash of model, messages, temperature, `top_p`, `stop`, `seed`, maximum tokens and tools. */
  prompt_hash: Hash;
  /** Start of the attempt. */
  started_at: Timestamp;
  /** Duration in milliseconds. */
  latency_ms: number;
  /** Time from the start to the first part of the answer, in milliseconds, if one came. */
  first_token_ms?: number | null;
};

/** Id of an attempt of a model call. */
export type InvocationId = string;

/** The result of an attempt. */
export type UsageStatus = "ok" | "error" | "cancelled";

/** Token counts of one or more attempts. */
export type Tokens = {
  /** Input tokens, those read from a cache included. */
  input: number;
  /** Output tokens, those spent on reasoning included. */
  output: number;
  /** `true` if the counts were estimated locally because the provider reported none. */
  estimated?: boolean;
  /** The part of `input` that the provider read from its cache. */
  cached?: number;
  /** The part of `input` that the provider wrote to its cache. */
  cache_written?: number;
  /** The part of `output` that the model spent on reasoning. */
  reasoning?: number;
};

/** SHA-256 of a canonical JSON text. */
export type Hash = string;

/** Id of an open question. */
export type InterruptId = string;

/** The content of a question. */
export type Ask = {
  kind: "question";
  /** Text of the question. */
  question: string;
  /** Call that waits for the answer. */
  tool_call_id: ToolCallId;
  /**
   * Canonical name of the tool that asks; `None` if the model asks through `ask_human`, and
   * the answer is the result of the call.
   */
  tool?: string | null;
} | ApprovalRequest & {
  kind: "approval";
} | {
  kind: "value";
  /** The value. */
  value: unknown;
} | {
  kind: "timer";
  /** Time at which the node resumes. */
  until: Timestamp;
};

/** The effect of a tool. */
export type Effect = "read_only" | "state_change" | "external_side_effect";

/** A call that waits for approval, with everything the person has to see. */
export type ApprovalRequest = {
  /** Id of the call. */
  tool_call_id: ToolCallId;
  /** Canonical name of the tool. */
  tool: string;
  /** Arguments of the call; secret ones are replaced by a text. The binding is of the exact ones. */
  args: unknown;
  /** Effect of the tool. */
  effect: Effect;
  /**
   * Hash of tool, arguments, call and thread. A call with other arguments needs its own
   * approval.
   */
  binding: Hash;
  /** Reason for which the policy requires an approval. */
  reason: string;
};

/** Id of a checkpoint. */
export type CheckpointId = string;

/** Operation that made a checkpoint. */
export type CheckpointSource = "empty" | "input" | "loop" | "update" | "fork";

/** A task that ended. */
export type TaskEnd = {
  /** Id of the task. */
  id: TaskId;
  /** Name of its node, or of the task of a flow. */
  node: string;
  /** Outcome of the task. */
  status?: TaskStatus;
  /** Task whose code called this one, for tasks of flows. */
  caller?: TaskId | null;
  /** Failure of a task that failed. Its record has that of its last attempt only. */
  fault?: Fault | null;
  /** Open questions of a task that did not finish, in order. */
  questions?: Array<InterruptId>;
  /** `true` if the task failed after it had taken an answer. */
  answered?: boolean;
};

/** Outcome of a task. */
export type TaskStatus = "ok" | "cached" | "failed" | "asks" | "stopped";

/**
 * An error as stored and shown: a code, a message, and whether a retry can succeed.
 *
 * The message is safe to show to the user who started the run; messages of this project never
 * contain secrets. Causes have the texts of errors of nodes, tools and libraries as they are, so
 * these errors must not contain any either.
 */
export type Fault = {
  /** Stable code, such as `W0301`. */
  code: string;
  /** Description of the error, with the names of the things involved. */
  message: string;
  /** `true` if the same call may succeed later without a change. */
  retriable?: boolean;
  /** Kind of the failure in the terms of its origin, such as `ValueError`. */
  kind?: string | null;
  /** Error that led to this one. */
  cause?: Cause | null;
  /** Circumstances of the failure. */
  details?: FaultDetails | null;
};

/**
 * A cause of a [`Fault`], with its own cause. The chain has at most eight causes, whose messages
 * are cut to 1,000 characters.
 */
export type Cause = {
  /** Stable code, if the error has one. */
  code?: string | null;
  /** Kind of the failure in the terms of its origin. */
  kind?: string | null;
  /** Description of the error. */
  message: string;
  /** Error that led to this one. */
  cause?: Cause | null;
};

/** Circumstances of a failure. */
export type FaultDetails = {
  /** Part of the execution that failed. */
  phase?: Phase | null;
  /** Number of the attempt that failed last, from 1. */
  attempt?: number | null;
  /** Usage of the failed call, all its attempts together. */
  usage?: Usage | null;
  /** Delay before the next attempt that the provider asked for, in milliseconds. */
  retry_after_ms?: number | null;
  /** Limit of a budget, or deadline, that was reached. */
  limit?: ReachedLimit | null;
  /** Failures of other agents that led to this one, the innermost first. */
  agent_failures?: Array<AgentFailure>;
};

/** A part of the execution of a run. */
export type Phase = "dependencies" | "node" | "model" | "tool" | "other";

/** Amounts that a budget counts. */
export type Usage = {
  /** Attempts of model calls. */
  model_calls?: number;
  /** Tool calls. */
  tool_calls?: number;
  /** Tokens of the model calls. */
  tokens?: Tokens;
  /** Cost of the model calls in millionths of a US dollar, without those whose price is unknown. */
  cost_micro_usd?: number;
  /** Wall time in milliseconds for which runs were executed; 0 where nothing limits it. */
  wall_ms?: number;
};

/** A limit that was reached. */
export type ReachedLimit = {
  /** Counted unit, such as `model calls` or `ms of wall time`. */
  unit: string;
  /** Amount used and reserved, in this unit. */
  used: number;
  /** Amount that the next call needs, in this unit, if less than that was left. */
  needed?: number | null;
  /** Amount allowed, in this unit. */
  limit: number;
};

/** A failure of an agent that another one asked. All types of agents fail in this form. */
export type AgentFailure = {
  /** Slug of the agent. */
  agent: string;
  /** Id of the step; with the number of its item, such as `each.0`, in a loop. */
  step: string;
  /** Number of the attempt, from 1. */
  attempt: number;
  /** Stable code, such as `W0301`. */
  code: string;
  /** Description without secrets. */
  safe_message: string;
  /** `true` if a further attempt may succeed without a change. */
  retriable: boolean;
  /** Run in which it failed, by which those who may read the run find the cause. */
  cause_id?: RunId | null;
};

/** A task that starts from a checkpoint. */
export type TaskDue = {
  /** Id of the task. */
  id: TaskId;
  /** Name of its node. */
  node: string;
  /** Names of its triggers. */
  triggers?: Array<string>;
  /** `true` if the task had finished before the run, and does not run again. */
  finished?: boolean;
};

/**
 * A checkpoint that a run stored, of one of its graphs.
 *
 * It closes the superstep whose tasks are in `ended`, and the tasks in `due` start from it.
 */
export type CheckpointStored = {
  /** Namespace of the graph, its parts separated by `|`; empty for the outermost graph. */
  ns?: string;
  /** Id of the checkpoint. */
  id: CheckpointId;
  /** Id of the checkpoint before it. */
  parent?: CheckpointId | null;
  /** Operation that made it. */
  source: CheckpointSource;
  /** Number of its superstep; the first input has -1. */
  step: number;
  /**
   * All tasks of the superstep that it closes, in the order in which they were planned: also
   * those whose end a [`TasksEnded`](super::AiEvent::TasksEnded) has reported before, and those
   * that had finished before the run.
   */
  ended?: Array<TaskEnd>;
  /** Tasks of the superstep that starts from it, in order. */
  due?: Array<TaskDue>;
};

/**
 * Numbers of the writes and targets from outside the graph, of commands, that are stored with a
 * checkpoint when a run continues from it. Later commands add others after them.
 */
export type OutsideWrites = {
  /** Number of writes to channels. */
  writes?: number;
  /** Number of targets. */
  targets?: number;
};

/** The status of a run. */
export type RunStatus = "queued" | "pending" | "running" | "completed" | "interrupted" | "limit_reached" | "cancelled" | "failed";
