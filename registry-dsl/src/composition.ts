/** Patterns of compositions with typed steps. */

import {
  bindingOf,
  BindingSource,
  inputPath,
  pathFrom,
  type Bound,
  type NoOthers,
  type Path,
  type Value,
} from "./binding.ts";
import { CallSite } from "./call-site.ts";
import { DslError } from "./errors.ts";
import { pointerTo, toJson, type JsonObject, type JsonValue } from "./json.ts";
import type { Callee, Operation, SpecWriter } from "./operation.ts";
import type { Infer, SchemaSource } from "./schema.ts";
import type {
  AggregationOp,
  Backoff,
  CompensationBinding as Binding,
  FieldSource,
  Idempotent,
  Mappings,
  Predicate,
  Spec,
} from "./types.ts";

/** Writes a specification at a pointer into the document of its tool. */
type SpecSource = (to: SpecWriter, pointer: string) => { readonly [pattern: string]: unknown };

/** A pattern: the specification of a composed tool, or an operation inside of another pattern. */
export class Pattern<I = any, O = any> implements Operation<I, O> {
  readonly #source: SpecSource;
  readonly #site = new CallSite();

  /** @internal */
  constructor(source: SpecSource) {
    this.#source = source;
  }

  /** The pattern in the grammar of compositions. */
  spec(to: SpecWriter, pointer: string): JsonObject {
    to.sites.set(pointer, this.#site);
    return toJson(this.#source(to, pointer)) as JsonObject;
  }

  write(to: SpecWriter, pointer: string): JsonObject {
    return { pattern: this.spec(to, pointerTo(pointer, "pattern")) };
  }
}

export interface Pattern<I = any, O = any> extends Operation<I, O> {}

/** The specification of a named pattern. */
function named(name: string, fields: SpecSource): SpecSource {
  return (to, pointer) => ({ [name]: fields(to, pointerTo(pointer, name)) });
}

/** The values that a binding of a step may use. */
export interface Sources<I, S> {
  /** The input of the pattern. */
  readonly input: Path<I>;
  /** The results of earlier steps. */
  readonly steps: { readonly [K in keyof S]: Path<S[K]> };
}

/** The sources of a compensation, which may also use the failure. */
export interface CompensationSources<I, S> extends Sources<I, S> {
  /** The failure: `reason`, `message` and `result`. */
  readonly error: Path<any>;
}

/** Step ids and the bindings of one pattern with steps. */
class Scope {
  readonly #ids: string[] = [];

  add(id: string): void {
    if (this.#ids.includes(id)) {
      throw new DslError("step-duplicate", `two steps have the id \`${id}\``, "rename one of them");
    }
    this.#ids.push(id);
  }

  /** The sources that are visible to the next step, or at the end. */
  sources<I, S>(): CompensationSources<I, S> {
    const ids = [...this.#ids];
    const get = (_: object, id: string | symbol): unknown => {
      if (typeof id === "symbol") return undefined;
      if (ids.includes(id)) return pathFrom(this, { from: "step", step: id });
      throw new DslError(
        "step-unknown",
        `there is no earlier step \`${id}\``,
        ids.length === 0 ? "use `input`" : `the earlier steps are ${ids.join(", ")}`,
      );
    };
    return {
      input: pathFrom<I>(this, { from: "input" }),
      error: pathFrom(this, { from: "error" }),
      steps: new Proxy(new BindingSource(), { get }) as Sources<I, S>["steps"],
    };
  }

  /** The binding that a callback makes, if there is one. */
  bind<I, S>(callback: ((sources: CompensationSources<I, S>) => unknown) | undefined): Binding | undefined {
    return callback === undefined ? undefined : bindingOf(callback(this.sources()), this);
  }
}

/** A member that is written only if it has a value. */
function member<T>(name: string, value: T | undefined): { readonly [name: string]: T } {
  return value === undefined ? {} : { [name]: value };
}

/** A step that is written when its composition is. */
type StepWriter = (to: SpecWriter, pointer: string) => JsonObject;

/** Steps in sequence. Without a binding, a step receives the result of the step before it, and the first one the input. */
export class PipelineBuilder<I, S, O> extends Pattern<I, O> {
  readonly #scope = new Scope();
  readonly #steps: StepWriter[];

  /** @internal */
  constructor() {
    const steps: StepWriter[] = [];
    super(
      named("pipeline", (to, pointer) => ({
        steps: steps.map((write, index) => write(to, pointerTo(pointerTo(pointer, "steps"), index))),
      })),
    );
    this.#steps = steps;
  }

  // With an optional parameter, the compiler reports the whole callback instead of its invalid member.
  /**
   * Adds a step.
   *
   * @param id - Unique in the pipeline.
   * @param input - Makes the step's input from the input of the pipeline and the results of earlier steps.
   */
  step<const Id extends string, SI, SO, const B extends Bound<SI>>(
    id: Id,
    operation: Operation<SI, SO>,
    input: (sources: Sources<I, S>) => B & NoOthers<B, SI>,
  ): PipelineBuilder<I, S & { readonly [K in Id]: SO }, SO>;
  /** Adds a step that receives the result of the step before it, or the input. */
  step<const Id extends string, SO>(
    id: Id,
    operation: Operation<any, SO>,
  ): PipelineBuilder<I, S & { readonly [K in Id]: SO }, SO>;
  step<Id extends string, SO>(
    id: Id,
    operation: Operation<any, SO>,
    input?: (sources: Sources<I, S>) => unknown,
  ): PipelineBuilder<I, S & { readonly [K in Id]: SO }, SO> {
    const site = new CallSite();
    const binding = this.#scope.bind<I, S>(input);
    this.#scope.add(id);
    this.#steps.push((to, pointer) => {
      to.sites.set(pointer, site);
      return {
        id,
        operation: operation.write(to, pointerTo(pointer, "operation")),
        ...member("input", binding),
      } as JsonObject;
    });
    return this as unknown as PipelineBuilder<I, S & { readonly [K in Id]: SO }, SO>;
  }
}

/**
 * A pipeline.
 *
 * @param input - The schema of its input, which types the paths of its bindings.
 */
export function pipeline<const I extends SchemaSource = true>(_input?: I): PipelineBuilder<Infer<I>, {}, Infer<I>> {
  return new PipelineBuilder();
}

/** A step of a saga. */
export interface SagaStepFields<I, S, Own, A, R, C, B, D> {
  /** The name for people. */
  readonly name: string;
  readonly action: Operation<A, R>;
  /** The operation that undoes the action. */
  readonly compensate?: Operation<C, any>;
  readonly input?: (sources: Sources<I, S>) => B & NoOthers<B, A>;
  /** May use the result of the step itself. */
  readonly compensateInput?: (sources: CompensationSources<I, S & Own>) => D & NoOthers<D, C>;
  /** Whether the step is compensated if its outcome is unknown. */
  readonly compensateOnUnknown?: boolean;
}

/** Options of a saga. */
export interface SagaOptions<I> {
  /** The value that identifies an instance. */
  readonly id?: (input: Path<I>) => Value<any>;
  readonly timeoutMs?: number;
}

/** Steps with compensations, which run in reverse order after a failure. */
export class SagaBuilder<I, S, O> extends Pattern<I, O> {
  readonly #scope: Scope;
  readonly #steps: StepWriter[];
  readonly #state: { output?: Binding };

