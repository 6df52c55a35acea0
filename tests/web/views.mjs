// The list of threads, the run beside the chat, and the inbox for several questions.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";

async function the_details_of_a_run_are_beside_the_chat_with_nodes_and_checkpoints(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1002, amount 4.");
  await page.approval.waitFor();
  assert.equal(await page.page.getByRole("complementary", { name: "Details" }).count(), 0, "details are closed until wanted");
  const list = await page.details();
  await page.page.locator('.graph [data-state="waiting"]').waitFor();
  await page.accessible("details");
  assert((await gapToEnd(page)) <= 12, `the line to the end stops ${await gapToEnd(page)} pixels before its word`);
  await list.getByRole("button", { name: "After the model called refund_order waits for you" }).waitFor();
  await page.approval.getByRole("button", { name: "Approve" }).click();
  await page.status("Done");
  await page.page.locator('.graph [data-state="waiting"]').waitFor({ state: "detached" });
  assert((await page.page.locator('.graph [data-state="done"]').count()) >= 2);
  const newest = page.page.locator(".checkpoints > li").first();
  await newest.getByRole("button", { name: /^After the model answered end/ }).click();
  const words = ["After the model answered", "After refund_order answered", "After the model called refund_order", "After your message", "Before your message"];
  const names = page.page.locator(".checkpoints > li > button");
  for (const [at, name] of words.entries()) await names.nth(at).getByText(name).waitFor();
  // What the last step added, by its path.
  const changes = newest.getByLabel("Changes");
  await changes.locator("summary", { hasText: "messages" }).first().waitFor();
  await changes.locator("summary", { hasText: /4\s+added/ }).waitFor();
  await newest.getByLabel("Compare with").selectOption({ label: await newest.locator("option").nth(3).textContent() });
  await changes.locator("summary", { hasText: /added/ }).first().waitFor();
  assert.equal(await changes.getByText(/[{}]/).count(), 0, "differences are no JSON");
  await newest.getByRole("button", { name: "State" }).click();
  await newest.getByLabel("State").locator("summary", { hasText: "messages" }).click();
  await newest.getByLabel("State").getByText("human · Refund order A1002, amount 4.").waitFor();
  await page.accessible("checkpoint");
  const { thread } = page;
  await newest.getByRole("button", { name: "Fork a thread here" }).click();
  await page.page.waitForURL((url) => !url.href.includes(thread));
  await page.page.getByRole("heading", { name: /\(fork\)$/ }).waitFor();
  await page.answer.getByText("A1002").first().waitFor();
  await page.page.locator(".graph").waitFor();
  await page.page.getByRole("button", { name: "Details", exact: true }).click();
  assert.equal(await page.page.locator(".graph").count(), 0);
  await page.close();
}

async function the_runs_of_a_thread_have_outcomes_and_timelines(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1002, amount 3.");
  await page.approval.waitFor();
  const details = await page.details();
  const runs = details.getByRole("list", { name: "Runs" }).locator("> li");
  await runs.first().getByText("Waits for you").waitFor();
  await page.approval.getByRole("button", { name: "Approve" }).click();
  await page.status("Done");
  await runs.nth(1).waitFor();
  await runs.first().getByText("Done", { exact: true }).waitFor();
  await runs.nth(1).getByText("Asked", { exact: true }).waitFor();
  assert.match(await runs.first().textContent(), /scripted:rules/);
  await runs.first().getByRole("button").click();
  await runs.first().getByText(/^After a wait of .* for an answer\.$/).waitFor();
  const timeline = runs.first().getByLabel("Timeline");
  const names = () => timeline.locator(".entry .name").allTextContents();
  await timeline.locator(".entry").first().waitFor();
  assert.deepEqual(await names(), ["Superstep 2, continued · tool", "refund_order", "Superstep 3 · model", "scripted:rules"]);
  await runs.nth(1).getByRole("button").click();
  await runs.nth(1).getByLabel("Timeline").getByText("Waits for approval of refund_order").waitFor();
  await page.accessible("runs");
  await page.close();
}

async function the_supersteps_of_a_member_are_within_its_task(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1002, amount 2.", { agent: "supervisor" });
  await page.approval.getByRole("button", { name: "Approve" }).click();
  await page.status("Done");
  const details = await page.details();
  const asked = details.getByRole("list", { name: "Runs" }).locator("> li").nth(1);
  await asked.getByRole("button").first().click();
  const member = asked.getByLabel("Timeline").locator("> li", { hasText: "Superstep 3 · desk" });
  await member.locator("li", { hasText: "Superstep 2 · tool" }).getByText("Waits for approval of refund_order").waitFor();
  const names = await details.locator(".checkpoints > li > button").allTextContents();
  assert(names[1].startsWith("After desk answered"), names.join("\n"));
  await page.accessible("member-runs");
  await page.close();
}

