// `useStream` of `@langchain/react`, over server-sent events and over WebSocket, with a reload while
// a run streams and one while it asks: hook_commands.mjs URL
import assert from "node:assert/strict";
import { mount, reload, until } from "./page.mjs";
import { useStream } from "@langchain/react";

const apiUrl = process.argv[2];

function page(assistantId, thread, transport) {
  return mount(() => useStream({
    apiUrl,
    apiKey: null,
    assistantId,
    threadId: thread.id ?? null,
    onThreadId: (id) => { thread.id = id; },
    transport,
  }));
}

async function questions(transport) {
  const asked = {};
  const first = page("inter", asked, transport);
  await until(() => first.now);
  first.now.submit({ q: "from a page" });
  await until(() => first.now.interrupt);
  assert.deepEqual(first.now.interrupt.value, { question: "approve?", q: "from a page" });
  first.unmount();
  const second = page("inter", asked, transport);
  await until(() => second.now?.interrupt);
  assert.deepEqual(second.now.interrupt.value, { question: "approve?", q: "from a page" });
  await until(() => second.now.getThread()?.interrupts.length === 1);
  second.now.respond("yes");
  await until(() => second.now.values?.note === "done:yes" && !second.now.isLoading);
  assert.equal(second.now.interrupt, undefined);
  second.unmount();
}

async function messages(transport) {
  const talk = page("agent", {}, transport);
  await until(() => talk.now);
  talk.now.submit({ messages: [{ type: "human", content: "2+3?" }] });
  // The end of the run and the words arrive on two subscriptions, in either order.
  await until(() => talk.now.messages[3]?.text && !talk.now.isLoading);
  assert.deepEqual(talk.now.messages.map((message) => message.type), ["human", "ai", "tool", "ai"]);
  assert.equal(talk.now.messages.at(-1).text, "The answer is 5 as computed by the tool");
  assert.equal(talk.now.messages[1].tool_calls[0].name, "add");
  // A second turn on the same page.
  talk.now.submit({ messages: [{ type: "human", content: "again?" }] });
  await until(() => talk.now.messages.length === 8 && !talk.now.isLoading);
  talk.unmount();
}

async function reloads(transport) {
  const long = {};
  await reload(() => page("slow", long, transport), (now, input) => now.submit(input));
}

const transports = ["sse", "websocket"];
await Promise.all(transports.flatMap((transport) => [questions, messages, reloads].map(async (test) => {
  try {
    await test(transport);
    console.log(`${test.name} passed over ${transport}`);
  } catch (error) {
    throw new Error(`${test.name} over ${transport}`, { cause: error });
  }
})));
process.exit(0);
