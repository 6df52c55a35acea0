// The order desk by mouse: what a person does, and what is on the screen and in the store after it.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";


async function a_ticket_opens_the_page_once_and_leaves_the_address(browser, server) {
  const first = await Page.open(browser, server);
  await first.page.getByRole("heading", { name: "What can an agent do for you?" }).waitFor();
  assert(!first.page.url().includes("ticket"), first.page.url());
  await first.accessible("new");
  await first.close();
  const second = await Page.open(browser, server);
  await second.page.getByLabel("Token").waitFor();
  await second.accessible("login");
  await second.page.getByLabel("Token").fill(server.token);
  await second.page.keyboard.press("Enter");
  await second.page.getByRole("textbox", { name: "Your message" }).waitFor();
  await second.close();
}

async function a_refund_is_asked_for_kept_over_a_reload_and_made_once(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1002, amount 40.");
  const card = page.approval;
  await card.getByText("A1002").waitFor();
  const before = await page.messages();
  assert.deepEqual(before.map((message) => [message].flat()[0]), ["user", "assistant"]);
  assert.equal(await page.page.getByText("Working…").count(), 0, "nothing runs");
  await page.accessible("approval");
  await page.page.reload();
  await card.getByText("A1002").waitFor();
  const loaded = await page.messages();
  assert.equal(loaded.length, 2);
  assert.deepEqual(server.refunds(), []);
  await card.getByRole("button", { name: "Approve" }).click();
  await page.until(/refunded|40/);
  await page.page.locator('[data-status="done"]').first().waitFor();
  // The answer continues the message that asked.
  assert.deepEqual(await page.messages(), loaded);
  assert.deepEqual(server.refunds(), [["A1002", 4000]]);
  await page.page.locator(".head .status", { hasText: "Done" }).waitFor();
  await page.accessible("approved");
  await page.close();
}

async function an_answer_continues_the_message_that_asked(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1001");
  await page.page.getByRole("region", { name: "Question" }).waitFor();
  await page.accessible("question");
  const before = await page.messages();
  // A text that is typed is the answer.
  await page.say("25 euros");
  const card = page.approval;
  await card.waitFor();
  assert.deepEqual(await page.messages(), before);
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByLabel("amount").fill("20");
  await card.getByText("20", { exact: true }).waitFor();
  await page.accessible("edit");
  await card.getByRole("button", { name: "Approve with changes" }).click();
  await page.page.locator(".head .status", { hasText: "Done" }).waitFor();
  assert.deepEqual(await page.messages(), before);
  assert.deepEqual(server.refunds().at(-1), ["A1001", 2000]);
  await page.answer.locator("summary", { hasText: "Approved with changes" }).click();
  // The card has the arguments with which the call was made.
  await page.answer.getByLabel("Arguments").getByText("20", { exact: true }).waitFor();
  await page.accessible("edited");
  await page.close();
}

async function an_answer_of_another_tab_is_shown_and_counts_once(browser, server) {
  const made = server.refunds().length;
  const first = await Page.begin(browser, server, "Refund order A1004, amount 7.");
  await first.approval.waitFor();
  const second = await Page.begin(browser, server, "Where is order A1003?");
  await second.until("A1003");
  await second.page.goto(first.page.url());
  await second.approval.waitFor();
  // By keyboard alone: the input has the focus, and the decision is before it.
  const approve = first.approval.getByRole("button", { name: "Approve" });
  while (!(await approve.evaluate((button) => button === document.activeElement))) {
    await first.page.keyboard.press("Shift+Tab");
  }
  await first.page.keyboard.press("Enter");
  await second.approval.getByRole("button", { name: "Approve" }).click();
  // The one who was late learns who was first, and what was decided.
  await second.page.getByRole("alert").getByText("Answered first by local: Approved.").waitFor();
  for (const page of [first, second]) {
    await page.page.locator(".head .status", { hasText: "Done" }).waitFor();
    await page.answer.getByText("Approved").waitFor();
    assert.equal(await page.approval.count(), 0);
  }
  const focused = () => first.page.evaluate(() => document.activeElement.tagName);
  assert.equal(await focused(), "TEXTAREA", "the focus is in the input after the answer");
  assert.deepEqual(server.refunds().slice(made), [["A1004", 700]]);
  await first.close();
  await second.close();
}