  /** @internal */
  constructor({ id, timeoutMs }: SagaOptions<I>) {
    const [scope, steps, state] = [new Scope(), [] as StepWriter[], {} as { output?: Binding }];
    super(
      named("saga", (to, pointer) => ({
        steps: steps.map((write, index) => write(to, pointerTo(pointerTo(pointer, "steps"), index))),
        ...member("sagaIdPath", id === undefined ? undefined : inputPath(id(scope.sources<I, unknown>().input), scope)),
        ...member("timeoutMs", timeoutMs),
        ...member("output", state.output),
      })),
    );
    [this.#scope, this.#steps, this.#state] = [scope, steps, state];
  }

  /**
   * Adds a step.
   *
   * @param id - Unique in the saga.
   */
  step<const Id extends string, A, R, C, const B extends Bound<A>, const D extends Bound<C>>(
    id: Id,
    fields: SagaStepFields<I, S, { readonly [K in Id]: R }, A, R, C, B, D>,
  ): SagaBuilder<I, S & { readonly [K in Id]: R }, O> {
    const site = new CallSite();
    const { name, action, compensate, compensateOnUnknown } = fields;
    const input = this.#scope.bind<I, S>(fields.input);
    this.#scope.add(id);
    const compensateInput = this.#scope.bind<I, S & { readonly [K in Id]: R }>(fields.compensateInput);
    this.#steps.push((to, pointer) => {
      to.sites.set(pointer, site);
      return {
        id,
        name,
        action: action.write(to, pointerTo(pointer, "action")),
        ...member("compensate", compensate?.write(to, pointerTo(pointer, "compensate"))),
        ...member("input", input),
        ...member("compensateInput", compensateInput),
        ...member("compensateOnUnknown", compensateOnUnknown),
      } as JsonObject;
    });
    return this as unknown as SagaBuilder<I, S & { readonly [K in Id]: R }, O>;
  }

