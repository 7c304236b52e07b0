/**
 * Rules about tokens: expiry, verification, accounts found by an unverified e-mail address, and links with a secret
 * (SVC215, SVC624, SVC627, SVC639).
 */
import { entryOf, isRaw, leaveIn, partsIn, triesAround } from '../reader/nodes.ts';
import { constantOf, numberOf } from '../reader/constants.ts';
import { END, TIME } from '../names.ts';
import { callsIn, meaningOfCall } from '../sources.ts';
import { GUESSABLE, isOfPackage } from '../values/calls.ts';
import { inputsOf } from '../statements/sending.ts';
import { isGuarded, rowsIn } from '../statements/trace.ts';
import { ASKS_BY_OBJECT } from './injection.ts';
import { isOfToken, isPassword } from './races.ts';
import { CLAIMED_MAIL, PROVIDER_MAIL } from '../values/ours.ts';
import { isPiece, isStored, literalOf } from '../values/text.ts';
import { KNOWN, clientIn, clientsIn, closuresOf, hasMark, idsIn, innerOf, madeIn } from '../values/value.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Part, Text } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { Sending } from '../statements/sending.ts';
import type { Run, Trace } from '../statements/trace.ts';

/** Rules about tokens, sorted by id. */
export const TOKEN_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC215',
    severity: 'warning',
    cwe: [613],
    sources: ['RFC 8725 §3.10'],
    why: 'A leaked token works until it expires, and most leaks are noticed late',
    remedy:
      'Remove the option requireExp: false, which accepts tokens without an expiry time, and issue tokens that expire: expiresInSeconds: 3_600',
    wrong: 'BearerAuth({ requireExp: false })',
    right: 'createToken(sub, secret, { expiresInSeconds: 3_600 })',
    find: findEndlessTokens,
    onCall: findEndlessForeign,
    onRun: findUnreadEnds,
  },
  {
    id: 'SVC624',
    severity: 'error',
    cwe: [347],
    sources: ['RFC 8725 §3'],
    why: 'Until the signature of a token is verified, any client may have written its content',
    remedy: 'Use verifyToken(token, secret), or Depends(BearerAuth())',
    wrong: "JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))",
    right: 'verifyToken(token, secret)',
    watch: watchUnverified,
    onCall: findChosenAlgorithms,
    onRun: findUnsigned,
  },
  { id: 'SVC624', onRun: findRewritten },
  { id: 'SVC215', watch: watchEndlessTokens },
  {
    id: 'SVC627',
    severity: 'warning',
    cwe: [287],
    sources: ['OpenID Connect Core §5.7'],
    why: 'Some login providers do not verify e-mail addresses, so an attacker can register there with the address of a victim',
    remedy: 'Find users by provider and subject (the user id). Never match them by e-mail, verified or not',
    wrong: "fetchOne('… where email = ?', [info.email])",
    right: "fetchOne('… where provider = ? and subject = ?', [provider, info.subject])",
    watch: watchMail,
  },
  {
    id: 'SVC639',
    severity: 'error',
    cwe: [640],
    sources: ['OWASP Cheat Sheet: Forgot Password'],
    why: 'A client sends the header Host, so it can ask for a link that leads to a server of its own',
    remedy: 'Take the address of the site from a setting: app.config.get("baseUrl")',
    wrong: '`https://${req.host}/reset?token=${token}`',
    right: '`https://app.example/reset?token=${token}`',
    onCall: findLinks,
  },
  { id: 'SVC220', watch: watchPurposes },
];

const PURPOSE = ['type', 'audience', 'issuer'];
const PURPOSE_REMEDY =
  "Name its purpose where it is made and verified: createToken(id, secret, { type: 'confirm+jwt', audience: 'confirm' })";
const OWN_SECRET = /^(?:process\.env\.SVC_AUTH_SECRET|setting authSecret)$/;
/** Guards that accept each token of the secret, unless they have options. */
const GUARD = /^svc\.BearerAuth$|^svc\.require(?:Roles|Scopes)$/;

