// The A2A SDK for JavaScript 1.3.0 as a client, with the steps and the record of `client.py`.
//
// Usage: node client.mjs MODULES PEERS; MODULES is the directory `node_modules`.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, peers] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const { Role, TaskState } = require("@a2a-js/sdk");
const {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
} = require("@a2a-js/sdk/client");

const LOUD = "urn:example:loud";
const CALLER = { "x-agent-name": "caller", "x-agent-version": "1.0.0" };
const state = (status) => Object.keys(TaskState).find((name) => TaskState[name] === status.state);

function fetchImpl(url, options) {
  const headers = new Headers(options?.headers);
  for (const [name, value] of Object.entries(CALLER)) headers.set(name, value);
  return fetch(url, { ...options, headers });
}

// Converts answers. Ids of earlier steps have names, others are numbered within a step.
class Record {
  known = new Map();
  fresh = new Map();

  id(id) {
    if (!id) return "";
    if (this.known.has(id)) return this.known.get(id);
    if (!this.fresh.has(id)) this.fresh.set(id, `id ${this.fresh.size + 1}`);
    return this.fresh.get(id);
  }
  parts(parts) {
    return parts.map(({ content: { $case, value }, mediaType, filename }) => {
      if ($case === "text" || $case === "data") return { [$case]: value };
      const content = $case === "raw" ? Buffer.from(value).toString("base64") : value;
      return { [$case]: content, type: mediaType, name: filename };
    });
  }
  message(message) {
    const role = message.role === Role.ROLE_AGENT ? "agent" : "user";
    const ids = { task: this.id(message.taskId), context: this.id(message.contextId) };
    return { ...ids, role, parts: this.parts(message.parts) };
  }
  status(status) {
    return { state: state(status), said: this.parts(status.message?.parts ?? []) };
  }
  artifact({ artifactId, name, parts }) {
    return { id: artifactId, name, parts: this.parts(parts) };
  }
  task(task) {
    const ids = { task: this.id(task.id), context: this.id(task.contextId) };
    const artifacts = task.artifacts.map((artifact) => this.artifact(artifact));
    const history = task.history.map((message) => this.message(message));
    return { ...ids, ...this.status(task.status), artifacts, history };
  }
  // A message or a task.
  answer(answer) {
    return "messageId" in answer ? { message: this.message(answer) } : { task: this.task(answer) };
  }
  event({ payload: { $case, value } }) {
    if ($case === "task" || $case === "message") return this.answer(value);
    const ids = { task: this.id(value.taskId), context: this.id(value.contextId) };
    if ($case === "statusUpdate") return { ...ids, ...this.status(value.status) };
    return { ...ids, append: value.append, last: value.lastChunk, artifact: this.artifact(value.artifact) };
  }
}

function request(skill, content, { taskId = "", contextId = "", returnImmediately = false } = {}) {
  const $case = typeof content === "string" ? "text" : "data";
  const part = { content: { $case, value: content }, metadata: undefined, filename: "", mediaType: "" };
  return {
    tenant: "",
    message: {
      messageId: crypto.randomUUID(), taskId, contextId, role: Role.ROLE_USER, parts: [part],
      metadata: { skillId: skill }, extensions: [], referenceTaskIds: [],
    },
    configuration: {
      acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately,
    },
    metadata: undefined,
  };
}

