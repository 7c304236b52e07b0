/**
 * Rules about passwords and accounts: codes that clients may guess (SVC204), comparisons of secrets (SVC621), tokens that
 * stay valid after they set a password (SVC644), replies that tell who has an account (SVC648), passwords and addresses that
 * a login alone changes (SVC649), and accounts that are switched off but still found (SVC672).
 */
import {
  branchIf,
  calledName,
  entryOf,
  functionAround,
  isWithin,
  leaveIn,
  partsIn,
  testsAround,
} from '../reader/nodes.ts';
import { DRAWN } from '../values/calls.ts';
import { MAIL, OFF, PROOF, namesSecret, namesCode } from '../names.ts';
import { CRYPTO, RANDOM, ROW } from '../values/marks.ts';
import { clientPartsOf, constantOf, hasClient, isStored } from '../values/text.ts';
import { ABSENT, hasMark, madeIn, withoutMembers } from '../values/value.ts';
import { numberOf } from '../reader/constants.ts';
import { ownersOf } from '../statements/owners.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { comparedColumn, isGuarded, rowsIn } from '../statements/trace.ts';
import { COMPARES_HASH } from './cryptography.ts';
import { limitOfRoute, limitersIn } from './routes.ts';
import { addedBy, columnsOf, isOfToken, isPassword, issues, writtenBy } from './races.ts';
import type { ClientPart } from '../values/text.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { Compared, KeptCall, Run, Trace } from '../statements/trace.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Fn, Node, NodeOf } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Variables, Watch } from '../sources.ts';
import type { Value } from '../values/value.ts';

/** Rules about passwords and accounts, sorted by id. */
export const PASSWORD_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC204', judge: findGuesses },
  {
    id: 'SVC621',
    severity: 'warning',
    cwe: [208],
    why: 'A comparison that stops at the first difference takes longer if more of a guess is correct, so attackers can measure their progress',
    remedy:
      'Compare in constant time: pass two SHA-256 digests to timingSafeEqual(); for passwords use checkPassword()',
    wrong: "if (req.headers['x-key'] !== process.env['KEY'])",
    right: 'if (!timingSafeEqual(sha256(given), sha256(key)))',
    watch: watchComparisons,
  },
  { id: 'SVC644', onRun: findReusable },
  {
    id: 'SVC648',
    severity: 'warning',
    cwe: [204],
    sources: ['OWASP Cheat Sheet: Forgot Password'],
    why: 'An attacker who learns which addresses have an account tries leaked passwords there, and sends deceiving mails',
    remedy: 'Respond in the same way whether the account exists or not',
    wrong: 'if (account === undefined) throw new NotFound("unknown address")',
    right: 'if (account === undefined) return { sent: true }',
    onRun: findTellingReplies,
  },
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
    onRun: findBareChanges,
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

/** SVC621: a secret of the program, compared with a text of a client by an operator. */
function watchComparisons(report: ReportAt, sources: Sources): Watch {
  const declared = declaredFields(sources);
  const compared: (Spot & { readonly node: NodeOf<'binary'>; readonly sides: readonly [Value, Value] })[] =
    [];
  return {
    onCompare({ node, module, sides }) {
      const isOfClient = sides.some(({ texts }) => texts.some(hasClient));
      if (node.type === 'binary' && isOfClient && !isLookup(node)) compared.push({ node, module, sides });
    },
    finish() {
      for (const { node, module, sides } of compared) {
        const [left, right] = sides;
        const isSecret = (held: Value, sent: Value, of: Node): boolean =>
          isSecretOf(held, sent, of, declared, sources.variables);
        if (isSecret(left, right, node.left) || isSecret(right, left, node.right))
          report(
            { module, node },
            `the comparison of a secret with "${node.operator}" stops at the first difference, so its duration shows how much of a guess is correct`,
          );
      }
    },
  };
}

/** Returns the header fields and cookies that dependencies declare as credentials: `{ type: 'apiKey', in: 'header', name }`. */
function declaredFields(sources: Sources): ReadonlySet<string> {
  const fields = ['headers.authorization'];
  for (const { node } of sources.all('object')) {
    const [place, name] = [entryOf(node, 'in'), entryOf(node, 'name')];
    if (place?.type === 'text' && name?.type === 'text')
      fields.push(`${place.value}s.${name.value.toLowerCase()}`);
  }
  return new Set(fields);
}

