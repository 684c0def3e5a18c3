"""Serves an application on a free port, which it prints as the other programs of the tests do."""

import socket

import uvicorn


def serve(app) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