  /** Sets the result. */
  output(result: (sources: Sources<I, S>) => unknown): SagaBuilder<I, S, any> {
    const binding = this.#scope.bind<I, S>(result);
    if (binding !== undefined) this.#state.output = binding;
    return this;
  }
}

/**
 * A saga.
 *
 * @param input - The schema of its input, which types the paths of its bindings.
 */
export function saga<const I extends SchemaSource = true>(
  _input?: I,
  options: SagaOptions<Infer<I>> = {},
): SagaBuilder<Infer<I>, {}, any> {
  return new SagaBuilder(options);
}

/** Options of {@link scatterGather}. */
export interface ScatterGatherOptions {
  /** The operations on the list of results, in order. */
  readonly aggregation: readonly AggregationOp[];
  readonly timeoutMs?: number;
  readonly failFast?: boolean;
}

/** Operations at the same time, whose results are aggregated. */
export class ScatterGatherBuilder<I> extends Pattern<I, any> {
  readonly #scope = new Scope();
  readonly #targets: StepWriter[];

  /** @internal */
  constructor({ aggregation, timeoutMs, failFast }: ScatterGatherOptions) {
    const targets: StepWriter[] = [];
    super(
      named("scatterGather", (to, pointer) => ({
        targets: targets.map((write, index) => write(to, pointerTo(pointerTo(pointer, "targets"), index))),
        aggregation: { ops: aggregation },
        ...member("timeoutMs", timeoutMs),
        ...member("failFast", failFast),
      })),
    );
    this.#targets = targets;
  }

  /** Adds a target with a binding. */
  target<T, const B extends Bound<T>>(
    operation: Operation<T>,
    input: (sources: Pick<Sources<I, {}>, "input">) => B & NoOthers<B, T>,
  ): this;
  /** Adds a target that receives the whole input. */
  target(operation: Operation): this;
  target(operation: Operation, input?: (sources: Pick<Sources<I, {}>, "input">) => unknown): this {
    const site = new CallSite();
    const binding = this.#scope.bind<I, {}>(input);
    this.#targets.push((to, pointer) => {
      to.sites.set(pointer, site);
      return { ...operation.write(to, pointer), ...member("input", binding) } as JsonObject;
    });
    return this;
  }
}

/**
 * Operations at the same time.
 *
 * @param input - The schema of the input, which types the paths of the targets' bindings.
 */
export function scatterGather<const I extends SchemaSource = true>(
  options: ScatterGatherOptions,
  _input?: I,
): ScatterGatherBuilder<Infer<I>> {
  return new ScatterGatherBuilder(options);
}

/** A condition: `where("$.score", "gte", 0.2)`. */
export function where(field: string, op: Predicate["op"], value: JsonValue): Predicate {
  return { field, op, value };
}

/** The items of a list that satisfy a condition. */
export function filter<T = any>(predicate: Predicate): Pattern<readonly T[], T[]> {
  return new Pattern(named("filter", () => ({ predicate })));
}

/** The source of a mapped field; a text is a JSONPath. */
export type MappingSource = string | FieldSource;

/** The mappings of {@link schemaMap} and of a tool's `outputTransform`. */
export function mappings(fields: { readonly [field: string]: MappingSource }): Mappings {
  const found: Mappings["mappings"] = Object.create(null);
  for (const [name, source] of Object.entries(fields)) {
    found[name] = typeof source === "string" ? { path: source } : source;
  }
  return { mappings: found };
}

/** A projection in the grammar of compositions. */
export class RawTransform {
  readonly value: JsonObject;

  /** @internal */
  constructor(value: JsonObject) {
    this.value = value;
  }
}

/** A projection in the grammar of compositions, such as one with comments. */
export function rawTransform(transform: Mappings | JsonObject): RawTransform {
  return new RawTransform(toJson(transform) as JsonObject);
}

/** An object that is constructed from parts of the input. */
export function schemaMap(fields: { readonly [field: string]: MappingSource }): Pattern<any, any> {
  return new Pattern(named("schemaMap", () => ({ ...mappings(fields) })));
}

/** A pattern with one inner operation. */
function around<I, O>(name: string, inner: Operation, fields: SpecSource): Pattern<I, O> {
  return new Pattern(
    named(name, (to, pointer) => ({
      inner: inner.write(to, pointerTo(pointer, "inner")),
      ...fields(to, pointer),
    })),
  );
}

/** Runs an operation on each item of a list. */
export function mapEach<I, O>(
  inner: Operation<I, O>,
  options: { readonly maxConcurrency?: number } = {},
): Pattern<readonly I[], O[]> {
  return around("mapEach", inner, () => ({ ...options }));
}