async function the_details_keep_the_width_that_one_gives_them(browser, server) {
  const page = await Page.begin(browser, server, "Where is order A1003?");
  await page.until("A1003");
  const details = await page.details();
  const width = async () => Math.round((await details.boundingBox()).width);
  const before = await width();
  const handle = details.getByRole("separator", { name: "Width of the details" });
  await handle.focus();
  await page.page.keyboard.press("ArrowLeft");
  await eventually(async () => (await width()) === before + 40, "an arrow key makes them wider");
  const { x, y } = await handle.boundingBox();
  await page.page.mouse.move(x + 2, y + 200);
  await page.page.mouse.down();
  await page.page.mouse.move(x - 98, y + 200, { steps: 4 });
  await page.page.mouse.up();
  const wider = await width();
  assert(wider > before + 100, `${wider} pixels`);
  await page.page.reload();
  await details.waitFor();
  assert.equal(await width(), wider, "it is that of the visit before");
  await page.close();
}

/** The distance from the word for the end of the graph to the nearest end of a line, in pixels of the drawing. */
function gapToEnd(page) {
  return page.page.evaluate(() => {
    const node = document.querySelector('.graph [data-node="__end__"]');
    const word = node.querySelector("text").getBBox();
    const { e, f } = node.transform.baseVal.consolidate().matrix;
    const [left, top] = [word.x + e, word.y + f];
    const beside = (at, from, length) => Math.max(from - at, at - from - length, 0);
    const gaps = [...document.querySelectorAll(".graph .line")].map((line) => {
      const { x, y } = line.getPointAtLength(line.getTotalLength());
      return Math.hypot(beside(x, left, word.width), beside(y, top, word.height));
    });
    return Math.min(...gaps);
  });
}

async function nodes_run_and_fail_live(browser, { server, model }) {
  model.when("run for a while", (results) => (results === 0 ? { calls: [["lab__slow", { seconds: 4 }]] } : { text: "a b c d e f g h", pause: 150 }));
  const page = await Page.begin(browser, server, "run for a while");
  await page.details();
  await page.status("Running");
  const seen = new Set();
  const done = page.status("Done").then(() => seen.add("end"));
  while (!seen.has("end")) {
    for (const node of await page.page.$$eval('.graph [data-state="running"]', (all) => all.map(({ dataset }) => dataset.node))) seen.add(node);
    await page.page.waitForTimeout(60);
  }
  await done;
  seen.delete("end");
  assert(seen.size >= 2, `running were ${[...seen]}`);
  model.when("fail at once", { error: 400 });
  await page.say("fail at once");
  await page.page.locator('.graph [data-state="failed"]').waitFor();
  await page.accessible("node-failed");
  await page.close();
}

async function threads_are_renamed_copied_and_found_among_many(browser, server) {
  const page = await Page.begin(browser, server, "Where is order A1003?");
  await page.until("A1003");
  await page.status("Done");
  await page.choose("Rename");
  await page.page.getByLabel("Title").fill("A lamp in question");
  await page.page.keyboard.press("Enter");
  await page.page.getByRole("heading", { name: "A lamp in question" }).waitFor();
  const { thread } = page;
  await page.choose("Copy the thread");
  await page.page.getByRole("heading", { name: "A lamp in question (copy)" }).waitFor();
  assert.notEqual(page.thread, thread);
  await page.answer.getByText("A1003").first().waitFor();
  await page.say("Where is order A1001?");
  await page.until("A1001");
  assert.equal((await server.messages(thread)).length, 2, "the original is as it was");
  const metadata = (title) => ({ metadata: { title, graph_id: "desk" } });
  await Promise.all(Array.from({ length: 60 }, (_, at) => server.json("POST", "/threads", metadata(`Number ${at}`))));
  await page.page.reload();
  await page.page.getByRole("button", { name: "Show more" }).waitFor();
  assert.equal(await page.page.locator(".threads a").count(), 50);
  await page.page.getByRole("button", { name: "Show more" }).click();
  await page.page.locator(".threads a").nth(60).waitFor();
  // It is not among the fifty newest.
  await page.page.getByRole("searchbox").fill("LAMP question");
  await page.page.locator(".threads a").nth(2).waitFor({ state: "detached" });
  assert.deepEqual((await page.page.locator(".threads .title").allTextContents()).sort(), ["A lamp in question", "A lamp in question (copy)"]);
  await page.page.locator(".threads .words", { hasText: "A1003" }).waitFor();
  await page.page.getByRole("searchbox").fill("");
  await page.page.getByLabel("Status").selectOption("Failed");
  await page.page.getByText("No thread fits.").waitFor();
  await page.accessible("filter");
  await page.close();
}

