// What was made and paid stays visible: calls that were stopped, answers that were replaced, replies that were lost.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { eventually, Page } from "./browser.mjs";

/** The address to which texts and decisions are sent. */
const CHAT = /\/chat\/[^/]+$/;

const paid = (server, order) => server.payments().filter((one) => one === order).length;

/** Begins a payment, and stops the run inside of the call. */
async function payAndStop(browser, { server, model }, order) {
  model.when(`pay ${order}`, (results) => (results === 0 ? { calls: [["lab__pay", { order, cents: 700 }]] } : `Done with ${order}.`));
  const page = await Page.begin(browser, server, `Please pay ${order}`);
  await page.page.getByRole("button", { name: "Approve" }).click();
  await eventually(() => server.payments().includes(order), "the payment was not made");
  // A page that was loaded after the run began stops it too.
  await page.page.reload();
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.status("Stopped");
  // The tool takes one call at a time.
  server.release();
  return page;
}

async function a_call_that_was_stopped_may_have_been_made_and_a_person_says_what_happened(browser, lab) {
  const { server } = lab;
  const page = await payAndStop(browser, lab, "K-1");
  for (const again of [false, true]) {
    if (again) await page.page.reload();
    await page.answer.getByText("Approved · May have been made").waitFor();
    const warning = page.answer.getByRole("alert");
    await warning.getByText("may have been made: it was begun, and ended without a result").waitFor();
    await page.answer.getByLabel("Arguments").getByText("K-1").waitFor();
    assert.equal(await page.answer.getByText("Failed").count(), 0, "nobody knows that");
    assert.equal(await page.page.getByRole("button", { name: /^Retry/ }).count(), 0, "a retry could pay twice");
  }
  await page.accessible("stopped-call");
  const details = await page.details();
  await details.getByRole("list", { name: "Nodes" }).getByText("tool: stopped").waitFor();
  assert.equal(await details.getByText("waits for you").count(), 0, "nothing waits");
  await page.accessible("stopped-node");
  await page.answer.getByRole("button", { name: "Say what happened" }).click();
  const card = page.page.getByRole("region", { name: "Unknown outcome of lab/pay" });
  await card.getByLabel("Called with").getByText("K-1").waitFor();
  await page.status("Waits for you");
  assert.equal((await server.json("GET", `/interrupts?thread_id=${page.thread}`)).length, 1, "the inbox has the question too");
  await card.getByRole("button", { name: "It happened" }).click();
  await card.getByLabel("receipt").fill("R-K-1");
  await card.getByLabel("cents").fill("700");
  await card.getByRole("button", { name: "It happened, with this result" }).click();
  await page.until("Done with K-1.");
  await page.status("Done");
  await page.answer.getByText("Approved · Done").waitFor();
  assert.equal(await page.answer.getByText("Approved · May have been made").count(), 0);
  assert.equal(paid(server, "K-1"), 1);
  await page.page.reload();
  await page.answer.getByText("Approved · Done").waitFor();
  await page.close();
}

async function a_stopped_call_that_only_reads_has_no_result_and_can_be_tried_again(browser, { server, model }) {
  model.when("read slowly", (results) => (results === 0 ? { calls: [["lab__slow", { seconds: 60 }]] } : "It was read."));
  const page = await Page.begin(browser, server, "Please read slowly");
  await page.answer.locator('.call[data-status="running"]').waitFor();
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.status("Stopped");
  for (const again of [false, true]) {
    if (again) await page.page.reload();
    await page.answer.getByText("No result").waitFor();
    assert.equal(await page.answer.getByText(/Failed|May have been made/).count(), 0);
    await page.answer.getByRole("button", { name: "Retry" }).waitFor();
  }
  server.release();
  await page.close();
}