/** Calls that have an effect for the subject of a token. */
const ACTS = /^svc\.(?:createToken|hashPassword|Session\.\w+)$|^svc\/oauth\./;

/** SVC220: a token of a body, such as that of a link, which the guards accept as an access token, too (RFC 8725 §2.8). */
function watchPurposes(report: ReportAt, sources: Sources): Watch {
  const found: Site[] = [];
  const acting = new Set<Site['handler']>();
  const takesAll = (): boolean =>
    sources.called(GUARD).some(({ node }) => node.args.every(({ type }) => type === 'text'));
  return {
    onCall(site) {
      const { call, meaning, handler, value } = site;
      if (ACTS.test(meaning)) acting.add(handler);
      if (meaning !== 'svc.verifyToken') return;
      const [token, secret, options] = call.args.map((arg) => value(arg));
      const isOfBody = /^(?:body|form)$/.test(clientIn(token)?.origin.input ?? '');
      const isOwn = hasMark(secret, OWN_SECRET);
      const isNamed = options !== undefined && PURPOSE.some((key) => options.members?.has(key) !== false);
      if (isOfBody && isOwn && !isNamed) found.push(site);
    },
    onStatement({ isWrite, handler }) {
      if (isWrite) acting.add(handler);
    },
    finish() {
      for (const site of takesAll() ? found : [])
        // whether the token counts is the answer itself, as of an introspection (RFC 7662)
        if (acting.has(site.handler) || !isAnswered(site))
          report(
            { module: site.module, node: site.call },
            'the token of a body has neither a type nor an audience of its own, so the guards accept it as an access token, and this code accepts access tokens',
            { remedy: PURPOSE_REMEDY },
          );
    },
  };
}

/** Whether the request goes on when a call fails: a `catch` around it, or around the calls that lead to it, refuses nothing. */
function isAnswered({ call, stack }: Site): boolean {
  return [call, ...stack.map((frame) => frame.call)].some(
    (each) =>
      each !== undefined &&
      triesAround(each).some(
        ({ handler }) => handler !== undefined && leaveIn(handler, /^throw$/) === undefined,
      ),
  );
}

/** SVC215: tokens that stay valid too long. */
function findEndlessTokens(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.called(/^svc\.(?:BearerAuth|verifyToken|createToken)$/))
    for (const given of call.args) {
      const constant = constantOf(given, module);
      const arg = constant?.node;
      const required = entryOf(arg, 'requireExp');
      if (required !== undefined && isRaw(required, 'false'))
        report(
          { module: constant!.module, node: required },
          'tokens without an expiry time are accepted, so a leaked token never becomes invalid',
        );
      const seconds = computed(entryOf(arg, 'expiresInSeconds'), constant?.module ?? module);
      if (seconds !== undefined && seconds > 366 * 86_400)
        report(
          { module: constant!.module, node: entryOf(arg, 'expiresInSeconds')! },
          'the token is valid for more than a year, so a leaked token works for more than a year, too',
        );
    }
}

/** SVC215: tokens that a package signs without an expiry time. */
function findEndlessForeign({ call, meaning, module, receiver, value }: Site, report: ReportAt): void {
  const [payload, , options] = call.args.map((arg) => value(arg));
  const isBuilder = /^jose\.SignJWT\.(?:[^]*\.)?sign$/.test(meaning);
  if (!isBuilder && meaning !== 'jsonwebtoken.sign') return;
  const content = isBuilder ? receiver?.members : payload?.members;
  const isKnown =
    isBuilder || (content !== undefined && (options === undefined || options.members !== undefined));
  const hasEnd =
    content?.has('exp') === true ||
    options?.members?.has('expiresIn') === true ||
    /setExpirationTime/.test(meaning);
  const isOpen = [payload, options].some((each) => each?.items !== undefined || each?.source !== undefined);
  if (isKnown && !hasEnd && !isOpen)
    report({ module, call }, 'the token never expires, so a leaked token works as long as its key');
}

