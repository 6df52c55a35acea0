// What the page says in rare places: addresses that lead nowhere, searches without a server, states of the list.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";
import { askedSeveral } from "./acting.mjs";

async function an_address_without_a_view_says_so(browser, { server }) {
  for (const hash of ["#/threads/all", "#/inbox/old", "#/thread", "#/%E0%A4%A", "#nowhere"]) {
    const page = await Page.enter(browser, server, { hash });
    await page.page.getByRole("heading", { name: "There is no such page" }).waitFor();
    if (hash === "#nowhere") await page.accessible("no-page");
    await page.page.getByRole("main").getByRole("link", { name: "New chat" }).click();
    await page.page.getByRole("textbox", { name: "Your message" }).waitFor();
    await page.close();
  }
}

async function an_agent_that_is_not_there_is_said_to_be_replaced(browser, { server }) {
  const page = await Page.enter(browser, server, { hash: "#/new/nobody" });
  await page.page.getByRole("alert").getByText("There is no agent “nobody” here. “desk” is chosen in its place.").waitFor();
  await page.accessible("no-agent");
  await page.page.getByRole("list", { name: "Agents" }).getByRole("listitem", { name: "desk", exact: true }).getByRole("link").click();
  await page.page.getByText("There is no agent").waitFor({ state: "detached" });
  await page.close();
}

async function a_search_without_a_server_says_that_it_is_not_connected(browser, { server }) {
  const page = await Page.enter(browser, server);
  await page.page.locator(".threads a").first().waitFor();
  await page.page.getByRole("searchbox").fill("nothing has these words");
  await page.page.getByText("No thread fits.").waitFor();
  server.freeze();
  await page.page.getByText("Connection cut").waitFor();
  await page.page.getByRole("searchbox").fill("bird");
  await page.page.getByText("Not connected: the threads are searched when the server is there.").waitFor();
  assert.equal(await page.page.getByText("No thread fits.").count(), 0);
  await page.accessible("search-offline");
  server.thaw();
  await page.page.locator(".threads a").first().waitFor();
  await page.page.getByText("Not connected").waitFor({ state: "detached" });
  await page.close();
}

/** Time in which the models were read again before. */
const READ_AGAIN_MS = 5_000;

async function the_models_are_read_once(browser, { server }) {
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.getByLabel("Model", { exact: true }).waitFor();
  let asked = 0;
  page.page.on("request", (request) => {
    if (new URL(request.url()).pathname === "/models") asked += 1;
  });
  await new Promise((resolve) => setTimeout(resolve, READ_AGAIN_MS + 500));
  assert.equal(asked, 0, "the models are read again and again");
  await page.close();
}

