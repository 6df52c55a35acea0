// Streams a run of `slow` and prints its events: stream.mjs URL THREAD INPUT
import { Client } from "@langchain/langgraph-sdk";

const [url, thread, input] = process.argv.slice(2);
const client = new Client({ apiUrl: url, apiKey: null });
const streamMode = ["values", "updates"];
const options = { input: JSON.parse(input), streamMode, streamResumable: true };
for await (const { event, data } of client.runs.stream(thread, "slow", options)) {
  if (event === "error") throw new Error(JSON.stringify(data));
  if (streamMode.includes(event)) console.log(JSON.stringify([event, data]));
}
