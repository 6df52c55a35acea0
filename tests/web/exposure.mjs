// How other programs reach an agent: the switches of the protocols, and what is shown of those that are on.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually, Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";
import { loseReply } from "./kept.mjs";
import { ATTACK, inert, NAME } from "./safety.mjs";

const run = promisify(execFile);
const CLIPBOARD = { permissions: ["clipboard-read", "clipboard-write"] };
const PHONE = { width: 390, height: 844 };
const OPENAI = "OpenAI's API";
const A2A = "Agent2Agent (A2A)";

/** Adds the definition of an agent whose card is hostile to the folder of a server. */
export function defineHostile(server) {
  const folder = join(server.folder, "agents", "hostile");
  mkdirSync(folder, { recursive: true });
  // A definition may be JSON.
  writeFileSync(join(folder, "agent.yaml"), JSON.stringify({ type: "context", agent_card: { name: NAME, description: ATTACK } }));
}

/** The view of an agent. */
async function enter(browser, server, slug, options = {}) {
  const page = await Page.enter(browser, server, { hash: `#/agent/${slug}`, ...options });
  await page.page.getByRole("region", { name: "Reach this agent from outside" }).waitFor();
  return page;
}

const protocol = (page, label) => page.page.getByRole("list", { name: "Protocols" }).getByRole("listitem", { name: label, exact: true });
const state = (row, word) => row.getByText(word, { exact: true }).waitFor();
const expose = (server, slug, protocols) => server.json("PUT", `/agents/${slug}/exposure`, protocols);
/** The exposed agents, as programs list them. */
const listed = async (server) => (await server.json("GET", "/v1/models")).data.map(({ id }) => id);

/** Copies an example, and returns what it prints with the token of the server. */
async function runExample(page, server, row, name) {
  await row.getByRole("button", { name: `Copy ${name}` }).click();
  const command = await page.page.evaluate(() => navigator.clipboard.readText());
  assert.equal(command, await row.getByRole("group", { name: `Example for ${name}` }).textContent());
  const { stdout } = await run("sh", ["-c", command], { env: { ...process.env, TOKEN: server.token } });
  return JSON.parse(stdout);
}

async function an_agent_is_reached_from_outside_when_a_switch_says_so(browser, { server, model }) {
  model.when("Hello", "Hello to the outside.");
  const page = await Page.enter(browser, server, { hash: "#/new", ...CLIPBOARD });
  await page.page.getByRole("link", { name: "Reach report-writer from outside" }).click();
  await page.page.getByRole("heading", { name: "Report Writer" }).waitFor();
  const openai = protocol(page, OPENAI);
  await state(openai, "Off");
  assert.equal(await openai.getByRole("switch").isChecked(), false);
  assert.deepEqual(await listed(server), [], "no agent is reached before somebody says so");
  await page.accessible("exposure-off");
  const sent = [];
  page.page.on("request", (request) => request.method() === "PUT" && sent.push(request.postData()));
  await openai.getByRole("switch", { name: OPENAI }).click();
  await state(openai, "On");
  assert.deepEqual(sent, ['{"openai":true}']);
  const settings = await openai.getByLabel("Settings").locator("code").allTextContents();
  assert.deepEqual(settings, [`${server.url}/v1`, "report-writer"]);
  assert((await listed(server)).includes("report-writer"));
  const answer = await runExample(page, server, openai, "curl");
  assert.equal(answer.choices[0].message.content, "Hello to the outside.");
  await page.accessible("exposure-on");
  await isDesigned(page, "exposure");
  await page.page.reload();
  await state(openai, "On");
  await state(protocol(page, A2A), "Off");
  // The command prints the same.
  const args = [...server.options(), "agents", "expose", "report-writer", "--url", server.url];
  const { stdout } = await run(process.env.WEFT, args, { cwd: server.folder, env: server.env() });
  for (const text of [...settings, ...(await openai.locator("pre").allTextContents())]) assert(stdout.includes(text), stdout);
  // By keyboard; what has the focus keeps it.
  await openai.getByRole("switch").focus();
  await page.page.keyboard.press("Space");
  await state(openai, "Off");
  assert.equal(await openai.getByRole("switch").evaluate((one) => one === document.activeElement), true);
  assert.equal(await openai.getByLabel("Settings").count(), 0);
  assert.deepEqual(await listed(server), []);
  await page.close();
}

async function the_card_of_an_agent_is_shown_as_other_agents_read_it(browser, { server, model }) {
  model.when("Hello", "Hello to an agent.");
  const page = await enter(browser, server, "report-writer", CLIPBOARD);
  const a2a = protocol(page, A2A);
  await a2a.getByRole("switch").click();
  const card = a2a.getByRole("region", { name: "Card" });
  for (const [name, value] of [
    ["Name", "Report Writer"],
    ["Description", "Writes short reports"],
    ["Version", "1.0.0"],
    ["Address", `${server.url}/a2a/report-writer`],
    ["Bindings", "JSONRPC 1.0, HTTP+JSON 1.0"],
    ["Capabilities", "streaming, push notifications, extended card"],
    ["Signature", "Signed"],
  ]) {
    await card.locator(".members > div", { hasText: name }).getByText(value, { exact: true }).waitFor();
  }
  const skills = card.getByRole("list", { name: "Skills" }).getByRole("listitem");
  assert.deepEqual(await skills.locator("strong").allTextContents(), ["Report Writer (converse)", "Report Writer (plan)", "Report Writer (build)"]);
  const [, address] = await a2a.getByLabel("Settings").locator("code").allTextContents();
  const { name, signatures } = await (await fetch(address)).json();
  assert.deepEqual([name, signatures.length], ["Report Writer", 1]);
  const { task } = await runExample(page, server, a2a, "curl");
  assert.equal(task.artifacts[0].parts[0].text, "Hello to an agent.");
  await page.accessible("card");
  await isDesigned(page, "card");
  // A card that cannot be read says so, and is read on request.
  await page.page.route("**/agent-card.json", (route) => route.fulfill({ status: 503, json: { detail: "The store is away." } }));
  await page.page.reload();
  await card.getByRole("alert").getByText("The card cannot be read.").waitFor();
  await page.page.unroute("**/agent-card.json");
  await card.getByRole("button", { name: "Try again" }).click();
  await card.getByText("Signed", { exact: true }).waitFor();
  await a2a.getByRole("switch").click();
  await card.waitFor({ state: "detached" });
  assert.equal((await fetch(address)).status, 404);
  await page.close();
}

