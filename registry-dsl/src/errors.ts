/** Errors of the library. */

import { positionOf, type Position } from "./call-site.ts";

/** The machine-readable reason of an {@link DslError}. */
export type DslErrorCode =
  | "value-invalid"
  | "schema-invalid"
  | "entity-duplicate"
  | "entity-expected"
  | "step-duplicate"
  | "step-unknown"
  | "path-foreign"
  | "implementation-missing"
  | "rules-unavailable"
  | "token-exposed";

/** A definition that cannot be built: the problem, its place and the remedy. */
export class DslError extends Error {
  override readonly name = "DslError";
  /** The machine-readable reason. */
  readonly code: DslErrorCode;
  /** The remedy. */
  readonly help: string;
  #definition: Position | undefined;

  constructor(code: DslErrorCode, message: string, help: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.help = help;
  }

  /** The builder call that failed, or that made the entity which cannot be written. */
  get position(): Position | undefined {
    return this.#definition ?? positionOf(this);
  }

  /** @internal */
  definedAt(position: Position | undefined): this {
    this.#definition = position;
    return this;
  }
}
