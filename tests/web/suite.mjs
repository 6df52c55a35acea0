// The tests of the page in one browser, on servers side by side, each with its tests in order:
// suite.mjs [WORD...]
import { tests as acting } from "./acting.mjs";
import { launch } from "./browser.mjs";
import { tests as damaged } from "./damaged.mjs";
import { tests as design } from "./design.mjs";
import { tests as embedded } from "./embedded.mjs";
import { defineHostile, tests as exposure } from "./exposure.mjs";
import { tests as first } from "./first.mjs";
import { tests as graphs } from "./graphs.mjs";
import { tests as inbox } from "./inbox.mjs";
import { labTests as kept } from "./kept.mjs";
import { tests as long } from "./long.mjs";
import { Model } from "./model.mjs";
import { tests as reading } from "./reading.mjs";
import { defineAgents, tests as records } from "./records.mjs";
import { tests as reports } from "./reports.mjs";
import { tests as rounds } from "./rounds.mjs";
import { tests as safety } from "./safety.mjs";
import { Program, Server } from "./server.mjs";
import { tests as speed } from "./speed.mjs";
import { tests as states } from "./states.mjs";
import { defineSteps, tests as steps } from "./steps.mjs";
import { tests as story } from "./story.mjs";
import { deskTests as deskTruth, labTests as labTruth } from "./truth.mjs";
import { tests as usage } from "./usage.mjs";
import { deskTests, labTests } from "./views.mjs";
import { tests as walks } from "./walks.mjs";
import { deskTests as deskSayings, tests as sayings } from "./words.mjs";

const words = process.argv.slice(2);

/** Tests that run in the full tier, and by name: the fast tier has others of their kind. */
const FULL_ONLY = new Set([
  "every_view_has_the_sizes_of_the_design",
  "the_state_of_a_thread_is_that_of_the_server",
  "files_are_thumbnails_and_open",
  "wide_tables_scroll_within_their_message",
  "each_action_of_a_message_is_one_click",
  "the_supersteps_of_a_member_are_within_its_task",
  "attempts_and_costs_of_calls_are_in_the_timeline",
  "the_details_keep_the_width_that_one_gives_them",
  "a_failed_tool_is_red_in_the_graph_and_a_refused_call_is_not",
  "the_card_of_a_question_is_in_view_however_long_the_list_is",
  "a_card_is_not_active_after_a_later_message",
  "home_says_what_each_agent_may_do_and_what_it_asks_for",
  "without_a_network_a_file_is_imported_and_the_page_uses_it",
  "a_call_of_unknown_outcome_is_made_again_after_a_confirmation",
  "a_call_of_unknown_outcome_is_given_up_in_the_inbox",
  "a_call_of_unknown_outcome_is_given_up_in_the_terminal_and_the_page_shows_it",
]);
const isFull = process.env.WEFT_TIER === "full";
const browser = await launch();
let passed = 0;
let failed = 0;

async function run(tests, place) {
  for (const test of tests) {
    const { name } = test;
    if (words.length > 0 ? !words.some((word) => name.includes(word)) : FULL_ONLY.has(name) && !isFull) continue;
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
  await run([...story, ...deskTests, ...deskTruth, ...deskSayings, ...walks, ...design], server);
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

/** A home in which nothing is installed. */
async function firstRun() {
  await run(first);
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
  const server = await new Server(model).allowTools().offerModel("priced", 2.5, 10).offerUnpriced("odd").offer("gpt-3.5-text").start();
  const stories = [...states, ...labTests, ...labTruth, ...kept, ...reading, ...safety, ...inbox, ...acting, ...sayings, ...usage, ...speed, ...long];
  await run(stories, { server, model });
  await server.close();
  model.close();
}

/** A server that is killed, frozen and cut off, again and again. */
async function faults() {
  const model = await new Model().start();
  const server = await new Server(model).allowTools().start();
  await run([...reports, ...rounds], { server, model });
  await server.close();
  model.close();
}

/** Agents with definitions, on a model of the tests. */
async function defined() {
  const model = await new Model().start();
  const server = new Server(model).allowTools();
  defineAgents(server);
  defineSteps(server);
  defineHostile(server);
  const reader = server.signCards().addKey("reader", "read,run");
  await server.start();
  await run([...records, ...steps, ...exposure], { server, model, reader });
  await server.close();
  model.close();
}

await Promise.all([desk().then(own).then(firstRun).then(ownGraphs).then(defined).then(faults), laboratory().then(odd)]);
await browser.close();
console.log(`test result: ${failed === 0 ? "ok" : "FAILED"}. ${passed} passed; ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
