/** Errors of the library. */

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
  | "file-invalid"
  | "rules-unavailable";

/** A definition that cannot be built: the problem, its place and the remedy. */
export class DslError extends Error {
  override readonly name = "DslError";
  /** The machine-readable reason. */
  readonly code: DslErrorCode;
  /** The remedy. */
  readonly help: string;

  constructor(code: DslErrorCode, message: string, help: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.help = help;
  }
}