async function an_answer_that_was_replaced_keeps_its_calls_its_runs_and_its_cost(browser, { server, model }) {
  const pay = (order, text) => (results) => (results === 0 ? { calls: [["lab__pay", { order, cents: 700 }]] } : text);
  model.when("pay K-2", pay("K-2", "Paid the first way."));
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.getByLabel("Model").selectOption("openai:priced");
  await page.say("Please pay K-2");
  await page.page.getByRole("button", { name: "Approve" }).click();
  await eventually(() => server.payments().includes("K-2"), "the payment was not made");
  server.release();
  await page.until("Paid the first way.");
  await page.status("Done");
  model.when("pay K-2", "I did nothing more.");
  await page.answer.getByRole("button", { name: "Retry" }).click();
  await page.until("I did nothing more.");
  await page.status("Done");
  // Two calls of the model for the first answer, and one for the second: 100 and 20 tokens each.
  const attempts = page.answer.getByText("1 earlier attempt · 1 call · $0.0009");
  for (const again of [false, true]) {
    if (again) await page.page.reload();
    await page.page.getByText("$0.0014 so far", { exact: true }).click();
    await page.page.getByText("360 tokens in this thread", { exact: true }).waitFor();
    await attempts.click();
    await page.answer.getByText("Approved · Done").waitFor();
    await page.answer.getByText("Paid the first way.").waitFor();
  }
  await page.accessible("attempts");
  const details = await page.details();
  const runs = details.getByRole("list", { name: "Runs" });
  await runs.getByText(/replaced · .*openai:priced · 120 tokens/).first().waitFor();
  assert.equal(await runs.getByRole("button", { name: "replaced" }).count(), 2);
  await runs.getByRole("button", { name: "replaced" }).first().click();
  await runs.getByText("lab/pay").waitFor();
  for (const [format, words] of [["Export as JSON", "R-K-2"], ["Export as Markdown", "replaced by another answer"]]) {
    const saved = page.page.waitForEvent("download");
    await page.choose(format);
    const text = await readFile(await (await saved).path(), "utf8");
    for (const part of [words, "Paid the first way.", "I did nothing more."]) assert(text.includes(part), `${format}: ${part}`);
  }
  await page.close();
}

/** Loses the reply to the next request of a page to an address: the server takes the request. */
export async function loseReply(page, address, method = "POST") {
  let isLost = false;
  await page.page.route(address, async (route) => {
    if (isLost || route.request().method() !== method) return route.fallback();
    isLost = true;
    await route.fetch();
    await route.abort("connectionreset");
  });
}

/** Loses the next request of a page to an address. */
export async function loseRequest(page, address) {
  await page.page.route(address, (route) => (route.request().method() === "POST" ? route.abort("connectionreset") : route.fallback()), { times: 1 });
}

async function a_decision_whose_reply_was_lost_is_the_own_one(browser, { server, model }) {
  for (const [at, place] of ["chat", "inbox"].entries()) {
    const seconds = 0.041 + at / 1000;
    model.when(`careful ${place}`, (results) => (results === 0 ? { calls: [["lab__careful", { seconds }]] } : "It is over."));
    const page = await Page.begin(browser, server, `Please, careful ${place}`);
    const card = page.page.getByRole("region", { name: "Approval of lab/careful" });
    await card.waitFor();
    const { thread } = page;
    const address = place === "chat" ? CHAT : "**/respond";
    if (place === "inbox") {
      await page.page.getByRole("link", { name: /^Inbox/ }).click();
      await page.page.locator(".waiting button", { hasText: `lab/careful ${seconds}` }).click();
    }
    // A request that the server never got is not sent, and the question stays.
    await loseRequest(page, address);
    await card.getByRole("button", { name: "Approve" }).click();
    await card.getByRole("alert").getByText("Not sent: the server did not answer. Try again.").waitFor();
    assert.equal((await server.json("GET", `/interrupts?thread_id=${thread}`)).length, 1);
    await loseReply(page, address);
    await card.getByRole("button", { name: "Approve" }).click();
    await card.waitFor({ state: "detached" });
    if (place === "inbox") await page.page.getByText("Answered by local: Approved.").waitFor();
    else await page.status("Done");
    await page.page.waitForTimeout(4_000);
    assert.equal(await page.page.getByText(/Not sent|Answered first/).count(), 0, place);
    assert.equal((await server.json("GET", `/interrupts?answered=true&thread_id=${thread}`)).length, 1);
    await page.close();
  }
}

