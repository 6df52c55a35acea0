// A model with the protocol of OpenAI, whose answers the tests write.
import { once } from "node:events";
import { createServer } from "node:http";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Model {
  /** Answers by a part of the last text of the user. */
  answers = new Map();
  /** Name of the model of the last request. */
  name = "";
  /** Content of the last text of the user of the last request. */
  content = "";
  /** Texts of the last request, other than those of the system, in order. */
  texts = [];
  /** Number of requests. */
  asked = 0;
  /** Ends the waits of answers that are held. */
  released = new AbortController();

  async start() {
    this.server = createServer((request, response) => {
      const chunks = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => void this.answer(JSON.parse(Buffer.concat(chunks)), response));
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}/v1`;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /**
   * Sets the answer to texts of the user with these words: a text, or a function of the number of
   * results since that text. An answer has `reasoning`, `text`, `calls` of [name, arguments as a value or as
   * JSON], `pause` in milliseconds before each word, `hold`, the word after which it waits for `release`, `cut`,
   * the word after which the connection ends, `finish`, the reason for its end, or `error`, a status.
   */
  when(words, answer) {
    this.released = new AbortController();
    this.answers.set(words, typeof answer === "function" ? answer : () => answer);
  }

  /** Lets answers that are held go on, and later ones pass. */
  release() {
    this.released.abort();
  }

  async answer({ messages, model }, response) {
    this.asked += 1;
    this.name = model;
    const at = messages.findLastIndex(({ role }) => role === "user");
    const { content } = messages[at] ?? { content: "" };
    this.content = content;
    const said = typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("");
    this.texts = messages.filter(({ role }) => role !== "system").map(({ content }) => content);
    const known = [...this.answers].findLast(([words]) => said.includes(words));
    const results = messages.slice(at + 1).filter(({ role }) => role === "tool").length;
    const found = known?.[1](results) ?? `You said: ${said.slice(0, 80)}`;
    const answer = typeof found === "string" ? { text: found } : found;
    const { reasoning, text = "", calls = [], pause = 0, hold, cut, error, finish } = answer;
    if (error !== undefined) {
      response.writeHead(error, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "the model refuses" } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta, more = {}) => {
      const chunk = { id: "c", object: "chat.completion.chunk", model: "test", choices: [{ index: 0, delta, finish_reason: null, ...more }] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    if (reasoning) send({ reasoning_content: reasoning });
    for (const word of text.match(/\S*\s*/g)?.filter(Boolean) ?? []) {
      if (pause > 0) await sleep(pause);
      if (response.destroyed) return;
      send({ content: word });
      if (word.trim() === cut) {
        // What was sent before is on its way.
        await sleep(200);
        return void response.destroy();
      }
      const { signal } = this.released;
      if (word.trim() === hold && !signal.aborted) await Promise.race([once(signal, "abort"), once(response, "close")]);
    }
    calls.forEach(([name, args], index) => {
      const call = { name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
      send({ tool_calls: [{ index, id: `call_${this.asked}_${index}`, type: "function", function: call }] });
    });
    send({}, { finish_reason: finish ?? (calls.length > 0 ? "tool_calls" : "stop") });
    const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
    response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "test", choices: [], usage })}\n\n`);
    response.end("data: [DONE]\n\n");
  }
}
