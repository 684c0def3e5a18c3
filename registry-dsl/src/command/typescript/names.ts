/** Names of constants for entities. */

import { keyText, type EntityKey } from "../../key.ts";

const RESERVED = new Set([
  ..."agent array arguments await break case catch class const constant continue debugger default delete do else enum".split(
    " ",
  ),
  ..."eval export extends false filter finally for function if implements import in instanceof interface let new null".split(
    " ",
  ),
  ..."package pipeline policy private protected public raw rawSpec rawTransform registered registry retry return saga schema".split(
    " ",
  ),
  ..."schemaMap scatterGather select server static super switch this throw timeout tool true try typeof undefined".split(
    " ",
  ),
  ..."var void where while with yield mapEach cache idempotent circuitBreaker deadLetter claimCheck validate".split(
    " ",
  ),
  ..."input steps error Object Array String Number Boolean Infinity NaN globalThis process".split(" "),
]);

/** Gives each entity one name, which no other has. */
export class Names {
  readonly #names = new Map<string, string>();
  readonly #used = new Set<string>(RESERVED);
  /** Kinds and names that have a constant for one of their versions. */
  readonly #seen = new Set<string>();

  /** The name of an entity. */
  of(key: EntityKey): string {
    const known = this.#names.get(keyText(key));
    if (known !== undefined) return known;
    const base = identifier(key);
    const versioned = `${base}V${key.version.replace(/[^0-9A-Za-z]+/g, "_")}`;
    const kind = key.kind.charAt(0).toUpperCase() + key.kind.slice(1);
    const others = this.#seen.has(`${key.kind}/${key.name}`)
      ? [versioned, `${versioned}${kind}`]
      : [`${base}${kind}`, versioned];
    const name = this.fresh([base, ...others]);
    this.#seen.add(`${key.kind}/${key.name}`);
    this.#names.set(keyText(key), name);
    return name;
  }

  /** The first of these names that is free, or the last one with a number. */
  fresh(candidates: readonly string[]): string {
    let name = candidates.find((one) => !this.#used.has(one));
    for (let number = 2; name === undefined; number += 1) {
      const numbered = `${candidates.at(-1)}${number}`;
      if (!this.#used.has(numbered)) name = numbered;
    }
    this.#used.add(name);
    return name;
  }
}

/** `document-service` is `documentService`. Names of schemas start with a capital letter. */
function identifier({ kind, name }: EntityKey): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  const joined = words
    .map((word, index) => (index === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1)))
    .join("");
  const first = joined.charAt(0);
  const cased = kind === "schema" ? first.toUpperCase() : first.toLowerCase();
  const text = cased + joined.slice(1);
  return /^[A-Za-z]/.test(text) ? text : `_${text}`;
}
