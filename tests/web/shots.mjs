// Screenshots of each view: light, dark and on a phone. shots.mjs FOLDER
import { join } from "node:path";
import { launch, Page } from "./browser.mjs";
import { FirstRun } from "./first.mjs";
import { Model } from "./model.mjs";
import { defineAgents } from "./records.mjs";
import { Program, Server } from "./server.mjs";

const folder = process.argv[2];
const WIDE = { width: 1200, height: 640 };
const PHONE = { width: 390, height: 844 };
const KINDS = {
  light: { colorScheme: "light", viewport: WIDE },
  dark: { colorScheme: "dark", viewport: WIDE },
  phone: { colorScheme: "light", viewport: PHONE },
};

const browser = await launch();
const server = await new Server().start();

async function conversation(...texts) {
  const page = await Page.begin(browser, server, texts[0]);
  for (const text of texts.slice(1)) {
    await page.page.locator('.head .status:is([data-status="done"], [data-status="waiting"])').waitFor();
    await page.page.getByRole("button", { name: "Send" }).waitFor();
    await page.page.waitForTimeout(300);
    await page.say(text);
  }
  await page.page.waitForTimeout(800);
  return page;
}

async function close(page) {
  const { thread } = page;
  await page.close();
  return thread;
}

await close(await conversation("How is the weather in Oslo?"));
await close(await conversation("Where is order A1001?"));
const refused = await conversation("Refund order A1005, amount 90.");
await refused.approval.getByRole("button", { name: "Reject" }).click();
await refused.page.getByLabel(/^Reason/).fill("the office decides about such amounts");
await refused.page.getByRole("button", { name: "Reject" }).click();
await refused.status("Done");
await close(refused);
const approved = await conversation("Where is order A1003?", "Refund order A1003, amount 12.");
await approved.approval.getByRole("button", { name: "Approve" }).click();
await approved.status("Done");
const done = await close(approved);
await close(await conversation("Refund order A1001, amount 15."));
await close(await conversation("Refund order A1003, amount 30."));
const waits = await close(await conversation("Where is order A1002?", "Refund order A1002, amount 40."));

// Code, a formula, a table and a file, which the scripted model does not write.
const model = await new Model().start();
model.when("shipping", `The cost is linear in the weight:

$$
c(w) = 4.90 + 1.20 \\cdot \\lceil w \\rceil
$$

\`\`\`python
import math

def cost(weight):
    # euros, for a weight in kilograms
    return 4.90 + 1.20 * math.ceil(weight)
\`\`\`

| order | weight | cost |
|---|---|---|
| A1001 | 0.8 kg | 6.10 € |
| A1003 | 2.4 kg | 8.50 € |`);
const writer = new Server(model).allowTools();
defineAgents(writer);
await writer.start();
const reading = await Page.enter(browser, writer, { hash: "#/new/desk" });
await reading.page.locator(".agents a[aria-current]").waitFor();
const weights = ["order,kilograms", "A1001,0.8", "A1002,1.1", "A1003,2.4", "A1004,0.3", "A1005,5.0"].join("\n");
await reading.page.locator('input[type="file"]').setInputFiles({ name: "weights.csv", mimeType: "text/csv", buffer: Buffer.from(weights) });
await reading.say("How is shipping priced?");
await reading.until("8.50");
await reading.status("Done");
const formula = await close(reading);

// A payment in which the server was killed.
model.when("Pay the invoice", (results) => (results === 0 ? { calls: [["lab__pay", { order: "I-204", cents: 7250 }]] } : "It is paid."));
const paying = await Page.begin(browser, writer, "Pay the invoice of the carpenter.");
await paying.page.getByRole("button", { name: "Approve" }).click();
while (!writer.payments().includes("I-204")) await paying.page.waitForTimeout(100);
await writer.kill();
await writer.start();
await paying.page.getByRole("region", { name: "Unknown outcome of lab/pay" }).waitFor();
const unknown = await close(paying);

// A deliverable with two versions.
const versions = ["Two parcels were late.", "One parcel was late: A1005."];
const asked = await Page.enter(browser, writer, { hash: "#/new/report-writer" });
const choice = asked.page.getByRole("combobox", { name: "Ask for" });
for (const [at, line] of versions.entries()) {
  model.when(`version ${at + 1}`, `# Parcels of this week\n\nTwelve parcels left the house.\n\n${line}\n\n| day | parcels |\n|---|---|\n| Monday | 7 |\n| Friday | 5 |`);
  await choice.waitFor();
  await asked.page.waitForTimeout(3_000);
  await choice.selectOption(at === 0 ? "Build" : { index: 3 });
  await asked.say(at === 0 ? "Report the parcels of this week (version 1)" : "Count the late ones again (version 2)");
  await asked.until(line);
  await asked.status("Done");
}
const delivered = await close(asked);

