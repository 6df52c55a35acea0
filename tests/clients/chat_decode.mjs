// The decoders of assistant-stream and of the AI SDK over real responses, in writes of several
// sizes: chat_decode.mjs URL
import assert from "node:assert/strict";
import * as sdk7 from "ai";
import { lastAssistantMessageIsCompleteWithApprovalResponses, safeValidateUIMessages } from "ai";
import * as sdk6 from "ai-6";
import { AssistantMessageAccumulator, DataStreamDecoder, UIMessageStreamDecoder } from "assistant-stream";

const url = process.argv[2];
const AGENT = "desk";
const SIZES = [1, 23, 4096];
const FORMATS = ["ui-message-stream", "data-stream"];

/** Posts a body; returns the bytes of the response. */
async function post(body, protocol, agent = AGENT) {
  const response = await fetch(`${url}/chat/${agent}?protocol=${protocol}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  assert.equal(response.status, 200, new TextDecoder().decode(bytes));
  const header = protocol === "data-stream" ? "x-vercel-ai-data-stream" : "x-vercel-ai-ui-message-stream";
  assert.equal(response.headers.get(header), "v1");
  return bytes;
}

/** The bytes as a stream of writes of a size. */
function writes(bytes, size) {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, (at += size)));
    },
  });
}

/** The message that assistant-stream reads. */
async function accumulated(bytes, size, protocol) {
  const decoder = protocol === "data-stream" ? new DataStreamDecoder() : new UIMessageStreamDecoder();
  const reader = writes(bytes, size).pipeThrough(decoder).pipeThrough(new AssistantMessageAccumulator()).getReader();
  let last;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return last;
    last = value;
  }
}

/** The message that a version of the AI SDK reads, which continues another one. */
async function read(bytes, size, message, sdk = sdk7) {
  class Replay extends sdk.DefaultChatTransport {
    stream() { return this.processResponseStream(writes(bytes, size)); }
  }
  let last;
  const stream = new Replay().stream();
  const fail = (error) => { throw error; };
  for await (const now of sdk.readUIMessageStream({ stream, message, onError: fail, terminateOnError: true })) last = now;
  return last;
}

const user = (text) => ({ role: "user", content: [{ type: "text", text }] });
const result = (toolCallId, value) => ({
  role: "tool", content: [{ type: "tool-result", toolCallId, toolName: "x", output: { type: "json", value } }],
});
const stored = async (thread, agent = AGENT) => (await fetch(`${url}/chat/${agent}/${thread}`)).json();

/** Parts without those that readers keep elsewhere. */
const shape = (parts) => JSON.parse(JSON.stringify(parts)).flatMap((part) => {
  if (part.type === "text") return [["text", part.text]];
  if (part.type === "tool-call") return [[part.toolName, part.args, part.result ?? null]];
  if (part.type.startsWith("tool-")) return [[part.type.slice(5), part.input, part.output ?? null]];
  return [];
});

/** Says something, reads the response in each way, and returns what it means. */
async function turn(body, protocol, before) {
  const bytes = await post(body, protocol);
  let first;
  for (const size of SIZES) {
    const message = await accumulated(bytes, size, protocol);
    first ??= message;
    assert.deepEqual(shape(message.parts), shape(first.parts), `${protocol} in writes of ${size}`);
    assert.deepEqual(message.status, first.status);
    assert.ok(message.metadata.steps.some((step) => step.usage?.outputTokens > 0), "usage of a step");
    if (protocol === "ui-message-stream") {
      const read_ = await read(bytes, size, structuredClone(before));
      const own = read_.parts.slice(before?.parts.length ?? 0);
      assert.deepEqual(shape(own), shape(message.parts), `the AI SDK in writes of ${size}`);
      const older = await read(bytes, size, structuredClone(before), sdk6);
      assert.deepEqual(shape(older.parts), shape(read_.parts), `the AI SDK 6 in writes of ${size}`);
      assert.ok(read_.metadata.usage.outputTokens > 0);
      first.read = read_;
    }
  }
  return first;
}

for (const protocol of FORMATS) {
  const thread = `decode-${protocol}`;
  const say = (messages, before) => turn({ messages, threadId: thread }, protocol, before);
  // A tool, its result, and text.
  let message = await say([user("Where is order A1003?")]);
  assert.deepEqual(message.status, { type: "complete", reason: "stop" });
  const [call, text] = shape(message.parts);
  assert.deepEqual(call.slice(0, 2), ["lookup_order", { order_id: "A1003" }]);
  assert.equal(call[2].status, "on its way");
  assert.equal(text[0], "text");
  assert.deepEqual(shape((await stored(thread)).at(-1).parts), shape(message.parts));

  // An approval, given by the result of its call.
  message = await say([user("Refund order A1002, amount 40.")]);
  assert.deepEqual(message.status, { type: "requires-action", reason: "tool-calls" });
  const [refund, approval] = shape(message.parts);
  assert.deepEqual(refund, ["refund_order", { order_id: "A1002", amount: 40 }, null]);
  assert.equal(approval[0], "request_approval");
  assert.deepEqual(approval[1].args, { order_id: "A1002", amount: 40 });
  assert.deepEqual(approval[1].allowed, ["approve", "edit", "reject", "respond"]);
  assert.deepEqual(shape((await stored(thread)).at(-1).parts), [refund, approval]);
  const card = message.parts.find((part) => part.toolName === "request_approval");
  const before = message.read && { ...message.read, id: message.read.id };
  message = await say([user("x"), result(card.toolCallId, { type: "approve" })], before);
  assert.deepEqual(message.status, { type: "complete", reason: "stop" });
  // The response has no result for a call that it does not have; the stored message has it.
  const answer = shape(message.parts);
  assert.ok(answer.length === 1 && answer[0][0] === "text" && /refunded 40/.test(answer[0][1]), JSON.stringify(answer));
  const whole = shape((await stored(thread)).at(-1).parts);
  assert.deepEqual(whole.map((part) => part[0]), ["refund_order", "request_approval", "text"]);
  assert.equal(whole[0][2], "refunded 40 for A1002");
  if (before) assert.equal(message.read.id, before.id, "the answer goes on in the same message");

  // A question, answered by a typed text, after the client invented a result.
  message = await say([user("Refund order A1001.")]);
  assert.deepEqual(message.status, { type: "requires-action", reason: "tool-calls" });
  const [asked] = shape(message.parts);
  assert.equal(asked[0], "ask_human");
  const open = message.parts.find((part) => part.toolName === "ask_human");
  const invented = { role: "tool", content: [{
    type: "tool-result", toolCallId: open.toolCallId, toolName: "ask_human",
    output: { type: "error-json", value: { error: "Tool call was not completed" } },
  }] };
  message = await say([invented, user("25")]);
  assert.deepEqual(message.status, { type: "requires-action", reason: "tool-calls" });
  assert.deepEqual(shape(message.parts)[0], ["refund_order", { order_id: "A1001", amount: 25 }, null]);
  message = await say([user("no, wait until Monday")]);
  assert.deepEqual(message.status, { type: "complete", reason: "stop" });
}

// An approval by the AI SDK: the live message ends as the stored one.
for (const approved of [true, false]) {
  const thread = `decode-approval-${approved}`;
  const say = (messages) => post({ id: thread, messages }, "ui-message-stream");
  const asks = { id: "u1", role: "user", parts: [{ type: "text", text: "Refund order A1002, amount 40." }] };
  let live = await read(await say([asks]), 4096);
  const call = live.parts.find((part) => part.type === "tool-refund_order");
  assert.equal(call.state, "approval-requested");
  assert.ok(!lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [asks, live] }));
  // As `addToolApprovalResponse` does it.
  const decided = (part) => part.state === "approval-requested" && part.approval.id === call.approval.id;
  const approval = { id: call.approval.id, approved };
  live = structuredClone({ ...live, parts: live.parts.map((part) => (decided(part) ? { ...part, state: "approval-responded", approval } : part)) });
  assert.ok(lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [asks, live] }));
  live = await read(await say([asks, live]), 4096, structuredClone(live));
  const states = (parts) => parts.filter((part) => part.type.startsWith("tool-")).map((part) => [part.type, part.state, part.output ?? part.errorText]);
  const reloaded = (await stored(thread)).at(-1);
  assert.deepEqual(states(live.parts), states(reloaded.parts));
  assert.deepEqual(shape(live.parts), shape(reloaded.parts));
  assert.equal(states(live.parts)[0][1], approved ? "output-available" : "output-error");
  const valid = await safeValidateUIMessages({ messages: await stored(thread) });
  assert.ok(valid.success, String(valid.error));
}

// A retried answer: no reader fails, and the text that is void is set apart until a reload. A response
// that begins to follow the run after the failed attempt has none of its text.
const answer = "Good day to you.";
const parted = `Good mor\n\n---\n\n${answer}`;
const texts = (parts) => parts.filter((part) => part.type === "text").map((part) => part.text).join("");
for (const protocol of FORMATS) {
  const thread = `decode-stutter-${protocol}`;
  const bytes = await post({ threadId: thread, messages: [user("Hello")] }, protocol, "stutter");
  const expected = new TextDecoder().decode(bytes).includes("---") ? parted : answer;
  for (const size of SIZES) {
    assert.equal(texts((await accumulated(bytes, size, protocol)).parts), expected);
    if (protocol === "data-stream") continue;
    for (const sdk of [sdk6, sdk7]) assert.equal(texts((await read(bytes, size, undefined, sdk)).parts), expected);
  }
  assert.equal(texts((await stored(thread, "stutter")).at(-1).parts), answer);
}

// Two members that make calls with one id at a time: each decision reaches its own call, and each
// result its own part, live and after a reload.
for (const [name, sdk] of [["6", sdk6], ["7", sdk7]]) {
  for (const reloads of [false, true]) {
    const thread = `decode-pair-${name}-${reloads}`;
    const say = (messages) => post({ id: thread, messages }, "ui-message-stream", "pair");
    const greets = (message) => message.parts.filter((part) => part.type === "tool-greet");
    const asks = { id: "u1", role: "user", parts: [{ type: "text", text: "Greet both." }] };
    let live = await read(await say([asks]), 4096, undefined, sdk);
    const waiting = greets(live);
    assert.equal(waiting.length, 2);
    assert.ok(waiting.every((part) => part.state === "approval-requested"));
    const reloaded = (await stored(thread, "pair")).at(-1);
    const byId = (parts) => Object.fromEntries(parts.map((part) => [part.toolCallId, part.input]));
    assert.deepEqual(byId(greets(reloaded)), byId(waiting));
    live = structuredClone(reloads ? reloaded : live);
    for (const part of live.parts.filter((part) => part.state === "approval-requested")) {
      const input = part.input.args ?? part.input;
      Object.assign(part, { state: "approval-responded", approval: { id: part.approval.id, approved: input.name === "Anna" } });
    }
    live = await read(await say([asks, live]), 4096, structuredClone(live), sdk);
    const results = (message) => Object.fromEntries(greets(message).map((part) => [part.input.name, part.state]));
    const expected = { Anna: "output-available", Bert: "output-error" };
    assert.equal(greets(live).length, 2, "each result is in the part of its call");
    assert.deepEqual(results(live), expected);
    assert.deepEqual(results((await stored(thread, "pair")).at(-1)), expected);
  }
}
console.log("passed");
process.exit(0);
