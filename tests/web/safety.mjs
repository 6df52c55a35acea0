// Texts of people, models and tools are shown, and do nothing.
import assert from "node:assert/strict";
import { Page } from "./browser.mjs";

export const ATTACK = [
  '<script>window.broken = 1</script>',
  '<img src="https://evil.example/x.png" onerror="window.broken = 2">',
  '<svg onload="window.broken = 3"><script>window.broken = 4</script></svg>',
  '<iframe srcdoc="<script>parent.broken = 5</script>"></iframe>',
  "[a link](javascript:window.broken=6) [another](data:text/html,<script>1</script>) <javascript:window.broken=7>",
  "![a beacon](https://evil.example/beacon.png) ![one](data:image/svg+xml,<svg/onload=alert(1)>)",
  "| <b onclick=1>cell</b> |\n|---|\n| <style>*{display:none}</style> |",
].join("\n\n");
export const NAME = "<img src=https://evil.example/n.png onerror=window.broken=8>";

/** Fails if anything that was written is an element, or was executed. */
export async function inert(page) {
  const found = await page.page.evaluate(() => ({
    broken: window.broken,
    elements: [...document.querySelectorAll("img, iframe, object, embed, main script, main svg:not(.graph svg), main style, [onerror], [onload], [onclick]")].map((one) => one.outerHTML),
    links: [...document.links].map(({ href }) => href).filter((href) => !/^(https?|mailto):/.test(href)),
    foreign: [...document.querySelectorAll("main a[target]")].filter(({ rel }) => rel !== "noopener noreferrer").length,
  }));
  assert.deepEqual(found, { broken: undefined, elements: [], links: [], foreign: 0 });
}

async function texts_titles_and_names_are_inert(browser, { server, model }) {
  model.when("attack", (results) => (results === 0 ? { reasoning: ATTACK, text: ATTACK, calls: [["lab__broken", { why: ATTACK }], [NAME, {}]] } : ATTACK));
  const page = await Page.begin(browser, server, `attack ${ATTACK}`);
  await page.page.locator('.head .status:is([data-status="done"], [data-status="failed"])').waitFor();
  await page.choose("Rename");
  await page.page.getByLabel("Title").fill(NAME);
  await page.page.getByRole("button", { name: "Save" }).click();
  await page.page.getByRole("heading", { name: NAME }).waitFor();
  await page.page.locator(".threads .title", { hasText: NAME }).waitFor();
  for (const summary of await page.page.locator("main details:not([open], .menu, .tokens) > summary").all()) await summary.click();
  await inert(page);
  await page.page.reload();
  await page.answer.waitFor();
  await page.status(/Done|Failed/);
  await inert(page);
  await page.accessible("attack");
  await page.close();
}

async function files_are_added_as_text_and_their_names_are_inert(browser, { server, model }) {
  model.when("read this", "I read it.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk" });
  await page.page.getByRole("textbox", { name: "Your message" }).fill("read this");
  const files = page.page.locator('input[type="file"]');
  await files.setInputFiles({ name: `${NAME}.md`, mimeType: "text/markdown", buffer: Buffer.from("a\n```\nb\n```\n") });
  await files.setInputFiles({ name: "photo.bmp", mimeType: "image/bmp", buffer: Buffer.from([0x42, 0x4d, 0xff, 0xfe]) });
  await page.page.getByText("photo.bmp is neither a text nor an image of type PNG, JPEG, GIF or WebP.").waitFor();
  await page.page.getByRole("button", { name: "Send" }).click();
  await page.until("I read it.");
  const [said] = await server.messages(page.thread);
  assert.equal(said.parts[0].text, `read this\n\nFile ${NAME}.md:\n\`\`\`\`\na\n\`\`\`\nb\n\`\`\`\n\`\`\`\``);
  await inert(page);
  await page.close();
}

async function a_thread_is_exported_as_it_is_stored(browser, { server, model }) {
  model.when("export me", (results) => (results === 0 ? { calls: [["lab__account", { number: 7 }]] } : "Exported."));
  const page = await Page.begin(browser, server, "export me");
  await page.until("Exported.");
  await page.status("Done");
  const read = async (name) => {
    const saved = page.page.waitForEvent("download");
    await page.choose(name);
    const download = await saved;
    const chunks = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk);
    return [download.suggestedFilename(), Buffer.concat(chunks).toString()];
  };
  const [name, markdown] = await read("Export as Markdown");
  assert.equal(name, "export-me.md");
  for (const part of ["# export me", "## User", "Call of `lab/account`", '"owner": "Ada"', "Exported."]) assert(markdown.includes(part), markdown);
  const [, exported] = await read("Export as JSON");
  assert.deepEqual(JSON.parse(exported).messages, await server.messages(page.thread));
  await page.close();
}

export const tests = [texts_titles_and_names_are_inert, files_are_added_as_text_and_their_names_are_inert, a_thread_is_exported_as_it_is_stored];
