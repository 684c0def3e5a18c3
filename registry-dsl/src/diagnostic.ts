/** Findings of validation. */

import type { Position } from "./call-site.ts";
import type { EntityKey } from "./key.ts";

/** A finding. */
export interface Diagnostic {
  /** A stable code such as `provision-unknown`. */
  readonly code: string;
  /** Errors reject the file, warnings do not. */
  readonly severity: "error" | "warning";
  /** The entity, if its name and version are valid. */
  readonly entity: EntityKey | null;
  /** JSON pointer (RFC 6901) into the registry file. */
  readonly pointer: string;
  readonly message: string;
  /** The remedy. */
  readonly help: string | null;
  /** The deepest builder call that made the value, for a file of the builder. */
  readonly position?: Position;
}

/** A part of the verdict that needs a registry. */
export interface Undecided {
  readonly subject: "compatibility" | "ownership" | "reference";
  readonly message: string;
  /** The codes of the findings that a registry could add, or resolve. */
  readonly codes: readonly string[];
  /** JSON pointer to the reference to an entity outside of the file. */
  readonly pointer?: string;
}

/** The verdict about a registry file. */
export interface ValidationResult {
  readonly diagnostics: readonly Diagnostic[];
  /** The questions that only a registry can answer. */
  readonly undecided: readonly Undecided[];
}

/** Whether a finding rejects the file. */
export function isError({ severity }: Pick<Diagnostic, "severity">): boolean {
  return severity === "error";
}
