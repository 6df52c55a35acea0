// What the page costs before anybody does something: its first paint, and the scripts that it loads for it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Page } from "./browser.mjs";
import { report } from "./long.mjs";

/** Goal of the first paint, in milliseconds. */
const PAINT_MS = 300;
/** Largest size of the scripts that the page loads first, compressed, in bytes. */
const SCRIPTS_MAX = 350_000;
/** Number of loads of which the median counts, each in a browser session without a cache. */
const LOADS = 5;

/** Returns the size of a file of the page, as the server sends it. */
async function packedSize(server, path) {
  const folder = process.env.WEFT_PAGE;
  if (folder) return gzipSync(readFileSync(join(folder, path))).length;
  const response = await fetch(`${server.url}/ui/${path}`, { headers: { "accept-encoding": "gzip" } });
  assert.equal(response.headers.get("content-encoding"), "gzip");
  await response.arrayBuffer();
  return Number(response.headers.get("content-length"));
}

async function the_page_is_painted_in_time_and_its_scripts_are_small(browser, { server }) {
  const paints = [];
  let scripts;
  for (let load = 0; load < LOADS; load += 1) {
    const page = await Page.enter(browser, server, { hash: "#/new/desk" });
    await page.page.getByRole("textbox", { name: "Your message" }).waitFor();
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
    paints.push(await (await page.page.waitForFunction(paint)).jsonValue());
    scripts = await page.page.evaluate(() => {
      const loaded = performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname);
      return loaded.filter((path) => path.endsWith(".js")).map((path) => path.slice("/ui/".length));
    });
    await page.close();
  }
  const [, , median] = paints.sort((a, b) => a - b);
  report("first paint of the page", median, PAINT_MS);
  assert(scripts.length > 0);
  const sizes = await Promise.all(scripts.map((path) => packedSize(server, path)));
  const size = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`        scripts before the first paint: ${size} bytes compressed; the goal is ${SCRIPTS_MAX}`);
  assert(size <= SCRIPTS_MAX, `${size} bytes`);
}

export const tests = [the_page_is_painted_in_time_and_its_scripts_are_small];
