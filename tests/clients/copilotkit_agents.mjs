// CopilotKit's runtime with agents that are exposed by AG-UI, with an approval and a reload:
// copilotkit_agents.mjs URL TOKEN
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { EventType, HttpAgent } from "@ag-ui/client";
import { CopilotRuntime, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const [base, token] = process.argv.slice(2);
console.warn = console.debug = () => {};

const headers = { authorization: `Bearer ${token}` };
const exposed = (slug) => new HttpAgent({ url: `${base}/agui/${slug}`, headers });
const agents = { golf: exposed("golf"), shop: exposed("shop") };
const runtime = new CopilotRuntime({ agents, runner: new InMemoryAgentRunner() });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = (slug) => `http://127.0.0.1:${server.address().port}/api/copilotkit/agent/${slug}/run`;

const page = (slug, threadId, initialMessages) => new HttpAgent({ url: url(slug), threadId, initialMessages });
const user = (id, content) => ({ id, role: "user", content });

async function run(agent, options = {}) {
  const events = [];
  const tools = [{ name: "show", description: "shows", parameters: { type: "object", properties: {} } }];
  await agent.runAgent({ tools, ...options }, { onEvent: ({ event }) => { events.push(event); } });
  return events;
}

const talk = page("golf", crypto.randomUUID(), [user("u1", "Hello")]);
const turn = await run(talk);
assert.equal(turn.at(-1).type, EventType.RUN_FINISHED, JSON.stringify(turn.at(-1)));
talk.messages = [...talk.messages, user("u2", "More")];
await run(talk);
const words = talk.messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
assert.equal(words.length, 2, JSON.stringify(talk.messages));
assert.ok(words.every((text) => text === "word0 word1 word2 word3 word4 "), words.join("|"));

const first = page("shop", crypto.randomUUID(), [user("u1", "Order.")]);
const asked = await run(first);
const { outcome } = asked.at(-1);
assert.equal(outcome?.type, "interrupt", JSON.stringify(asked.at(-1)));
const [{ id, toolCallId }] = outcome.interrupts;

// The page is loaded again and answers.
const second = page("shop", first.threadId, first.messages);
const resume = [{ interruptId: id, status: "resolved", payload: { approved: true } }];
const done = await run(second, { resume });
assert.equal(done.at(-1).type, EventType.RUN_FINISHED, JSON.stringify(done.at(-1)));
const result = second.messages.find((message) => message.role === "tool" && message.toolCallId === toolCallId);
assert.match(result.content, /order/);
console.log("copilotkit: runs an exposed agent, asks, and goes on after a reload");
process.exit(0);
