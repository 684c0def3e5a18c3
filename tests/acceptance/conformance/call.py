"""Lists the tools of a server over stdio with the Python SDK, calls one of them, and prints the text.

Usage: call.py legacy|modern COMMAND TOOL ARGUMENTS; COMMAND is a JSON array, ARGUMENTS is JSON."""

import asyncio
import json
import os
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(era, command, tool, arguments):
    program, *args = json.loads(command)
    server = StdioServerParameters(command=program, args=args, env=dict(os.environ))
    mode = "legacy" if era == "legacy" else "2026-07-28"
    async with Client(stdio_client(server), mode=mode) as client:
        async with asyncio.timeout(60):
            # Servers of a gateway start while it serves.
            while all(listed.name != tool for listed in (await client.list_tools()).tools):
                await asyncio.sleep(0.1)
        result = await client.call_tool(tool, json.loads(arguments))
        print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
