// Lists the tools of a gateway with a TypeScript SDK, calls one of them, and prints the result.
//
// Usage: node call.mjs MODULES first|legacy|modern URL TOOL ARGUMENTS; MODULES is the directory
// `node_modules`, ARGUMENTS is JSON. `first` is the SDK of 2025, the others the one of 2026 in each era.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, which, url, name, text] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const about = { name: "test", version: "1.0.0" };

function first() {
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  return [new Client(about), new StreamableHTTPClientTransport(new URL(url))];
}

function second() {
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const mode = which === "modern" ? { pin: "2026-07-28" } : "legacy";
  return [new Client(about, { versionNegotiation: { mode } }), new StreamableHTTPClientTransport(new URL(url))];
}

const [client, transport] = which === "first" ? first() : second();
await client.connect(transport);
// The SDKs compile the output schemas of the tools that they have listed.
await client.listTools();
console.log(JSON.stringify(await client.callTool({ name, arguments: JSON.parse(text) })));
await client.close();