/** SVC215: rows with an end, which a handler finds by a secret of the client, while nothing compares the end. */
function findUnreadEnds(run: Run, trace: Trace, report: ReportAt, sources: Sources): void {
  const sent = trace.sentBy(run);
  for (const sending of sent) {
    const { outline, target } = sending;
    if (!/^(?:select|delete|update)$/.test(outline.verb)) continue;
    const named = [...(trace.tableOf(sending)?.columns ?? []), ...outline.tokens.map(({ name }) => name)];
    const ends = named.filter((name) => END.test(name));
    if (isEndless(sending, run, trace))
      report(
        sending.nodeAt(),
        `a row of the table "${target}" sets a password, and has no time, so a leaked link works for ever`,
        { remedy: 'Add a column with the end, and compare it: where token = ? and expires_at > ?' },
      );
    if (ends.length === 0) continue;
    const unread = isOfToken(sending, trace) ? ends : unreadIn(sending, sources);
    const end = ends.find((name) => unread.includes(name));
    const isCompared =
      end === undefined ||
      // another statement may delete the rows that have ended
      trace.sent.some((each) => each.target === target && compares(each, end)) ||
      trace.compared
        .by(run)
        .some(
          ({ node, sides }) =>
            node.type === 'binary' &&
            /^[<>]/.test(node.operator) &&
            sides.some((side) =>
              sent.some((each) => each.target === target && rowsIn(side).includes(each.call)),
            ),
        );
    if (isCompared) continue;
    report(
      sending.nodeAt(),
      `the rows of the table "${target}" end at "${end}", but nothing compares it, so a leaked link works for ever`,
      { remedy: 'Compare it in the statement: where token = ? and expires_at > ?' },
    );
    break; // the other statements of the handler use the same row
  }
}

/** Whether a statement compares a column by its order. */
function compares({ outline: { tokens } }: Sending, column: string): boolean {
  return tokens.some(
    ({ name }, index) =>
      name === column &&
      [tokens[index + 1], tokens[index - 1]].some(
        (beside) => /^[<>]$/.test(beside?.text ?? '') || beside?.word === 'between',
      ),
  );
}

/** Whether a statement finds the row of a token that sets a password, in a table of its own without a time. */
function isEndless(sending: Sending, run: Run, trace: Trace): boolean {
  const columns = trace.tableOf(sending)?.columns;
  const sets = trace.sentBy(run).filter(({ written }) => written.some(isPassword));
  return (
    columns?.some((column) => TIME.test(column)) === false &&
    !isGuarded(run) &&
    sets.length > 0 &&
    sets.every(({ target }) => target !== sending.target) &&
    isOfToken(sending, trace)
  );
}

/** Returns the columns that a statement for one row selects by an input, and that its file never reads, although it reads others. */
function unreadIn(
  { outline, isOfOne, isWrite, isByInput, module }: Sending,
  sources: Sources,
): readonly string[] {
  if (isWrite || !isOfOne || !isByInput) return [];
  const selected = outline.before('from').flatMap(({ name, word }) => (word === 'select' ? [] : name || []));
  const read = new Set(
    sources
      .all('member')
      .filter((each) => each.module === module)
      .map(({ node }) => node.property),
  );
  return selected.some((name) => read.has(name)) ? selected.filter((name) => !read.has(name)) : [];
}

/** SVC624: an end of a signed link that the signature leaves out, so that the client chooses it. */
function findUnsigned(run: Run, trace: Trace, report: ReportAt): void {
  const signed = trace.calls
    .by(run)
    .filter(
      ({ meaning, call }) =>
        /^crypto\.createHmac\.(?:update\.)*update$/.test(meaning) && call.args.length > 0,
    );
  const inputs = new Set(signed.flatMap(({ args }) => args.flatMap((arg) => inputsOf(arg))));
  if (inputs.size === 0) return;
  for (const { node, sides } of trace.compared.by(run)) {
    const isOfTime = sides.some((side) =>
      madeIn(side).some(({ by }) => by !== 'Math.random' && GUESSABLE.test(by)),
    );
    const [input] = isOfTime ? sides.flatMap((side) => inputsOf(side)) : [];
    const isOrdered = node.type === 'binary' && /^[<>]/.test(node.operator);
    if (!isOrdered || input === undefined || isSigned(input, inputs)) continue;
    const { call, module } = signed[0]!; // `inputs` is not empty
    report(
      { module, call },
      `the signature leaves out ${input}, which ends the link, so a client extends the link as it likes`,
      { remedy: 'Sign everything that the link says: update(`${path}.${until}`)' },
    );
  }
}

