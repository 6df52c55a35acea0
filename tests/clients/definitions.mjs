// An agent that is defined in a folder, asked by the SDK and by a chat of the AI SDK: definitions.mjs URL
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";
import { DefaultChatTransport } from "ai";
import { Chat } from "@ai-sdk/vue";

const url = process.argv[2];
const AGENT = "golf-rules";
const QUESTION = "How many clubs may a player carry?";
const textOf = ({ parts }) => parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");

async function sdk() {
  const client = new Client({ apiUrl: url, apiKey: null });
  const assistants = await client.assistants.search({ limit: 100 });
  assert.equal(assistants.filter(({ graph_id }) => graph_id === AGENT).length, 1);
  const { thread_id } = await client.threads.create();
  const input = { messages: [{ type: "human", content: QUESTION }] };
  let streamed = "";
  let values;
  for await (const { event, data } of client.runs.stream(thread_id, AGENT, { input, streamMode: ["messages-tuple", "values"] })) {
    if (event === "messages" && data[0].type === "AIMessageChunk") streamed += data[0].content;
    if (event === "values") values = data;
  }
  assert.equal(streamed, values.messages.at(-1).content);
  assert.match(streamed, /14/);
  const built = await client.runs.wait(thread_id, AGENT, { input: { ...input, mode: "build" } });
  const query = new URLSearchParams({ conversationId: thread_id });
  const { content } = await (await fetch(`${url}/deliverables?${query}`)).json();
  assert.deepEqual(content.map(({ id, current }) => [id, current]), [[built.answer.metadata.deliverable.id, 1]]);
}

async function chat() {
  const id = crypto.randomUUID();
  const open = (messages) => new Chat({
    id, messages, transport: new DefaultChatTransport({ api: `${url}/chat/${AGENT}` }),
    onError: (error) => { throw error; },
  });
  const first = open([]);
  await first.sendMessage({ text: QUESTION });
  assert.match(textOf(first.messages.at(-1)), /14/);
  const stored = await (await fetch(`${url}/chat/${AGENT}/${id}`)).json();
  assert.deepEqual(stored.map(textOf), first.messages.map(textOf));
  const second = open(stored);
  await second.sendMessage({ text: QUESTION });
  assert.equal(second.messages.length, 4);
}

await sdk();
await chat();
process.exit(0);