async function a_switch_has_the_state_that_the_server_confirmed(browser, { server }) {
  const page = await enter(browser, server, "counter");
  const openai = protocol(page, OPENAI);
  const change = openai.getByRole("switch");
  // Until the answer comes, nothing is changed, and nothing is sent twice.
  let count = 0;
  let go;
  const held = new Promise((resolve) => (go = resolve));
  await page.page.route("**/exposure", async (route) => {
    if (route.request().method() !== "PUT") return route.fallback();
    count += 1;
    await held;
    await route.fallback();
  });
  await change.click();
  await openai.getByRole("status").getByText("Changing…").waitFor();
  assert.equal(await change.isChecked(), false);
  await change.click({ force: true });
  go();
  await state(openai, "On");
  assert.equal(count, 1);
  await page.page.unroute("**/exposure");
  // A refusal is shown in its place.
  await page.page.route("**/exposure", (route) =>
    route.request().method() === "PUT" ? route.fulfill({ status: 409, json: { detail: "Somebody else changes it." } }) : route.fallback(),
  );
  await change.click();
  await openai.getByRole("alert").getByText("Somebody else changes it.").waitFor();
  assert.equal(await change.isChecked(), true);
  await page.accessible("exposure-refused");
  await page.page.unroute("**/exposure");
  // A change of somebody else is shown, and the refusal is past.
  await expose(server, "counter", { openai: false });
  await state(openai, "Off");
  assert.equal(await openai.getByRole("alert").count(), 0);
  // A reply that is lost is looked up.
  await loseReply(page, /\/exposure$/, "PUT");
  await change.click();
  await state(openai, "On");
  assert.equal(await openai.getByRole("alert").count(), 0);
  await expose(server, "counter", { openai: false });
  await page.close();
}

async function who_may_not_change_an_exposure_sees_its_state(browser, { server, reader }) {
  await expose(server, "counter", { openai: true });
  const page = await enter(browser, server, "counter", { token: reader, viewport: PHONE });
  await state(protocol(page, OPENAI), "On");
  await state(protocol(page, A2A), "Off");
  await protocol(page, OPENAI).getByText(`${server.url}/v1`, { exact: true }).waitFor();
  assert.equal(await page.page.getByRole("switch").count(), 0);
  await page.page.getByText("You can see this and not change it").waitFor();
  await page.accessible("exposure-reader");
  await isDesigned(page, "exposure on a phone");
  const width = await page.page.evaluate(() => document.documentElement.scrollWidth);
  assert(width <= PHONE.width, `${width} pixels wide`);
  await expose(server, "counter", { openai: false });
  await state(protocol(page, OPENAI), "Off");
  await page.close();
}

async function texts_of_an_agent_are_inert_in_its_view(browser, { server }) {
  await expose(server, "hostile", { a2a: true, openai: true });
  const page = await enter(browser, server, "hostile");
  const card = protocol(page, A2A).getByRole("region", { name: "Card" });
  await card.getByRole("list", { name: "Skills" }).getByText("window.broken = 1").first().waitFor();
  await page.page.getByRole("heading", { name: NAME }).waitFor();
  await inert(page);
  await page.accessible("exposure-hostile");
  // A card that another server wrote in its place.
  const skills = [{ id: NAME, name: NAME, description: ATTACK }];
  const interfaces = [{ url: "javascript:window.broken=9", protocolBinding: NAME, protocolVersion: ATTACK }];
  const other = { name: NAME, description: ATTACK, version: ATTACK, supportedInterfaces: interfaces, capabilities: { [NAME]: true }, skills };
  await page.page.route("**/agent-card.json", (route) => route.fulfill({ json: other }));
  await page.page.reload();
  await card.getByText("Not signed", { exact: true }).waitFor();
  await inert(page);
  await expose(server, "hostile", { a2a: false, openai: false });
  await page.close();
}

async function an_agent_that_is_not_there_has_a_view_that_says_so(browser, { server }) {
  const page = await Page.enter(browser, server, { hash: "#/agent/nobody" });
  await page.page.getByText("There is no agent “nobody” with a definition here.").waitFor();
  await page.accessible("agent-missing");
  await page.page.evaluate(() => (location.hash = "#/agent/counter"));
  await state(protocol(page, OPENAI), "Off");
  await page.page.route("**/agents/counter/exposure", (route) => route.fulfill({ status: 500, json: { detail: "The store is away." } }));
  await page.page.getByRole("alert").getByText("This may be old: it cannot be read again. The store is away.").waitFor();
  await eventually(async () => (await page.page.getByRole("switch").count()) === 4, "what was read stays");
  await page.close();
}

export const tests = [
  an_agent_is_reached_from_outside_when_a_switch_says_so,
  the_card_of_an_agent_is_shown_as_other_agents_read_it,
  a_switch_has_the_state_that_the_server_confirmed,
  who_may_not_change_an_exposure_sees_its_state,
  texts_of_an_agent_are_inert_in_its_view,
  an_agent_that_is_not_there_has_a_view_that_says_so,
];
