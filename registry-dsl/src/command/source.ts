/** Places of values in the TypeScript source. */

import { readFileSync } from "node:fs";

import type { Position } from "../call-site.ts";
import type { Registry } from "../registry.ts";

/** A place with the text of its line. */
export interface Place extends Position {
  readonly text: string;
}

/** Reads source files once. */
export class Sources {
  readonly #files = new Map<string, string>();

  /** The place of the value at a pointer into the registry file: of the member if it is written, else of the call. */
  place(registry: Registry, pointer: string): Place | undefined {
    const found = registry.locate(pointer);
    if (found === undefined) return undefined;
    const source = this.#read(found.position.file);
    const position = memberPosition(source, found.position, found.rest);
    return { ...position, text: source.split(/\r?\n/)[position.line - 1] ?? "" };
  }

  #read(file: string): string {
    const known = this.#files.get(file);
    if (known !== undefined) return known;
    let text = "";
    try {
      text = readFileSync(file, "utf8");
    } catch {
      // The place is useful without its text.
    }
    this.#files.set(file, text);
    return text;
  }
}

/** Strings, comments, names, numbers and punctuation. Regular expressions are rare in definitions. */
const TOKEN =
  /\/\/.*|\/\*[^]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[^])*`|[\p{ID_Start}$_][\p{ID_Continue}$]*|[^\s]/gu;

/** A member on the path to a value: the number of its segments in the source, and the next segment of the path. */
interface Match {
  readonly count: number;
  readonly next: number;
}

/** The place of the deepest member of a call's arguments on a path, or of the call. */
function memberPosition(source: string, call: Position, path: readonly string[]): Position {
  const start = offsetOf(source, call);
  const wanted = path.filter((segment) => !/^\d+$/.test(segment));
  let best: { readonly count: number; readonly at: number } = { count: 0, at: start };
  // The matches around the current token by their depth. `undefined`: a member that is not on the path.
  const around: (Match | undefined)[] = [{ count: 0, next: 0 }];
  let name: { text: string; at: number } | undefined;
  TOKEN.lastIndex = start;
  for (let token = TOKEN.exec(source); token !== null; token = TOKEN.exec(source)) {
    const text = token[0];
    if (text.startsWith("//") || text.startsWith("/*")) continue;
    if ("([{".includes(text)) around.push(around.at(-1));
    if (")]}".includes(text)) {
      around.pop();
      if (around.length <= 1) break;
    }
    if (text === ":" && name !== undefined && around.length > 1) {
      const outer = around.at(-2);
      // Members that the builder adds, such as `construct`, are not in the source.
      const index = outer === undefined ? -1 : wanted.indexOf(name.text, outer.next);
      const match = outer !== undefined && index >= 0 ? { count: outer.count + 1, next: index + 1 } : undefined;
      around[around.length - 1] = match;
      if (match !== undefined && match.count > best.count) best = { count: match.count, at: name.at };
    }
    const isName = /^["'\p{ID_Start}$_]/u.test(text);
    name = isName ? { text: text.replace(/^["']|["']$/g, ""), at: token.index } : undefined;
  }
  return best.count === 0 ? call : positionOf(source, call.file, best.at);
}

function offsetOf(source: string, { line, column }: Position): number {
  let start = 0;
  for (let number = 1; number < line; number += 1) {
    const end = source.indexOf("\n", start);
    if (end < 0) break;
    start = end + 1;
  }
  return start + column - 1;
}

function positionOf(source: string, file: string, offset: number): Position {
  const before = source.slice(0, offset);
  const start = before.lastIndexOf("\n") + 1;
  return { file, line: before.split("\n").length, column: offset - start + 1 };
}
