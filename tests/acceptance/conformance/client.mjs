// The TypeScript SDKs as clients of a gateway in front of the everything-server and of servers that
// speak one era each: the first SDK, which knows only the older one, and the second in both.
//
// Usage: node client.mjs MODULES first|legacy|modern URL; MODULES is the directory `node_modules`. In place
// of the URL, a JSON array is the command of a server over stdio.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, which, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const [command, ...args] = url.startsWith("[") ? JSON.parse(url) : [];
const modern = which === "modern";
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const about = { name: "test", version: "1.0.0" };
const answers = { response: "yes", confirm: true, name: "Ada" };
const logged = [];

const handlers = {
  "elicitation/create": async ({ params }) => {
    const wanted = Object.keys(params.requestedSchema.properties);
    return { action: "accept", content: Object.fromEntries(wanted.map((name) => [name, answers[name]])) };
  },
  "sampling/createMessage": async () => {
    return { role: "assistant", content: { type: "text", text: "Paris" }, model: "test" };
  },
  "roots/list": async () => ({ roots: [{ uri: "file:///home" }] }),
};

function first() {
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const types = require("@modelcontextprotocol/sdk/types.js");
  const client = new Client(about, { capabilities });
  client.setRequestHandler(types.ElicitRequestSchema, handlers["elicitation/create"]);
  client.setRequestHandler(types.CreateMessageRequestSchema, handlers["sampling/createMessage"]);
  client.setRequestHandler(types.ListRootsRequestSchema, handlers["roots/list"]);
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => logged.push(params.data));
  const call = (params, options) => client.callTool(params, undefined, options);
  if (!command) return { client, call, transport: new StreamableHTTPClientTransport(new URL(url)) };
  const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
  return { client, call, transport: new StdioClientTransport({ command, args, env: process.env }) };
}

function second() {
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const versionNegotiation = { mode: modern ? { pin: "2026-07-28" } : "legacy" };
  const client = new Client(about, { capabilities, versionNegotiation });
  for (const [method, handler] of Object.entries(handlers)) client.setRequestHandler(method, handler);
  client.setNotificationHandler("notifications/message", ({ params }) => logged.push(params.data));
  const call = (params, options) => client.callTool(params, options);
  if (!command) return { client, call, transport: new StreamableHTTPClientTransport(new URL(url)) };
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  return { client, call, transport: new StdioClientTransport({ command, args, env: process.env }) };
}

const { client, call, transport } = which === "first" ? first() : second();

async function text(name, args = {}, { meta, ...options } = {}) {
  const result = await call({ name, arguments: args, ...(meta && { _meta: meta }) }, options);
  assert.ok(!result.isError, JSON.stringify(result));
  return result.content[0].text;
}

await client.connect(transport);

const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert.ok(tools.includes("test_simple_text") && tools.includes("deploy_modern_http"), tools);
assert.equal(await text("test_simple_text"), "This is a simple text response for testing.");

const prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
assert.ok(prompts.includes("test_prompt_with_arguments"), prompts);
const name = "test_prompt_with_arguments";
const prompt = await client.getPrompt({ name, arguments: { arg1: "a", arg2: "b" } });
assert.equal(prompt.messages[0].content.text, "Prompt with arguments: arg1='a', arg2='b'");
const ref = { type: "ref/prompt", name };
const completed = await client.complete({ ref, argument: { name: "arg1", value: "a" } });
assert.deepEqual(completed.completion.values, []);

const resources = (await client.listResources()).resources.map((resource) => resource.uri);
assert.ok(resources.includes("test://static-text"), resources);
const templates = (await client.listResourceTemplates()).resourceTemplates;
assert.deepEqual(templates.map((template) => template.uriTemplate), ["test://template/{id}/data"]);
const read = await client.readResource({ uri: "test://template/7/data" });
assert.match(read.contents[0].text, /Data for ID: 7/);

const progress = [];
await text("test_tool_with_progress", {}, { onprogress: ({ progress: done }) => progress.push(done) });
// Over stdio, the SDKs drop progress that arrives in one read with the response.
assert.deepEqual(progress, command ? [0, 50, 100].slice(0, Math.max(2, progress.length)) : [0, 50, 100]);
if (!modern) await client.setLoggingLevel("info");
const meta = modern ? { "io.modelcontextprotocol/logLevel": "info" } : undefined;
await text("test_tool_with_logging", {}, { meta });
assert.deepEqual(logged, ["Tool execution started", "Tool processing data", "Tool execution completed"]);

assert.equal(await text("test_streaming_elicitation"), "elicitation accept");
if (modern) {
  assert.equal(await text("test_input_required_result_sampling"), "Model said: Paris");
  assert.equal(await text("test_input_required_result_list_roots"), "Client exposed 1 root(s).");
} else {
  assert.equal(await text("test_sampling", { prompt: "Where?" }), "LLM response: Paris");
}

for (const far of ["legacy_http", "legacy_stdio", "modern_http", "modern_stdio"]) {
  assert.equal(await text(`deploy_${far}`, { where: far }), `deployed to ${far}`);
}
await client.close();
