// A registry with an identity provider, and pages of another site.

import { spawn } from "node:child_process";
import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const TEST = "pages::pages_serve_browser_tests";

async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

// Starts a server whose public URL has another host than the identity provider and the other site: browsers
// compare hosts, not ports.
export async function startRegistry() {
  let target;
  const sockets = new Set();
  const forwarder = net.createServer((client) => {
    const upstream = net.connect(target);
    for (const [from, to] of [[client, upstream], [upstream, client]]) {
      sockets.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => sockets.delete(from));
    }
  });
  const url = `http://localhost:${await listen(forwarder)}`;
  const cargo = process.env.CARGO ?? "cargo";
  const command = ["test", "--quiet", "--workspace", "--test", "server"];
  const options = ["--", "--ignored", "--exact", "--nocapture", TEST];
  const stdio = ["pipe", "pipe", "inherit"];
  const server = spawn(cargo, [...command, ...options], { cwd: ROOT, stdio });
  const closed = once(server, "close");
  server.stdin.write(`${url}\n`);
  const { address, requests, hostile } = await ready(server, closed);
  const [host, port] = address.split(":");
  target = { host, port: Number(port) };
  const stop = async () => {
    server.stdin.end();
    await closed;
    sockets.forEach((socket) => socket.destroy());
    forwarder.close();
  };
  return { url, requests, hostile, stop };
}

// The line with the address, the requests, and the hostile text that the last request has.
async function ready(server, closed) {
  const lines = createInterface({ input: server.stdout });
  const found = new Promise((resolve) => {
    lines.on("line", (line) => line.startsWith("{") && resolve(JSON.parse(line)));
  });
  const failed = closed.then(([code]) => {
    throw new Error(`the server of the test stopped with code ${code}`);
  });
  failed.catch(() => {});
  return Promise.race([found, failed]);
}

// A page of another site with this content.
export async function startOtherSite(content) {
  const server = http.createServer((_, response) => {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end(`<!doctype html><title>Other site</title>${content}`);
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  const stop = async () => {
    server.closeAllConnections();
    server.close();
  };
  return { url, stop };
}
