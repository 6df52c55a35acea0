// Open WebUI in Chromium lists the exposed agent and talks to it: page.mjs URL QUESTION ANSWER
import assert from "node:assert/strict";
import { launch } from "./browser.mjs";

const [url, question, answer] = process.argv.slice(2);
const PATIENCE_MS = 120_000;

const browser = await launch();
const context = await browser.newContext();
const page = await context.newPage();
page.setDefaultTimeout(PATIENCE_MS);
// There is no network but loopback.
await context.route((address) => address.host !== new URL(url).host, (route) => route.abort());

const input = page.locator("#chat-input");

async function the_page_lists_the_exposed_agent_and_no_other() {
  await page.goto(url);
  await input.waitFor();
  // It greets with its news.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /select a model|selected model/i }).first().click();
  const items = page.locator('button[aria-label="model-item"], [role="option"]');
  await items.first().waitFor();
  const names = (await items.allTextContents()).map((name) => name.trim());
  assert(names.some((name) => name.includes("golf")), `${names}`);
  assert(!names.some((name) => name.includes("hidden")), `${names}`);
  await items.filter({ hasText: /^\s*golf\s*$/ }).first().click();
}

async function the_agent_answers_and_its_answer_stays() {
  await input.click();
  await page.keyboard.type(question);
  await page.keyboard.press("Enter");
  const last = page.locator(".chat-assistant").last();
  await last.getByText(answer).first().waitFor();
  await page.waitForURL(/\/c\//);
  await page.reload();
  await last.getByText(answer).first().waitFor();
}

await the_page_lists_the_exposed_agent_and_no_other();
await the_agent_answers_and_its_answer_stays();
await browser.close();
