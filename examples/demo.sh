#!/usr/bin/env bash
# Shows the features of all programs with their output.
#   BIN=DIR examples/demo.sh          runs all steps and stops the programs
#   BIN=DIR examples/demo.sh --stay   registers the example and runs until Ctrl-C
set -euo pipefail
cd "$(dirname "$0")/.."

. examples/demo-functions.sh

# Lists the tools of an agent, which must include one tool and must not include another.
lists() { # AGENT WITH WITHOUT
  show "${client[@]}" "$1" list | tee "$work/list"
  grep -qw "$2" "$work/list" || { echo "$2 is missing in the list of $1" >&2; return 1; }
  if grep -v '^.\[2m' "$work/list" | grep -qw "$3"; then echo "$3 is in the list of $1" >&2; return 1; fi
}

stay=false; [ "${1:-}" = "--stay" ] && stay=true
if $stay; then ports=(7070 7090 7080); else ports=(0 0 0); fi

step "Start the registry (embedded store), the demo servers and a gateway"
start registry registry-server --listen "127.0.0.1:${ports[0]}" --data-dir "$work/registry"
registry_pid=$started
start backend demo-backend --listen "127.0.0.1:${ports[1]}"
sed -e "s|127.0.0.1:7070|$(address registry)|; s|127.0.0.1:7090|$(address backend)|" \
    -e "s|^listen:.*|listen: 127.0.0.1:${ports[2]}|; s|cache:.*|cache: $work/cache/registry-v2.json|" \
    examples/gateway.yaml >"$work/gateway.yaml"
echo "admin: 127.0.0.1:0" >>"$work/gateway.yaml"
start gateway gateway-agent --config "$work/gateway.yaml"
gateway_pid=$started
admin=$(admin_of gateway)
export REGISTRY_URL="http://$(address registry)"
mcp="http://$(address gateway)/mcp"
client=(demo-client --url "$mcp" --agent)
strict='{"query": "gateway", "limit": 1, "minScore": 0.1}' # minScore: only the new version has it
applied() { registryctl fleet list --output json | grep -q "\"appliedRevision\": $1,"; }

if ! $stay; then
  step "An invalid file is rejected as a whole, with the places of its errors"
  refused registryctl apply -f crates/registry-core/tests/data/field-example.json --yes
fi

step "Register the example: the plan and one commit"
show registryctl apply -f examples/registry-v2.json --yes --message "the example"
until_true applied 1

if $stay; then
  step "Running: registry $REGISTRY_URL, gateway $mcp. Ctrl-C stops all programs"
  echo "try: target/demo/demo-client --url $mcp --agent research-agent@2.1.0 list"
  wait -n "${pids[@]}" || true
  echo "a program ended unexpectedly" >&2
  exit 1
fi

step "Each agent lists the tools that it declares"
lists research-agent@2.1.0 search_documents create_task
lists adk-demo-agent@1.0.0 create_task search_documents

step "A successful call"
show "${client[@]}" research-agent@2.1.0 call search_documents '{"query": "gateway", "limit": 1}'

step "A rejected call: research-agent does not declare create_task"
refused "${client[@]}" research-agent@2.1.0 call create_task '{"title": "x", "assignee": "u"}'

step "A new version reaches the gateway without a restart"
refused "${client[@]}" research-agent@2.2.0 call search_documents "$strict"
show registryctl apply -f examples/new-version.json --yes --message "a better search"
until_true applied 2
show "${client[@]}" research-agent@2.2.0 call search_documents "$strict"

step "The log, and the gateways that follow"
show registryctl log
show registryctl fleet list

order() { # ID TOKEN
  printf '{"orderId": "%s", "customerId": "c-1", "totalAmount": 40, "items": [{"productId": "prod-1", "quantity": 2}], "paymentMethod": {"type": "credit_card", "token": "%s"}, "shippingAddress": {"street": "1 Main St", "city": "London", "zipCode": "N1", "country": "GB"}}' "$1" "$2"
}
call() { show demo-client --url "$mcp" call "$@"; }
in_stock() { demo-client --url "$mcp" call inventory_check '{"productId": "prod-1"}' | grep -o '"available":[0-9]*' | head -1; }
saga_is() { registryctl gateway --admin "$admin" sagas | grep "$1" | grep -qw "$2"; }

step "Compositions: store a page, merge two searches, create a task and notify its assignee"
call fetch_and_store '{"url": "https://example.com"}'
call multi_search '{"query": "quantum computing"}'
call create_task_and_notify '{"title": "Read the handbook", "assignee": "user-2"}'