async function the_list_reads_no_states_again_of_threads_that_did_not_change(browser, server) {
  const page = await Page.enter(browser, server);
  await page.page.locator(".threads a").first().waitFor();
  const bodies = [];
  page.page.on("request", (request) => request.url().endsWith("/threads/search") && bodies.push(request.postDataJSON()));
  while (bodies.length < 2) await page.page.waitForTimeout(100);
  assert(bodies.every(({ extract, select }) => extract === undefined && !select.includes("values")), JSON.stringify(bodies));
  await page.close();
}

async function alike_calls_are_decided_together_and_decisions_are_kept(browser, server) {
  const made = server.refunds().length;
  for (const amount of [11, 12, 13]) {
    const page = await Page.begin(browser, server, `Refund order A1003, amount ${amount}.`);
    await page.approval.waitFor();
    await page.close();
  }
  const page = await Page.enter(browser, server, { hash: "#/inbox" });
  await page.page.locator(".waiting button").nth(2).waitFor();
  await page.page.keyboard.press("?");
  await page.page.getByRole("dialog").getByText("Approve the chosen call").waitFor();
  await page.accessible("help");
  await page.page.keyboard.press("Escape");
  await page.page.keyboard.press("x");
  await page.page.keyboard.press("j");
  await page.page.locator('.waiting li:nth-child(2) button[aria-pressed="true"]').waitFor();
  // Keys decide about what is selected, not about the row that was chosen after it.
  await page.approval.getByText("11", { exact: true }).waitFor();
  await page.page.keyboard.press("x");
  const several = page.page.getByRole("region", { name: "Several calls" });
  await several.getByText("11", { exact: true }).waitFor();
  await several.getByText("12", { exact: true }).waitFor();
  await page.accessible("several");
  await page.page.keyboard.press("r");
  await several.getByLabel(/^Reason/).waitFor();
  await page.accessible("several-rejected");
  await several.getByRole("button", { name: "Back" }).click();
  await page.page.keyboard.press("a");
  await page.page.locator(".waiting button").nth(1).waitFor({ state: "detached" });
  await page.page.getByRole("button", { name: "Next question" }).click();
  await page.approval.getByRole("button", { name: "Reject" }).click();
  await page.page.keyboard.type("too much");
  await page.page.getByRole("button", { name: "Reject" }).click();
  await page.page.getByText("Nothing waits for you.").waitFor();
  await page.accessible("inbox-empty");
  const amounts = () => server.refunds().slice(made).map(([, cents]) => cents).sort();
  await eventually(() => amounts().length === 2, "two refunds are made");
  assert.deepEqual(amounts(), [1100, 1200]);
  await page.page.getByRole("link", { name: "Answered" }).click();
  const decisions = page.page.getByRole("list", { name: "Answered questions" }).getByRole("listitem");
  const texts = (await decisions.first().waitFor(), await decisions.allTextContents()).slice(0, 3);
  assert.equal(texts.filter((text) => /Approved.*by local.*just now/.test(text)).length, 2, texts.join("\n"));
  assert.equal(texts.filter((text) => /A1003 13.*Rejected: too much/.test(text)).length, 1, texts.join("\n"));
  await page.accessible("answered");
  await page.close();
}

export const deskTests = [
  the_details_of_a_run_are_beside_the_chat_with_nodes_and_checkpoints,
  the_runs_of_a_thread_have_outcomes_and_timelines,
  the_supersteps_of_a_member_are_within_its_task,
  the_details_keep_the_width_that_one_gives_them,
  alike_calls_are_decided_together_and_decisions_are_kept,
  threads_are_renamed_copied_and_found_among_many,
  the_list_reads_no_states_again_of_threads_that_did_not_change,
];
async function attempts_and_costs_of_calls_are_in_the_timeline(browser, { server, model }) {
  let asked = 0;
  const { thread_id: id } = await server.json("POST", "/threads", { metadata: { graph_id: "desk", model: "openai:priced" } });
  const page = await Page.enter(browser, server, { hash: `#/thread/${id}` });
  const answer = (results) => (results === 0 ? ((asked += 1) === 1 ? { error: 503 } : { calls: [["lab__account", { number: 7 }]] }) : "Found it.");
  model.when("try twice", answer);
  await page.page.getByRole("textbox", { name: "Your message" }).waitFor();
  await page.say("try twice");
  await page.until("Found it.");
  await page.status("Done");
  const details = await page.details();
  const run = details.getByRole("list", { name: "Runs" }).locator("> li").first();
  await run.getByText(/openai:priced.*240 tokens.*\$/).waitFor();
  await run.getByRole("button").click();
  const timeline = run.getByLabel("Timeline");
  await timeline.locator('[data-kind="model"][data-status="failed"]').getByText(/failed/).waitFor();
  await timeline.locator('[data-kind="model"]').getByText(/attempt 2 · 120 tokens/).waitFor();
  await timeline.locator('[data-kind="tool"]', { hasText: "lab/account" }).waitFor();
  await page.accessible("attempts");
  await page.close();
}

export const labTests = [nodes_run_and_fail_live, attempts_and_costs_of_calls_are_in_the_timeline];
