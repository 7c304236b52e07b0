/** Every application of the source phase, by name, and its files. */
import { ACCESS } from './access.ts';
import { ACCOUNTS } from './accounts.ts';
import { ASYNC } from './async.ts';
import { CALLS } from './calls.ts';
import { CONSISTENCY } from './consistency.ts';
import { DECLARATIONS } from './declarations.ts';
import { FAILURES } from './failures.ts';
import { FOREIGN } from './foreign.ts';
import { GUARDS } from './guards.ts';
import { HELPERS } from './helpers.ts';
import { INJECTION } from './injection.ts';
import { JUDGEMENTS } from './judgements.ts';
import { KINDS } from './kinds.ts';
import { KINDS_OF_FLOW } from './kinds-of-flow.ts';
import { LAYERS } from './layers.ts';
import { LIFETIMES } from './lifetimes.ts';
import { LINKS } from './links.ts';
import { MESSAGES } from './messages.ts';
import { MORE_KINDS } from './more-kinds.ts';
import { OTHER_WAYS } from './other-ways.ts';
import { OWNERS } from './owners.ts';
import { PRINCIPALS } from './principals.ts';
import { PROCESS } from './process.ts';
import { SECRETS } from './secrets.ts';
import { SIGNATURES } from './signatures.ts';
import { SPELLINGS } from './spellings.ts';
import { STATE } from './state.ts';

export const CASES: Readonly<Record<string, string>> = {
  ...CALLS,
  ...INJECTION,
  ...ASYNC,
  ...SECRETS,
  ...STATE,
  ...DECLARATIONS,
  ...HELPERS,
  ...FAILURES,
  ...FOREIGN,
  ...ACCESS,
  ...OWNERS,
  ...LAYERS,
  ...KINDS,
  ...KINDS_OF_FLOW,
  ...MORE_KINDS,
  ...PRINCIPALS,
  ...SIGNATURES,
  ...GUARDS,
  ...JUDGEMENTS,
  ...PROCESS,
  ...ACCOUNTS,
  ...CONSISTENCY,
  ...MESSAGES,
  ...LINKS,
  ...LIFETIMES,
  ...SPELLINGS,
  ...OTHER_WAYS,
};

/** The files of a case: `// FILE name` begins each; a case of one file has the given names. */
export function filesOf(text: string, ...names: readonly string[]): Record<string, string> {
  const parts = text.split(/^\/\/ FILE (\S+)\n/m);
  if (parts.length === 1) return Object.fromEntries(names.map((name) => [name, text]));
  return Object.fromEntries(
    parts.flatMap((part, index) => (index % 2 === 1 ? [[part, parts[index + 1]!] as const] : [])),
  );
}
