// The JavaScript SDK of A2A against agents that are exposed by it: `sdk.mjs URL TOKEN`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const [url, token] = process.argv.slice(2);

/** Sends the token with each request. */
function fetchImpl(input, init = {}) {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${token}`);
  return fetch(input, { ...init, headers });
}

async function clientOf(slug, Transport) {
  const factory = new ClientFactory({
    transports: [new Transport({ fetchImpl })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  return factory.createFromUrl(`${url}/a2a/${slug}/`);
}

function said(text, more = {}) {
  const part = { content: { $case: "text", value: text }, filename: "", mediaType: "" };
  return {
    tenant: "",
    message: {
      messageId: randomUUID(), contextId: "", taskId: "", role: 1, parts: [part], extensions: [],
      referenceTaskIds: [], ...more,
    },
  };
}

const textOf = (part) => part.content.value;
const states = { completed: 3, canceled: 5, inputRequired: 6 };

for (const Transport of [JsonRpcTransportFactory, RestTransportFactory]) {
  const talk = await clientOf("talk", Transport);
  const words = Array.from({ length: 10 }, (_, number) => `word${number}`).join(" ");
  const task = await talk.sendMessage(said("Hello"));
  assert.equal(task.status.state, states.completed);
  assert.equal(textOf(task.artifacts[0].parts[0]).trim(), words);

  let text = "";
  let last;
  for await (const { payload } of talk.sendMessageStream(said("Hello"))) {
    if (payload.$case === "artifactUpdate") {
      const part = textOf(payload.value.artifact.parts[0]);
      text = payload.value.append ? text + part : part;
    }
    last = payload;
  }
  assert.equal(text.trim(), words);
  assert.equal(last.value.status.state, states.completed);

  const desk = await clientOf("desk", Transport);
  const asked = await desk.sendMessage(said("ask"));
  assert.equal(asked.status.state, states.inputRequired);
  const done = await desk.sendMessage(said("green", { taskId: asked.id }));
  assert.equal(done.id, asked.id);
  assert.equal(textOf(done.artifacts[0].parts[0]), "green");

  const waiting = await desk.sendMessage(said("ask"));
  const followed = [];
  for await (const { payload } of desk.resubscribeTask({ tenant: "", id: waiting.id })) {
    followed.push(payload);
    if (payload.$case === "task") {
      const canceled = await desk.cancelTask({ tenant: "", id: waiting.id });
      assert.equal(canceled.status.state, states.canceled);
    }
  }
  assert.equal(followed.at(-1).value.status.state, states.canceled);
  const listed = await desk.listTasks({ tenant: "", contextId: waiting.contextId, status: 0 });
  assert.deepEqual(listed.tasks.map((task) => task.id), [waiting.id]);
  await assert.rejects(desk.getTask({ tenant: "", id: randomUUID() }));
}
