/**
 * Rules about the use of databases: statements beside their transaction, rows that may be missing, and results without a
 * maximum (SVC614, SVC615, SVC637).
 */
import { literal } from '../reader/constants.ts';
import { functionAround, isWithin, walk } from '../reader/nodes.ts';
import { writtenOf } from '../sources.ts';
import { madeIn } from '../values/value.ts';
import { OUR_DATABASE } from './injection.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Site } from '../values/interpreter.ts';
import type { Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about queries, sorted by id. */
export const QUERY_RULES: readonly SourceRule[] = [
  {
    id: 'SVC614',
    severity: 'error',
    phase: 'source',
    cwe: [662],
    why: 'A statement outside of the transaction is not rolled back, does not see the writes of the transaction, and may wait forever for locks of the transaction',
    remedy:
      'Use the session that transaction() passes to its callback: db.transaction(async (tx) => { await tx.execute(…); })',
    wrong: 'db.transaction(async () => { await db.execute(…); })',
    right: 'db.transaction(async (tx) => { await tx.execute(…); })',
    onCall: findOutsideTransaction,
  },
  {
    id: 'SVC615',
    severity: 'warning',
    phase: 'source',
    cwe: [476],
    why: 'A request with an unknown id finds no row. The client should then get status 404, and not 500',
    remedy: 'Test whether the row exists: if (row === undefined) throw new NotFound()',
    wrong: "const user = await db.fetchOne('… where id = ?', [id]); return user.name;",
    right: 'if (user === undefined) throw new NotFound(); return user.name;',
    onCall: findAbsentRows,
  },
  {
    id: 'SVC637',
    severity: 'warning',
    phase: 'source',
    cwe: [770],
    sources: ['OWASP API4:2023'],
    why: 'A list without a maximum length grows with its table, and a client can ask for all of it again and again',
    remedy: 'Declare a maximum: Field(int, { default: 50, ge: 1, le: 200 })',
    wrong: 'limit: Field(int, { ge: 1 })',
    right: 'limit: Field(int, { ge: 1, le: 200 })',
    watch: watchLimits,
  },
];

/** SVC637: the number after LIMIT is an input without a maximum. */
function watchLimits(report: ReportAt): Watch {
  /** Members of inputs that code compares with another value. */
  const compared = new Set<string>();
  const limits: Made[] = [];
  return {
    onStatement: (sending) => limits.push(...limitsOf(sending)),
    onCompare({ sides }) {
      for (const { by } of sides.flatMap((side) => madeIn({ texts: side.texts }))) compared.add(by);
    },
    finish() {
      for (const { by, node, module } of limits)
        if (!compared.has(by))
          report(
            module,
            node,
            'the number of rows is an input without a maximum, so one request can read a whole table into memory',
          );
    },
  };
}

/** Returns the inputs after LIMIT in a statement whose types have no maximum. */
function limitsOf(sending: Sending): readonly Made[] {
  const { tokens } = sending.outline;
  return (sending.bindings ?? []).flatMap(({ value, token }) => {
    const made = madeIn(value).find(({ by }) => by.startsWith('endless '));
    const isLimit = tokens[tokens.indexOf(token) - 1]?.word === 'limit';
    return made !== undefined && isLimit ? [{ by: made.by, ...sending.nodeAt(token) }] : [];
  });
}

/** SVC614: statements in the callback of transaction() that are not part of the transaction. */
function findOutsideTransaction(
  { call, module, meaning, receiver, transaction, led, value }: Site,
  report: ReportAt,
  sources: Sources,
): void {
  if (transaction === undefined) return;
  const { owner, session } = transaction;
  if (!isWithin(call, transaction.work)) {
    const isSame = receiver === owner || (receiver?.type === owner.type && owner.type === 'svc/db.db');
    if (OUR_DATABASE.test(meaning) && isSame && receiver?.isTransaction !== true && led?.call !== undefined)
      report(
        led.module,
        led.call,
        `${writtenOf(led.module, led.call.callee)}() is called inside transaction(), but sends statements that run outside of the transaction`,
      );
    return;
  }
  const isOutside = (given: Value | undefined): boolean =>
    given !== undefined && given !== session && given.type === owner.type && given.fn === undefined;
  const passed = call.args.find((arg) => isOutside(value(arg)));
  if (passed !== undefined && sources.handlers.resolve(call.callee, module) !== undefined)
    report(
      module,
      passed,
      'a function called inside transaction() receives the database as an argument, so its statements run outside of the transaction',
      { severity: 'warning' },
    );
  if (OUR_DATABASE.test(meaning) && isOutside(receiver))
    report(
      module,
      call,
      `${writtenOf(module, call.callee)}() is called inside transaction(), but runs outside of the transaction`,
    );
}

/** SQL statements that always return a row. */
const ALWAYS_ONE = /\b(?:count|sum|max|min|avg|exists|coalesce)\s*\(|\breturning\b|^\s*select\s+\d/i;

/**
 * SVC615: code that reads a member of a row although the query may find none: `const user = await
 * db.fetchOne(…); return user.name`.
 */
function findAbsentRows({ call, module, meaning }: Site, report: ReportAt): void {
  if (!OUR_DATABASE.test(meaning) || !meaning.endsWith('.fetchOne')) return;
  const text = statementOf(call.args[0], module);
  const declarator = call.parent?.type === 'await' ? call.parent.parent : undefined;
  if (text === '' || ALWAYS_ONE.test(text) || declarator?.type !== 'declarator') return;
  const use = unprovedUse(declarator, module);
  if (use !== undefined)
    report(
      module,
      use,
      'fetchOne() returns undefined if no row matches, but the code reads a member of the row, so the client gets status 500',
    );
}

/**
 * Returns the first place that reads a member of a row. Undefined if the function tests whether the row
 * exists.
 */
function unprovedUse(
  declarator: Extract<Node, { type: 'declarator' }>,
  module: SourceModule,
): Node | undefined {
  const { target } = declarator;
  const fn = functionAround(declarator);
  if (target.type === 'object') return target;
  if (target.type !== 'name' || fn === undefined) return undefined;
  let first: Node | undefined;
  let isProved = false;
  walk(fn, (node) => {
    if (node.type !== 'name' || node.name !== target.name || node === target) return;
    const { parent } = node;
    const isRead = parent?.type === 'member' && parent.object === node;
    if (!isRead || module.source.startsWith('?.', node.end))
      isProved = true; // code tests the row, or passes it to a function that may test it
    else first ??= parent;
  });
  return isProved ? undefined : first;
}

/** Returns the SQL text of an expression. The result is empty if the source does not contain the text. */
export function statementOf(node: Node | undefined, module: SourceModule): string {
  const value = node === undefined ? undefined : literal(node, module);
  return value?.type === 'text' ? value.value : value?.type === 'template' ? value.texts.join('?') : '';
}
