// Reading and acting: code, formulas, tables, previews, titles and files, and the actions of messages.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";

const CODE = "Use `print`:\n\n```python\ndef total(prices):\n    # in euros\n    return sum(prices) + 1\n```\n\nand\n\n```nolang\nplain <b>text</b>\n```";
const CLIPBOARD = { permissions: ["clipboard-read", "clipboard-write"] };

const copied = (page) => page.page.evaluate(() => navigator.clipboard.readText());

/** Notes the scripts that a page loads on demand. */
function chunks(page) {
  const found = [];
  page.page.on("request", (request) => {
    const name = /\/ui\/assets\/(\w+)-[^/]*\.js$/.exec(request.url())?.[1];
    if (name && name !== "index") found.push(name);
  });
  return found;
}

async function code_has_its_language_its_colours_and_a_copy(browser, { server, model }) {
  model.when("write code", CODE);
  model.when("no code", "Only words.");
  const page = await Page.begin(browser, server, "no code", CLIPBOARD);
  const loaded = chunks(page);
  await page.until("Only words.");
  await page.status("Done");
  assert.deepEqual(loaded, [], "grammars are loaded for code only");
  await page.say("write code");
  await page.until("plain <b>text</b>");
  const blocks = page.answer.getByRole("group", { name: "Code" });
  await blocks.first().locator(".hljs-keyword", { hasText: "def" }).waitFor();
  assert.deepEqual(loaded, ["highlight"]);
  assert.equal(await blocks.nth(1).locator("[class^=hljs]").count(), 0, "a language that is not known is plain");
  assert.deepEqual(await page.answer.locator(".code-head > span").allTextContents(), ["python", "nolang"]);
  await page.answer.getByRole("button", { name: "Copy code" }).first().click();
  await page.page.getByText("Copied.").waitFor();
  assert.equal((await copied(page)).trim(), "def total(prices):\n    # in euros\n    return sum(prices) + 1");
  await page.accessible("code");
  await isDesigned(page, "code");
  await page.close();
}

async function formulas_are_drawn_and_money_stays_money(browser, { server, model }) {
  const text = String.raw`Inline \(x^2\) and $y_1$ here.

\[
\int_0^1 x\,dx = \frac{1}{2}
\]

$$a^2 + b^2 = c^2$$

$$
\begin{pmatrix} 1 & \color{red}{x} \\ \boxed{3} & \href{javascript:alert(1)}{4} \end{pmatrix}
$$

It costs $5 and $10, or $12.50 to $20. Code: ${"`$z$`"}

Broken: \(\frac{1\)`;
  model.when("some math", text);
  const page = await Page.begin(browser, server, "some math");
  const loaded = chunks(page);
  await page.until("Broken");
  await page.status("Done");
  const formulas = page.answer.locator("math");
  await formulas.nth(4).waitFor();
  assert.equal(await formulas.count(), 5);
  assert.equal(await page.answer.getByRole("group", { name: "Formula" }).count(), 3, "three stand alone");
  assert.equal(await page.answer.locator("math a, math [href], math [style]").count(), 0, "formulas do nothing");
  await page.answer.getByText("It costs $5 and $10, or $12.50 to $20.").waitFor();
  assert.deepEqual(await page.answer.locator(".markdown code:visible").allTextContents(), ["$z$", "\\frac{1"]);
  assert(new Set(loaded).size === 1 && loaded[0] === "typeset", loaded.join());
  await page.accessible("formulas");
  await isDesigned(page, "formulas");
  await page.close();
}

async function wide_tables_scroll_within_their_message(browser, { server, model }) {
  const names = Array.from({ length: 14 }, (_, at) => `Measurement${at}`);
  model.when("wide table", `| ${names.join(" | ")} |\n|${"---|".repeat(14)}\n| ${names.map((_, at) => at * 1000).join(" | ")} |`);
  for (const viewport of [{ width: 1280, height: 720 }, { width: 390, height: 844 }]) {
    const page = await Page.begin(browser, server, "wide table", { viewport });
    const table = page.answer.getByRole("group", { name: "Table" });
    await table.getByText("13000").waitFor();
    await page.status("Done");
    const { whole, seen, body } = await table.evaluate((one) => ({ whole: one.scrollWidth, seen: one.clientWidth, body: document.documentElement.scrollWidth }));
    assert(whole > seen, `${whole} pixels are seen in ${seen}`);
    assert(body <= viewport.width, `the page has ${body} pixels`);
    await table.focus();
    await page.page.keyboard.press("End");
    await page.page.keyboard.press("ArrowRight");
    await eventually(() => table.evaluate((one) => one.scrollLeft > 0), "the table is scrolled by keyboard");
    await page.accessible(`table-${viewport.width}`);
    await isDesigned(page, "table");
    await page.close();
  }
}

