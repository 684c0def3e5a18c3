/** JSON Schemas: plain objects, those of other libraries, and the types that they describe. */

import { DslError } from "./errors.ts";
import { isObject, pointerTo, toJson, type JsonObject } from "./json.ts";

/** The key of the type that a value describes. It exists only for the compiler. */
declare const described: unique symbol;

/** A value that describes the type `T`. */
export interface Describes<T> {
  readonly [described]?: T;
}

/** A reference to a registered schema, which JSON Schemas may contain anywhere. */
export interface SchemaReference<T = unknown> extends Describes<T> {
  /** `#SearchQuery:1.0.0`. */
  readonly $ref: string;
  readonly kind: "schema";
}

/**
 * A schema of a library with the Standard JSON Schema interface, such as Zod from 4.2.
 *
 * The interface is that of https://standardschema.dev/json-schema.
 */
export interface StandardJsonSchema<T = unknown> {
  readonly "~standard": {
    readonly types?: { readonly input: T; readonly output: unknown } | undefined;
    readonly jsonSchema: {
      readonly input: (options: {
        readonly target: "draft-2020-12";
        readonly libraryOptions?: Record<string, unknown> | undefined;
      }) => Record<string, unknown>;
    };
  };
}

/** A JSON Schema. Schemas of TypeBox before 1.0 are JSON Schemas for the compiler, too. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

/** A schema of TypeBox from 1.0: a JSON Schema with a hidden member, whose type has no index signature. */
export interface TypeBoxSchema {
  readonly "~kind": string;
}

/** Every form of a schema: registered, of another library, or plain JSON Schema. */
export type SchemaSource = SchemaReference | StandardJsonSchema | TypeBoxSchema | JsonSchema;

/** The type of the values that a schema accepts. `any`: the schema does not determine it. */
export type Infer<S> = 0 extends 1 & S
  ? any
  : S extends Describes<infer T> & { readonly kind: "schema" }
    ? T
    : S extends StandardJsonSchema<infer T>
      ? T
      : S extends { readonly static: infer T; readonly params: unknown }
        ? T
        : S extends { readonly const: infer C }
          ? C
          : S extends { readonly enum: readonly (infer E)[] }
            ? E
            : S extends { readonly anyOf: readonly (infer U)[] }
              ? Infer<U>
              : S extends { readonly oneOf: readonly (infer U)[] }
                ? Infer<U>
                : S extends { readonly type: infer N }
                  ? N extends readonly (infer E)[]
                    ? OfType<E, S>
                    : OfType<N, S>
                  : S extends { readonly properties: object }
                    ? OfObject<S>
                    : any;

type OfType<N, S> = N extends "string"
  ? string
  : N extends "number" | "integer"
    ? number
    : N extends "boolean"
      ? boolean
      : N extends "null"
        ? null
        : N extends "array"
          ? S extends { readonly items: infer I }
            ? Infer<I>[]
            : any[]
          : N extends "object"
            ? OfObject<S>
            : any;

type OfObject<S> = S extends { readonly properties: infer P }
  ? Flat<
      { [K in keyof P as K extends RequiredNames<S> ? K : never]: Infer<P[K]> } & {
        [K in keyof P as K extends RequiredNames<S> ? never : K]?: Infer<P[K]>;
      }
    >
  : S extends { readonly additionalProperties: infer A extends object }
    ? { [name: string]: Infer<A> }
    : { [name: string]: any };

type RequiredNames<S> = S extends { readonly required: readonly (infer R)[] } ? R : never;

type Flat<T> = { [K in keyof T]: T[K] };

const DRAFT = "https://json-schema.org/draft/2020-12/schema";

/** A schema as the JSON of a document. */
export function schemaJson(source: SchemaSource, what: string): JsonObject | boolean {
  const json = toJson(source, (value, pointer) => replaceSchema(value, pointer, what));
  if (isObject(json) || typeof json === "boolean") return json;
  throw new DslError("schema-invalid", `${what} is not a JSON Schema`, "write an object or a boolean");
}

/** The JSON of a schema of the builder or of another library. */
function replaceSchema(value: object, pointer: string, what: string): unknown {
  if ("$ref" in value && "kind" in value && value.kind === "schema") return { $ref: value.$ref };
  return "~standard" in value ? standardJson(value as Partial<StandardJsonSchema>, pointer, what) : undefined;
}

type Convert = StandardJsonSchema["~standard"]["jsonSchema"]["input"];

function standardJson(schema: Partial<StandardJsonSchema>, pointer: string, what: string): unknown {
  const convert = schema["~standard"]?.jsonSchema?.input;
  if (convert === undefined) {
    throw new DslError(
      "schema-invalid",
      "the schema library does not convert its schemas to JSON Schema",
      "use a version with the Standard JSON Schema interface (Zod from 4.2), or convert the schema yourself",
    );
  }
  try {
    const { $schema, ...rest } = convert({ target: "draft-2020-12" });
    // A schema with an id is the base of its own references.
    const moved = pointer === "" || "$id" in rest ? rest : rebased(rest, fragment(pointer));
    // The registry's default draft needs no name.
    return $schema === undefined || $schema === DRAFT ? moved : { $schema, ...moved };
  } catch (error) {
    const at = pointer + unrepresentable(convert);
    throw new DslError(
      "schema-invalid",
      `${what} has no JSON Schema${at === "" ? "" : ` at ${at}`}: ${(error as Error).message}`,
      "use types that JSON can represent, or convert the schema yourself",
      { cause: error },
    );
  }
}

/** The pointer to the part of a schema of Zod that JSON cannot represent. Other libraries do not name it. */
function unrepresentable(convert: Convert): string {
  let pointer = "";
  const unrepresentable = ({ path }: { readonly path: readonly (string | number)[] }): "throw" => {
    pointer = path.reduce(pointerTo, "");
    return "throw";
  };
  try {
    // Older versions of Zod take each value but "throw" for "any", so the option needs its own conversion.
    convert({ target: "draft-2020-12", libraryOptions: { unrepresentable } });
  } catch {
    // The first conversion has the reason.
  }
  return pointer;
}

/** The parts of a schema inside of another one, with references to its own parts at their new place. */
function rebased<T>(part: T, base: string): T;
function rebased(part: unknown, base: string): unknown {
  if (Array.isArray(part)) return part.map((one: unknown) => rebased(one, base));
  if (typeof part !== "object" || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([name, member]: [string, unknown]) => {
      const isOwn = name === "$ref" && typeof member === "string" && /^#(\/|$)/.test(member);
      return [name, isOwn ? base + member.slice(1) : rebased(member, base)];
    }),
  );
}

/** A JSON pointer as the fragment of a URI. */
function fragment(pointer: string): string {
  return `#${encodeURI(pointer).replaceAll("#", "%23")}`;
}
