/** Definitions of a registry in TypeScript, and their validation. */

export type { Bound, NoOthers, Path, Value } from "./binding.ts";
export { constant, raw, select } from "./binding.ts";
export type {
  AgentEntity,
  AgentFields,
  AgentSkill,
  InspectionFields,
  PolicyEntity,
  PolicyFields,
  SchemaEntity,
  Selector,
  ServerEntity,
  SkillFields,
  SourceFields,
  ToolEntity,
  ToolFields,
} from "./builder.ts";
export { agent, policy, schema, server, tool } from "./builder.ts";
export type { Position } from "./call-site.ts";
export type { Applied, ClientOptions, CommitFields, FailureKind, PlannedChange } from "./client.ts";
export { RegistryClient, RegistryFailure } from "./client.ts";
export type {
  CacheOptions,
  CircuitBreakerOptions,
  ClaimCheckOptions,
  CompensationSources,
  DeadLetterOptions,
  IdempotentOptions,
  MappingSource,
  Pattern,
  PipelineBuilder,
  RawTransform,
  RetryOptions,
  SagaBuilder,
  SagaOptions,
  SagaStepFields,
  ScatterGatherBuilder,
  ScatterGatherOptions,
  Sources,
  TimeoutOptions,
} from "./composition.ts";
export {
  cache,
  circuitBreaker,
  claimCheck,
  deadLetter,
  filter,
  idempotent,
  mapEach,
  pipeline,
  rawSpec,
  rawTransform,
  retry,
  saga,
  scatterGather,
  schemaMap,
  timeout,
  where,
} from "./composition.ts";
export type { Diagnostic, Undecided, ValidationResult } from "./diagnostic.ts";
export type { Entity, Notice, RetirementNotice } from "./entity.ts";
export type { DslErrorCode } from "./errors.ts";
export { DslError } from "./errors.ts";
export type { JsonObject, JsonValue } from "./json.ts";
export type { EntityKey, Kind } from "./key.ts";
export type { Callee, Operation } from "./operation.ts";
export { registered } from "./operation.ts";
export type { Definitions, Registry } from "./registry.ts";
export { registry } from "./registry.ts";
export type { Infer, JsonSchema, SchemaReference, SchemaSource, StandardJsonSchema, TypeBoxSchema } from "./schema.ts";
export type * as documents from "./types.ts";
export type { Deep, ValidateOptions } from "./validate.ts";
export { validate } from "./validate.ts";