async function a_message_whose_reply_was_lost_is_there_once(browser, { server, model }) {
  model.when("say it once", "Once is enough.");
  const page = await Page.begin(browser, server, "Good day");
  await page.until("You said: Good day");
  await page.status("Done");
  const input = page.page.getByRole("textbox", { name: "Your message" });
  await loseRequest(page, CHAT);
  await page.say("Please say it once");
  await page.page.getByRole("alert").getByText("Not sent: the server did not answer. Try again.").waitFor();
  assert.equal(await input.inputValue(), "Please say it once");
  await loseReply(page, CHAT);
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("Once is enough.");
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  assert.equal(await input.inputValue(), "", "what was sent is not in the input");
  assert.equal((await server.messages(page.thread)).length, 4);
  await page.close();
}

async function a_thread_whose_creation_got_no_reply_begins_once(browser, { server, model }) {
  model.when("begin it once", "Begun once.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.locator(".agents a[aria-current]").waitFor();
  const threads = async () => (await server.json("POST", "/threads/search", { query: "begin it once", limit: 10 })).length;
  await loseRequest(page, /\/threads$/);
  await page.say("Please begin it once");
  await page.page.getByRole("alert").getByText("Not sent: the server did not answer. Try again.").waitFor();
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "Please begin it once");
  assert.equal(await threads(), 0);
  await loseReply(page, /\/threads$/);
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("Begun once.");
  assert.equal(await threads(), 1);
  assert.equal((await server.messages(page.thread)).length, 2);
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  await page.close();
}

async function the_own_answers_are_not_read_again(browser, { server, model }) {
  model.when("read it not again", (results) => (results === 0 ? { calls: [["lab__careful", { seconds: 0.047 }]] } : "Not again."));
  const page = await Page.begin(browser, server, "Hello, and do not read again");
  await page.until("You said");
  await page.status("Done");
  const read = [];
  page.page.on("request", (request) => /\/chat\/[^/]+\/[^/?]+\?limit=12$/.test(request.url()) && read.push(request.url()));
  for (const text of ["And this", "Please, read it not again"]) {
    await page.say(text);
    if (text.startsWith("Please")) await page.page.getByRole("button", { name: "Approve" }).click();
    await page.until(text.startsWith("Please") ? "Not again." : "You said: And this");
    await page.status("Done");
    await page.page.waitForTimeout(2_500);
  }
  assert.deepEqual(read, []);
  await page.close();
}

async function a_fork_whose_reply_was_lost_is_there_once(browser, { server, model }) {
  model.when("forked once", "Forked.");
  const page = await Page.begin(browser, server, "The first, to be forked");
  await page.until("You said");
  await page.status("Done");
  await page.say("The second, to be forked");
  await page.until("You said: The second");
  await page.status("Done");
  const { thread } = page;
  const copies = async () => (await server.json("POST", "/threads/search", { query: "first to be forked", limit: 10 })).length;
  await loseReply(page, /\/copy$/);
  await page.page.locator(".message.user").nth(1).getByRole("button", { name: "Edit" }).click();
  await page.page.getByLabel("Say this instead").fill("This is forked once");
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await page.until("Forked.");
  assert.notEqual(page.thread, thread);
  assert.equal(await copies(), 2, "the thread and one fork");
  await page.page.getByRole("heading", { name: "The first, to be forked (fork)" }).waitFor();
  await page.close();
}

