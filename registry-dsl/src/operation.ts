/** Operations of compositions: calls of tools and skills, and nested patterns. */

import type { CallSites } from "./call-site.ts";
import type { JsonObject } from "./json.ts";
import { keyText, type EntityKey } from "./key.ts";
import type { Dependency } from "./types.ts";

/** The key of the types of an operation. It exists only for the compiler. */
declare const types: unique symbol;

/** An operation that takes `I` and results in `O`. */
export interface Operation<I = any, O = any> {
  readonly [types]?: { readonly input: I; readonly output: O };
  /** The operation in the grammar of compositions. */
  write(to: SpecWriter, pointer: string): JsonObject;
}

/** An operation that a composition declares as a dependency. */
export interface Callee<I = any, O = any> extends Operation<I, O> {
  readonly dependency: Dependency;
}

/** Collects the dependencies and the places of calls while a composition is written. */
export class SpecWriter {
  readonly sites: CallSites;
  readonly #callees = new Map<string, Dependency>();

  constructor(sites: CallSites) {
    this.sites = sites;
  }

  /** Declares a dependency, in the order of first use. */
  use(dependency: Dependency): void {
    this.#callees.set(dependencyText(dependency), dependency);
  }

  /** The declared dependencies. */
  get dependencies(): Dependency[] {
    return [...this.#callees.values()];
  }
}

function dependencyText({ type, name, version, skill }: Dependency): string {
  const key: EntityKey = { kind: type, name, version };
  return `${keyText(key)}#${skill ?? ""}`;
}

/** A tool, or a skill of an agent, that is registered already and not part of the file. */
export function registered<I = any, O = any>(dependency: Dependency): Callee<I, O> {
  const { type, name, skill } = dependency;
  return {
    dependency,
    write(to) {
      to.use(dependency);
      return type === "tool" ? { tool: { name } } : { agent: { name, skill: skill ?? "" } };
    },
  };
}
