"""The A2A SDK 0.3.26 as a client, with the steps and the record of `client.py`.

Usage: client_0_3.py PEERS"""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    DataPart,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    Task,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

LOUD = "urn:example:loud"
CALLER = {"x-agent-name": "caller", "x-agent-version": "1.0.0"}


class Record:
    """Converts answers. Ids of earlier steps have names, others are numbered within a step."""

    def __init__(self):
        self.known, self.fresh = {}, {}

    def id(self, id):
        return id and (self.known.get(id) or self.fresh.setdefault(id, f"id {len(self.fresh) + 1}"))

    def parts(self, parts):
        content = {"exclude": {"kind", "metadata"}, "exclude_none": True}
        return [part.root.model_dump(**content) for part in parts]

    def message(self, message):
        ids = {"task": self.id(message.task_id), "context": self.id(message.context_id)}
        return ids | {"role": message.role.value, "parts": self.parts(message.parts)}

    def status(self, status):
        return {
            "state": status.state.value,
            "said": self.parts(status.message.parts) if status.message else [],
        }

    def artifact(self, artifact):
        return {
            "id": artifact.artifact_id,
            "name": artifact.name or "",
            "parts": self.parts(artifact.parts),
        }

    def task(self, task):
        ids = {"task": self.id(task.id), "context": self.id(task.context_id)}
        artifacts = [self.artifact(artifact) for artifact in task.artifacts or []]
        history = [self.message(message) for message in task.history or []]
        return ids | self.status(task.status) | {"artifacts": artifacts, "history": history}

    def event(self, event):
        """A message, or a task with the update that has led to it."""
        if isinstance(event, Message):
            return {"message": self.message(event)}
        task, update = event
        if update is None:
            return {"task": self.task(task)}
        ids = {"task": self.id(update.task_id), "context": self.id(update.context_id)}
        if update.kind == "status-update":
            return ids | self.status(update.status) | {"final": bool(update.final)}
        flags = {"append": bool(update.append), "last": bool(update.last_chunk)}
        return ids | flags | {"artifact": self.artifact(update.artifact)}


