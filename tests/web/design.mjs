// Each view held against the design of the page, and the views of a phone.
import assert from "node:assert/strict";
import { Page } from "./browser.mjs";

const PHONE = { width: 390, height: 844 };

/** The sizes of elements that are none of those of the design: element, property and size. */
function outsideOfTheScales() {
  const root = getComputedStyle(document.documentElement);
  const unit = parseFloat(root.fontSize);
  const scale = (name, count) => Array.from({ length: count }, (_, at) => parseFloat(root.getPropertyValue(`--${name}-${at + 1}`)) * unit);
  const types = scale("type", 5);
  const spaces = [0, ...scale("space", 7)];
  if ([...types, ...spaces].some(Number.isNaN)) return ["the scales are not read"];
  const fits = (value, allowed) => value === "normal" || value === "auto" || allowed.some((one) => Math.abs(Math.abs(parseFloat(value)) - one) < 0.06);
  const found = new Set();
  for (const element of document.querySelectorAll("#root *")) {
    if (element.closest("math") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const note = (property) => found.add(`${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} ${property}: ${style[property]}`);
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
    if (hasText && !fits(style.fontSize, types)) note("fontSize");
    if (element.closest("svg, option")) continue;
    for (const property of ["paddingTop", "paddingBottom", "paddingLeft", "paddingRight", "marginTop", "marginBottom", "rowGap", "columnGap"]) {
      if (!fits(style[property], spaces)) note(property);
    }
  }
  return [...found];
}

/** Fails if the sizes of a view are none of those of the design. */
export async function isDesigned({ page }, name) {
  assert.deepEqual(await page.evaluate(outsideOfTheScales), [], name);
}

/** Words that are broken over two lines, of those that fit in one. */
function brokenWords() {
  const found = [];
  const walker = document.createTreeWalker(document.getElementById("root"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement?.checkVisibility() || node.parentElement.closest("textarea, select, svg, math")) continue;
    for (const { 0: word, index } of node.data.matchAll(/[^\s\-–—/…]{2,24}/gu)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const tops = [...range.getClientRects()].map(({ top }) => Math.round(top));
      if (new Set(tops).size > 1) found.push(word);
    }
  }
  return found;
}

/** A reason that takes more than its share of a row. */
const REASON = "the office decides about such amounts, and it reads each request of the day in the evening before anything is paid";

/** A question that was answered for a long reason has its name. */
async function isNamed(page) {
  const rows = page.page.getByRole("list", { name: "Answered questions" }).getByRole("listitem");
  const name = rows.filter({ hasText: REASON }).first().getByRole("link");
  const box = await name.boundingBox();
  assert(box !== null && box.width > 100, `the name has ${box?.width} px`);
}

/** The views of the page: address, and what is there once it is drawn. */
async function views(browser, server) {
  const answered = await Page.begin(browser, server, "Refund order A1002, amount 8.");
  await answered.approval.waitFor();
  const [question] = await server.json("GET", `/interrupts?thread_id=${answered.thread}`);
  await server.json("POST", `/interrupts/${question.id}/respond`, { type: "reject", message: REASON });
  await answered.close();
  const asks = await Page.begin(browser, server, "Refund order A1002, amount 9.");
  await asks.approval.waitFor();
  const { thread } = asks;
  await asks.close();
  const shown = (name) => (page) => page.page.getByRole("heading", { name }).first().waitFor();
  return {
    list: ["#/", (page) => page.page.locator(".threads a").first().waitFor()],
    new: ["#/new/desk", shown("What can an agent do for you?")],
    thread: [`#/thread/${thread}`, (page) => page.approval.waitFor()],
    inbox: ["#/inbox", (page) => page.approval.waitFor()],
    answered: ["#/inbox/answered", isNamed],
    usage: ["#/usage", (page) => page.page.getByRole("region", { name: "Days" }).waitFor()],
    details: [
      `#/thread/${thread}`,
      async (page) => {
        await page.approval.waitFor();
        const details = await page.details();
        const run = details.getByRole("list", { name: "Runs" }).getByRole("button").first();
        await run.click();
        await details.getByLabel("Timeline").locator(".entry").first().waitFor();
        await details.locator(".checkpoints button").first().click();
        await details.getByLabel("Changes").locator("summary").first().waitFor();
      },
    ],
  };
}

async function every_view_has_the_sizes_of_the_design(browser, server) {
  for (const [name, [hash, drawn]] of Object.entries(await views(browser, server))) {
    for (const viewport of [{ width: 1280, height: 800 }, PHONE]) {
      const page = await Page.enter(browser, server, { hash, viewport });
      await drawn(page);
      await isDesigned(page, `${name} at ${viewport.width}`);
      await page.accessible(`design-${name}-${viewport.width}`);
      await page.close();
    }
  }
}

async function no_word_breaks_on_a_phone(browser, server) {
  for (const [name, [hash, drawn]] of Object.entries(await views(browser, server))) {
    const page = await Page.enter(browser, server, { hash, viewport: PHONE });
    await drawn(page);
    assert.deepEqual(await page.page.evaluate(brokenWords), [], name);
    const width = await page.page.evaluate(() => document.documentElement.scrollWidth);
    assert(width <= PHONE.width, `${name} has ${width} pixels`);
    await page.close();
  }
}

async function a_phone_has_the_list_and_the_conversation_as_two_screens(browser, server) {
  const begun = await Page.begin(browser, server, "Where is order A1003?");
  await begun.until("A1003");
  await begun.close();
  const page = await Page.enter(browser, server, { viewport: PHONE });
  const list = page.page.getByRole("navigation", { name: "Threads" });
  const message = page.page.getByRole("textbox", { name: "Your message" });
  await list.getByRole("link", { name: /Where is order A1003/ }).first().waitFor();
  assert.equal(await message.isVisible(), false, "the list is alone");
  await list.getByRole("link", { name: /Where is order A1003/ }).first().click();
  await page.until("A1003");
  assert.equal(await list.isVisible(), false, "the conversation is alone");
  await page.page.getByRole("link", { name: "All threads" }).click();
  await list.getByRole("link", { name: "New chat" }).click();
  await message.waitFor();
  assert.equal(await list.isVisible(), false, "a new chat is alone");
  await page.page.getByRole("link", { name: "All threads" }).click();
  await list.waitFor();
  await page.accessible("phone-list");
  await page.close();
}

export const tests = [every_view_has_the_sizes_of_the_design, no_word_breaks_on_a_phone, a_phone_has_the_list_and_the_conversation_as_two_screens];
