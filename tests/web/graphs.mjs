// Graphs without messages: their form, their output, their questions and their failures.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";
import { loseReply, loseRequest } from "./kept.mjs";

const PHONE = { width: 390, height: 844 };

/** Opens the form of a graph. */
async function form(browser, server, graph, options = {}) {
  const page = await Page.enter(browser, server, { hash: `#/new/${graph}`, ...options });
  const input = page.page.getByRole("form", { name: "Input" });
  await input.waitFor();
  return { page, input };
}

async function a_graph_runs_with_a_form_and_shows_its_output(browser, server) {
  for (const options of [{}, { viewport: PHONE }]) {
    const { page, input } = await form(browser, server, "echo", options);
    await input.getByLabel("Msg").fill("hello");
    await input.getByLabel("N", { exact: true }).fill("41");
    await page.accessible("graph-form");
    await input.getByRole("button", { name: "Run" }).click();
    await page.page.waitForURL(/#\/thread\//);
    await page.page.getByRole("heading", { name: "echo: hello" }).waitFor();
    const output = page.page.getByRole("list", { name: "Output" });
    await output.getByText("echo:hello").waitFor();
    await output.getByText("42", { exact: true }).waitFor();
    const { values } = await server.json("GET", `/threads/${page.thread}/state`);
    assert.deepEqual(values, { msg: "hello", out: "echo:hello", n: 42 });
    await page.accessible("graph-output");
    await isDesigned(page, "graph");
    // The same as JSON, on the same thread.
    await input.getByLabel("Msg").fill("again");
    await input.getByRole("button", { name: "JSON" }).click();
    const json = input.getByLabel("Input as JSON");
    assert.deepEqual(JSON.parse(await json.inputValue()), { msg: "again" });
    await json.fill("{");
    await input.getByRole("button", { name: "Run" }).click();
    await input.getByRole("alert").getByText(/^This is no JSON/).waitFor();
    await json.fill('{"msg": "from JSON"}');
    await input.getByRole("button", { name: "Run" }).click();
    await output.getByText("echo:from JSON").waitFor();
    await page.close();
  }
}

async function a_question_of_a_graph_is_answered(browser, server) {
  const { page, input } = await form(browser, server, "inter");
  await input.getByLabel("Q", { exact: true }).fill("pay");
  await input.getByRole("button", { name: "Run" }).click();
  const question = page.page.getByRole("region", { name: "Question" });
  await question.waitFor();
  await page.accessible("graph-question");
  await question.getByRole("textbox").fill("yes, pay");
  await question.getByRole("button", { name: "Answer" }).click();
  await page.page.getByRole("list", { name: "Output" }).getByText("done:yes, pay").waitFor();
  await page.status("Done");
  await page.close();
}

async function a_graph_is_stopped_and_a_failure_is_shown(browser, server) {
  const slow = await form(browser, server, "slow");
  await slow.input.getByLabel("Steps").fill("2");
  await slow.input.getByLabel("Delay").fill("50");
  await slow.input.getByRole("button", { name: "Run" }).click();
  await slow.page.page.getByText("Working…").waitFor();
  await slow.page.page.getByRole("button", { name: "Stop" }).click();
  await slow.input.getByRole("button", { name: "Run" }).waitFor();
  await slow.page.close();
  const { page, input } = await form(browser, server, "failing");
  await input.getByLabel("Msg").fill("x");
  await input.getByRole("button", { name: "Run" }).click();
  await page.page.getByRole("alert").getByText(/boom!/).waitFor();
  await page.status("Failed");
  await page.accessible("graph-failed");
  await page.close();
}

/** The address to which starts are sent. */
const RUNS = /\/threads\/[^/]+\/runs$/;

async function a_start_of_a_graph_that_got_no_reply_happens_once(browser, server) {
  const { page, input } = await form(browser, server, "echo");
  const threads = async () => (await server.json("POST", "/threads/search", { query: "echo: once", limit: 10 })).length;
  const runs = async () => (await server.json("GET", `/threads/${page.thread}/runs`)).length;
  await input.getByLabel("Msg").fill("once");
  // The thread is created, and its run is not.
  await loseRequest(page, RUNS);
  await input.getByRole("button", { name: "Run" }).click();
  await page.page.getByRole("alert").getByText("Not sent: the server did not answer. Try again.").waitFor();
  assert.equal(await input.getByLabel("Msg").inputValue(), "once");
  await loseReply(page, RUNS);
  await input.getByRole("button", { name: "Run" }).click();
  await page.page.waitForURL(/#\/thread\//);
  const output = page.page.getByRole("list", { name: "Output" });
  await output.getByText("echo:once").waitFor();
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  assert.deepEqual([await threads(), await runs()], [1, 1]);
  // On the same thread, also for the same input.
  for (const count of [2, 3]) {
    await loseReply(page, RUNS);
    await input.getByLabel("Msg").fill("and again");
    await input.getByRole("button", { name: "Run" }).click();
    await eventually(async () => (await runs()) === count, `${count} runs are expected`);
    await page.status("Done");
    await input.getByRole("button", { name: "Run" }).and(page.page.locator(":enabled")).waitFor();
    assert.equal(await runs(), count);
  }
  assert.equal(await page.page.getByText("Not sent").count(), 0);
  await page.close();
}

export const tests = [
  a_graph_runs_with_a_form_and_shows_its_output,
  a_question_of_a_graph_is_answered,
  a_graph_is_stopped_and_a_failure_is_shown,
  a_start_of_a_graph_that_got_no_reply_happens_once,
];
