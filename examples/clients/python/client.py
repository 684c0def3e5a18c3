"""Registers a tool, follows the registry and searches it: client.py HOST:PORT

Generate the stubs first, from the root of the repository:
    out=examples/clients/python
    python -m grpc_tools.protoc -I proto --python_out=$out --grpc_python_out=$out proto/registry/v1/*.proto
"""

import json
import queue
import sys
import uuid

import grpc
from registry.v1 import discovery_pb2, discovery_pb2_grpc, entity_pb2, registry_pb2
from registry.v1 import registry_pb2_grpc, sync_pb2, sync_pb2_grpc

SERVER = {
    "name": "weather-service",
    "version": "1.0.0",
    "provides": [{"tool": "get_forecast", "version": "1.0.0"}],
}
TOOL = {
    "name": "get_forecast",
    "version": "1.0.0",
    "description": "Weather forecast for a city",
    "source": {"server": "weather-service", "serverVersion": "1.0.0", "tool": "forecast"},
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


# A commit can be larger than the 4 MiB that gRPC accepts by default.
OPTIONS = [("grpc.max_receive_message_length", 64 << 20)]


def register(kind, document):
    document = entity_pb2.JsonDocument(kind=kind, json=json.dumps(document).encode())
    return registry_pb2.EntityChange(register_document=document)


def follow(channel):
    """Yields the messages of a stream. Each state and each change is acknowledged."""
    requests = queue.SimpleQueue()
    hello = sync_pb2.ClientHello(gateway="example", mode=sync_pb2.FOLLOW_MODE_OBSERVER)
    requests.put(sync_pb2.SyncRequest(hello=hello))
    revision = 0
    for response in sync_pb2_grpc.SyncServiceStub(channel).Sync(iter(requests.get, None)):
        message = response.WhichOneof("message")
        if message == "snapshot_begin":
            revision = response.snapshot_begin.position.revision
        elif message == "delta":
            revision = response.delta.revision
        if message in ("snapshot_end", "delta"):
            ack = sync_pb2.Ack(applied_revision=revision, cache_state=sync_pb2.CACHE_STATE_NONE)
            requests.put(sync_pb2.SyncRequest(ack=ack))
            yield message, revision


def main(address):
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        messages = follow(channel)
        print("following from revision", next(messages)[1])
        changes = [
            register(entity_pb2.ENTITY_KIND_SERVER, SERVER),
            register(entity_pb2.ENTITY_KIND_TOOL, TOOL),
        ]
        request = registry_pb2.ApplyChangesRequest(
            changes=changes, message="Add the weather service", request_id=str(uuid.uuid4())
        )
        applied = registry_pb2_grpc.RegistryServiceStub(channel).ApplyChanges(request, timeout=10)
        print("registered in revision", applied.revision)
        print("received revision", next(messages)[1])
        query = discovery_pb2.SearchEntitiesRequest(
            query="weather forecast", min_revision=applied.revision
        )
        found = discovery_pb2_grpc.DiscoveryServiceStub(channel).SearchEntities(query, timeout=10)
        for result in found.results:
            key = result.record.key
            print("found", entity_pb2.EntityKind.Name(key.kind), key.name, key.version)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
