// The page after it is loaded again or its server is killed at any moment, and results of tools of every kind.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";

const numbers = (count) => Array.from({ length: count }, (_, at) => `n${at + 1}.`).join(" ");

/** The text of the last answer on the screen is the stored one, and is exactly the expected one. */
async function sameText(page, server, expected) {
  const shown = await page.answer.locator(".markdown").allTextContents();
  const stored = (await server.messages(page.thread)).at(-1).parts.filter(({ type }) => type === "text");
  assert.equal(shown.join(" ").trim(), expected);
  assert.equal(stored.map(({ text }) => text).join(" ").trim(), expected);
}

async function a_reload_while_the_agent_speaks_loses_and_repeats_no_word(browser, { server, model }) {
  const text = numbers(60);
  model.when("count to sixty", { text, pause: 40, hold: "n20." });
  const page = await Page.begin(browser, server, "Please count to sixty");
  await page.until("n10.");
  await page.page.reload();
  await page.until("n20.");
  await page.page.getByText("Working…").waitFor();
  assert.equal(await page.page.evaluate(() => document.getAnimations().length), 0, "nothing moves for those who want that");
  await page.accessible("streaming");
  model.release();
  await page.status("Done");
  await page.until("n60.");
  await sameText(page, server, text);
  assert.equal((await page.messages()).length, 2);
  await page.close();
}

async function a_message_that_ends_between_two_reads_is_shown(browser, { server, model }) {
  model.when("count to ten", { text: numbers(10), hold: "n3." });
  const page = await Page.begin(browser, server, "Please count to ten");
  await page.until("n3.");
  const { thread } = page;
  // The messages are read while it is produced, and its stream is asked for once it has ended.
  await page.page.route("**/stream", async (route) => {
    model.release();
    while ((await server.json("GET", `/threads/${thread}`)).status === "busy") await page.page.waitForTimeout(50);
    await route.continue();
  });
  await page.page.reload();
  await page.until("n10.");
  await sameText(page, server, numbers(10));
  await page.close();
}

async function a_reload_while_a_tool_runs_shows_it_running_and_then_done(browser, { server, model }) {
  model.when("wait a little", (results) => (results === 0 ? { calls: [["lab__slow", { seconds: 60 }]] } : "It waited."));
  const page = await Page.begin(browser, server, "Please wait a little");
  const call = page.answer.locator('.call[data-status="running"]');
  await call.waitFor();
  const asked = model.asked;
  await page.page.reload();
  await call.waitFor();
  server.release();
  await page.until("It waited.");
  await page.answer.locator('.call[data-status="done"]').waitFor();
  assert.equal(await page.answer.locator(".call").count(), 1);
  assert.equal(model.asked, asked + 1, "the model is asked once more, for the answer");
  await page.close();
}

async function a_reload_while_an_approved_call_runs_keeps_the_decision(browser, { server, model }) {
  model.when("be careful", (results) => (results === 0 ? { calls: [["lab__careful", { seconds: 60 }]] } : "It was careful."));
  const page = await Page.begin(browser, server, "Please be careful");
  await page.page.getByRole("button", { name: "Approve" }).click();
  await page.answer.locator('.call[data-status="running"]').waitFor();
  await page.page.reload();
  await page.answer.locator('.call[data-status="running"]').getByText("Approved").waitFor();
  server.release();
  await page.until("It was careful.");
  await page.status("Done");
  await page.answer.getByText("Approved · Done").waitFor();
  assert.equal((await page.messages()).length, 2);
  await page.close();
}

async function a_kill_of_the_server_in_the_middle_loses_and_repeats_no_word(browser, { server, model }) {
  const text = numbers(50);
  model.when("count to fifty", { text, pause: 40, hold: "n15." });
  const page = await Page.begin(browser, server, "Please count to fifty");
  await page.until("n15.");
  await server.kill();
  model.release();
  await page.page.getByText("Connection cut").waitFor();
  await page.accessible("cut");
  await server.start();
  await page.page.getByText("Reconnected").waitFor();
  await page.page.locator(".head .status", { hasText: "Done" }).waitFor({ timeout: 60_000 });
  await page.until("n50.");
  await sameText(page, server, text);
  assert.equal((await page.messages()).length, 2);
  await page.close();
}

