"""An agent made with the official A2A SDK: `agent.py VERSION FILE` speaks that version of A2A alone, and
notes in the file which of its tasks dawdle and which were canceled."""

import asyncio
import sys
from pathlib import Path

from a2a.helpers import (
    get_data_parts,
    get_message_text,
    new_data_message,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
)
from a2a.helpers.proto_helpers import new_data_part, new_raw_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))
from serve import serve  # noqa: E402

VERSION, NOTES = sys.argv[1], Path(sys.argv[2])


def note(what, task):
    with NOTES.open("a") as file:
        print(what, task, file=file)


class Agent(AgentExecutor):
    async def execute(self, context, events):
        skill = dict(context.message.metadata).get("skillId")
        if skill == "shout":
            text = get_message_text(context.message)
            await events.enqueue_event(new_text_message(text.upper()))
            return
        if skill == "answer":
            await events.enqueue_event(new_data_message({"answer": 42}))
            return
        task = context.current_task or new_task_from_user_message(context.message)
        await events.enqueue_event(task)
        updater = TaskUpdater(events, task.id, task.context_id)
        await updater.start_work()
        await getattr(self, skill)(updater, context)

    async def research(self, updater, context):
        [data] = get_data_parts(context.message.parts)
        await asyncio.sleep(0.3)
        found = {"findings": f"all about {data['topic']}"}
        await updater.add_artifact([new_data_part(found)])
        await updater.complete()

    async def write(self, updater, context):
        topic = get_message_text(context.message)
        await updater.add_artifact([new_text_part(f"On {topic}. "), new_text_part("The end.")])
        await updater.complete()

    async def price(self, updater, context):
        await updater.add_artifact([new_text_part("1.10")])
        await updater.complete()

    async def paint(self, updater, context):
        await updater.add_artifact([new_raw_part(b"\x89PNG", media_type="image/png")])
        await updater.complete()

    async def fail(self, updater, context):
        await updater.failed(new_text_message("out-of-ink"))

    async def ask(self, updater, context):
        text = get_message_text(context.message)
        if text != "blue":
            await updater.requires_input(new_text_message("which colour?"))
            return
        await updater.add_artifact([new_text_part("a blue poster")])
        await updater.complete()

    async def dawdle(self, updater, context):
        note("dawdles", context.task_id)
        await asyncio.sleep(600)

    async def cancel(self, context, events):
        note("canceled", context.task_id)
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


class OneVersion(BaseHTTPMiddleware):
    """The SDK speaks 0.3 besides 1.0 and not alone; this leaves 1.0 away, as older SDKs do."""

    async def dispatch(self, request, call_next):
        body = await request.json()
        if VERSION == "0.3" and "/" not in body["method"]:
            error = {"code": -32601, "message": "Method not found"}
            return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": error})
        return await call_next(request)


card = AgentCard(
    name="agent",
    description="An agent of the tests",
    version="1.0.0",
    capabilities=AgentCapabilities(streaming=False),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="all", name="All", description="All that it can", tags=["all"])],
    supported_interfaces=[
        AgentInterface(url="http://127.0.0.1/", protocol_binding="JSONRPC", protocol_version=VERSION)
    ],
)
handler = DefaultRequestHandler(
    agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card
)
app = Starlette(routes=create_jsonrpc_routes(handler, "/", enable_v0_3_compat=VERSION == "0.3"))
app.add_middleware(OneVersion)
serve(app)
