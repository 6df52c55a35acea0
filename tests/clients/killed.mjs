// A client whose server is killed while it streams: killed.mjs URL CLIENT THREAD QUESTION
// Prints `ready`, waits for a line, and prints `speaks` with the first words; at the end the texts
// of the assistant that a person sees, as JSON.
import { once } from "node:events";

const [url, client, thread, question] = process.argv.slice(2);
const AGENT = "slow_desk";
const api = `${url}/chat/${AGENT}`;
let spoke = false;

/** Notes the texts on the screen. */
function see(texts) {
  const shown = texts.filter((text) => text !== "");
  if (!spoke && shown.length > 0) console.log("speaks");
  spoke ||= shown.length > 0;
  return shown;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

/** A page with a hook of LangGraph: `read` has its texts and whether it is done. */
async function hook(useStream, options, send, textOf) {
  const { mount, until } = await import("./page.mjs");
  const page = mount(() => useStream({ apiUrl: url, apiKey: null, assistantId: AGENT, threadId: thread, ...options }));
  await until(() => page.now);
  const texts = () => (page.now?.messages ?? []).filter(({ type }) => type === "ai").map(textOf);
  return {
    begin: () => send(page.now),
    async end() {
      for (;;) {
        const shown = see(texts());
        if (page.now.error) throw page.now.error;
        if (shown.length > 0 && !page.now.isLoading) return shown;
        await pause();
      }
    },
  };
}

const said = { messages: [{ type: "human", content: question }] };

async function classic() {
  const { useStream } = await import("@langchain/langgraph-sdk/react");
  const { Client } = await import("@langchain/langgraph-sdk");
  await new Client({ apiUrl: url, apiKey: null }).threads.create({ threadId: thread });
  const options = { streamMode: ["values", "messages-tuple"], streamResumable: true, onDisconnect: "continue" };
  return hook(useStream, { messagesKey: "messages" }, (now) => now.submit(said, options), ({ content }) => content);
}

async function newer() {
  const { useStream } = await import("@langchain/react");
  return hook(useStream, { transport: "sse" }, (now) => now.submit(said), ({ text }) => text);
}

/** Waits until the server answers again; returns the answer, whose status may say that nothing runs. */
async function again(path) {
  for (;;) {
    const response = await fetch(path).catch(() => undefined);
    if (response?.ok) return response;
    await pause();
  }
}

const textsOf = ({ parts }) => [parts.filter(({ type }) => type === "text").map(({ text }) => text).join("")];

/** `useChat` of the AI SDK without React, on a page that is loaded again once the server is there. */
async function aiSdk() {
  const { Chat } = await import("@ai-sdk/react");
  const { DefaultChatTransport } = await import("ai");
  const reconnect = ({ id }) => ({ api: `${api}/${id}/stream` });
  const page = (messages) => new Chat({ id: thread, messages, transport: new DefaultChatTransport({ api, prepareReconnectToStreamRequest: reconnect }) });
  const isOver = ({ status }) => status === "ready" || status === "error";
  let chat = page([]);
  return {
    begin: () => void chat.sendMessage({ text: question }),
    async end() {
      await pause();
      for (;;) {
        const last = chat.messages.at(-1);
        const shown = last?.role === "assistant" ? see(textsOf(last)) : [];
        if (chat.status === "ready" && shown.length > 0) return shown;
        if (isOver(chat)) {
          chat = page(await (await again(`${api}/${thread}`)).json());
          if (chat.messages.at(-1)?.role === "user") await chat.resumeStream();
        }
        await pause();
      }
    },
  };
}

/** The decoder of assistant-ui for the data stream. */
async function assistantUi() {
  const { AssistantMessageAccumulator, DataStreamDecoder } = await import("assistant-stream");
  const read = async (response) => {
    const reader = response.body.pipeThrough(new DataStreamDecoder()).pipeThrough(new AssistantMessageAccumulator()).getReader();
    let shown = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return shown;
      shown = see(textsOf(value));
    }
  };
  let response;
  return {
    begin() {
      const body = JSON.stringify({ threadId: thread, messages: [{ role: "user", content: [{ type: "text", text: question }] }] });
      const headers = { "content-type": "application/json" };
      response = fetch(`${api}?protocol=data-stream`, { method: "POST", headers, body });
    },
    async end() {
      let reading = response.then(read);
      for (;;) {
        try {
          return await reading;
        } catch {
          const found = await again(`${api}/${thread}/stream?protocol=data-stream`);
          if (found.status === 204) return textsOf((await (await again(`${api}/${thread}`)).json()).at(-1));
          reading = read(found);
        }
      }
    },
  };
}

const opened = await { classic, newer, aiSdk, assistantUi }[client]();
console.log("ready");
await once(process.stdin, "data");
opened.begin();
console.log(JSON.stringify(await opened.end()));
process.exit(0);
