/** The common part of all entities: key, lifecycle, and the places of the calls that made them. */

import { CallSite, type CallSites } from "./call-site.ts";
import { DslError } from "./errors.ts";
import type { JsonObject, Node } from "./json.ts";
import { keyText, type EntityKey, type Kind } from "./key.ts";
import { normalDocument } from "./normal.ts";
import type { Schema } from "./types.ts";

/** The names of the lifecycle members, which all kinds have. */
export type LifecycleMember =
  "deprecated" | "retired" | "deprecationMessage" | "replacement" | "sunsetDate" | "forceReason";

type LifecycleMembers = Pick<Schema, LifecycleMember>;

/** The notice of a deprecation or retirement. */
export interface Notice {
  /** The reason. */
  readonly message?: string;
  /** The recommended successor, which must be registered. */
  readonly replacement?: Entity;
  /** The UTC date after which the entity can be removed: `2026-12-31`. */
  readonly sunsetDate?: string;
}

/** The notice of a retirement. */
export interface RetirementNotice extends Notice {
  /** Retires the entity although active entities depend on it, and records this reason. */
  readonly forceReason?: string;
}

/** A definition of the builder. Others refer to it by its value. */
export abstract class Entity implements EntityKey {
  abstract readonly kind: Kind;
  readonly name: string;
  readonly version: string;
  /** The calls that made the entity, by pointer into its document. */
  readonly sites: CallSites = new Map();
  #lifecycle: LifecycleMembers = {};

  constructor(name: string, version: string) {
    this.name = name;
    this.version = version;
    this.sites.set("", new CallSite());
  }

  /** Marks the entity as deprecated: dependents get a warning. */
  deprecated(notice: Notice = {}): this {
    return this.#setLifecycle({ deprecated: true, ...members(notice) });
  }

  /** Marks the entity as retired: it cannot be used. */
  retired({ forceReason, ...notice }: RetirementNotice = {}): this {
    return this.#setLifecycle({
      retired: true,
      ...members(notice),
      ...(forceReason === undefined ? {} : { forceReason }),
    });
  }

  #setLifecycle(lifecycle: LifecycleMembers): this {
    this.#lifecycle = lifecycle;
    const site = new CallSite();
    for (const name of Object.keys(lifecycle)) this.sites.set(`/${name}`, site);
    return this;
  }

  /** The document without its lifecycle. */
  protected abstract fields(): JsonObject;

  /** The document in the registry's normal form. */
  document(): Node {
    try {
      return normalDocument(this.kind, { ...this.fields(), ...(this.#lifecycle as JsonObject) });
    } catch (error) {
      throw error instanceof DslError ? error.definedAt(this.sites.get("")?.position) : error;
    }
  }

  /** The effects of the entity on an empty registry. */
  get effects(): { readonly effect: string }[] {
    const { deprecated, retired } = this.#lifecycle;
    const change = retired === true ? ["retire"] : deprecated === true ? ["deprecate"] : [];
    return ["register", ...change].map((effect) => ({ effect }));
  }

  /** `tool/fetch@1.2.3`. */
  toString(): string {
    return keyText(this);
  }
}

function members({ message, replacement, sunsetDate }: Notice): LifecycleMembers {
  return {
    ...(message === undefined ? {} : { deprecationMessage: message }),
    ...(replacement === undefined ? {} : { replacement: keyText(replacement) }),
    ...(sunsetDate === undefined ? {} : { sunsetDate }),
  };
}
