// What people do, and what must not be lost on the way: texts that wait, answers that are begun, the focus.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";

/** Begins a thread in which the agent asks for the approval of several calls. */
export async function askedSeveral(browser, { server, model }, text, seconds) {
  const calls = seconds.map((seconds) => ["lab__careful", { seconds }]);
  model.when(text, (results) => (results === 0 ? { calls } : "It is over."));
  const page = await Page.begin(browser, server, `Please, ${text}`);
  const cards = page.page.getByRole("region", { name: "Approval of lab/careful" });
  await cards.nth(seconds.length - 1).waitFor();
  return { page, cards };
}

/** Opens a new chat while the agents are not loaded, and returns a function that lets them load. */
async function withoutAgents(browser, server) {
  const page = await Page.open(browser, server, { cookies: [await server.cookie()], address: "about:blank" });
  let go;
  const held = new Promise((resolve) => (go = resolve));
  await page.page.route("**/assistants/search", async (route) => {
    await held;
    await route.continue().catch(() => {});
  });
  await page.page.goto(`${server.url}/ui/#/new/desk`);
  return { page, go };
}

async function a_message_that_waits_for_the_agents_goes_when_the_view_is_left(browser, { server, model }) {
  model.when("left bird", "I came late.");
  const { page, go } = await withoutAgents(browser, server);
  await page.page.getByRole("textbox", { name: "Your message" }).fill("I am a left bird");
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.page.getByText("It is sent when the agents are there.").waitFor();
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  // It is said again in the view, and is no draft that could be sent twice.
  await page.page.getByRole("link", { name: "New chat" }).click();
  await page.page.getByText("It is sent when the agents are there.").waitFor();
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "");
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  go();
  await page.page.getByText("“I am a left bird” is sent.").waitFor();
  assert.match(page.page.url(), /#\/inbox/, "the view stays");
  await page.page.locator(".threads a", { hasText: "I am a left bird" }).click();
  await page.until("I came late.");
  assert.equal((await server.messages(page.thread)).filter(({ role }) => role === "user").length, 1);
  await page.page.getByRole("link", { name: "New chat" }).click();
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "", "what was sent is no draft");
  await page.close();
}

