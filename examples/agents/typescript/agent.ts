// The interface of an agent, a lazy factory, and an adapter for existing functions.
//
// The gateway is the orchestrator. This module is for programs that keep their functions in the same
// process and call the tools of the gateway by the same interface.

export type ToolResult = { success: boolean; data?: unknown; error?: string; code?: string };
export type AgentManifest = {
  id: string;
  name: string;
  tools: string[];
  capabilities: string[];
  requiresApproval: boolean;
};
export type Params = Record<string, unknown>;

/** An agent that cannot be started, stopped or found. */
export class AgentError extends Error {
  code: string;

  constructor(code: string, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

/** A provider of tools. `initialize` and `shutdown` throw AgentError. */
export interface Agent {
  initialize(): Promise<void>;
  execute(toolName: string, params: Params): Promise<ToolResult>;
  shutdown(): Promise<void>;
  getManifest(): AgentManifest;
}

/** Existing functions as the tools of an agent. Direct calls of the functions still work. */
export class LegacyToolAgent implements Agent {
  #id: string;
  #functions: Record<string, (params: any) => unknown>;

  constructor(id: string, functions: Record<string, (params: any) => unknown>) {
    this.#id = id;
    this.#functions = functions;
  }

  async initialize() {}

  async execute(toolName: string, params: Params): Promise<ToolResult> {
    if (!Object.hasOwn(this.#functions, toolName)) {
      return failed("TOOL_NOT_FOUND", `${this.#id} has no tool ${toolName}`);
    }
    try {
      return { success: true, data: await this.#functions[toolName](params) };
    } catch (error) {
      return failed("TOOL_EXECUTION_FAILED", String(error));
    }
  }

  async shutdown() {}

  getManifest(): AgentManifest {
    const tools = Object.keys(this.#functions).sort();
    return { id: this.#id, name: this.#id, tools, capabilities: ["tools"], requiresApproval: false };
  }
}

/** A server or agent behind the gateway. */
export class GatewayAgent implements Agent {
  #url: string;
  #id: string;
  #manifest!: AgentManifest;

  constructor(url: string, id: string) {
    this.#url = url;
    this.#id = id;
  }

  async initialize() {
    const answer = await fetch(`${this.#url}/agents/${this.#id}/manifest`);
    const manifest = await answer.json();
    if (!answer.ok) throw new AgentError(manifest.code, manifest.error);
    this.#manifest = manifest;
  }

  async execute(toolName: string, params: Params): Promise<ToolResult> {
    const answer = await fetch(`${this.#url}/execute`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ tool: toolName, params }),
    });
    return await answer.json();
  }

  async shutdown() {}

  getManifest() {
    return this.#manifest;
  }
}

/** Agents that start at their first call. */
export class Agents {
  #factories = new Map<string, () => Agent>();
  #running = new Map<string, Promise<Agent>>();
  #milliseconds: number;

  constructor(milliseconds = 30_000) {
    this.#milliseconds = milliseconds;
  }

  registerAgentFactory(name: string, factory: () => Agent) {
    if (this.#factories.has(name)) {
      throw new AgentError("AGENT_INIT_FAILED", `the agent ${name} is registered; use another name`);
    }
    this.#factories.set(name, factory);
  }

  /** The running agent, which starts if necessary. A failed start is repeated by the next call. */
  agent(name: string): Promise<Agent> {
    const known = this.#running.get(name);
    if (known) return known;
    const starting = this.#start(name);
    this.#running.set(name, starting);
    starting.catch(() => this.#running.delete(name));
    return starting;
  }

  async #start(name: string): Promise<Agent> {
    const factory = this.#factories.get(name);
    if (!factory) throw new AgentError("AGENT_NOT_FOUND", `the agent ${name} is not registered`);
    try {
      const agent = factory();
      await agent.initialize();
      return agent;
    } catch (error) {
      throw error instanceof AgentError ? error : new AgentError("AGENT_INIT_FAILED", String(error));
    }
  }

  async execute(name: string, toolName: string, params: Params): Promise<ToolResult> {
    try {
      const agent = await this.agent(name);
      const late = new AgentError("TOOL_EXECUTION_TIMEOUT", `no result within ${this.#milliseconds} ms`);
      return await within(this.#milliseconds, agent.execute(toolName, params), late);
    } catch (error) {
      if (error instanceof AgentError) return failed(error.code, error.message);
      return failed("TOOL_EXECUTION_FAILED", String(error));
    }
  }

  /** Stops all agents at the same time. Returns the failures. */
  async shutdown(): Promise<AgentError[]> {
    const stop = async (starting: Promise<Agent>) => {
      const late = new AgentError("AGENT_SHUTDOWN_FAILED", "timeout");
      await within(5_000, (await starting).shutdown(), late);
    };
    const stopped = await Promise.allSettled([...this.#running.values()].map(stop));
    this.#running.clear();
    const failures = stopped.filter((outcome) => outcome.status === "rejected");
    return failures.map(({ reason }) =>
      reason instanceof AgentError ? reason : new AgentError("AGENT_SHUTDOWN_FAILED", String(reason)),
    );
  }
}

async function within<T>(milliseconds: number, work: Promise<T>, late: AgentError): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late), milliseconds);
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}

function failed(code: string, error: string): ToolResult {
  return { success: false, error, code };
}
