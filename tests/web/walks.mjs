// The walks of docs/walks/2026-11-25-page.md: actions of a person, with clicks counted.
import assert from "node:assert/strict";
import { Page } from "./browser.mjs";

/** Counts the clicks of a page. */
class Walk {
  clicks = 0;

  constructor(page) {
    this.page = page;
  }

  async click(locator) {
    this.clicks += 1;
    await locator.click();
  }
}

async function what_waits_is_answered_in_two_clicks_from_home(browser, server) {
  const made = server.refunds().length;
  const asking = await Page.begin(browser, server, "Refund order A1002, amount 6.");
  await asking.page.getByRole("region", { name: "Approval of refund_order" }).waitFor();
  await asking.close();
  const page = await Page.enter(browser, server);
  await page.page.getByRole("link", { name: /^Inbox 1$/ }).waitFor();
  const walk = new Walk(page);
  await walk.click(page.page.getByRole("link", { name: /^Inbox/ }));
  await walk.click(page.page.getByRole("button", { name: "Approve" }));
  await page.page.getByText("Nothing waits for you.").waitFor();
  for (let attempt = 0; server.refunds().length === made && attempt < 100; attempt += 1) await page.page.waitForTimeout(50);
  assert.deepEqual(server.refunds().slice(made), [["A1002", 600]]);
  assert(walk.clicks <= 2, `${walk.clicks} clicks`);
  await page.close();
}

async function yesterdays_conversation_is_found_in_three_clicks(browser, server) {
  const wanted = await Page.begin(browser, server, "Where is the wall lamp A1003?");
  await wanted.until("A1003");
  const { thread } = wanted;
  await wanted.close();
  const later = Array.from({ length: 55 }, (_, at) => ({ metadata: { title: `Since then ${at}`, graph_id: "desk" } }));
  await Promise.all(later.map((body) => server.json("POST", "/threads", body)));
  const page = await Page.enter(browser, server);
  await page.page.locator(".threads a").first().waitFor();
  assert.equal(await page.page.locator(".threads .title", { hasText: "wall lamp" }).count(), 0, "it is far down the list");
  const walk = new Walk(page);
  await walk.click(page.page.getByRole("searchbox"));
  await page.page.keyboard.type("wall lamp");
  await walk.click(page.page.locator(".threads a", { hasText: "Where is the wall lamp A1003?" }).first());
  await page.until("A1003");
  assert.equal(page.thread, thread);
  assert(walk.clicks <= 3, `${walk.clicks} clicks`);
  await page.close();
}

async function what_a_tool_got_and_gave_is_seen_in_two_clicks(browser, server) {
  const talk = await Page.begin(browser, server, "Where is order A1003?");
  await talk.until("A1003");
  await talk.close();
  const page = await Page.enter(browser, server);
  const walk = new Walk(page);
  await walk.click(page.page.locator(".threads a", { hasText: "Where is order A1003?" }).first());
  await walk.click(page.page.locator(".call summary"));
  await page.page.getByLabel("Arguments").getByText("A1003").waitFor();
  await page.page.getByLabel("Result").getByText("status").waitFor();
  assert(walk.clicks <= 2, `${walk.clicks} clicks`);
  await page.close();
}

export const tests = [
  what_waits_is_answered_in_two_clicks_from_home,
  what_a_tool_got_and_gave_is_seen_in_two_clicks,
  yesterdays_conversation_is_found_in_three_clicks,
];
