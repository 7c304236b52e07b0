/**
 * Every rule of this package. A rule is one object in a file of this folder: its texts and its function. The
 * id of a rule never changes.
 *
 * Other files report the findings of rules without `run`: cli/inspect-child.ts (loading), routing/
 * (compiling) and source/examine.ts (source code).
 */
import { ACCESS_RULES } from './access.ts';
import { CODE_RULES } from './code.ts';
import { CONTRACT_RULES } from './contract.ts';
import { DEPLOYMENT_RULES } from './deployment.ts';
import { ENVIRONMENT_RULES } from './environment.ts';
import { GRAPH_RULES } from './graph.ts';
import { INJECTION_RULES } from './injection.ts';
import { SECRET_RULES } from './secrets.ts';
import { STATEMENT_RULES } from './statements.ts';
import type { CoreRule } from '../check.ts';

/** Every rule of this package, sorted by id. */
export const CORE_RULES: readonly CoreRule[] = [
  ...ACCESS_RULES,
  ...CODE_RULES,
  ...CONTRACT_RULES,
  ...DEPLOYMENT_RULES,
  ...ENVIRONMENT_RULES,
  ...GRAPH_RULES,
  ...INJECTION_RULES,
  ...SECRET_RULES,
  ...STATEMENT_RULES,
].sort((left, right) => (left.id < right.id ? -1 : 1));

/** Returns the rule with an id. The id must be one of CORE_RULES. */
export function coreRule(id: `SVC${number}`): CoreRule {
  return CORE_RULES.find((rule) => rule.id === id)!;
}