// A graph without messages.
const program = await new Program().start();
const drawn = await Page.enter(browser, program, { hash: "#/new/echo" });
await drawn.page.getByLabel("Msg").fill("a wall lamp");
await drawn.page.getByLabel("N", { exact: true }).fill("41");
await drawn.page.getByRole("button", { name: "Run" }).click();
await drawn.page.getByText("echo:a wall lamp").waitFor();
const graph = await close(drawn);

const empty = new FirstRun();
empty.mirror = "";
await empty.start();

const open = (hash, prepare = async () => {}, from = server) => ({ hash, prepare, from });
const views = {
  first: open("#/new", (page) => page.getByRole("button", { name: "Where is order A1003?" }).first().waitFor(), empty),
  new: open("#/", (page) => page.locator(".threads .words").first().waitFor()),
  chat: open("#/new/desk", (page) => page.locator(".agents a[aria-current]").waitFor()),
  approval: open(`#/thread/${waits}`, async (page) => {
    await page.locator(".ask").waitFor();
    if (page.viewportSize().width < WIDE.width) return;
    await page.getByRole("button", { name: "Details", exact: true }).click();
    await page.locator('.graph [data-state="waiting"]').waitFor();
  }),
  reading: open(
    `#/thread/${formula}`,
    async (page) => {
      await page.locator("math").first().waitFor();
      await page.locator(".hljs-keyword").first().waitFor();
    },
    writer,
  ),
  runs: open(`#/thread/${done}`, async (page) => {
    await page.locator(".message.assistant").last().waitFor();
    await page.getByRole("button", { name: "Details", exact: true }).click();
    const run = page.locator(".runs > li").first();
    await run.locator(".facts").waitFor();
    await run.getByRole("button").click();
    await run.locator(".entry").first().waitFor();
    await page.locator(".runs").evaluate((runs) => runs.previousElementSibling.scrollIntoView());
  }),
  checkpoint: open(`#/thread/${done}`, async (page) => {
    await page.locator(".message.assistant").last().waitFor();
    await page.getByRole("button", { name: "Details", exact: true }).click();
    await page.locator(".checkpoints button").first().click();
    await page.getByLabel("Changes").locator("li").first().waitFor();
    await page.locator(".checkpoints").evaluate((list) => list.previousElementSibling.scrollIntoView());
  }),
  inbox: open("#/inbox", async (page) => {
    await page.locator(".waiting button").nth(2).waitFor();
    await page.locator(".waiting input").first().check();
    await page.locator(".waiting input").nth(1).check();
  }),
  unknown: open(`#/thread/${unknown}`, (page) => page.getByRole("region", { name: "Unknown outcome of lab/pay" }).waitFor(), writer),
  deliverable: open(
    `#/thread/${delivered}`,
    async (page) => {
      await page.getByRole("button", { name: "Deliverables", exact: true }).click();
      const panel = page.getByRole("complementary", { name: "Deliverables" });
      await panel.getByRole("combobox", { name: "Compare with" }).selectOption({ index: 1 });
      await panel.locator("ins").first().waitFor();
      await panel.getByRole("list", { name: "Changes" }).evaluate((list) => list.scrollIntoView({ block: "end" }));
    },
    writer,
  ),
  graph: open(`#/thread/${graph}`, (page) => page.getByText("echo:a wall lamp").waitFor(), program),
  error: open("#/error/W0203", (page) => page.getByRole("heading", { name: "What to do" }).waitFor()),
  nothing: open("#/no-such-view", (page) => page.getByRole("heading", { name: "There is no such page" }).waitFor()),
  answered: open("#/inbox/answered", (page) => page.locator(".decisions li").first().waitFor()),
};
for (const [name, { hash, prepare, from }] of Object.entries(views)) {
  for (const [kind, options] of Object.entries(KINDS)) {
    const page = await Page.enter(browser, from, { hash, ...options });
    await prepare(page.page);
    // Nothing is drawn as hovered.
    await page.page.mouse.move(0, 0);
    await page.page.waitForTimeout(400);
    await page.page.screenshot({ path: join(folder, `page-${name}-${kind}.png`) });
    await page.close();
  }
}
for (const [kind, options] of Object.entries(KINDS)) {
  const page = await Page.open(browser, server, { address: `${server.url}/ui/`, ...options });
  await page.page.getByRole("button", { name: "Open" }).waitFor();
  await page.page.screenshot({ path: join(folder, `page-login-${kind}.png`) });
  await page.close();
}
await browser.close();
await Promise.all([server.close(), program.close(), writer.close(), empty.close()]);
model.close();
