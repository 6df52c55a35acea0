// Threads with rows that this build cannot read, among a hundred others: each costs itself alone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, Page } from "./browser.mjs";

const { damages, left } = JSON.parse(readFileSync(join(import.meta.dirname, "damages.json"), "utf8"));
const names = Object.keys({ ...damages, ...left });
const READABLE = 100;

async function threads_that_cannot_be_read_leave_the_others_in_the_list(browser, server) {
  for (let number = 0; number < READABLE; number += 1) await server.say(`good ${number}`, `Where is order A100${number % 5}?`);
  for (const name of [...names, "good question"]) await server.say(name, "Refund order A1002, amount 40.");
  await server.kill();
  server.damage({ ...damages, ...left });
  await server.start();
  const page = await Page.enter(browser, server, { hash: "#/" });
  const rows = page.page.locator(".threads a");
  const row = (name) => rows.filter({ has: page.page.locator(".title", { hasText: new RegExp(`^${name}$`) }) });
  await row("good question").waitFor();
  for (let pages = 0; pages < 3; pages += 1) {
    const more = page.page.getByRole("button", { name: "Show more" });
    if (await more.count()) await more.click();
    await eventually(async () => (await rows.count()) >= Math.min((pages + 2) * 50, READABLE + names.length + 1), "the list grows");
  }
  assert.equal(await rows.count(), READABLE + names.length + 1);
  for (const name of names) {
    await row(name).click();
    await page.page.locator("main").getByText(/W0\d\d\d|cannot be read|damaged/).first().waitFor();
    assert.equal(await rows.count(), READABLE + names.length + 1, name);
  }
  // The others go on.
  await row("good 7").click();
  await page.until("A1002");
  await page.say("Where is order A1003?");
  await page.until("A1003");
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByText("good question").waitFor();
  await page.accessible("damaged");
  await page.close(/Failed to load resource/);
}

export const tests = [threads_that_cannot_be_read_leave_the_others_in_the_list];
