"""A client of the first Python SDK that calls the tool of `tasks.py` through a gateway, as a task.

Usage: task_client.py URL"""

import asyncio
import sys

from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client


async def elicit(_context, _params):
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def main(url):
    async with streamablehttp_client(url) as (reading, writing, _):
        async with ClientSession(reading, writing, elicitation_callback=elicit) as session:
            assert (await session.initialize()).capabilities.tasks.requests.tools.call
            [tool] = (await session.list_tools()).tools
            assert tool.execution.taskSupport == "required", tool
            tasks = session.experimental
            known = (await tasks.call_tool_as_task("confirm")).task.taskId
            states = []
            async for task in tasks.poll_task(known):
                assert task.taskId == known
                states.append(task.status)
                if task.status == "input_required":
                    result = await tasks.get_task_result(known, types.CallToolResult)
            assert states[-1] == "completed", states
            result = await tasks.get_task_result(known, types.CallToolResult)
            text, own = [content.text for content in result.content]
            assert text == "confirmed by Ann" and own != known, result
            assert [task.taskId for task in (await tasks.list_tasks()).tasks] == [known]
            # The server's message names its own id; the gateway's names the id of the client.
            for request, unnamed in [(tasks.cancel_task(known), own), (tasks.get_task(own), known)]:
                try:
                    await request
                except McpError as error:
                    assert error.error.code == -32602 and unnamed not in error.error.message, error
                else:
                    raise AssertionError("the request must fail")


asyncio.run(main(sys.argv[1]))