/** Whether one value, of the expression `node`, is a secret of the program, and the other one comes from a client. */
function isSecretOf(
  held: Value,
  sent: Value,
  node: Node,
  declared: ReadonlySet<string>,
  variables: Variables,
): boolean {
  const part = clientPartsOf(sent.texts).find((each) => !isStored(each));
  if (part === undefined || held === ABSENT || held.constant !== undefined) return false;
  const made = madeIn(withoutMembers(held));
  const [stored] = clientPartsOf(held.texts);
  if (stored !== undefined && !isStored(stored)) return false;
  const name = node.type === 'member' ? (node.property ?? '') : '';
  const isRow = stored !== undefined || made.some(({ by }) => by === ROW);
  return (
    made.some((mark) => /createHmac/.test(mark.by) || variables.isSecretMark(mark)) ||
    (isRow && namesSecret(name)) ||
    (!isRow && isOwnText(held) && (part.isSecret === true || declared.has(part.origin.what.toLowerCase())))
  );
}

/** Whether a text is of the program, but not written in the sources. */
function isOwnText({ texts, type, members }: Value): boolean {
  return type === undefined && members === undefined && texts.some((text) => constantOf(text) === undefined);
}

/**
 * Whether a comparison only finds an element of a list: `tokens.find((each) => each.token === token)`. The
 * duration of a search says little about one element.
 */
function isLookup({ parent }: Node): boolean {
  let at = parent;
  while (at?.type === 'binary' && at.operator === '&&') at = at.parent;
  return (
    at?.type === 'function' &&
    at.parent?.type === 'call' &&
    /^(?:find\w*|filter|some)$/.test(calledName(at.parent) ?? '')
  );
}

/** Requests per minute with which a code of six digits can be guessed while it is valid. */
const MOST_TRIES = 600;
/** Functions that compare a secret: a hash, or a comparison in constant time. */
const COMPARES =
  /^crypto\.(?:createHash|createHmac)\.update$|^crypto\.(?:hash|timingSafeEqual|scrypt|scryptSync)$|^svc\.checkPassword$/;

const DECIDES = /^svc\.(?:Unauthorized|Forbidden|createToken|Session\.regenerate)$|^svc\/oauth\.[^]*\.issue$/;

function findGuesses(trace: Trace, report: ReportAt, sources: Sources): void {
  const limits = limitersIn(sources);
  const codes = codesIn(trace);
  for (const run of trace.runs) {
    if (run.route === undefined || countsTries(run, trace)) continue;
    const limit = limitOfRoute(run, limits);
    if (limit <= MOST_TRIES) continue;
    // the handler refuses a wrong code, or lets the client in with a right one
    const decides = trace.calls.by(run).some(({ meaning }) => DECIDES.test(meaning));
    const code = chosenCode(run, trace, codes) ?? (decides ? guessedIn(run, trace) : undefined);
    if (code !== undefined)
      report(
        { module: sources.handlers.homeOf(run.handler), node: run.handler },
        `${code} has so few possible values that a client finds the right one, because it may try more than ${MOST_TRIES} a minute`,
        {
          remedy:
            'Limit the tries for each account: await new RateLimiter({ name: "codes", perMinute: 5 }).take(req, account), or count them in the row of the code',
        },
      );
    else if (
      !isGuarded(run) &&
      calledName(run.route.call) !== 'get' &&
      trace.calls.by(run).some(({ meaning }) => meaning === 'svc.checkPassword')
    )
      report(
        run.route,
        limit === Infinity
          ? 'clients can try passwords, codes or tokens without limit, because no rate limit applies to the route'
          : `clients can try more than ${MOST_TRIES} passwords a minute, because no tighter rate limit applies to the route`,
      );
  }
}

