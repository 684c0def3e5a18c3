// Lists the tools of a gateway with a TypeScript SDK, calls one of them, and prints the result.
//
// Usage: node call.mjs MODULES first|legacy|modern URL TOOL ARGUMENTS; MODULES is the directory
// `node_modules`, ARGUMENTS is JSON. In place of the URL, a JSON array is the command of a server over
// stdio. `first` is the SDK of 2025, the others the one of 2026 in each era.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, which, url, name, text] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const [command, ...args] = url.startsWith("[") ? JSON.parse(url) : [];
const about = { name: "test", version: "1.0.0" };

function first() {
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
  return [new Client(about), transportOf(StreamableHTTPClientTransport, StdioClientTransport)];
}

function second() {
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  const mode = which === "modern" ? { pin: "2026-07-28" } : "legacy";
  const transport = transportOf(StreamableHTTPClientTransport, StdioClientTransport);
  return [new Client(about, { versionNegotiation: { mode } }), transport];
}

function transportOf(Http, Stdio) {
  return command ? new Stdio({ command, args, env: process.env }) : new Http(new URL(url));
}

const [client, transport] = which === "first" ? first() : second();
await client.connect(transport);
// The SDKs compile the output schemas of the tools that they have listed. Servers of a gateway start
// while it serves.
const deadline = Date.now() + 60_000;
while (!(await client.listTools()).tools.some((tool) => tool.name === name)) {
  if (Date.now() > deadline) throw new Error(`no tool ${name}`);
  await new Promise((resolve) => setTimeout(resolve, 100));
}
console.log(JSON.stringify(await client.callTool({ name, arguments: JSON.parse(text) })));
await client.close();
