/** JSON values, and the text that the registry writes for them. */

import { DslError } from "./errors.ts";

/** A JSON value. A `bigint` keeps all digits of an integer; the registry rejects those beyond ±2^53. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  readonly [name: string]: JsonValue;
}

/** An object of the registry's own, whose members keep their order. */
export type Struct = ReadonlyMap<string, Node>;

/** A value to write: the members of plain objects are sorted, those of a {@link Struct} are not. */
export type Node = JsonValue | Struct | readonly Node[];

/** Converts an object of another library or of the builder. `undefined`: it is plain JSON. */
export type Replace = (value: object, pointer: string) => unknown;

/** The nesting that the registry reads. */
const DEPTH = 127;

/** Half of a surrogate pair, which UTF-8 cannot represent. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Whether a value is an object other than an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether an object is a literal. Instances of classes, such as dates, have other content than their members. */
export function isLiteral(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Literals of another realm have another `Object.prototype`.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** A JSON pointer (RFC 6901) to a member of the value at a pointer. */
export function pointerTo(pointer: string, member: string | number): string {
  return `${pointer}/${String(member).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The segments of a JSON pointer, unescaped. */
export function segments(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/**
 * Copies a value as JSON. Members that are `undefined` are omitted.
 *
 * @throws {@link DslError} with the pointer of a value that JSON cannot represent.
 */
export function toJson(value: unknown, replace?: Replace, pointer = "", depth = 1): JsonValue {
  switch (typeof value) {
    case "boolean":
    case "bigint":
      return value;
    case "string":
      if (!LONE_SURROGATE.test(value)) return value;
      break;
    case "number":
      if (Number.isFinite(value)) return value;
      break;
    // Schemas of some libraries are functions.
    case "function":
    case "object": {
      if (value === null) return null;
      if (depth > DEPTH) {
        throw new DslError(
          "value-invalid",
          `the value at ${place(pointer)} is nested deeper than ${DEPTH} levels`,
          "flatten it, and check that it does not contain itself",
        );
      }
      const replaced = replace?.(value, pointer);
      if (replaced !== undefined) return toJson(replaced, replace, pointer, depth + 1);
      if (Array.isArray(value)) {
        // Holes of arrays are items, too.
        return Array.from(value, (item, index) => toJson(item, replace, pointerTo(pointer, index), depth + 1));
      }
      if (!isLiteral(value)) break;
      // Without a prototype, a member named `__proto__` is an ordinary one.
      const object: Record<string, JsonValue> = Object.create(null);
      for (const [name, member] of Object.entries(value)) {
        if (member === undefined) continue;
        if (LONE_SURROGATE.test(name)) throw notJson(name, pointerTo(pointer, name));
        object[name] = toJson(member, replace, pointerTo(pointer, name), depth + 1);
      }
      return object;
    }
  }
  throw notJson(value, pointer);
}

function notJson(value: unknown, pointer: string): DslError {
  return new DslError(
    "value-invalid",
    `the value at ${place(pointer)} is ${shown(value)}, which is not JSON`,
    "use null, booleans, finite numbers, strings, arrays and object literals",
  );
}

function shown(value: unknown): string {
  switch (typeof value) {
    case "function":
      return "a function";
    case "string":
      return "a text with half of a surrogate pair";
    case "object":
      return `an instance of ${Object.getPrototypeOf(value).constructor?.name}`;
    default:
      return String(value);
  }
}

function place(pointer: string): string {
  return pointer === "" ? "the top" : pointer;
}

/**
 * Writes a value as the registry does: two spaces, members of open objects in the order of their UTF-16 units as in
 * RFC 8785, a final newline.
 */
export function writeJson(node: Node): string {
  const parts: string[] = [];
  write(node, "\n", parts);
  parts.push("\n");
  return parts.join("");
}

function write(node: Node, indent: string, parts: string[]): void {
  if (node === null || typeof node !== "object") {
    parts.push(scalar(node));
  } else if (node instanceof Map) {
    list([...node], "{}", indent, parts, writeMember);
  } else if (Array.isArray(node)) {
    list(node, "[]", indent, parts, write);
  } else {
    const members = Object.entries(node as JsonObject).sort(([a], [b]) => compareTexts(a, b));
    list(members, "{}", indent, parts, writeMember);
  }
}

function writeMember([name, value]: readonly [string, Node], indent: string, parts: string[]): void {
  parts.push(`${JSON.stringify(name)}: `);
  write(value, indent, parts);
}

function list<T>(
  items: readonly T[],
  brackets: "[]" | "{}",
  indent: string,
  parts: string[],
  writeItem: (item: T, indent: string, parts: string[]) => void,
): void {
  if (items.length === 0) {
    parts.push(brackets);
    return;
  }
  const inner = `${indent}  `;
  items.forEach((item, index) => {
    parts.push(index === 0 ? brackets.charAt(0) : ",", inner);
    writeItem(item, inner, parts);
  });
  parts.push(indent, brackets.charAt(1));
}

function scalar(value: null | boolean | number | bigint | string): string {
  if (typeof value === "number") return numberText(value);
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
}

/** The registry writes numbers below 1e-5 with an exponent, ECMAScript only those below 1e-6. */
function numberText(value: number): string {
  const isSmall = value !== 0 && Math.abs(value) < 1e-5;
  return isSmall ? value.toExponential() : String(value === 0 ? 0 : value);
}

/** Compares texts by UTF-16 units. */
export function compareTexts(a: string, b: string): number {
  return Number(a > b) - Number(a < b);
}

/** Compares texts by code points, which is the order of their UTF-8 bytes. The order of UTF-16 differs. */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const [left, right] = [a.charCodeAt(index), b.charCodeAt(index)];
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/** Surrogates belong to code points above all other units. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x2800 : unit;
}
