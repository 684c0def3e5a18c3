/** Reader of Protocol Buffers, for the details of errors, which have no JSON form. */

import type { Diagnostic } from "./diagnostic.ts";
import { KINDS, type EntityKey } from "./key.ts";

type Field = { readonly number: number; readonly value: number | Uint8Array };

/** Reads the fields of a message. A damaged message ends early. */
function* fields(bytes: Uint8Array): Generator<Field> {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; shift < 64 && at < bytes.length; shift += 7) {
      const byte = bytes[at++] as number;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < bytes.length) {
    const tag = varint();
    const [number, type] = [Math.floor(tag / 8), tag % 8];
    if (type === 0) {
      yield { number, value: varint() };
    } else if (type === 2) {
      const length = varint();
      yield { number, value: bytes.subarray(at, at + length) };
      at += length;
    } else if (type === 1 || type === 5) {
      at += type === 1 ? 8 : 4;
    } else {
      return;
    }
  }
}

const text = (value: number | Uint8Array): string => (typeof value === "number" ? "" : new TextDecoder().decode(value));
const bytesOf = (value: number | Uint8Array): Uint8Array => (typeof value === "number" ? new Uint8Array() : value);

/** Decodes unpadded or padded base64. */
export function fromBase64(encoded: string): Uint8Array {
  return Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
}

/** The reason of a `google.rpc.ErrorInfo`. */
export function errorReason(bytes: Uint8Array): string {
  for (const { number, value } of fields(bytes)) if (number === 1) return text(value);
  return "";
}

/** A finding of the registry, whose pointer is relative to the entity of a change. */
export interface ChangeDiagnostic extends Diagnostic {
  readonly change: number | undefined;
}

/** The findings of a `registry.v1.ValidationFailure`. */
export function validationFailure(bytes: Uint8Array): ChangeDiagnostic[] {
  return [...fields(bytes)].filter(({ number }) => number === 1).map(({ value }) => diagnostic(bytesOf(value)));
}

function diagnostic(bytes: Uint8Array): ChangeDiagnostic {
  const found = new Map([...fields(bytes)].map(({ number, value }) => [number, value]));
  const textOf = (number: number): string => text(found.get(number) ?? 0);
  const [entity, change] = [found.get(3), found.get(4)];
  return {
    code: textOf(1),
    severity: found.get(2) === 1 ? "warning" : "error",
    entity: entity === undefined ? null : key(bytesOf(entity)),
    change: typeof change === "number" ? change : undefined,
    pointer: textOf(5),
    message: textOf(6),
    help: found.has(7) ? textOf(7) : null,
  };
}

function key(bytes: Uint8Array): EntityKey | null {
  const found = new Map([...fields(bytes)].map(({ number, value }) => [number, value]));
  const kind = KINDS[Number(found.get(1) ?? 0) - 1];
  return kind === undefined ? null : { kind, name: text(found.get(2) ?? 0), version: text(found.get(3) ?? 0) };
}