/** SVC624: a signature of the body that code computes over a text which it has made of the parsed body. */
function findRewritten(run: Run, trace: Trace, report: ReportAt): void {
  const calls = trace.calls.by(run);
  if (!calls.some(({ meaning }) => meaning === 'crypto.timingSafeEqual')) return;
  for (const { meaning, args, call, module } of calls) {
    const part = clientIn(args[0]);
    const isWhole = part !== undefined && / body json$/.test(part.id);
    if (isWhole && /^crypto\.createHmac\.(?:update\.)*update$/.test(meaning))
      report(
        { module, call },
        'the signature is computed over a text that JSON.stringify() makes of the parsed body, which differs from the text that the sender has signed',
        {
          severity: 'warning',
          remedy:
            'Verify the bytes before they are parsed: const raw = await req.text(); if (!isGenuine(raw, given)) throw new Unauthorized(); const body = Event.parse(JSON.parse(raw))',
        },
      );
  }
}

/** SVC215: a token that code verifies by hand, in a project that knows the claim "exp" and compares no end. */
function watchEndlessTokens(report: ReportAt, sources: Sources): Watch {
  const read: (Spot & { readonly what: string })[] = [];
  const verified = new Set<string>();
  return {
    onCall(site) {
      const { call, meaning, module, value } = site;
      const what = tokenIn(site);
      if (what !== undefined && /authorization|token|jwt/i.test(what))
        read.push({ node: call, module, what });
      if (VERIFIES.test(meaning))
        for (const arg of call.args) verified.add(clientIn(value(arg))?.origin.what ?? '');
    },
    finish() {
      const known = sources.project.modules.some(({ text, source }) => /\bexp\b/.test(text ?? source));
      const isCompared = sources
        .all('binary')
        .some(({ node }) => /^[<>]/.test(node.operator) && namesEnd(node));
      for (const { what, ...spot } of known && !isCompared ? read : [])
        if (verified.has(what))
          report(
            spot,
            'nothing compares the claim "exp" of the token with the time, so a leaked token works for ever',
            {
              remedy:
                'Refuse it after its end: if (claims.exp <= app.clock.nowMs() / 1_000) throw new Unauthorized()',
            },
          );
    },
  };
}

function namesEnd(comparison: Node): boolean {
  return partsIn(comparison).some((part) => {
    const name = part.type === 'member' ? part.property : part.type === 'name' ? part.name : undefined;
    return name !== undefined && /^(?:exp|until|expir\w*|ends?)$/i.test(name);
  });
}

/** Whether a signed text holds an input, or the text of which the input is a part. */
function isSigned(input: string, signed: ReadonlySet<string>): boolean {
  return [...signed].some(
    (each) => input === each || input.startsWith(`${each}.`) || each.startsWith(`${input}.`),
  );
}

/** Calls that verify a text by a function that their first argument chooses. */
const BY_ALGORITHM = /^crypto\.(?:createHmac|createVerify|verify)$/;

