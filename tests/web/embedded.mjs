// A chat on the embedded model, which needs its weights.
import assert from "node:assert/strict";
import { PICTURE } from "./acting.mjs";
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

async function an_image_for_the_embedded_model_is_refused_before_it_is_sent(browser, server) {
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.locator(".agents a[aria-current]").waitFor();
  await page.page.getByRole("textbox", { name: "Your message" }).fill("What is this?");
  await page.page.getByLabel("Text files or images", { exact: true }).setInputFiles(PICTURE);
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.page.getByRole("alert").getByText("it does not take images").waitFor();
  await page.status("Nothing sent");
  // Nothing is lost.
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "What is this?");
  await page.page.getByRole("img", { name: "pixel.png" }).waitFor();
  await page.close();
}

export const tests = [
  an_image_for_the_embedded_model_is_refused_before_it_is_sent,
  the_embedded_model_calls_a_tool_and_answers_from_its_result,
];
