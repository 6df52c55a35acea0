// Pages of assistant-ui and of the AI SDK in Chromium: chat_pages.mjs URL CHROMIUM
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [url, executablePath] = process.argv.slice(2);
const bundle = "chat_app.bundle.js";
const options = ["--bundle", "--format=iife", "--define:process.env.NODE_ENV=\"production\"", "--log-level=error", `--outfile=${bundle}`];
execFileSync("node_modules/@esbuild/linux-x64/bin/esbuild", ["chat_app.mjs", ...options]);
const script = readFileSync(bundle);
const html = "<!doctype html><html lang=en><meta charset=utf-8><title>chat</title><link rel=icon href=data:,><div id=root></div><script src=app.js></script>";
const files = createServer((request, response) => {
  const isScript = request.url.startsWith("/app.js");
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.end(isScript ? script : html);
});
await new Promise((resolve) => files.listen(0, "127.0.0.1", resolve));
const site = `http://127.0.0.1:${files.address().port}/`;

const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args });
const KINDS = [["aui", "ui-message-stream"], ["aui", "data-stream"], ["chat", "ui-message-stream"]];

/** A page of a thread. */
class Page {
  constructor(page, kind, protocol) { Object.assign(this, { page, kind, protocol }); }

  static async open([kind, protocol], agent, thread) {
    const page = await browser.newPage();
    const opened = new Page(page, kind, protocol);
    page.on("pageerror", (error) => { opened.problem = error; });
    await page.goto(`${site}?${new URLSearchParams({ page: kind, protocol, url, agent, thread })}`);
    await page.waitForSelector("#say");
    return opened;
  }

  async say(text) {
    await this.page.fill("#say", text);
    await this.page.click("#send");
  }

  /** The messages: role, status, text and calls. */
  messages() {
    return this.page.$$eval(".message", (all) => all.map((message) => ({
      role: message.dataset.role,
      status: message.dataset.status,
      usage: Number(message.dataset.usage),
      text: [...message.querySelectorAll(".text")].map((text) => text.textContent).join("").trim(),
      calls: [...message.querySelectorAll(".call")].map((call) => [call.dataset.name, call.dataset.state]),
    })));
  }

  async until(condition, seconds = 15) {
    const end = Date.now() + seconds * 1000;
    let seen;
    while (Date.now() < end) {
      seen = await this.messages();
      if (condition(seen)) return seen;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const error = await this.page.evaluate(() => window.lastError);
    throw new Error(`${this.kind} ${this.protocol}: not ${condition}: ${JSON.stringify(seen)} ${error ?? ""} ${this.problem ?? ""}`);
  }

  /** Waits until the last message is complete or waits. */
  async rest(status = "complete") {
    return (await this.until((seen) => seen.at(-1)?.role === "assistant" && seen.at(-1).status === status)).at(-1);
  }

  posts() { return this.page.evaluate(() => window.posts); }

  async close() {
    assert.equal(this.problem, undefined);
    await this.page.close();
  }
}

const stored = async (agent, thread) => (await (await fetch(`${url}/chat/${agent}/${thread}`)).json()).filter((one) => one.role === "assistant");
const textOf = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("").trim();

async function check(kind) {
  const name = `${kind[0]}-${kind[1]}`;
  // Stream, tool card, usage.
  let thread = `page-${name}`;
  let page = await Page.open(kind, "desk", thread);
  await page.say("Where is order A1003?");
  let last = await page.rest();
  assert.deepEqual(last.calls, [["lookup_order", "done"]]);
  let [message] = await stored("desk", thread);
  assert.equal(last.text, textOf(message));
  assert.equal(last.usage, message.metadata.usage.outputTokens);
  assert.equal(await page.posts(), 1);

  // A pause that a button answers, in the same message.
  await page.say("Refund order A1002, amount 40.");
  last = await page.rest("requires-action");
  assert.deepEqual(last.calls, [["refund_order", "open"], ["request_approval", "open"]]);
  assert.equal(await page.posts(), 2);
  await page.page.click(".approve");
  last = await page.rest();
  assert.match(last.text, /refunded 40/);
  assert.equal((await page.messages()).length, 4, "the answer goes on in the same message");
  assert.equal(await page.posts(), 3);
  message = (await stored("desk", thread)).at(-1);
  assert.equal(last.text, textOf(message));
  assert.equal(last.usage, message.metadata.usage.outputTokens);
  await page.close();

  // A reload while it pauses, and an answer by a button after it.
  thread = `paused-${name}`;
  page = await Page.open(kind, "desk", thread);
  await page.say("Refund order A1002, amount 40.");
  await page.rest("requires-action");
  await page.close();
  page = await Page.open(kind, "desk", thread);
  last = await page.rest("requires-action");
  assert.deepEqual(last.calls, [["refund_order", "open"], ["request_approval", "open"]]);
  await page.page.click(".reject");
  await page.rest();
  assert.equal(await page.posts(), 1);
  assert.equal((await page.messages()).length, 2);

  // A question that a typed text answers, and one that a button answers.
  await page.say("Refund order A1001.");
  last = await page.rest("requires-action");
  assert.deepEqual(last.calls, [["ask_human", "open"]]);
  await page.say("25");
  await page.until((seen) => seen.at(-1)?.role === "assistant" && seen.length === 6);
  last = await page.rest("requires-action");
  assert.deepEqual(last.calls, [["refund_order", "open"], ["request_approval", "open"]]);
  await page.page.click(".message:last-child .reject, .approve >> nth=-1").catch(() => page.page.click(".reject"));
  await page.rest();
  await page.close();

  // A reload while it speaks.
  thread = `running-${name}`;
  page = await Page.open(kind, "slow_desk", thread);
  await page.say("Where is order A1003?");
  await page.until((seen) => seen.at(-1)?.role === "assistant" && seen.at(-1).text.length > 3);
  await page.close();
  page = await Page.open(kind, "slow_desk", thread);
  const partial = (await page.until((seen) => seen.at(-1)?.role === "assistant" && seen.at(-1).text.length > 3)).at(-1);
  assert.equal(partial.status, "running", JSON.stringify(partial));
  last = await page.rest();
  [message] = await stored("slow_desk", thread);
  assert.equal(last.text, textOf(message));
  assert.ok(last.text.startsWith(partial.text) && last.text.length > partial.text.length);
  assert.equal(await page.posts(), 0);
  await page.close();
  console.log(`passed ${name}`);
}

await Promise.all(KINDS.map(check));
await browser.close();
files.close();
process.exit(0);
