// `useStream` of the SDK, with a reload while a run streams and one while it asks: hook.mjs URL
import assert from "node:assert/strict";
import { mount, reload, until } from "./page.mjs";
import { useStream } from "@langchain/langgraph-sdk/react";

const apiUrl = process.argv[2];

function page(assistantId, thread) {
  return mount(() => useStream({
    apiUrl,
    apiKey: null,
    assistantId,
    threadId: thread.id ?? null,
    onThreadId: (id) => { thread.id = id; },
    reconnectOnMount: true,
    fetchStateHistory: true,
  }));
}

const long = {};
const options = { streamMode: ["values", "updates"], streamResumable: true };
await reload(() => page("slow", long), (now, input) => now.submit(input, options));

// Words of messages, whole and once.
const chat = {};
const talk = page("agent", chat);
await until(() => talk.now);
talk.now.submit({ messages: [{ type: "human", content: "2+3?" }] });
await until(() => talk.now.messages.length === 4 && !talk.now.isLoading);
assert.equal(talk.now.messages.at(-1).content, "The answer is 5 as computed by the tool");
assert.equal(talk.now.messages[1].tool_calls[0].name, "add");
talk.unmount();

// A reload while the run asks, and an answer after it.
const asked = {};
const first = page("inter", asked);
await until(() => first.now);
first.now.submit({ q: "from a page" });
await until(() => first.now.interrupt);
first.unmount();
const second = page("inter", asked);
await until(() => second.now?.interrupt);
assert.deepEqual(second.now.interrupt.value, { question: "approve?", q: "from a page" });
second.now.submit(undefined, { command: { resume: "yes" } });
await until(() => second.now.values?.note === "done:yes" && !second.now.isLoading);
second.unmount();
console.log("passed");
process.exit(0);
