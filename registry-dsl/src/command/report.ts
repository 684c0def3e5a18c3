/** Findings in the form of `registryctl`, at their places in the TypeScript source. */

import { relative } from "node:path";

import { isError, type Diagnostic } from "../diagnostic.ts";
import { keyText } from "../key.ts";
import type { Registry } from "../registry.ts";
import { Sources, type Place } from "./source.ts";
import { printable, type Style } from "./style.ts";

/** A finding with its place. */
interface Finding extends Diagnostic {
  readonly place: Place | undefined;
}

/** Maximum number of printed findings. */
const SHOWN = 100;
/** Maximum printed part of a line, in characters, and the part of it before the location. */
const WIDTH = 100;
const BEFORE = 40;

/** Findings, errors first. */
export class Report {
  readonly #findings: readonly Finding[];

  constructor(diagnostics: readonly Diagnostic[], registry: Registry) {
    const sources = new Sources();
    const findings = diagnostics.map((found) => ({ ...found, place: sources.place(registry, found.pointer) }));
    this.#findings = [...findings.filter(isError), ...findings.filter((found) => !isError(found))];
  }

  get hasErrors(): boolean {
    return this.#findings.some(isError);
  }

  /** `2 errors, 1 warning`; empty without findings. */
  get counts(): string {
    const errors = this.#findings.filter(isError).length;
    const count = (number: number, one: string): string[] =>
      number === 0 ? [] : [`${number} ${one}${number === 1 ? "" : "s"}`];
    return [...count(errors, "error"), ...count(this.#findings.length - errors, "warning")].join(", ");
  }

  /** The findings as JSON. */
  get json(): object[] {
    return this.#findings.map(({ code, severity, entity, pointer, message, help, place }) => ({
      code,
      severity,
      entity: entity === null ? null : keyText(entity),
      pointer,
      message,
      help,
      ...(place === undefined ? {} : { file: shortPath(place.file), line: place.line, column: place.column }),
    }));
  }

  /** The first findings as text, with an empty line after each. */
  render(style: Style): string {
    const text = this.#findings
      .slice(0, SHOWN)
      .map((found) => render(found, style))
      .join("");
    const more = this.#findings.length - SHOWN;
    return more > 0 ? `${text}and ${more} more findings; --output json lists all\n\n` : text;
  }
}

function render(found: Finding, style: Style): string {
  const { code, severity, message, place, help } = found;
  const paint = isError(found) ? "bad" : "careful";
  const gutter = " ".repeat(place === undefined ? 1 : String(place.line).length);
  const frame = (text: string): string => style.paint("frame", text);
  const lines = [
    `${style.paint(paint, `${severity}[${printable(code)}]`)}: ${printable(message)}`,
    `${gutter}${frame("-->")} ${location(found)}`,
  ];
  if (place !== undefined) {
    const { shown, before, width } = snippet(place);
    lines.push(
      `${gutter} ${frame("|")}`,
      `${frame(String(place.line))} ${frame("|")} ${shown}`,
      `${gutter} ${frame("|")} ${" ".repeat(before)}${style.paint(paint, "^".repeat(width))}`,
    );
  }
  if (help !== null) lines.push(`${gutter} ${frame("=")} help: ${printable(help)}`);
  return `${lines.join("\n")}\n\n`;
}

function location({ place, entity, pointer }: Finding): string {
  if (place !== undefined) return `${printable(shortPath(place.file))}:${place.line}:${place.column}`;
  const subject = entity === null ? "the batch" : printable(keyText(entity));
  return pointer === "" ? subject : `${subject} ${printable(pointer)}`;
}

/** A path relative to the current directory, if it is below it. */
export function shortPath(file: string): string {
  const path = relative(process.cwd(), file);
  return path === "" || path.startsWith("..") ? file : path;
}

/** The part of a line around a column, with the number of its characters before the column. */
function snippet({ text, column }: Place): { readonly shown: string; readonly before: number; readonly width: number } {
  const [left, right] = [[...text.slice(0, column - 1)], [...text.slice(column - 1)]];
  const from = Math.max(0, left.length - Math.max(BEFORE, WIDTH - right.length));
  const head = `${from > 0 ? "…" : ""}${printable(left.slice(from).join(""))}`;
  const room = WIDTH - (left.length - from);
  const tail = `${printable(right.slice(0, room).join("")).trimEnd()}${right.length > room ? "…" : ""}`;
  const token = /^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[\p{L}\p{N}_$]+)/u.exec(right.join(""))?.[0] ?? " ";
  return { shown: head + tail, before: [...head].length, width: Math.min([...token].length, Math.max(room, 1)) };
}
