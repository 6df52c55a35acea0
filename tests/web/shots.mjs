// Screenshots of each view: light, dark and on a phone. shots.mjs FOLDER
import { join } from "node:path";
import { launch, Page } from "./browser.mjs";
import { Server } from "./server.mjs";

const folder = process.argv[2];
const WIDE = { width: 1200, height: 640 };
const PHONE = { width: 390, height: 844 };

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

const open = (hash, prepare = async () => {}) => ({ hash, prepare });
const views = {
  new: open("#/", (page) => page.locator(".threads .words").first().waitFor()),
  approval: open(`#/thread/${waits}`, (page) => page.locator(".ask").waitFor()),
  checkpoint: open(`#/thread/${done}`, async (page) => {
    await page.locator(".message.assistant").last().waitFor();
    const details = page.getByRole("button", { name: "Details", exact: true });
    if ((await details.getAttribute("aria-pressed")) === "false") await details.click();
    await page.locator(".checkpoints button").first().click();
    await page.locator(".changes li").first().waitFor();
  }),
  inbox: open("#/inbox", async (page) => {
    await page.locator(".waiting button").nth(2).waitFor();
    await page.locator(".waiting input").first().check();
    await page.locator(".waiting input").nth(1).check();
  }),
  answered: open("#/inbox/answered", (page) => page.locator(".decisions li").first().waitFor()),
};
for (const [name, { hash, prepare }] of Object.entries(views)) {
  for (const [kind, options] of Object.entries({
    light: { colorScheme: "light", viewport: WIDE },
    dark: { colorScheme: "dark", viewport: WIDE },
    phone: { colorScheme: "light", viewport: PHONE },
  })) {
    const page = await Page.enter(browser, server, { hash, ...options });
    await prepare(page.page);
    await page.page.waitForTimeout(400);
    await page.page.screenshot({ path: join(folder, `page-${name}-${kind}.png`) });
    await page.close();
  }
}
await browser.close();
await server.close();