async function a_first_message_goes_when_its_thread_is_left_at_once(browser, { server, model }) {
  model.when("hurried bird", "Slow down.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.locator(".agents a[aria-current]").waitFor();
  await page.page.route("**/chat/desk/*", () => {});
  await page.page.getByRole("textbox", { name: "Your message" }).fill("I am a hurried bird");
  await page.page.keyboard.press("Enter");
  await page.page.waitForURL(/#\/thread\//);
  const { thread } = page;
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.locator(".threads li", { hasText: "I am a hurried bird" }).getByText("Done").waitFor();
  assert.equal((await server.messages(thread)).length, 2);
  await page.page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
}

async function a_reason_that_is_typed_outlives_the_decision_about_another_call(browser, lab) {
  const { page, cards } = await askedSeveral(browser, lab, "three careful calls", [0.041, 0.042, 0.043]);
  const third = page.page.getByRole("region", { name: "Approval of lab/careful: 0.043" });
  const second = page.page.getByRole("region", { name: "Approval of lab/careful: 0.042" });
  await second.getByRole("button", { name: "Edit" }).click();
  await second.getByLabel("seconds").fill("0.044");
  await third.getByRole("button", { name: "Reject" }).click();
  await page.page.keyboard.type("too slow for");
  const [first] = (await lab.server.json("GET", `/interrupts?thread_id=${page.thread}`)).filter(({ action }) => action.args.seconds === 0.041);
  await lab.server.json("POST", `/interrupts/${first.id}/respond`, { type: "approve" });
  await eventually(async () => (await cards.count()) === 2, "the first card stays");
  await page.page.getByRole("status").getByText("Answered by local: Approved.").waitFor();
  const reason = third.getByRole("textbox");
  assert.equal(await reason.inputValue(), "too slow for");
  await eventually(() => reason.evaluate((field) => field === document.activeElement), "the focus is lost");
  await page.page.keyboard.type(" me");
  assert.equal(await second.getByLabel("seconds").inputValue(), "0.044");
  await third.getByRole("button", { name: "Reject" }).click();
  await page.page.getByText("Rejected: too slow for me").waitFor();
  await second.getByRole("button", { name: "Approve with changes" }).click();
  await page.until("It is over.");
  await page.close();
}

async function the_input_says_that_several_questions_wait(browser, lab) {
  const { page, cards } = await askedSeveral(browser, lab, "two careful calls", [0.045, 0.046]);
  const input = page.page.getByRole("textbox", { name: "Your message" });
  assert.equal(await input.getAttribute("placeholder"), "Answer the 2 questions above, each on its card");
  await input.fill("yes");
  await input.press("Enter");
  await page.page.getByRole("alert").getByText("Not sent: 2 questions wait. Answer each of them above, on its card.").waitFor();
  assert.equal(await input.inputValue(), "yes");
  await page.accessible("several-questions");
  await cards.first().getByRole("button", { name: "Approve" }).click();
  await eventually(async () => (await cards.count()) === 1, "the first card stays");
  await cards.first().getByRole("button", { name: "Approve" }).click();
  await page.until("It is over.");
  await page.close();
}

/** Pays an order, kills the server inside the call, and returns the card of its unknown outcome. */
async function unknownPayment(browser, { server, model }, order) {
  model.when(`pay ${order}`, (results) => (results === 0 ? { calls: [["lab__pay", { order, cents: 700 }]] } : `Done with ${order}.`));
  const page = await Page.begin(browser, server, `Please pay ${order}`);
  await page.page.getByRole("button", { name: "Approve" }).click();
  await eventually(() => server.payments().includes(order), "the payment was not made");
  await server.kill();
  await page.page.getByText("Connection cut").waitFor();
  await server.start();
  const card = page.page.getByRole("region", { name: /^Unknown outcome of lab/ });
  await card.waitFor();
  return { page, card };
}

async function a_person_says_what_happened_and_nothing_is_chosen_before(browser, lab) {
  const { page, card } = await unknownPayment(browser, lab, "O-7");
  await card.getByRole("button", { name: "It happened" }).click();
  assert.equal(await card.getByLabel("state").inputValue(), "", "a state is chosen by nobody");
  await card.getByLabel("receipt").fill("R-O-7");
  await card.getByLabel("cents").fill("700");
  await card.getByRole("button", { name: "It happened, with this result" }).click();
  await page.until("Done with O-7.");
  assert.doesNotMatch(JSON.stringify(await lab.server.messages(page.thread)), /"state":"paid"/);
  await page.close();
}

async function the_text_of_an_attempt_that_was_cut_is_not_shown_beside_the_next_one(browser, { server, model }) {
  const text = "one. two. three. four.";
  let attempts = 0;
  model.when("cut attempt", () => {
    attempts += 1;
    return attempts < 3 ? { reasoning: "I think.", text, cut: "three.", pause: 30 } : { reasoning: "I think.", text, pause: 30, hold: "two." };
  });
  const page = await Page.begin(browser, server, "Please give a cut attempt");
  await eventually(() => attempts === 3, "the model is not asked again");
  await page.until("two.");
  const shown = async (page) => (await page.answer.locator(".markdown").allTextContents()).join(" ").replace(/\s+/g, " ").trim();
  await eventually(async () => (await shown(page)) === "one. two.", "text of an earlier attempt is shown");
  assert.equal(await page.answer.getByText("Reasoning").count(), 1);
  // One who joins sees the same.
  const second = await Page.enter(browser, server, { hash: `#/thread/${page.thread}` });
  await second.until("two.");
  await eventually(async () => (await shown(second)) === "one. two.", "text of an earlier attempt is shown to one who joins");
  await second.close();
  model.release();
  await page.until("four.");
  await page.status("Done");
  assert.equal(await shown(page), text);
  await page.page.reload();
  await page.until("four.");
  assert.equal(await shown(page), text);
  await page.close();
}

async function the_duration_of_a_call_is_the_same_for_one_who_joins_late(browser, { server, model }) {
  model.when("slow for all", (results) => (results === 0 ? { calls: [["lab__slow", { seconds: 30 }]] } : "It took long."));
  const first = await Page.begin(browser, server, "Please be slow for all");
  await first.answer.getByText("Running").waitFor();
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  const second = await Page.enter(browser, server, { hash: `#/thread/${first.thread}` });
  await second.answer.getByText("Running").waitFor();
  server.release();
  const shown = [];
  for (const page of [first, second]) {
    await page.until("It took long.");
    shown.push(await page.answer.getByText(/Done · [\d.]+ s$/).textContent());
  }
  assert.equal(shown[0], shown[1]);
  assert(Number(/[\d.]+/.exec(shown[1])[0]) >= 2.5, shown[1]);
  await second.page.reload();
  await second.answer.getByText(shown[0]).waitFor();
  await first.close();
  await second.close();
}

/** A picture of one pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const PICTURE = { name: "pixel.png", mimeType: "image/png", buffer: Buffer.from(PIXEL, "base64") };

async function images_are_sent_with_a_text(browser, { server, model }) {
  model.when("look at this", "I see a pixel.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.locator(".agents a[aria-current]").waitFor();
  for (const again of ["", " again"]) {
    await page.page.getByRole("textbox", { name: "Your message" }).fill(`look at this${again}`);
    await page.page.getByLabel("Text files or images", { exact: true }).setInputFiles(PICTURE);
    await page.page.getByRole("group", { name: "Added files" }).getByRole("img", { name: "pixel.png" }).waitFor();
    if (again) await page.accessible("added-image");
    await page.page.getByRole("button", { name: "Send" }).click();
    await page.page.waitForURL(/#\/thread\//);
    await page.page.locator(".message.assistant").nth(again ? 1 : 0).getByText("I see a pixel.").waitFor();
    await page.status("Done");
    assert.deepEqual(model.content.at(-1), { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } });
  }
  const images = page.page.locator(".message.user").getByRole("button", { name: "Show the image" });
  assert.equal(await images.count(), 2);
  await page.page.reload();
  await images.nth(1).waitFor();
  // The request is said again with its image.
  model.content = "";
  await page.page.getByRole("button", { name: "Edit" }).first().click();
  await page.page.getByRole("textbox", { name: /Say this instead/ }).fill("look at this once more");
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await eventually(() => model.content !== "", "the fork is not answered");
  await page.until("I see a pixel.");
  assert.match(JSON.stringify(model.content), /once more.*image_url/);
  await page.close();
}

async function an_image_for_a_model_without_images_is_refused_and_stays(browser, { server, model }) {
  model.when("only texts", "I read it.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.locator(".agents a[aria-current]").waitFor();
  await page.page.getByLabel("Model", { exact: true }).selectOption("openai:gpt-3.5-text");
  await page.page.getByRole("textbox", { name: "Your message" }).fill("only texts?");
  await page.page.getByLabel("Text files or images", { exact: true }).setInputFiles(PICTURE);
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.page.getByRole("alert").getByText("the model `openai:gpt-3.5-text` does not take images; remove them, or select another model").waitFor();
  await page.status("Nothing sent");
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "only texts?");
  await page.accessible("refused-image");
  await page.page.getByRole("button", { name: "Remove pixel.png" }).click();
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("I read it.");
  await page.close();
}

async function files_stay_in_the_input_when_their_message_is_refused(browser, { server, model }) {
  model.when("file at rest", "Good.");
  model.when("file elsewhere", { text: "One two three", hold: "two" });
  const page = await Page.begin(browser, server, "A file at rest");
  await page.until("Good.");
  await page.status("Done");
  await page.page.getByRole("textbox", { name: "Your message" }).fill("With two files");
  const text = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one\ntwo") };
  await page.page.getByLabel("Text files or images", { exact: true }).setInputFiles([PICTURE, text]);
  const added = page.page.getByRole("group", { name: "Added files" });
  await added.getByRole("img", { name: "pixel.png" }).waitFor();
  // Somebody else says something, which the page does not know yet.
  const other = await Page.enter(browser, server, { hash: `#/thread/${page.thread}` });
  await other.say("A file elsewhere");
  await other.until("One two");
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("One two");
  for (const again of [false, true]) {
    if (again) await page.status("Done");
    assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "With two files");
    await added.getByRole("img", { name: "pixel.png" }).waitFor();
    await added.getByText("notes.txt").waitFor();
    model.release();
  }
  await other.close();
  await page.close();
}

async function files_of_a_new_chat_stay_when_its_view_is_left(browser, { server, model }) {
  model.when("With my file", "I read it.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  const text = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one\ntwo") };
  const added = page.page.getByRole("group", { name: "Added files" });
  await page.page.getByLabel("Text files or images", { exact: true }).setInputFiles([PICTURE, text]);
  await added.getByText("notes.txt").waitFor();
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  await page.page.getByRole("link", { name: "New chat" }).click();
  await added.getByText("notes.txt").waitFor();
  await added.getByRole("img", { name: "pixel.png" }).waitFor();
  await page.page.getByRole("button", { name: "Remove pixel.png" }).click();
  await page.say("With my file");
  await page.until("I read it.");
  assert.match(model.content, /File notes\.txt:/);
  // What was sent is not added again.
  await page.page.getByRole("link", { name: "New chat" }).click();
  await page.page.getByRole("textbox", { name: "Your message" }).waitFor();
  assert.equal(await added.count(), 0);
  await page.close();
}

async function files_that_wait_for_the_agents_go_once_and_are_no_others(browser, { server, model }) {
  model.when("late file", "I read it late.");
  const { page, go } = await withoutAgents(browser, server);
  const file = (name) => ({ name, mimeType: "text/plain", buffer: Buffer.from(`words of ${name}`) });
  const add = (name) => page.page.getByLabel("Text files or images", { exact: true }).setInputFiles([file(name)]);
  const added = page.page.getByRole("group", { name: "Added files" });
  const leave = async () => {
    await page.page.getByRole("link", { name: /^Inbox/ }).click();
    await page.page.getByRole("heading", { name: "Inbox" }).waitFor();
  };
  await add("first.txt");
  await added.getByText("first.txt", { exact: true }).waitFor();
  await page.say("A late file");
  await page.page.getByText("It is sent when the agents are there.").waitFor();
  await leave();
  await page.page.getByRole("link", { name: "New chat" }).click();
  await page.page.getByText("It is sent when the agents are there.").waitFor();
  assert.equal(await added.count(), 0);
  await add("second.txt");
  await page.page.getByRole("textbox", { name: "Your message" }).fill("Not sent yet");
  await leave();
  go();
  await page.page.getByText("“A late file” is sent.").waitFor();
  await page.page.getByRole("link", { name: "New chat" }).click();
  await added.getByText("second.txt", { exact: true }).waitFor();
  assert.equal(await page.page.getByRole("textbox", { name: "Your message" }).inputValue(), "Not sent yet");
  assert.equal(await added.getByText("first.txt", { exact: true }).count(), 0);
  await page.page.locator(".threads a", { hasText: "A late file" }).click();
  await page.until("I read it late.");
  assert.match(model.content, /words of first\.txt/);
  assert.doesNotMatch(model.content, /second/);
  await page.close();
}

/** What has the focus, in words: its name, or its text. */
const focused = (page) =>
  page.page.evaluate(() => {
    const { activeElement: element } = document;
    return element.getAttribute("aria-label") ?? element.getAttribute("name") ?? (element === document.body ? "nothing" : element.textContent);
  });

async function hasFocus(page, words) {
  let found;
  await eventually(async () => words.test((found = await focused(page))), `${words} has not the focus`).catch((error) => {
    throw new Error(`${error.message}, but: ${found}`);
  });
}

async function the_focus_follows_the_keys_and_is_never_nowhere(browser, lab) {
  const { page } = await askedSeveral(browser, lab, "focused careful calls", [0.061, 0.062]);
  const { thread } = page;
  const { keyboard } = page.page;
  await page.page.getByRole("link", { name: /^Inbox/ }).click();
  const list = page.page.getByRole("list", { name: "Questions" });
  const row = (text) => list.getByRole("button").filter({ hasText: text });
  await row("0.061").click();
  // The row that is chosen by a key has the focus.
  await keyboard.press("j");
  await hasFocus(page, /0\.062/);
  assert.equal(await row("0.062").getAttribute("aria-pressed"), "true");
  await keyboard.press("k");
  await hasFocus(page, /0\.061/);
  // A key is about the row that has the focus.
  await row("0.062").focus();
  await keyboard.press("x");
  assert(await list.getByRole("checkbox", { name: /0\.062/ }).isChecked());
  await keyboard.press("x");
  await keyboard.press("k");
  // A form takes the focus, and gives it back.
  const card = page.page.getByRole("region", { name: "Approval of lab/careful: 0.061" });
  await card.waitFor();
  await keyboard.press("e");
  await hasFocus(page, /^seconds$/);
  await keyboard.press("Escape");
  await hasFocus(page, /^Edit$/);
  await keyboard.press("r");
  await hasFocus(page, /^text$/);
  await keyboard.type("not this one");
  await keyboard.press("Escape");
  await hasFocus(page, /^Reject$/);
  await keyboard.press("r");
  assert.equal(await card.getByRole("textbox").inputValue(), "not this one", "what was typed stays");
  await card.getByRole("button", { name: "Reject" }).focus();
  await keyboard.press("Enter");
  await page.page.getByText(/Answered by \S+: Rejected: not this one/).waitFor();
  await hasFocus(page, /^Question$/);
  await page.page.getByRole("button", { name: "Next question" }).focus();
  await keyboard.press("Enter");
  await hasFocus(page, /^Question$/);
  // In the conversation, the input has the focus after an action.
  await page.page.goto(`${lab.server.url}/ui/#/thread/${thread}`);
  const second = page.page.getByRole("region", { name: "Approval of lab/careful: 0.062" });
  await second.getByRole("button", { name: "Approve" }).focus();
  await keyboard.press("Enter");
  await page.until("It is over.");
  await hasFocus(page, /^Your message$/);
  await page.page.getByRole("button", { name: "Retry" }).focus();
  await keyboard.press("Enter");
  await hasFocus(page, /^Your (message|reply)$/);
  await page.page.getByRole("button", { name: "Retry" }).waitFor();
  await page.page.locator(".menu summary").click();
  await page.page.getByRole("button", { name: "Rename" }).click();
  await hasFocus(page, /^Title$/);
  await keyboard.press("Enter");
  await hasFocus(page, /^Thread$/);
  await lab.server.json("POST", "/threads/prune", { thread_ids: [thread] });
  await page.close();
}

export const tests = [
  the_focus_follows_the_keys_and_is_never_nowhere,
  images_are_sent_with_a_text,
  an_image_for_a_model_without_images_is_refused_and_stays,
  files_stay_in_the_input_when_their_message_is_refused,
  files_of_a_new_chat_stay_when_its_view_is_left,
  files_that_wait_for_the_agents_go_once_and_are_no_others,
  the_duration_of_a_call_is_the_same_for_one_who_joins_late,
  the_text_of_an_attempt_that_was_cut_is_not_shown_beside_the_next_one,
  a_message_that_waits_for_the_agents_goes_when_the_view_is_left,
  a_first_message_goes_when_its_thread_is_left_at_once,
  a_reason_that_is_typed_outlives_the_decision_about_another_call,
  the_input_says_that_several_questions_wait,
  a_person_says_what_happened_and_nothing_is_chosen_before,
];
