/** Layout of TypeScript: values on one line if they fit, else one line per part. */

import type { JsonValue } from "../../json.ts";

/** Code that a line break may split. */
export type Code = string | Group | Chain;

/** Parts between brackets. */
class Group {
  readonly before: string;
  readonly brackets: "()" | "[]" | "{}";
  readonly parts: readonly Part[];

  constructor(before: string, brackets: "()" | "[]" | "{}", parts: readonly Part[]) {
    this.before = before;
    this.brackets = brackets;
    this.parts = parts;
  }
}

/** A part of a group: `name: code`. */
interface Part {
  readonly label: string;
  readonly code: Code;
}

/** A value followed by method calls. */
class Chain {
  readonly head: Code;
  readonly calls: readonly Group[];

  constructor(head: Code, calls: readonly Group[]) {
    this.head = head;
    this.calls = calls;
  }
}

const WIDTH = 110;
const NAME = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

/** The name of a member in an object literal. */
function memberName(name: string): string {
  // A plain `__proto__` would set the prototype.
  if (name === "__proto__") return '["__proto__"]';
  return NAME.test(name) ? name : JSON.stringify(name);
}

/** An object literal. */
export function object(members: Iterable<readonly [string, Code]>): Code {
  const parts = [...members].map(([name, code]) =>
    code === name ? { label: "", code } : { label: `${memberName(name)}: `, code },
  );
  return new Group("", "{}", parts);
}

/** An array literal. */
export function array(items: readonly Code[]): Code {
  return new Group("", "[]", items.map(unlabeled));
}

/** A call. */
export function call(callee: string, args: readonly Code[]): Code {
  return new Group(callee, "()", args.map(unlabeled));
}

/** Method calls on a value: `[["step", ["a"]]]` is `.step("a")`. */
export function chain(head: Code, calls: readonly (readonly [string, readonly Code[]])[]): Code {
  return calls.length === 0
    ? head
    : new Chain(
        head,
        calls.map(([name, args]) => new Group(`.${name}`, "()", args.map(unlabeled))),
      );
}

/** An arrow function that returns a value. */
export function arrow(parameters: string, body: Code): Code {
  const isObject = body instanceof Group && body.brackets === "{}";
  return isObject
    ? new Group(`${parameters} => (`, "{}", body.parts)
    : typeof body === "string"
      ? `${parameters} => ${body}`
      : new Group(`${parameters} => `, "()", [unlabeled(body)]);
}

const unlabeled = (code: Code): Part => ({ label: "", code });

/** JSON as a literal. `replace` gives the code of a value, if it has its own. */
export function literal(value: JsonValue, replace: (value: JsonValue) => Code | undefined = () => undefined): Code {
  const replaced = replace(value);
  if (replaced !== undefined) return replaced;
  if (Array.isArray(value)) return array(value.map((item: JsonValue) => literal(item, replace)));
  if (typeof value === "object" && value !== null) {
    return object(Object.entries(value).map(([name, member]) => [name, literal(member, replace)] as const));
  }
  return typeof value === "bigint" ? `${value}n` : JSON.stringify(value);
}

/** The text of code whose first line starts after `used` characters. */
export function print(code: Code, indent = "", used = indent.length): string {
  const line = flat(code);
  if (line !== undefined && used + line.length <= WIDTH) return line;
  if (typeof code === "string") return code;
  if (code instanceof Chain) return printChain(code, indent, used);
  return printGroup(code, indent, used);
}

/** The text on one line, unless it is a long chain. */
function flat(code: Code): string | undefined {
  if (typeof code === "string") return code;
  if (code instanceof Chain) {
    const parts = code.calls.length > 1 ? [undefined] : [flat(code.head), ...code.calls.map(flat)];
    return parts.includes(undefined) ? undefined : parts.join("");
  }
  const parts = code.parts.map(({ label, code }) => {
    const text = flat(code);
    return text === undefined ? undefined : label + text;
  });
  if (parts.includes(undefined)) return undefined;
  const space = code.brackets === "{}" && parts.length > 0 ? " " : "";
  return `${code.before}${code.brackets.charAt(0)}${space}${parts.join(", ")}${space}${closing(code)}`;
}

/** The closing bracket, and that of an arrow function around an object. */
function closing({ before, brackets }: Group): string {
  return brackets.charAt(1) + (before.endsWith("=> (") ? ")" : "");
}

function printChain({ head, calls }: Chain, indent: string, used: number): string {
  const [only] = calls;
  if (calls.length === 1 && only !== undefined) {
    const start = flat(head);
    if (start !== undefined && used + start.length + only.before.length < WIDTH) {
      return start + printGroup(only, indent, used + start.length);
    }
    const text = print(head, indent, used);
    const line = flat(only);
    if (line !== undefined && text.includes("\n") && indent.length + 1 + line.length < WIDTH) return text + line;
  }
  const inner = `${indent}  `;
  const lines = calls.map((one) => `\n${inner}${print(one, inner)}`);
  return print(head, indent, used) + lines.join("");
}

function printGroup(group: Group, indent: string, used: number): string {
  const { before, brackets, parts } = group;
  const last = parts.at(-1);
  // A last argument with its own lines keeps the others on the first line.
  if (brackets === "()" && last !== undefined && typeof last.code !== "string") {
    const others = parts.slice(0, -1).map(({ code }) => flat(code));
    const start = `${before}(${others.map((text) => `${text}, `).join("")}`;
    if (!others.includes(undefined) && used + start.length < WIDTH && isHugged(last.code)) {
      return `${start}${print(last.code, indent, used + start.length)}${closing(group)}`;
    }
  }
  const inner = `${indent}  `;
  const lines = parts.map(({ label, code }) => `${inner}${label}${print(code, inner, inner.length + label.length)},\n`);
  return `${before}${brackets.charAt(0)}\n${lines.join("")}${indent}${closing(group)}`;
}

/** Whether the code starts with a bracket on the line of the call. */
function isHugged(code: Code): boolean {
  return code instanceof Group && (code.brackets === "{}" || code.brackets === "[]");
}
