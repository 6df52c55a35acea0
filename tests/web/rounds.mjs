// Faults in rounds, with two browsers on one thread: after each, what is on both screens is what the store has.
import assert from "node:assert/strict";
import { eventually, Page } from "./browser.mjs";
import { Proxy } from "./proxy.mjs";

const IS_FULL = process.env.WEFT_TIER === "full";
/** Number of rounds. Those of the fast tier are other ones in each run. */
const ROUNDS = Number(process.env.WEFT_ROUNDS ?? (IS_FULL ? 50 : 3));
const SEED = Number(process.env.WEFT_SEED ?? (IS_FULL ? 1 : Date.now() % 100_000));
/** Longest time from the begin of a round to its fault, in milliseconds. */
const MOMENT_MS = 600;
const WORDS = 24;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const words = Array.from({ length: WORDS }, (_, at) => `w${at + 1}.`).join(" ");

/** Returns numbers from 0 to 1 that follow from a seed. */
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const plain = (text) => text.replace(/\s+/g, " ").trim();

/** The messages of a thread on a screen: role, text, and the state of each call. */
function onScreen(page) {
  return page.page.$$eval(".message", (messages) =>
    messages.map((message) => {
      const texts = [...message.querySelectorAll(message.dataset.role === "user" ? "p" : ".markdown")].map(({ textContent }) => textContent);
      const calls = [...message.querySelectorAll(".call")].map((call) => `${call.querySelector("code").textContent} ${call.dataset.status}`);
      return { role: message.dataset.role, text: texts.join(" ").replace(/\s+/g, " ").trim(), calls };
    }),
  );
}

/** The state of a call as the store has it. */
function stateOf(part, parts) {
  const about = (type) => parts.find((one) => one.type === type && one.data?.toolCallId === part.toolCallId)?.data;
  if (about("data-unknown-outcome")) return "unknown";
  const late = about("data-tool-result");
  if (part.state === "output-available" || late?.isError === false) return "done";
  if (part.state !== "output-error" && late === undefined) return "open";
  const asked = parts.find((one) => one.type === "tool-request_approval" && one.input?.toolCallId === part.toolCallId);
  return asked?.output?.approved === false ? "refused" : "failed";
}

/** The messages of a thread in the store, in the same form. */
async function inStore(server, thread) {
  return (await server.messages(thread)).map(({ role, parts }) => {
    const text = plain(parts.filter(({ type }) => type === "text").map((part) => part.text).join(" "));
    const calls = parts.filter(({ type }) => type.startsWith("tool-lab__"));
    return { role, text, calls: calls.map((part) => `${part.type.slice("tool-".length).replace("__", "/")} ${stateOf(part, parts)}`) };
  });
}

