// The first TypeScript SDK calls `fetch` once, whatever happens to its connection: it prints a line when
// the stream can be resumed, then the text of the result.
//
// Usage: node resume.mjs MODULES URL; MODULES is the directory `node_modules`.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const client = new Client({ name: "test", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
let resumable = false;
const onresumptiontoken = () => {
  if (!resumable) console.log("the stream can be resumed");
  resumable = true;
};
const result = await client.callTool({ name: "fetch", arguments: { url: "http://x/" } }, undefined, { onresumptiontoken });
console.log(result.content[0].text);
process.exit(0);
