// `@assistant-ui/react-langgraph` with a tool call, an approval and reloads: assistant_ui.mjs URL
import assert from "node:assert/strict";
import { mount, until } from "./page.mjs";
import { createElement as h } from "react";
import { Client } from "@langchain/langgraph-sdk";
import { AssistantRuntimeProvider, useAui, useAuiState } from "@assistant-ui/react";
import { unstable_createLangGraphStream, useLangGraphInterruptState, useLangGraphRuntime, useLangGraphSendCommand } from "@assistant-ui/react-langgraph";

const client = new Client({ apiUrl: process.argv[2], apiKey: null });

/** A page on a thread, which it creates unless there is one. */
function page(thread, more = {}) {
  const stream = unstable_createLangGraphStream({ client, assistantId: "desk", ...more });
  function Around({ children }) {
    const runtime = useLangGraphRuntime({
      stream,
      threadId: thread.id,
      unstable_threadListAdapter: {
        list: async () => ({ threads: thread.id ? [{ status: "regular", remoteId: thread.id, externalId: thread.id }] : [] }),
        initialize: async () => {
          const { thread_id } = await client.threads.create();
          thread.id = thread_id;
          return { remoteId: thread_id, externalId: thread_id };
        },
        fetch: async (id) => ({ status: "regular", remoteId: id, externalId: id }),
        rename: async () => {}, archive: async () => {}, unarchive: async () => {}, delete: async () => {},
        generateTitle: async () => new ReadableStream({ start: (all) => all.close() }),
      },
      load: async (id) => {
        const { values, tasks } = await client.threads.getState(id);
        return { messages: values.messages ?? [], interrupts: tasks[0]?.interrupts ?? [] };
      },
    });
    return h(AssistantRuntimeProvider, { runtime }, children);
  }
  return mount(() => ({
    aui: useAui(),
    messages: useAuiState(({ thread }) => thread.messages),
    isRunning: useAuiState(({ thread }) => thread.isRunning),
    interrupt: useLangGraphInterruptState(),
    send: useLangGraphSendCommand(),
  }), (element) => h(Around, null, element));
}

const parts = ({ now }) => now.messages.flatMap(({ content }) => content);
const say = ({ now }, text) => now.aui.thread().append({ role: "user", content: [{ type: "text", text }] });
const shows = (page, text) => until(() => !page.now.isRunning && parts(page).some((part) => part.type === "text" && part.text.includes(text)));

const thread = {};
const first = page(thread);
await until(() => first.now);
say(first, "Where is order A1003?");
await shows(first, "wall lamp");
assert.match(JSON.stringify(parts(first).find(({ type }) => type === "tool-call").result), /wall lamp/);
first.unmount();

// The page is loaded again, and goes on.
const second = page(thread);
await until(() => second.now?.messages.length >= 2);
say(second, "Refund order A1001, amount 25.");
await until(() => second.now.interrupt);
second.unmount();

// It is loaded again while the question is open.
const third = page(thread);
const asked = await until(() => third.now?.interrupt);
assert.equal(asked.value.action_requests[0].name, "refund_order");
third.now.send({ resume: { decisions: [{ type: "approve" }] } });
await until(() => !third.now.isRunning && parts(third).some(({ toolName, result }) => toolName === "refund_order" && result));
assert.equal(third.now.interrupt, undefined);
third.unmount();

// Messages as pairs of chunk and metadata.
const pairs = page({}, { streamMode: ["messages-tuple", "updates", "custom"] });
await until(() => pairs.now);
say(pairs, "Where is order A1003?");
await shows(pairs, "wall lamp");
const call = parts(pairs).find(({ type }) => type === "tool-call");
assert.equal(JSON.stringify(call.args), JSON.stringify({ order_id: "A1003" }));
assert.match(JSON.stringify(call.result), /wall lamp/);
assert.equal(parts(pairs).filter(({ type, text }) => type === "text" && /wall lamp/.test(text)).length, 1);
pairs.unmount();
console.log("passed");
process.exit(0);
