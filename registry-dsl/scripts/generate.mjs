// Generates src/types.ts from the JSON Schema of registry files: node scripts/generate.mjs [SCHEMA] [OUTPUT]
import { readFile, writeFile } from "node:fs/promises";

import { compile } from "json-schema-to-typescript";

const SCHEMA = new URL("../../crates/registry-core/schemas/registry.schema.json", import.meta.url);
const TYPES = new URL("../src/types.ts", import.meta.url);

const BANNER = `/**
 * The documents of a registry file.
 *
 * Generated from the JSON Schema of the registry by \`npm run generate\`. Do not edit.
 */
`;

/** The text of src/types.ts. */
export async function generate(schemaFile = SCHEMA) {
  const schema = JSON.parse(await readFile(schemaFile, "utf8"));
  const isUsed = ([name]) => !UNUSED.includes(name);
  const definitions = Object.fromEntries(
    Object.entries(schema.$defs)
      .filter(isUsed)
      .map(([name, one]) => [name, simple(one)]),
  );
  const root = { ...simple(schema), title: "RegistryFile", $defs: definitions };
  const types = await compile(root, "RegistryFile", {
    bannerComment: BANNER,
    format: true,
    ignoreMinAndMaxItems: true,
    unreachableDefinitions: true,
    additionalProperties: false,
    style: { printWidth: 120 },
  });
  // The compiler names the origin of each definition, and spreads short comments over lines.
  return types
    .replace(/ \*\n \* This interface was referenced by [^/]*?(?= \*\/)/g, "")
    .replace(/\/\*\*\n \* This interface was referenced by [^/]*? \*\/\n/g, "")
    .replace(/\/\*\*\n *\* ([^\n]*)\n *\*\//g, "/** $1 */");
}

/** Definitions for rules and for members that builders do not write. */
const UNUSED = ["Comment", "LifecycleRule", "ListValue", "Record"];

/** Constraints between members, which types cannot express. */
const CONSTRAINTS = [
  "$schema",
  "$defs",
  "if",
  "then",
  "else",
  "allOf",
  "propertyNames",
  "pattern",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "minLength",
  "maxLength",
];

const isNull = (one) => one === null || one?.type === "null";

/** A schema with the forms that builders write: without null, comments, former members and members of exports. */
function simple(schema) {
  if (typeof schema !== "object") return schema;
  // The compiler copies a definition for each description of a reference, so references are types by name.
  const { description, $ref } = schema;
  if ($ref) return { description, tsType: $ref.replace("#/$defs/", "") };
  if (Object.keys(schema).every((name) => name === "description")) return { description, tsType: "unknown" };
  const kept = Object.entries(schema).filter(([name]) => !CONSTRAINTS.includes(name));
  let { oneOf, ...found } = Object.fromEntries(kept);
  if (Array.isArray(found.type)) found.type = found.type.filter((name) => name !== "null");
  if (found.type?.length === 1) [found.type] = found.type;
  if (found.enum) found.enum = found.enum.filter((one) => !isNull(one));
  if (found.items) found.items = simple(found.items);
  if (found.additionalProperties) found.additionalProperties = simple(found.additionalProperties);
  if (found.properties) found.properties = properties(found.properties);
  // Open objects, such as metadata.
  if (found.type === "object" && schema.additionalProperties === undefined) found.additionalProperties = true;
  if (found.type?.includes("boolean") && found.type.includes("object")) {
    return { description, tsType: "{ [keyword: string]: unknown } | boolean" };
  }
  if (found.anyOf) {
    const { anyOf, ...rest } = found;
    // Alternatives of required members are constraints, too.
    if (anyOf.every((one) => one.required)) return rest;
    const variants = anyOf.filter((one) => !isNull(one)).map(simple);
    found = variants.length === 1 ? { ...variants[0], ...rest } : { ...rest, anyOf: variants };
  }
  return oneOf ? variants(found, oneOf) : found;
}

function properties(members) {
  const isWritten = ([name, member]) =>
    name !== "$comment" &&
    name !== "$schema" &&
    !member.deprecated &&
    !/^(Former|Member of an export)/.test(member.description);
  return Object.fromEntries(
    Object.entries(members)
      .filter(isWritten)
      .map(([name, member]) => [name, simple(member)]),
  );
}

/** An object with exactly one of several members is a union of objects. */
function variants({ properties, description, ...rest }, oneOf) {
  const names = oneOf.flatMap(({ required }) => required ?? []);
  const common = Object.entries(properties ?? {}).filter(([name]) => !names.includes(name));
  // A tool has many members next to its implementation; the builder sets that.
  if (names.length !== oneOf.length || common.length > 1) return { ...rest, description, properties };
  const variant = (name) => ({
    type: "object",
    properties: { [name]: properties[name], ...Object.fromEntries(common) },
    required: [name],
    additionalProperties: false,
  });
  return { description, anyOf: names.map(variant) };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [schemaFile, output] = process.argv.slice(2);
  await writeFile(output ?? TYPES, await generate(schemaFile));
}
