// Clients of the first TypeScript SDK that call one tool at the same time. Each answers its questions
// with its own name, and fails when a question is for another one.
//
// Usage: node concurrent-clients.mjs MODULES URL TOOL CLIENTS MILLISECONDS; MODULES is the directory
// `node_modules`, and an answer takes so many milliseconds. Prints `{"seconds", "p50", "max"}`, or
// with the failures.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, tool, count, pause] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

async function answered(me, question, answer) {
  if (question !== me) throw new Error(`${me} was asked "${question}"`);
  await new Promise((resolve) => setTimeout(resolve, Number(pause)));
  return answer;
}

async function connected(index) {
  const me = `client ${index}`;
  const client = new Client({ name: "crowd", version: "1" }, { capabilities: { elicitation: {}, sampling: {} } });
  client.setRequestHandler(types.ElicitRequestSchema, ({ params }) =>
    answered(me, params.message, { action: "accept", content: { name: me } }));
  client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => {
    const content = [params.messages[0].content].flat()[0].text;
    return answered(me, content, { role: "assistant", content: { type: "text", text: me }, model: "test" });
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return { me, client };
}

async function call({ me, client }) {
  const began = performance.now();
  const result = await client.callTool({ name: tool, arguments: { who: me } }).catch(String);
  const text = result.content?.[0]?.text ?? result;
  return { took: performance.now() - began, failure: text === me && !result.isError ? null : `${me}: ${text}` };
}

const clients = await Promise.all(Array.from({ length: Number(count) }, (_, index) => connected(index)));
const began = performance.now();
const calls = await Promise.all(clients.map(call));
const seconds = (performance.now() - began) / 1000;
const took = calls.map(({ took }) => took).sort((a, b) => a - b);
const failures = calls.map(({ failure }) => failure).filter(Boolean);
console.log(JSON.stringify({ seconds, p50: took[took.length >> 1], max: took.at(-1), failures }));
await Promise.all(clients.map(({ client }) => client.close()));
