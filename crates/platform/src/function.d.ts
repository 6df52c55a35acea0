/** What the function `handler` of a function agent gets, and may call. */

/** A value of JSON. */
type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The request. */
interface Input {
  /** The last message of the user. */
  message: string;
  /** Details of the request. */
  payload: { title?: string; [name: string]: Json | undefined };
  mode: "build";
  /** Id of the thread of the conversation. */
  conversation: string;
  /** Input of the agent, as its `input_schema` describes it. */
  input: Json;
}

/** A version of a deliverable. */
interface Version {
  number: number;
  title: string;
  format: "json" | "markdown" | "html";
  [name: string]: Json;
}

/** A deliverable of the conversation. */
interface Deliverable {
  id: string;
  current: number;
  versions: Version[];
  [name: string]: Json | Version[];
}

/**
 * Each member has to be named by `transport.function.grants` of the definition. A refused or failed call is
 * an `Error` with the member `code`.
 */
interface Ctx {
  /** Asks the model of the agent. With a `schema`, the answer is a value that satisfies it. */
  model(request: string): Promise<string>;
  model(request: {
    messages: { role: "system" | "user" | "assistant"; content: string }[];
    schema?: { [name: string]: Json };
  }): Promise<Json>;
  /** Calls a tool of the key `tools`, and returns its result as it may be shown. */
  tools(name: string, args?: { [name: string]: Json }): Promise<Json>;
  deliverables: {
    list(): Promise<Deliverable[]>;
    /** The text of the current version, whatever its format. */
    read(id: string): Promise<{ record: Deliverable; content: string }>;
  };
  /** Items of the agent in the long-term store of the organisation. */
  store: {
    get(key: string): Promise<{ [name: string]: Json } | null>;
    put(key: string, value: { [name: string]: Json }): Promise<null>;
    /** Returns whether there was one. */
    delete(key: string): Promise<boolean>;
    /** Without a query, the first items; at most 100. */
    search(
      request: string | { query?: string; limit?: number },
    ): Promise<{ key: string; value: { [name: string]: Json } }[]>;
  };
  agents: {
    /** Asks an agent of `orchestration.availableAgents`; by default it builds. Needs the grant `agents`. */
    call(
      slug: string,
      request:
        | string
        | {
            message?: string;
            mode?: "converse" | "plan" | "build";
            input?: Json;
            payload?: { [name: string]: Json };
          },
    ): Promise<{ content: Json; metadata: { [name: string]: Json } }>;
    /** Stores a definition that nobody gets before a person makes it current. Needs the grant `drafts`. */
    draft(definition: { slug: string; files: { [name: string]: string } }): Promise<{
      slug: string;
      version: string;
    }>;
  };
  /** The results of the steps of the orchestration, by their ids; needs no grant. */
  results: { [step: string]: { status: string; content: Json } };
  /** Sends an event into the stream of the run. */
  emit(value: Json): Promise<null>;
  /** Writes a line into the log of the operator. */
  log(line: Json): Promise<null>;
}

/** What a handler returns: a whole deliverable, a result, or any value as the content. */
type Returned = { deliverable: { title?: string; content: Json } } | { result: Json } | Json;

type Handler = (input: Input, ctx: Ctx) => Returned | Promise<Returned>;
