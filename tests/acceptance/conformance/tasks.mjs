// A server of the first TypeScript SDK with tasks of 2025-11-25: `slow` may be a task, `confirm` must
// be one and asks its caller, `endless` must be one and never ends. Results name the server's own id.
//
// Usage: node tasks.mjs MODULES [--stdio]; MODULES is the directory `node_modules`.

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
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = sdk("experimental/tasks/stores/in-memory.js");
const { ElicitResultSchema } = sdk("types.js");

const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

function server() {
  const options = {
    capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
    taskStore: new InMemoryTaskStore(),
    taskMessageQueue: new InMemoryTaskMessageQueue(),
  };
  const server = new McpServer({ name: "tasks", version: "1.0.0" }, options);

  function tool(name, taskSupport, work) {
    server.experimental.tasks.registerToolTask(name, { description: "Works.", execution: { taskSupport } }, {
      async createTask({ taskStore, taskRequestedTtl }) {
        const task = await taskStore.createTask({ ttl: taskRequestedTtl, pollInterval: 100 });
        work(task.taskId, taskStore).then(async (text) => {
          const content = [{ type: "text", text }, { type: "text", text: task.taskId }];
          if (text) await taskStore.storeTaskResult(task.taskId, "completed", { content });
        });
        return { task };
      },
      getTask: ({ taskId, taskStore }) => taskStore.getTask(taskId),
      getTaskResult: ({ taskId, taskStore }) => taskStore.getTaskResult(taskId),
    });
  }

  tool("slow", "optional", async () => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return "done";
  });
  tool("confirm", "required", async (taskId, taskStore) => {
    await taskStore.updateTaskStatus(taskId, "input_required");
    const question = { method: "elicitation/create", params: { message: "Who?", requestedSchema } };
    const answer = await server.server.request(question, ElicitResultSchema, { relatedTask: { taskId } });
    return `confirmed by ${answer.content.name}`;
  });
  tool("endless", "required", async () => null);
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
