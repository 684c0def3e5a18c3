// Registers a tool, follows the registry and searches it: node client.mjs HOST:PORT [PROTO_DIRECTORY]
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, protos = fileURLToPath(new URL("../../../proto", import.meta.url))] =
  process.argv.slice(2);
const files = ["registry", "discovery", "sync"].map((name) => `registry/v1/${name}.proto`);
const options = {
  includeDirs: [protos],
  keepCase: true,
  enums: String,
  longs: String,
  defaults: true,
  oneofs: true,
};
const { v1 } = grpc.loadPackageDefinition(loader.loadSync(files, options)).registry;
const credentials = grpc.credentials.createInsecure();
// A commit can be larger than the 4 MiB that gRPC accepts by default.
const channel = { "grpc.max_receive_message_length": 64 << 20 };
const registry = new v1.RegistryService(address, credentials);
const discovery = new v1.DiscoveryService(address, credentials);
const sync = new v1.SyncService(address, credentials, channel);

const server = {
  name: "weather-service",
  version: "1.0.0",
  provides: [{ tool: "get_forecast", version: "1.0.0" }],
};
const tool = {
  name: "get_forecast",
  version: "1.0.0",
  description: "Weather forecast for a city",
  source: { server: "weather-service", serverVersion: "1.0.0", tool: "forecast" },
  inputSchema: { type: "object", properties: { city: { type: "string" } } },
};

const register = (kind, document) => ({
  register_document: { kind, json: Buffer.from(JSON.stringify(document)) },
});

/** The messages of a stream. Each state and each change is acknowledged. */
async function* follow() {
  const stream = sync.Sync();
  stream.write({ hello: { gateway: "example", mode: "FOLLOW_MODE_OBSERVER" } });
  let revision = "0";
  try {
    for await (const response of stream) {
      if (response.message === "snapshot_begin") {
        revision = response.snapshot_begin.position.revision;
      } else if (response.message === "delta") {
        revision = response.delta.revision;
      }
      if (["snapshot_end", "delta"].includes(response.message)) {
        stream.write({ ack: { applied_revision: revision, cache_state: "CACHE_STATE_NONE" } });
        yield revision;
      }
    }
  } finally {
    stream.cancel();
  }
}

const call = (client, method) => promisify(client[method].bind(client));
const messages = follow();
console.log("following from revision", (await messages.next()).value);
const applied = await call(registry, "ApplyChanges")({
  changes: [register("ENTITY_KIND_SERVER", server), register("ENTITY_KIND_TOOL", tool)],
  message: "Add the weather service",
  request_id: randomUUID(),
});
console.log("registered in revision", applied.revision);
console.log("received revision", (await messages.next()).value);
const found = await call(discovery, "SearchEntities")({
  query: "weather forecast",
  min_revision: applied.revision,
});
for (const { record } of found.results) {
  console.log("found", record.key.kind, record.key.name, record.key.version);
}
await messages.return();
for (const client of [registry, discovery, sync]) client.close();
