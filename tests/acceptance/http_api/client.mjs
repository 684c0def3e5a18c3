// Calls a registry with the clients of Connect for browsers and for Node, and prints one line of JSON per client.
//
// Usage: node client.mjs MODULES URL DESCRIPTORS; MODULES is the directory `node_modules`, and DESCRIPTORS a file with
// a FileDescriptorSet.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, baseUrl, descriptors] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { createFileRegistry, fromBinary } = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const { Code, ConnectError, createClient } = require("@connectrpc/connect");
const web = require("@connectrpc/connect-web");
const node = require("@connectrpc/connect-node");

const files = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const service = (name) => files.getService(`registry.v1.${name}`);
const http2 = { baseUrl, httpVersion: "2" };
const http1 = { baseUrl, httpVersion: "1.1" };

const transports = {
  "connect-web, Connect": web.createConnectTransport({ baseUrl }),
  "connect-web, Connect, binary": web.createConnectTransport({ baseUrl, useBinaryFormat: true }),
  "connect-web, Connect, GET": web.createConnectTransport({ baseUrl, useHttpGet: true }),
  "connect-web, gRPC-web": web.createGrpcWebTransport({ baseUrl }),
  "connect-node, Connect": node.createConnectTransport({
    ...http1,
    sendCompression: node.compressionGzip,
    compressMinBytes: 0,
  }),
  "connect-node, Connect, HTTP/2": node.createConnectTransport(http2),
  "connect-node, gRPC-web": node.createGrpcWebTransport(http1),
  "connect-node, gRPC": node.createGrpcTransport(http2),
};

/** The code, the types of the details and the reason of an error. */
async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    return [Code[error.code], error.details.map((detail) => detail.type)];
  }
  return "no error";
}

/** The end of a verification. */
async function end(stream) {
  let last;
  for await (const message of stream) last = message;
  return [last.done, Number(last.revision)];
}

for (const [name, transport] of Object.entries(transports)) {
  const registry = createClient(service("RegistryService"), transport);
  const audit = createClient(service("AuditService"), transport);
  const schema = { name: "A", version: "1.0.0", schema: "true" };
  const registerEntity = { kind: { case: "schema", value: schema } };
  const applied = await registry.applyChanges({
    changes: [{ change: { case: "registerEntity", value: registerEntity } }],
  });
  const key = { kind: 1, name: "A", version: "1.0.0" };
  const got = await registry.getEntity({ key, minRevision: applied.revision });
  const last = end(audit.verifyLog({}));
  const stream = await (name.includes(" Connect") ? failure(last) : last);
  console.log(
    JSON.stringify({
      name,
      revision: Number(applied.revision),
      entity: got.record.key.name,
      missing: await failure(registry.getEntity({ key: { ...key, name: "B" } })),
      late: await failure(registry.listEntities({ minRevision: 1000n }, { timeoutMs: 300 })),
      stream,
    }),
  );
}
// Sessions of HTTP/2 stay open.
process.exit(0);
