// What people do daily, with the number of clicks that each task may take.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";

/** Enters the page, which counts the clicks of the mouse from then on. */
async function enter(browser, server) {
  const page = await Page.enter(browser, server);
  await page.page.evaluate(() => {
    window.clicks = 0;
    window.addEventListener("mousedown", ({ isTrusted }) => (window.clicks += isTrusted ? 1 : 0), true);
  });
  return page;
}

const clicks = (page) => page.page.evaluate(() => window.clicks);

async function what_waits_is_answered_in_two_clicks_from_home(browser, server) {
  const made = server.refunds().length;
  const asking = await Page.begin(browser, server, "Refund order A1002, amount 6.");
  await asking.approval.waitFor();
  await asking.close();
  const page = await enter(browser, server);
  await page.page.getByRole("link", { name: /^Inbox 1$/ }).waitFor();
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByRole("button", { name: "Approve" }).click();
  await page.page.getByText("Nothing waits for you.").waitFor();
  await eventually(() => server.refunds().length > made, "the refund was not made");
  assert.deepEqual(server.refunds().slice(made), [["A1002", 600]]);
  assert.equal(await clicks(page), 2);
  await page.close();
}

async function yesterdays_conversation_is_found_in_two_clicks(browser, server) {
  const wanted = await Page.begin(browser, server, "Where is the wall lamp A1003?");
  await wanted.until("A1003");
  const { thread } = wanted;
  await wanted.close();
  const later = Array.from({ length: 55 }, (_, at) => ({ metadata: { title: `Since then ${at}`, graph_id: "desk" } }));
  await Promise.all(later.map((body) => server.json("POST", "/threads", body)));
  const page = await enter(browser, server);
  await page.page.locator(".threads a").first().waitFor();
  assert.equal(await page.page.locator(".threads .title", { hasText: "wall lamp" }).count(), 0, "it is far down the list");
  await page.page.getByRole("searchbox").click();
  await page.page.keyboard.type("wall lamp");
  await page.page.locator(".threads a", { hasText: "Where is the wall lamp A1003?" }).first().click();
  await page.until("A1003");
  assert.equal(page.thread, thread);
  assert.equal(await clicks(page), 2);
  await page.close();
}

async function what_a_tool_got_and_gave_is_seen_in_two_clicks(browser, server) {
  const talk = await Page.begin(browser, server, "Where is order A1003?");
  await talk.until("A1003");
  await talk.close();
  const page = await enter(browser, server);
  await page.page.locator(".threads a", { hasText: "Where is order A1003?" }).first().click();
  await page.page.locator(".call summary").click();
  await page.page.getByLabel("Arguments").getByText("A1003").waitFor();
  await page.page.getByLabel("Result").getByText("status").waitFor();
  assert.equal(await clicks(page), 2);
  await page.close();
}

export const tests = [
  what_waits_is_answered_in_two_clicks_from_home,
  what_a_tool_got_and_gave_is_seen_in_two_clicks,
  yesterdays_conversation_is_found_in_two_clicks,
];
