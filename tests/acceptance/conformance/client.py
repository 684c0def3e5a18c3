"""The Python SDK as a client of a gateway in front of the everything-server and of servers that
speak one era each.

Usage: client.py legacy|modern URL; in place of the URL, a JSON array is the command of a server over
stdio."""

import asyncio
import json
import os
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    Root,
    TextContent,
)

ANSWERS = {"response": "yes", "confirm": True, "name": "Ada"}
logged = []


async def elicit(_context, params):
    wanted = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={name: ANSWERS[name] for name in wanted})


async def sample(_context, _params):
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Paris"), model="test")


async def roots(_context):
    return ListRootsResult(roots=[Root(uri="file:///home")])


async def log(params):
    logged.append(params.data)


async def text(client, tool, arguments=None, **more):
    result = await client.call_tool(tool, arguments or {}, **more)
    assert not result.is_error, result
    return result.content[0].text


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


async def everything(client, modern):
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"test_simple_text", "deploy_modern_http"} <= tools, tools
    same(await text(client, "test_simple_text"), "This is a simple text response for testing.")

    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert "test_prompt_with_arguments" in prompts, prompts
    prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    same(prompt.messages[0].content.text, "Prompt with arguments: arg1='a', arg2='b'")
    reference = PromptReference(name="test_prompt_with_arguments")
    completed = await client.complete(reference, {"name": "arg1", "value": "a"})
    same(completed.completion.values, [])

    resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert "test://static-text" in resources, resources
    templates = (await client.list_resource_templates()).resource_templates
    same([template.uri_template for template in templates], ["test://template/{id}/data"])
    read = await client.read_resource("test://template/7/data")
    assert "Data for ID: 7" in read.contents[0].text, read

    progress = []

    async def report(done, _total, _message):
        progress.append(done)

    await text(client, "test_tool_with_progress", progress_callback=report)
    same(progress, [0, 50, 100])
    if not modern:
        await client.set_logging_level("info")
    await text(client, "test_tool_with_logging")
    same(logged, ["Tool execution started", "Tool processing data", "Tool execution completed"])

    same(await text(client, "test_streaming_elicitation"), "elicitation accept")
    if modern:
        same(await text(client, "test_input_required_result_sampling"), "Model said: Paris")
        same(await text(client, "test_input_required_result_list_roots"), "Client exposed 1 root(s).")
    else:
        same(await text(client, "test_sampling", {"prompt": "Where?"}), "LLM response: Paris")


def server(url):
    if not url.startswith("["):
        return url
    command, *args = json.loads(url)
    return stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))


async def main(era, url):
    modern = era == "modern"
    client = Client(
        server(url),
        mode="2026-07-28" if modern else "legacy",
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        logging_callback=log,
        log_level="info",
    )
    async with client:
        await everything(client, modern)
        for far in ["legacy_http", "legacy_stdio", "modern_http", "modern_stdio"]:
            same(await text(client, f"deploy_{far}", {"where": far}), f"deployed to {far}")


asyncio.run(main(*sys.argv[1:]))
