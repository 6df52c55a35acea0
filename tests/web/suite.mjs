// The tests of the page, in order, on one server: suite.mjs [WORD...]
import { launch } from "./browser.mjs";
import { Server } from "./server.mjs";
import { tests } from "./story.mjs";

const words = process.argv.slice(2);
const server = await new Server().start();
const browser = await launch();
let passed = 0;
let failed = 0;
for (const test of tests) {
  const { name } = test;
  if (words.length > 0 && !words.some((word) => name.includes(word))) continue;
  const begin = performance.now();
  let problem;
  try {
    await test(browser, server);
    passed += 1;
  } catch (error) {
    problem = error;
    failed += 1;
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(3).padStart(8);
  console.log(`        ${problem ? "FAIL" : "PASS"} [${seconds}s] ${name}`);
  if (problem) console.log(`page '${name}' panicked at ${problem.name}:\n${problem.stack}`);
}
await browser.close();
await server.close();
console.log(`test result: ${failed === 0 ? "ok" : "FAILED"}. ${passed} passed; ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
