// A client of the first TypeScript SDK that uses the tasks of a gateway in front of `tasks.mjs`.
//
// Usage: node task-client.mjs MODULES URL NAME; MODULES is the directory `node_modules`. Prints the
// ids of its tasks, and fails when something is not as 2025-11-25 says.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, me] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const related = "io.modelcontextprotocol/related-task";
const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const questions = [];
client.setRequestHandler(types.ElicitRequestSchema, async ({ params }) => {
  questions.push(params._meta?.[related]?.taskId);
  return { action: "accept", content: { name: me } };
});
const told = [];
client.setNotificationHandler(types.TaskStatusNotificationSchema, ({ params }) => told.push(params));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
assert.deepEqual(client.getServerCapabilities().tasks, { list: {}, cancel: {}, requests: { tools: { call: {} } } });
const listed = (await client.listTools()).tools.map(({ name, execution }) => [name, execution?.taskSupport]);
assert.deepEqual(Object.fromEntries(listed), { slow: "optional", confirm: "required", endless: "required" });

const { tasks } = client.experimental;
const ids = [];

async function run(name) {
  const seen = { statuses: [] };
  for await (const message of tasks.callToolStream({ name, arguments: {} }, types.CallToolResultSchema, { task: { ttl: 60000 } })) {
    if (message.type === "taskCreated") seen.id = message.task.taskId;
    else if (message.type === "taskStatus") seen.statuses.push(message.task);
    else if (message.type === "result") seen.result = message.result;
    else throw message.error;
  }
  ids.push(seen.id);
  assert.ok(seen.statuses.every((task) => task.taskId === seen.id), "one id for a task");
  const [text, own] = seen.result.content.map(({ text }) => text);
  assert.notEqual(own, seen.id, "the id of the server is not the client's");
  assert.ok(!JSON.stringify(seen.statuses).includes(own));
  assert.equal(seen.result._meta[related].taskId, seen.id);
  return { ...seen, text, own };
}

const slow = await run("slow");
assert.equal(slow.text, "done");
assert.equal(slow.statuses.at(-1).status, "completed");
const confirm = await run("confirm");
assert.equal(confirm.text, `confirmed by ${me}`);
assert.deepEqual(questions, [confirm.id]);

// Where a task is optional, a plain call goes on as before.
const plain = await client.callTool({ name: "slow", arguments: {} });
assert.equal(plain.content[0].text, "done");

// `tasks/result` waits for the end.
const task = { ttl: 60000 };
const begun = await client.request({ method: "tools/call", params: { name: "slow", arguments: {} } }, types.CreateTaskResultSchema, { task });
const waited = await tasks.getTaskResult(begun.task.taskId, types.CallToolResultSchema);
assert.equal(waited.content[0].text, "done");
ids.push(begun.task.taskId);

const endless = await client.request({ method: "tools/call", params: { name: "endless", arguments: {} } }, types.CreateTaskResultSchema, { task });
ids.push(endless.task.taskId);
const all = (await tasks.listTasks()).tasks;
assert.deepEqual(all.map(({ taskId }) => taskId), ids);
assert.equal(all.at(-1).status, "working");
assert.equal((await tasks.cancelTask(endless.task.taskId)).status, "cancelled");
assert.equal((await tasks.getTask(endless.task.taskId)).status, "cancelled");
await assert.rejects(tasks.cancelTask(endless.task.taskId), (error) => error.code === -32602);
await assert.rejects(tasks.getTask(slow.own), (error) => error.code === -32602);
const ended = () => told.filter(({ status }) => status === "completed").map(({ taskId }) => taskId);
for (let turns = 0; ended().length < 3 && turns < 100; turns++) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
assert.deepEqual(ended(), ids.slice(0, 3), JSON.stringify(told));
const states = told.filter(({ taskId }) => taskId === confirm.id).map(({ status }) => status);
// A state that ends before the gateway polls it is not reported.
assert.equal(states.pop(), "completed");
assert.ok(states.every((status) => status === "input_required"), JSON.stringify(states));
assert.ok(told.every(({ taskId }) => ids.includes(taskId)));
console.log(JSON.stringify(ids));
await client.close();
