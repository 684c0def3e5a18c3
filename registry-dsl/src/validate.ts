/** Validation with the registry's own rules, and with a registry for the questions that need one. */

import { RegistryClient, RegistryFailure } from "./client.ts";
import { isError, type Diagnostic, type Undecided, type ValidationResult } from "./diagnostic.ts";
import { DslError } from "./errors.ts";
import { toJson, writeJson, type JsonValue } from "./json.ts";
import { parseKey } from "./key.ts";
import { Registry } from "./registry.ts";
import { check } from "./rules.ts";

/** A registry that answers the remaining questions. */
export type Deep =
  /** A dry run of a registry. */
  | { readonly url: string; readonly token?: string; readonly allowInsecureToken?: boolean }
  /** The path of a local `registryctl`, and the export of a registry to check against. */
  | { readonly registryctl: string; readonly against?: string };

/** Options of {@link validate}. */
export interface ValidateOptions {
  /** Also asks a registry or a local `registryctl`. */
  readonly deep?: Deep;
}

const COMPATIBILITY: Undecided = {
  subject: "compatibility",
  message: "compatibility with registered versions and policies",
  codes: [
    "already-registered",
    "breaking-change",
    "compatibility-undecided",
    "policy-incompatible",
    "policy-relaxed",
    "policy-tightened",
    "policy-version-regresses",
    "still-needed",
  ],
};
const OWNERSHIP: Undecided = {
  subject: "ownership",
  message: "owners, scopes and roles",
  codes: ["name-archived", "not-owner", "outside-scope", "role-required"],
};
/** Findings about entities that are not in the file, but may be registered. */
const REFERENCES = [
  "dependency-unknown",
  "not-registered",
  "policy-selector-unmatched",
  "provision-unknown",
  "replacement-unknown",
  "schema-unresolved",
  "source-unknown",
];
/** Findings about a file that no registry can read. */
const UNREADABLE = ["document-invalid", "implementation-ambiguous", "name-invalid", "version-invalid"];

/**
 * Validates a registry file.
 *
 * @param input - A registry of the builder, the text of a file, or its JSON value.
 * @throws {@link DslError} if the rules cannot run; `RegistryFailure` if a registry fails.
 */
export async function validate(
  input: Registry | string | object,
  { deep }: ValidateOptions = {},
): Promise<ValidationResult> {
  const text = fileText(input);
  const diagnostics = await check(text);
  const isReadable = !diagnostics.some((found) => isError(found) && UNREADABLE.includes(found.code));
  const result =
    deep === undefined || !isReadable ? { diagnostics, undecided: undecided(diagnostics) } : await decide(text, deep);
  return input instanceof Registry ? { ...result, diagnostics: positioned(result.diagnostics, input) } : result;
}

/** The text of a registry file. */
function fileText(input: Registry | string | object): string {
  // A byte order mark belongs to the file, not to its text.
  if (typeof input === "string") return input.replace(/^\ufeff/, "");
  return input instanceof Registry ? input.toJSON() : writeJson(toJson(input));
}

/** The questions that remain after the local rules. */
function undecided(diagnostics: readonly Diagnostic[]): Undecided[] {
  const references = diagnostics.filter(({ code }) => REFERENCES.includes(code));
  return [
    COMPATIBILITY,
    OWNERSHIP,
    ...references.map(({ code, message, pointer }) => ({
      subject: "reference" as const,
      message,
      codes: [code],
      pointer,
    })),
  ];
}

async function decide(text: string, deep: Deep): Promise<ValidationResult> {
  if ("registryctl" in deep) {
    const diagnostics = await runRegistryctl(text, deep);
    return { diagnostics, undecided: deep.against === undefined ? undecided(diagnostics) : [OWNERSHIP] };
  }
  const { url, ...access } = deep;
  const client = new RegistryClient({ servers: [url.replace(/\/+$/, "")], ...access });
  const { diagnostics } = await client.plan(JSON.parse(text) as JsonValue).catch((error: unknown) => {
    // Documents that the registry cannot read have no plan.
    if (error instanceof RegistryFailure && error.kind === "invalid") return error;
    throw error;
  });
  return { diagnostics, undecided: [] };
}

/** Runs `registryctl validate` on a text. */
async function runRegistryctl(
  text: string,
  { registryctl, against }: Extract<Deep, { registryctl: string }>,
): Promise<Diagnostic[]> {
  // Bundlers for browsers must not resolve the name.
  const name = "node:child_process";
  const { spawn } = (await import(
    /* @vite-ignore */ /* webpackIgnore: true */ name
  )) as typeof import("node:child_process");
  const options = against === undefined ? [] : ["--against", against];
  const child = spawn(registryctl, ["validate", "--output", "json", "-f", "-", ...options]);
  const [output, errors] = [collect(child.stdout), collect(child.stderr)];
  const closed = new Promise<void>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve());
  });
  // A program that ends early closes the pipe; its output has the reason.
  child.stdin.on("error", () => {});
  child.stdin.end(text);
  await closed.catch((error: Error) => {
    throw new DslError(
      "rules-unavailable",
      `cannot run ${registryctl}: ${error.message}`,
      "check the path of registryctl",
    );
  });
  try {
    const found = JSON.parse(await output) as {
      diagnostics: (Omit<Diagnostic, "entity"> & { entity: string | null })[];
    };
    return found.diagnostics.map(({ code, severity, entity, pointer, message, help }) => ({
      code,
      severity,
      pointer,
      message,
      help,
      entity: entity === null ? null : (parseKey(entity) ?? null),
    }));
  } catch {
    throw new DslError(
      "rules-unavailable",
      `${registryctl} failed: ${(await errors).trim()}`,
      "run `registryctl validate` yourself",
    );
  }
}

async function collect(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) text += decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

/** Adds the places of the builder calls. */
function positioned(diagnostics: readonly Diagnostic[], registry: Registry): Diagnostic[] {
  return diagnostics.map((found) => {
    const position = registry.locate(found.pointer)?.position;
    return position === undefined ? found : { ...found, position };
  });
}