async function what_somebody_else_said_is_shown_however_fast_its_answer_is(browser, { server, model }) {
  model.when("a slow begin", "Begun.");
  const page = await Page.begin(browser, server, "Hello, a slow begin");
  await page.until("Begun.");
  await page.status("Done");
  for (const number of [1, 2, 3]) {
    model.when(`fast ${number}`, `Fast answer ${number}.`);
    await server.say(page.thread, `Somebody else, fast ${number}`);
    await page.until(`Fast answer ${number}.`);
    assert.equal((await page.messages()).length, 2 + 2 * number);
  }
  await page.close();
}

async function a_typed_answer_whose_reply_was_lost_leaves_the_input(browser, { server, model }) {
  model.when("careful when typed", (results) => (results === 0 ? { calls: [["lab__careful", { seconds: 0.044 }]] } : "It is over."));
  const page = await Page.begin(browser, server, "Please, careful when typed");
  await page.page.getByRole("region", { name: "Approval of lab/careful" }).waitFor();
  await loseReply(page, CHAT);
  await page.page.getByRole("textbox", { name: "Your reply" }).fill("yes");
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("It is over.");
  await page.status("Done");
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "");
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  await page.close();
}

async function calls_of_one_message_are_approved_together_in_the_inbox(browser, { server, model }) {
  const calls = [1, 2, 3].map((at) => ["lab__careful", { seconds: 0.05 + at / 1000 }]);
  model.when("careful three times", (results) => (results === 0 ? { calls } : `All ${results} are done.`));
  const page = await Page.begin(browser, server, "Please, careful three times");
  const { thread } = page;
  await page.page.getByRole("region", { name: "Approval of lab/careful" }).nth(2).waitFor();
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  for (const [, { seconds }] of calls) await page.page.getByLabel(`Select lab/careful ${seconds}`).check();
  await page.page.getByRole("heading", { name: "May the agent make 3 calls of lab/careful?" }).waitFor();
  await page.page.getByRole("button", { name: "Approve 3 calls" }).click();
  await page.page.getByText("Answered by local: Approved.").waitFor();
  assert.equal(await page.page.getByText(/Not sent|Decided already/).count(), 0);
  const answered = await server.json("GET", `/interrupts?answered=true&thread_id=${thread}`);
  assert.deepEqual(answered.map(({ answer }) => answer.approved), [true, true, true]);
  await page.page.getByRole("link", { name: "Open the thread" }).click();
  await page.until("All 3 are done.");
  await page.close();
}

async function the_heading_of_several_calls_counts_those_that_are_open(browser, { server, model }) {
  const threads = [];
  for (const number of [1, 2, 3]) {
    const seconds = 0.06 + number / 1000;
    model.when(`careful number ${number}`, (results) => (results === 0 ? { calls: [["lab__careful", { seconds }]] } : "It is over."));
    const asking = await Page.begin(browser, server, `Please, careful number ${number}`);
    await asking.page.getByRole("region", { name: "Approval of lab/careful" }).waitFor();
    threads.push(asking.thread);
    await asking.close();
  }
  const page = await Page.enter(browser, server, { hash: "#/inbox" });
  for (const number of [1, 2, 3]) await page.page.getByLabel(`Select lab/careful ${0.06 + number / 1000}`).check();
  const several = page.page.getByRole("region", { name: "Several calls" });
  await several.getByRole("heading", { name: "May the agent make 3 calls of lab/careful?" }).waitFor();
  const [one] = await server.json("GET", `/interrupts?thread_id=${threads[0]}`);
  await server.json("POST", `/interrupts/${one.id}/respond`, { type: "approve" });
  await several.getByRole("heading", { name: "May the agent make 2 calls of lab/careful?" }).waitFor();
  await several.getByText("Decided already").waitFor();
  await page.accessible("several-calls");
  await several.getByRole("button", { name: "Reject 2 calls" }).click();
  await several.getByRole("button", { name: "Reject", exact: true }).click();
  await several.waitFor({ state: "detached" });
  for (const thread of threads.slice(1)) assert.equal((await server.json("GET", `/interrupts?answered=true&thread_id=${thread}`))[0].answer.approved, false);
  await page.close();
}

