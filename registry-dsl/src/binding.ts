/** Bindings: the origins of inputs, as typed paths into the input of a pattern and the results of its steps. */

import { DslError } from "./errors.ts";
import { isLiteral, pointerTo, toJson, type JsonValue } from "./json.ts";
import type { CompensationBinding as Binding } from "./types.ts";

/** The key of the type of a bound value. It exists only for the compiler. */
declare const yields: unique symbol;
/** The key of the path behind a proxy. */
const origin: unique symbol = Symbol("origin");

/** A binding whose value has the type `T`. */
export interface Value<T> {
  readonly [yields]: T;
}

/** A path into a value of type `T`. Its members are paths. The paths into an unknown value are not checked. */
export type Path<T> = 0 extends 1 & T ? any : Value<NonNullable<T>> & Members<NonNullable<T>>;

type Members<T> = T extends readonly (infer U)[]
  ? { readonly [index: number]: Path<U> }
  : T extends object
    ? { readonly [K in keyof T & (string | number)]-?: Path<T[K]> }
    : unknown;

/**
 * A type without the distinctions that only the registry can prove: texts of an enumeration, optional members and
 * `null`. The registry's flow proof reports them.
 */
type Loose<T> = 0 extends 1 & T
  ? any
  : T extends string
    ? string
    : T extends number
      ? number
      : T extends boolean
        ? boolean
        : T extends readonly (infer U)[]
          ? readonly Loose<U>[]
          : T extends object
            ? { readonly [K in keyof T]?: Loose<T[K]> }
            : never;

/** The bindings that may supply a value of type `T`: paths, constants, and objects of bindings. */
export type Bound<T> = 0 extends 1 & T
  ? unknown
  : | Value<Loose<T>>
    | (T extends readonly (infer U)[] ? readonly U[] : T extends object ? { readonly [K in keyof T]: Bound<T[K]> } : T);

/** Rejects the members of a binding that its target does not have. */
export type NoOthers<B, T> = 0 extends (1 & B) | (1 & T)
  ? unknown
  : B extends Value<any>
    ? unknown
    : T extends readonly unknown[]
      ? unknown
      : T extends object
        ? { readonly [K in Exclude<keyof B, keyof T>]: never }
        : unknown;

/** The root of paths. */
type Root = { readonly from: "input" } | { readonly from: "step"; readonly step: string } | { readonly from: "error" };

/** The target of proxies. Instances of a class are not taken for object literals. */
export class BindingSource {}

/** A binding in the grammar of compositions. */
class Written {
  readonly binding: Binding;

  constructor(binding: Binding) {
    this.binding = binding;
  }
}

/** A path and the pattern that it belongs to. */
class Origin {
  readonly scope: object;
  readonly root: Root;
  readonly path: string;

  constructor(scope: object, root: Root, path: string) {
    this.scope = scope;
    this.root = root;
    this.path = path;
  }

  /** The binding in the grammar of compositions. */
  get binding(): Binding {
    const { root, path } = this;
    switch (root.from) {
      case "input":
        return { path };
      case "step":
        return { reference: { step: root.step, path } };
      case "error":
        return { error: { path } };
    }
  }
}

/** A path from a root of a pattern. `scope` identifies the pattern. */
export function pathFrom<T>(scope: object, root: Root): Path<T> {
  return proxy(new Origin(scope, root, "$"));
}

function proxy<T>(here: Origin): Path<T> {
  const get = (_: object, member: string | symbol): unknown => {
    if (member === origin) return here;
    return typeof member === "symbol" ? undefined : proxy(new Origin(here.scope, here.root, here.path + step(member)));
  };
  return new Proxy(new BindingSource(), { get, has: (_, member) => member === origin }) as Path<T>;
}

/** The segment of a JSONPath (RFC 9535) for a member or an index. */
function step(member: string): string {
  if (/^(0|[1-9]\d*)$/.test(member)) return `[${member}]`;
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(member)) return `.${member}`;
  return `['${member.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}']`;
}

/** The values that a JSONPath (RFC 9535) selects, relative to a path: `select(input, "$.items[*].id")`. */
export function select<T = any>(from: Value<any>, path: `$${string}`): Path<T> {
  const here = (from as { [origin]?: Origin })[origin];
  if (here === undefined)
    throw new DslError("value-invalid", "the first argument of `select` is not a path", "pass `input` or a step");
  return proxy(new Origin(here.scope, here.root, here.path + path.slice(1)));
}

/** A constant. Only objects need it: other plain values are constants. */
export function constant<const T>(value: T): Value<T> {
  return raw({ constant: constantOf(value, "") });
}

/** A binding in the grammar of compositions. */
export function raw<T = any>(binding: Binding): Value<T> {
  return new Written(binding) as unknown as Value<T>;
}

/** The JSONPath of a path from a pattern's input, such as a key. */
export function inputPath(value: unknown, scope: object): string {
  const binding = bindingOf(value, scope);
  if ("path" in binding) return binding.path;
  throw new DslError("path-foreign", "the path does not start at the input of the pattern", "use a path from `input`");
}

/** The binding of a value in the pattern `scope`. */
export function bindingOf(value: unknown, scope: object, pointer = ""): Binding {
  if (typeof value === "object" && value !== null) {
    if (origin in value) return ownBinding(value[origin] as Origin, scope, pointer);
    if (value instanceof Written) return value.binding;
    if (isLiteral(value)) {
      const fields: { [name: string]: Binding } = Object.create(null);
      for (const [name, member] of Object.entries(value)) {
        if (member !== undefined) fields[name] = bindingOf(member, scope, pointerTo(pointer, name));
      }
      return { construct: { fields } };
    }
  }
  return { constant: constantOf(value, pointer) };
}

function ownBinding(path: Origin, scope: object, pointer: string): Binding {
  if (path.scope === scope) return path.binding;
  const at = pointer === "" ? "the input" : pointer;
  throw new DslError(
    "path-foreign",
    `the path ${path.path} at ${at} belongs to another pattern`,
    "use the paths that the callback of this step receives",
  );
}

/** Lists are constants. Constants contain no paths. */
function constantOf(value: unknown, pointer: string): JsonValue {
  return toJson(
    value,
    (object) => {
      if (!(origin in object || object instanceof Written)) return undefined;
      throw new DslError(
        "value-invalid",
        `the constant at ${pointer === "" ? "the input" : pointer} contains a path`,
        "bind a path to a whole member; lists and constants have no paths",
      );
    },
    pointer,
  );
}
