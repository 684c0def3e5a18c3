/** Definitions of schemas, servers, tools, agents and policies. References between them are values. */

import { CallSite } from "./call-site.ts";
import { mappings, RawTransform, type MappingSource, type Pattern } from "./composition.ts";
import { Entity, type LifecycleMember } from "./entity.ts";
import { DslError } from "./errors.ts";
import { toJson, type JsonObject } from "./json.ts";
import { keyText, type EntityKey } from "./key.ts";
import { SpecWriter, type Callee } from "./operation.ts";
import { schemaJson, type Infer, type SchemaReference, type SchemaSource } from "./schema.ts";
import type * as documents from "./types.ts";
import type { Version } from "./version.ts";

/** The fields of a document that its own calls do not set. */
type Fields<D, Omitted extends keyof D = never> = Readonly<Omit<D, "name" | "version" | LifecycleMember | Omitted>>;

/** The JSON of fields. `undefined` members are omitted. */
function json(fields: object): JsonObject {
  return toJson(fields) as JsonObject;
}

/** A registered JSON Schema. */
export class SchemaEntity<T = unknown> extends Entity implements SchemaReference<T> {
  readonly kind = "schema";
  readonly #schema: JsonObject | boolean;
  readonly #fields: Fields<documents.Schema, "schema">;

  /** @internal */
  constructor(name: string, version: string, source: SchemaSource, fields: Fields<documents.Schema, "schema">) {
    super(name, version);
    this.#schema = schemaJson(source, keyText(this));
    this.#fields = fields;
  }

  /** The reference in other schemas: `#SearchQuery:1.0.0`. */
  get $ref(): string {
    return `#${this.name}:${this.version}`;
  }

