// Usage and cost: of an answer, a thread and a day, as the bill has them.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";

const PHONE = { width: 390, height: 844 };
/** A time zone in which the day is another one than in most others. */
const ZONE = "Pacific/Kiritimati";

/** Returns a cost as the page shows it. */
function dollars(microUsd) {
  const usd = microUsd / 1e6;
  return usd.toLocaleString("en", { style: "currency", currency: "USD", ...(usd < 0.095 && { maximumSignificantDigits: 2 }) });
}

/** Returns the cost of a row of `weft usage` as the page shows it. */
function cost({ cost_micro_usd: known, unpriced }) {
  if (known === null) return "Price unknown";
  return unpriced > 0 ? `${dollars(known)} + ${unpriced} unpriced` : dollars(known);
}

/** Says something, and returns the cost that `weft usage` has more after the answer, in millionths of a dollar. */
async function costOfAnswer(page, server, text, answer) {
  const sum = () => server.usage("--by", "account").reduce((sum, row) => sum + (row.cost_micro_usd ?? 0), 0);
  const before = sum();
  await page.say(text);
  await page.until(answer);
  await page.status("Done");
  return sum() - before;
}

async function answers_threads_and_days_show_the_cost_of_the_bill(browser, { server, model }) {
  model.when("costs once", "Once paid.");
  model.when("costs twice", (results) => (results === 0 ? { calls: [["lab__account", { number: 7 }]] } : "Twice paid."));
  let attempts = 0;
  model.when("costs a retry", () => ((attempts += 1) === 1 ? { error: 503 } : "Paid at last."));
  const page = await Page.enter(browser, server, { hash: "#/new/desk", timezoneId: ZONE });
  await page.page.getByLabel("Model").selectOption("openai:priced");
  const costs = [];
  for (const [text, answer] of [["This costs once", "Once paid."], ["This costs twice", "Twice paid."], ["This costs a retry", "Paid at last."]]) {
    costs.push(await costOfAnswer(page, server, text, answer));
  }
  // 100 tokens at 2.50 dollars per million, and 20 at 10 dollars, for each call of the model.
  assert.deepEqual(costs, [450, 900, 450]);
  const answers = page.page.locator(".message.assistant");
  for (const again of [false, true]) {
    if (again) await page.page.reload();
    for (const [at, paid] of costs.entries()) await answers.nth(at).getByText(dollars(paid), { exact: true }).waitFor();
    await page.page.getByText(`${dollars(1800)} so far`, { exact: true }).waitFor();
  }
  await answers.nth(1).locator(".tokens summary").focus();
  await page.page.keyboard.press("Enter");
  await answers.nth(1).getByText("240 tokens", { exact: true }).waitFor();
  await answers.nth(2).locator(".tokens summary").click();
  await answers.nth(2).getByText("120 tokens · tokens of 1 call estimated · 1 retry for $0.00045", { exact: true }).waitFor();
  await page.accessible("answer-with-cost");
  await isDesigned(page, "answer with cost");
  // A run has ended when the state of the thread says so, and its usage is read once.
  let reads = 0;
  page.page.on("request", (request) => (reads += request.url().endsWith("/usage") ? 1 : 0));
  await page.page.waitForTimeout(4_000);
  assert.equal(reads, 0, "it is not polled");
  await page.page.locator("body").press("g");
  await page.page.locator("body").press("u");
  await daysAreThoseOfTheBill(page, server);
  await page.page.getByLabel("Sum of these days").getByText(/^\d+ for \$0\.\d+$/).waitFor();
  await page.page.getByRole("columnheader", { name: "Retries" }).waitFor();
  await page.close();
}

/** Checks the rows of the view of usage, by day, and by day and model. */
async function daysAreThoseOfTheBill(page, server) {
  const days = page.page.getByRole("region", { name: "Days" });
  for (const by of ["day", "day,model", "day,agent"]) {
    const name = by.split(",")[1];
    await page.page.getByLabel("Divided by").selectOption(name ?? "");
    const rows = server.usage("--by", by, "--zone", ZONE);
    const expected = rows.map((row) => [row.day, ...(name ? [row[name] ?? "outside of runs"] : []), cost(row)].join(" ")).sort();
    const read = () =>
      days.locator("tbody tr").evaluateAll(
        (rows, cells) => rows.map((row) => [row.querySelector("time").dateTime, ...[...row.querySelectorAll("td")].slice(0, cells).map((cell) => cell.textContent)].join(" ")).sort(),
        name ? 2 : 1,
      );
    const shown = async () => JSON.stringify(await read()) === JSON.stringify(expected);
    await eventually(shown, `by ${by}, expected ${JSON.stringify(expected)}`);
  }
}

async function a_model_without_a_price_is_shown_as_such(browser, { server, model }) {
  model.when("have no price", "Nobody can say.");
  const page = await Page.enter(browser, server, { hash: "#/new/desk", timezoneId: ZONE });
  await page.page.getByLabel("Model").selectOption("far:odd");
  assert.equal(await costOfAnswer(page, server, "Do you have no price?", "Nobody can say."), 0);
  await page.answer.getByText("Price unknown", { exact: true }).click();
  await page.answer.getByText("120 tokens · 1 call of models whose price is not known", { exact: true }).waitFor();
  await page.page.locator(".sum").getByText("Price unknown", { exact: true }).waitFor();
  await page.page.getByRole("link", { name: "Usage" }).click();
  await daysAreThoseOfTheBill(page, server);
  const odd = server.usage("--by", "model").find((row) => row.model === "far:odd");
  assert.equal(odd.cost_micro_usd, null);
  await page.accessible("usage");
  await isDesigned(page, "usage");
  await page.close();
}

async function the_view_of_usage_says_that_it_is_empty_or_cannot_be_read(browser, { server }) {
  const page = await Page.enter(browser, server, { viewport: PHONE });
  const answers = [{ status: 500, json: { detail: "The store is away." } }, { json: { rows: [], total: {} } }];
  await page.page.route("**/usage?*", async (route) => {
    const answer = answers.shift();
    await (answer ? route.fulfill(answer) : route.fallback());
  });
  await page.page.getByRole("link", { name: "Usage" }).click();
  await page.page.getByRole("alert").getByText("The usage cannot be read. The store is away.").waitFor();
  await page.accessible("usage-failed");
  await page.page.getByRole("button", { name: "Try again" }).click();
  await page.page.getByText("No model was called in these days.").waitFor();
  await page.accessible("usage-empty");
  await page.page.getByLabel("Last").selectOption("all days");
  await page.page.getByRole("region", { name: "Days" }).waitFor();
  await page.accessible("usage-phone");
  await isDesigned(page, "usage on a phone");
  await page.page.getByRole("link", { name: "All threads" }).click();
  await page.page.getByRole("navigation", { name: "Threads" }).waitFor();
  await page.close();
}

export const tests = [
  answers_threads_and_days_show_the_cost_of_the_bill,
  a_model_without_a_price_is_shown_as_such,
  the_view_of_usage_says_that_it_is_empty_or_cannot_be_read,
];
