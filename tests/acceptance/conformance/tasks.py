"""A server of the first Python SDK over stdio with a tool that must be a task of 2025-11-25 and asks
its caller. The result names the server's own id of the task."""

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

server = Server("tasks", version="1.0.0")
server.experimental.enable_tasks()
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@server.list_tools()
async def list_tools():
    execution = types.ToolExecution(taskSupport="required")
    tool = types.Tool(name="confirm", inputSchema={"type": "object"}, execution=execution)
    return [tool]


@server.call_tool()
async def call_tool(_name, _arguments):
    context = server.request_context.experimental
    context.validate_task_mode("required")

    async def work(task):
        answer = await task.elicit("Who?", SCHEMA)
        texts = [f"confirmed by {answer.content['name']}", task.task_id]
        return types.CallToolResult(content=[types.TextContent(type="text", text=text) for text in texts])

    return await context.run_task(work)


async def main():
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


anyio.run(main)
