/**
 * Rules about promises that are not awaited (SVC611), and asynchronous callbacks of array methods (SVC612).
 */
import { findAsyncCallbacks, findForgotten } from '../source/promise-rules.ts';
import type { SourceRule } from '../sources.ts';

/** Rules about promises, sorted by id. */
export const PROMISE_RULES: readonly SourceRule[] = [
  {
    id: 'SVC611',
    severity: 'error',
    phase: 'source',
    cwe: [252, 253],
    why: 'A promise always counts as true, so a condition that tests a promise lets every client in. Errors of promises that no code awaits are lost',
    remedy: 'Await the promise, return it, or pass it to BackgroundTasks',
    wrong: 'if (!checkPassword(password, hash)) throw new Unauthorized();',
    right: 'if (!(await checkPassword(password, hash))) throw new Unauthorized();',
    find: findForgotten,
  },
  {
    id: 'SVC612',
    severity: 'warning',
    phase: 'source',
    cwe: [252],
    why: 'Array methods do not wait for asynchronous callbacks',
    remedy: 'Use for (const each of list) { await … }, or await Promise.all(list.map(…))',
    wrong: 'items.forEach(async (item) => { await save(item); });',
    right: 'for (const item of items) await save(item);',
    find: findAsyncCallbacks,
  },
];
