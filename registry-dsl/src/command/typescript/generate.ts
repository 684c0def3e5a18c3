/** TypeScript that builds a registry file. */

import { provided } from "../../builder.ts";
import { isObject, type JsonObject, type JsonValue } from "../../json.ts";
import { compareKeys, keyText, KINDS, parseKey, PLURALS, type EntityKey, type Kind } from "../../key.ts";
import { compositionCode, mappingsCode, rawCode, type Used } from "./composition.ts";
import { array, call, chain, literal, object, print, type Code } from "./layout.ts";
import { Names } from "./names.ts";

/** A document of the file. */
interface Document {
  readonly key: EntityKey;
  readonly fields: JsonObject;
}

/** The members of a lifecycle, which no document has. */
const LIFECYCLE = ["deprecated", "retired", "deprecationMessage", "replacement", "sunsetDate", "forceReason"];
const SBOM_EXTENSION = "urn:agentgateway:sbom";
const SCHEMA_REFERENCE = /^#([A-Za-z0-9_.-]+):(\d[0-9A-Za-z.+-]*)$/;

/** The TypeScript of a registry file in normal form. */
export function generate(file: JsonObject): string {
  return new Generator(documentsOf(file)).text();
}

function documentsOf(file: JsonObject): Document[] {
  return KINDS.flatMap((kind) => {
    const list = file[PLURALS[kind]];
    const all = Array.isArray(list) ? list.filter(isObject) : [];
    return all.map((fields) => ({ key: keyOf(kind, fields), fields }));
  });
}

function keyOf(kind: Kind, { name, version }: JsonObject): EntityKey {
  return { kind, name: String(name), version: String(version) };
}

type Call = readonly [string, readonly Code[]];

class Generator {
  readonly #documents: readonly Document[];
  readonly #byKey: ReadonlyMap<string, Document>;
  readonly #names = new Names();
  readonly #imports = new Set<string>(["registry"]);
  readonly #statements: string[] = [];
  /** Entities whose constants are above the current statement. */
  readonly #declared = new Set<string>();
  readonly #pending = new Set<string>();
  /** Calls that need constants below those of their own entity. */
  readonly #later: (() => void)[] = [];
  #section = "";

  constructor(documents: readonly Document[]) {
    this.#documents = [...documents].sort((a, b) => compareKeys(a.key, b.key));
    this.#byKey = new Map(documents.map((document) => [keyText(document.key), document]));
    for (const { key } of this.#documents) this.#names.of(key);
  }

  text(): string {
    for (const document of this.#documents) this.#declare(document);
    for (const statement of this.#later) statement();
    const lists = this.#documents.map(({ key }) => this.#names.of(key));
    const last = `export default ${print(call("registry", [array(lists)]))};`;
    const imports = [...this.#imports].sort();
    const line = `import { ${imports.join(", ")} } from "registry-dsl";`;
    const head =
      line.length <= 110 ? line : `import {\n${imports.map((name) => `  ${name},\n`).join("")}} from "registry-dsl";`;
    return `${[head, ...this.#statements, last].join("\n\n")}\n`;
  }

  #emit(kind: Kind, statement: string): void {
    const section =
      this.#section === kind ? "" : `// ${PLURALS[kind].charAt(0).toUpperCase()}${PLURALS[kind].slice(1)}\n\n`;
    this.#section = kind;
    this.#statements.push(section + statement);
  }

  /** Emits the constant of an entity after those that it needs. */
  #declare({ key, fields }: Document): void {
    const text = keyText(key);
    if (this.#declared.has(text) || this.#pending.has(text)) return;
    this.#pending.add(text);
    const code = this.#code(key, fields);
    const calls = this.#lifecycle(key, fields);
    this.#emit(key.kind, `const ${this.#names.of(key)} = ${print(chain(code, calls))};`);
    this.#declared.add(text);
  }

  /** The constant of an entity. `undefined`: it is not in the file, or part of a cycle. */
  #reference(key: EntityKey): string | undefined {
    const document = this.#byKey.get(keyText(key));
    if (document === undefined) return undefined;
    this.#declare(document);
    return this.#declared.has(keyText(key)) ? this.#names.of(key) : undefined;
  }

  #call(name: string, args: readonly Code[]): Code {
    this.#imports.add(name);
    return call(name, args);
  }

  #code(key: EntityKey, fields: JsonObject): Code {
    const { name: _, version: __, ...rest } = withoutLifecycle(fields);
    switch (key.kind) {
      case "schema":
        return this.#schema(key, rest);
      case "server":
        return this.#server(key, rest);
      case "tool":
        return this.#tool(key, rest);
      case "agent":
        return this.#agent(key, rest);
      case "policy":
        return this.#entity(
          key,
          Object.entries(rest).map(([name, value]) => [name, this.#policyMember(name, value)]),
        );
    }
  }

  /** `kind("name", "1.0.0", ...before, { ...members })`. */
  #entity(key: EntityKey, members: readonly (readonly [string, Code])[], before: readonly Code[] = []): Code {
    const fields = members.length === 0 ? [] : [object(members)];
    return this.#call(key.kind, [literal(key.name), literal(key.version), ...before, ...fields]);
  }

