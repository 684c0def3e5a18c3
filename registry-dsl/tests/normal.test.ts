import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { compareCodePoints, toJson, writeJson, type JsonObject, type JsonValue, type Node } from "../src/json.ts";
import { compareKeys, KINDS, PLURALS } from "../src/key.ts";
import { normalDocument } from "../src/normal.ts";
import { compareVersions } from "../src/version.ts";

const read = (name: string): string => readFileSync(new URL(`data/${name}`, import.meta.url), "utf8");

/** A file in normal form. */
function normal(text: string): string {
  const file = JSON.parse(text) as { readonly [list: string]: JsonObject[] };
  const lists = KINDS.map((kind) => {
    const key = ({ name, version }: JsonObject) => ({ kind, name: String(name), version: String(version) });
    const sorted = [...(file[PLURALS[kind]] ?? [])].sort((a, b) => compareKeys(key(a), key(b)));
    return [PLURALS[kind], sorted.map((document) => normalDocument(kind, document))] as const;
  });
  return writeJson(new Map<string, Node>([["schemaVersion", "2.0"], ...lists]));
}

describe("normal form", () => {
  it("other spellings become the form of the registry's writer", () => {
    expect(normal(read("other-forms.json"))).toBe(read("other-forms.normal.json"));
  });

  it("normal form is stable", () => {
    for (const file of ["other-forms.normal.json"]) expect(normal(read(file))).toBe(read(file));
  });

  it("invalid values stay unchanged", () => {
    const invalid: JsonObject = {
      name: 1,
      version: null,
      appliesTo: { tools: [], skills: [] },
      unknown: { b: 1, a: null },
      rates: [{ per: ["x"], window: "1h" }],
      budgets: [{ limit: "01", window: "PT", anchor: "today", alertAt: ["a"] }, 7],
      maxStaleness: "PT0S",
      approval: { approvers: ["bob"] },
      inspection: { arguments: { credential: "log", other: "log" } },
    };
    const found = JSON.parse(writeJson(normalDocument("policy", invalid))) as JsonValue;
    expect(found).toEqual({ ...invalid, version: undefined });
  });
});

describe("JSON", () => {
  it("members are sorted by UTF-16 units", () => {
    const members = Object.keys(
      JSON.parse(writeJson({ "\ue000": 1, "😀": 2, z: 3, "\uffff": 4, é: 5, "": 6 })) as object,
    );
    expect(members).toEqual(["", "z", "é", "😀", "\ue000", "\uffff"]);
  });

  it("code points order texts as their UTF-8 bytes do", () => {
    const texts = ["\ue000", "😀", "z", "\uffff", "é", "", "za", "\ud7ff"];
    const bytes = [...texts].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(texts.sort(compareCodePoints)).toEqual(bytes);
  });

  it("members of structs keep their order", () => {
    expect(
      writeJson(
        new Map<string, Node>([
          ["b", { d: 1, c: [] }],
          ["a", {}],
        ]),
      ),
    ).toBe('{\n  "b": {\n    "c": [],\n    "d": 1\n  },\n  "a": {}\n}\n');
  });

  it("integers beyond doubles keep their digits", () => {
    expect(writeJson(toJson({ a: 9007199254740993n }))).toBe('{\n  "a": 9007199254740993\n}\n');
  });

  it("prototypes are ordinary members", () => {
    const value = JSON.parse('{"__proto__":{"a":1},"constructor":2}') as JsonValue;
    expect(writeJson(toJson(value))).toBe('{\n  "__proto__": {\n    "a": 1\n  },\n  "constructor": 2\n}\n');
  });
});

describe("versions", () => {
  it("versions follow semver with build metadata", () => {
    const sorted = [
      "1.0.0-0",
      "1.0.0-1",
      "1.0.0-10",
      "1.0.0-alpha",
      "1.0.0-alpha.1",
      "1.0.0-alpha.beta",
      "1.0.0-rc.2",
      "1.0.0-rc.10",
      "1.0.0",
      "1.0.0+0",
      "1.0.0+00",
      "1.0.0+1",
      "1.0.0+1.a",
      "1.0.0+a",
      "1.0.0+a.1",
      "1.0.1",
      "1.2.0",
      "1.10.0",
      "2.0.0",
      "18446744073709551615.0.0",
    ];
    expect(compareVersions("1.0.0", "01.0.0"), "invalid, and not the same version").not.toBe(0);
    for (const [index, version] of sorted.entries()) {
      expect(compareVersions(version, version)).toBe(0);
      for (const higher of sorted.slice(index + 1)) {
        expect(Math.sign(compareVersions(version, higher)), `${version} ${higher}`).toBe(-1);
        expect(Math.sign(compareVersions(higher, version)), `${higher} ${version}`).toBe(1);
      }
    }
  });

  it("texts that are no versions come last", () => {
    expect(["x", "1.0.0", "latest"].sort(compareVersions)).toEqual(["1.0.0", "latest", "x"]);
  });
});
