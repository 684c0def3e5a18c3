"""Calls a function and a server of the gateway by one interface: demo.py http://127.0.0.1:7080 SERVER TOOL"""

import asyncio
import json
import sys

from agent import Agents, GatewayAgent, LegacyToolAgent

FACTS = []


def save_fact(text):
    FACTS.append(text)
    return {"saved": len(FACTS)}


async def wait():
    await asyncio.sleep(60)


async def main(url, server, tool):
    agents = Agents(seconds=5)
    functions = {"save_fact": save_fact, "wait": wait}
    agents.register_agent_factory("facts", lambda: LegacyToolAgent("facts", functions))
    agents.register_agent_factory(server, lambda: GatewayAgent(url, server))
    agents.register_agent_factory("missing", lambda: GatewayAgent(url, "missing"))
    save_fact("called directly")
    show(await agents.execute("facts", "save_fact", {"text": "called as an agent"}))
    show(await agents.execute("facts", "wait", {}))
    show(await agents.execute(server, tool, {}))
    show(await agents.execute("missing", tool, {}))
    show(await agents.execute("other", tool, {}))
    print(compact((await agents.agent(server)).get_manifest()["tools"]))
    assert not await agents.shutdown()


def show(result):
    print(compact(result["success"]), result.get("code") or compact(result["data"]))


def compact(value):
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
