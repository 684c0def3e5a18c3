// A server of the first TypeScript SDK that speaks only the HTTP+SSE transport of 2024-11-05.
//
// Usage: node http-sse.mjs MODULES; MODULES is the directory `node_modules`.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}`);
const { McpServer } = sdk("server/mcp.js");
const { SSEServerTransport } = sdk("server/sse.js");

const transports = new Map();

async function handle(request, response) {
  const url = new URL(request.url, "http://localhost");
  if (request.method === "GET" && url.pathname === "/sse") {
    const transport = new SSEServerTransport("/messages", response);
    transports.set(transport.sessionId, transport);
    await new McpServer({ name: "old", version: "1.0.0" }).connect(transport);
  } else if (request.method === "POST" && url.pathname === "/messages") {
    await transports.get(url.searchParams.get("sessionId"))?.handlePostMessage(request, response);
  } else {
    response.writeHead(405).end();
  }
}

const http = createServer(handle);
http.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${http.address().port}`));