/** SVC624: a part of a token chooses the function that verifies the token. */
function findChosenAlgorithms(
  { call, meaning, module, value }: Site,
  report: ReportAt,
  sources: Sources,
): void {
  const called = value(call.callee) ?? KNOWN;
  const options = VERIFIES_TOKEN.test(meaning) ? call.args.map(value) : [];
  const allowed = options.flatMap((each) => each?.members?.get('algorithms') ?? []);
  const isAllowed = allowed.some((each) => clientsIn(each.items ?? each).some((part) => !isStored(part)));
  const chosen = BY_ALGORITHM.test(meaning) ? idsOf(value(call.args[0])) : (called.keys ?? []);
  if (!isAllowed && !chosen.some((id) => / parsed\.\w+(?: |$)/.test(id))) return;
  const verifies = closuresOf(called).some(({ fn, module: home }) =>
    fn.body.some((part) =>
      callsIn(part, home, sources).some((each) => VERIFIES.test(meaningOfCall(each.call, each.module))),
    ),
  );
  if (isAllowed || verifies || BY_ALGORITHM.test(meaning))
    report(
      { module, call },
      'the token itself chooses the algorithm of its verification, so a client can choose one that accepts any token',
    );
}

/** Calls of packages that verify a token by one of the algorithms in their options. */
const VERIFIES_TOKEN =
  /^(?:jsonwebtoken(?:\.default)?\.verify|jose\.(?:jwtVerify|compactVerify|flattenedVerify|generalVerify))$/;

/** Returns the ids of the parts of clients in a value, and of those by which it was found. */
function idsOf(value: Value | undefined): readonly string[] {
  return [...idsIn(value), ...(value?.keys ?? [])];
}

/** SVC639: texts with a secret for the host that the client names in its request. */
function findLinks({ call, value }: Site, report: ReportAt): void {
  for (const arg of call.args) {
    const host = hostOfLink(value(arg));
    if (host === undefined) continue;
    report(
      host,
      'a link with a secret leads to the host that the client named in its request, so an attacker who asks for the link receives the secret of another user',
    );
  }
}

/** Returns the value of a number, or of a product whose factors may be constants: `10 * YEAR`. */
function computed(node: Node | undefined, module: SourceModule, depth = 0): number | undefined {
  if (node?.type === 'binary' && node.operator === '*')
    return (computed(node.left, module, depth) ?? NaN) * (computed(node.right, module, depth) ?? NaN);
  const constant = node === undefined || depth > 4 ? undefined : constantOf(node, module);
  return constant === undefined || constant.node === node
    ? numberOf(node)
    : computed(constant.node, constant.module, depth + 1);
}

const DECODES =
  /^(?:jsonwebtoken\.decode|jose\.(?:decodeJwt|UnsecuredJWT\.decode)|jwt-decode(?:\.jwtDecode)?|jsonwebtoken\.default\.decode)$/;
/** Calls that verify a text, or make what it is compared with. */
const VERIFIES =
  /^(?:crypto\.(?:createHmac|createVerify|createSign)\.[^]*(?:update|verify)|crypto\.(?:verify|timingSafeEqual|createHmac)|(?:crypto\.)?(?:webcrypto\.)?subtle\.\w+|svc\.(?:verifyToken|BearerAuth|unsign\w*))$/;

/** SVC624: a token whose claims code reads, while nothing verifies it. */
function watchUnverified(report: ReportAt): Watch {
  const read: (Spot & { readonly what: string })[] = [];
  const verified = new Set<string>();
  return {
    onCall(site) {
      const { call, meaning, module, value } = site;
      const what = tokenIn(site);
      if (what !== undefined) read.push({ node: call, module, what });
      else if (VERIFIES.test(meaning) || (isOfPackage(meaning) && !DECODES.test(meaning)))
        for (const arg of call.args) {
          const part = clientIn(value(arg));
          if (part !== undefined) verified.add(part.origin.what);
        }
    },
    finish() {
      for (const { node, module, what } of read)
        if (!verified.has(what))
          report(
            { module, node },
            'the token is read without verifying its signature: any client can forge a token',
          );
    },
  };
}

/**
 * Returns the input with a token that a call decodes: by a package, or as the JSON of a part between dots. A header
 * for the authorization is one, whatever its form.
 */
