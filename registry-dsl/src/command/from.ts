/** `from`: TypeScript that builds the same registry file. */

import { readFileSync } from "node:fs";

import { isError } from "../diagnostic.ts";
import { isObject, type JsonObject, type JsonValue } from "../json.ts";
import { KINDS, parseKey, keyText, PLURALS } from "../key.ts";
import { normalDocument } from "../normal.ts";
import { validate } from "../validate.ts";
import type { Options } from "./arguments.ts";
import { write } from "./build.ts";
import { Failure, usage } from "./failure.ts";
import type { Screen } from "./screen.ts";
import { generate } from "./typescript/generate.ts";

/** Findings about files that cannot be written as TypeScript. Others depend on registered entities. */
const UNREADABLE = ["document-invalid", "implementation-ambiguous", "name-invalid", "version-invalid"];

/** Writes the TypeScript of a registry file. */
export async function from(file: string, options: Options, to: Screen): Promise<void> {
  const text = read(file);
  const { diagnostics } = await validate(text);
  const problem = diagnostics.find((found) => isError(found) && UNREADABLE.includes(found.code));
  if (problem !== undefined) {
    throw new Failure(
      1,
      `${file} is not a valid registry file: ${problem.pointer} ${problem.message}`,
      "check it with `registryctl validate`",
    );
  }
  write(typescriptOf(JSON.parse(text) as JsonValue, file), options.out, to);
}

/** The TypeScript of a valid registry file. */
export function typescriptOf(value: JsonValue, file: string): string {
  if (!isObject(value) || value["schemaVersion"] !== "2.0") {
    throw usage(`${file} is not a registry file of version 2.0`, "convert it with `registryctl import registry`");
  }
  return generate(normalFile(value));
}

/** The documents in normal form. The lifecycles of an export are in its records. */
function normalFile(file: JsonObject): JsonObject {
  const records = Array.isArray(file["records"]) ? lifecycles(file["records"]) : undefined;
  return Object.fromEntries(
    KINDS.map((kind) => {
      const list = file[PLURALS[kind]];
      const documents = (Array.isArray(list) ? list : []).map((document: JsonValue) => {
        if (records === undefined || !isObject(document)) return normalDocument(kind, document);
        const key = keyText({ kind, name: String(document["name"]), version: String(document["version"]) });
        return normalDocument(kind, { ...document, ...WITHOUT_LIFECYCLE, ...records.get(key) });
      });
      return [PLURALS[kind], documents.map(plain)];
    }),
  );
}

/** The records of an export replace the lifecycle members of its documents. */
const WITHOUT_LIFECYCLE: JsonObject = {
  deprecated: null,
  retired: null,
  deprecationMessage: null,
  replacement: null,
  sunsetDate: null,
  forceReason: null,
};

/** The lifecycle members by key. */
function lifecycles(records: readonly JsonValue[]): ReadonlyMap<string, JsonObject> {
  return new Map(
    records.filter(isObject).flatMap(({ key, lifecycle }) => {
      const parsed = typeof key === "string" ? parseKey(key) : undefined;
      const state = isObject(lifecycle) ? lifecycle["state"] : undefined;
      if (parsed === undefined || (state !== "deprecated" && state !== "retired")) return [];
      const notice = isObject(lifecycle) && isObject(lifecycle["notice"]) ? lifecycle["notice"] : {};
      const { message, replacement, sunsetDate, forceReason } = notice as JsonObject;
      const members = { deprecationMessage: message, replacement, sunsetDate, forceReason };
      const given = Object.entries(members).filter((member): member is [string, JsonValue] => member[1] !== undefined);
      return [[keyText(parsed), { [state]: true, ...Object.fromEntries(given) }] as const];
    }),
  );
}

/** A normal form as plain JSON. */
function plain(node: unknown): JsonValue {
  if (node instanceof Map) return Object.fromEntries([...node].map(([name, value]) => [name, plain(value)]));
  return Array.isArray(node) ? node.map(plain) : (node as JsonValue);
}

function read(file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    throw usage(`cannot read ${file}: ${(error as Error).message}`);
  }
}
