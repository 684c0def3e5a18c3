"""A server of the Python SDK that speaks 2026-07-28 only: what comes in the older way it refuses.

Usage: modern.py [--stdio]"""

import sys
from typing import Annotated

from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from mcp.shared.exceptions import MCPError
from mcp.types import UNSUPPORTED_PROTOCOL_VERSION
from pydantic import BaseModel

from serve import serve


class Confirmation(BaseModel):
    confirm: bool


async def refuse_the_older_era(context, call_next):
    if context.method == "initialize":
        data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "there is no handshake here", data)
    return await call_next(context)


server = MCPServer("modern", version="1.0.0", middleware=[refuse_the_older_era])


@server.tool()
async def deploy(
    where: str,
    answer: Annotated[ElicitationResult[Confirmation], Resolve(lambda: Elicit("Really?", Confirmation))],
) -> str:
    """Deploys where it is told to, when the user confirms."""
    confirmed = answer.action == "accept" and answer.data.confirm
    return f"{'deployed' if confirmed else 'not deployed'} to {where}"


if "--stdio" in sys.argv:
    server.run("stdio")
else:
    serve(server.streamable_http_app())
