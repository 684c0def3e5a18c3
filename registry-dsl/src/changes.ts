/** The changes of a registry file, as the registry's API receives them. */

import { isObject, pointerTo, type JsonObject, type JsonValue } from "./json.ts";
import { KINDS, parseKey, PLURALS, type EntityKey, type Kind } from "./key.ts";

/** A change, and the pointer of its entity in the file. */
export interface Change {
  readonly pointer: string;
  /** `registry.v1.EntityChange` in the JSON form of Protocol Buffers. */
  readonly message: JsonObject;
}

/** The name of a kind in the API. */
export function kindName(kind: Kind): string {
  return `ENTITY_KIND_${kind.toUpperCase()}`;
}

/** The kind of a name in the API. */
export function kindOf(name: unknown): Kind | undefined {
  return KINDS.find((kind) => kindName(kind) === name);
}

/** A key in the API. */
export function keyMessage({ kind, name, version }: EntityKey): JsonObject {
  return { kind: kindName(kind), name, version };
}

/** The changes of a valid file, in its order. */
export function changesOf(file: JsonValue): Change[] {
  if (!isObject(file)) return [];
  return KINDS.flatMap((kind) => {
    const list = file[PLURALS[kind]];
    if (!Array.isArray(list)) return [];
    return list.flatMap((document: JsonValue, index) => {
      const pointer = pointerTo(`/${PLURALS[kind]}`, index);
      return isObject(document) ? changesOfDocument(kind, document).map((message) => ({ pointer, message })) : [];
    });
  });
}

function changesOfDocument(kind: Kind, written: JsonObject): JsonObject[] {
  const { deprecated, retired, deprecationMessage, replacement, sunsetDate, forceReason, ...document } = written;
  const register = { registerDocument: { kind: kindName(kind), json: base64(JSON.stringify(document)) } };
  if (deprecated !== true && retired !== true) return [register];
  const successor = typeof replacement === "string" ? parseKey(replacement) : undefined;
  const setLifecycle = {
    key: keyMessage({ kind, name: String(document["name"]), version: String(document["version"]) }),
    state: retired === true ? "LIFECYCLE_STATE_RETIRED" : "LIFECYCLE_STATE_DEPRECATED",
    ...present({ message: deprecationMessage, sunsetDate, forceReason }),
    ...(successor === undefined ? {} : { replacement: keyMessage(successor) }),
  };
  return [register, { setLifecycle }];
}

function present(members: { readonly [name: string]: JsonValue | undefined }): JsonObject {
  const given = Object.entries(members).filter((one): one is [string, JsonValue] => (one[1] ?? null) !== null);
  return Object.fromEntries(given);
}

/** Base64 of the UTF-8 bytes of a text. */
function base64(text: string): string {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}
