/** A registry file of definitions. */

import type { Position } from "./call-site.ts";
import { Entity } from "./entity.ts";
import { DslError } from "./errors.ts";
import { segments, writeJson, type Node } from "./json.ts";
import { compareKeys, keyText, KINDS, PLURALS, type Kind } from "./key.ts";

/** Definitions, or lists of them. */
export type Definitions = Entity | Iterable<Definitions>;

/** The definitions of a registry file, sorted by key. */
export class Registry {
  /** The definitions in the order of the file. */
  readonly entities: readonly Entity[];

  /** @internal */
  constructor(definitions: Iterable<Definitions>) {
    this.entities = [...flat(definitions)].sort(compareKeys);
    this.entities.forEach((one, index) => {
      const other = this.entities[index - 1];
      if (other === undefined || compareKeys(one, other) !== 0) return;
      if (one === other) {
        throw new DslError("entity-duplicate", `${keyText(one)} is listed twice`, "remove one of them");
      }
      throw new DslError(
        "entity-duplicate",
        `two definitions have the key ${keyText(one)}${places(other, one)}`,
        "rename one of them, or change its version",
      );
    });
  }

  /** The text of the registry file. It is the same as that of the registry for the same entities. */
  toJSON(): string {
    const file = new Map<string, Node>([["schemaVersion", "2.0"]]);
    for (const kind of KINDS) {
      const documents = this.#ofKind(kind).map((one) => one.document());
      // Older programs reject the member `policies`.
      if (kind !== "policy" || documents.length > 0) file.set(PLURALS[kind], documents);
    }
    return writeJson(file);
  }

  /** The entity at a pointer into the file. */
  entityAt(pointer: string): Entity | undefined {
    const [list, index] = segments(pointer);
    const kind = KINDS.find((one) => PLURALS[one] === list);
    return kind === undefined ? undefined : this.#ofKind(kind)[Number(index)];
  }

  /** The deepest call that made the value at a pointer into the file, and the pointer below it. */
  locate(pointer: string): { readonly position: Position; readonly rest: readonly string[] } | undefined {
    const path = segments(pointer).slice(2);
    const sites = this.entityAt(pointer)?.sites;
    for (let length = path.length; length >= 0; length -= 1) {
      const own = pointer.split("/").slice(3, 3 + length);
      const position = sites?.get(own.map((segment) => `/${segment}`).join(""))?.position;
      if (position !== undefined) return { position, rest: path.slice(length) };
    }
    return undefined;
  }

  #ofKind(kind: Kind): readonly Entity[] {
    return this.entities.filter((one) => one.kind === kind);
  }
}

/** Makes a registry file of definitions. References to other entities must be registered already. */
export function registry(definitions: Iterable<Definitions>): Registry {
  return new Registry(definitions);
}

function* flat(definitions: Iterable<Definitions>): Generator<Entity> {
  for (const one of definitions) {
    if (one instanceof Entity) {
      yield one;
    } else if (typeof one === "object" && one !== null && Symbol.iterator in one) {
      yield* flat(one);
    } else {
      throw new DslError(
        "entity-expected",
        `${String(one)} is not a definition`,
        "pass the values of schema, server, tool, agent and policy, or lists of them",
      );
    }
  }
}

function places(first: Entity, second: Entity): string {
  const [left, right] = [first, second].map(({ sites }) => sites.get("")?.position);
  if (left === undefined || right === undefined) return "";
  return `: first at ${left.file}:${left.line}, then at ${right.file}:${right.line}`;
}