/** Options of {@link retry}. */
export interface RetryOptions {
  /** With the first attempt. */
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** 0 to 1. */
  readonly jitter?: number;
  /** Reads the failure. */
  readonly retryIf?: Predicate;
  readonly attemptTimeoutMs?: number;
}

/** Repeats a failed operation. */
export function retry<I, O>(inner: Operation<I, O>, options: RetryOptions): Pattern<I, O> {
  return around("retry", inner, () => ({ ...options }));
}

/** Options of {@link timeout}. */
export interface TimeoutOptions<I, O> {
  readonly durationMs: number;
  /** Runs with the same input after a timeout. */
  readonly fallback?: Operation<I, O>;
  readonly message?: string;
}

/** Limits the time of an operation. */
export function timeout<I, O>(inner: Operation<I, O>, { fallback, ...options }: TimeoutOptions<I, O>): Pattern<I, O> {
  return around("timeout", inner, (to, pointer) => ({
    ...options,
    ...member("fallback", fallback?.write(to, pointerTo(pointer, "fallback"))),
  }));
}

/** Options of {@link cache}. */
export interface CacheOptions {
  /** JSONPaths into the input. */
  readonly keyPaths: readonly string[];
  readonly ttlSeconds: number;
  readonly staleWhileRevalidateSeconds?: number;
  /** Reads the result. */
  readonly cacheIf?: Predicate;
}

/** Caches the results of an operation. */
export function cache<I, O>(inner: Operation<I, O>, options: CacheOptions): Pattern<I, O> {
  return around("cache", inner, () => ({ ...options }));
}

/** Options of {@link idempotent}. */
export interface IdempotentOptions {
  /** JSONPaths into the input. */
  readonly keyPaths: readonly string[];
  readonly onDuplicate: Idempotent["onDuplicate"];
  readonly ttlSeconds?: number;
}

/** Runs an operation once per key. */
export function idempotent<I, O>(inner: Operation<I, O>, options: IdempotentOptions): Pattern<I, O> {
  return around("idempotent", inner, () => ({ ...options }));
}

/** Options of {@link circuitBreaker}. */
export interface CircuitBreakerOptions<I, O> {
  /** Circuit breakers with one name share their state. */
  readonly name: string;
  readonly failureThreshold: number;
  readonly failureWindowSeconds: number;
  readonly resetTimeoutSeconds: number;
  readonly successThreshold?: number;
  readonly fallback?: Operation<I, O>;
  /** Reads the result or the failure. */
  readonly failureIf?: Predicate;
}

/** Rejects calls of an operation that fails often. */
export function circuitBreaker<I, O>(
  inner: Operation<I, O>,
  { fallback, ...options }: CircuitBreakerOptions<I, O>,
): Pattern<I, O> {
  return around("circuitBreaker", inner, (to, pointer) => ({
    ...options,
    ...member("fallback", fallback?.write(to, pointerTo(pointer, "fallback"))),
  }));
}

/** The name of a tool in the grammar, which declares the dependency. */
function toolName(to: SpecWriter, { dependency }: Callee): string {
  to.use(dependency);
  return dependency.name;
}

/** Options of {@link deadLetter}. */
export interface DeadLetterOptions {
  /** Receives `{ input, error, attempts }`. */
  readonly deadLetterTool: Callee;
  readonly rethrow: boolean;
  readonly maxAttempts?: number;
  readonly backoff?: Backoff;
}

/** Passes a failed call to a tool. */
export function deadLetter<I, O>(
  inner: Operation<I, O>,
  { deadLetterTool, ...options }: DeadLetterOptions,
): Pattern<I, O> {
  return around("deadLetter", inner, (to) => ({ ...options, deadLetterTool: toolName(to, deadLetterTool) }));
}

/** Options of {@link claimCheck}. */
export interface ClaimCheckOptions {
  readonly storeTool: Callee;
  readonly retrieveTool: Callee;
  /** Whether the result is the response of `retrieveTool`. */
  readonly retrieveAtEnd: boolean;
}

/** Passes the response of a storing tool to an operation instead of the input. */
export function claimCheck(inner: Operation, options: ClaimCheckOptions): Pattern<any, any> {
  return new Pattern(
    named("claimCheck", (to, pointer) => ({
      storeTool: toolName(to, options.storeTool),
      inner: inner.write(to, pointerTo(pointer, "inner")),
      retrieveTool: toolName(to, options.retrieveTool),
      retrieveAtEnd: options.retrieveAtEnd,
    })),
  );
}

/** A pattern in the grammar of compositions. Its dependencies are those of `dependsOn`. */
export function rawSpec(spec: Spec | JsonObject): Pattern<any, any> {
  return new Pattern(() => ({ ...spec }));
}
