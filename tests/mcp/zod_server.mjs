// An MCP server with tools whose schemas are those of Zod 4.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as z from "zod";

const server = new McpServer({ name: "zod", version: "1" });
const shapes = {
  text: { a: z.string() },
  optional: { a: z.string().optional() },
  nullable: { a: z.string().nullable() },
  nullish: { a: z.string().nullish() },
  with_default: { a: z.number().default(3) },
  integer: { a: z.int() },
  limits: { a: z.number().min(0).max(10) },
  positive: { a: z.number().positive() },
  choice: { a: z.enum(["one", "two"]) },
  literal: { a: z.literal("one") },
  union: { a: z.union([z.string(), z.number()]) },
  tagged: {
    a: z.discriminatedUnion("kind", [
      z.object({ kind: z.literal("x"), n: z.number() }),
      z.object({ kind: z.literal("y"), s: z.string() }),
    ]),
  },
  list: { a: z.array(z.string()).min(1) },
  tuple: { a: z.tuple([z.string(), z.number()]) },
  record: { a: z.record(z.string(), z.number()) },
  nested: { a: z.object({ b: z.object({ c: z.boolean() }) }) },
  loose: { a: z.looseObject({ b: z.string() }) },
  strict: { a: z.strictObject({ b: z.string() }) },
  email: { a: z.email() },
  url: { a: z.url() },
  uuid: { a: z.uuid() },
  moment: { a: z.iso.datetime() },
  pattern: { a: z.string().regex(/^(?=a)[a-z]+$/) },
  any: { a: z.any() },
  unknown: { a: z.unknown() },
  described: { a: z.string().describe("Ein Text\nin zwei Zeilen") },
  flag: { a: z.boolean() },
};
for (const [name, inputSchema] of Object.entries(shapes)) {
  server.registerTool(name, { description: name, inputSchema }, (args) => ({
    content: [{ type: "text", text: JSON.stringify(args) }],
  }));
}
server.registerTool("nothing", { description: "nothing" }, () => ({ content: [] }));
server.registerTool(
  "structured",
  { description: "structured", inputSchema: { a: z.string() }, outputSchema: { b: z.string() } },
  ({ a }) => ({ content: [{ type: "text", text: JSON.stringify({ b: a }) }], structuredContent: { b: a } }),
);
server.registerTool("throws", { description: "throws" }, () => {
  throw new Error("it broke");
});
await server.connect(new StdioServerTransport());
