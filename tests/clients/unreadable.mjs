// The JavaScript SDK and the AI SDK at a store with threads that cannot be read: unreadable.mjs URL IDS
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";
import { DefaultChatTransport, readUIMessageStream } from "ai";

const [url, ids] = process.argv.slice(2);
const unreadable = JSON.parse(ids);
const client = new Client({ apiUrl: url, apiKey: null });

const found = await client.threads.search({ limit: 1000 });
assert.ok(found.length > 100);
for (const id of unreadable) {
  const one = found.find(({ thread_id }) => thread_id === id);
  assert.ok(one?.error, `${id} is listed with its error`);
  await client.threads.get(id);
}
assert.deepEqual((await client.threads.get("good 7")).values, { msg: "7", out: "echo:7", n: 1 });

/** Sends a message as `useChat` does; returns the texts of the answer, or throws. */
async function say(chatId, text) {
  const transport = new DefaultChatTransport({ api: `${url}/chat/desk` });
  const messages = [{ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] }];
  const stream = await transport.sendMessages({ chatId, messages, trigger: "submit-message" });
  let last;
  let failed;
  for await (const message of readUIMessageStream({ stream, onError: (error) => (failed = error), terminateOnError: true })) last = message;
  if (failed) throw failed;
  return last.parts.filter(({ type }) => type === "text").map((part) => part.text).join("");
}

// A chat of its own, and one that was there before, go on.
assert.match(await say("new chat", "Where is order A1003?"), /A1003/);
const stored = await (await fetch(`${url}/chat/desk/${encodeURIComponent("good chat")}`)).json();
assert.equal(stored[0].role, "user");
// A chat that cannot be read says why.
let refused = 0;
for (const id of unreadable) {
  try {
    await say(id, "Where is order A1003?");
  } catch (error) {
    assert.match(String(error.message ?? error), /damaged|W0210/, id);
    refused += 1;
  }
}
console.log(`${refused} of ${unreadable.length} chats refuse with the reason`);
