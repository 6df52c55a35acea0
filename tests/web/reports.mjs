// What users reported of other pages for agents, and what a visitor found, tried on this one.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { eventually, Page } from "./browser.mjs";

const input = (page) => page.page.getByRole("textbox", { name: /^Your (message|reply)$/ });

/** Elsewhere, an approved call made the agent begin again from its first step. */
async function an_approved_call_asks_the_model_once_more_and_not_from_the_beginning(browser, { server, model }) {
  const asked = [];
  model.when("approve once", (results) => {
    asked.push(results);
    return results === 0 ? { calls: [["lab__careful", { seconds: 0.081 }]] } : "It went on.";
  });
  const page = await Page.begin(browser, server, "Please approve once");
  await page.page.getByRole("button", { name: "Approve" }).click();
  await page.until("It went on.");
  await page.status("Done");
  assert.deepEqual(asked, [0, 1]);
  assert.equal(await page.answer.locator(".call").count(), 1);
  await page.close();
}

/** Elsewhere, a new request could not be made while an approval waited, or the typed answer was a message of its own. */
async function a_text_in_place_of_a_decision_steers_the_agent_and_is_no_message(browser, { server, model }) {
  model.when("steer away", (results) => (results === 0 ? { calls: [["lab__careful", { seconds: 0.082 }]] } : "I did something else."));
  for (const [text, words] of [["Leave that, and tell me the time", /Not called/], ["yes", /Approved · Done/]]) {
    const page = await Page.begin(browser, server, "Please steer away");
    await page.page.getByRole("button", { name: "Approve" }).waitFor();
    await page.say(text);
    await page.until("I did something else.");
    await page.status("Done");
    await page.answer.locator(".state", { hasText: words }).waitFor();
    assert.equal((await server.messages(page.thread)).length, 2);
    assert.equal(await page.page.locator(".message.user").count(), 1);
    await page.close();
  }
}

/** Elsewhere, an answer was gone, and could not be stopped, for who came back to it while it was produced. */
async function who_comes_back_to_an_answer_sees_it_grow_and_can_stop_it(browser, { server, model }) {
  const text = Array.from({ length: 80 }, (_, at) => `g${at + 1}.`).join(" ");
  model.when("grow for me", { text, pause: 60 });
  const page = await Page.begin(browser, server, "Please grow for me");
  await page.until("g3.");
  const { thread } = page;
  // Another view, and back.
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  await page.page.locator(".threads a", { hasText: "Please grow for me" }).click();
  await page.until("g8.");
  assert.match(await page.answer.locator(".markdown").textContent(), /^g1\. g2\. g3\./);
  await page.close();
  // Another browser, later.
  const later = await Page.enter(browser, server, { hash: `#/thread/${thread}` });
  await later.until("g12.");
  await later.page.getByRole("button", { name: "Stop" }).click();
  await later.status("Stopped");
  await later.answer.getByText("Stopped", { exact: true }).waitFor();
  assert.match(await later.answer.locator(".markdown").textContent(), /^g1\. .*g12\./);
  await later.close();
}

/** Elsewhere, one message was sent and paid twice. */
async function a_message_that_is_sent_twice_at_once_asks_the_model_once(browser, { server, model }) {
  model.when("only one answer", { text: "One answer.", pause: 50 });
  const page = await Page.begin(browser, server, "Hello to begin with");
  await page.until("You said");
  await page.status("Done");
  const asked = model.asked;
  await input(page).fill("Please, only one answer");
  // Stop takes the place of Send between the two clicks.
  await page.page.getByRole("button", { name: "Send" }).dblclick({ delay: 30 });
  await page.until("One answer.");
  await page.status("Done");
  assert.equal(model.asked, asked + 1);
  assert.equal((await server.messages(page.thread)).length, 4);
  // The first message of a thread, too.
  const first = await Page.enter(browser, server, { hash: "#/new/desk" });
  await first.page.locator(".agents a[aria-current]").waitFor();
  await input(first).fill("Please, only one answer at first");
  await first.page.keyboard.press("Enter");
  await first.page.keyboard.press("Enter");
  await first.until("One answer.");
  await first.status("Done");
  assert.equal(model.asked, asked + 2);
  assert.equal((await server.json("POST", "/threads/search", { query: "only one answer at first", limit: 5 })).length, 1);
  await first.close();
  await page.close();
}

