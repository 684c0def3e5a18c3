import { readFileSync } from "node:fs";

import fc from "fast-check";
import { expect, it } from "vitest";

import { validate } from "../src/validate.ts";
import { nativeRules, verdicts } from "./native.ts";

/** `make dsl-fuzz` runs 100,000 cases. */
const CASES = Number(process.env["FUZZ_CASES"] ?? 500);

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const texts = readFileSync(new URL("corpus/documents.jsonl", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => (JSON.parse(line) as { text: string }).text)
  .filter((text) => text.length < 10_000);
const values = texts.flatMap((text): Json[] => {
  try {
    return [JSON.parse(text) as Json];
  } catch {
    return [];
  }
});

/** All values inside of a value. */
function parts(value: Json): Json[] {
  return typeof value === "object" && value !== null ? [value, ...Object.values(value).flatMap(parts)] : [value];
}

const words = [...new Set(values.flatMap(parts).filter((one): one is string => typeof one === "string"))];
const names = [
  ...new Set(
    values
      .flatMap(parts)
      .filter((one) => typeof one === "object" && one !== null && !Array.isArray(one))
      .flatMap((one) => Object.keys(one as object)),
  ),
];

/** A value that may stand at any place of a file. */
const part: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom(...values).chain((value) => fc.constantFrom(...parts(value))),
  fc.constantFrom<Json[]>(...words),
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>,
  fc.string({ unit: "grapheme" }),
  fc.constantFrom<Json[]>(null, 0, -1, 1.5, 1e17, 9007199254740993, "", "1.0.0-rc.1", "#A:1.0.0", "#/$defs/a", [], {}),
);

interface Mutation {
  readonly place: number;
  readonly kind: "remove" | "replace" | "add" | "rename" | "repeat";
  readonly name: string;
  readonly value: Json;
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  place: fc.nat(),
  kind: fc.constantFrom("remove", "replace", "add", "rename", "repeat"),
  name: fc.oneof(fc.constantFrom(...names), fc.string({ unit: "grapheme" })),
  value: part,
});

/** Changes one container inside of a copy of a file. */
function mutated(file: Json, { place, kind, name, value }: Mutation): Json {
  const copy = structuredClone(file);
  const containers = parts(copy).filter(
    (one): one is Json[] | { [name: string]: Json } => typeof one === "object" && one !== null,
  );
  const target = containers[place % containers.length];
  if (target === undefined) return value;
  const keys = Object.keys(target);
  const key = keys[place % Math.max(keys.length, 1)];
  if (Array.isArray(target)) {
    const at = Number(key ?? 0);
    if (kind === "remove") target.splice(at, 1);
    else if (kind === "repeat" && target.length > 0) target.splice(at, 0, structuredClone(target[at] as Json));
    else if (kind === "add") target.push(value);
    else target[at] = value;
  } else if (key === undefined || kind === "add") {
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  } else if (kind === "remove") {
    delete target[key];
  } else if (kind === "rename") {
    const old = target[key] as Json;
    delete target[key];
    Object.defineProperty(target, name, { value: old, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
  return copy;
}

/** Mutated files, some of them with a changed character. */
const text: fc.Arbitrary<string> = fc
  .record({
    file: fc.constantFrom(...values),
    mutations: fc.array(mutation, { minLength: 1, maxLength: 3 }),
    slip: fc.option(
      fc.record({ at: fc.nat(), character: fc.constantFrom("", '"', "{", "}", ",", "\\", "0", "e", "\u200b", "😀") }),
      { freq: 10 },
    ),
  })
  .map(({ file, mutations, slip }) => {
    const whole = JSON.stringify(mutations.reduce(mutated, file));
    if (slip === null) return whole;
    const at = slip.at % (whole.length + 1);
    return whole.slice(0, at) + slip.character + whole.slice(at + 1);
  });

it(
  "module and native rules agree about mutated files",
  async () => {
    const native = nativeRules();
    try {
      await fc.assert(
        fc.asyncProperty(text, async (file) => {
          const [{ diagnostics }, wanted] = [await validate(file), await native.check(file)];
          expect(verdicts(diagnostics)).toEqual(verdicts(wanted));
        }),
        { numRuns: CASES },
      );
    } finally {
      native.close();
    }
  },
  4 * 60 * 60_000,
);
