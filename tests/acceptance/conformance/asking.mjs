// A server of the first TypeScript SDK over stdio, whose tools ask their caller: by elicitation with
// and without the progress token of the call, and by sampling.
//
// Usage: node asking.mjs MODULES; MODULES is the directory `node_modules`.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { z } = require("zod");

const server = new McpServer({ name: "asking", version: "1.0.0" });
const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const text = (text) => ({ content: [{ type: "text", text }] });

function tool(name, call) {
  server.registerTool(name, { description: "Asks.", inputSchema: { who: z.string() } }, call);
}

tool("elicits", async ({ who }) => {
  const answer = await server.server.elicitInput({ message: who, requestedSchema });
  return text(answer.content.name);
});

tool("elicits_with_token", async ({ who }, { _meta }) => {
  const meta = { progressToken: _meta?.progressToken };
  const answer = await server.server.elicitInput({ message: who, requestedSchema, _meta: meta });
  return text(answer.content.name);
});

tool("samples", async ({ who }) => {
  const messages = [{ role: "user", content: { type: "text", text: who } }];
  const answer = await server.server.createMessage({ messages, maxTokens: 10 });
  return text(answer.content.text);
});

// Asks only from the second call on; the next four ask at the same time.
let calls = 0;
let meet;
const met = new Promise((resolve) => (meet = resolve));
tool("elicits_later", async ({ who }) => {
  const call = calls++;
  if (call === 0) return text(who);
  if (call === 4) meet();
  await met;
  const answer = await server.server.elicitInput({ message: who, requestedSchema });
  return text(answer.content.name);
});

tool("quiet", async ({ who }) => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return text(who);
});

await server.connect(new StdioServerTransport());
