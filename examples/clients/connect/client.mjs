// Registers a schema and searches it: node client.mjs URL
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { DiscoveryService } from "./gen/registry/v1/discovery_pb.js";
import { EntityKind } from "./gen/registry/v1/entity_pb.js";
import { RegistryService } from "./gen/registry/v1/registry_pb.js";

const transport = createConnectTransport({ baseUrl: process.argv[2], httpVersion: "1.1" });
const registry = createClient(RegistryService, transport);
const discovery = createClient(DiscoveryService, transport);

const document = { name: "City", version: "1.0.0", schema: { type: "string" } };
const json = Buffer.from(JSON.stringify(document));
const { revision } = await registry.applyChanges({
  changes: [{ change: { case: "registerDocument", value: { kind: EntityKind.SCHEMA, json } } }],
  message: "Add City",
  requestId: crypto.randomUUID(),
});
console.log(`registered in revision ${revision}`);

const { results } = await discovery.searchEntities({ query: "city", minRevision: revision });
for (const { record } of results) console.log(`found ${record.key.name} ${record.key.version}`);
