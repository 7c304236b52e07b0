/**
 * Rules about accounts: passwords and addresses that a login alone changes (SVC649), and rows that are switched off but
 * still found (SVC672).
 */
import { isGuarded } from '../statements/trace.ts';
import { ownersOf } from '../statements/owners.ts';
import { isOfToken, isPassword, writtenBy } from './races.ts';
import type { ReportAt, SourceRule } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Run, Trace } from '../statements/trace.ts';

/** Rules about accounts, sorted by id. */
export const ACCOUNT_RULES: readonly SourceRule[] = [
  {
    id: 'SVC649',
    severity: 'warning',
    cwe: [620, 306],
    sources: ['OWASP ASVS 5.0: 6.2.3'],
    why: 'A stolen session lasts for hours. If it alone changes the password or the address, the thief keeps the account',
    remedy:
      'Ask for the present password: if (!(await checkPassword(body.current, row.hash))) throw new Unauthorized(). Let a link to a new address confirm it',
    wrong: "db.execute('update person set hash = ? where id = ?', [await hashPassword(body.next), me.sub])",
    right: 'if (!(await checkPassword(body.current, person.hash))) throw new Unauthorized();',
    judge: findBareChanges,
  },
  {
    id: 'SVC672',
    severity: 'warning',
    cwe: [284, 613],
    why: 'A row that is switched off by a column stays switched on for each statement that leaves the column out',
    remedy: 'Compare the column in this statement, too: where email = ? and disabled = 0',
    wrong: "db.fetchOne('select id, hash from person where email = ?', [form.email])",
    right: "db.fetchOne('select id, hash from person where email = ? and disabled = 0', [form.email])",
    judge: findSwitchedOff,
  },
];

const MAIL = /^e_?mail(?:_address)?$/;
const PROOF = /verified|confirmed/;

/** SVC649: a password that is set without the present one, and an address that counts as verified before a mail has reached it. */
function findBareChanges(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs) {
    if (!isGuarded(run) || ownersOf(trace).isRestricted(run)) continue;
    const sent = trace.sentBy(run);
    const isProved =
      trace
        .callsOf(run)
        .some(({ meaning }) =>
          /^svc\.checkPassword$|^crypto\.(?:timingSafeEqual|scrypt|pbkdf2)/.test(meaning),
        ) || sent.some((each) => each.handler === run.handler && isOfToken(each, trace));
    for (const write of isProved ? [] : sent) {
      const { outline, equal, written } = write;
      if (outline.verb !== 'update' || equal.length === 0 || !equal.every(({ kind }) => kind === 'principal'))
        continue;
      const password = written.find(isPassword);
      // a condition on the column sets the first password: and hash is null
      if (password !== undefined && !namesAfterWhere(write, password.column))
        report(
          write.nodeAt(undefined),
          `each holder of a session sets a new password of its client in the table "${write.target}", because nothing compares the present one`,
        );
      const mail = written.find(({ column, kind }) => kind === 'input' && MAIL.test(column));
      const proof = trace.tableOf(write)?.columns.find((column) => PROOF.test(column));
      if (
        mail !== undefined &&
        proof !== undefined &&
        !writtenBy(write).some(({ column }) => PROOF.test(column))
      )
        report(
          write.nodeAt(mail.token),
          `the address of a client changes, but the column "${proof}" stays, so an address that nothing has verified counts as verified`,
          {
            remedy:
              'Send a link with a token to the new address, and write the address when the client follows it',
          },
        );
    }
  }
}

function namesAfterWhere({ outline }: Sending, column: string): boolean {
  return outline.tokens.slice(outline.before('where').length).some(({ name }) => name === column);
}

/** Columns that switch a row off, where the name is the only declaration. */
const OFF =
  /^(?:is_?)?(?:disabled|deactivated|suspended|blocked|banned|locked|active|enabled|deleted|revoked|removed)(?:_(?:at|on|ms|by))?$/;

/** SVC672: a login, a key or a single row that is found although a column that other statements use switches it off. */
function findSwitchedOff(trace: Trace, report: ReportAt): void {
  const used = new Map<string, Set<string>>();
  const compared = new Map<string, Set<string>>();
  for (const each of trace.sent)
    for (const { name } of each.outline.tokens)
      if (OFF.test(name)) {
        add(
          used,
          each.target,
          name,
          writtenBy(each).some(({ column }) => column === name),
        );
        add(compared, each.target, name, each.outline.verb === 'select' && namesAfterWhere(each, name));
      }
  if (used.size === 0) return;
  const logins = new Set(
    trace.runs
      .filter((run) => trace.callsOf(run).some(({ meaning }) => meaning === 'svc.checkPassword'))
      .flatMap((run) => (isGuarded(run) ? [] : trace.sentBy(run))),
  );
  for (const sending of trace.sent) {
    const { target = '', outline, isOfOne, isByInput } = sending;
    const isCredential = logins.has(sending) ? isByInput : isOfToken(sending, trace);
    const column = [...(used.get(target) ?? [])].find(
      (name) => isCredential || (compared.get(target)?.has(name) === true && isOwnRow(sending, trace)),
    );
    if (column === undefined || outline.verb !== 'select' || !isOfOne || outline.isAggregate) continue;
    if (siblingsOf(sending, trace).some((each) => each.target === target && names(each, column))) continue;
    report(
      sending.nodeAt(undefined),
      `the statement finds rows of the table "${target}" that the column "${column}" switches off, although other statements ${isCredential ? 'write' : 'compare'} it`,
    );
  }
}

function add(to: Map<string, Set<string>>, key = '', name: string, isAdded: boolean): void {
  if (isAdded) to.set(key, (to.get(key) ?? new Set()).add(name));
}

function names({ outline }: Sending, column: string): boolean {
  return outline.hasStar || outline.tokens.some(({ name }) => name === column);
}

/** Whether a handler without further rights reads one row by its key. */
function isOwnRow(sending: Sending, trace: Trace): boolean {
  const run = runOf(sending, trace);
  return run !== undefined && sending.isByInput && !trace.requiresRights(run) && !trace.testsRights(run);
}

function runOf({ handler }: Sending, trace: Trace): Run | undefined {
  return trace.runs.find((run) => run.handler === handler);
}

/** Returns the statements that the handler or dependency of a statement sends. */
function siblingsOf(sending: Sending, trace: Trace): readonly Sending[] {
  const { handler } = sending;
  return handler === undefined
    ? [sending]
    : trace.sentBy(runOf(sending, trace) ?? { functions: new Set([handler]) });
}
