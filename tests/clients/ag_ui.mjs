// `@ag-ui/langgraph` against a server, with a tool call, an approval and reloads: ag_ui.mjs URL
import assert from "node:assert/strict";
import { EventType } from "@ag-ui/client";
import { LangGraphAgent } from "@ag-ui/langgraph";

const deploymentUrl = process.argv[2];
console.warn = console.debug = () => {};

/** A page: an agent on a thread, with the messages that the page has. */
function page(threadId, messages = [], more = {}) {
  const agent = new LangGraphAgent({ deploymentUrl, graphId: "desk", threadId, initialMessages: messages, ...more });
  return agent;
}

/** Runs an agent; its events are checked for their order by the client. */
async function run(agent, options = {}) {
  const events = [];
  await agent.runAgent(options, { onEvent: ({ event }) => { events.push(event); } });
  return events;
}

const kinds = (events) => events.map(({ type }) => type).filter((type) => type !== EventType.RAW);
const of = (events, type) => events.filter((event) => event.type === type);
/** `true` if an answer has a text: the client appends messages that it did not have, in any order. */
const says = ({ messages }, text) => messages.some(({ role, content }) => role === "assistant" && text.test(content ?? ""));
const user = (id, content) => ({ id, role: "user", content });
const tools = [{ name: "show_map", description: "Shows a map", parameters: { type: "object", properties: {} } }];

async function a_turn_has_its_tool_call_text_and_usage() {
  const agent = page(crypto.randomUUID(), [user("u1", "Where is order A1003?")]);
  const events = await run(agent, { tools, context: [{ description: "page", value: "orders" }] });
  const [start] = of(events, EventType.TOOL_CALL_START);
  assert.equal(start.toolCallName, "lookup_order");
  assert.deepEqual(JSON.parse(of(events, EventType.TOOL_CALL_ARGS).map(({ delta }) => delta).join("")), { order_id: "A1003" });
  assert.equal(of(events, EventType.TOOL_CALL_END).length, 1);
  const [result] = of(events, EventType.TOOL_CALL_RESULT);
  assert.equal(result.toolCallId, start.toolCallId);
  assert.match(result.content, /wall lamp/);
  assert.match(of(events, EventType.TEXT_MESSAGE_CONTENT).map(({ delta }) => delta).join(""), /wall lamp/);
  assert.equal(of(events, EventType.TEXT_MESSAGE_END).length, of(events, EventType.TEXT_MESSAGE_START).length);
  const steps = of(events, EventType.STEP_STARTED).map(({ stepName }) => stepName);
  assert.ok(["model", "tool"].every((name) => steps.includes(name)), steps.join());
  const finished = events.at(-1);
  assert.equal(finished.type, EventType.RUN_FINISHED, kinds(events).join());
  assert.ok(finished.usage[0].inputTokens > 0 && finished.usage[0].model, JSON.stringify(finished));
  assert.deepEqual(agent.messages.map(({ role }) => role).sort(), ["assistant", "assistant", "tool", "user"]);
  // The second turn goes on with the messages of the first, also in a page that was loaded again.
  const again = page(agent.threadId, [...agent.messages, user("u2", "Where is order A1001?")]);
  await run(again, { tools });
  assert.ok(says(again, /desk lamp/));
  assert.equal(again.messages.length, 8);
}

/** Asks for a refund; returns the page with the open question. */
async function asked(more) {
  const agent = page(crypto.randomUUID(), [user("u1", "Refund order A1001, amount 25.")], more);
  const events = await run(agent);
  assert.equal(events.at(-1).type, EventType.RUN_FINISHED);
  return { agent, events };
}

async function an_approval_is_answered_by_the_command_after_a_reload() {
  const { agent, events } = await asked();
  const [question] = of(events, EventType.CUSTOM).filter(({ name }) => name === "on_interrupt");
  const [action] = JSON.parse(question.value).action_requests;
  assert.deepEqual([action.name, action.args], ["refund_order", { order_id: "A1001", amount: 25 }]);
  // A page that is loaded again finds the question open, and runs nothing.
  const second = page(agent.threadId, agent.messages);
  const found = await run(second);
  assert.ok(of(found, EventType.CUSTOM).some(({ name }) => name === "on_interrupt"), kinds(found).join());
  const done = await run(second, { forwardedProps: { command: { resume: { decisions: [{ type: "approve" }] } } } });
  assert.equal(of(done, EventType.TOOL_CALL_RESULT).length, 1, kinds(done).join());
  assert.match(second.messages.findLast(({ role }) => role === "tool").content, /refunded 25/);
}

