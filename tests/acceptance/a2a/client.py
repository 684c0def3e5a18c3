"""The A2A SDK 1.3.0 as a client: uses each operation of agents like `agent.py`, and prints one record of the
answers per agent. `client_0_3.py` and `client.mjs` make the same steps and print the same form.

Usage: client.py PEERS; PEERS is a JSON array of objects: `base`, `version`, `binding`, and for an agent
without a gateway `direct`, the address of its card. A record has no times and no ids."""

import asyncio
import base64
import json
import sys
import uuid
from urllib.parse import urlsplit

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.types import (
    AgentInterface,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict

LOUD = "urn:example:loud"
CALLER = {"x-agent-name": "caller", "x-agent-version": "1.0.0"}


class NamedUnary(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, proceed, details, request):
        return await proceed(named(details), request)


class NamedStream(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, proceed, details, request):
        return await proceed(named(details), request)


def named(details):
    metadata = grpc.aio.Metadata(*(details.metadata or ()), *CALLER.items())
    return details._replace(metadata=metadata)


def channel(url):
    interceptors = [NamedUnary(), NamedStream()]
    return grpc.aio.insecure_channel(urlsplit(url).netloc, interceptors=interceptors)


class Record:
    """Converts answers. Ids of earlier steps have names, others are numbered within a step."""

    def __init__(self):
        self.known, self.fresh = {}, {}

    def id(self, id):
        return id and (self.known.get(id) or self.fresh.setdefault(id, f"id {len(self.fresh) + 1}"))

    def part(self, part):
        kind = part.WhichOneof("content")
        if kind == "text":
            return {"text": part.text}
        if kind == "data":
            return {"data": MessageToDict(part.data)}
        content = part.url if kind == "url" else base64.b64encode(part.raw).decode()
        return {kind: content, "type": part.media_type, "name": part.filename}

    def parts(self, parts):
        return [self.part(part) for part in parts]

    def message(self, message):
        role = "agent" if message.role == Role.ROLE_AGENT else "user"
        ids = {"task": self.id(message.task_id), "context": self.id(message.context_id)}
        return ids | {"role": role, "parts": self.parts(message.parts)}

    def status(self, status):
        said = self.parts(status.message.parts) if status.HasField("message") else []
        return {"state": TaskState.Name(status.state), "said": said}

    def artifact(self, artifact):
        return {"id": artifact.artifact_id, "name": artifact.name, "parts": self.parts(artifact.parts)}

    def task(self, task):
        ids = {"task": self.id(task.id), "context": self.id(task.context_id)}
        artifacts = [self.artifact(artifact) for artifact in task.artifacts]
        history = [self.message(message) for message in task.history]
        return ids | self.status(task.status) | {"artifacts": artifacts, "history": history}

    def event(self, event):
        kind = event.WhichOneof("payload")
        if kind in ("task", "message"):
            return {kind: getattr(self, kind)(getattr(event, kind))}
        update = getattr(event, kind)
        ids = {"task": self.id(update.task_id), "context": self.id(update.context_id)}
        if kind == "status_update":
            return ids | self.status(update.status)
        flags = {"append": update.append, "last": update.last_chunk}
        return ids | flags | {"artifact": self.artifact(update.artifact)}


class Steps:
    """The steps, in their order. The names of helpers begin with `_`."""

    def __init__(self, card, blocking, streaming):
        self._card, self._blocking, self._streaming = card, blocking, streaming
        self._record = Record()

    @staticmethod
    def _request(skill, content, **more):
        part = Part(text=content) if isinstance(content, str) else ParseDict({"data": content}, Part())
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[part], **more)
        message.metadata["skillId"] = skill
        return SendMessageRequest(message=message)

    async def _answer(self, request, context=None):
        [answer] = [event async for event in self._blocking.send_message(request, context=context)]
        return answer

    async def _send(self, skill, content, **more):
        return self._record.event(await self._answer(self._request(skill, content, **more)))

    async def _stream(self, skill, content, **more):
        events = self._streaming.send_message(self._request(skill, content, **more))
        return [self._record.event(event) async for event in events]

    def _know(self, task, name):
        self._record.known |= {task.id: f"task {name}", task.context_id: f"context {name}"}
        return task

    async def skills(self):
        return [skill.id for skill in self._card.skills]

    async def message(self):
        return await self._send("echo", "hello")

    async def extension(self):
        # 0.3 has another header.
        extensions = {"A2A-Extensions": LOUD, "X-A2A-Extensions": LOUD}
        context = ClientCallContext(service_parameters=extensions)
        return self._record.event(await self._answer(self._request("echo", "hello"), context))

    async def streamed_message(self):
        return await self._stream("echo", "hello")

    async def task(self):
        answer = await self._answer(self._request("report", {"topic": "tea"}))
        self._completed = self._know(answer.task, "completed")
        return self._record.task(answer.task)

    async def files(self):
        return await self._send("files", "a dot")

    async def failed(self):
        return await self._send("fail", "a poster")

    async def stream(self):
        return await self._stream("report", {"topic": "ink"})

    async def get(self):
        return self._record.task(await self._streaming.get_task(GetTaskRequest(id=self._completed.id)))

    async def get_without_history(self):
        request = GetTaskRequest(id=self._completed.id, history_length=0)
        return self._record.task(await self._streaming.get_task(request))

    async def question(self):
        answer = await self._answer(self._request("ask", "a poster"))
        self._asked = self._know(answer.task, "asked")
        return self._record.task(answer.task)

    async def answer(self):
        ids = {"task_id": self._asked.id, "context_id": self._asked.context_id}
        return await self._send("ask", "red", **ids)

    async def next_question(self):
        request = self._request("ask", "a card", context_id=self._asked.context_id)
        task = (await self._answer(request)).task
        same = task.context_id == self._asked.context_id
        self._asked = self._know(task, "asked again")
        return {"same context": same} | self._record.task(task)

    async def streamed_answer(self):
        ids = {"task_id": self._asked.id, "context_id": self._asked.context_id}
        return await self._stream("ask", "blue", **ids)

    async def _wait(self, name):
        request = self._request("wait", {"name": name})
        request.configuration.return_immediately = True
        return self._know((await self._answer(request)).task, "waiting")

    async def subscription(self):
        name = str(uuid.uuid4())
        waiting, events = await self._wait(name), []
        async for event in self._streaming.subscribe(SubscribeToTaskRequest(id=waiting.id)):
            if not events:
                await self._send("release", {"name": name})
            events.append(event)
        # The number of the events before the end depends on the time.
        return [self._record.event(event) for event in events[-2:]]

    async def cancel(self):
        waiting = await self._wait(str(uuid.uuid4()))
        canceled = await self._streaming.cancel_task(CancelTaskRequest(id=waiting.id))
        return self._record.task(canceled)["state"]

    async def list(self):
        request = ListTasksRequest(context_id=self._asked.context_id, page_size=1)
        pages = [await self._streaming.list_tasks(request)]
        request.page_token = pages[0].next_page_token
        pages.append(await self._streaming.list_tasks(request))
        tasks = [[self._record.id(task.id) for task in page.tasks] for page in pages]
        return tasks + [pages[1].next_page_token]

    async def get_unknown(self):
        await self._streaming.get_task(GetTaskRequest(id="unknown"))

    async def cancel_unknown(self):
        await self._streaming.cancel_task(CancelTaskRequest(id="unknown"))

    async def cancel_completed(self):
        await self._streaming.cancel_task(CancelTaskRequest(id=self._completed.id))

    async def send_to_completed(self):
        ids = {"task_id": self._completed.id, "context_id": self._completed.context_id}
        await self._send("ask", "more", **ids)

    async def send_to_unknown(self):
        await self._send("ask", "more", task_id="unknown")

    async def subscribe_to_completed(self):
        request = SubscribeToTaskRequest(id=self._completed.id)
        return [event async for event in self._streaming.subscribe(request)]

    async def push(self):
        config = TaskPushNotificationConfig(
            task_id=self._completed.id, id="1", url="https://hook.example/"
        )
        await self._streaming.create_task_push_notification_config(config)

    async def extended(self):
        if not self._card.capabilities.extended_agent_card:
            return None
        extended = await self._streaming.get_extended_agent_card(GetExtendedAgentCardRequest())
        return [skill.id for skill in extended.skills]