/** Returns the input with few possible values that the handler hashes, or compares as a secret. */
function guessedIn(run: Run, trace: Trace): string | undefined {
  const hashed = trace.calls.by(run).filter(({ meaning }) => COMPARES.test(meaning));
  const searched = trace
    .sentBy(run)
    .flatMap(({ equal }) => equal.filter(({ column }) => !isGuarded(run) || namesCode(column)));
  const compared = comparedWith(run, trace, namesCode);
  return [...hashed.flatMap(({ args }) => args), ...searched.map(({ value }) => value), ...compared]
    .flatMap((value) => guessable(value)?.origin.what ?? [])
    .at(0);
}

/** Returns the values that code compares with columns of such a name. */
function comparedWith(
  run: Run,
  trace: Trace,
  fits: (column: string | undefined) => boolean,
): readonly Value[] {
  return trace.compared.by(run).flatMap((each) =>
    each.sides.filter((_, index) => {
      const other = each.sides[1 - index];
      return rowsIn(other, [ROW]).length > 0 && fits(comparedColumn(each, 1 - index));
    }),
  );
}

/** A column of numbers that a statement of the program has drawn. */
type CodeColumn = Pick<Binding, 'column'> & Pick<Sending, 'target'>;

function codesIn({ sent }: Trace): readonly CodeColumn[] {
  return sent.flatMap(({ written, target }) =>
    written.filter(({ value }) => isDrawn(value)).map(({ column }) => ({ column, target })),
  );
}

/** Returns the input that a handler compares with a column of codes. */
function chosenCode(run: Run, trace: Trace, codes: readonly CodeColumn[]): string | undefined {
  if (codes.length === 0) return undefined;
  const searched = trace
    .sentBy(run)
    .flatMap(({ equal }) =>
      equal.filter(({ table, column }) =>
        codes.some((each) => each.target === table && each.column === column),
      ),
    )
    .map(({ value }) => value);
  const compared = comparedWith(run, trace, (column = '') =>
    codes.some((code) => plain(code.column) === plain(column)),
  );
  const given = [...searched, ...compared];
  const hashed = trace.calls.by(run).filter(({ meaning }) => COMPARES.test(meaning));
  const isDigest = given.some((value) => hasMark(value, CRYPTO));
  return [...given, ...(isDigest ? hashed.flatMap(({ args }) => args) : [])].flatMap(inputsOf).at(0);
}

/** Whether a value is a number of few digits that the program has drawn: `randomInt(100_000, 1_000_000)`. */
function isDrawn(value: Value | undefined): boolean {
  return madeIn(value).some(
    ({ by, node }) =>
      by === DRAWN && node.type === 'call' && node.args.some((arg) => (numberOf(arg) ?? 0) >= LEAST_CODES),
  );
}

/** Numbers below are letters of a longer text: `alphabet[randomInt(36)]`. */
const LEAST_CODES = 1_000;

function guessable(value: Value | undefined): ClientPart | undefined {
  const hasLongPart = hasMark(withoutMembers(value), RANDOM);
  return hasLongPart
    ? undefined
    : clientPartsOf(value?.texts ?? []).find(({ isGuessable }) => isGuessable === true);
}

/** Whether a statement returns a column that it changes. */
function returns({ outline }: Sending, column: string): boolean {
  const at = outline.tokens.findIndex(({ word }) => word === 'returning');
  return at !== -1 && (outline.hasStar || outline.isNamedAfter(at, column));
}

/** Whether a handler counts tries: by a limiter, or in a column that it reads or compares. */
function countsTries(run: Run, trace: Trace): boolean {
  const sent = trace.sentBy(run);
  const isRead = (column: string): boolean =>
    sent.some((each) =>
      addedBy(each) === column
        ? namesAfterWhere(each, column) || returns(each, column)
        : each.outline.names(column),
    ) || trace.compared.by(run).some((each) => [0, 1].some((side) => comparedColumn(each, side) === column));
  return (
    trace.calls.by(run).some(({ meaning }) => /^svc\.RateLimiter\.\w+$/.test(meaning)) ||
    sent.map(addedBy).some((column) => column !== undefined && isRead(column))
  );
}

