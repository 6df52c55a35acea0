// The requests of agent-chat-ui, as it sends them, with an approval and a reload: agent_chat_requests.mjs URL
import assert from "node:assert/strict";

const url = process.argv[2];
const IMAGE = "iVBORw0KGgo=";

async function send(method, path, body) {
  const headers = { "content-type": "application/json", "x-api-key": "", "x-auth-scheme": "langsmith-api-key" };
  const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
  return response;
}

const json = async (method, path, body) => (await send(method, path, body)).json();

/** The events of a stream, as pairs of name and data. */
async function stream(thread, body) {
  const options = { assistant_id: "desk", stream_mode: ["values", "messages-tuple", "custom"], stream_subgraphs: true, stream_resumable: true, on_disconnect: "continue" };
  const response = await send("POST", `/threads/${thread}/runs/stream`, { ...options, ...body });
  const blocks = (await response.text()).split("\n\n").filter((block) => block.includes("event:"));
  const events = blocks.map((block) => {
    const field = (name) => block.split("\n").find((line) => line.startsWith(name))?.slice(name.length).trim();
    return { event: field("event:"), data: JSON.parse(field("data:") || "null") };
  });
  return { events, ignored: response.headers.get("x-ignored-input"), values: events.filter(({ event }) => event === "values").at(-1)?.data };
}

const human = (content) => ({ id: crypto.randomUUID(), type: "human", content });

async function the_page_opens() {
  await json("GET", "/info");
  assert.ok(Array.isArray(await json("POST", "/threads/search", { metadata: { graph_id: "desk" }, limit: 100, offset: 0 })));
}

async function a_turn_with_an_image_and_the_context_of_the_artifact() {
  const { thread_id } = await json("POST", "/threads", {});
  const content = [
    { type: "text", text: "Where is order A1003?" },
    { type: "image", mimeType: "image/png", data: IMAGE, metadata: { name: "lamp.png" } },
    { type: "image", source_type: "base64", mime_type: "image/png", data: IMAGE, metadata: { name: "old.png" } },
  ];
  const { events, ignored, values } = await stream(thread_id, { input: { messages: [human(content)], context: { title: "t" } } });
  assert.equal(ignored, "context");
  assert.match(values.messages.at(-1).content, /wall lamp/);
  assert.ok(events.some(({ event }) => event.startsWith("messages")));
  const found = await json("POST", "/threads/search", { metadata: { graph_id: "desk" }, limit: 100, offset: 0 });
  assert.ok(found.some((thread) => thread.thread_id === thread_id && thread.values.messages.length === 4));
  // Another answer to the same message, from the checkpoint before it.
  const history = await json("POST", `/threads/${thread_id}/history`, { limit: 10 });
  const before = history.find(({ values }) => !values.messages?.some(({ type }) => type === "ai") && values.messages?.length === 1);
  const again = await stream(thread_id, { input: null, checkpoint: before.checkpoint });
  assert.match(again.values.messages.at(-1).content, /wall lamp/);
  assert.equal(again.values.messages.length, 4);
}

async function an_approval_after_a_reload() {
  const { thread_id } = await json("POST", "/threads", {});
  const asked = await stream(thread_id, { input: { messages: [human("Refund order A1001, amount 25.")] } });
  const [question] = asked.values.__interrupt__;
  assert.equal(question.value.action_requests[0].name, "refund_order");
  // The page is loaded again: the question is in the state of the thread.
  const [newest] = await json("POST", `/threads/${thread_id}/history`, { limit: 10 });
  assert.deepEqual(newest.tasks.flatMap(({ interrupts }) => interrupts.map(({ id }) => id)), [question.id]);
  const done = await stream(thread_id, { input: {}, command: { resume: { decisions: [{ type: "approve" }] } } });
  assert.match(done.values.messages.findLast(({ type }) => type === "tool").content, /refunded 25/);
}

for (const test of [the_page_opens, a_turn_with_an_image_and_the_context_of_the_artifact, an_approval_after_a_reload]) {
  await test();
  console.log(`${test.name} passed`);
}
process.exit(0);
