/** Code of compositions. */

import { isObject, type JsonObject, type JsonValue } from "../../json.ts";
import { arrow, call, chain, literal, object, type Code } from "./layout.ts";

/** A tool or a skill that a composition calls. */
export interface Used {
  readonly type: "tool" | "agent";
  readonly name: string;
  readonly skill?: string;
}

/** The surroundings of a composition. */
export interface Surroundings {
  /** The code of a callee. `undefined`: the composition does not declare it. */
  readonly callee: (used: Used) => Code | undefined;
  /** The code of the schema of the tool's input. */
  readonly input: Code | undefined;
  /** Records an imported function. */
  readonly imports: Set<string>;
  /** The callees in the order of use. */
  readonly used: Used[];
}

/** A part of a composition that builders cannot write. */
class Unusual extends Error {}

/** The code of a composition. `undefined`: it has parts that the builder cannot write. */
export function compositionCode(spec: JsonObject, around: Surroundings): Code | undefined {
  try {
    return new Writer(around).pattern(spec, around.input);
  } catch (error) {
    if (error instanceof Unusual) return undefined;
    throw error;
  }
}

/** The members of an object, which has no others. */
function members(value: JsonValue | undefined, names: readonly string[]): JsonObject {
  if (!isObject(value) || Object.keys(value).some((name) => !names.includes(name))) throw new Unusual();
  return value;
}

/** The name and the value of the only member of an object. */
function only(value: JsonValue | undefined): readonly [string, JsonValue] {
  const entries = isObject(value) ? Object.entries(value) : [];
  const [first] = entries;
  if (first === undefined || entries.length > 1) throw new Unusual();
  return first;
}

function text(value: JsonValue | undefined): string {
  if (typeof value !== "string") throw new Unusual();
  return value;
}

/** The callback of a binding, and the sources that it uses. */
class Sources {
  readonly #used = new Set<string>();
  /** The ids of the visible steps. */
  readonly #steps: readonly string[];

  constructor(steps: readonly string[]) {
    this.#steps = steps;
  }

  /** Compensations may also use later steps, which are not defined at their place. */
  has(step: string): boolean {
    return this.#steps.includes(step);
  }

  use(source: "input" | "steps" | "error"): string {
    this.#used.add(source);
    return source;
  }

