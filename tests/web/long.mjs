// Long threads and long messages. Times are printed beside their goals on a quiet machine, and checked in the
// full tier with room for a busy one.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";

const THREAD = "00000000-0000-4000-8000-000000005000";
const isFull = process.env.WEFT_TIER === "full";
const MESSAGES = isFull ? 5_000 : 400;
const BYTES = isFull ? 1_000_000 : 200_000;
/** Number of messages of one request. */
const BATCH = 200;
/** Factor between a goal and the time that is a failure in the full tier. */
const ROOM = 5;
/** Number of turns of a thread of which the first are drawn apart. */
const TURNS = 16;
/** Goals in milliseconds: first paint of the thread, 95th percentile of the time between frames, longest task. */
const GOALS = { paint: 500, frame: 1000 / 55, task: 100 };

export function report(name, value, goal) {
  console.log(`        ${name}: ${value.toFixed(1)} ms; the goal is ${goal.toFixed(1)} ms`);
  if (isFull) assert(value <= ROOM * goal, `${name}: ${value} ms`);
}

async function fill(server) {
  await server.json("POST", "/threads", { thread_id: THREAD, metadata: { graph_id: "desk", title: "Five thousand" }, supersteps: [batch(0)] });
  for (let at = BATCH; at < MESSAGES; at += BATCH) {
    const [{ values, as_node }] = batch(at).updates;
    await server.json("POST", `/threads/${THREAD}/state`, { values, as_node });
  }
}

function batch(from) {
  const messages = Array.from({ length: BATCH }, (_, at) => {
    const number = from + at;
    if (number % 2 === 0) return { type: "human", content: `Question ${number}: where is order A1003?` };
    return { type: "ai", content: `Answer ${number}: **A1003** is \`shipped\`.\n\n- a wall lamp\n- 40 euros\n\n| day | place |\n|---|---|\n| ${number} | Oslo |` };
  });
  return { updates: [{ values: { messages }, as_node: "__start__" }] };
}

async function five_thousand_messages_are_scrolled_smoothly(browser, { server }) {
  await fill(server);
  const page = await Page.enter(browser, server);
  const row = page.page.locator(".threads a", { hasText: "Five thousand" });
  await row.waitFor();
  const paint = await page.page.evaluate(async () => {
    const link = [...document.querySelectorAll(".threads a")].find(({ textContent }) => textContent.includes("Five thousand"));
    const begin = performance.now();
    link.click();
    while (!document.querySelector(".message.assistant .markdown")) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - begin;
  });
  report(`first paint of ${MESSAGES.toLocaleString("en")} messages`, paint, GOALS.paint);
  await page.until(`Answer ${MESSAGES - 1}`);
  assert((await page.page.locator(".message").count()) < 200, "only the end is drawn");
  const frames = await page.page.evaluate(async () => {
    const viewport = document.querySelector(".viewport");
    const times = [];
    let before = await new Promise(requestAnimationFrame);
    for (let number = 0; number < 240; number += 1) {
      viewport.scrollTop -= 120;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - before);
      before = now;
    }
    return times.sort((a, b) => a - b);
  });
  const slow = frames[Math.floor(frames.length * 0.95)];
  console.log(`        scroll: ${(1000 / slow).toFixed(1)} frames a second at the 5th percentile`);
  report("95th percentile between frames", slow, GOALS.frame);
  const drawn = await page.page.locator(".message").count();
  assert(drawn > 60, `${drawn} messages are drawn after scrolling`);
  await page.page.locator(".message", { hasText: `Answer ${MESSAGES - 61}:` }).waitFor();
  await page.close();
}

async function a_message_of_a_megabyte_does_not_block_typing(browser, { server, model }) {
  const lines = Array.from({ length: 20_000 }, (_, at) => `Line ${at} of a very long text with **stars**, \`code\`.`);
  model.when("a megabyte", "It is long.");
  const thread = THREAD.replace("5000", "0001");
  await server.json("POST", "/threads", { thread_id: thread, metadata: { graph_id: "desk", title: "A megabyte" } });
  await server.say(thread, `a megabyte\n${lines.join("\n")}`.slice(0, BYTES));
  const page = await Page.enter(browser, server, { hash: `#/thread/${thread}` });
  await page.until("It is long.");
  await page.page.locator(".message.user").getByRole("button", { name: "Show all" }).click();
  assert((await page.page.locator(".piece").count()) > BYTES / 20_000);
  await page.page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (window.longest = Math.max(window.longest, duration)))).observe({ type: "longtask" });
  });
  await page.page.getByRole("textbox", { name: "Your message" }).pressSequentially("The page takes what is typed.", { delay: 10 });
  report("longest task while typing beside a megabyte", await page.page.evaluate(() => window.longest), GOALS.task);
  await page.close();
}