async function titles_are_first_requests_and_previews_have_no_marks(browser, { server, model }) {
  model.when("say it boldly", "# A **bold** answer\n\n- with `code` and [a link](https://example.com/x)\n\n| a | b |\n|---|---|\n| 1 | 2 |");
  const { thread_id: id } = await server.json("POST", "/threads", {});
  const input = { messages: [{ role: "user", content: "Please **say it boldly**, through an SDK" }] };
  await server.json("POST", `/threads/${id}/runs/wait`, { assistant_id: "desk", input });
  const page = await Page.enter(browser, server);
  const row = page.page.locator(".threads a", { hasText: "Please say it boldly, through an SDK" });
  await row.getByText("A bold answer with code and a link a b 1 2").waitFor();
  await row.click();
  await page.page.getByRole("heading", { name: "Please say it boldly, through an SDK" }).waitFor();
  assert.match(await page.page.title(), /^Please say it boldly/);
  await page.page.reload();
  await page.page.getByRole("heading", { name: "Please say it boldly, through an SDK" }).waitFor();
  await page.close();
}

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async function files_are_thumbnails_and_open(browser, { server, model }) {
  model.when("read my file", "I read it.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.getByRole("textbox", { name: "Your message" }).fill("read my file");
  const files = page.page.locator('input[type="file"]');
  const text = Array.from({ length: 9 }, (_, at) => `line ${at + 1}`).join("\n");
  await files.setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from(text) });
  await files.setInputFiles({ name: "other.txt", mimeType: "text/plain", buffer: Buffer.from("other") });
  const added = page.page.getByRole("group", { name: "Added files" });
  await added.getByText("notes.txt").waitFor();
  await page.accessible("added");
  await isDesigned(page, "added files");
  await added.getByRole("button", { name: "Remove other.txt" }).click();
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("I read it.");
  const said = page.page.locator(".message.user").last();
  await said.getByText("read my file", { exact: true }).waitFor();
  assert.equal(await said.getByText("line 9").count(), 0, "the first lines are shown");
  await said.getByRole("button", { name: "All" }).click();
  await said.getByText("line 9").waitFor();
  await page.page.getByRole("heading", { name: "read my file", exact: true }).waitFor();
  await page.close();
  const { thread_id: id } = await server.json("POST", "/threads", { metadata: { graph_id: "desk" } });
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
  const far = { type: "image_url", image_url: { url: "https://evil.example/x.png" } };
  // It can have scripts: it is saved, and not drawn.
  const drawing = { type: "image_url", image_url: { url: `data:image/svg+xml;base64,${btoa("<svg xmlns='http://www.w3.org/2000/svg'/>")}` } };
  const messages = [{ type: "human", content: [{ type: "text", text: "look" }, image, far, drawing] }];
  await server.json("POST", `/threads/${id}/state`, { values: { messages }, as_node: "__start__" });
  const seen = await Page.enter(browser, server, { hash: `#/thread/${id}` });
  const thumbnail = seen.page.getByRole("button", { name: "Show the image" });
  await thumbnail.waitFor();
  const isLoaded = () => seen.page.getByAltText("Attached image").evaluate(({ complete, naturalWidth }) => complete && naturalWidth > 0);
  await eventually(isLoaded, "the thumbnail is drawn");
  await seen.page.getByText("at evil.example").waitFor();
  assert.equal(await seen.page.locator("main img").count(), 1);
  const saved = seen.page.waitForEvent("download");
  await seen.page.getByRole("link", { name: /^image\/svg\+xml · 4\d B$/ }).click();
  await saved;
  await seen.accessible("image");
  await isDesigned(seen, "image");
  await thumbnail.click();
  await seen.page.getByRole("button", { name: "Make the image smaller" }).waitFor();
  await seen.close();
}

async function each_action_of_a_message_is_one_click(browser, { server, model }) {
  let answers = 0;
  model.when("first thing", () => `First answer ${(answers += 1)}.`);
  model.when("second thing", () => `Second answer ${(answers += 1)}.`);
  model.when("hold it", { text: "one two three", hold: "one" });
  const page = await Page.begin(browser, server, "first thing", CLIPBOARD);
  await page.until("First answer 1.");
  await page.status("Done");
  await page.say("second thing");
  await page.until("Second answer 2.");
  await page.status("Done");
  const first = page.page.locator(".message.assistant").first();
  await first.hover();
  await first.getByRole("button", { name: "Copy" }).click();
  await page.page.getByText("Copied.").waitFor();
  assert.equal(await copied(page), "First answer 1.");
  await page.answer.getByRole("button", { name: "Retry", exact: true }).click();
  await page.until("Second answer 3.");
  await page.status("Done");
  const saved = page.page.waitForEvent("download");
  await page.page.getByRole("button", { name: "Export" }).click();
  assert.equal((await saved).suggestedFilename(), "first-thing.md");
  await page.say("hold it");
  await page.until("one");
  // The attempt that was replaced is below the answer in its place.
  const second = page.page.locator(".message.assistant").nth(1);
  await second.getByText("1 earlier attempt").waitFor();
  assert.equal(await page.answer.getByText("1 earlier attempt").count(), 0);
  // A click at the place of Send is none of its double click.
  await page.page.waitForTimeout(400);
  await page.page.getByRole("button", { name: "Stop" }).click();
  await page.answer.getByText("Stopped").waitFor();
  model.release();
  const { thread } = page;
  const requests = async () => (await server.messages(thread)).filter(({ role }) => role === "user").length;
  await first.hover();
  await first.getByRole("button", { name: "Retry in a fork" }).click();
  await page.page.waitForURL((url) => !url.href.includes(thread));
  await page.until("First answer 4.");
  assert.equal(await requests(), 3, "the thread is as it was");
  await page.page.locator(".message.user").hover();
  await page.page.getByRole("button", { name: "Edit" }).click();
  await page.page.getByLabel("Say this instead").fill("second thing, edited");
  await page.page.getByRole("button", { name: "Send in a fork" }).click();
  await page.until("Second answer 5.");
  await page.close();
}

export const tests = [
  code_has_its_language_its_colours_and_a_copy,
  formulas_are_drawn_and_money_stays_money,
  wide_tables_scroll_within_their_message,
  titles_are_first_requests_and_previews_have_no_marks,
  files_are_thumbnails_and_open,
  each_action_of_a_message_is_one_click,
];
