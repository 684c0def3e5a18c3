// The agent of `agent.py` made with the A2A SDK for JavaScript 1.3.0.
//
// Usage: node agent.mjs MODULES; MODULES is the directory `node_modules`.

import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const express = require("express");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require("@a2a-js/sdk/server");
const { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } = require("@a2a-js/sdk/server/express");
const { Role, TaskState } = require("@a2a-js/sdk");

const LOUD = "urn:example:loud";
const SKILLS = ["echo", "report", "ask", "wait", "release", "fail", "files"];
const released = new Map();

function part($case, value, more = {}) {
  return { content: { $case, value }, metadata: undefined, filename: "", mediaType: "", ...more };
}
const text = (value) => part("text", value);

function textOf(message) {
  return message.parts.find((part) => part.content.$case === "text").content.value;
}
function dataOf(message) {
  return message.parts.find((part) => part.content.$case === "data").content.value;
}

// The state of a waiting task, by its name.
function gate(message) {
  const { name } = dataOf(message);
  if (!released.has(name)) released.set(name, { open: false });
  return released.get(name);
}

class Agent {
  #canceled = new Set();

  async execute(context, bus) {
    const message = context.userMessage;
    const skill = context.task ? "answered" : message.metadata?.skillId;
    const { taskId, contextId } = context;
    const agentMessage = (parts) => ({
      messageId: crypto.randomUUID(), contextId, taskId: "", role: Role.ROLE_AGENT, parts,
      metadata: undefined, extensions: [], referenceTaskIds: [],
    });
    if (skill === "echo" || skill === "release") {
      let said = "released";
      if (skill === "release") gate(message).open = true;
      else {
        said = textOf(message);
        if (context.context.requestedExtensions?.includes(LOUD)) said = said.toUpperCase();
      }
      bus.publish(AgentEvent.message(agentMessage([text(said)])));
      return bus.finished();
    }
    const status = (state, said) => ({
      state, timestamp: new Date().toISOString(), message: said && { ...agentMessage([text(said)]), taskId },
    });
    const task = context.task ?? {
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [],
      history: [{ ...message, taskId, contextId }], metadata: undefined,
    };
    bus.publish(AgentEvent.task(task));
    const update = (state, said) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, said), metadata: undefined }));
    const artifact = (artifactId, parts, { name = "", append = false, lastChunk = false } = {}) =>
      bus.publish(AgentEvent.artifactUpdate({
        taskId, contextId, append, lastChunk, metadata: undefined,
        artifact: { artifactId, name, description: "", parts, metadata: undefined, extensions: [] },
      }));
    update(TaskState.TASK_STATE_WORKING);
    switch (skill) {
      case "report":
        artifact("report", [text(`All about ${dataOf(message).topic}. `)], { name: "Report" });
        artifact("report", [part("data", { pages: 2 })], { append: true, lastChunk: true });
        break;
      case "ask":
        update(TaskState.TASK_STATE_INPUT_REQUIRED, "Which color?");
        return;
      case "answered":
        artifact("picture", [text(`In ${textOf(message)}.`)]);
        break;
      case "wait": {
        while (!gate(message).open) {
          update(TaskState.TASK_STATE_WORKING);
          await sleep(50);
          if (this.#canceled.delete(taskId)) return bus.finished();
        }
        artifact("waited", [text("Waited.")]);
        break;
      }
      case "fail":
        update(TaskState.TASK_STATE_FAILED, "Out of ink.");
        return bus.finished();
      case "files":
        artifact("files", [
          part("raw", Buffer.from("\x89PNG", "latin1"), { mediaType: "image/png", filename: "dot.png" }),
          part("url", "https://files.example/a.txt", { mediaType: "text/plain" }),
        ]);
        break;
    }
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask(taskId, bus) {
    bus.publish(AgentEvent.statusUpdate({
      taskId, contextId: "", metadata: undefined,
      status: { state: TaskState.TASK_STATE_CANCELED, timestamp: new Date().toISOString(), message: undefined },
    }));
    this.#canceled.add(taskId);
  }
}

function cardOf(protocolVersion, protocolBinding) {
  return {
    name: "agent", description: "An agent of the tests", version: "1.0.0", provider: undefined,
    documentationUrl: "", iconUrl: "", signatures: [], securitySchemes: {}, securityRequirements: [],
    capabilities: {
      streaming: true, pushNotifications: false, extendedAgentCard: false,
      extensions: [{ uri: LOUD, description: "", required: false, params: undefined }],
    },
    defaultInputModes: ["text/plain", "application/json"],
    defaultOutputModes: ["text/plain", "application/json"],
    skills: SKILLS.map((id) => ({
      id, name: id, description: id, tags: ["test"], examples: [], inputModes: [], outputModes: [],
      securityRequirements: [],
    })),
    supportedInterfaces: [{ url: "https://elsewhere.example/", protocolBinding, protocolVersion, tenant: "" }],
  };
}

// The SDK accepts both versions at one address; this refuses the other one.
function only(version) {
  return (request, response, next) => {
    const asked = request.get("a2a-version") || "0.3";
    const old = asked.startsWith("0.");
    if (old === (version === "0.3") || request.method === "GET" && request.path.includes(".well-known")) next();
    else response.status(400).json({ error: { code: 400, message: `not supported: ${asked}` } });
  };
}

function dialect(version, binding) {
  const agent = new DefaultRequestHandler(cardOf(version, binding), new InMemoryTaskStore(), new Agent());
  const legacyCompat = { enabled: version === "0.3" };
  const options = { requestHandler: agent, userBuilder: UserBuilder.noAuthentication, legacyCompat };
  const router = express.Router();
  router.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: agent, legacyCompat }));
  router.use(only(version), binding === "JSONRPC" ? jsonRpcHandler(options) : restHandler(options));
  return router;
}

const app = express();
for (const version of ["1.0", "0.3"]) {
  app.use(`/${version}/jsonrpc`, dialect(version, "JSONRPC"));
  app.use(`/${version}/rest`, dialect(version, "HTTP+JSON"));
}
const server = app.listen(0, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