/** Says numbered texts on a thread of its own, and returns its id. */
async function talk(server, model) {
  const thread = THREAD.replace("5000", "0016");
  await server.json("POST", "/threads", { thread_id: thread, metadata: { graph_id: "desk", title: "Sixteen turns" } });
  for (let number = 1; number <= TURNS; number += 1) {
    model.when(`turn ${number}.`, `Answer ${number}.`);
    await server.say(thread, `This is turn ${number}.`);
  }
  return thread;
}

/** Edits a message of the user, and returns the number of messages of the fork. */
async function editedIn(page, server, thread, number) {
  const message = page.page.locator(".message.user", { hasText: `turn ${number}.` });
  await message.getByRole("button", { name: "Edit" }).click();
  await page.page.getByLabel("Say this instead").fill("Something else.");
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await page.page.waitForURL((url) => !url.href.includes(thread));
  await page.until("You said: Something else.");
  await page.status("Done");
  return (await server.messages(page.thread)).length;
}

/** Scrolls up until an earlier message is drawn: the viewport follows the last one until the earlier ones are read. */
async function scrollTo(page, message) {
  await eventually(async () => {
    await page.page.locator(".viewport").evaluate((viewport) => (viewport.scrollTop = 0));
    return (await message.count()) > 0;
  }, "the earlier messages are not drawn");
}

async function earlier_messages_are_edited_and_retried_in_forks(browser, { server, model }) {
  const thread = await talk(server, model);
  const page = await Page.enter(browser, server);
  // The earlier messages are read late.
  let release;
  const held = new Promise((resolve) => (release = resolve));
  let isFirst = true;
  await page.page.route(new RegExp(`/chat/[^/]+/${thread}$`), async (route) => {
    const waits = isFirst;
    isFirst = false;
    if (waits) await held;
    await route.continue().catch(() => {});
  });
  const hash = `#/thread/${thread}`;
  await page.page.goto(`${server.url}/ui/${hash}`);
  await page.until(`Answer ${TURNS}.`);
  assert.equal(await page.page.locator(".message").count(), 24, "the earlier ones are not there yet");
  const late = TURNS - 2;
  assert.equal(await editedIn(page, server, thread, late), 2 * late);
  release();
  await page.page.goto(`${server.url}/ui/${hash}`);
  await page.until(`Answer ${TURNS}.`);
  await scrollTo(page, page.page.locator(".message", { hasText: "Answer 1." }).first());
  assert.equal(await page.page.locator(".message").count(), 2 * TURNS);
  assert.equal(await page.page.getByRole("button", { name: "Retry", exact: true }).count(), 1, "only the last answer is replaced");
  await page.answer.getByRole("button", { name: "Retry", exact: true }).waitFor();
  // Nothing is replaced by the next text.
  await page.say("And one more.");
  await page.until("You said: And one more.");
  await page.status("Done");
  assert.equal((await server.messages(thread)).length, 2 * TURNS + 2);
  assert.equal(await editedIn(page, server, thread, 2), 4);
  // An answer that the runtime does not have.
  await page.page.goto(`${server.url}/ui/${hash}`);
  await page.until("You said: And one more.");
  const early = page.page.locator(".message.assistant", { hasText: "Answer 2." }).first();
  await scrollTo(page, early);
  await early.hover();
  await early.getByRole("button", { name: "Retry in a fork" }).click();
  await page.page.waitForURL((url) => !url.href.includes(thread));
  await page.until("Answer 2.");
  await page.status("Done");
  assert.equal((await server.messages(page.thread)).length, 4);
  await page.close();
}

async function the_messages_of_a_short_thread_are_read_once(browser, { server, model }) {
  model.when("a short thread", "Short.");
  const thread = THREAD.replace("5000", "0007");
  await server.json("POST", "/threads", { thread_id: thread, metadata: { graph_id: "desk", title: "Seven turns" } });
  for (let number = 0; number < 7; number += 1) await server.say(thread, `a short thread ${number}`);
  const page = await Page.enter(browser, server);
  const read = [];
  page.page.on("request", (request) => request.url().includes(`/${thread}`) && request.url().includes("/chat/") && read.push(request.url()));
  await page.page.goto(`${server.url}/ui/#/thread/${thread}`);
  await page.until("Short.");
  await page.details();
  await page.page.locator(".graph").waitFor();
  // None was replaced, which is asked for apart from the messages.
  const messages = read.filter((url) => !url.includes("replaced="));
  assert(messages.length > 0 && messages.every((url) => url.includes("limit=")), read.join("\n"));
  await page.close();
}

export const tests = [
  five_thousand_messages_are_scrolled_smoothly,
  a_message_of_a_megabyte_does_not_block_typing,
  earlier_messages_are_edited_and_retried_in_forks,
  the_messages_of_a_short_thread_are_read_once,
];
