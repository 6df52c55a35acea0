// `useStream` of the SDK, with a reload while a run streams and one while it asks: hook.mjs URL
import assert from "node:assert/strict";
import { mount, until } from "./page.mjs";
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

// A reload while a run streams.
const steps = 12;
const long = {};
let first = page("slow", long);
await until(() => first.now);
first.now.submit({ steps, delay: 0.1 }, { streamMode: ["values", "updates"], streamResumable: true });
await until(() => first.now.values?.log?.length >= 3);
const seen = first.now.values.log.length;
assert.ok(seen < steps, `${seen} steps before the reload`);
first.unmount();
const second = page("slow", long);
await until(() => second.now?.isLoading);
await until(() => second.now.values?.log?.length > seen && second.now.isLoading);
await until(() => second.now.values?.log?.length === steps && !second.now.isLoading);
assert.deepEqual(second.now.values.log, Array.from({ length: steps }, (_, n) => `step${n}`));
second.unmount();

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
first = page("inter", asked);
await until(() => first.now);
first.now.submit({ q: "from a page" });
await until(() => first.now.interrupt);
first.unmount();
const third = page("inter", asked);
await until(() => third.now?.interrupt);
assert.deepEqual(third.now.interrupt.value, { question: "approve?", q: "from a page" });
third.now.submit(undefined, { command: { resume: "yes" } });
await until(() => third.now.values?.note === "done:yes" && !third.now.isLoading);
third.unmount();
console.log("passed");
process.exit(0);