  protected override fields(): JsonObject {
    const { name, version } = this;
    return { name, version, ...json(this.#fields), schema: this.#schema };
  }
}

export interface SchemaEntity<T> extends SchemaReference<T> {}

/**
 * Defines a reusable JSON Schema.
 *
 * @param source - Plain JSON Schema, which may contain other schemas, or a schema of Zod or TypeBox.
 */
export function schema<const S extends SchemaSource, V extends string = string>(
  name: string,
  version: Version<V>,
  source: S,
  fields: Fields<documents.Schema, "schema"> = {},
): SchemaEntity<Infer<S>> {
  return new SchemaEntity<Infer<S>>(name, version, source, fields);
}

/** An MCP server. */
export class ServerEntity extends Entity {
  readonly kind = "server";
  readonly #fields: Fields<documents.Server, "provides">;
  /** The tools whose source is, or was, the server. */
  readonly #sourced = new Set<ToolEntity<any, any>>();
  #provided: documents.Provision[] | undefined;

  /** @internal */
  constructor(name: string, version: string, fields: Fields<documents.Server, "provides">) {
    super(name, version);
    this.#fields = fields;
  }

  /**
   * Sets the provided tools. Without this call, the server provides the tools whose `source` it is, in the order of
   * those calls. A renamed tool counts only if no other one has the name of its upstream tool.
   */
  provides(...tools: readonly ToolEntity<any, any>[]): this {
    this.sites.set("/provides", new CallSite());
    this.#provided = tools.map(provision);
    return this;
  }

  /** @internal */
  addSource(tool: ToolEntity<any, any>): void {
    this.#sourced.add(tool);
  }

  protected override fields(): JsonObject {
    const { name, version } = this;
    const sourced = [...this.#sourced].flatMap((tool) => {
      const upstream = tool.upstreamAt(this);
      return upstream === undefined ? [] : [{ name: tool.name, version: tool.version, upstream }];
    });
    return json({ name, version, ...this.#fields, provides: this.#provided ?? provided(sourced).map(provision) });
  }
}

function provision({ name, version }: Pick<EntityKey, "name" | "version">): documents.Provision {
  return { tool: name, version };
}

/** A tool whose source is a server, and its name there. */
interface Sourced {
  readonly name: string;
  readonly upstream: string;
}

/**
 * The tools that a server provides of those whose source it is.
 *
 * The registered form of an upstream tool covers its aliases; without one, the aliases are provided themselves.
 */
export function provided<T extends Sourced>(sourced: readonly T[]): T[] {
  const own = new Set(sourced.filter(({ name, upstream }) => name === upstream).map(({ name }) => name));
  return sourced.filter(({ name, upstream }) => name === upstream || !own.has(upstream));
}

/** Defines an MCP server. */
export function server<V extends string>(
  name: string,
  version: Version<V>,
  fields: Fields<documents.Server, "provides"> = {},
): ServerEntity {
  return new ServerEntity(name, version, fields);
}

type ToolDocument = Omit<
  documents.Tool,
  "source" | "spec" | "depends" | "inputSchema" | "outputSchema" | "outputTransform"
>;

/** The fields of a tool. */
export interface ToolFields<I extends SchemaSource, O extends SchemaSource> extends Fields<ToolDocument> {
  /** The schema of the arguments; absent means the upstream's. */
  readonly inputSchema?: I;
  /** The schema of the structured result. */
  readonly outputSchema?: O;
  /** Projection of the upstream's result. A text is a JSONPath. */
  readonly outputTransform?: { readonly [field: string]: MappingSource } | RawTransform;
}

/** The part of a source that differs from the registered tool. */
export interface SourceFields<I> {
  /** The name of the tool at the server, if it is another one. */
  readonly tool?: string;
  /** Values of arguments that callers omit. */
  readonly defaults?: { readonly [K in keyof I]?: unknown };
  /** Arguments that callers neither see nor set. Dotted paths reach nested objects. */
  readonly hideFields?: readonly ((keyof I & string) | `${keyof I & string}.${string}`)[];
}

/** A tool, which compositions call and agents depend on. */
export class ToolEntity<I = any, O = any> extends Entity implements Callee<I, O> {
  readonly kind = "tool";
  readonly #fields: ToolFields<SchemaSource, SchemaSource>;
  #source: { readonly server: ServerEntity; readonly fields: SourceFields<any> } | undefined;
  #composition: Pattern | undefined;
  #depends: documents.Dependency[] | undefined;

  /** @internal */
  constructor(name: string, version: string, fields: ToolFields<SchemaSource, SchemaSource>) {
    super(name, version);
    this.#fields = fields;
  }

  /** Implements the tool by a tool of a server. */
  source(server: ServerEntity, fields: SourceFields<I> = {}): this {
    this.sites.set("/source", new CallSite());
    this.#source = { server, fields };
    server.addSource(this);
    return this;
  }

  /**
   * The name of the tool at a server. `undefined`: its source is another one.
   *
   * @internal
   */
  upstreamAt(server: ServerEntity): string | undefined {
    return this.#source?.server === server ? (this.#source.fields.tool ?? this.name) : undefined;
  }

  /** Implements the tool by other tools and agents. Its dependencies are those of the pattern. */
  composition(pattern: Pattern<any, any>): this {
    this.sites.set("/spec", new CallSite());
    this.#composition = pattern;
    return this;
  }

  /** Sets the dependencies, instead of those that the composition uses. */
  dependsOn(...callees: readonly Callee[]): this {
    this.sites.set("/depends", new CallSite());
    this.#depends = callees.map(({ dependency }) => dependency);
    return this;
  }

  /** @internal */
  get dependency(): documents.Dependency {
    return { type: "tool", name: this.name, version: this.version };
  }

  /** @internal */
  write(to: SpecWriter): JsonObject {
    to.use(this.dependency);
    return { tool: { name: this.name } };
  }

  protected override fields(): JsonObject {
    const { name, version } = this;
    const { inputSchema, outputSchema, outputTransform, ...fields } = this.#fields;
    return json({
      name,
      version,
      ...fields,
      ...this.#implementation(),
      inputSchema: inputSchema === undefined ? undefined : schemaJson(inputSchema, `inputSchema of ${keyText(this)}`),
      outputSchema:
        outputSchema === undefined ? undefined : schemaJson(outputSchema, `outputSchema of ${keyText(this)}`),
      outputTransform:
        outputTransform instanceof RawTransform ? outputTransform.value : outputTransform && mappings(outputTransform),
    });
  }

  #implementation(): object {
    const source = this.#source && {
      server: this.#source.server.name,
      serverVersion: this.#source.server.version,
      tool: this.name,
      ...this.#source.fields,
    };
    const to = new SpecWriter(this.sites);
    const spec = this.#composition?.spec(to, "/spec");
    if (source === undefined && spec === undefined) {
      throw new DslError(
        "implementation-missing",
        `${keyText(this)} has no implementation`,
        "call `source` for an upstream tool or `composition` for a composed one",
      );
    }
    return { source, spec, depends: this.#depends ?? to.dependencies };
  }
}

export interface ToolEntity<I = any, O = any> extends Callee<I, O> {}

/** Defines a tool. `source` or `composition` implements it. */
export function tool<
  const I extends SchemaSource = JsonSchemaOfAny,
  const O extends SchemaSource = JsonSchemaOfAny,
  V extends string = string,
>(name: string, version: Version<V>, fields: ToolFields<I, O> = {}): ToolEntity<Infer<I>, Infer<O>> {
  return new ToolEntity<Infer<I>, Infer<O>>(name, version, fields);
}

/** The schema of a tool that is registered without one. */
type JsonSchemaOfAny = true;

/** The extension that declares an agent's dependencies. */
const SBOM_EXTENSION = "urn:agentgateway:sbom";

/** The fields of an agent. */
export interface AgentFields extends Fields<documents.Agent, "skills" | "capabilities"> {
  readonly capabilities?: documents.Capabilities;
}

/** The fields of a skill. */
export interface SkillFields<I extends SchemaSource, O extends SchemaSource> extends Readonly<
  Omit<documents.Skill, "id" | "inputSchema" | "outputSchema">
> {
  readonly inputSchema?: I;
  readonly outputSchema?: O;
}

/** A skill of an agent, which compositions call and agents depend on. */
export class AgentSkill<I = any, O = any> implements Callee<I, O> {
  readonly id: string;
  readonly agent: AgentEntity<any>;

  /** @internal */
  constructor(id: string, agent: AgentEntity<any>) {
    this.id = id;
    this.agent = agent;
  }

  /** @internal */
  get dependency(): documents.Dependency {
    const { name, version } = this.agent;
    return { type: "agent", name, version, skill: this.id };
  }

  /** @internal */
  write(to: SpecWriter): JsonObject {
    to.use(this.dependency);
    return { agent: { name: this.agent.name, skill: this.id } };
  }
}

export interface AgentSkill<I = any, O = any> extends Callee<I, O> {}

/** An A2A agent. */
export class AgentEntity<Skills = {}> extends Entity {
  readonly kind = "agent";
  /** The skills by id. */
  readonly skills: Skills;
  readonly #fields: AgentFields;
  readonly #skills: documents.Skill[] = [];
  #depends: documents.Dependency[] | undefined;

  /** @internal */
  constructor(name: string, version: string, fields: AgentFields) {
    super(name, version);
    this.#fields = fields;
    this.skills = Object.create(null) as Skills;
  }

  /** Adds a skill. */
  skill<const Id extends string, const I extends SchemaSource = true, const O extends SchemaSource = true>(
    id: Id,
    fields: SkillFields<I, O>,
  ): AgentEntity<Skills & { readonly [K in Id]: AgentSkill<Infer<I>, Infer<O>> }> {
    this.sites.set(`/skills/${this.#skills.length}`, new CallSite());
    const { inputSchema, outputSchema, ...rest } = fields;
    const of = (name: string): string => `${name} of the skill \`${id}\` of ${keyText(this)}`;
    this.#skills.push({
      id,
      ...rest,
      ...(inputSchema === undefined ? {} : { inputSchema: schemaJson(inputSchema, of("inputSchema")) }),
      ...(outputSchema === undefined ? {} : { outputSchema: schemaJson(outputSchema, of("outputSchema")) }),
    });
    const skill = new AgentSkill(id, this);
    Object.assign(this.skills as object, { [id]: skill });
    return this as unknown as AgentEntity<Skills & { readonly [K in Id]: AgentSkill<Infer<I>, Infer<O>> }>;
  }

