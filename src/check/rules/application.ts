/**
 * The rules that judge a compiled application. A program loads them when it starts, and nothing that reads sources.
 *
 * Other files report the findings of rules without `run`: cli/inspect-child.ts (loading) and routing/ (compiling).
 */
import { ACCESS_RULES } from './access.ts';
import { CODE_RULES } from './code.ts';
import { CONTRACT_RULES } from './contract.ts';
import { DEPLOYMENT_RULES } from './deployment.ts';
import { ENVIRONMENT_RULES } from './environment.ts';
import { GRAPH_RULES } from './graph.ts';
import { SECRET_RULES } from './secrets.ts';
import type { CoreRule } from '../check.ts';

/** Rules that judge a compiled application, sorted by id. */
export const APPLICATION_RULES: readonly CoreRule[] = [
  ...ACCESS_RULES,
  ...CODE_RULES,
  ...CONTRACT_RULES,
  ...DEPLOYMENT_RULES,
  ...ENVIRONMENT_RULES,
  ...GRAPH_RULES,
  ...SECRET_RULES,
].sort((left, right) => (left.id < right.id ? -1 : 1));
