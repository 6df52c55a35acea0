// Values of the server, as far as the page reads them.

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** A JSON schema, as far as forms use it. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: Json[];
  const?: Json;
  default?: Json;
  oneOf?: Schema[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

export interface Thread {
  thread_id: string;
  created_at: string;
  updated_at: string;
  metadata: { title?: string; graph_id?: string; assistant_id?: string; model?: string; "weft:conversation"?: { id: string } };
  status: "idle" | "busy" | "interrupted" | "error";
  /** Status of the last run; `null` before the first one, `copied` for a copy without one. */
  last_run?: string | null;
  /** Time for which the thread waits. */
  waits_until?: string | null;
}

export interface Assistant {
  assistant_id: string;
  graph_id: string;
  name: string;
  description: string | null;
}

/** A model of which chats select one. */
export interface Model {
  /** `provider:model`. */
  id: string;
}

/** A call that stands for a question: `ask_human` or `request_approval`. */
export interface Call {
  id: string;
  name: string;
  args: JsonObject;
}

/** A question that waits for a person. */
export interface Waiting {
  id: string;
  interrupt_id: string;
  thread_id: string;
  agent: string | null;
  node: string;
  /** Name of the member of a team that asks. */
  graph: string | null;
  call: Call | null;
  created_at: string;
  /** The time at which the run began that asks, and for whom it runs. */
  run_created_at: string;
  run_by: string;
  age_ms: number;
}

/** A question that was answered. */
export interface Answered {
  id: string;
  interrupt_id: string;
  thread_id: string;
  agent: string | null;
  node: string;
  /** Name of the member of a team that asked. */
  graph: string | null;
  call: Call | null;
  answer: Json;
  answered_by: string;
  answered_at: string;
  /** Key under which the answer was sent, of the questions of one thread. */
  idempotency_key?: string | null;
}

/** A checkpoint of a thread. */
export interface Checkpoint {
  checkpoint_id: string;
  parent_checkpoint_id: string | null;
  created_at: string | null;
  next: string[];
  tasks: { name: string; error?: Json; interrupts: Json[]; result?: Json }[];
  metadata: { source?: string; step?: number; run_id?: string } | null;
  values?: Json;
}

/** A graph as nodes and lines. */
export interface Topology {
  nodes: { id: string }[];
  edges: { source: string; target: string; conditional?: boolean; data?: string }[];
}

/** A part of a stored message, in the shape of the AI SDK. */
export interface StoredPart {
  type: string;
  text?: string;
  toolCallId?: string;
  state?: string;
  input?: Json;
  output?: Json;
  errorText?: string;
  mediaType?: string;
  url?: string;
  data?: Json;
}

/** A stored message, in the shape of the AI SDK. */
export interface StoredMessage {
  id: string;
  role: "user" | "assistant";
  parts: StoredPart[];
  metadata?: {
    /** Last run of an answer; an answer that came with a copy of a thread has none. */
    runId?: string;
    error?: string;
    finishReason?: string;
    /** Checkpoint before a message of the user; `null` for the first one. */
    checkpointId?: string | null;
    /** Key under which a message of the user was sent. */
    idempotencyKey?: string;
    /** Run that stands in the place of the message, if it was replaced. */
    replacedBy?: string;
  } | null;
}
