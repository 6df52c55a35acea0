// AG-UI's own client against agents that are exposed by it: ag_ui_agents.mjs URL TOKEN
// Versions 1.0 and before it check the order of events; the schemas of 1.0 check each of them.
import assert from "node:assert/strict";
import { HttpAgent as OldAgent } from "@ag-ui/client";
import { EventType, HttpAgent, buildResumeArray } from "@ag-ui/client-1";
import { EventSchema } from "@ag-ui/core-1/schemas";

const [base, token] = process.argv.slice(2);
const warnings = [];
console.warn = (...said) => { warnings.push(said.join(" ")); };
console.error = () => {};

/** A page: an agent on a thread, with the messages that the page has. */
function page(slug, threadId, initialMessages = [], Kind = HttpAgent) {
  const headers = { authorization: `Bearer ${token}` };
  return new Kind({ url: `${base}/agui/${slug}`, headers, threadId, initialMessages });
}

/** Runs an agent; its events are checked for their order by the client, and here by their schemas. */
async function run(agent, options = {}, onEvent = () => {}) {
  const events = [];
  const seen = ({ event }) => {
    events.push(event);
    EventSchema.parse(event);
    onEvent(event, events);
  };
  const { result } = await agent.runAgent(options, { onEvent: seen });
  return { events, result };
}

const of = (events, type) => events.filter((event) => event.type === type);
const user = (id, content) => ({ id, role: "user", content });
const texts = ({ messages }) => messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
const WORDS = "word0 word1 word2 word3 word4 ";

async function a_run_has_text_reasoning_state_and_usage() {
  const agent = page("golf", crypto.randomUUID(), [user("u1", "Hello")]);
  const { events, result } = await run(agent);
  assert.equal(result, WORDS);
  assert.deepEqual(texts(agent), [WORDS]);
  assert.deepEqual(agent.messages.map(({ role }) => role), ["user", "reasoning", "assistant"]);
  assert.equal(agent.state.content, WORDS);
  assert.equal(events.at(-1).outcome.type, "success");
  assert.equal(events.at(-1).usage[0].model, "m");
  assert.equal(of(events, EventType.STEP_STARTED).length, of(events, EventType.STEP_FINISHED).length);
  // The history of the page is sent again, and said once.
  agent.addMessage(user("u2", "More"));
  await run(agent);
  assert.deepEqual(agent.messages.filter(({ role }) => role !== "reasoning").map(({ id, role }) => (role === "user" ? id : role)),
    ["u1", "assistant", "u2", "assistant"]);
}

async function an_older_client_reads_the_same() {
  const agent = page("golf", crypto.randomUUID(), [user("u1", "Hello")], OldAgent);
  const { result } = await agent.runAgent({});
  assert.equal(result, WORDS);
  assert.deepEqual(texts(agent), [WORDS]);
}

async function a_reload_in_the_middle_goes_on_and_asks_nothing_again() {
  const runId = crypto.randomUUID();
  const agent = page("golf", crypto.randomUUID(), [user("u1", "slowly")]);
  let left = false;
  const leave = (event, events) => {
    if (!left && of(events, EventType.TEXT_MESSAGE_CONTENT).length === 2) {
      left = true;
      agent.abortRun();
    }
  };
  await run(agent, { runId }, leave).catch(() => {});
  assert.ok(left);
  // The page has the messages that it had, with a part of the answer, or none.
  const again = page("golf", agent.threadId, agent.messages);
  const fresh = page("golf", agent.threadId);
  const results = await Promise.all([run(again, { runId }), run(fresh, { runId })]);
  assert.deepEqual(results.map(({ result }) => result), [WORDS, WORDS]);
  for (const of of [again, fresh]) assert.deepEqual(texts(of), [WORDS], JSON.stringify(of.messages));
}

/** Asks for an order; returns the page with the open interrupt. */
async function asked() {
  const agent = page("shop", crypto.randomUUID(), [user("u1", "Order.")]);
  const { events } = await run(agent);
  const [call] = of(events, EventType.TOOL_CALL_START);
  const [interrupt] = agent.pendingInterrupts;
  assert.equal(interrupt.reason, "tool_call");
  assert.equal(interrupt.toolCallId, call.toolCallId);
  JSON.parse(of(events, EventType.TOOL_CALL_ARGS).map(({ delta }) => delta).join(""));
  return { agent, interrupt };
}

async function an_approval_is_answered_after_a_reload() {
  const { agent, interrupt } = await asked();
  const second = page("shop", agent.threadId, agent.messages);
  const resume = buildResumeArray([interrupt], { [interrupt.id]: { status: "resolved", payload: { approved: true } } });
  const { events } = await run(second, { resume });
  assert.equal(events.at(-1).outcome.type, "success");
  const results = of(events, EventType.TOOL_CALL_RESULT);
  assert.deepEqual(results.map(({ toolCallId }) => toolCallId), [interrupt.toolCallId]);
  assert.match(results[0].content, /order/);
  const owner = second.messages.findIndex(({ toolCalls }) => toolCalls?.some(({ id }) => id === interrupt.toolCallId));
  assert.equal(second.messages[owner + 1].role, "tool", JSON.stringify(second.messages));
  // The first answer counts.
  const late = await run(page("shop", agent.threadId), { resume });
  assert.equal(late.events.at(-1).type, EventType.RUN_ERROR);
}

async function an_approval_is_left() {
  const { agent, interrupt } = await asked();
  const resume = buildResumeArray([interrupt], { [interrupt.id]: { status: "cancelled" } });
  const { events } = await run(agent, { resume });
  assert.match(of(events, EventType.TOOL_CALL_RESULT)[0].content, /no decision/);
  // The agent fails without its call, and the conversation goes on.
  assert.equal(events.at(-1).type, EventType.RUN_ERROR);
  const next = page("shop", agent.threadId, [...agent.messages, user("u2", "Order again.")]);
  const { events: more } = await run(next);
  assert.equal(more.at(-1).outcome.type, "interrupt");
}

async function a_message_at_an_open_interrupt_is_an_error() {
  const { agent } = await asked();
  const other = page("shop", agent.threadId, [...agent.messages, user("u2", "More")]);
  const { events } = await run(other);
  assert.equal(events.at(-1).code, "W1038");
}

async function errors_of_requests_have_their_status() {
  await assert.rejects(run(page("hidden", "t", [user("u1", "Hello")])), ({ status }) => status === 404);
  await assert.rejects(run(page("golf", "t", [])), ({ status, payload }) => status === 400 && payload.error.code === "invalid_input");
}

async function a_run_is_cancelled() {
  const agent = page("golf", crypto.randomUUID(), [user("u1", "slowly")]);
  const runId = crypto.randomUUID();
  const cancel = (event) => {
    if (event.type !== EventType.TEXT_MESSAGE_START) return;
    const body = JSON.stringify({ threadId: agent.threadId, runId });
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    fetch(`${base}/agui/golf/cancel`, { method: "POST", headers, body });
  };
  const { events } = await run(agent, { runId }, cancel);
  assert.equal(events.at(-1).outcome.type, "cancelled");
}

const tests = [
  a_run_has_text_reasoning_state_and_usage,
  an_older_client_reads_the_same,
  a_reload_in_the_middle_goes_on_and_asks_nothing_again,
  an_approval_is_answered_after_a_reload,
  an_approval_is_left,
  a_message_at_an_open_interrupt_is_an_error,
  errors_of_requests_have_their_status,
  a_run_is_cancelled,
];
for (const test of tests) {
  await test();
  console.log(`${test.name} passed`);
}
assert.deepEqual(warnings, [], "the client repairs nothing");
process.exit(0);
