// What was made and paid stays visible: calls that were stopped, answers that were replaced, replies that were lost.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { eventually, Page } from "./browser.mjs";

const paid = (server, order) => server.payments().filter((one) => one === order).length;

/** Begins a payment, and stops the run inside of the call. */
async function payAndStop(browser, { server, model }, order) {
  model.when(`pay ${order}`, (results) => (results === 0 ? { calls: [["lab__pay", { order, cents: 700 }]] } : `Done with ${order}.`));
  const page = await Page.begin(browser, server, `Please pay ${order}`);
  await page.page.getByRole("button", { name: "Approve" }).click();
  await eventually(() => server.payments().includes(order), "the payment was not made");
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
  await runs.getByText("lab__pay").waitFor();
  for (const [format, words] of [["Export as JSON", "R-K-2"], ["Export as Markdown", "replaced by another answer"]]) {
    const saved = page.page.waitForEvent("download");
    await page.choose(format);
    const text = await readFile(await (await saved).path(), "utf8");
    for (const part of [words, "Paid the first way.", "I did nothing more."]) assert(text.includes(part), `${format}: ${part}`);
  }
  await page.close();
}

export const labTests = [
  a_call_that_was_stopped_may_have_been_made_and_a_person_says_what_happened,
  a_stopped_call_that_only_reads_has_no_result_and_can_be_tried_again,
  an_answer_that_was_replaced_keeps_its_calls_its_runs_and_its_cost,
];
