// `threads.stream` of the JavaScript SDK, over server-sent events and WebSocket: thread_stream.mjs URL
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";
import { until } from "./page.mjs";

const apiUrl = process.argv[2];

async function questions(transport) {
  const client = new Client({ apiUrl, apiKey: null });
  const thread = client.threads.stream({ assistantId: "inter", transport });
  const events = await thread.subscribe(["lifecycle", "input", "values"]);
  await thread.run.start({ input: { q: "js" } });
  const seen = [];
  for await (const event of events) seen.push(event);
  assert.ok(thread.interrupted);
  assert.deepEqual(thread.interrupts[0].payload, { question: "approve?", q: "js" });
  const { interruptId, namespace } = thread.interrupts[0];
  await thread.input.respond({ namespace, interrupt_id: interruptId, response: "yes" });
  for await (const event of events) seen.push(event);
  const values = seen.filter(({ method }) => method === "values").map(({ params }) => params.data);
  assert.equal(values.at(-1).note, "done:yes");
  const ids = seen.map((event) => event.event_id);
  assert.equal(new Set(ids).size, ids.length, "each event once");
  const state = await thread.state.get({ namespace: [], keys: ["note"] });
  assert.deepEqual(state.values, { note: "done:yes" });
  const { checkpoints } = await thread.state.listCheckpoints({});
  assert.equal(checkpoints[0].id, state.checkpoint.id);
  // Another client of the thread, after its end.
  const later = client.threads.stream(thread.threadId, { assistantId: "inter", transport });
  const statuses = [];
  later.onEvent(({ method, params }) => method === "lifecycle" && statuses.push(params.data.event));
  await later.subscribe(["lifecycle"]);
  await until(() => statuses.length >= 4);
  assert.deepEqual(statuses, ["running", "interrupted", "running", "completed"]);
  await later.close();
  await thread.close();
}

async function messages(transport) {
  const client = new Client({ apiUrl, apiKey: null });
  const thread = client.threads.stream({ assistantId: "agent", transport });
  const { messages, toolCalls } = thread;
  await thread.run.start({ input: { messages: [{ type: "human", content: "2+3?" }] } });
  const texts = [];
  for await (const message of messages) texts.push(await message.text);
  assert.deepEqual(texts, ["Let me add these", "The answer is 5 as computed by the tool"]);
  // The SDK yields a call when it begins and when it ends.
  const calls = [];
  for await (const call of toolCalls) calls.push([call.name, await call.output]);
  assert.deepEqual(calls, [["add", "5"], ["add", "5"]]);
  const values = await thread.output;
  assert.equal(values.messages.length, 4);
  await thread.close();
}

for (const transport of ["sse", "websocket"]) {
  for (const test of [questions, messages]) {
    await test(transport);
    console.log(`${test.name} passed over ${transport}`);
  }
}
process.exit(0);
