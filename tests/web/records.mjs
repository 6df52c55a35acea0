// Agents with definitions: asked like every other agent, and what they make, with its versions.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { eventually, Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";
import { loseReply } from "./kept.mjs";

const WRITER = `weft: 1
version: 1.0.0
type: context
agent_card:
  name: Report Writer
  description: Writes short reports
  modes: [converse, plan, build]
deliverable: {format: markdown, type: report}
`;

const COUNTER = `weft: 1
version: 1.0.0
type: context
agent_card:
  name: Counter
  description: Counts things
  modes: [converse, build]
deliverable: {format: json, type: counts}
`;

/** Adds the definitions of two agents to the folder of a server. */
export function defineAgents(server) {
  for (const [slug, definition] of [["report-writer", WRITER], ["counter", COUNTER]]) {
    const folder = join(server.folder, "agents", slug);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "agent.yaml"), definition);
    writeFileSync(join(folder, "context.md"), "Be short.\n");
  }
}

const report = (name, ...lines) => [`# ${name}`, ...lines].join("\n\n");
const chosen = (page) => page.page.getByRole("combobox", { name: "Ask for" });
const listed = async (server, thread, route = "deliverables") => (await server.json("GET", `/${route}?conversationId=${thread}`)).content;

/** Begins a conversation with the writer; with a mode, it is asked for that. */
async function begin(browser, server, text, { mode, ...options } = {}) {
  const page = await Page.enter(browser, server, { hash: "#/new/report-writer", ...options });
  await page.page.locator('.agents a[aria-current]', { hasText: "report-writer" }).waitFor();
  await chosen(page).waitFor();
  if (mode) await chosen(page).selectOption(mode);
  await page.say(text);
  await page.page.waitForURL(/#\/thread\//);
  return page;
}

/** Opens the deliverables beside a conversation. */
async function deliverables(page) {
  await page.page.getByRole("button", { name: "Deliverables", exact: true }).click();
  const panel = page.page.getByRole("complementary", { name: "Deliverables" });
  await panel.waitFor();
  return panel;
}

async function an_agent_from_a_file_is_asked_like_every_other(browser, { server, model }) {
  const text = Array.from({ length: 40 }, (_, at) => `d${at + 1}.`).join(" ");
  model.when("count for me", { text, pause: 20, hold: "d12." });
  const home = await Page.enter(browser, server, { hash: "#/new" });
  await home.page.getByRole("list", { name: "Agents" }).getByRole("listitem", { name: "report-writer", exact: true }).getByText("Writes short reports").waitFor();
  await home.close();
  const page = await begin(browser, server, "Please count for me");
  await page.until("d10.");
  await page.page.reload();
  await page.until("d12.");
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.status("Stopped");
  await page.answer.getByText("Stopped", { exact: true }).waitFor();
  model.when("count for me", "d1. d2. Done.");
  model.release();
  await page.answer.getByRole("button", { name: "Retry" }).click();
  await page.until("d1. d2. Done.");
  await page.status("Done");
  await page.answer.getByText(/^1 earlier attempt/).waitFor();
  model.when("and once more", "Once more.");
  await loseReply(page, /\/chat\/[^/]+$/);
  await page.say("Please, and once more");
  await page.until("Once more.");
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  assert.equal((await page.messages()).length, 4);
  const details = await page.details();
  await details.getByRole("list", { name: "Runs" }).getByText(/openai:test · 120 tokens/).first().waitFor();
  await page.close();
}

async function a_deliverable_is_made_and_its_versions_are_read_compared_and_chosen(browser, { server, model }) {
  model.when("report about tea", report("Tea", "It is a **plant**.", "It is hot."));
  const page = await begin(browser, server, "Write a report about tea", { mode: "Build" });
  await page.until("It is hot.");
  await page.status("Done");
  const { thread } = page;
  const [made] = await listed(server, thread);
  assert.deepEqual([made.current, made.versions.length, made.versions[0].title], [1, 1, "Write a report about tea"]);
  const panel = await deliverables(page);
  const content = panel.getByRole("article", { name: "Content" });
  await content.getByRole("heading", { name: "Tea" }).waitFor();
  await content.locator("strong", { hasText: "plant" }).waitFor();
  await panel.getByLabel("About this version").getByText("report-writer").waitFor();
  await page.accessible("deliverable");
  await isDesigned(page, "deliverable");
  // A further version by the agent.
  model.when("colder, please", report("Tea", "It is a **plant**.", "It is cold."));
  await chosen(page).locator("option", { hasText: "Build a version of" }).waitFor({ state: "attached" });
  await chosen(page).selectOption({ index: 3 });
  await page.say("It is colder, please");
  await page.until("It is cold.");
  const version = panel.getByRole("combobox", { name: "Version" });
  await version.locator("option", { hasText: /^2 .*\(current\)$/ }).waitFor({ state: "attached" });
  // What was shown stays, until somebody chooses.
  await content.getByText("It is hot.").waitFor();
  await version.selectOption({ index: 0 });
  await content.getByText("It is cold.").waitFor();
  await panel.getByRole("combobox", { name: "Compare with" }).selectOption({ index: 1 });
  const changes = panel.getByRole("list", { name: "Changes" });
  await changes.locator("del").waitFor();
  assert.deepEqual(await changes.locator("del").allTextContents(), ["It is hot."]);
  assert.deepEqual(await changes.locator("ins").allTextContents(), ["It is cold."]);
  await page.accessible("deliverable-changes");
  // A person edits it, and somebody else does so at the same time.
  const other = await Page.enter(browser, server, { hash: `#/thread/${thread}` });
  const theirs = await deliverables(other);
  for (const one of [panel, theirs]) {
    await one.getByRole("button", { name: "Edit", exact: true }).click();
    await one.getByLabel("Content of the next version").waitFor();
  }
  await loseReply(page, /\/deliverables$/);
  await panel.getByLabel("Content of the next version").fill(report("Tea", "It is a **plant**.", "It is lukewarm."));
  await panel.getByRole("button", { name: "Save as a version" }).click();
  await changes.locator("ins", { hasText: "It is lukewarm." }).waitFor();
  await panel.getByRole("combobox", { name: "Compare with" }).selectOption("nothing");
  await content.getByText("It is lukewarm.").waitFor();
  assert.equal((await listed(server, thread))[0].versions.length, 3, "it is saved once");
  await theirs.getByLabel("Content of the next version").fill("Something else");
  await theirs.getByRole("button", { name: "Save as a version" }).click();
  await theirs.getByRole("alert").getByText("Not saved: version 3 is the current one by now.").waitFor();
  assert.equal(await theirs.getByLabel("Content of the next version").inputValue(), "Something else", "nothing that was typed is lost");
  await other.accessible("deliverable-conflict");
  await theirs.getByRole("button", { name: "Cancel" }).click();
  // An earlier version becomes the current one, and both screens say so.
  await version.selectOption("1");
  await panel.getByRole("button", { name: "Make it the current one" }).click();
  await panel.getByRole("button", { name: "Is the current one" }).waitFor();
  await theirs.getByText("3 versions · 1 is current").waitFor();
  assert.equal((await listed(server, thread))[0].current, 1);
  const saved = page.page.waitForEvent("download");
  await panel.getByRole("button", { name: "Download" }).click();
  assert.match(await readFile(await (await saved).path(), "utf8"), /It is hot\./);
  await other.close();
  await page.close();
}

async function a_deliverable_of_json_is_a_tree_whose_numbers_keep_their_digits(browser, { server, model }) {
  const digits = "9007199254740993";
  model.when("count the lamps", `{"lamps": ${digits}, "places": ["Oslo", "Bergen"]}`);
  const page = await Page.enter(browser, server, { hash: "#/new/counter" });
  await chosen(page).selectOption("Build");
  await page.say("Please count the lamps");
  await page.page.waitForURL(/#\/thread\//);
  await page.status("Done");
  const panel = await deliverables(page);
  const content = panel.getByRole("list", { name: "Content" });
  await content.getByText(digits).waitFor();
  await panel.getByRole("button", { name: "Edit", exact: true }).click();
  const text = panel.getByLabel("Content of the next version");
  assert.match(await text.inputValue(), new RegExp(`"lamps": ${digits}`));
  await text.fill("{");
  await panel.getByRole("button", { name: "Save as a version" }).click();
  await panel.getByRole("alert").getByText(/^This is no JSON/).waitFor();
  await text.fill(`{"lamps": ${digits.replace(/3$/, "5")}, "places": ["Oslo"]}`);
  await panel.getByRole("button", { name: "Save as a version" }).click();
  await content.getByText(digits.replace(/3$/, "5")).waitFor();
  await panel.getByRole("combobox", { name: "Compare with" }).selectOption({ index: 1 });
  const changes = panel.getByRole("list", { name: "Changes" });
  await changes.getByText(digits, { exact: true }).waitFor();
  await changes.getByText("Bergen").waitFor();
  await page.accessible("deliverable-json");
  await page.close();
}

async function a_plan_is_made_once_and_fits_a_phone(browser, { server, model }) {
  model.when("plan a feast", report("Feast", "1. Invite", "2. Cook"));
  const viewport = { width: 390, height: 844 };
  const page = await Page.enter(browser, server, { hash: "#/new/report-writer", viewport });
  await chosen(page).selectOption("Plan");
  await loseReply(page, /\/agents\/report-writer\/tasks$/);
  await page.say("Please plan a feast");
  await page.until("Cook");
  await page.status("Done");
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  assert.equal((await listed(server, page.thread, "plans")).length, 1);
  assert.equal((await page.messages()).length, 2);
  await page.accessible("modes-phone");
  const panel = await deliverables(page);
  await panel.getByRole("region", { name: "Plans" }).getByRole("article", { name: "Content" }).getByText("Cook").waitFor();
  await page.accessible("deliverable-phone");
  const width = await page.page.evaluate(() => document.documentElement.scrollWidth);
  assert(width <= viewport.width, `${width} pixels wide`);
  // A plan that is deleted elsewhere is not shown any more.
  const [{ id }] = await listed(server, page.thread, "plans");
  await server.json("POST", "/plans", { conversationId: page.thread, action: "delete", planId: id });
  await panel.getByText("Nothing has been made in this conversation.").waitFor();
  await eventually(async () => (await panel.getByRole("region", { name: "Plans" }).count()) === 0, "the plan is still shown");
  await page.close();
}

export const tests = [
  an_agent_from_a_file_is_asked_like_every_other,
  a_deliverable_is_made_and_its_versions_are_read_compared_and_chosen,
  a_deliverable_of_json_is_a_tree_whose_numbers_keep_their_digits,
  a_plan_is_made_once_and_fits_a_phone,
];
