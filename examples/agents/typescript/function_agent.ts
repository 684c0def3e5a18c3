// Serves a plain function as the data agent `texts`: node function_agent.ts ws://127.0.0.1:7080/rpc

function countWords(input: { text: string }) {
  return { words: input.text.split(/\s+/).filter(Boolean).length };
}

const gateway = new WebSocket(process.argv[2]);
const send = (message: object) => gateway.send(JSON.stringify({ jsonrpc: "2.0", ...message }));

gateway.onopen = () => {
  const schema = { count_words: { input: { text: "string" }, output: { words: "integer" } } };
  const capabilities = { tools: ["count_words"], schema };
  send({ id: 1, method: "server.register", params: { agent_id: "texts", capabilities } });
  const heartbeat = { method: "agent.heartbeat", params: { agent_id: "texts", status: "active" } };
  setInterval(() => send(heartbeat), 20_000);
};
gateway.onmessage = ({ data }) => {
  const { id, method, params } = JSON.parse(data);
  if (method === "agent.execute") send({ id, result: countWords(params.input) });
  else console.log(data);
};
gateway.onclose = () => process.exit(1);
