"""The agent of `agent.py` made with the A2A SDK 0.3.26: `/0.3/jsonrpc` and `/0.3/rest`."""

import asyncio
import base64
import sys
from pathlib import Path

import httpx
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Part,
    TextPart,
)
from a2a.utils import new_agent_parts_message, new_task
from starlette.applications import Starlette
from starlette.routing import Mount

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))
from serve import serve  # noqa: E402

LOUD = "urn:example:loud"
PUSHES = "push" in sys.argv
SKILLS = ["echo", "report", "ask", "wait", "release", "fail", "files"]
released = {}


def text_of(context):
    return context.message.parts[0].root.text


def data_of(context):
    return context.message.parts[0].root.data


def gate(context):
    """The event that ends a waiting task, by its name."""
    return released.setdefault(data_of(context)["name"], asyncio.Event())


def said(text):
    return Part(root=TextPart(text=text))


class Agent(AgentExecutor):
    async def execute(self, context, events):
        skill = (context.message.metadata or {}).get("skillId")
        if context.current_task:
            skill = "answered"
        if skill in ("echo", "release"):
            reply = new_agent_parts_message(
                [said(getattr(self, skill)(context))], context_id=context.context_id
            )
            await events.enqueue_event(reply)
            return
        task = context.current_task
        if not task:
            task = new_task(context.message)
            await events.enqueue_event(task)
        updater = TaskUpdater(events, task.id, task.context_id)
        await updater.start_work()
        await getattr(self, skill)(updater, context)

    def echo(self, context):
        loud = LOUD in context.requested_extensions
        return text_of(context).upper() if loud else text_of(context)

    def release(self, context):
        gate(context).set()
        return "released"

    async def report(self, updater, context):
        first = [said(f"All about {data_of(context)['topic']}. ")]
        last = [Part(root=DataPart(data={"pages": 2}))]
        await updater.add_artifact(first, artifact_id="report", name="Report", last_chunk=False)
        await updater.add_artifact(last, artifact_id="report", append=True, last_chunk=True)
        await updater.complete()

    async def ask(self, updater, context):
        question = updater.new_agent_message([said("Which color?")])
        await updater.requires_input(question, final=True)

    async def answered(self, updater, context):
        await updater.add_artifact([said(f"In {text_of(context)}.")], artifact_id="picture")
        await updater.complete()

    async def wait(self, updater, context):
        # A subscription of 0.3 begins without the task, so a subscriber needs another first event.
        while not gate(context).is_set():
            await updater.start_work()
            await asyncio.sleep(0.05)
        await updater.add_artifact([said("Waited.")], artifact_id="waited")
        await updater.complete()

    async def fail(self, updater, context):
        await updater.failed(updater.new_agent_message([said("Out of ink.")]))

    async def files(self, updater, context):
        image = base64.b64encode(b"\x89PNG").decode()
        files = [
            FileWithBytes(bytes=image, mime_type="image/png", name="dot.png"),
            FileWithUri(uri="https://files.example/a.txt", mime_type="text/plain"),
        ]
        parts = [Part(root=FilePart(file=file)) for file in files]
        await updater.add_artifact(parts, artifact_id="files")
        await updater.complete()

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def dialect(binding, path):
    card = AgentCard(
        name="agent",
        description="An agent of the tests",
        version="1.0.0",
        url="https://elsewhere.example/",
        preferred_transport=binding,
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=PUSHES, extensions=[AgentExtension(uri=LOUD)]
        ),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=[AgentSkill(id=id, name=id, description=id, tags=["test"]) for id in SKILLS],
    )
    configs = InMemoryPushNotificationConfigStore()
    push = {
        "push_config_store": configs,
        "push_sender": BasePushNotificationSender(httpx.AsyncClient(), configs),
    }
    handler = DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=InMemoryTaskStore(),
        **(push if PUSHES else {}),
    )
    app = A2AStarletteApplication if binding == "JSONRPC" else A2ARESTFastAPIApplication
    return Mount(f"/0.3/{path}", app(agent_card=card, http_handler=handler).build())


serve(Starlette(routes=[dialect("JSONRPC", "jsonrpc"), dialect("HTTP+JSON", "rest")]))
