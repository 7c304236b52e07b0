/**
 * Records the secrets that code passes to this package. `svc check` searches the source files of the
 * application for these secrets (rule SVC205). A process that serves requests records none.
 */
import { declaredHere } from './findings.ts';
import type { Declared } from './findings.ts';

/** A secret, and the call that received it. */
export interface UsedSecret {
  readonly text: string;
  /** Class or feature that uses the secret, for messages. */
  readonly owner: string;
  readonly declared: Declared;
}

let used: UsedSecret[] | undefined;

/**
 * Starts to record secrets, and returns the list to which they are added. Used by commands that import an
 * application to inspect it.
 */
export function recordSecrets(): readonly UsedSecret[] {
  return (used ??= []);
}

/**
 * Records secrets that code has passed to a part of this package, if {@link recordSecrets} was called. Values
 * that are not strings are ignored.
 */
export function noteSecrets(owner: string, secrets: unknown): void {
  if (used === undefined) return;
  const declared = declaredHere();
  for (const text of [secrets].flat()) if (typeof text === 'string') used.push({ text, owner, declared });
}