async def record(peer, http):
    # A server can select the form of a card by the version.
    version = {"headers": {"A2A-Version": peer["version"]}}
    address = peer.get("direct", peer["base"])
    card = await A2ACardResolver(http, address).get_agent_card(http_kwargs=version)
    suits = lambda interface: (  # noqa: E731
        interface.protocol_binding == peer["binding"]
        and interface.protocol_version.startswith(peer["version"])
    )
    if "direct" in peer:
        direct = {"protocol_binding": peer["binding"], "protocol_version": peer["version"]}
        only = [AgentInterface(url=peer["base"], **direct)]
    else:
        only = [interface for interface in card.supported_interfaces if suits(interface)][:1]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(only)
    common = {
        "httpx_client": http,
        "grpc_channel_factory": channel,
        "supported_protocol_bindings": [peer["binding"]],
    }
    clients = [
        ClientFactory(ClientConfig(streaming=streaming, **common)).create(card)
        for streaming in (False, True)
    ]
    steps = Steps(card, *clients)
    answers = {}
    for name in [name for name in vars(Steps) if not name.startswith("_")]:
        steps._record.fresh.clear()
        try:
            answers[name] = await asyncio.wait_for(getattr(steps, name)(), 20)
        except Exception as error:
            print(f"{peer}: {name}: {error!r}", file=sys.stderr)
            answers[name] = {"error": type(error).__name__}
    return answers


async def main(peers):
    for peer in peers:
        async with httpx.AsyncClient(headers=CALLER, timeout=30) as http:
            print(json.dumps(await record(peer, http)), flush=True)


asyncio.run(main(json.loads(sys.argv[1])))