step "A composition of two agents: research a topic and summarize the report"
call research_and_summarize '{"topic": "quantum computing"}'

agents=(demo-a2a-client --url "http://$(address gateway)")
orchestrator=("${agents[@]}" --agent orchestrator-agent@1.0.0)
step "A2A: an agent discovers the agents that it declares"
show "${orchestrator[@]}" list | tee "$work/agents"
has "  research-agent " agents
has "  summarizer-agent " agents
if grep -q "  adk-demo-agent " "$work/agents"; then echo "it declares no adk-demo-agent" >&2; exit 1; fi

step "A2A: a typed message to an agent in 1.0, and one to an agent in 0.3"
show "${orchestrator[@]}" send research-agent research_topic '{"topic": "quantum computing"}' | tee "$work/report"
has TASK_STATE_COMPLETED report
show "${orchestrator[@]}" send summarizer-agent summarize '{"content": "Machines are noisy. Errors are corrected."}' \
  | tee "$work/summary"
has TASK_STATE_COMPLETED summary

step "A2A: data that the schema of the skill does not allow is rejected with its place"
refused "${orchestrator[@]}" send research-agent research_topic '{"topic": "x", "depth": "bottomless"}' \
  | tee "$work/rejection"
has parts/0/data/depth rejection

step "A2A: a stream of the events of a task"
show "${orchestrator[@]}" stream research-agent research_topic '{"topic": "quantum computing"}' | tee "$work/events"
has artifactUpdate events
has TASK_STATE_COMPLETED events

step "A2A: a long task is canceled. The agent needs a token, which only the gateway has"
show "${agents[@]}" send --no-wait orchestrator-agent complex_task 'Prepare the launch' | tee "$work/plan"
plan=$(sed -n 's/^ *"id": "\([^"]*\)".*/\1/p' "$work/plan" | head -1)
show "${agents[@]}" cancel orchestrator-agent "$plan" | tee "$work/canceled"
has TASK_STATE_CANCELED canceled

step "A saga: reserve, charge, ship. The payment is declined, and the reservation is released"
before=$(in_stock); echo "in stock: $before"
refused demo-client --url "$mcp" call process_order "$(order o-1 tok_declined)"
[ "$(in_stock)" = "$before" ] || { echo "the reservation was not released" >&2; exit 1; }
echo "in stock: $(in_stock)"
call process_order "$(order o-2 tok_visa)"
before=$(in_stock)

step "The gateway is killed during a charge; after its restart it compensates the saga"
demo-client --url "$mcp" call process_order "$(order o-3 tok_slow)" >/dev/null 2>&1 &
until_true saga_is o-3 running
kill -9 "$gateway_pid"; wait "$gateway_pid" 2>/dev/null || true
sed -i "s|^listen:.*|listen: $(address gateway)|" "$work/gateway.yaml"
start gateway gateway-agent --config "$work/gateway.yaml"
gateway_pid=$started
admin=$(admin_of gateway)
until_true saga_is o-3 compensated
show registryctl gateway --admin "$admin" sagas
[ "$(in_stock)" = "$before" ] || { echo "the reservation was not released" >&2; exit 1; }

step "A policy forbids charges above 1,000, in direct calls and in steps"
cat >"$work/policy.yaml" <<'YAML'
schemaVersion: "2.0"
policies:
  - name: payments
    version: 1.0.0
    appliesTo: { tools: [payment_charge] }
    authorization:
      cedar: |
        forbid (principal, action == Action::"call", resource)
        when { context.arguments.amount.greaterThan(decimal("1000.0")) };
YAML
cat "$work/policy.yaml"
show registryctl apply -f "$work/policy.yaml" --yes --message "limit charges"
until_true applied 3
charge() { printf '{"orderId": "o-4", "amount": %s, "currency": "GBP", "paymentMethod": {"type": "credit_card", "token": "tok_visa"}}' "$1"; }
call payment_charge "$(charge 1000)"
refused demo-client --url "$mcp" call payment_charge "$(charge 1000.01)"

step "Two gateways share a budget of 0.05: three concurrent calls at 0.015 fit, the fourth does not"
sed -e "s|^listen:.*|listen: 127.0.0.1:0|; s|cache:.*|cache: $work/cache-2/registry-v2.json|" \
    "$work/gateway.yaml" >"$work/gateway-2.yaml"