function tokenIn({ call, meaning, value }: Site): string | undefined {
  const part = clientIn(value(call.args[0]));
  if (part === undefined || isStored(part)) return undefined;
  if (DECODES.test(meaning)) return part.origin.what;
  const isPart = isPiece(part, '.') || part.origin.what === 'headers.authorization';
  return meaning === 'JSON.parse' && isPart ? part.origin.what : undefined;
}

/** SVC627: accounts that code finds by an unverified e-mail address. */
function watchMail(report: ReportAt): Watch {
  /** Searches by an address in a response of any service, which is a login provider if the handler logs the person in. */
  const claimed: (Spot & Pick<Site, 'handler'>)[] = [];
  const logins = new Set<Site['handler']>();
  const tell = (at: Spot): void =>
    report(
      at,
      'the account is found by an e-mail address that may be unverified: an attacker who enters this address at the login provider gets the account',
    );
  const judge = (value: Value | undefined, at: Spot & Pick<Site, 'handler'>): void => {
    if (isUnverifiedMail(value, CLAIMED_MAIL)) claimed.push(at);
    else tell(at);
  };
  return {
    onStatement: (sending) => {
      const found = sending.bindings?.find(
        ({ use, value }) => (use === 'equal' || use === 'other') && isUnverifiedMail(value),
      );
      if (found === undefined || sending.outline.verb === 'insert') return;
      const { module, call: node, handler } = sending;
      judge(found.value, { module, node, handler });
    },
    onCall: ({ call, meaning, module, receiver, handler, value }) => {
      if (LOGS_IN.test(meaning)) logins.add(handler);
      const isLookup = receiver?.type === 'Map' || ASKS_BY_OBJECT.test(meaning);
      const found = isLookup ? call.args.map(value).find((arg) => isUnverifiedMail(arg)) : undefined;
      if (found !== undefined) judge(found, { module, node: call, handler });
    },
    finish() {
      for (const { handler, ...at } of claimed) if (handler !== undefined && logins.has(handler)) tell(at);
    },
  };
}

/** Calls that log a person in. */
const LOGS_IN = /^svc\.(?:createToken|Session\.(?:set|regenerate))$/;

function isUnverifiedMail(value: Value | undefined, mail = PROVIDER_MAIL): boolean {
  return idsIn(value).some((id) => id.startsWith(mail));
}

function isHost(part: Part): boolean {
  return part.kind === 'own' && part.made?.by === 'request.host';
}

/** Returns the template or literal that makes an address of parts. */
export function placeIn(text: Text): Spot | undefined {
  return text
    .flatMap((part) => (part.kind === 'literal' ? (part.from ?? []) : []))
    .find(
      ({ text: piece, node }) =>
        /:\/\/|^[/?#:]/.test(piece) && (node.type === 'template' || node.parent?.type === 'binary'),
    );
}

/** Whether a value is, or holds, an address on the host that a client names in its request. */
export function leadsToHost(value: Value | undefined, depth = 0): boolean {
  if (value === undefined || depth > 3) return false;
  const isLink = value.texts.some((text) =>
    text.some(
      (part, index) =>
        isHost(part) &&
        (/\/\/$/.test(literalOf(text.slice(0, index))) || /^[/?#]/.test(literalOf(text.slice(index + 1)))),
    ),
  );
  return isLink || innerOf(value).some((inner) => leadsToHost(inner, depth + 1));
}

/** Returns the place of the host in a text that also holds a secret of the program. */
function hostOfLink(value: Value | undefined, depth = 0): Spot | undefined {
  if (value === undefined || depth > 3) return undefined;
  for (const text of value.texts) {
    const host = text.find((part, index) => isHost(part) && /^[/?#:]/.test(literalOf(text.slice(index + 1))));
    const hasSecret = (): boolean => hasMark({ texts: [text] }, /^crypto\.random|^svc\.createToken$/);
    if (host?.kind === 'own' && hasSecret()) return placeIn(text) ?? host.made;
  }
  for (const inner of value.members?.values() ?? []) {
    const found = hostOfLink(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
