// Questions beside their conversations, the fate of cards, and what the graph says of calls that failed.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";

/** Begins a thread in which the agent asks for the approval of a call. */
async function asked(browser, place, text, tool, args) {
  place.model.when(text, (results) => (results === 0 ? { calls: [[tool, args]] } : "It is over."));
  const page = await Page.begin(browser, place.server, `Please, ${text}`);
  await page.page.getByRole("region", { name: /^Approval of lab\// }).waitFor();
  const { thread } = page;
  await page.close();
  return thread;
}

async function the_inbox_is_filtered_by_agent_tool_and_age_and_shows_the_conversation(browser, place) {
  const { server } = place;
  const careful = await asked(browser, place, "careful filter", "lab__careful", { seconds: 0.011 });
  const pay = await asked(browser, place, "pay filter", "lab__pay", { order: "F-1", cents: 5 });
  for (const options of [{ viewport: { width: 1600, height: 900 } }, { viewport: { width: 390, height: 844 } }]) {
    const page = await Page.enter(browser, server, { hash: "#/inbox", ...options });
    const filters = page.page.getByRole("search", { name: "Questions" });
    const list = page.page.getByRole("list", { name: "Questions" });
    const row = (text) => list.getByRole("button").filter({ hasText: text });
    await row("lab/careful 0.011").waitFor();
    await row("lab/pay F-1").getByText("cannot be undone").waitFor();
    await row("lab/careful 0.011").getByText("changes data here").waitFor();
    await filters.getByLabel("Tool").selectOption("lab/pay");
    await row("lab/careful").first().waitFor({ state: "detached" });
    // What is shown is what is listed.
    await page.page.getByRole("region", { name: "Approval of lab/pay" }).getByText("It acts outside of this program, which cannot be undone.").waitFor();
    const conversation = page.page.getByRole("region", { name: "Conversation" });
    await conversation.getByText("Please, pay filter").waitFor();
    assert.equal(await conversation.getByRole("link", { name: "Open the thread" }).getAttribute("href"), `#/thread/${pay}`);
    await page.accessible(`inbox-filter-${options.viewport.width}`);
    await isDesigned(page, "inbox-filter");
    await filters.getByLabel("Agent").selectOption("desk");
    await row("lab/pay F-1").waitFor();
    await filters.getByLabel("Waits for").selectOption("10 minutes and more");
    await page.page.getByText("No question fits.").waitFor();
    await page.page.clock.setFixedTime(Date.now() + 11 * 60_000);
    await filters.getByLabel("Waits for").selectOption("an hour and more");
    await page.page.getByText("No question fits.").waitFor();
    await filters.getByLabel("Waits for").selectOption("10 minutes and more");
    await row("lab/pay F-1").waitFor();
    await page.close();
  }
  for (const thread of [careful, pay]) await server.json("POST", `/threads/prune`, { thread_ids: [thread] });
}

async function a_failed_tool_is_red_in_the_graph_and_a_refused_call_is_not(browser, place) {
  const { server, model } = place;
  model.when("break a tool", (results) => (results === 0 ? { calls: [["lab__broken", { why: "rust" }]] } : "It broke."));
  const page = await Page.begin(browser, server, "Please break a tool");
  await page.until("It broke.");
  const details = await page.details();
  const nodes = details.getByRole("list", { name: "Nodes" });
  await nodes.getByText("tool: failed").waitFor();
  assert.equal(await details.locator('.graph [data-node="tool"]').getAttribute("data-state"), "failed");
  await details.getByText("After lab/broken failed").first().waitFor();
  await page.accessible("failed-tool");
  await page.close();
  const thread = await asked(browser, place, "careful refusal", "lab__careful", { seconds: 0.012 });
  const refused = await Page.enter(browser, server, { hash: `#/thread/${thread}` });
  const card = refused.page.getByRole("region", { name: "Approval of lab/careful" });
  await card.getByRole("button", { name: "Reject" }).click();
  await card.getByRole("button", { name: "Reject" }).click();
  await refused.until("It is over.");
  const shown = await refused.details();
  await shown.getByRole("list", { name: "Nodes" }).getByText("tool: done").waitFor();
  await shown.getByText("After lab/careful was refused").first().waitFor();
  await refused.close();
}

async function a_card_is_not_active_after_a_later_message(browser, { server, model }) {
  const ask = (at) => (results) => (results === 0 ? { calls: [["lab__careful", { seconds: at / 50 }]] } : "It is over.");
  model.when("ask me first", ask(1));
  model.when("ask me again", ask(2));
  model.when("never mind", "All right.");
  const page = await Page.begin(browser, server, "Please ask me first");
  const cards = page.page.getByRole("region", { name: "Approval of lab/careful" });
  await cards.getByText("0.02", { exact: true }).waitFor();
  // Another program says something on the thread, and the agent asks again: once in place of the first question.
  const say = (content) => {
    const body = { assistant_id: "desk", input: { messages: [{ role: "user", content }] } };
    return server.json("POST", `/threads/${page.thread}/runs/wait`, body);
  };
  await say("No, ask me again");
  await cards.getByText("0.04", { exact: true }).waitFor();
  assert.equal(await cards.count(), 1, "the first question is not open");
  await page.page.getByText("No result").first().waitFor();
  await say("Oh, never mind");
  await page.until("All right.");
  await eventually(async () => (await cards.count()) === 0, "a card is active");
  assert.deepEqual(await server.json("GET", `/interrupts?thread_id=${page.thread}`), []);
  await page.page.reload();
  await page.until("All right.");
  assert.equal(await cards.count(), 0);
  await page.close();
}

async function a_log_that_is_too_large_says_how_much_is_not_shown(browser, { server, model }) {
  model.when("short log", "It is short.");
  const page = await Page.begin(browser, server, "Please keep a short log");
  await page.until("It is short.");
  await page.page.route("**/runs/*/log", async (route) => {
    const log = await server.json("GET", new URL(route.request().url()).pathname);
    assert.equal(log.omitted, 0);
    await route.fulfill({ json: { ...log, omitted: 1234 } });
  });
  const details = await page.details();
  await details.getByRole("list", { name: "Runs" }).getByRole("button").first().click();
  await details.getByText("The log is too large for the page: its last 1,234 events are not shown.").waitFor();
  await page.close();
}

async function enter_within_an_input_method_does_not_send(browser, { server, model }) {
  model.when("にほん", "はい。");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  const input = page.page.getByRole("textbox", { name: "Your message" });
  await input.click();
  const keyboard = await page.page.context().newCDPSession(page.page);
  // The input method shows what it would write, and takes Enter.
  await keyboard.send("Input.imeSetComposition", { text: "にほん", selectionStart: 3, selectionEnd: 3 });
  const enter = { key: "Enter", code: "Enter", windowsVirtualKeyCode: 13 };
  await keyboard.send("Input.dispatchKeyEvent", { type: "rawKeyDown", ...enter });
  await keyboard.send("Input.dispatchKeyEvent", { type: "keyUp", ...enter });
  await keyboard.send("Input.insertText", { text: "にほん" });
  // The last key of a composition comes after it in some browsers.
  await input.evaluate((element) => element.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true })));
  assert.match(page.page.url(), /#\/new\/desk/);
  assert.equal(await input.inputValue(), "にほん");
  await page.page.keyboard.press("Enter");
  await page.page.waitForURL(/#\/thread\//);
  await page.until("はい。");
  await page.close();
}

async function a_message_sent_before_the_agents_are_loaded_waits_and_goes(browser, { server, model }) {
  model.when("early bird", "Good morning.");
  const page = await Page.open(browser, server, { cookies: [await server.cookie()], address: "about:blank" });
  let go;
  const held = new Promise((resolve) => (go = resolve));
  await page.page.route("**/assistants/search", async (route) => {
    await held;
    await route.continue();
  });
  await page.page.goto(`${server.url}/ui/#/new/desk`);
  await page.page.getByRole("textbox", { name: "Your message" }).fill("I am an early bird");
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.page.getByText("It is sent when the agents are there.").waitFor();
  assert.match(page.page.url(), /#\/new\/desk/);
  go();
  await page.page.waitForURL(/#\/thread\//);
  await page.until("Good morning.");
  assert.equal((await server.json("GET", `/threads/${page.thread}`)).metadata.graph_id, "desk");
  await page.close();
}

async function the_card_of_a_question_is_in_view_however_long_the_list_is(browser, place) {
  const { server } = place;
  const threads = [];
  for (let number = 0; number < 8; number += 1)
    threads.push(await asked(browser, place, `list ${number} of eight`, "lab__careful", { seconds: 0.02 + number / 1000 }));
  for (const viewport of [{ width: 1280, height: 420 }, { width: 390, height: 844 }]) {
    const page = await Page.enter(browser, server, { hash: "#/inbox", viewport });
    const list = page.page.getByRole("list", { name: "Questions" });
    await list.getByRole("button").nth(7).click();
    const approve = page.page.getByRole("button", { name: "Approve" });
    await eventually(async () => {
      const { y, height } = await approve.boundingBox();
      return y >= 0 && y + height <= viewport.height;
    }, `the card is out of view at ${viewport.width} pixels`);
    await page.close();
  }
  await server.json("POST", `/threads/prune`, { thread_ids: threads });
}

async function a_text_in_place_of_a_decision_is_no_result_of_the_call(browser, place) {
  const page = await Page.enter(browser, place.server, {
    hash: `#/thread/${await asked(browser, place, "text for a decision", "lab__careful", { seconds: 0.031 })}`,
  });
  const reply = page.page.getByRole("textbox", { name: "Your reply" });
  await reply.fill("ok");
  await reply.press("Enter");
  await page.until("It is over.");
  await page.page.getByText("Answered instead: ok · Not called").waitFor();
  await page.close();
}

async function what_is_typed_outlives_a_reload(browser, place) {
  const page = await Page.enter(browser, place.server, { hash: "#/new/desk" });
  const input = page.page.getByRole("textbox", { name: "Your message" });
  await input.fill("Not yet sent");
  await page.page.goto(`${page.page.url().split("#")[0]}#/inbox`);
  await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  await page.page.goBack();
  await eventually(async () => (await input.inputValue()) === "Not yet sent", "the text is lost");
  await page.page.reload();
  await eventually(async () => (await input.inputValue()) === "Not yet sent", "the text is lost");
  await input.press("Enter");
  await page.page.waitForURL(/#\/thread\//);
  await page.page.goto(`${page.page.url().split("#")[0]}#/new/desk`);
  await page.page.getByRole("heading", { name: "What can an agent do for you?" }).waitFor();
  assert.equal(await input.inputValue(), "", "what was sent is no draft");
  await page.close();
}

export const tests = [
  the_inbox_is_filtered_by_agent_tool_and_age_and_shows_the_conversation,
  a_failed_tool_is_red_in_the_graph_and_a_refused_call_is_not,
  a_card_is_not_active_after_a_later_message,
  a_log_that_is_too_large_says_how_much_is_not_shown,
  enter_within_an_input_method_does_not_send,
  the_card_of_a_question_is_in_view_however_long_the_list_is,
  a_text_in_place_of_a_decision_is_no_result_of_the_call,
  what_is_typed_outlives_a_reload,
  a_message_sent_before_the_agents_are_loaded_waits_and_goes,
];
