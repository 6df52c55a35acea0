// The chats of `@ai-sdk/vue` and `@ai-sdk/svelte`, without a page: chat_classes.mjs URL
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { Chat as VueChat } from "@ai-sdk/vue";
import { build } from "esbuild";
import { compileModule } from "svelte/compiler";

const api = `${process.argv[2]}/chat/desk`;
const IMAGE = "data:image/png;base64,iVBORw0KGgo=";

/** The chat of Svelte: its module has runes, which its compiler translates. */
async function svelteChat() {
  const runes = {
    name: "runes",
    setup(all) {
      all.onLoad({ filter: /\.svelte\.js$/ }, async ({ path }) => {
        const source = await readFile(path, "utf8");
        return { contents: compileModule(source, { filename: path, generate: "client" }).js.code };
      });
    },
  };
  const outfile = new URL("svelte_chat.bundle.mjs", import.meta.url);
  await build({
    stdin: { contents: 'export { Chat } from "@ai-sdk/svelte";', resolveDir: new URL(".", import.meta.url).pathname },
    bundle: true, platform: "node", format: "esm", conditions: ["svelte", "browser"], outfile: outfile.pathname, plugins: [runes], logLevel: "error",
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  return (await import(outfile)).Chat;
}

function open(Chat, id, messages = []) {
  return new Chat({
    id, messages, transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => { throw error; },
  });
}

const text = ({ parts }) => parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");
const load = async (id) => (await fetch(`${api}/${id}`)).json();

async function until(condition) {
  for (let tries = 0; tries < 2000; tries += 1) {
    const found = condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not in time: ${condition}`);
}

async function drive(name, Chat) {
  const id = `${name}-${crypto.randomUUID()}`;
  const first = open(Chat, id);
  await first.sendMessage({ text: "Where is order A1003?", files: [{ type: "file", mediaType: "image/png", filename: "lamp.png", url: IMAGE }] });
  assert.match(text(first.messages.at(-1)), /wall lamp/);
  await first.sendMessage({ text: "Refund order A1001, amount 25." });
  assert.ok(first.messages.at(-1).parts.some(({ state }) => state === "approval-requested"));
  // The page is loaded again while the question is open, and has the file that was sent.
  const second = open(Chat, id, await load(id));
  assert.ok(second.messages[0].parts.some(({ type, url }) => type === "file" && url === IMAGE));
  await second.resumeStream();
  const asked = second.messages.at(-1).parts.find(({ type, state }) => type === "tool-refund_order" && state === "approval-requested");
  await second.addToolApprovalResponse({ id: asked.approval.id, approved: true });
  await until(() => second.messages.at(-1).parts.some(({ type, state }) => type === "tool-refund_order" && state === "output-available"));
  await until(() => second.status === "ready");
  const stored = await load(id);
  assert.deepEqual(stored.map(({ role }) => role), ["user", "assistant", "user", "assistant"]);
  assert.equal(text(second.messages.at(-1)), text(stored.at(-1)));
  console.log(`${name} passed`);
}

await drive("vue", VueChat);
await drive("svelte", await svelteChat());
process.exit(0);
