"""Serves a plain function as the data agent `texts`: function_agent.py ws://127.0.0.1:7080/rpc"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect


def count_words(text):
    return {"words": len(text.split())}


async def main(url):
    async with connect(url) as gateway:
        send = lambda **message: gateway.send(json.dumps({"jsonrpc": "2.0", **message}))
        schema = {"count_words": {"input": {"text": "string"}, "output": {"words": "integer"}}}
        capabilities = {"tools": ["count_words"], "schema": schema}
        await send(id=1, method="server.register", params={"agent_id": "texts", "capabilities": capabilities})
        beating = asyncio.create_task(beat(send))  # the loop keeps only weak references
        async for text in gateway:
            message = json.loads(text)
            if message.get("method") == "agent.execute":
                await send(id=message["id"], result=count_words(**message["params"]["input"]))
            else:
                print(text, flush=True)


async def beat(send):
    while await asyncio.sleep(20, True):
        await send(method="agent.heartbeat", params={"agent_id": "texts", "status": "active"})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