async function an_approval_is_answered_by_the_protocol() {
  const { agent, events } = await asked({ emitInterruptOutcome: true });
  const { outcome } = events.at(-1);
  assert.equal(outcome.type, "interrupt");
  const [{ id }] = outcome.interrupts;
  const resume = [{ interruptId: id, status: "resolved", payload: { decisions: [{ type: "reject", message: "too much" }] } }];
  const done = await run(agent, { resume });
  assert.equal(done.at(-1).type, EventType.RUN_FINISHED);
  assert.equal(done.at(-1).outcome?.type ?? "success", "success", JSON.stringify(done.at(-1)));
  assert.match(agent.messages.findLast(({ role }) => role === "tool").content, /too much/);
}

async function a_page_that_has_only_its_own_message_goes_on() {
  const agent = page(crypto.randomUUID(), [user("u1", "Where is order A1003?")]);
  await run(agent);
  const fresh = page(agent.threadId, [user("u9", "Where is order A1001?")]);
  await run(fresh);
  assert.ok(says(fresh, /desk lamp/));
  assert.equal(fresh.messages.length, 8);
}

async function a_question_stays_open_for_a_page_that_asks_something_else() {
  const { agent } = await asked();
  const fresh = page(agent.threadId, [user("u9", "Where is order A1001?")]);
  const events = await run(fresh);
  assert.ok(of(events, EventType.CUSTOM).some(({ name }) => name === "on_interrupt"), kinds(events).join());
  assert.equal(events.at(-1).type, EventType.RUN_FINISHED);
}

async function text_comes_in_parts_and_a_page_that_stops_it_asks_again() {
  const agent = page(crypto.randomUUID(), [user("u1", "Where is order A1003?")], { graphId: "slow_desk" });
  let stopped = false;
  const seen = [];
  const stop = ({ event }) => {
    seen.push(event);
    if (!stopped && of(seen, EventType.TEXT_MESSAGE_CONTENT).length === 2) {
      stopped = true;
      agent.abortRun();
    }
  };
  await agent.runAgent({}, { onEvent: stop }).catch(() => {});
  assert.ok(stopped, kinds(seen).join());
  const second = page(agent.threadId, [...agent.messages, user("u2", "Where is order A1001?")], { graphId: "slow_desk" });
  await run(second);
  assert.ok(says(second, /desk lamp/));
}

async function a_document_keeps_its_type() {
  const data = { type: "data", mimeType: "application/pdf", value: "JVBERi0=" };
  const content = [{ type: "text", text: "Where is order A1003?" }, { type: "document", source: data }];
  const agent = page(crypto.randomUUID(), [user("u1", content)]);
  await run(agent);
  assert.ok(says(agent, /wall lamp/));
  const state = await (await fetch(`${deploymentUrl}/threads/${agent.threadId}/state`)).json();
  assert.ok(state.values.messages[0].content.some(({ type, mime_type }) => type === "file" && mime_type === "application/pdf"));
}

async function an_edited_message_forks_the_thread() {
  const agent = page(crypto.randomUUID(), [user("u1", "Where is order A1003?")]);
  await run(agent);
  // The page has a message that the thread does not have, so that its last one is an edited one.
  agent.messages = [user("u0", "Hello"), user("u1", "Where is order A1001?")];
  await run(agent, { tools });
  assert.ok(says(agent, /desk lamp/), JSON.stringify(agent.messages));
}

const tests = [
  a_turn_has_its_tool_call_text_and_usage,
  an_approval_is_answered_by_the_command_after_a_reload,
  an_approval_is_answered_by_the_protocol,
  a_page_that_has_only_its_own_message_goes_on,
  a_question_stays_open_for_a_page_that_asks_something_else,
  text_comes_in_parts_and_a_page_that_stops_it_asks_again,
  a_document_keeps_its_type,
  an_edited_message_forks_the_thread,
];
for (const test of tests) {
  await test();
  console.log(`${test.name} passed`);
}
process.exit(0);
