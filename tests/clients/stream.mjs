// Streams a run and prints its events: stream.mjs URL THREAD GRAPH INPUT MODES
import { Client } from "@langchain/langgraph-sdk";

const [url, thread, graph, input, modes] = process.argv.slice(2);
const client = new Client({ apiUrl: url, apiKey: null });
const options = { input: JSON.parse(input), streamMode: JSON.parse(modes), streamResumable: true };
for await (const { event, data } of client.runs.stream(thread, graph, options)) {
  if (event === "error") throw new Error(JSON.stringify(data));
  if (event !== "metadata") console.log(JSON.stringify([event, data]));
}
