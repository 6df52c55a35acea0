// A chat on the embedded model, which needs its weights.
import { Page } from "./browser.mjs";

/** Longest time for an answer of a debug build on a busy machine, in milliseconds. */
const ANSWER_MS = 120_000;

async function the_embedded_model_calls_a_tool_and_answers_from_its_result(browser, server) {
  const page = await Page.begin(browser, server, "What is the status of order A1001?");
  await page.page.locator(".call code", { hasText: "lookup_order" }).waitFor({ timeout: ANSWER_MS });
  // The status is that of the order.
  const text = page.answer.filter({ hasText: /on its way/ });
  await text.waitFor({ timeout: ANSWER_MS });
  await page.status("Done");
  await page.accessible("embedded");
  await page.close();
}

export const tests = [the_embedded_model_calls_a_tool_and_answers_from_its_result];
