// Uses the SDK against a server: sdk.mjs URL
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.argv[2], apiKey: null });
const names = (events) => events.map(({ event }) => event);

async function events(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}

async function threads() {
  const made = await client.threads.create({ metadata: { js: 1 } });
  assert.equal((await client.threads.get(made.thread_id)).status, "idle");
  await client.threads.update(made.thread_id, { metadata: { js: 2 } });
  const found = await client.threads.search({ metadata: { js: 2 } });
  assert.ok(found.some((row) => row.thread_id === made.thread_id));
  await client.threads.delete(made.thread_id);
  await assert.rejects(client.threads.get(made.thread_id));
}

async function runs() {
  const assistants = await client.assistants.search({ limit: 20 });
  assert.ok(assistants.some((row) => row.graph_id === "echo"));
  assert.equal((await client.runs.wait(null, "echo", { input: { msg: "js" } })).out, "echo:js");
  const { thread_id } = await client.threads.create();
  const run = await client.runs.create(thread_id, "slow", { input: { delay: 0.01 } });
  const values = await client.runs.join(thread_id, run.run_id);
  assert.deepEqual(values.log, ["step0", "step1", "step2"]);
  const all = await events(client.runs.joinStream(thread_id, run.run_id, { lastEventId: "-1", streamMode: ["updates"] }));
  assert.deepEqual(names(all).filter((name) => name === "updates").length, 3);
  const history = await client.threads.getHistory(thread_id, { limit: 2 });
  assert.equal(history.length, 2);
  await client.threads.updateState(thread_id, { values: { log: ["by hand"] }, asNode: "slow" });
  assert.equal((await client.threads.getState(thread_id)).values.log.at(-1), "by hand");
  const long = await client.runs.create(thread_id, "slow", { input: { steps: 90, delay: 0.1 } });
  await client.runs.cancel(thread_id, long.run_id, true);
  assert.equal((await client.runs.get(thread_id, long.run_id)).status, "interrupted");
}

async function messages() {
  const { thread_id } = await client.threads.create();
  const input = { messages: [{ type: "human", content: "2+3?" }] };
  const streamMode = ["values", "messages-tuple", "updates"];
  const all = await events(client.runs.stream(thread_id, "agent", { input, streamMode }));
  const chunks = all.filter(({ event }) => event === "messages");
  const text = chunks.filter(({ data }) => data[1].langgraph_node === "agent").map(({ data }) => data[0].content);
  assert.equal(text.join(""), "Let me add theseThe answer is 5 as computed by the tool");
  const nested = await events(client.runs.stream(null, "parent", { input: { msg: "a" }, streamMode: "updates", streamSubgraphs: true }));
  assert.ok(names(nested).some((name) => name.startsWith("updates|sub:")), names(nested).join());
}

async function questions() {
  const { thread_id } = await client.threads.create();
  const asked = await client.runs.wait(thread_id, "inter", { input: { q: "x" } });
  assert.deepEqual(asked.__interrupt__[0].value, { question: "approve?", q: "x" });
  const done = await client.runs.wait(thread_id, "inter", { command: { resume: "yes" } });
  assert.equal(done.note, "done:yes");
}

for (const test of [threads, runs, messages, questions]) {
  await test();
  console.log(`${test.name} passed`);
}
process.exit(0);
