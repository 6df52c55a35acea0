// CopilotKit's runtime with its agent for LangGraph, with a tool call, an approval and a reload:
// copilotkit.mjs URL
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { EventType, HttpAgent } from "@ag-ui/client";
import { CopilotRuntime, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { LangGraphAgent } from "@copilotkit/runtime/langgraph";

const deploymentUrl = process.argv[2];
console.warn = console.debug = () => {};

const desk = new LangGraphAgent({ deploymentUrl, graphId: "desk" });
const runtime = new CopilotRuntime({ agents: { desk }, runner: new InMemoryAgentRunner() });
const listener = createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" });
const server = createServer(listener);
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}/api/copilotkit/agent/desk/run`;

const page = (threadId, initialMessages) => new HttpAgent({ url, threadId, initialMessages });
const user = (id, content) => ({ id, role: "user", content });

async function run(agent, options = {}) {
  const events = [];
  await agent.runAgent({ tools: [{ name: "show", description: "shows", parameters: { type: "object", properties: {} } }], ...options }, { onEvent: ({ event }) => { events.push(event); } });
  return events;
}

const first = page(crypto.randomUUID(), [user("u1", "Where is order A1003?")]);
const turn = await run(first);
assert.equal(turn.at(-1).type, EventType.RUN_FINISHED, JSON.stringify(turn.at(-1)));
assert.ok(turn.some(({ type, toolCallName }) => type === EventType.TOOL_CALL_START && toolCallName === "lookup_order"));
assert.ok(first.messages.some(({ role, content }) => role === "assistant" && /wall lamp/.test(content ?? "")));

first.messages = [...first.messages, user("u2", "Refund order A1001, amount 25.")];
const asked = await run(first);
const question = asked.find(({ type, name }) => type === EventType.CUSTOM && name === "on_interrupt");
assert.equal(JSON.parse(question.value).action_requests[0].name, "refund_order");

// The page is loaded again and answers.
const second = page(first.threadId, first.messages);
const done = await run(second, { forwardedProps: { command: { resume: { decisions: [{ type: "approve" }] } } } });
assert.equal(done.at(-1).type, EventType.RUN_FINISHED, JSON.stringify(done.at(-1)));
assert.match(second.messages.findLast(({ role }) => role === "tool").content, /refunded 25/);
console.log("copilotkit: calls, asks, and goes on after a reload");
process.exit(0);
