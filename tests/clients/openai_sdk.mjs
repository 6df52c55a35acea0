// OpenAI's SDK for JavaScript against agents that are exposed by its API: openai_sdk.mjs URL TOKEN
import assert from "node:assert/strict";
import OpenAI from "openai";

const [url, token] = process.argv.slice(2);
const open = (options) => new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0, ...options });
const client = open();
const messages = [{ role: "user", content: "Hello" }];

async function models() {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  assert.ok(ids.includes("golf") && ids.includes("shop") && !ids.includes("hidden"), ids.join());
}

async function chats() {
  const whole = await client.chat.completions.create({ model: "golf", messages });
  const text = whole.choices[0].message.content;
  assert.ok(text);
  assert.equal(whole.choices[0].finish_reason, "stop");
  let streamed = "";
  const chunks = await client.chat.completions.create({ model: "golf", messages, stream: true });
  for await (const chunk of chunks) streamed += chunk.choices[0].delta.content ?? "";
  assert.equal(streamed, text);
  const runner = client.chat.completions.stream({ model: "golf", messages });
  assert.equal(await runner.finalContent(), text);
}

async function responses() {
  const whole = await client.responses.create({ model: "golf", input: "Hello" });
  assert.ok(whole.output_text);
  assert.deepEqual(await client.responses.retrieve(whole.id), whole);
  const stream = client.responses.stream({ model: "golf", input: "Hello" });
  let text = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
  assert.equal(text, whole.output_text);
  const final = await stream.finalResponse();
  const more = await client.responses.create({ model: "golf", input: "More", previous_response_id: final.id });
  assert.equal(more.status, "completed");
  await client.responses.delete(whole.id);
  await assert.rejects(client.responses.retrieve(whole.id), OpenAI.NotFoundError);
}

async function approval() {
  const waiting = await client.responses.create({ model: "shop", input: "Order." });
  const request = waiting.output.find(({ type }) => type === "mcp_approval_request");
  const input = [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }];
  const body = { model: "shop", previous_response_id: waiting.id, input };
  const done = await client.responses.create(body);
  assert.equal(done.status, "completed");
  assert.match(done.output_text, /order/);
  await assert.rejects(client.responses.create(body), OpenAI.ConflictError);
}

async function errors() {
  await assert.rejects(open({ apiKey: "a-token-of-nobody-at-all" }).models.list(), OpenAI.AuthenticationError);
  const ask = (model, of = client, more = {}) => of.chat.completions.create({ model, messages, ...more });
  await assert.rejects(ask("hidden"), OpenAI.NotFoundError);
  await assert.rejects(ask("golf", client, { messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(ask("poor", open({ maxRetries: 2 })), OpenAI.RateLimitError);
  const stream = await ask("poor", client, { stream: true });
  await assert.rejects(async () => { for await (const _ of stream); }, OpenAI.APIError);
}

await models();
await chats();
await responses();
await approval();
await errors();
