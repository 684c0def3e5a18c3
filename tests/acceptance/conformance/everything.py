"""The everything-server of the Python SDK's sources, as its own `main` runs it, on a free port."""

from mcp_everything_server.server import event_store, mcp

from serve import serve

serve(mcp.streamable_http_app(event_store=event_store, retry_interval=100))