/** Elsewhere, a double click decided about what came into the place of the first one. */
async function a_double_click_decides_about_one_call_alone(browser, { server, model }) {
  const calls = [1, 2, 3].map((at) => ["lab__careful", { seconds: 0.09 + at / 1000 }]);
  model.when("careful double clicks", (results) => (results === 0 ? { calls } : "They are over."));
  const page = await Page.begin(browser, server, "Please, careful double clicks");
  const cards = page.page.getByRole("region", { name: "Approval of lab/careful" });
  await cards.nth(2).waitFor();
  const answered = () => server.json("GET", `/interrupts?answered=true&thread_id=${page.thread}`);
  for (const [name, left] of [["Approve", 2], ["Approve", 1]]) {
    const { x, y, width, height } = await cards.first().getByRole("button", { name, exact: true }).boundingBox();
    const place = [x + width / 2, y + height / 2];
    await page.page.mouse.click(...place);
    await eventually(async () => (await cards.count()) === left, `${left} cards are expected`);
    await page.page.mouse.click(...place);
    await page.page.waitForTimeout(1_000);
    assert.equal((await answered()).length, 3 - left, `${left} are left`);
  }
  // The confirmation of a rejection is a click of its own.
  await cards.first().getByRole("button", { name: "Reject" }).dblclick({ delay: 20 });
  await page.page.waitForTimeout(500);
  assert.equal((await answered()).length, 2);
  await cards.first().getByRole("button", { name: "Reject" }).click();
  await page.until("They are over.");
  await page.close();
}

/** Elsewhere, a message after a crash of the server lost or wiped the conversation before it. */
async function a_message_after_a_crash_has_the_conversation_before_it(browser, { server, model }) {
  const text = Array.from({ length: 30 }, (_, at) => `c${at + 1}.`).join(" ");
  model.when("before the crash", { text, pause: 30, hold: "c9." });
  const page = await Page.begin(browser, server, "Please count, before the crash");
  await page.until("c9.");
  await server.kill();
  await page.page.getByText("Connection cut").waitFor();
  model.release();
  await server.start();
  await page.until("c30.");
  await page.status("Done");
  model.when("after the crash", "Still here.");
  await page.say("And after the crash");
  await page.until("Still here.");
  assert.equal(await page.page.locator(".message").count(), 4);
  const said = (await server.messages(page.thread)).map(({ parts }) => parts.map(({ text }) => text ?? "").join("").trim());
  assert.deepEqual(said, ["Please count, before the crash", text, "And after the crash", "Still here."]);
  assert.deepEqual(model.texts, ["Please count, before the crash", text, "And after the crash"]);
  await page.close();
}

/** Elsewhere, what a run had not ended when it was cancelled was shown as running or pending for ever. */
async function nothing_of_a_stopped_run_is_shown_as_running(browser, { server, model }) {
  model.when("stop me inside", (results) => (results === 0 ? { calls: [["lab__slow", { seconds: 60 }]] } : "It was read."));
  const page = await Page.begin(browser, server, "Please stop me inside");
  await page.answer.locator('.call[data-status="running"]').waitFor();
  const details = await page.details();
  await details.getByRole("list", { name: "Nodes" }).getByText("tool: running").waitFor();
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.status("Stopped");
  const runs = details.getByRole("list", { name: "Runs" });
  await runs.getByRole("button", { name: /Stopped/ }).click();
  await runs.getByText("lab/slow").first().waitFor();
  for (const again of [false, true]) {
    if (again) {
      await page.page.reload();
      await runs.getByRole("button", { name: /Stopped/ }).waitFor();
    }
    await details.getByRole("list", { name: "Nodes" }).getByText("tool: stopped").waitFor();
    assert.equal(await page.page.locator("main").getByText(/^(Running|Working…|.*: running|.*waits for you)$/).count(), 0);
  }
  server.release();
  await page.close();
}

