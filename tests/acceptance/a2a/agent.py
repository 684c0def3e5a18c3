"""An agent made with the A2A SDK 1.3.0. Each dialect has its own path, such as `/1.0/jsonrpc`, with its
own card, and refuses the other versions. `agent.mjs` and `agent_0_3.py` behave the same.

With the argument `push` it sends push notifications, as `agent_0_3.py` does. With the argument `grpc` it has
1.0 over gRPC only, with TLS if the files of a certificate and its key follow."""

import asyncio
import sys
from pathlib import Path

import grpc
import httpx
from a2a.helpers import (
    get_data_parts,
    get_message_text,
    new_data_part,
    new_message,
    new_raw_part,
    new_task_from_user_message,
    new_text_part,
    new_url_part,
)
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
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
    AgentInterface,
    AgentSkill,
)
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))
from serve import serve  # noqa: E402

LOUD = "urn:example:loud"
PUSHES = "push" in sys.argv
SKILLS = ["echo", "report", "ask", "wait", "release", "fail", "files"]
released = {}


def gate(context):
    """The event that ends a waiting task, by its name."""
    [data] = get_data_parts(context.message.parts)
    return released.setdefault(data["name"], asyncio.Event())


class Agent(AgentExecutor):
    async def execute(self, context, events):
        skill = dict(context.message.metadata).get("skillId")
        if context.current_task:
            skill = "answered"
        if skill in ("echo", "release"):
            parts = getattr(self, skill)(context)
            reply = new_message(parts, context_id=context.context_id)
            await events.enqueue_event(reply)
            return
        task = context.current_task
        if not task:
            task = new_task_from_user_message(context.message)
            await events.enqueue_event(task)
        updater = TaskUpdater(events, task.id, task.context_id)
        await updater.start_work()
        await getattr(self, skill)(updater, context)

    def echo(self, context):
        loud = LOUD in context.requested_extensions
        text = get_message_text(context.message)
        return [new_text_part(text.upper() if loud else text)]

    def release(self, context):
        gate(context).set()
        return [new_text_part("released")]

    async def report(self, updater, context):
        [data] = get_data_parts(context.message.parts)
        first, last = [new_text_part(f"All about {data['topic']}. ")], [new_data_part({"pages": 2})]
        await updater.add_artifact(first, artifact_id="report", name="Report", last_chunk=False)
        await updater.add_artifact(last, artifact_id="report", append=True, last_chunk=True)
        await updater.complete()

    async def ask(self, updater, context):
        question = updater.new_agent_message([new_text_part("Which color?")])
        await updater.requires_input(question)

    async def answered(self, updater, context):
        color = get_message_text(context.message)
        await updater.add_artifact([new_text_part(f"In {color}.")], artifact_id="picture")
        await updater.complete()

    async def wait(self, updater, context):
        # A subscription of 0.3 begins without the task, so a subscriber needs another first event.
        while not gate(context).is_set():
            await updater.start_work()
            await asyncio.sleep(0.05)
        await updater.add_artifact([new_text_part("Waited.")], artifact_id="waited")
        await updater.complete()

    async def fail(self, updater, context):
        await updater.failed(updater.new_agent_message([new_text_part("Out of ink.")]))

    async def files(self, updater, context):
        parts = [
            new_raw_part(b"\x89PNG", media_type="image/png", filename="dot.png"),
            new_url_part("https://files.example/a.txt", media_type="text/plain"),
        ]
        await updater.add_artifact(parts, artifact_id="files")
        await updater.complete()

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def card_of(version, binding):
    """The URL is wrong on purpose: addresses come from the configuration of the gateway, and a client
    replaces it by the address that it has the card from."""
    interface = AgentInterface(
        url="https://elsewhere.example/", protocol_binding=binding, protocol_version=version
    )
    skills = [AgentSkill(id=id, name=id, description=id, tags=["test"]) for id in SKILLS]
    return AgentCard(
        name="agent",
        description="An agent of the tests",
        version="1.0.0",
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=PUSHES, extensions=[AgentExtension(uri=LOUD)]
        ),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=skills,
        supported_interfaces=[interface],
    )


class OldMethodsOnly:
    """The SDK accepts both versions at one address; this refuses 1.0, as older SDKs do."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        body = await Request(scope, receive).json()
        messages = iter([])

        async def again():
            return next(messages, None) or await receive()

        if "/" not in body["method"]:
            error = {"code": -32601, "message": "Method not found"}
            answer = JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": error})
            return await answer(scope, receive, send)
        text = JSONResponse(body).body
        messages = iter([{"type": "http.request", "body": text, "more_body": False}])
        return await self.app(scope, again, send)


def handler_of(card):
    configs = InMemoryPushNotificationConfigStore()
    push = {
        "push_config_store": configs,
        "push_sender": BasePushNotificationSender(httpx.AsyncClient(), configs),
    }
    return DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        **(push if PUSHES else {}),
    )


def dialect(version, binding):
    card = card_of(version, binding)
    handler = handler_of(card)
    old = version == "0.3"
    if binding == "JSONRPC":
        routes = create_jsonrpc_routes(handler, "/", enable_v0_3_compat=old)
        path = "jsonrpc"
    else:
        routes = create_rest_routes(handler, enable_v0_3_compat=old)
        routes = [route for route in routes if not old or route.path.startswith("/v1/")]
        path = "rest"
    app = Starlette(routes=create_agent_card_routes(card) + routes)
    if old and binding == "JSONRPC":
        app.add_middleware(OldMethodsOnly)
    return Mount(f"/{version}/{path}", app)


async def serve_grpc(*files):
    server = grpc.aio.server()
    handler = GrpcHandler(handler_of(card_of("1.0", "GRPC")))
    add_A2AServiceServicer_to_server(handler, server)
    address = "127.0.0.1:0"
    if files:
        certificate, key = (Path(file).read_bytes() for file in files)
        port = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port(address)
    await server.start()
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


DIALECTS = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")]
if "grpc" in sys.argv:
    asyncio.run(serve_grpc(*sys.argv[sys.argv.index("grpc") + 1 :]))
else:
    serve(Starlette(routes=[dialect(*each) for each in DIALECTS]))
