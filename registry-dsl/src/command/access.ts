/** The registry's address and the caller's credentials, from the options and variables of `registryctl`. */

import { readFileSync } from "node:fs";

import { isPrivate, RegistryClient } from "../client.ts";
import type { Options } from "./arguments.ts";
import { usage } from "./failure.ts";

const DEFAULT = "http://127.0.0.1:7070";

/** A client with the caller's credentials. */
export function connect(options: Options): RegistryClient {
  const { REGISTRY_CA_CERT: ca, REGISTRY_CLIENT_CERT: certificate } = process.env;
  if (ca)
    throw usage("REGISTRY_CA_CERT is not supported", "set NODE_EXTRA_CA_CERTS to the file, and unset REGISTRY_CA_CERT");
  if (certificate) {
    throw usage(
      "client certificates are not supported",
      "use a token, or `registry-dsl build` and `registryctl apply`",
    );
  }
  const servers = addresses(options.registry ?? process.env["REGISTRY_URL"] ?? DEFAULT);
  const found = token(options);
  const isAllowed = options["allow-insecure-token"] ?? isSet(process.env["REGISTRY_ALLOW_INSECURE_TOKEN"]);
  const exposed = found === undefined || isAllowed ? undefined : servers.find((server) => !isPrivate(server));
  if (exposed !== undefined) {
    throw usage(
      `the token would be sent to ${exposed} unencrypted; use https://, or --allow-insecure-token on a trusted network`,
    );
  }
  return new RegistryClient({ servers, token: found, allowInsecureToken: isAllowed });
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && !["", "0", "f", "false", "n", "no", "off"].includes(value.toLowerCase());
}

/** Whether there is a token, so that the registry knows the author. */
export function hasToken(options: Options): boolean {
  return token(options) !== undefined;
}

const SCHEMES: { readonly [scheme: string]: string } = { http: "http", grpc: "http", https: "https", grpcs: "https" };

/** The URLs of the servers. The scheme of the first one is that of later ones without a scheme. */
export function addresses(list: string): string[] {
  const [first = "", ...others] = list.split(",");
  const head = address(first, "http");
  const scheme = head.startsWith("https:") ? "https" : "http";
  const servers = [head];
  for (const other of others) {
    const server = address(other, scheme);
    if (!server.startsWith(`${scheme}:`)) {
      throw usage(
        "the servers have different schemes; write one scheme for all of them, such as https://a:7070,b:7070",
      );
    }
    servers.push(server);
  }
  return servers;
}

/** The URL of a server: `https://HOST:PORT`, or `HOST:PORT` with the default scheme. */
function address(text: string, standard: string): string {
  const [, scheme = standard, rest] = /^(?:([^:]*):\/\/)?(.*?)\/*$/s.exec(text.trim()) as unknown as [
    string,
    string?,
    string?,
  ];
  const known = SCHEMES[scheme];
  if (known === undefined) throw usage(`unsupported scheme \`${scheme}\`; use https://, http://, grpcs:// or grpc://`);
  const url = `${known}://${rest ?? ""}`;
  // The message omits the text, which may contain a password.
  if (!URL.canParse(url) || /[\s@]/.test(url))
    throw usage("invalid address; write https://HOST:PORT, without a user name and password");
  return url;
}

function token(options: Options): string | undefined {
  const text = options.token ?? process.env["REGISTRY_TOKEN"];
  const file = options["token-file"] ?? process.env["REGISTRY_TOKEN_FILE"];
  if (text !== undefined && file !== undefined) {
    throw usage(
      `there are two tokens: that of --token or REGISTRY_TOKEN, and the file \`${file}\` of --token-file or ` +
        "REGISTRY_TOKEN_FILE; omit one, or unset its variable",
    );
  }
  const value = (file === undefined ? text : read(file))?.trim();
  if (value === undefined || value === "") return undefined;
  if (/[^\x21-\x7e]/.test(value)) {
    throw usage("the token contains characters that are not allowed in a header; check REGISTRY_TOKEN or --token-file");
  }
  return value;
}

function read(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw usage(`cannot read ${file}: ${(error as Error).message}`);
  }
  if (text.trim() === "")
    throw usage(`cannot read ${file}: the file is empty`, "write the token into it, or set REGISTRY_TOKEN");
  return text;
}
