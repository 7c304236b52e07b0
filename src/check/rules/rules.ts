/**
 * Every rule of this package. A rule is one object in a file of this folder: its texts and its function. The
 * id of a rule never changes. `svc check` loads this file when it needs it, because it loads the analysis of sources.
 */
import { defined } from '../../base/options.ts';
import { ADDRESS_RULES } from './addresses.ts';
import { AMOUNT_RULES } from './amounts.ts';
import { APPLICATION_RULES } from './application.ts';
import { AVAILABILITY_RULES } from './availability.ts';
import { CALCULATION_RULES } from './calculations.ts';
import { COOKIE_RULES } from './cookies.ts';
import { CRYPTOGRAPHY_RULES } from './cryptography.ts';
import { FAIL_OPEN_RULES } from './fail-open.ts';
import { FAILURE_RULES } from './failures.ts';
import { IDENTITY_RULES } from './identity.ts';
import { INJECTION_RULES } from './injection.ts';
import { LOG_RULES } from './logs.ts';
import { OWNERSHIP_RULES } from './ownership.ts';
import { MESSAGE_RULES } from './messages.ts';
import { PASSWORD_RULES } from './passwords.ts';
import { PROMISE_RULES } from './promises.ts';
import { QUERY_RULES } from './queries.ts';
import { RACE_RULES } from './races.ts';
import { REPLY_RULES } from './replies.ts';
import { ROUTE_RULES } from './routes.ts';
import { SETTING_RULES } from './settings.ts';
import { STATE_RULES } from './state.ts';
import { STATEMENT_RULES, TRANSACTION_RULES } from './statements.ts';
import { TOKEN_RULES } from './tokens.ts';
import { VARIABLE_RULES } from './variables.ts';
import { WRITTEN_SECRET_RULES } from './written-secrets.ts';
import type { CoreRule, RuleText } from '../check.ts';
import type { SourcePart, SourceRule } from '../sources.ts';

/** Searches of the sources, for rules of their own and for rules of the application. */
export const SOURCE_PARTS: readonly (SourceRule | SourcePart)[] = [
  ...ADDRESS_RULES,
  ...AMOUNT_RULES,
  ...AVAILABILITY_RULES,
  ...CALCULATION_RULES,
  ...COOKIE_RULES,
  ...CRYPTOGRAPHY_RULES,
  ...FAIL_OPEN_RULES,
  ...FAILURE_RULES,
  ...IDENTITY_RULES,
  ...INJECTION_RULES,
  ...LOG_RULES,
  ...OWNERSHIP_RULES,
  ...MESSAGE_RULES,
  ...PASSWORD_RULES,
  ...PROMISE_RULES,
  ...QUERY_RULES,
  ...RACE_RULES,
  ...REPLY_RULES,
  ...ROUTE_RULES,
  ...SETTING_RULES,
  ...STATE_RULES,
  ...TOKEN_RULES,
  ...TRANSACTION_RULES,
  ...VARIABLE_RULES,
  ...WRITTEN_SECRET_RULES,
];

/** Every rule of this package, sorted by id. */
export const CORE_RULES: readonly CoreRule[] = [
  ...APPLICATION_RULES,
  ...[...STATEMENT_RULES, ...SOURCE_PARTS.filter((part) => 'why' in part)].map((rule) => ({
    ...rule,
    phase: 'source' as const,
  })),
].sort((left, right) => (left.id < right.id ? -1 : 1));

/** Returns the rule with an id. The id must be one of CORE_RULES. */
export function coreRule(id: `SVC${number}`): CoreRule {
  return CORE_RULES.find((rule) => rule.id === id)!;
}

/** Returns the properties of every rule that reports show, and of more rules. The first rule with an id counts. */
export function textsOf(more: readonly RuleText[] = []): RuleText[] {
  return [...Map.groupBy([...CORE_RULES, ...more], ({ id }) => id).values()]
    .map(([first]) => first!)
    .map(({ id, severity, phase, why, remedy, wrong, right, cwe, sources }) =>
      defined({ id, severity, phase, why, remedy, wrong, right, cwe, sources } as RuleText),
    );
}
