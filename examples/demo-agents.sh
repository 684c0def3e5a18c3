#!/usr/bin/env bash
# Shows data agents and AIO with their output: an agent registers, is called, is killed and returns.
#   BIN=DIR [PYTHON=PROGRAM] examples/demo-agents.sh
# PYTHON is a Python with the packages of examples/agents/python/requirements.txt. Without it, the script
# installs them in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."

. examples/demo-functions.sh

if [ -z "${PYTHON:-}" ]; then
  python3 -m venv "$work/python"
  PYTHON="$work/python/bin/python"
  "$PYTHON" -m pip install --quiet --disable-pip-version-check -r examples/agents/python/requirements.txt
fi

step "Start a gateway with the servers of an MCP client, without a registry"
cat >"$work/mcp.json" <<'JSON'
{ "mcpServers": {
    "fetch": { "command": "demo-backend", "args": ["--stdio", "fetch-server"] },
    "time": { "command": "demo-backend", "args": ["--stdio", "time-server"] } } }
JSON
cat >"$work/gateway.yaml" <<'YAML'
agents: { selfRegistration: accept }
identity: { trustHeaders: true }
traceValues: true
admin: 127.0.0.1:0
YAML
cat "$work/mcp.json" "$work/gateway.yaml"
files=(--config "$work/gateway.yaml" --mcp-servers "$work/mcp.json" --data "$work/data")
start gateway gateway-agent "${files[@]}" --listen 127.0.0.1:0
gateway_pid=$started
gateway=$(address gateway)
mcp=(demo-client --url "http://$gateway/mcp")

# Starts the agent, and waits for the answer to its registration.
start_agent() {
  "$PYTHON" examples/agents/python/function_agent.py "ws://$gateway/rpc" >"$work/answers.log" 2>>"$work/agent.log" &
  pids+=($!); agent_pid=$!
  until_true has '"result"' answers.log
  cat "$work/answers.log"
}
rpc() { # BODY
  show curl -sS "http://$gateway/rpc" -H 'X-Agent-Name: planner' -H 'Content-Type: application/json' -d "$1" | tee "$work/answer"
  echo
}
execute() {
  rpc '{"id": 1, "method": "agent.execute", "params": {"agent_id": "texts", "function": "count_words",
  "input": {"text": "one two three"}, "meta": {"task_id": "task_001"}}}'
}
is_ready() { curl -sSf "http://$gateway/readyz"; }
is_listed() { # MARK
  local manifest
  manifest=$(curl -sSf "http://$gateway/manifest") && [[ $manifest == *'"texts.count_words"'* ]] || return 1
  local mark=available
  if [[ $manifest =~ \"registry/availability\":\ *\"unavailable\" ]]; then mark=unavailable; fi
  [ "$mark" = "$1" ]
}

step "A Python agent registers its function over a WebSocket"
cat examples/agents/python/function_agent.py
start_agent
until_true is_listed available

step "agent.execute calls the function"
execute
has '"result": *{"words": *3}' answer

step "MCP clients call the same function as a tool"
show "${mcp[@]}" list
show "${mcp[@]}" call texts.count_words '{"text": "one two three"}'

step "The agent is killed. Its tool stays in lists, marked as unavailable, and calls fail at once"
kill -9 "$agent_pid"; wait "$agent_pid" 2>/dev/null || true
until_true is_listed unavailable
show registryctl gateway --admin "$(admin_of gateway)" targets
execute
has '"reason": *"UNREACHABLE"' answer
refused "${mcp[@]}" call texts.count_words '{"text": "one two three"}'

step "The agent returns. Equal content is not registered again"
start_agent
until_true is_listed available
has '"status": *"unchanged"' answers.log
execute
has '"result": *{"words": *3}' answer

step "A registry takes over the servers and the agent, and adds a composition of both"
start registry registry-server --listen 127.0.0.1:0 --data-dir "$work/registry"
REGISTRY_URL="http://$(address registry)"
export REGISTRY_URL
show registryctl apply -f "$work/data/registry.json" --yes --message "the servers and the agent"
cat >"$work/composition.json" <<'JSON'
{ "schemaVersion": "2.0", "tools": [ {
    "name": "count_page_words", "version": "1.0.0", "description": "Fetches a page and counts its words",
    "depends": [ { "type": "tool", "name": "fetch", "version": "1.2.3" },
                 { "type": "tool", "name": "texts.count_words", "version": "1.0.0" } ],
    "inputSchema": { "type": "object", "properties": { "url": { "type": "string", "format": "uri" } },
                     "required": ["url"], "additionalProperties": false },
    "spec": { "pipeline": { "steps": [
      { "id": "page", "operation": { "tool": { "name": "fetch" } } },
      { "id": "count", "operation": { "tool": { "name": "texts.count_words" } },
        "input": { "construct": { "fields": { "text": { "reference": { "step": "page", "path": "$.content" } } } } } }
    ] } } } ] }
JSON
cat "$work/composition.json"
show registryctl apply -f "$work/composition.json" --yes --message "count the words of pages"

step "The gateway is killed. It follows the registry after its restart, and the agent connects again"
kill -9 "$gateway_pid"; wait "$gateway_pid" 2>/dev/null || true
wait "$agent_pid" 2>/dev/null || true
start gateway gateway-agent "${files[@]}" --listen "$gateway" --registry "grpc://$(address registry)" \
  --cache "$work/cache/registry-v2.json"
until_true is_ready
start_agent
until_true is_listed available
has '"status": *"unchanged"' answers.log
page='{"url": "https://example.com/mcp"}'
until_true "${mcp[@]}" call count_page_words "$page"

step "AIO: one trace calls an MCP server, the agent, and the composition"
aio() { # ID METHOD PARAMS
  rpc "{\"id\": $1, \"trace_id\": \"AIO-TR-20250326-0001\", \"method\": \"$2\", \"params\": $3}"
  has '"result":' answer
}
aio 1 fetch::tools.call "{\"tool\": \"fetch\", \"args\": $page}"
aio 2 texts::count_words '{"text": "The trace has three calls"}'
aio 3 gateway::tools.call "{\"tool\": \"count_page_words\", \"args\": $page}"

step "The execution graph of the trace"
show curl -sS "http://$gateway/traces/AIO-TR-20250326-0001" -H 'X-Agent-Name: planner' >"$work/graph"
sed -n 1p "$work/graph"
sed 1d "$work/graph" | "$PYTHON" -m json.tool
[ "$(grep -o '"status": *"ok"' "$work/graph" | wc -l)" -eq 5 ] || { echo "three calls and two steps should be ok" >&2; exit 1; }

printf '\ndemo finished: all steps succeeded\n'
