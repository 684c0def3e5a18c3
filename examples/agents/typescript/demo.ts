// Calls a function and a server of the gateway by one interface: node demo.ts http://127.0.0.1:7080 SERVER TOOL

import { Agents, GatewayAgent, LegacyToolAgent } from "./agent.ts";
import type { ToolResult } from "./agent.ts";

const facts: string[] = [];

function saveFact({ text }: { text: string }) {
  facts.push(text);
  return { saved: facts.length };
}

const show = ({ success, code, data }: ToolResult) => console.log(success, code ?? JSON.stringify(data));
const [url, server, tool] = process.argv.slice(2);
const agents = new Agents(5_000);
const functions = { save_fact: saveFact, wait: () => new Promise(() => {}) };
agents.registerAgentFactory("facts", () => new LegacyToolAgent("facts", functions));
agents.registerAgentFactory(server, () => new GatewayAgent(url, server));
agents.registerAgentFactory("missing", () => new GatewayAgent(url, "missing"));
saveFact({ text: "called directly" });
show(await agents.execute("facts", "save_fact", { text: "called as an agent" }));
show(await agents.execute("facts", "wait", {}));
show(await agents.execute(server, tool, {}));
show(await agents.execute("missing", tool, {}));
show(await agents.execute("other", tool, {}));
console.log(JSON.stringify((await agents.agent(server)).getManifest().tools));
if ((await agents.shutdown()).length > 0) process.exit(1);
