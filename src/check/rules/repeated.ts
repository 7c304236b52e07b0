/** Rule about effects that happen again (SVC644): messages that count at each delivery, and tokens that stay valid. */
import { methodOf } from '../reader/nodes.ts';
import { meaningOfCall } from '../sources.ts';
import { isGuarded, rowsIn } from '../statements/trace.ts';
import { holdsKey } from '../statements/written-schema.ts';
import { ROW } from '../values/marks.ts';
import { addedBy, addedTo, columnsOf, isOfToken, isPassword, writtenBy } from './races.ts';
import type { ReportAt, SourceRule, Sources } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { KeptCall, Trace } from '../statements/trace.ts';

/** Rules about repeated effects. */
export const REPEATED_RULES: readonly SourceRule[] = [
  {
    id: 'SVC644',
    severity: 'warning',
    cwe: [837],
    why: 'Services deliver a message again when they get no response in time, and mailboxes and logs keep links. Each use has its effect again',
    remedy:
      'Keep the id of the message in a column with a unique key, in the same transaction: insert … on conflict do nothing, and stop if affectedRows is 0',
    wrong:
      "if (isSigned(req)) await tx.execute('update wallet set credits = credits + ? where id = ?', [event.credits, event.wallet])",
    right: "await tx.execute('insert into seen (event) values (?)', [event.id])  // event is the primary key",
    judge: findRepeated,
  },
];

/** SVC644: a number that each delivery of a signed message changes. */
function findRepeated(trace: Trace, report: ReportAt, sources: Sources): void {
  findReusable(trace, report);
  const isOnce = sources
    .all('call')
    .some(({ module, node }) => meaningOfCall(node, module) === 'svc.IdempotencyMiddleware');
  if (isOnce) return;
  for (const run of trace.runs) {
    const calls = trace.callsOf(run);
    if (!calls.some(({ meaning }) => meaning === 'crypto.timingSafeEqual')) continue;
    const sent = trace.sentBy(run);
    if (sent.some((each) => remembers(each, trace)) || calls.some(isLookup)) continue;
    for (const sending of sent) {
      const column = addedBy(sending);
      const amount = isGuarded(run) ? undefined : bookedBy(sending);
      if (amount !== undefined)
        report(
          sending.nodeAt(undefined),
          `each delivery of the message inserts a row with "${amount}" into the table "${sending.target}", because no statement keeps the id of the message under a unique key`,
        );
      if (column === undefined || addedTo(sending).length === 0) continue;
      report(
        sending.nodeAt(undefined),
        `each delivery of the message adds to the column "${column}" of the table "${sending.target}", because no statement keeps the id of the message under a unique key`,
      );
    }
  }
}

/** Columns of amounts, where the name is the only declaration. */
export const AMOUNT: RegExp =
  /(?:^|_)(?:cents|amount|price|cost|total|balance|credits?|points|fee|paid|value|quantity)(?:_|$)/;

/** Returns the column of an amount that a statement inserts by an input. */
function bookedBy({ outline, written }: Sending): string | undefined {
  return outline.verb === 'insert'
    ? written.find(({ kind, column }) => kind === 'input' && AMOUNT.test(column))?.column
    : undefined;
}

/** SVC644: a password that a random token of the client sets, while the token stays. */
function findReusable(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs) {
    // a session is such a row, too, and stays on purpose
    if (isGuarded(run) || trace.callsOf(run).some(({ meaning }) => meaning === 'svc.checkPassword')) continue;
    const sent = trace.sentBy(run);
    for (const write of sent) {
      if (!write.written.some(isPassword)) continue;
      const keys = write.equal.flatMap(({ value }) => value ?? []);
      const read = sent.find(
        (each) =>
          (each === write || keys.some((key) => rowsIn(key, [ROW]).includes(each.call))) &&
          each.outline.verb !== 'delete' &&
          isOfToken(each, trace),
      );
      if (read === undefined || sent.some((each) => removes(each, read))) continue;
      // a token in the row of the account ends in the statement that sets the password
      report(
        (read.target === write.target ? write : read).nodeAt(undefined),
        `the token of the table "${read.target}" sets a password, and stays valid: each holder of the link sets it again`,
        {
          remedy:
            'Delete the row and read it in one statement: delete from reset where token = ? and expires > ? returning account',
        },
      );
    }
  }
}

/** Whether a statement deletes the row of a token, or sets another column than the password in it. */
function removes(write: Sending, read: Sending): boolean {
  if (!write.isWrite || !write.tables.includes(read.target ?? '')) return false;
  return (
    write.outline.verb !== 'update' ||
    writtenBy(write).some(
      ({ column }) => !write.written.some((each) => each.column === column && isPassword(each)),
    )
  );
}

/** Whether a statement knows a message that came before: it searches by an input, or inserts it under a unique key. */
function remembers(sending: Sending, trace: Trace): boolean {
  const { bindings, outline } = sending;
  if (bindings === undefined) return true;
  const isBy = bindings.some(({ use, kind }) => (use === 'equal' || use === 'compared') && kind === 'input');
  if (addedBy(sending) !== undefined)
    return (
      bindings.filter(({ use, kind }) => use !== 'written' && use !== 'other' && kind === 'input').length > 1
    );
  if (outline.verb !== 'insert') return isBy;
  const table = trace.tableOf(sending);
  const written = sending.written.filter(({ kind }) => kind !== 'constant');
  return table === undefined || holdsKey(table, columnsOf(written));
}

/** Whether a call asks a set or a store for a value of the message. */
function isLookup({ call, meaning, isOfBody }: KeptCall): boolean {
  const method = methodOf(call);
  if (/^svc\/db\.(?:redis|Redis)/.test(meaning)) return true;
  return isOfBody && /^(?:has|get|add|set|take|once|claim)$/.test(method);
}