async function a_question_waits_while_the_call_of_another_one_is_made(browser, { server, model }) {
  const calls = [1, 2].map((at) => ["lab__careful", { seconds: 60 + at }]);
  model.when("careful one by one", (results) => (results === 0 ? { calls } : "Both are done."));
  const page = await Page.begin(browser, server, "Please, careful one by one");
  const { thread } = page;
  const card = page.page.getByRole("region", { name: "Approval of lab/careful" });
  await card.nth(1).waitFor();
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.locator(".waiting button", { hasText: "lab/careful 62" }).click();
  await card.getByText("62", { exact: true }).waitFor();
  const first = (await server.json("GET", `/interrupts?thread_id=${thread}`)).find(({ call }) => call.args.args.seconds === 61);
  await server.json("POST", `/interrupts/${first.id}/respond`, { type: "approve" });
  await page.page.getByText("The agent works on another answer of this conversation. If it still needs this one, it asks again.").waitFor();
  server.release();
  await card.getByText("62", { exact: true }).waitFor();
  await card.getByRole("button", { name: "Approve" }).click();
  await page.page.getByText("Answered by local: Approved.").waitFor();
  server.release();
  await eventually(async () => (await server.json("GET", `/threads/${thread}`)).status === "idle", "the calls do not end");
  await page.close();
}

async function large_whole_numbers_keep_their_digits(browser, { server, model }) {
  const digits = "9007199254740993";
  const edited = "9007199254740995";
  for (const given of [digits, edited]) {
    model.when(`pay ${given}`, (results) => (results === 0 ? { calls: [["lab__pay", `{"order": "K-${given}", "cents": ${digits}}`]] } : "It is paid."));
    const page = await Page.begin(browser, server, `Please pay ${given}`);
    const card = page.page.getByRole("region", { name: "Approval of lab/pay" });
    for (const again of [false, true]) {
      if (again) await page.page.reload();
      await card.getByLabel("Arguments").getByText(digits, { exact: true }).waitFor();
    }
    if (given === edited) {
      await card.getByRole("button", { name: "Edit" }).click();
      assert.equal(await card.getByLabel("cents").inputValue(), digits);
      await card.getByLabel("cents").fill(edited);
      await card.getByRole("button", { name: "Approve with changes" }).click();
    } else await card.getByRole("button", { name: "Approve", exact: true }).click();
    await eventually(() => server.payments().includes(`K-${given}`), "the payment was not made");
    server.release();
    await page.until("It is paid.");
    await page.status("Done");
    for (const again of [false, true]) {
      if (again) await page.page.reload();
      await page.answer.locator("summary", { hasText: "lab/pay" }).click();
      await page.answer.getByLabel("Arguments").getByText(given, { exact: true }).waitFor();
      await page.answer.getByLabel("Result").getByText(given, { exact: true }).waitFor();
    }
    await page.close();
  }
}

