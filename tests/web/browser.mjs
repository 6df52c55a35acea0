// A page in Chromium that notes what must not happen: errors, breaches of its policy, requests elsewhere.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** Longest wait for the page, in milliseconds. */
const PATIENCE_MS = 90_000;

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: ARGS });

/** Waits until a condition is true. */
export async function eventually(condition, problem) {
  for (let attempt = 0; !(await condition()); attempt += 1) {
    assert(attempt < 1_000, problem);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Serves the page of a folder, such as `web/dist`, in place of the one of the program, with its policy. */
async function serveFolder(context, server) {
  const folder = process.env.WEFT_PAGE;
  if (!folder) return;
  const index = await fetch(`${server.url}/ui/`);
  const headers = { "content-security-policy": index.headers.get("content-security-policy") };
  await context.route(`${server.url}/ui/**`, async (route) => {
    const name = new URL(route.request().url()).pathname.slice("/ui/".length) || "index.html";
    return name === "session" ? route.continue() : route.fulfill({ path: join(folder, name), headers });
  });
}

/** A page with a new session of the browser. */
export class Page {
  problems = [];

  /** Opens an address, by default the one with the ticket that the server prints. */
  static async open(browser, server, { address = server.page, cookies = [], ...options } = {}) {
    const opened = new Page();
    opened.server = server;
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    await context.addCookies(cookies);
    await serveFolder(context, server);
    opened.page = await context.newPage();
    opened.page.setDefaultTimeout(PATIENCE_MS);
    opened.watch();
    await opened.page.goto(address);
    return opened;
  }

  /** Opens the page of somebody who is logged in, by default with the token of the operator. */
  static async enter(browser, server, { hash = "", token, ...options } = {}) {
    const cookies = [await server.cookie(token)];
    return Page.open(browser, server, { address: `${server.url}/ui/${hash}`, cookies, ...options });
  }

  /** Begins a thread with an agent. */
  static async begin(browser, server, text, { agent = "desk", ...options } = {}) {
    const opened = await Page.enter(browser, server, { hash: `#/new/${agent}`, ...options });
    await opened.page.getByRole("textbox", { name: "Your message" }).waitFor();
    await opened.page.locator(`.agents a[aria-current]`).waitFor();
    await opened.say(text);
    await opened.page.waitForURL(/#\/thread\//);
    return opened;
  }

  /** The thread that is open. */
  get thread() {
    return /#\/thread\/([^/]+)/.exec(this.page.url())[1];
  }

  /** Waits for the status in the head. */
  async status(words) {
    await this.page.locator(".head .status", { hasText: words }).waitFor();
  }

  /** Opens the details of the thread, which are closed until somebody wants them. */
  async details() {
    await this.page.getByRole("button", { name: "Details", exact: true }).click();
    const details = this.page.getByRole("complementary", { name: "Details" });
    await details.waitFor();
    return details;
  }

  /** Opens the menu of the thread, and presses a button of it. */
  async choose(name) {
    await this.page.locator(".menu summary").click();
    await this.page.locator(".menu").getByRole("button", { name }).click();
  }

  watch() {
    const { page, problems, server } = this;
    page.on("pageerror", (error) => problems.push(`error: ${error}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.host !== server.address) problems.push(`request to ${url}`);
    });
    page.on("console", (message) => {
      if (/Content Security Policy/.test(message.text())) problems.push(message.text());
    });
  }

  /** Sends a text by mouse. */
  async say(text) {
    await this.page.getByRole("textbox", { name: /^Your (message|reply)$/ }).fill(text);
    await this.page.getByRole("button", { name: "Send" }).click();
  }

  /** The answer of the agent, and the waits for its text. */
  get answer() {
    return this.page.locator(".message.assistant").last();
  }

  /** The question that asks for the approval of a refund. */
  get approval() {
    return this.page.getByRole("region", { name: "Approval of refund_order" });
  }

  async until(text) {
    await this.answer.filter({ hasText: text }).waitFor();
  }

  /** The messages: role, id, and number of calls and questions. */
  messages() {
    return this.page.$$eval(".message", (all) =>
      all.map(({ dataset }) => (dataset.message === undefined ? dataset.role : [dataset.role, dataset.message])),
    );
  }

  /** Fails if axe finds anything, in either theme. */
  async accessible(name) {
    await this.page.evaluate(AXE);
    for (const theme of ["light", "dark"]) {
      await this.page.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
      await this.shot(`${name}-${theme}`);
      // Only colours depend on the theme.
      const options = theme === "light" ? {} : { runOnly: ["color-contrast"] };
      const { violations } = await this.page.evaluate((options) => window.axe.run(options), options);
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join("\n")}`);
      assert.deepEqual(found, [], `${name} in ${theme}`);
    }
    await this.page.evaluate(() => delete document.documentElement.dataset.theme);
  }

  async shot(name) {
    if (process.env.WEFT_SHOTS) await this.page.screenshot({ path: `${process.env.WEFT_SHOTS}/${name}.png` });
  }

  /** Closes the page; only problems of the given kind are allowed. */
  async close(allowed) {
    assert.deepEqual(this.problems.filter((problem) => !allowed?.test(problem)), []);
    await this.page.context().close();
  }
}