  /**
   * Sets the tools and skills that the agent uses, in its extension `urn:agentgateway:sbom`.
   *
   * `capabilities.extensions` may contain that extension, without `params`, to set its place and description.
   */
  dependsOn(...callees: readonly Callee[]): this {
    this.#depends = callees.map(({ dependency }) => dependency);
    this.sites.set(`/capabilities/extensions/${this.#extensions().index}`, new CallSite());
    return this;
  }

  /** The extensions, and the index of the one with the dependencies. */
  #extensions(): { readonly all: readonly documents.Extension[]; readonly index: number } {
    const given = this.#fields.capabilities?.extensions ?? [];
    const index = given.findIndex(({ uri }) => uri === SBOM_EXTENSION);
    const depends = this.#depends;
    if (depends === undefined) return { all: given, index };
    const extension = { ...(given[index] ?? { uri: SBOM_EXTENSION }), params: json({ depends }) };
    return index < 0
      ? { all: [...given, extension], index: given.length }
      : { all: given.with(index, extension), index };
  }

  protected override fields(): JsonObject {
    const { name, version } = this;
    const extensions = this.#extensions().all;
    return json({
      name,
      version,
      ...this.#fields,
      skills: this.#skills,
      capabilities: { ...this.#fields.capabilities, extensions },
    });
  }
}

