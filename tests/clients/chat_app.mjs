// Two pages of a chat: `useDataStreamRuntime` of assistant-ui and `useChat` of the AI SDK. The query
// names the page, the address of the server, the agent, the thread, and the format.
import { useChat } from "@ai-sdk/react";
import {
  AssistantRuntimeProvider, ComposerPrimitive, ExportedMessageRepository, MessagePrimitive, ThreadPrimitive, useAuiState,
} from "@assistant-ui/react";
import { useDataStreamRuntime } from "@assistant-ui/react-data-stream";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { AssistantMessageAccumulator, DataStreamDecoder, UIMessageStreamDecoder } from "assistant-stream";
import { createElement as h, useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const [page, url, agent, thread, protocol] = ["page", "url", "agent", "thread", "protocol"].map((name) => query.get(name));
const api = `${url}/chat/${agent}?protocol=${protocol}`;
const HUMAN = ["ask_human", "request_approval"];
window.posts = 0;
const original = window.fetch;
window.fetch = (input, init) => {
  if (init?.method === "POST") window.posts += 1;
  return original(input, init);
};

/** A call, and buttons for one that waits for a person. */
function Call({ name, args, result, answer }) {
  const waits = HUMAN.includes(name) && result === undefined;
  const options = name === "request_approval" ? ["approve", "reject"] : ["12"];
  const value = (option) => (name === "request_approval" ? { type: option } : { answer: option });
  return h("div", { className: "call", "data-name": name, "data-state": result === undefined ? "open" : "done" },
    `${name} ${JSON.stringify(args)}`,
    result === undefined ? null : h("pre", { className: "result" }, JSON.stringify(result)),
    ...(waits ? options.map((option) => h("button", { key: option, className: option, onClick: () => answer(value(option)) }, option)) : []));
}

// Assistant-ui.

/** A stored message in the shape of assistant-ui. */
function converted({ id, role, parts, metadata }) {
  const content = parts.flatMap((part) => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    if (!part.type.startsWith("tool-")) return [];
    const result = part.state === "output-error" ? part.errorText : part.output;
    return [{ type: "tool-call", toolCallId: part.toolCallId, toolName: part.type.slice(5), args: part.input, argsText: JSON.stringify(part.input), ...(result === undefined ? {} : { result }) }];
  });
  if (role === "user") return { id, role, content };
  const pauses = metadata.finishReason === "tool-calls";
  const status = pauses ? { type: "requires-action", reason: "tool-calls" } : { type: "complete", reason: "stop" };
  const { inputTokens, outputTokens } = metadata.usage;
  const steps = [{ state: "finished", messageId: id, finishReason: metadata.finishReason, usage: { inputTokens, outputTokens }, isContinued: false }];
  return { id, role, content, status, metadata: { steps } };
}

/** Whether the server has answered with the history. */
let isRead = false;

const history = {
  async load() {
    const response = await original(`${url}/chat/${agent}/${thread}`);
    isRead = true;
    if (!response.ok) return { messages: [] };
    const messages = (await response.json()).map(converted);
    return { ...ExportedMessageRepository.fromArray(messages), unstable_resume: messages.at(-1)?.role === "user" };
  },
  async *resume() {
    const response = await original(`${url}/chat/${agent}/${thread}/stream?protocol=${protocol}`);
    if (response.status === 204) return;
    const decoder = protocol === "data-stream" ? new DataStreamDecoder() : new UIMessageStreamDecoder();
    const reader = response.body.pipeThrough(decoder).pipeThrough(new AssistantMessageAccumulator()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  },
  async append() {},
};

const AuiCall = ({ toolName, args, result, addResult }) => h(Call, { name: toolName, args, result, answer: addResult });
const Text = ({ text }) => h("p", { className: "text" }, text);

function AuiMessage() {
  const { role, metadata, status } = useAuiState((state) => state.message);
  const usage = (metadata?.steps ?? []).reduce((sum, step) => sum + (step.usage?.outputTokens ?? 0), 0);
  return h("div", { className: "message", "data-role": role, "data-status": status?.type, "data-usage": usage },
    h(MessagePrimitive.Parts, { components: { Text, tools: { Fallback: AuiCall } } }));
}

/** The input, once the history is read: assistant-ui drops a message that is sent before. */
function AuiInput() {
  const isLoading = useAuiState((state) => state.thread.isLoading);
  if (isLoading || !isRead) return null;
  return h(ComposerPrimitive.Root, null, h(ComposerPrimitive.Input, { id: "say" }), h(ComposerPrimitive.Send, { id: "send" }, "send"));
}

function Aui() {
  const runtime = useDataStreamRuntime({
    api, body: { threadId: thread }, unstable_humanToolNames: HUMAN, maxSteps: 1000, adapters: { history },
    onError: (error) => { window.lastError = String(error); },
  });
  return h(AssistantRuntimeProvider, { runtime }, h(ThreadPrimitive.Root, null,
    h(ThreadPrimitive.Messages, { components: { Message: AuiMessage } }),
    h(AuiInput)));
}

// The AI SDK.

function Chat({ initial }) {
  const transport = useMemo(() => new DefaultChatTransport({
    api, prepareReconnectToStreamRequest: ({ id }) => ({ api: `${url}/chat/${agent}/${id}/stream` }),
  }), []);
  const [text, setText] = useState("");
  const { messages, sendMessage, addToolOutput, status, error } = useChat({
    id: thread, messages: initial, resume: true, transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
  });
  useEffect(() => { if (error) window.lastError = String(error); }, [error]);
  const part = (part, index) => {
    if (part.type === "text") return h(Text, { key: index, text: part.text });
    if (!part.type.startsWith("tool-")) return null;
    const name = part.type.slice(5);
    const answer = (output) => addToolOutput({ tool: name, toolCallId: part.toolCallId, output });
    return h(Call, { key: index, name, args: part.input, result: part.output ?? part.errorText, answer });
  };
  return h("div", { "data-status": status },
    messages.map(({ id, role, parts, metadata }, index) => {
      const pauses = parts.some((one) => HUMAN.includes(one.type.slice(5)) && one.output === undefined);
      const running = index === messages.length - 1 && status !== "ready";
      const state = running ? "running" : pauses ? "requires-action" : "complete";
      return h("div", { key: id, className: "message", "data-role": role, "data-status": state, "data-usage": metadata?.usage?.outputTokens ?? 0 }, parts.map(part));
    }),
    h("input", { id: "say", value: text, onChange: (event) => setText(event.target.value) }),
    h("button", { id: "send", onClick: () => { sendMessage({ text }); setText(""); } }, "send"));
}

async function stored() {
  const response = await original(`${url}/chat/${agent}/${thread}`);
  return response.ok ? response.json() : [];
}

const root = createRoot(document.getElementById("root"));
if (page === "aui") root.render(h(Aui));
else stored().then((initial) => root.render(h(Chat, { initial })));