class Steps:
    """The steps, in their order. The names of helpers begin with `_`."""

    def __init__(self, card, blocking, polling, streaming):
        self._card, self._blocking, self._polling = card, blocking, polling
        self._streaming, self._record = streaming, Record()

    @staticmethod
    def _message(skill, content, **more):
        text = isinstance(content, str)
        part = Part(root=TextPart(text=content) if text else DataPart(data=content))
        more |= {"message_id": str(uuid.uuid4()), "metadata": {"skillId": skill}}
        return Message(role=Role.user, parts=[part], **more)

    async def _answer(self, message, client=None, extensions=None):
        client = client or self._blocking
        [answer] = [answer async for answer in client.send_message(message, extensions=extensions)]
        return answer

    async def _send(self, skill, content, **more):
        return self._record.event(await self._answer(self._message(skill, content, **more)))

    async def _stream(self, skill, content, **more):
        events = self._streaming.send_message(self._message(skill, content, **more))
        # The client updates the task of earlier events.
        return [self._record.event(event) async for event in events]

    def _know(self, task, name):
        self._record.known |= {task.id: f"task {name}", task.context_id: f"context {name}"}
        return task

    async def skills(self):
        return [skill.id for skill in self._card.skills]

    async def message(self):
        return await self._send("echo", "hello")

    async def extension(self):
        message = self._message("echo", "hello")
        return self._record.event(await self._answer(message, extensions=[LOUD]))

    async def streamed_message(self):
        return await self._stream("echo", "hello")

    async def task(self):
        task, _ = await self._answer(self._message("report", {"topic": "tea"}))
        self._completed = self._know(task, "completed")
        return self._record.task(task)

    async def files(self):
        return await self._send("files", "a dot")

    async def failed(self):
        return await self._send("fail", "a poster")

    async def stream(self):
        return await self._stream("report", {"topic": "ink"})

    async def get(self):
        params = TaskQueryParams(id=self._completed.id)
        return self._record.task(await self._streaming.get_task(params))

    async def get_without_history(self):
        params = TaskQueryParams(id=self._completed.id, history_length=0)
        return self._record.task(await self._streaming.get_task(params))

    async def question(self):
        task, _ = await self._answer(self._message("ask", "a poster"))
        self._asked = self._know(task, "asked")
        return self._record.task(task)

    async def answer(self):
        ids = {"task_id": self._asked.id, "context_id": self._asked.context_id}
        return await self._send("ask", "red", **ids)

    async def next_question(self):
        context = self._asked.context_id
        task, _ = await self._answer(self._message("ask", "a card", context_id=context))
        self._asked = self._know(task, "asked again")
        return {"same context": task.context_id == context} | self._record.task(task)

    async def streamed_answer(self):
        ids = {"task_id": self._asked.id, "context_id": self._asked.context_id}
        return await self._stream("ask", "blue", **ids)

    async def _wait(self, name):
        task, _ = await self._answer(self._message("wait", {"name": name}), self._polling)
        return self._know(task, "waiting")

    async def subscription(self):
        name = str(uuid.uuid4())
        waiting, events = await self._wait(name), []
        async for event in self._streaming.resubscribe(TaskIdParams(id=waiting.id)):
            if not events:
                await self._send("release", {"name": name})
            events.append(self._record.event(event))
        # The number of the events before the end depends on the time.
        return events[-2:]

    async def cancel(self):
        waiting = await self._wait(str(uuid.uuid4()))
        canceled = await self._streaming.cancel_task(TaskIdParams(id=waiting.id))
        return self._record.task(canceled)["state"]

    async def get_unknown(self):
        await self._streaming.get_task(TaskQueryParams(id="unknown"))

    async def cancel_unknown(self):
        await self._streaming.cancel_task(TaskIdParams(id="unknown"))

    async def cancel_completed(self):
        await self._streaming.cancel_task(TaskIdParams(id=self._completed.id))

    async def send_to_completed(self):
        ids = {"task_id": self._completed.id, "context_id": self._completed.context_id}
        await self._send("ask", "more", **ids)

    async def send_to_unknown(self):
        await self._send("ask", "more", task_id="unknown")

    async def subscribe_to_completed(self):
        params = TaskIdParams(id=self._completed.id)
        return [str(event) async for event in self._streaming.resubscribe(params)]

    async def push(self):
        config = PushNotificationConfig(id="1", url="https://hook.example/")
        await self._streaming.set_task_callback(
            TaskPushNotificationConfig(
                task_id=self._completed.id, push_notification_config=config
            )
        )

    async def extended(self):
        if not self._card.supports_authenticated_extended_card:
            return None
        return [skill.id for skill in (await self._streaming.get_card()).skills]


def code_of(error):
    """The HTTP status or the code of JSON-RPC, if the error has one."""
    if hasattr(error, "status_code"):
        return error.status_code
    inner = getattr(error, "error", None)
    return getattr(inner, "code", None)


async def record(peer, http):
    card: AgentCard = await A2ACardResolver(http, peer["base"]).get_agent_card()
    interfaces = {card.preferred_transport or "JSONRPC": card.url}
    interfaces |= {other.transport: other.url for other in card.additional_interfaces or []}
    card.url = peer["base"] if "direct" in peer else interfaces[peer["binding"]]
    card.preferred_transport, card.additional_interfaces = peer["binding"], None
    common = {"httpx_client": http, "supported_transports": [peer["binding"]]}
    kinds = [{"streaming": False}, {"streaming": False, "polling": True}, {"streaming": True}]
    clients = [ClientFactory(ClientConfig(**kind, **common)).create(card) for kind in kinds]
    steps = Steps(card, *clients)
    answers = {}
    for name in [name for name in vars(Steps) if not name.startswith("_")]:
        steps._record.fresh.clear()
        try:
            answers[name] = await asyncio.wait_for(getattr(steps, name)(), 20)
        except Exception as error:
            print(f"{peer}: {name}: {error!r}", file=sys.stderr)
            answers[name] = {"error": type(error).__name__, "code": code_of(error)}
    return answers


async def main(peers):
    for peer in peers:
        async with httpx.AsyncClient(headers=CALLER, timeout=30) as http:
            print(json.dumps(await record(peer, http)), flush=True)


asyncio.run(main(json.loads(sys.argv[1])))
