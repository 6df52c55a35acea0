// agent-chat-ui in Chromium: agent_chat.mjs URL FOLDER CHROMIUM
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

const [url, folder, executablePath] = process.argv.slice(2);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const files = createServer((request, response) => {
  const path = new URL(request.url, "http://page").pathname;
  const file = path !== "/" && existsSync(join(folder, path)) ? join(folder, path) : join(folder, "index.html");
  response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream");
  response.end(readFileSync(file));
});
await new Promise((resolve) => files.listen(0, "127.0.0.1", resolve));
const site = `http://127.0.0.1:${files.address().port}/`;
const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args });
const page = await browser.newPage();
const problems = [];
page.on("pageerror", (error) => problems.push(error));

async function say(text) {
  await page.fill("textarea", text);
  await page.press("textarea", "Enter");
}

const shows = (text, count = 1) => page.waitForFunction(
  ([text, count]) => document.body.innerText.split(text).length - 1 >= count, [text, count], { timeout: 30_000 },
);

async function the_page_shows_calls_results_and_the_question() {
  await page.goto(`${site}?${new URLSearchParams({ apiUrl: url, assistantId: "desk" })}`);
  await page.waitForSelector("textarea");

  // An answer with a call: the page shows the call, its result and the text.
  await say("Where is order A1003?");
  await shows("Lookup order: item wall lamp");
  await shows("Tool Result: lookup_order");

  // A refund waits for a person: the page shows the exact call.
  await say("Refund order A1001, amount 25.");
  await shows("Human Interrupt");
  await shows("action_requests");
  await shows("refund_order");

  // Its answer comes by another way; the page shows the end of the thread after a reload.
  const [question] = await (await fetch(`${url}/interrupts`)).json();
  assert.equal(question.action.name, "refund_order");
  assert.deepEqual(question.action.args, { order_id: "A1001", amount: 25 });
  const answered = await fetch(`${url}/interrupts/${question.id}/respond`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ type: "approve" }),
  });
  assert.equal(answered.status, 202, await answered.text());
  await page.reload();
  await shows("Tool Result: refund_order");
  await page.waitForFunction(() => !document.body.innerText.includes("Human Interrupt"));
  // The conversation goes on in the page.
  await say("Where is order A1003?");
  await shows("Lookup order: item wall lamp", 2);
}

await the_page_shows_calls_results_and_the_question();
assert.deepEqual(problems, []);
console.log("agent-chat-ui: chats, shows calls, results and the question");
await browser.close();
files.close();
