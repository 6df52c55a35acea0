// The tests of the page in one browser, on servers side by side, each with its tests in order:
// suite.mjs [WORD...]
import { launch } from "./browser.mjs";
import { tests as damaged } from "./damaged.mjs";
import { tests as design } from "./design.mjs";
import { tests as embedded } from "./embedded.mjs";
import { tests as graphs } from "./graphs.mjs";
import { tests as long } from "./long.mjs";
import { Model } from "./model.mjs";
import { tests as reading } from "./reading.mjs";
import { tests as safety } from "./safety.mjs";
import { Program, Server } from "./server.mjs";
import { tests as states } from "./states.mjs";
import { tests as story } from "./story.mjs";
import { deskTests as deskTruth, labTests as labTruth } from "./truth.mjs";
import { deskTests, labTests } from "./views.mjs";
import { tests as walks } from "./walks.mjs";

const words = process.argv.slice(2);
const browser = await launch();
let passed = 0;
let failed = 0;

async function run(tests, place) {
  for (const test of tests) {
    const { name } = test;
    if (words.length > 0 && !words.some((word) => name.includes(word))) continue;
    const begin = performance.now();
    let problem;
    try {
      await test(browser, place);
      passed += 1;
    } catch (error) {
      problem = error;
      failed += 1;
      await shots(name);
    }
    const seconds = ((performance.now() - begin) / 1000).toFixed(3).padStart(8);
    console.log(`        ${problem ? "FAIL" : "PASS"} [${seconds}s] ${name}`);
    if (problem) console.log(`page '${name}' panicked at ${problem.name}:\n${problem.stack}`);
  }
}

/** Takes screenshots of all open pages. */
async function shots(name) {
  for (const [at, context] of browser.contexts().entries()) {
    for (const page of context.pages()) {
      if (process.env.WEFT_SHOTS) await page.screenshot({ path: `${process.env.WEFT_SHOTS}/failed-${name}-${at}.png` }).catch(() => {});
    }
  }
}

/** The order desk on the scripted model. */
async function desk() {
  const server = await new Server().start();
  await run([...story, ...deskTests, ...deskTruth, ...walks, ...design], server);
  await server.close();
}

/** A store with rows that cannot be read. */
async function odd() {
  const server = await new Server().start();
  await run(damaged, server);
  await server.close();
}

/** The order desk on the embedded model. */
async function own() {
  const server = await new Server("local").start();
  await run(embedded, server);
  await server.close();
}

/** A program with graphs of its own. */
async function ownGraphs() {
  const server = await new Program().start();
  await run(graphs, server);
  await server.close();
}

/** An agent whose model and tools are those of the tests. */
async function laboratory() {
  const model = await new Model().start();
  const server = await new Server(model).allowTools().offerModel("priced", 2.5, 10).start();
  await run([...states, ...labTests, ...labTruth, ...reading, ...safety, ...long], { server, model });
  await server.close();
  model.close();
}

await Promise.all([desk().then(own).then(ownGraphs), laboratory().then(odd)]);
await browser.close();
console.log(`test result: ${failed === 0 ? "ok" : "FAILED"}. ${passed} passed; ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