async function an_answer_given_in_the_inbox_is_shown_in_the_chat(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1004, amount 8.");
  await page.approval.waitFor();
  const [open] = (await server.json("GET", "/interrupts")).filter(({ thread_id }) => thread_id === page.thread);
  await server.json("POST", `/interrupts/${open.id}/respond`, { type: "reject", message: "not today" });
  await page.page.getByRole("status").getByText("Answered by local: Rejected: not today.").waitFor();
  await page.approval.waitFor({ state: "detached" });
  await page.status("Done");
  // Nothing went wrong for somebody who did not want to answer.
  assert.equal(await page.page.getByRole("alert").getByText("Answered").count(), 0);
  await page.accessible("noted");
  await page.close();
}

async function the_order_desk_is_used_by_keyboard_alone(browser, server) {
  const made = server.refunds().length;
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  const { keyboard } = page.page;
  const focused = () => page.page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
  const tabTo = async (name, key = "Shift+Tab") => {
    for (let step = 0; (await focused()) !== name; step += 1) {
      assert(step < 40, `${name} is not reached by ${key}`);
      await keyboard.press(key);
    }
  };
  await page.page.locator(".agents a[aria-current]").waitFor();
  assert.equal(await focused(), "Your message");
  await keyboard.type("Refund order A1001");
  await keyboard.press("Enter");
  await page.page.getByRole("region", { name: "Question" }).waitFor();
  assert.equal(await focused(), "Your reply");
  await keyboard.type("25 euros");
  await keyboard.press("Enter");
  await page.approval.waitFor();
  await tabTo("Edit");
  await keyboard.press("Enter");
  await page.approval.getByLabel("amount").focus();
  await keyboard.press("ControlOrMeta+a");
  await keyboard.type("15");
  await keyboard.press("Enter");
  await page.status("Done");
  assert.deepEqual(server.refunds().slice(made), [["A1001", 1500]]);
  assert.equal(await focused(), "Your message", "the focus is in the input after the answer");
  const call = page.answer.locator(".call summary").last();
  while (!(await call.evaluate((summary) => summary === document.activeElement))) await keyboard.press("Shift+Tab");
  await keyboard.press("Enter");
  await page.answer.getByLabel("Arguments").getByText("15", { exact: true }).waitFor();
  // From view to view.
  await keyboard.press("g");
  await keyboard.press("i");
  await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  await keyboard.press("g");
  await keyboard.press("n");
  await page.page.getByRole("textbox", { name: "Your message" }).waitFor();
  await page.close();
}

async function the_inbox_is_worked_through_by_keyboard(browser, server) {
  const made = server.refunds();
  for (const amount of [1, 2]) {
    const page = await Page.begin(browser, server, `Refund order A1003, amount ${amount}.`);
    await page.approval.waitFor();
    if (amount === 1) {
      await page.close();
      continue;
    }
    await page.page.getByRole("link", { name: /^Inbox/ }).click();
    const rows = page.page.locator(".waiting button");
    await rows.nth(1).waitFor();
    await page.accessible("inbox");
    await page.page.keyboard.press("j");
    await page.page.locator('.waiting li:nth-child(2) button[aria-pressed="true"]').waitFor();
    await page.page.keyboard.press("r");
    await page.page.keyboard.type("too little");
    await page.page.getByRole("button", { name: "Reject" }).click();
    await rows.nth(1).waitFor({ state: "detached" });
    await page.page.getByText(/Answered by \S+: Rejected: too little/).waitFor();
    await page.page.keyboard.press("j");
    await page.approval.waitFor();
    await page.page.keyboard.press("a");
    await page.page.getByText("Nothing waits for you.").waitFor();
    await page.close();
  }
  // The inbox is empty once the answer is taken, and the call is made after it.
  const refunds = () => server.refunds().slice(made.length);
  await eventually(() => refunds().length > 0, "the refund is made");
  assert.deepEqual(refunds(), [["A1003", 100]]);
}