const approval = (page) => page.page.getByRole("region", { name: /^Approval of lab\// });
const unknown = (page) => page.page.getByRole("region", { name: "Unknown outcome of lab/pay" });
// The other browser may have decided before the button is pressed.
const press = (card, name) => card.getByRole("button", { name, exact: true }).click({ timeout: 5_000 }).catch(() => {});
const reject = async (page) => {
  await press(approval(page), "Reject");
  await press(approval(page), "Reject");
};

/** What happens in a round: a text that is produced, a call that is asked for, and what goes wrong. */
const KINDS = {
  async killed_while_it_speaks({ first, server, moment }) {
    await first.until("w1.");
    await moment();
    await server.kill();
    await server.start();
  },
  async cut_while_it_speaks({ first, proxies, moment }) {
    await first.until("w1.");
    await moment();
    for (const proxy of proxies) proxy.cut();
  },
  async silent_while_it_speaks({ first, second, proxies, moment }) {
    await first.until("w1.");
    await moment();
    proxies[0].silence();
    await first.page.getByText("Connection cut").waitFor();
    assert.equal(await second.page.getByText("Connection cut").count(), 0, "the other network is well");
    proxies[0].restore();
  },
  async stopped_by_the_other_one({ second, moment }) {
    await second.until("w1.");
    await moment();
    await press(second.page.locator(".composer"), "Stop");
  },
  async asked_while_the_server_is_frozen({ first, second, server, random }) {
    await approval(second).waitFor();
    server.freeze();
    for (const page of [first, second]) await page.page.getByText("Connection cut").waitFor();
    await (random() < 0.5 ? press(approval(first), "Approve") : reject(first));
    assert.equal(await first.page.getByText(/^(Approved|Rejected)/).count(), 0, "nobody knows that yet");
    server.thaw();
  },
  async killed_before_the_decision({ first, second, server, random }) {
    await approval(second).waitFor();
    await server.kill();
    await second.page.getByText("Connection cut").waitFor();
    await server.start();
    await second.page.getByText("Connection cut").waitFor({ state: "detached" });
    await approval(first).waitFor();
    await (random() < 0.5 ? press(approval(second), "Approve") : reject(second));
  },
  async decided_by_two_at_once({ first, second, random }) {
    for (const page of [first, second]) await approval(page).waitFor();
    await Promise.all(random() < 0.5 ? [reject(first), press(approval(second), "Approve")] : [press(approval(first), "Approve"), reject(second)]);
  },
  async killed_inside_a_payment({ first, second, server, random, order, moment }) {
    await press(approval(first), "Approve");
    await eventually(() => server.payments().includes(order), "the payment was not made");
    await moment();
    await server.kill();
    for (const page of [first, second]) await page.page.getByText("Connection cut").waitFor();
    await server.start();
    const [asked, other] = random() < 0.5 ? [first, second] : [second, first];
    await unknown(other).waitFor();
    const card = unknown(asked);
    if (random() < 0.5) await press(card, "Give up");
    else {
      await press(card, "It happened");
      await card.getByLabel("receipt").fill(`R-${order}`);
      await card.getByLabel("cents").fill("700");
      await press(card, "It happened, with this result");
    }
  },
};

/** Sets what the model says in a round. */
function prepare(model, kind, text, order, at) {
  const careful = (results) => (results === 0 ? { calls: [["lab__careful", { seconds: at / 1000 }]] } : `Over: ${words}`);
  const pay = (results) => (results === 0 ? { calls: [["lab__pay", { order, cents: 700 }]] } : `Over: ${words}`);
  if (kind.includes("speaks") || kind.includes("stopped")) model.when(text, { text: words, pause: 40 });
  else model.when(text, kind.includes("payment") ? pay : careful);
}

async function the_screens_are_what_the_store_has_after_each_fault(browser, { server, model }) {
  console.log(`        ${ROUNDS} rounds with the seed ${SEED}`);
  const random = randomOf(SEED);
  const proxies = [await new Proxy().start(server), await new Proxy().start(server)];
  const first = await Page.enter(browser, proxies[0].server, { hash: "#/new/desk" });
  const second = await Page.enter(browser, proxies[1].server);
  const kinds = Object.entries(KINDS);
  const offset = Math.floor(random() * kinds.length);
  for (let at = 1; at <= ROUNDS; at += 1) {
    const [kind, happens] = kinds[(offset + at) % kinds.length];
    const text = `round ${at} of ${SEED}.`;
    const order = `W-${SEED}-${at}`;
    prepare(model, kind, text, order, at);
    await first.page.goto(`${proxies[0].server.url}/ui/#/new/desk`);
    await first.page.locator(".agents a[aria-current]").waitFor();
    await first.say(`Please, ${text}`);
    await first.page.waitForURL(/#\/thread\//);
    const { thread } = first;
    await second.page.goto(`${proxies[1].server.url}/ui/#/thread/${thread}`);
    const moment = () => sleep(random() * MOMENT_MS);
    await happens({ first, second, server, proxies, random, order, moment });
    const state = async () => (await server.json("GET", `/threads/${thread}`)).status;
    await eventually(async () => (await state().catch(() => "away")) === "idle", `round ${at}, ${kind}: the run does not end`);
    const stored = await inStore(server, thread);
    const status = kind.includes("stopped") && !stored.at(-1).text.includes(`w${WORDS}.`) ? "Stopped" : "Done";
    for (const [number, page] of [first, second].entries()) {
      await page.status(status);
      let shown;
      const isSame = async () => JSON.stringify((shown = await onScreen(page))) === JSON.stringify(stored);
      await eventually(isSame, `round ${at}, ${kind}, screen ${number + 1}`).catch((error) => {
        throw new Error(`${error.message}: ${JSON.stringify({ shown, stored }, null, 1)}`);
      });
      await page.page.getByText("Connection cut").waitFor({ state: "detached" });
      assert.deepEqual(await page.page.getByText("Not sent").allTextContents(), [], `round ${at}, ${kind}, screen ${number + 1}`);
    }
    if (kind.includes("payment")) assert.equal(server.payments().filter((one) => one === order).length, 1, `round ${at}: paid more than once`);
  }
  await first.close();
  await second.close();
  for (const proxy of proxies) proxy.close();
}

export const tests = [the_screens_are_what_the_store_has_after_each_fault];