start gateway-2 gateway-agent --config "$work/gateway-2.yaml" --name gateway-2
second_pid=$started
mcp_2="http://$(address gateway-2)/mcp"
tell_time=(call get_current_time '{"timezone": "Europe/Berlin"}')
for url in "$mcp" "$mcp_2"; do until_true demo-client --url "$url" "${tell_time[@]}"; done
cat >"$work/budget.yaml" <<'YAML'
schemaVersion: "2.0"
policies:
  - name: time-cost
    version: 1.0.0
    appliesTo: { tools: [get_current_time] }
    price: { perCall: "0.015" }
    budgets:
      - { name: fleet-total, per: fleet, limit: "0.05", window: total }
YAML
cat "$work/budget.yaml"
show registryctl apply -f "$work/budget.yaml" --yes --wait --message "limit spending"
# A busy machine can delay a grant beyond its time limit. The denial asks for a retry.
paid() { # URL OUTPUT
  for _ in $(seq 20); do
    if show demo-client --url "$1" "${tell_time[@]}" >"$2" 2>&1; then cat "$2"; return 0; fi
    grep -q 'retry the call' "$2" || break
  done
  cat "$2" >&2; return 1
}
calls=()
for url in "$mcp" "$mcp" "$mcp_2"; do
  paid "$url" "$work/paid-${#calls[@]}" & calls+=($!)
done
for call in "${calls[@]}"; do wait "$call"; done
budget=(registryctl budget show time-cost fleet-total fleet)
spent() { "${budget[@]}" --output json | grep -q '"settled": "0.045"'; }
until_true spent
refused demo-client --url "$mcp_2" "${tell_time[@]}" | tee "$work/denial"
grep -q 'the budget fleet-total of the policy time-cost@1.0.0 has 0.045 of 0.05 spent' "$work/denial" \
  || { echo "this call should be rejected because of its budget" >&2; exit 1; }
show "${budget[@]}"
stop "$second_pid"

step "A policy demands that a person approves charges. The caller repeats its call, and the approval is used once"
cat >"$work/approval.yaml" <<'YAML'
schemaVersion: "2.0"
policies:
  - name: charge-approval
    version: 1.0.0
    appliesTo: { tools: [payment_charge] }
    approval: { when: destructive, expiresAfter: PT1H, show: [/orderId, /amount] }
YAML
cat "$work/approval.yaml"
show registryctl apply -f "$work/approval.yaml" --yes --wait --message "approve charges"
payment='{"orderId": "o-5", "amount": 75, "currency": "GBP", "paymentMethod": {"type": "credit_card", "token": "tok_visa"}}'
refused demo-client --url "$mcp" call payment_charge "$payment"
show registryctl approvals list
request=$(registryctl approvals list --output json | sed -n 's/.*"id": *"\([0-9a-f]\{32\}\)".*/\1/p' | head -1)
show registryctl approvals show "$request"
show registryctl approve "$request" --yes
call payment_charge "$payment"
refused demo-client --url "$mcp" call payment_charge "$payment"
is_used() { registryctl approvals show "$request" | grep -qw succeeded; }
until_true is_used
show registryctl approvals list --all

step "A policy redacts card numbers in results, and blocks keys in arguments"
cat >"$work/privacy.yaml" <<'YAML'
schemaVersion: "2.0"
policies:
  - name: privacy
    version: 1.0.0
    appliesTo: { tools: [create_task] }
    inspection:
      arguments: { credential: block }
      results: { financial: redact }
YAML
cat "$work/privacy.yaml"
show registryctl apply -f "$work/privacy.yaml" --yes --wait --message "inspect tasks"
task() { printf '{"title": "%s", "assignee": "user-2"}' "$1"; }
call create_task "$(task "Refund the card 4539 5787 6362 1486")" | tee "$work/task"
grep -q 'redacted:financial' "$work/task" || { echo "the card number was not redacted" >&2; exit 1; }
key="AKIA""Z7QX2MK4T5WB6D3P" # in two parts, so that scanners of this file find no key
refused demo-client --url "$mcp" call create_task "$(task "Rotate $key")"

step "The registry stops; calls still work"
stop "$registry_pid"
show "${client[@]}" research-agent@2.2.0 call search_documents "$strict"

step "The gateway restarts without a registry and serves its verified cache"
stop "$gateway_pid"
start gateway gateway-agent --config "$work/gateway.yaml"
lists research-agent@2.2.0 search_documents create_task
show "${client[@]}" research-agent@2.2.0 call search_documents "$strict"

printf '\ndemo finished: all steps succeeded\n'