async function the_text_of_a_stopped_answer_is_stored_for_everybody(browser, { server, model }) {
  model.when("a stopped story", { text: "Once upon a time there was", hold: "time" });
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.getByLabel("Model").selectOption("openai:priced");
  await page.say("Tell me a stopped story");
  await page.until("Once upon a time");
  const other = await Page.enter(browser, server, { hash: `#/thread/${page.thread}` });
  await other.until("Once upon a time");
  await page.page.getByRole("button", { name: "Stop" }).click();
  const late = await Page.enter(browser, server, { hash: `#/thread/${page.thread}` });
  for (const again of [false, true]) {
    for (const one of [page, other, late]) {
      if (again) await one.page.reload();
      await one.status("Stopped");
      await one.answer.getByText("Stopped", { exact: true }).waitFor();
      assert.equal(await one.answer.locator(".markdown").textContent(), "Once upon a time");
      // What the provider was asked for and had sent is paid.
      await one.page.getByText(/^\$0\.\d+ so far$/).waitFor();
    }
  }
  const stored = (await server.messages(page.thread)).at(-1).parts.filter(({ type }) => type === "text");
  assert.deepEqual(stored.map(({ text }) => text.trim()), ["Once upon a time"]);
  const saved = page.page.waitForEvent("download");
  await page.choose("Export as Markdown");
  const text = await readFile(await (await saved).path(), "utf8");
  assert.match(text, /desk \(stopped\)\n\nOnce upon a time/);
  model.release();
  // The answer that replaces it has a text of its own.
  model.when("a stopped story", "The whole story.");
  await page.answer.getByRole("button", { name: "Retry" }).click();
  await page.until("The whole story.");
  await page.answer.getByText(/^1 earlier attempt/).click();
  await page.answer.getByText("Once upon a time").waitFor();
  for (const one of [late, other, page]) await one.close();
}

async function an_answer_that_the_limit_of_tokens_cut_says_so_and_continues(browser, { server, model }) {
  model.when("be cut short", { text: "One two three", finish: "length" });
  model.when("where your answer was cut", "four five.");
  const page = await Page.begin(browser, server, "Please be cut short");
  for (const again of [false, true]) {
    if (again) await page.page.reload();
    await page.answer.getByText("The answer was cut at the token limit.").waitFor();
    await page.answer.getByRole("button", { name: "Retry" }).waitFor();
  }
  await page.accessible("cut-answer");
  await page.answer.getByRole("button", { name: "Continue" }).click();
  await page.until("four five.");
  assert.equal(await page.answer.getByText("token limit").count(), 0);
  await page.close();
}

async function the_conversation_stays_on_the_screen_while_the_server_is_away(browser, { server, model }) {
  model.when("count while away", { text: "a1. a2. a3. a4. a5. a6.", pause: 20, hold: "a3." });
  const page = await Page.begin(browser, server, "Please count while away");
  await page.until("a3.");
  await server.kill();
  await page.page.getByText("Connection cut").waitFor();
  // Longer than the time after which requests are given up.
  for (let at = 0; at < 40; at += 1) {
    assert.equal(await page.page.getByRole("log").getByText("Please count while away").count(), 1, `after ${at / 4} s`);
    assert.equal(await page.answer.getByText("a1.").count(), 1, `after ${at / 4} s`);
    await page.page.waitForTimeout(250);
  }
  model.release();
  await server.start();
  await page.status("Done");
  await page.until("a6.");
  await page.close();
}

export const labTests = [
  a_call_that_was_stopped_may_have_been_made_and_a_person_says_what_happened,
  a_stopped_call_that_only_reads_has_no_result_and_can_be_tried_again,
  an_answer_that_was_replaced_keeps_its_calls_its_runs_and_its_cost,
  a_decision_whose_reply_was_lost_is_the_own_one,
  a_message_whose_reply_was_lost_is_there_once,
  a_thread_whose_creation_got_no_reply_begins_once,
  the_own_answers_are_not_read_again,
  a_fork_whose_reply_was_lost_is_there_once,
  what_somebody_else_said_is_shown_however_fast_its_answer_is,
  a_typed_answer_whose_reply_was_lost_leaves_the_input,
  calls_of_one_message_are_approved_together_in_the_inbox,
  the_heading_of_several_calls_counts_those_that_are_open,
  a_question_waits_while_the_call_of_another_one_is_made,
  large_whole_numbers_keep_their_digits,
  the_text_of_a_stopped_answer_is_stored_for_everybody,
  an_answer_that_the_limit_of_tokens_cut_says_so_and_continues,
  the_conversation_stays_on_the_screen_while_the_server_is_away,
];
