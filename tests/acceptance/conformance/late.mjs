// A legacy server over stdio whose tools ask too late, without a progress token: after their call was
// cancelled, or after they have answered it.
//
// Usage: node late.mjs

import { createInterface } from "node:readline";

const tools = ["asks_after_cancel", "asks_after_answer", "asks_at_once", "quiet", "answers"];
const answers = [];
let questions = 0;

const send = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const asked = new Map();

function ask(who) {
  const id = `question-${++questions}`;
  const requestedSchema = { type: "object", properties: { ok: { type: "boolean" } } };
  send({ id, method: "elicitation/create", params: { message: `secret of ${who}: confirm payment?`, requestedSchema } });
  return new Promise((resolve) => asked.set(id, resolve));
}

async function call(id, { name, arguments: { who, seconds } = {} }) {
  const answer = (text) => send({ id, result: { content: [{ type: "text", text }] } });
  if (name === "quiet") {
    await pause(seconds ?? 0);
    answer(`quiet:${who}`);
  } else if (name === "answers") {
    answer(JSON.stringify(answers));
  } else if (name === "asks_after_cancel") {
    await pause(5); // Like a synchronous tool, it does not hear of the cancellation.
    answer(JSON.stringify(await ask(who)));
  } else if (name === "asks_after_answer") {
    answer("started");
    await pause(3);
    ask(who);
  } else {
    answer(JSON.stringify(await ask(who)));
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) {
    answers.push(result ?? error);
    asked.get(id)?.(result ?? error);
  } else if (method === "initialize") {
    const serverInfo = { name: "late", version: "1" };
    send({ id, result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    send({ id, result: { tools: tools.map((name) => ({ name, inputSchema: { type: "object" } })) } });
  } else if (method === "tools/call") {
    call(id, params);
  } else if (id !== undefined) {
    send({ id, error: { code: -32601, message: "unknown method" } });
  }
}