async function results_are_shown_in_full_by_reference_and_hidden_members_never(browser, { server, model }) {
  const calls = [
    ["lab__large", { bytes: 150_000 }],
    ["lab__broken", { why: "no reason" }],
    ["lab__account", { number: 7 }],
  ];
  model.when("use every tool", (results) => (results === 0 ? { reasoning: "I use them all.", calls } : "All were used."));
  const page = await Page.begin(browser, server, "Please use every tool");
  await page.until("All were used.");
  const card = (name) => page.answer.locator(".call", { has: page.page.locator("code", { hasText: name }) });
  await card("large").locator("summary").click();
  await card("large").getByRole("button", { name: "Show all" }).click();
  await card("large").getByText("the last line").waitFor();
  assert.equal(await card("broken").getAttribute("data-status"), "failed");
  await card("broken").getByText("broken: no reason").waitFor();
  await card("account").locator("summary").click();
  await card("account").getByText("Ada").waitFor();
  await page.answer.locator(".reasoning summary").click();
  await page.answer.getByText("I use them all.").waitFor();
  await page.accessible("tools");
  await page.page.reload();
  await page.until("All were used.");
  for (const text of [await page.page.content(), JSON.stringify(await server.messages(page.thread))]) {
    assert(text.includes("Ada") && !text.includes("canary"), "the hidden member is nowhere");
  }
  await page.close();
}

async function an_answer_is_stopped_tried_again_and_replaced(browser, { server, model }) {
  model.when("say something long", { text: numbers(400), hold: "n5." });
  const page = await Page.begin(browser, server, "Please say something long");
  await page.until("n5.");
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.answer.getByText("Stopped").waitFor();
  model.when("say something long", "Something short.");
  await page.answer.getByRole("button", { name: "Retry" }).click();
  await page.until("Something short.");
  await page.status("Done");
  assert.equal(await page.page.locator(".message.assistant").count(), 1);
  await page.page.reload();
  await page.until("Something short.");
  assert.equal((await page.messages()).length, 2, "the answer that was replaced is gone");
  model.when("say something wrong", { error: 400 });
  await page.say("Please say something wrong");
  await page.answer.getByRole("alert").waitFor();
  await page.status("Failed");
  await page.accessible("failed");
  model.when("say something wrong", "Now it is right.");
  await page.answer.getByRole("button", { name: "Retry" }).click();
  await page.until("Now it is right.");
  await page.page.locator(".sum summary").click();
  await page.page.getByText("tokens in this thread").waitFor();
  await page.close();
}

async function an_edited_message_is_sent_in_a_fork(browser, { server, model }) {
  model.when("the first", "The first answer.");
  model.when("the second", "The second answer.");
  model.when("the other", "The other answer.");
  const page = await Page.begin(browser, server, "This is the first");
  await page.until("The first answer.");
  await page.say("This is the second");
  await page.until("The second answer.");
  await page.status("Done");
  const { thread } = page;
  const second = page.page.locator(".message.user").nth(1);
  await second.getByRole("button", { name: "Edit" }).click();
  await page.accessible("fork");
  await page.page.getByLabel("Say this instead").fill("This is the other");
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await page.until("The other answer.");
  assert.notEqual(page.thread, thread);
  const texts = await page.page.locator(".message.user p").allTextContents();
  assert.deepEqual(texts, ["This is the first", "This is the other"]);
  await page.page.getByRole("log").getByText("The first answer.").waitFor();
  assert.equal((await server.messages(thread)).length, 4, "the thread that was forked is as it was");
  await page.page.reload();
  await page.until("The other answer.");
  await page.page.getByRole("log").getByText("The first answer.").waitFor();
  assert.equal(await page.page.locator(".message").count(), 4);
  // A message that came with a fork is edited where it was said, and its answer cannot be replaced.
  await page.page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await page.page.getByRole("alert").getByText("This thread is a copy").waitFor();
  const [{ checkpointId }] = (await server.messages(thread)).filter(({ role }) => role === "user").slice(1).map(({ metadata }) => metadata);
  const copy = await server.json("POST", `/threads/${thread}/copy`, { checkpoint_id: checkpointId });
  await page.page.goto(`${server.url}/ui/#/thread/${copy.thread_id}`);
  await page.until("The first answer.");
  assert.equal(await page.page.getByRole("button", { name: "Retry" }).count(), 0);
  // The first message begins a thread of its own.
  await page.page.goto(`${server.url}/ui/#/thread/${thread}`);
  await page.until("The second answer.");
  await page.page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
  await page.page.getByLabel("Say this instead").fill("This is the other");
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await page.until("The other answer.");
  assert.equal(await page.page.locator(".message").count(), 2);
  await page.close();
}