async function a_run_that_reached_its_limit_is_not_done(browser, { server, model }) {
  model.when("never ready", () => ({ calls: [["lab__account", { number: model.asked }]] }));
  const page = await Page.begin(browser, server, "Please be never ready");
  await page.status("Reached its limit");
  await page.answer.getByRole("alert").getByText(/limit of \d+ supersteps/).waitFor();
  const row = page.page.locator(".threads a", { hasText: "Please be never ready" });
  await row.getByText("Reached its limit", { exact: true }).waitFor();
  const filter = page.page.getByRole("combobox", { name: "Status" });
  await filter.selectOption("Done");
  await row.waitFor({ state: "detached" });
  await filter.selectOption("Reached its limit");
  await row.waitFor();
  await page.accessible("limit");
  await page.close();
}

async function a_thread_that_somebody_deletes_says_so_and_keeps_what_was_written(browser, { server }) {
  const page = await Page.begin(browser, server, "Hello, delete me");
  await page.until("You said");
  await page.status("Done");
  await input(page).fill("I was not done with this");
  const headers = { authorization: `Bearer ${server.token}` };
  await fetch(`${server.url}/threads/${page.thread}`, { method: "DELETE", headers });
  await page.page.getByRole("heading", { name: "There is no such thread" }).waitFor();
  await page.page.getByText("I was not done with this").waitFor();
  await page.page.getByRole("button", { name: "Copy the text" }).waitFor();
  await page.accessible("no-thread");
  await page.close();
}

async function a_text_that_is_sent_while_the_agent_works_says_that_it_is_not_sent(browser, { server, model }) {
  model.when("work on", { text: "w1. w2. w3.", hold: "w1." });
  const page = await Page.begin(browser, server, "Please work on");
  await page.until("w1.");
  await input(page).fill("And this");
  await input(page).press("Enter");
  await page.page.getByRole("alert").getByText("Not sent: the agent still works on its answer.").waitFor();
  assert.equal(await input(page).inputValue(), "And this");
  model.release();
  await page.status("Done");
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("You said: And this");
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  await page.close();
}

/** Elsewhere, an image of some megabytes was drawn as text in the view of a run, which made it slow. */
async function a_large_image_makes_no_view_of_its_run_slow(browser, { server, model }) {
  model.when("a large image", "I saw it.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  const picture = Buffer.concat([Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64"), randomBytes(3_000_000)]);
  await page.page.getByLabel("Text files or images", { exact: true }).setInputFiles({ name: "large.png", mimeType: "image/png", buffer: picture });
  await page.page.getByRole("img", { name: "large.png" }).waitFor();
  await page.say("Here is a large image");
  await page.until("I saw it.");
  await page.status("Done");
  await page.page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (window.longest = Math.max(window.longest, duration)))).observe({ type: "longtask" });
  });
  const details = await page.details();
  await details.locator(".checkpoints button").first().click();
  await details.getByRole("button", { name: "State" }).click();
  await details.getByRole("list", { name: "State" }).waitFor();
  const shown = (await details.textContent()).length;
  const longest = await page.page.evaluate(() => window.longest);
  console.log(`        longest task beside an image of 3 MB: ${longest.toFixed()} ms`);
  assert(shown < 20_000, `${shown} characters are shown`);
  assert(longest < 3_000, `a task of ${longest} ms`);
  await page.close();
}

export const tests = [
  an_approved_call_asks_the_model_once_more_and_not_from_the_beginning,
  a_text_in_place_of_a_decision_steers_the_agent_and_is_no_message,
  who_comes_back_to_an_answer_sees_it_grow_and_can_stop_it,
  a_message_that_is_sent_twice_at_once_asks_the_model_once,
  a_double_click_decides_about_one_call_alone,
  a_message_after_a_crash_has_the_conversation_before_it,
  nothing_of_a_stopped_run_is_shown_as_running,
  a_run_that_reached_its_limit_is_not_done,
  a_thread_that_somebody_deletes_says_so_and_keeps_what_was_written,
  a_text_that_is_sent_while_the_agent_works_says_that_it_is_not_sent,
  a_large_image_makes_no_view_of_its_run_slow,
];
