"""The interface of an agent, a lazy factory, and an adapter for existing functions.

The gateway is the orchestrator. This module is for programs that keep their functions in the same
process and call the tools of the gateway by the same interface.
"""

import asyncio
import json
import urllib.error
import urllib.request
from abc import ABC, abstractmethod


class AgentError(Exception):
    """An agent that cannot be started, stopped or found. `code` is AGENT_INIT_FAILED, ..."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Agent(ABC):
    """A provider of tools. A result is {"success", "data"?, "error"?}."""

    async def initialize(self):
        """Prepares the agent. Raises AgentError."""

    @abstractmethod
    async def execute(self, tool_name, params):
        """Calls a tool and returns its result."""

    async def shutdown(self):
        """Releases the resources of the agent. Raises AgentError."""

    @abstractmethod
    def get_manifest(self):
        """Returns {"id", "name", "tools", "capabilities", "requiresApproval"}."""


class LegacyToolAgent(Agent):
    """Existing functions as the tools of an agent. Direct calls of the functions still work."""

    def __init__(self, agent_id, functions, requires_approval=False):
        self.agent_id = agent_id
        self.functions = functions
        self.requires_approval = requires_approval

    async def execute(self, tool_name, params):
        function = self.functions.get(tool_name)
        if function is None:
            return failed("TOOL_NOT_FOUND", f"{self.agent_id} has no tool {tool_name}")
        try:
            data = function(**params)
            if asyncio.iscoroutine(data):
                data = await data
        except Exception as error:  # Any failure of a function is a result.
            return failed("TOOL_EXECUTION_FAILED", str(error))
        return {"success": True, "data": data}

    def get_manifest(self):
        return {
            "id": self.agent_id,
            "name": self.agent_id,
            "tools": sorted(self.functions),
            "capabilities": ["tools"],
            "requiresApproval": self.requires_approval,
        }


class GatewayAgent(Agent):
    """A server or agent behind the gateway at `url`."""

    def __init__(self, url, agent_id):
        self.url = url.rstrip("/")
        self.agent_id = agent_id
        self.manifest = None

    async def initialize(self):
        self.manifest = await self._send(f"/agents/{self.agent_id}/manifest")
        if "id" not in self.manifest:
            raise AgentError(self.manifest["code"], self.manifest["error"])

    async def execute(self, tool_name, params):
        return await self._send("/execute", {"tool": tool_name, "params": params})

    def get_manifest(self):
        return self.manifest

    async def _send(self, path, body=None):
        return await asyncio.to_thread(self._send_now, path, body)

    def _send_now(self, path, body):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)


class Agents:
    """Agents that start at their first call."""

    def __init__(self, seconds=30, shutdown_seconds=5):
        self.seconds = seconds
        self.shutdown_seconds = shutdown_seconds
        self.factories = {}
        self.running = {}
        self.starting = asyncio.Lock()

    def register_agent_factory(self, name, factory):
        if name in self.factories:
            raise AgentError("AGENT_INIT_FAILED", f"the agent {name} is registered; use another name")
        self.factories[name] = factory

    async def agent(self, name):
        """Returns the running agent, and starts it if necessary."""
        async with self.starting:
            if name in self.running:
                return self.running[name]
            if name not in self.factories:
                raise AgentError("AGENT_NOT_FOUND", f"the agent {name} is not registered")
            agent = self.factories[name]()
            try:
                await agent.initialize()
            except AgentError:
                raise
            except Exception as error:
                raise AgentError("AGENT_INIT_FAILED", str(error)) from error
            self.running[name] = agent
            return agent

    async def execute(self, name, tool_name, params):
        try:
            agent = await self.agent(name)
            async with asyncio.timeout(self.seconds):
                return await agent.execute(tool_name, params)
        except AgentError as error:
            return failed(error.code, str(error))
        except TimeoutError:
            return failed("TOOL_EXECUTION_TIMEOUT", f"no result within {self.seconds} s")

    async def shutdown(self):
        """Stops all agents at the same time. Returns the failures by name."""

        async def stop(name, agent):
            try:
                async with asyncio.timeout(self.shutdown_seconds):
                    await agent.shutdown()
            except Exception as error:
                return name, AgentError("AGENT_SHUTDOWN_FAILED", str(error) or "timeout")
            return None

        stopped = await asyncio.gather(*(stop(*entry) for entry in self.running.items()))
        self.running.clear()
        return dict(failure for failure in stopped if failure)


def failed(code, message):
    return {"success": False, "error": message, "code": code}