/** SVC648: a refusal that says that there is no account, where any client may ask for a link or try passwords. */
function findTellingReplies(run: Run, trace: Trace, report: ReportAt): void {
  if (run.route === undefined || isGuarded(run)) return;
  const sent = trace.sentBy(run);
  const accounts = sent.filter(
    (each) => each.outline.verb === 'select' && each.isOfOne && !isOfToken(each, trace) && each.isByInput,
  );
  const checks = trace.calls.by(run).filter(({ meaning }) => COMPARES_HASH.test(meaning));
  const isLogin = checks.length > 0;
  if (accounts.length === 0 || !(isLogin || sent.some((each) => issues(each)))) return;
  const comparedOf = (rows: readonly Sending[]): readonly Compared[] =>
    trace.compared
      .by(run)
      .filter(
        ({ sides }) =>
          sides.includes(ABSENT) &&
          sides.some(
            (side) =>
              (side.type ?? side.of) !== undefined && rows.some(({ call }) => rowsIn(side).includes(call)),
          ),
      );
  const refusals = new Map<Node, SourceModule>();
  for (const { node, module } of comparedOf(accounts)) {
    const refusal = refusalIf(node, run.handler);
    if (refusal !== undefined) refusals.set(refusal, module);
  }
  const telling = [...refusals].filter(
    ([refusal, module]) =>
      (!isLogin && refusal.type === 'leave' && refusal.how === 'throw') || isUnlike(refusal, module),
  );
  for (const [node, module] of telling)
    report(
      { module, node },
      'the response tells each client which accounts exist, because it differs where there is none',
    );
  // a path names a page, which may have a password of its own
  const named = accounts.filter(({ equal }) =>
    equal.some(({ value }) => inputsOf(value).some((name) => /^(?:body|form)\b/.test(name))),
  );
  if (telling.length === 0) findTellingTimes(checks, comparedOf(named), report);
}

/** SVC648: a login that takes longer for accounts that exist, because it compares the password of these only. */
function findTellingTimes(
  [check, ...others]: readonly KeptCall[],
  compared: readonly Compared[],
  report: ReportAt,
): void {
  // a second call may hash the password where there is no account
  if (check === undefined || others.some(({ call }) => call !== check.call)) return;
  const { call, module } = check;
  const test = testsAround(call).find((around) => compared.some(({ node }) => isWithin(node, around)));
  if (test !== undefined)
    report(
      { module, node: test },
      'the time of the response tells which accounts exist, because only their passwords are hashed',
      {
        severity: 'info',
        remedy:
          'Compare in each case: checkPassword(body.password, account?.hash) takes as long without a hash',
      },
    );
}

/** Returns the statement that refuses a request where a row is absent, or with which the handler responds to it. */
function refusalIf(test: Node, handler: Fn): Node | undefined {
  const isPresent = test.type !== 'binary' || test.operator.startsWith('!');
  const branch = branchIf(test, !isPresent);
  const returned = functionAround(test) === handler && branch ? leaveIn(branch, /^return$/) : undefined;
  return branch && (leaveIn(branch, /^throw$/) ?? returned);
}

/** Whether the other refusals of a function, or its other responses, have another text or status than this one. */
function isUnlike(refusal: Node, { source }: SourceModule): boolean {
  const fn = functionAround(refusal);
  const textOf = ({ start, end }: Node): string => source.slice(start, end).replace(/;$/, '');
  const isThrown = refusal.type === 'leave' && refusal.how === 'throw';
  const others = (fn === undefined ? [] : partsIn(fn)).filter(
    (part) =>
      part !== refusal &&
      part.type === 'leave' &&
      functionAround(part) === fn &&
      (!isThrown || part.how === 'throw'),
  );
  return others.length > 0 && others.every((each) => textOf(each) !== textOf(refusal));
}