// The steps, in their order.
function stepsOf(client, card, record) {
  let completed, asked;
  const send = async (...message) => record.answer(await client.sendMessage(request(...message)));
  const recorded = async (events) => {
    const all = [];
    for await (const event of events) all.push(record.event(event));
    return all;
  };
  const stream = (...message) => recorded(client.sendMessageStream(request(...message)));
  const know = (task, name) => {
    record.known.set(task.id, `task ${name}`).set(task.contextId, `context ${name}`);
    return task;
  };
  const wait = async (name) => {
    const message = request("wait", { name }, { returnImmediately: true });
    return know(await client.sendMessage(message), "waiting");
  };
  const ids = (task) => ({ taskId: task.id, contextId: task.contextId });
  const get = (id, historyLength) => client.getTask({ tenant: "", id, historyLength });
  const cancel = (id) => client.cancelTask({ tenant: "", id, metadata: undefined });
  const subscribe = (id) => client.resubscribeTask({ tenant: "", id });

  return {
    skills: async () => card.skills.map((skill) => skill.id),
    message: () => send("echo", "hello"),
    extension: async () => {
      // 0.3 has another header.
      const serviceParameters = { "A2A-Extensions": LOUD, "X-A2A-Extensions": LOUD };
      return record.answer(await client.sendMessage(request("echo", "hello"), { serviceParameters }));
    },
    streamed_message: () => stream("echo", "hello"),
    task: async () => {
      completed = know(await client.sendMessage(request("report", { topic: "tea" })), "completed");
      return record.task(completed);
    },
    files: () => send("files", "a dot"),
    failed: () => send("fail", "a poster"),
    stream: () => stream("report", { topic: "ink" }),
    get: async () => record.task(await get(completed.id)),
    get_without_history: async () => record.task(await get(completed.id, 0)),
    question: async () => {
      asked = know(await client.sendMessage(request("ask", "a poster")), "asked");
      return record.task(asked);
    },
    answer: () => send("ask", "red", ids(asked)),
    next_question: async () => {
      const { contextId } = asked;
      const task = await client.sendMessage(request("ask", "a card", { contextId }));
      asked = know(task, "asked again");
      return { "same context": task.contextId === contextId, ...record.task(task) };
    },
    streamed_answer: () => stream("ask", "blue", ids(asked)),
    subscription: async () => {
      const name = crypto.randomUUID();
      const waiting = await wait(name);
      const events = [];
      for await (const event of subscribe(waiting.id)) {
        if (events.length === 0) await send("release", { name });
        events.push(event);
      }
      // The number of the events before the end depends on the time.
      return events.slice(-2).map((event) => record.event(event));
    },
    cancel: async () => {
      const waiting = await wait(crypto.randomUUID());
      return state((await cancel(waiting.id)).status);
    },
    list: async () => {
      const page = (pageToken) =>
        client.listTasks({ tenant: "", contextId: asked.contextId, pageSize: 1, pageToken, status: 0 });
      const first = await page("");
      const second = await page(first.nextPageToken);
      const tasks = [first, second].map((page) => page.tasks.map((task) => record.id(task.id)));
      return [...tasks, second.nextPageToken];
    },
    get_unknown: () => get("unknown"),
    cancel_unknown: () => cancel("unknown"),
    cancel_completed: () => cancel(completed.id),
    send_to_completed: () => send("ask", "more", ids(completed)),
    send_to_unknown: () => send("ask", "more", { taskId: "unknown" }),
    subscribe_to_completed: () => recorded(subscribe(completed.id)),
    push: async () => {
      await client.createTaskPushNotificationConfig({
        tenant: "", taskId: completed.id, id: "1", url: "https://hook.example/", token: "", authentication: undefined,
      });
    },
    extended: async () => {
      if (!card.capabilities.extendedAgentCard) return null;
      const extended = await client.transport.getExtendedAgentCard({ tenant: "" });
      return extended.skills.map((skill) => skill.id);
    },
  };
}

async function recordOf(peer) {
  const legacyCompat = { enabled: true };
  // A server can select the form of a card by the version.
  const versioned = (url, options) =>
    fetchImpl(url, { ...options, headers: { ...options?.headers, "A2A-Version": peer.version } });
  const resolver = new DefaultAgentCardResolver({ fetchImpl: versioned, legacyCompat });
  const card = await resolver.resolve(peer.base);
  const suits = ({ protocolBinding, protocolVersion }) =>
    protocolBinding === peer.binding && protocolVersion.startsWith(peer.version);
  const chosen = card.supportedInterfaces.find(suits);
  if (!chosen) throw new Error(`no interface: ${JSON.stringify(card.supportedInterfaces)}`);
  if (peer.direct) chosen.url = peer.base.replace(/\/$/, "");
  card.supportedInterfaces = [chosen];
  const transports = [JsonRpcTransportFactory, RestTransportFactory].map(
    (Factory) => new Factory({ fetchImpl, legacyCompat }),
  );
  const client = await new ClientFactory({ transports }).createFromAgentCard(card);
  const record = new Record();
  const answers = {};
  for (const [name, step] of Object.entries(stepsOf(client, card, record))) {
    record.fresh.clear();
    const late = AbortSignal.timeout(20_000);
    const timeout = new Promise((_, reject) => late.addEventListener("abort", () => reject(late.reason)));
    try {
      answers[name] = (await Promise.race([step(), timeout])) ?? null;
    } catch (error) {
      console.error(JSON.stringify(peer), name, error.name, error.message);
      answers[name] = { error: error.name };
    }
  }
  return answers;
}

for (const peer of JSON.parse(peers)) console.log(JSON.stringify(await recordOf(peer)));
process.exit(0);