  #schema(key: EntityKey, { schema, ...rest }: JsonObject): Code {
    return this.#entity(key, plain(rest), [this.#jsonSchema(schema ?? true)]);
  }

  /** A JSON Schema whose references to schemas of the file are constants. */
  #jsonSchema(schema: JsonValue): Code {
    return literal(schema, (value) => {
      const reference = isObject(value) && Object.keys(value).join() === "$ref" ? value["$ref"] : undefined;
      const parts = typeof reference === "string" ? SCHEMA_REFERENCE.exec(reference) : null;
      return parts === null
        ? undefined
        : this.#reference({ kind: "schema", name: parts[1] as string, version: parts[2] as string });
    });
  }

  #server(key: EntityKey, { provides, ...rest }: JsonObject): Code {
    const sourced = this.#documents.flatMap(({ key: tool, fields: { source } }) => {
      const isSource = isObject(source) && source["server"] === key.name && source["serverVersion"] === key.version;
      return tool.kind === "tool" && isSource ? [{ key: tool, name: tool.name, upstream: String(source["tool"]) }] : [];
    });
    this.#later.push(() => {
      // The order of the `source` calls is that of the constants.
      const order = [...this.#declared];
      const derived = provided(sourced)
        .map(({ key: tool }) => keyText(tool))
        .sort((a, b) => order.indexOf(a) - order.indexOf(b));
      const wanted = provisions(provides);
      if (derived.join() === wanted.map(keyText).join()) return;
      const tools = wanted.map(
        (tool) => this.#reference(tool) ?? this.#call("tool", [literal(tool.name), literal(tool.version)]),
      );
      this.#emit("server", `${print(chain(this.#names.of(key), [["provides", tools]]))};`);
    });
    return this.#entity(key, plain(rest));
  }

  #tool(key: EntityKey, fields: JsonObject): Code {
    const { source, spec, depends, inputSchema, outputSchema, outputTransform, ...rest } = fields;
    const input = inputSchema === undefined ? undefined : this.#jsonSchema(inputSchema);
    const shared =
      input !== undefined && typeof input !== "string" && isObject(spec) ? this.#constant(key, input) : input;
    const mappings =
      outputTransform === undefined
        ? undefined
        : (mappingsCode(outputTransform) ?? this.#call("rawTransform", [literal(outputTransform)]));
    const members: (readonly [string, Code])[] = [
      ...plain(rest),
      ...(shared === undefined ? [] : [["inputSchema", shared] as const]),
      ...(outputSchema === undefined ? [] : [["outputSchema", this.#jsonSchema(outputSchema)] as const]),
      ...(mappings === undefined ? [] : [["outputTransform", mappings] as const]),
    ];
    const calls = isObject(spec) ? this.#composition(key, spec, depends, shared) : this.#source(key, source, depends);
    return chain(this.#entity(key, members), calls);
  }

  /** A constant for the input schema of a composition, which its pattern uses too. */
  #constant({ kind, name, version }: EntityKey, schema: Code): string {
    const base = this.#names.of({ kind, name, version });
    const constant = this.#names.fresh([`${base}Input`, `${base}InputSchema`]);
    this.#emit("tool", `const ${constant} = ${print(schema)} as const;`);
    return constant;
  }

  #source(key: EntityKey, source: JsonValue | undefined, depends: JsonValue | undefined): Call[] {
    if (!isObject(source)) return [];
    const { server, serverVersion, tool, ...rest } = source;
    const known: EntityKey = { kind: "server", name: String(server), version: String(serverVersion) };
    const of = this.#reference(known) ?? this.#call("server", [literal(known.name), literal(known.version)]);
    const name = tool === key.name || tool === undefined ? [] : [["tool", literal(tool)] as const];
    const members = [...name, ...plain(rest)];
    const dependsOn = depends === undefined ? [] : [["dependsOn", this.#callees(depends)] as const];
    return [["source", members.length === 0 ? [of] : [of, object(members)]], ...dependsOn];
  }

  #composition(key: EntityKey, spec: JsonObject, depends: JsonValue | undefined, input: Code | undefined): Call[] {
    const declared = dependencies(depends);
    const used: Used[] = [];
    const imports = new Set<string>();
    let isLate = false;
    const callee = ({ type, name, skill }: Used): Code | undefined => {
      const found = declared.find((one) => one.type === type && one.name === name && one.skill === skill);
      const code = found && this.#callee(found);
      isLate ||= found !== undefined && this.#isPending(found);
      return code;
    };
    const code = compositionCode(spec, { callee, input, imports, used });
    const order = [...new Set(used.map(({ type, name, skill }) => `${type}/${name}#${skill ?? ""}`))].join();
    const isDerived =
      code !== undefined && order === declared.map(({ type, name, skill }) => `${type}/${name}#${skill ?? ""}`).join();
    for (const name of code === undefined ? [] : imports) this.#imports.add(name);
    const pattern = code ?? rawCode(spec, this.#imports);
    const calls: Call[] = [
      ["composition", [pattern]],
      ...(isDerived ? [] : [["dependsOn", this.#callees(depends)] as const]),
    ];
    if (!isLate) return calls;
    this.#later.push(() =>
      this.#emit("tool", `${print(chain(this.#names.of(key), this.#composition(key, spec, depends, input)))};`),
    );
    return [];
  }

  /** Whether the constant of a callee is part of a cycle, and follows later. */
  #isPending({ type, name, version }: Dependency): boolean {
    const text = keyText({ kind: type, name, version });
    return this.#byKey.has(text) && !this.#declared.has(text);
  }

  #callees(depends: JsonValue | undefined): Code[] {
    return dependencies(depends).map((dependency) => this.#callee(dependency));
  }

  #callee(dependency: Dependency): Code {
    const { type, name, version, skill } = dependency;
    const constant = this.#reference({ kind: type, name, version });
    const skills = this.#byKey.get(keyText({ kind: type, name, version }))?.fields["skills"];
    const hasSkill = Array.isArray(skills) && skills.some((one) => isObject(one) && one["id"] === skill);
    if (constant !== undefined && type === "tool") return constant;
    if (constant !== undefined && hasSkill) return skillCode(constant, skill ?? "");
    return this.#call("registered", [literal({ type, name, version, ...(skill === undefined ? {} : { skill }) })]);
  }

  #agent(key: EntityKey, { skills, capabilities, ...rest }: JsonObject): Code {
    const extensions =
      isObject(capabilities) && Array.isArray(capabilities["extensions"]) ? capabilities["extensions"] : [];
    const sbom = extensions.find((one: JsonValue) => isObject(one) && one["uri"] === SBOM_EXTENSION) as
      JsonObject | undefined;
    const depends = isObject(sbom?.["params"]) ? sbom["params"]["depends"] : undefined;
    const capabilitiesCode = agentCapabilities(capabilities, extensions, sbom);
    const members: (readonly [string, Code])[] = [
      ...plain(rest),
      ...(capabilitiesCode === undefined ? [] : [["capabilities", literal(capabilitiesCode)] as const]),
    ];
    const skillCalls = (Array.isArray(skills) ? skills.filter(isObject) : []).map((skill): Call => {
      const { id, inputSchema, outputSchema, ...fields } = skill;
      return [
        "skill",
        [
          literal(id ?? ""),
          object([
            ...plain(fields),
            ...(inputSchema === undefined ? [] : [["inputSchema", this.#jsonSchema(inputSchema)] as const]),
            ...(outputSchema === undefined ? [] : [["outputSchema", this.#jsonSchema(outputSchema)] as const]),
          ]),
        ],
      ];
    });
    const callees = sbom === undefined ? undefined : this.#callees(depends);
    const isLate = dependencies(depends).some((one) => this.#isPending(one));
    if (isLate)
      this.#later.push(() =>
        this.#emit("agent", `${print(chain(this.#names.of(key), [["dependsOn", this.#callees(depends)]]))};`),
      );
    const dependsOn: Call[] = callees === undefined || isLate ? [] : [["dependsOn", callees]];
    return chain(this.#entity(key, members), [...skillCalls, ...dependsOn]);
  }

  /** A member of a policy, whose selectors name entities of the file by their constants. */
  #policyMember(name: string, value: JsonValue): Code {
    if (name === "appliesTo" && isObject(value)) {
      return object(Object.entries(value).map(([part, names]) => [part, this.#selected(part, names)] as const));
    }
    if (name !== "inspection" || !isObject(value)) return literal(value);
    return object(
      Object.entries(value).map(([part, members]) => {
        if (part === "restoreFor") return [part, this.#selected("tools", members)] as const;
        if (part !== "except" || !Array.isArray(members)) return [part, literal(members)] as const;
        return [
          part,
          array(
            members.map((one: JsonValue) =>
              isObject(one)
                ? object(
                    Object.entries(one).map(
                      ([field, text]) => [field, field === "tool" ? this.#one("tool", text) : literal(text)] as const,
                    ),
                  )
                : literal(one),
            ),
          ),
        ] as const;
      }),
    );
  }

  #selected(part: string, names: JsonValue): Code {
    if (!Array.isArray(names)) return literal(names);
    if (part === "skills") return array(names.map((name: JsonValue) => this.#skill(name)));
    const kinds: { readonly [part: string]: Kind } = { callers: "agent", tools: "tool", servers: "server" };
    const kind = kinds[part];
    return kind === undefined ? literal(names) : array(names.map((name: JsonValue) => this.#one(kind, name)));
  }

  /** The newest entity with a name, or a pattern. */
  #one(kind: Kind, name: JsonValue): Code {
    const found = this.#documents.filter(({ key }) => key.kind === kind && key.name === name).at(-1);
    return (found && this.#reference(found.key)) ?? literal(name);
  }

  #skill(name: JsonValue): Code {
    const text = typeof name === "string" ? name : "";
    const [agent, id] = [text.slice(0, text.lastIndexOf("/")), text.slice(text.lastIndexOf("/") + 1)];
    const found = this.#documents
      .filter(({ key, fields }) => {
        const skills = fields["skills"];
        return (
          key.kind === "agent" &&
          key.name === agent &&
          Array.isArray(skills) &&
          skills.some((one) => isObject(one) && one["id"] === id)
        );
      })
      .at(-1);
    const constant = found && this.#reference(found.key);
    return constant === undefined ? literal(name) : skillCode(constant, id);
  }

  #lifecycle(key: EntityKey, fields: JsonObject): Call[] {
    const method = fields["retired"] === true ? "retired" : fields["deprecated"] === true ? "deprecated" : undefined;
    if (method === undefined) return [];
    const successor = typeof fields["replacement"] === "string" ? parseKey(fields["replacement"]) : undefined;
    const notice = (): Call => {
      const replacement = successor && (this.#reference(successor) ?? this.#elsewhere(successor));
      const members = [
        ...named("message", fields["deprecationMessage"]),
        ...(replacement === undefined ? [] : [["replacement", replacement] as const]),
        ...named("sunsetDate", fields["sunsetDate"]),
        ...named("forceReason", fields["forceReason"]),
      ];
      return [method, members.length === 0 ? [] : [object(members)]];
    };
    if (successor === undefined) return [notice()];
    this.#later.push(() => this.#emit(key.kind, `${print(chain(this.#names.of(key), [notice()]))};`));
    return [];
  }

  /** A value with the key of an entity outside of the file. */
  #elsewhere({ kind, name, version }: EntityKey): Code {
    const required: { readonly [K in Kind]?: readonly Code[] } = {
      schema: ["true"],
      agent: [
        object([
          ["description", '""'],
          ["url", '""'],
          ["protocolVersion", '""'],
          ["defaultInputModes", "[]"],
          ["defaultOutputModes", "[]"],
        ]),
      ],
      policy: ["{}"],
    };
    return this.#call(kind, [literal(name), literal(version), ...(required[kind] ?? [])]);
  }
}

function skillCode(agent: string, id: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(id) ? `${agent}.skills.${id}` : `${agent}.skills[${JSON.stringify(id)}]`;
}

function named(name: string, value: JsonValue | undefined): (readonly [string, Code])[] {
  return value === undefined ? [] : [[name, literal(value)]];
}

function plain(fields: JsonObject): (readonly [string, Code])[] {
  return Object.entries(fields).map(([name, value]) => [name, literal(value)]);
}

function withoutLifecycle(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !LIFECYCLE.includes(name)));
}

function provisions(provides: JsonValue | undefined): EntityKey[] {
  const all = Array.isArray(provides) ? provides.filter(isObject) : [];
  return all.map(({ tool, version }) => ({ kind: "tool", name: String(tool), version: String(version) }));
}

interface Dependency extends Used {
  readonly version: string;
}

function dependencies(depends: JsonValue | undefined): Dependency[] {
  const all = Array.isArray(depends) ? depends.filter(isObject) : [];
  return all.map(({ type, name, version, skill }) => ({
    type: type === "agent" ? "agent" : "tool",
    name: String(name),
    version: String(version),
    ...(skill === undefined ? {} : { skill: String(skill) }),
  }));
}

/** The capabilities of an agent, without the dependencies that `dependsOn` sets. */
function agentCapabilities(
  capabilities: JsonValue | undefined,
  extensions: readonly JsonValue[],
  sbom: JsonObject | undefined,
): JsonObject | undefined {
  if (!isObject(capabilities)) return undefined;
  const { extensions: _, ...rest } = capabilities;
  const { params: __, ...described } = sbom ?? {};
  const isDefault = sbom === extensions.at(-1) && Object.keys(described).join() === "uri";
  const kept = extensions.flatMap((one) => (one !== sbom ? [one] : isDefault ? [] : [described]));
  const found = kept.length === 0 ? rest : { ...rest, extensions: kept };
  return Object.keys(found).length === 0 ? undefined : found;
}