async function a_question_of_a_member_has_its_name(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1002, amount 2.", { agent: "supervisor" });
  const asker = page.approval.getByText("desk asks");
  await asker.waitFor();
  await page.accessible("member");
  await page.page.reload();
  await asker.waitFor();
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.locator(".waiting .facts", { hasText: "supervisor › desk" }).waitFor();
  await page.page.locator(".detail").getByLabel("The question").getByText("supervisor › desk").waitFor();
  await asker.waitFor();
  await page.page.keyboard.press("a");
  await page.page.getByText("Nothing waits for you.").waitFor();
  await page.page.getByRole("link", { name: "Answered" }).click();
  await page.page.locator(".decisions .facts", { hasText: "supervisor › desk" }).waitFor();
  await page.close();
}

async function a_question_outlives_the_server_and_threads_are_found_and_deleted(browser, server) {
  const page = await Page.begin(browser, server, "Refund order A1005, amount 3.");
  const card = page.approval;
  await card.waitFor();
  const before = server.refunds();
  await server.kill();
  await card.getByRole("button", { name: "Approve" }).click();
  await page.page.getByText("Connection cut").waitFor();
  await page.shot("cut");
  await server.start();
  await page.page.getByText("Reconnected").waitFor();
  await card.getByRole("button", { name: "Approve" }).click();
  await page.page.locator(".head .status", { hasText: "Done" }).waitFor();
  assert.deepEqual(server.refunds().slice(before.length), [["A1005", 300]]);
  await server.kill();
  await page.say("Where is order A1001?");
  await page.page.getByText("Connection cut").waitFor();
  await server.start();
  await page.page.getByText("Reconnected").waitFor();
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "Where is order A1001?");
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.page.locator(".call code", { hasText: "lookup_order" }).waitFor();
  await page.until("A1001: ");
  await page.accessible("card");
  await page.page.getByRole("searchbox").fill("a1005 REFUND");
  await page.page.locator(".threads li").nth(1).waitFor({ state: "detached" });
  const { thread } = page;
  await page.choose("Delete");
  await page.page.getByText("No thread fits.").waitFor();
  await page.page.getByRole("heading", { name: "What can an agent do for you?" }).waitFor();
  // Another message does not end the time for the undo.
  await page.page.locator('input[type="file"]').setInputFiles({ name: "notes.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0xff, 0xfe]) });
  await page.page.getByText("notes.bin is neither a text nor an image of type PNG, JPEG, GIF or WebP.").waitFor();
  assert.equal((await server.json("GET", `/threads/${thread}`)).thread_id, thread, "the deletion can be undone");
  await page.page.getByRole("button", { name: "Undo" }).click();
  await page.page.locator(".threads a").click();
  await page.choose("Delete");
  await page.page.getByText("is deleted").waitFor();
  assert.equal((await server.json("GET", `/threads/${thread}`)).thread_id, thread, "the deletion can be undone");
  // It is deleted when the time for the undo is over, here because the page closes.
  await page.page.goto("about:blank");
  await gone(server, thread);
  await page.close();
}

/** Waits until the server has no such thread. */
async function gone(server, thread) {
  const is404 = (error) => /404/.test(error.message);
  await eventually(() => server.json("GET", `/threads/${thread}`).then(() => false, is404), "the thread was not deleted");
}

async function it_fits_a_phone(browser, server) {
  const viewport = { width: 390, height: 844 };
  const page = await Page.enter(browser, server, { viewport });
  await page.page.locator(".threads a").first().waitFor();
  await page.accessible("phone-threads");
  await page.page.locator(".threads a").first().click();
  await page.answer.waitFor();
  await page.accessible("phone-thread");
  await page.page.getByRole("button", { name: "Details", exact: true }).click();
  await page.page.locator(".graph").waitFor();
  await page.accessible("phone-details");
  const width = await page.page.evaluate(() => document.documentElement.scrollWidth);
  assert(width <= viewport.width, `${width} pixels wide`);
  await page.close();
}

/** The tests, in order. */
export const tests = [
  a_ticket_opens_the_page_once_and_leaves_the_address,
  a_refund_is_asked_for_kept_over_a_reload_and_made_once,
  an_answer_continues_the_message_that_asked,
  an_answer_of_another_tab_is_shown_and_counts_once,
  an_answer_given_in_the_inbox_is_shown_in_the_chat,
  the_order_desk_is_used_by_keyboard_alone,
  the_inbox_is_worked_through_by_keyboard,
  a_question_of_a_member_has_its_name,
  a_question_outlives_the_server_and_threads_are_found_and_deleted,
  it_fits_a_phone,
];
