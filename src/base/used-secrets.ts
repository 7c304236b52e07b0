/**
 * Secrets that code passes to this package. `svc check` searches for them in the sources (SVC205). A process
 * that serves keeps none of them.
 */
import { declaredHere } from './findings.ts';
import type { Declared } from './findings.ts';

/** A secret, and the call that received it. */
export interface UsedSecret {
  readonly text: string;
  /** Name of the part that uses the secret, for messages. */
  readonly owner: string;
  readonly declared: Declared;
}

let used: UsedSecret[] | undefined;

/** Keeps the secrets of all later calls. For commands that import an application to inspect it. */
export function recordSecrets(): readonly UsedSecret[] {
  return (used ??= []);
}

/** Reports secrets that code has passed to a part of this package. Other values are ignored. */
export function noteSecrets(owner: string, secrets: unknown): void {
  if (used === undefined) return;
  const declared = declaredHere();
  for (const text of [secrets].flat()) if (typeof text === 'string') used.push({ text, owner, declared });
}
