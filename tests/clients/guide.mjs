// The front ends of docs/guide/clients.md, which guide.py has built: guide.mjs URL
import assert from "node:assert/strict";
import { mount, until } from "./page.mjs";
import { createElement } from "react";
import { useAui, useAuiState } from "@assistant-ui/react";
import * as adapter from "./guide_adapter.built.mjs";
import * as ui from "./guide_ui.built.mjs";
import * as sdk from "./guide_sdk.built.mjs";
import * as stream from "./guide_stream.built.mjs";

const REFUND = "Refund order A1002, amount 40.";

async function assistantUi() {
  const threadId = crypto.randomUUID();
  const hook = () => ({ aui: useAui(), messages: useAuiState((state) => state.thread.messages) });
  const page = mount(hook, (element) => createElement(ui.Desk, { threadId }, element));
  await until(() => page.now);
  page.now.aui.thread().append(REFUND);
  const calls = () => (page.now.messages.at(-1)?.content ?? []).filter(({ type }) => type === "tool-call");
  const card = await until(() => calls().find(({ toolName }) => toolName === "request_approval"));
  await until(() => page.now.messages.at(-1).status.type === "requires-action");
  const part = page.now.aui.thread().message({ index: page.now.messages.length - 1 }).part({ toolCallId: card.toolCallId });
  part.addToolResult({ type: "approve" });
  await until(() => page.now.messages.at(-1).content.some(({ text }) => /refunded 40/.test(text ?? "")));
  page.unmount();
}

async function aiSdk() {
  const threadId = crypto.randomUUID();
  const messages = await sdk.load(threadId);
  assert.deepEqual(messages, []);
  const page = mount(() => sdk.useDesk(threadId, messages));
  await until(() => page.now);
  page.now.sendMessage({ text: REFUND });
  const parts = () => page.now.messages.at(-1)?.parts ?? [];
  const card = await until(() => parts().find(({ type }) => type === "tool-request_approval"));
  await until(() => page.now.status === "ready");
  page.now.addToolOutput({ tool: "request_approval", toolCallId: card.toolCallId, output: { type: "approve" } });
  await until(() => parts().some(({ text }) => /refunded 40/.test(text ?? "")));
  await until(() => page.now.status === "ready");
  page.unmount();
  assert.equal((await sdk.load(threadId)).length, 2);
}

async function langGraph() {
  const page = mount(() => stream.useDesk());
  await until(() => page.now);
  page.now.say(REFUND);
  await until(() => page.now.interrupt);
  assert.equal(page.now.interrupt.value.action_requests[0].args.amount, 40);
  page.now.decide("approve");
  await until(() => /refunded 40/.test(page.now.messages.at(-1)?.content ?? "") && !page.now.isLoading);
  page.unmount();
}

async function agUi() {
  console.warn = () => {};
  const page = adapter.desk(crypto.randomUUID(), [{ id: "u1", role: "user", content: REFUND }]);
  await page.runAgent();
  await page.runAgent({ forwardedProps: { command: { resume: { decisions: [{ type: "approve" }] } } } });
  assert.ok(page.messages.some(({ role, content }) => role === "assistant" && /refunded 40/.test(content ?? "")));
}

for (const test of [assistantUi, aiSdk, langGraph, agUi]) {
  await test();
  console.log(`${test.name} passed`);
}
process.exit(0);