  callback(body: Code): Code {
    const names = ["input", "steps", "error"].filter((name) => this.#used.has(name));
    return arrow(names.length === 0 ? "()" : `({ ${names.join(", ")} })`, body);
  }
}

const SEGMENT = /\.([A-Za-z_][A-Za-z0-9_]*)|\[(0|[1-9]\d*)\]|\['((?:[^'\\]|\\['\\])*)'\]/y;

class Writer {
  readonly #around: Surroundings;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  pattern(spec: JsonValue | undefined, input: Code | undefined): Code {
    const [name, fields] = only(spec);
    switch (name) {
      case "pipeline":
        return this.#pipeline(members(fields, ["steps"]), input);
      case "saga":
        return this.#saga(members(fields, ["steps", "sagaIdPath", "timeoutMs", "output"]), input);
      case "scatterGather":
        return this.#scatterGather(members(fields, ["targets", "aggregation", "timeoutMs", "failFast"]), input);
      case "filter":
        return this.#call("filter", [this.#predicate(members(fields, ["predicate"])["predicate"])]);
      case "schemaMap":
        return this.#call("schemaMap", [mappingsCode(fields) ?? raise()]);
      case "mapEach":
        return this.#decorated("mapEach", fields, ["maxConcurrency"]);
      case "retry":
        return this.#decorated("retry", fields, ["maxAttempts", "backoff", "jitter", "retryIf", "attemptTimeoutMs"]);
      case "timeout":
        return this.#decorated("timeout", fields, ["durationMs", "fallback", "message"]);
      case "cache":
        return this.#decorated("cache", fields, ["keyPaths", "ttlSeconds", "staleWhileRevalidateSeconds", "cacheIf"]);
      case "idempotent":
        return this.#decorated("idempotent", fields, ["keyPaths", "onDuplicate", "ttlSeconds"]);
      case "circuitBreaker":
        return this.#decorated("circuitBreaker", fields, [
          "name",
          "failureThreshold",
          "failureWindowSeconds",
          "resetTimeoutSeconds",
          "successThreshold",
          "fallback",
          "failureIf",
        ]);
      case "deadLetter":
        return this.#decorated("deadLetter", fields, ["deadLetterTool", "rethrow", "maxAttempts", "backoff"]);
      case "claimCheck":
        return this.#claimCheck(members(fields, ["storeTool", "inner", "retrieveTool", "retrieveAtEnd"]));
    }
    throw new Unusual();
  }

  #call(name: string, args: readonly Code[]): Code {
    this.#around.imports.add(name);
    return call(name, args);
  }

  #pipeline({ steps }: JsonObject, input: Code | undefined): Code {
    const ids = idsOf(steps);
    const calls = list(steps).map((step, index) => {
      const { id, operation, input: binding } = members(step, ["id", "operation", "input"]);
      const args = [literal(text(id)), this.#operation(operation)];
      return ["step", binding === undefined ? args : [...args, this.#binding(binding, ids.slice(0, index))]] as const;
    });
    return chain(this.#call("pipeline", input === undefined ? [] : [input]), calls);
  }

  #saga({ steps, sagaIdPath, timeoutMs, output }: JsonObject, input: Code | undefined): Code {
    const options = [
      ...(sagaIdPath === undefined ? [] : [["id", arrow("(input)", this.#path("input", text(sagaIdPath)))] as const]),
      ...(timeoutMs === undefined ? [] : [["timeoutMs", literal(timeoutMs)] as const]),
    ];
    const args = options.length === 0 ? (input === undefined ? [] : [input]) : [input ?? "true", object(options)];
    const ids = idsOf(steps);
    const calls = list(steps).map((step, index) => ["step", this.#sagaStep(step, ids.slice(0, index))] as const);
    const end = output === undefined ? [] : [["output", [this.#binding(output, ids)]] as const];
    return chain(this.#call("saga", args), [...calls, ...end]);
  }

  #sagaStep(step: JsonValue, earlier: readonly string[]): Code[] {
    const { id, name, action, compensate, input, compensateInput, compensateOnUnknown } = members(step, [
      "id",
      "name",
      "action",
      "compensate",
      "input",
      "compensateInput",
      "compensateOnUnknown",
    ]);
    const optional = <T extends JsonValue>(label: string, value: T | undefined, code: (value: T) => Code) =>
      value === undefined ? [] : [[label, code(value)] as const];
    return [
      literal(text(id)),
      object([
        ["name", literal(text(name))],
        ["action", this.#operation(action)],
        ...optional("compensate", compensate, (value) => this.#operation(value)),
        ...optional("input", input, (value) => this.#binding(value, earlier)),
        ...optional("compensateInput", compensateInput, (value) => this.#binding(value, [...earlier, text(id)])),
        ...optional("compensateOnUnknown", compensateOnUnknown, literal),
      ]),
    ];
  }

  #scatterGather({ targets, aggregation, timeoutMs, failFast }: JsonObject, input: Code | undefined): Code {
    const { ops } = members(aggregation, ["ops"]);
    const calls = list(targets).map((target) => {
      const { input: binding, ...operation } = isObject(target) ? target : raise();
      const code = this.#operation(operation);
      return ["target", binding === undefined ? [code] : [code, this.#binding(binding, [])]] as const;
    });
    const options = object([
      ["aggregation", literal(ops ?? raise())],
      ...(timeoutMs === undefined ? [] : [["timeoutMs", literal(timeoutMs)] as const]),
      ...(failFast === undefined ? [] : [["failFast", literal(failFast)] as const]),
    ]);
    return chain(this.#call("scatterGather", input === undefined ? [options] : [options, input]), calls);
  }

  /** A pattern with one inner operation. */
  #decorated(name: string, fields: JsonValue, options: readonly string[]): Code {
    const { inner, ...rest } = members(fields, ["inner", ...options]);
    const operation = this.#operation(inner);
    const codes = Object.entries(rest).map(([option, value]) => {
      if (option === "fallback") return [option, this.#operation(value)] as const;
      if (option === "deadLetterTool") return [option, this.#callee({ type: "tool", name: text(value) })] as const;
      return [option, option.endsWith("If") ? this.#predicate(value) : literal(value)] as const;
    });
    return this.#call(name, codes.length === 0 ? [operation] : [operation, object(codes)]);
  }

  #claimCheck({ storeTool, inner, retrieveTool, retrieveAtEnd }: JsonObject): Code {
    const store = this.#callee({ type: "tool", name: text(storeTool) });
    const operation = this.#operation(inner);
    const retrieve = this.#callee({ type: "tool", name: text(retrieveTool) });
    const options = object([
      ["storeTool", store],
      ["retrieveTool", retrieve],
      ["retrieveAtEnd", literal(retrieveAtEnd ?? raise())],
    ]);
    return this.#call("claimCheck", [operation, options]);
  }

  #operation(operation: JsonValue | undefined): Code {
    const [type, value] = only(operation);
    if (type === "pattern") return this.pattern(value, undefined);
    const { name, skill } = members(value, type === "agent" ? ["name", "skill"] : ["name"]);
    if (type === "tool") return this.#callee({ type, name: text(name) });
    return this.#callee({ type: type === "agent" ? type : raise(), name: text(name), skill: text(skill) });
  }

  #callee(used: Used): Code {
    this.#around.used.push(used);
    return this.#around.callee(used) ?? raise();
  }

  #predicate(value: JsonValue | undefined): Code {
    const { field, op, value: compared } = members(value, ["field", "op", "value"]);
    return this.#call("where", [literal(text(field)), literal(text(op)), literal(compared ?? null)]);
  }

  #binding(binding: JsonValue, steps: readonly string[]): Code {
    const sources = new Sources(steps);
    return sources.callback(this.#bound(binding, sources));
  }

  #bound(binding: JsonValue, sources: Sources): Code {
    const [type, value] = only(binding);
    switch (type) {
      case "path":
        return this.#path(sources.use("input"), text(value));
      case "error":
        return this.#path(sources.use("error"), text(members(value, ["path"])["path"]));
      case "reference": {
        const { step, path } = members(value, ["step", "path"]);
        const name = text(step);
        if (!sources.has(name)) break;
        const root = /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
        return this.#path(`${sources.use("steps")}${root}`, text(path));
      }
      case "constant":
        return isObject(value) ? this.#call("constant", [literal(value)]) : literal(value);
      case "construct": {
        const { fields } = members(value, ["fields"]);
        if (!isObject(fields) || Object.hasOwn(fields, "$comment")) throw new Unusual();
        return object(Object.entries(fields).map(([name, field]) => [name, this.#bound(field, sources)] as const));
      }
    }
    // Another spelling of a binding.
    return this.#call("raw", [literal(binding)]);
  }

  /** The code of a JSONPath from a root. */
  #path(root: string, path: string): Code {
    let code = root;
    SEGMENT.lastIndex = 1;
    while (path.startsWith("$") && SEGMENT.lastIndex < path.length) {
      const found = SEGMENT.exec(path);
      if (found === null || !isCanonical(found))
        return this.#call("select", [root, literal(path.startsWith("$") ? path : raise())]);
      const [, name, , quoted] = found;
      code += name === undefined ? `[${JSON.stringify(unescaped(quoted))}]` : `.${name}`;
    }
    return path.startsWith("$") ? code : raise();
  }
}

function unescaped(quoted: string | undefined): string {
  return (quoted ?? "").replace(/\\(['\\])/g, "$1");
}

/** Whether the builder writes a segment of a path in the same way. Indexes may be `undefined` for the compiler. */
function isCanonical([, , index, quoted]: RegExpExecArray): boolean {
  if (quoted === undefined) return index === undefined;
  const name = unescaped(quoted);
  return !/^(?:[A-Za-z_][A-Za-z0-9_]*|0|[1-9]\d*)$/.test(name);
}

/** The ids of steps, of which two must not be equal. */
function idsOf(steps: JsonValue | undefined): readonly string[] {
  const ids = list(steps).map((step) => text(isObject(step) ? step["id"] : undefined));
  return new Set(ids).size === ids.length ? ids : raise();
}

function list(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : raise();
}

function raise(): never {
  throw new Unusual();
}

/** The code of the fields of mappings. `undefined`: they have another form. */
export function mappingsCode(value: JsonValue): Code | undefined {
  if (!isObject(value) || Object.keys(value).join() !== "mappings" || !isObject(value["mappings"])) return undefined;
  const sources = Object.entries(value["mappings"]);
  if (!sources.every(([, source]) => isObject(source))) return undefined;
  return object(
    sources.map(([field, source]) => {
      const isPath = isObject(source) && Object.keys(source).join() === "path" && typeof source["path"] === "string";
      return [field, isPath ? literal(source["path"] as string) : literal(source)] as const;
    }),
  );
}

/** The code of a composition in the grammar. */
export function rawCode(spec: JsonObject, imports: Set<string>): Code {
  imports.add("rawSpec");
  return call("rawSpec", [literal(spec)]);
}
