// A server of the first TypeScript SDK, which knows 2025-11-25 and nothing newer.
//
// Usage: node legacy.mjs MODULES [--stdio]; MODULES is the directory `node_modules`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, flag] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}`);
const { McpServer } = sdk("server/mcp.js");
const { StdioServerTransport } = sdk("server/stdio.js");
const { StreamableHTTPServerTransport } = sdk("server/streamableHttp.js");
const { z } = require("zod");

function server() {
  const server = new McpServer({ name: "legacy", version: "1.0.0" });
  const description = "Deploys where it is told to, when the user confirms.";
  server.registerTool("deploy", { description, inputSchema: { where: z.string() } }, async ({ where }) => {
    const requestedSchema = {
      type: "object",
      properties: { confirm: { type: "boolean" } },
      required: ["confirm"],
    };
    const answer = await server.server.elicitInput({ message: "Really?", requestedSchema });
    const confirmed = answer.action === "accept" && answer.content.confirm;
    const text = `${confirmed ? "deployed" : "not deployed"} to ${where}`;
    return { content: [{ type: "text", text }] };
  });
  return server;
}

const sessions = new Map();

async function handle(request, response) {
  let transport = sessions.get(request.headers["mcp-session-id"]);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    await server().connect(transport);
  }
  await transport.handleRequest(request, response);
}

if (flag === "--stdio") {
  await server().connect(new StdioServerTransport());
} else {
  const http = createServer(handle);
  http.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${http.address().port}`));
}