async function the_order_of_the_inbox_stays(browser, lab) {
  const { page } = await askedSeveral(browser, lab, "ordered careful calls", [0.051, 0.052, 0.053]);
  // Ages are counted to the moment of the answer, and differ by a millisecond.
  let round = 0;
  await page.page.route("**/interrupts?*", async (route) => {
    const found = (await lab.server.json("GET", new URL(route.request().url()).pathname)).map((one, at) => ({ ...one, age_ms: one.age_ms + (((at + round) % 3) - 1) }));
    round += 1;
    await route.fulfill({ json: found });
  });
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  const rows = page.page.getByRole("list", { name: "Questions" }).getByRole("button").filter({ hasText: "0.05" });
  await rows.nth(2).waitFor();
  const order = await rows.allTextContents();
  for (const until = round + 3; round < until; ) {
    assert.deepEqual((await rows.allTextContents()).map(firstWords), order.map(firstWords));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await page.page.unroute("**/interrupts?*");
  const { thread_id } = (await lab.server.json("GET", "/interrupts")).find(({ action }) => action?.args.seconds === 0.051);
  await lab.server.json("POST", `/threads/prune`, { thread_ids: [thread_id] });
  await page.close();
}

async function threads_are_found_by_every_state_of_the_list(browser, { server, model }) {
  model.when("never stop", { text: "One. Two.", hold: "One." });
  const page = await Page.begin(browser, server, "Please never stop");
  await page.until("One.");
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.status("Stopped");
  model.release();
  const filter = page.page.getByRole("combobox", { name: "Status" });
  const states = page.page.locator(".threads .status");
  await server.json("POST", "/threads", { metadata: { title: "An empty thread", graph_id: "desk" } });
  for (const [choice, title] of [["Stopped", "Please never stop"], ["Nothing sent", "An empty thread"]]) {
    await filter.selectOption(choice);
    await page.page.locator(".threads a", { hasText: title }).first().waitFor();
    await eventually(async () => (await states.allTextContents()).every((state) => state === choice), `${choice}: others are listed`);
  }
  // What was stopped, and what nobody began, is not done.
  await filter.selectOption("Done");
  await eventually(async () => (await states.count()) > 0 && (await states.allTextContents()).every((state) => state === "Done"), "others are listed as done");
  await page.close();
}

async function a_call_has_one_name_and_one_form_of_time_everywhere(browser, lab) {
  const { page, cards } = await askedSeveral(browser, lab, "named careful call", [0.063]);
  const time = /^(\d{2}\/\d{2}\/\d{4} )?\d{2}:\d{2}:\d{2}$/;
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  const list = page.page.getByRole("list", { name: "Questions" });
  await list.getByRole("button").filter({ hasText: "lab/careful 0.063" }).click();
  assert.match(await list.locator("time").first().getAttribute("title"), time);
  await page.page.getByRole("search", { name: "Questions" }).getByLabel("Tool").locator("option", { hasText: "lab/careful" }).waitFor({ state: "attached" });
  const question = page.page.getByLabel("The question");
  await question.getByText("Asked by", { exact: true }).waitFor();
  assert.match(await question.getByText("Asked at").locator("+ dd").textContent(), time);
  await page.page.getByRole("region", { name: "Conversation" }).getByText("lab/careful: waits").waitFor();
  await page.accessible("inbox-facts");
  await page.page.getByRole("link", { name: "Open the thread" }).click();
  await cards.getByRole("button", { name: "Edit" }).click();
  await cards.getByLabel("seconds").fill("0.064");
  await cards.getByRole("button", { name: "Approve with changes" }).click();
  await page.until("It is over.");
  await page.answer.locator(".call code", { hasText: /^lab\/careful$/ }).waitFor();
  const details = await page.details();
  await details.getByText("After lab/careful answered").waitFor();
  assert.equal(await page.page.getByText(/lab__|lab: /).count(), 0);
  await page.close();
}

async function amounts_have_their_unit_and_facts_are_rows(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1002, amount 41.");
  const amount = page.approval.getByLabel("Arguments").getByText("amount", { exact: true }).locator("+ dd");
  assert.equal(await amount.textContent(), "41 euros");
  const facts = page.approval.getByLabel("Before you decide");
  assert.equal(await facts.getByText("Why it asks").locator("+ dd").textContent(), "It moves money.");
  assert.equal(await facts.getByText("Effect", { exact: true }).locator("+ dd").textContent(), "It acts outside of this program, which cannot be undone.");
  await page.accessible("facts");
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByRole("list", { name: "Questions" }).getByText("refund_order A1002 41 euros").waitFor();
  await page.page.goBack();
  await page.approval.getByRole("button", { name: "Reject" }).click();
  await page.approval.getByRole("button", { name: "Reject" }).click();
  await page.answer.getByText("order_id A1002 · amount 41 euros").waitFor();
  await page.close();
}

const firstWords = (text) => /0\.05\d/.exec(text)[0];

export const deskTests = [amounts_have_their_unit_and_facts_are_rows];

export const tests = [
  threads_are_found_by_every_state_of_the_list,
  a_call_has_one_name_and_one_form_of_time_everywhere,
  an_address_without_a_view_says_so,
  an_agent_that_is_not_there_is_said_to_be_replaced,
  a_search_without_a_server_says_that_it_is_not_connected,
  the_models_are_read_once,
  the_order_of_the_inbox_stays,
];
