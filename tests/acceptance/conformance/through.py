"""The command of the suite's client scenarios: a gateway in front of the scenario's server, driven
by the client that the Python SDK has for the suite. What the scenario sees is the gateway.

Usage: through.py SDK_CLIENT URL_OF_THE_SCENARIO; GATEWAY_AGENT is the program."""

import json
import os
import subprocess
import sys
import tempfile
import threading

# The features of each scenario's server, as registered; the server is not asked for them.
TOOLS = {
    "tools_call": ["add_numbers"],
    "elicitation-sep1034-client-defaults": ["test_client_elicitation_defaults"],
    "sse-retry": ["test_reconnection"],
    "request-metadata": ["add_numbers"],
    "sep-2322-client-request-state": [
        "test_mrtr_echo_state",
        "test_mrtr_no_state",
        "test_mrtr_unrelated",
        "test_mrtr_no_result_type",
    ],
    "http-standard-headers": ["test_headers", "my-hyphenated-tool"],
    "http-custom-headers": ["test_custom_headers", "test_custom_headers_null"],
    "http-invalid-tool-headers": [
        "valid_tool",
        "invalid_empty_header",
        "invalid_object_header",
        "invalid_array_header",
        "invalid_null_header",
        "invalid_number_header",
        "invalid_duplicate_same_case",
        "invalid_duplicate_diff_case",
        "invalid_space_in_name",
        "invalid_colon_in_name",
        "invalid_non_ascii_name",
        "invalid_control_char_name",
    ],
    "json-schema-ref-no-deref": ["lookup_user"],
    "json-schema-2020-12-preservation": ["json_schema_2020_12_tool", "json_schema_echo"],
}
SERVER = {"name": "scenario", "version": "1.0.0"}


def registry(tools: list[str]) -> dict:
    def tool(name: str) -> dict:
        source = {"server": "scenario", "serverVersion": "1.0.0", "tool": name}
        return {"name": name, "version": "1.0.0", "description": name, "source": source}

    provides = [{"tool": name, "version": "1.0.0"} for name in tools]
    server = SERVER | {"provides": provides, "exposes": ["prompts", "resources"]}
    return {"schemaVersion": "2.0", "servers": [server], "tools": [tool(name) for name in tools]}


def start_gateway(directory: str, url: str, tools: list[str]) -> tuple[subprocess.Popen, str]:
    file = os.path.join(directory, "registry.json")
    with open(file, "w") as registry_file:
        json.dump(registry(tools), registry_file)
    config = {
        "listen": "127.0.0.1:0",
        "registry": {"source": f"file://{file}", "cache": os.path.join(directory, "cache.json")},
        "targets": [{"server": "scenario", "version": "1.0.0", "prefix": "", "http": url}],
    }
    with open(os.path.join(directory, "gateway.yaml"), "w") as config_file:
        json.dump(config, config_file)
    command = [os.environ["GATEWAY_AGENT"], "--config", config_file.name]
    gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    greeting = next(line for line in gateway.stdout if "listening on" in line)
    # Its lists are complete once it knows the features of the server.
    up = threading.Event()

    def follow() -> None:
        for line in gateway.stderr:
            print(line, end="", file=sys.stderr)
            if "upstream is up" in line:
                up.set()

    threading.Thread(target=follow, daemon=True).start()
    up.wait(10)
    return gateway, greeting.split("listening on ")[1].split()[0]


def main() -> int:
    sdk_client, url = sys.argv[1:]
    tools = TOOLS.get(os.environ["MCP_CONFORMANCE_SCENARIO"], [])
    with tempfile.TemporaryDirectory() as directory:
        gateway, address = start_gateway(directory, url, tools)
        try:
            return subprocess.call([sys.executable, sdk_client, address.rstrip("/") + "/mcp"])
        finally:
            gateway.terminate()
            gateway.wait()


sys.exit(main())
