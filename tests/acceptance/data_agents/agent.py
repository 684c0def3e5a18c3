"""A data agent on a WebSocket, with the standard library only: python3 agent.py HOST PORT

It connects again whenever its connection ends.
"""

import base64
import json
import os
import socket
import struct
import sys
import time

host, port = sys.argv[1], int(sys.argv[2])


class Closed(Exception):
    """The gateway closed the connection, or opened none."""


def exactly(count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise Closed
        data += piece
    return data


def receive():
    head = exactly(2)
    length = head[1] & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", exactly(2))
    elif length == 127:
        (length,) = struct.unpack(">Q", exactly(8))
    return head[0] & 0x0F, exactly(length)


def send(opcode, payload):
    mask = os.urandom(4)
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
    else:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
    connection.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))


def extract_features(symbol, interval="1d"):
    return {"features": [float(len(symbol)), float(len(interval))]}


def upgrade():
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        (
            f"GET /rpc HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
    )
    response = b""
    while not response.endswith(b"\r\n\r\n"):
        response += exactly(1)
    if not response.startswith(b"HTTP/1.1 101"):
        raise Closed


def register():
    types = {
        "input": {"symbol": "string", "interval": "optional[string]"},
        "output": {"features": "list[float]"},
    }
    params = {
        "agent_id": "feature_extractor",
        "capabilities": {"tools": ["extract_features"], "schema": {"extract_features": types}},
        "heartbeat_interval": 60,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "server.register", "params": params}
    send(1, json.dumps(message).encode())


def serve():
    while True:
        opcode, payload = receive()
        if opcode == 8:
            raise Closed
        if opcode == 9:
            send(10, payload)
        if opcode != 1:
            continue
        message = json.loads(payload)
        if "error" in message:
            raise Closed
        if message.get("method") == "agent.execute":
            result = extract_features(**message["params"]["input"])
            send(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


while True:
    try:
        with socket.create_connection((host, port)) as connection:
            upgrade()
            register()
            serve()
    except (OSError, Closed):
        time.sleep(0.1)
