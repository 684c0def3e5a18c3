/** Kinds and keys of entities. */

import { compareTexts } from "./json.ts";
import { compareVersions } from "./version.ts";

/** The kinds of entities, in the order of files. */
export const KINDS = ["schema", "server", "tool", "agent", "policy"] as const;

/** The kind of an entity. */
export type Kind = (typeof KINDS)[number];

/** The member of a file with the entities of a kind. */
export const PLURALS: { readonly [K in Kind]: string } = {
  schema: "schemas",
  server: "servers",
  tool: "tools",
  agent: "agents",
  policy: "policies",
};

/** The identity of an entity. */
export interface EntityKey {
  readonly kind: Kind;
  readonly name: string;
  /** The exact version. */
  readonly version: string;
}

/** `tool/fetch@1.2.3`. */
export function keyText({ kind, name, version }: EntityKey): string {
  return `${kind}/${name}@${version}`;
}

/** Parses the form of {@link keyText}. */
export function parseKey(text: string): EntityKey | undefined {
  const slash = text.indexOf("/");
  const at = text.lastIndexOf("@");
  const kind = KINDS.find((one) => one === text.slice(0, slash));
  return kind === undefined || at < slash
    ? undefined
    : { kind, name: text.slice(slash + 1, at), version: text.slice(at + 1) };
}

/** The order of files: kind, name, version. */
export function compareKeys(a: EntityKey, b: EntityKey): number {
  return (
    KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) ||
    compareTexts(a.name, b.name) ||
    compareVersions(a.version, b.version)
  );
}
