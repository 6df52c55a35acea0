// Orchestrations: their steps, who waits, approvals with what they are about, and what a person can do.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Page } from "./browser.mjs";
import { isDesigned } from "./design.mjs";

const BOSS = `weft: 1
version: 1.0.0
type: context
agent_card: {name: Boss, description: Orders boxes, modes: [converse, build]}
orchestration:
  steps:
    - {id: text, agent: step-writer, message: The steps of the writer}
    - id: check
      checkpoint:
        question: Order {{input.boxes}} boxes?
        input: {boxes: "{{input.boxes}}", note: "{{steps.text.content}}"}
        on_reject: decline
    - {id: inner, agent: step-inner, payload: {orchestrate: true}, message: The steps of the inner one}
    - {id: decline, agent: step-writer, message: The steps of the decline}
`;

const INNER = `weft: 1
version: 1.0.0
type: context
orchestration:
  steps:
    - {id: held, agent: step-writer, message: The steps that are held}
`;

const WRITER = `weft: 1
version: 1.0.0
type: context
`;

/** Adds the definitions of the agents to the folder of a server. */
export function defineSteps(server) {
  for (const [slug, definition] of [["step-boss", BOSS], ["step-inner", INNER], ["step-writer", WRITER]]) {
    const folder = join(server.folder, "agents", slug);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "agent.yaml"), definition);
    writeFileSync(join(folder, "context.md"), "Be short.\n");
  }
}

/** Begins an orchestration, which waits at its checkpoint, and opens its thread. */
async function begin(browser, server, model, options = {}) {
  model.when("The steps", "Written.");
  model.when("Order the boxes", "Ordered.");
  const body = { mode: "build", conversationId: randomUUID(), userMessage: "Order the boxes", input: { boxes: 3 }, payload: { orchestrate: true } };
  const { metadata } = await server.json("POST", "/agents/step-boss/tasks", body);
  assert.equal(metadata.status, "input_required");
  const page = await Page.enter(browser, server, { hash: `#/thread/${metadata.thread}`, ...options });
  return { page, conversation: body.conversationId, steps: page.page.getByRole("region", { name: "Steps", exact: true }) };
}

/** Waits until a step has a status. */
async function hasStatus(steps, name, status) {
  await steps.getByRole("listitem").filter({ hasText: new RegExp(`^${name}`) }).getByText(status, { exact: true }).waitFor();
}

async function an_orchestration_shows_its_steps_and_what_a_person_approves(browser, { server, model }) {
  const { page, steps } = await begin(browser, server, model);
  for (const [name, status] of [["text", "Done"], ["check", "Waits for you"], ["inner", "Not begun"], ["decline", "Not begun"]]) {
    await hasStatus(steps, name, status);
  }
  await page.accessible("steps");
  await isDesigned(page, "steps");
  const approval = page.page.getByRole("region", { name: /^Approval of step-boss\/check/ });
  await approval.getByText("Order 3 boxes? Behind it: `inner` (agent step-inner).").waitFor();
  const args = approval.getByLabel("Arguments");
  assert.deepEqual(await args.locator("dt").allTextContents(), ["boxes", "note"]);
  await args.getByText("Written.").waitFor();
  // The writer of the inner orchestration holds its answer after its first word.
  model.when("The steps that are held", { text: "Held. Written.", hold: "Held." });
  await approval.getByRole("button", { name: "Approve", exact: true }).click();
  await hasStatus(steps, "inner › held", "Working…");
  model.release();
  await page.until("Ordered.");
  await page.status("Done");
  for (const load of [false, true]) {
    if (load) await page.page.reload();
    for (const [name, status] of [["text", "Done"], ["check", "Done"], ["inner", "Done"], ["decline", "Not reached"]]) {
      await hasStatus(steps, name, status);
    }
  }
  await page.close();
}

async function an_orchestration_is_paused_resumed_and_rolled_back_once_its_effects_were_shown(browser, { server, model }) {
  const { page, conversation, steps } = await begin(browser, server, model);
  const asked = [];
  const effects = [
    { step: "text", agent: "step-writer", status: "reversible" },
    { step: "inner", agent: "step-inner", status: "undone", undo: "step-writer", calls: [{ tool: "lab/pay", arguments: { euros: 12 }, effect: "external_side_effect", outcome: "succeeded" }] },
  ];
  const records = [{ kind: "deliverable", id: "d1", current: 2, former: 1 }];
  const answers = {
    pause: { content: { token: "the token" }, metadata: { status: "paused" } },
    resume: { metadata: {} },
    rollback: { content: { step: "text", effects, records }, metadata: { confirm: "the list" } },
  };
  await page.page.route("**/agents/step-boss/tasks", async (route) => {
    const { conversationId, payload } = route.request().postDataJSON();
    assert.equal(conversationId, conversation);
    asked.push(payload);
    await route.fulfill({ json: { success: true, content: null, ...answers[payload.orchestrationAction] } });
  });
  const press = (name) => steps.getByRole("button", { name, exact: true }).click();
  await steps.getByRole("button", { name: "Resume" }).and(page.page.locator(":disabled")).waitFor();
  await press("Pause");
  await press("Resume");
  await press("Rollback");
  const list = steps.getByRole("region", { name: "Rollback to text" });
  assert.deepEqual(await list.getByRole("list", { name: "Effects" }).locator("li > p").allTextContents(), [
    "text step-writer changed nothing that is left",
    "inner step-inner is undone, by the agent step-writer",
    "deliverable d1 has version 1 as the current one again, in place of 2",
  ]);
  await list.getByLabel("Arguments of lab/pay").getByText("12").waitFor();
  await page.accessible("rollback");
  await isDesigned(page, "rollback");
  await list.getByRole("button", { name: "Leave it" }).click();
  await list.waitFor({ state: "detached" });
  await press("Rollback");
  await list.getByRole("button", { name: "Roll back", exact: true }).click();
  await list.waitFor({ state: "detached" });
  assert.deepEqual(asked, [
    { orchestrationAction: "pause" },
    { orchestrationAction: "resume", token: "the token" },
    { orchestrationAction: "rollback" },
    { orchestrationAction: "rollback" },
    { orchestrationAction: "rollback", confirm: "the list" },
  ]);
  await page.close();
}

export const tests = [an_orchestration_shows_its_steps_and_what_a_person_approves, an_orchestration_is_paused_resumed_and_rolled_back_once_its_effects_were_shown];
