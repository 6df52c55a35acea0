// A chat on the embedded model, which needs its weights.
import assert from "node:assert/strict";
import { Page } from "./browser.mjs";

/** Longest time for an answer of a debug build on a busy machine, in milliseconds. */
const ANSWER_MS = 120_000;

async function the_embedded_model_calls_a_tool_and_answers_from_its_result(browser, server) {
  const page = await Page.begin(browser, server, "What is the status of order A1001?");
  await page.page.locator(".head .status", { hasText: "Done" }).waitFor({ timeout: ANSWER_MS });
  const answer = await page.answer.innerText();
  assert.match(answer, /lookup_order/, "the call has a card");
  assert.match(answer, /A1001/);
  assert.match(answer, /on its way/, "the status is that of the order");
  await page.accessible("embedded");
  await page.close();
}

export const tests = [the_embedded_model_calls_a_tool_and_answers_from_its_result];