/** SVC649: a password that is set without the present one, and an address that counts as verified before a mail has reached it. */
function findBareChanges(run: Run, trace: Trace, report: ReportAt): void {
  if (!isGuarded(run) || ownersOf(trace).isRestricted(run)) return;
  const sent = trace.sentBy(run);
  const isProved =
    trace.calls
      .by(run)
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
        write.nodeAt(),
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

function namesAfterWhere({ outline }: Sending, column: string): boolean {
  return outline.tokens.slice(outline.before('where').length).some(({ name }) => name === column);
}

/** SVC644: a password that a random token of the client sets, while the token stays. */
function findReusable(run: Run, trace: Trace, report: ReportAt): void {
  // a session is such a row, too, and stays on purpose
  if (isGuarded(run) || trace.calls.by(run).some(({ meaning }) => meaning === 'svc.checkPassword')) return;
  const sent = trace.sentBy(run);
  for (const write of sent) {
    if (!write.written.some(isPassword)) continue;
    const isUsed = (each: Sending): boolean =>
      each === write || write.equal.some(({ value }) => rowsIn(value, [ROW]).includes(each.call));
    const token = sent.find(
      (each) => isUsed(each) && each.outline.verb !== 'delete' && isOfToken(each, trace),
    );
    if (token === undefined || sent.some((each) => endsToken(each, token))) continue;
    // a token in the row of the account ends in the statement that sets the password
    report(
      (token.target === write.target ? write : token).nodeAt(),
      `the token of the table "${token.target}" sets a password, and stays valid: each holder of the link sets it again`,
      {
        remedy:
          'Delete the row and read it in one statement: delete from reset where token = ? and expires > ? returning account',
      },
    );
  }
}

/** Whether a statement deletes the row of a token, or sets another column than the password in it. */
function endsToken(write: Sending, { target = '' }: Sending): boolean {
  if (!write.isWrite || !write.tables.includes(target)) return false;
  const passwords = columnsOf(write.written.filter(isPassword));
  return (
    write.outline.verb !== 'update' || writtenBy(write).some(({ column }) => !passwords.includes(column))
  );
}

/** SVC672: a login, a key or a single row that is found although a column that other statements use switches it off. */
function findSwitchedOff(trace: Trace, report: ReportAt): void {
  const used = new Map<string, Set<string>>();
  const compared = new Map<string, Set<string>>();
  for (const each of trace.sent) {
    const { target = '', outline } = each;
    for (const name of new Set(outline.tokens.map((token) => token.name))) {
      if (!OFF.test(name)) continue;
      if (writtenBy(each).some(({ column }) => column === name)) add(used, target, name);
      if (outline.verb === 'select' && namesAfterWhere(each, name)) add(compared, target, name);
    }
  }
  if (used.size === 0) return;
  const logins = new Set(
    trace.runs
      .filter((run) => trace.calls.by(run).some(({ meaning }) => meaning === 'svc.checkPassword'))
      .flatMap((run) => (isGuarded(run) ? [] : trace.sentBy(run))),
  );
  for (const sending of trace.sent) {
    const { target = '', outline, isOfOne, isByInput } = sending;
    const columns = used.get(target);
    if (columns === undefined || outline.verb !== 'select' || !isOfOne || outline.isAggregate) continue;
    const isCredential = logins.has(sending) ? isByInput : isOfToken(sending, trace);
    const column = [...columns].find((name) => isCredential || compared.get(target)?.has(name) === true);
    if (column === undefined || !(isCredential || isOwnRow(sending, trace))) continue;
    if (siblingsOf(sending, trace).some((each) => each.target === target && each.outline.names(column)))
      continue;
    report(
      sending.nodeAt(),
      `the statement finds rows of the table "${target}" that the column "${column}" switches off, although other statements ${isCredential ? 'write' : 'compare'} it`,
    );
  }
}

function add(to: Map<string, Set<string>>, table: string, column: string): void {
  to.set(table, (to.get(table) ?? new Set()).add(column));
}

/** Whether a handler without further rights reads one row by its key. */
function isOwnRow({ handler, isByInput }: Sending, trace: Trace): boolean {
  const run = isByInput ? trace.runOf(handler) : undefined;
  return run !== undefined && !trace.requiresRights(run) && !trace.testsRights(run);
}

/** Returns the statements that the handler or dependency of a statement sends. */
function siblingsOf(sending: Sending, trace: Trace): readonly Sending[] {
  const { handler } = sending;
  return handler === undefined
    ? [sending]
    : trace.sentBy(trace.runOf(handler) ?? { functions: new Set([handler]) });
}