/** Defines an A2A agent. */
export function agent<V extends string>(name: string, version: Version<V>, fields: AgentFields): AgentEntity {
  return new AgentEntity(name, version, fields);
}

/** The selected calls, with entities or patterns of names: `payment_*`. */
export interface Selector {
  readonly callers?: readonly (AgentEntity<any> | string)[];
  readonly tools?: readonly (ToolEntity<any, any> | string)[];
  /** Skills, or patterns of `AGENT/SKILL`. */
  readonly skills?: readonly (AgentSkill<any, any> | string)[];
  readonly servers?: readonly (ServerEntity | string)[];
  /** Only destructive tools, or only others. */
  readonly destructive?: boolean;
}

/** The inspection of arguments and results, with tools or patterns of names. */
export interface InspectionFields extends Readonly<Omit<documents.Inspection, "except" | "restoreFor">> {
  readonly except?: readonly { readonly tool: ToolEntity<any, any> | string; readonly pointer: string }[];
  readonly restoreFor?: readonly (ToolEntity<any, any> | string)[];
}

/** The fields of a policy. */
export interface PolicyFields extends Fields<documents.Policy, "appliesTo" | "inspection"> {
  /** Absent: all calls. */
  readonly appliesTo?: Selector;
  readonly inspection?: InspectionFields;
}

/** A policy. */
export class PolicyEntity extends Entity {
  readonly kind = "policy";
  readonly #fields: PolicyFields;

  /** @internal */
  constructor(name: string, version: string, fields: PolicyFields) {
    super(name, version);
    this.#fields = fields;
  }

  protected override fields(): JsonObject {
    const { name, version } = this;
    return toJson({ name, version, ...this.#fields }, selected) as JsonObject;
  }
}

/** The text that selects an entity or a skill. */
function selected(value: object): string | undefined {
  if (value instanceof AgentSkill) return `${value.agent.name}/${value.id}`;
  return value instanceof Entity ? value.name : undefined;
}

/** Defines a policy. */
export function policy<V extends string>(name: string, version: Version<V>, fields: PolicyFields): PolicyEntity {
  return new PolicyEntity(name, version, fields);
}