async function a_model_is_chosen_and_the_cost_of_its_answers_is_shown(browser, { server, model }) {
  model.when("what do you cost", "That depends.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.getByLabel("Model").selectOption("openai:priced");
  await page.accessible("new-with-model");
  await page.say("So what do you cost?");
  await page.until("That depends.");
  await page.status("Done");
  assert.equal(model.name, "priced");
  // 100 tokens at 2.50 dollars per million, and 20 at 10 dollars.
  const cost = page.page.getByText("$0.00045 so far", { exact: true });
  for (const again of [false, true]) {
    if (again) await page.page.reload();
    // The cost is always there, and the tokens for those who ask.
    await cost.click();
    await page.page.getByText("120 tokens in this thread", { exact: true }).waitFor();
  }
  assert.equal(await page.page.getByLabel("Model").inputValue(), "openai:priced");
  await page.accessible("thread-with-model");
  // The usual model is on this machine, and costs nothing.
  await page.page.getByLabel("Model").selectOption("openai:test");
  const chosen = async () => (await server.json("GET", `/threads/${page.thread}`)).metadata.model === "";
  await eventually(chosen, "the choice is stored");
  await eventually(async () => (await page.page.getByLabel("Model").inputValue()) === "", "the choice is shown");
  await page.say("And what do you cost?");
  await page.page.getByText("240 tokens in this thread", { exact: true }).waitFor();
  await cost.waitFor();
  assert.equal(model.name, "test");
  await page.close();
}

async function a_thread_that_waits_for_a_time_has_a_status_of_its_own(browser, { server }) {
  const { thread_id: thread } = await server.json("POST", "/threads", { metadata: { graph_id: "desk", title: "In an hour" } });
  const input = { messages: [{ role: "user", content: "Where is order A1001?" }] };
  await server.json("POST", `/threads/${thread}/runs`, { assistant_id: "desk", input, after_seconds: 3600 });
  const page = await Page.enter(browser, server, { hash: `#/thread/${thread}` });
  await page.status("Waits for a time: ");
  const row = page.page.locator(".threads a", { hasText: "In an hour" });
  await row.locator(".status", { hasText: /^Waits for a time$/ }).waitFor();
  await page.accessible("waits-for-a-time");
  const filter = page.page.getByLabel("Status");
  await filter.selectOption("Waits for a time");
  await eventually(async () => (await page.page.locator(".threads a").count()) === 1, "no other thread is listed");
  await row.waitFor();
  await filter.selectOption("Running");
  await row.waitFor({ state: "detached" });
  await page.close();
}

export const tests = [
  a_reload_while_the_agent_speaks_loses_and_repeats_no_word,
  a_message_that_ends_between_two_reads_is_shown,
  a_reload_while_a_tool_runs_shows_it_running_and_then_done,
  a_reload_while_an_approved_call_runs_keeps_the_decision,
  results_are_shown_in_full_by_reference_and_hidden_members_never,
  an_answer_is_stopped_tried_again_and_replaced,
  an_edited_message_is_sent_in_a_fork,
  a_model_is_chosen_and_the_cost_of_its_answers_is_shown,
  a_thread_that_waits_for_a_time_has_a_status_of_its_own,
  a_kill_of_the_server_in_the_middle_loses_and_repeats_no_word,
];
