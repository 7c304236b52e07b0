/**
 * Rules about cryptography: predictable secrets, fast hashes of passwords, constant initialisation vectors, connections
 * without a check of the certificate, and passwords that are stored as they are (SVC622, SVC623, SVC628, SVC629, SVC677).
 */
import {
  entryOf,
  functionAround,
  isRaw,
  loopAround,
  methodOf,
  nodesAround,
  pathOf,
} from '../reader/nodes.ts';
import { PASSWORD, bare, namesSecret } from '../names.ts';
import { meaningOfCall } from '../sources.ts';
import { GUESSABLE } from '../values/calls.ts';
import { fieldsOf } from './replies.ts';
import { PRINCIPAL, ROW } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { clientPartsOf, isLasting, isStored, literalOf } from '../values/text.ts';
import { clientIn, clientsIn, madeIn, withoutMembers } from '../values/value.ts';
import { columnOf, plain } from '../statements/sending.ts';
import { rowsIn } from '../statements/trace.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about cryptography, sorted by id. */
export const CRYPTOGRAPHY_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC622',
    severity: 'error',
    cwe: [338],
    why: 'Math.random() is predictable: a few of its outputs reveal all that follow',
    remedy: 'Use randomBytes(32).toString("base64url"), randomUUID() or randomInt() of node:crypto',
    wrong: 'const token = Math.random().toString(36);',
    right: "const token = randomBytes(32).toString('base64url');",
    watch: watchChance,
  },
  {
    id: 'SVC623',
    severity: 'error',
    cwe: [916],
    sources: ['OWASP Cheat Sheet: Password Storage'],
    why: 'Attackers who have a fast hash of a password find the password by trying billions a second, even if the hash has a salt',
    remedy: 'Hash with await hashPassword(password), and compare with checkPassword()',
    wrong: "createHash('sha256').update(password)",
    right: 'await hashPassword(password)',
    onCall: findFastHashes,
  },
  { id: 'SVC623', onCall: findFewRounds },
  {
    id: 'SVC628',
    severity: 'error',
    cwe: [329, 353],
    sources: ['NIST SP 800-38A, Appendix C'],
    why: 'With a constant initialisation vector, equal messages have equal ciphertexts. In the modes CTR and GCM, two messages reveal each other',
    remedy:
      'Make a new vector for each message with randomBytes(12), and store it in front of the ciphertext',
    wrong: "createCipheriv('aes-256-gcm', key, Buffer.alloc(12))",
    right: "createCipheriv('aes-256-gcm', key, randomBytes(12))",
    watch: watchCiphers,
  },
  {
    id: 'SVC629',
    severity: 'error',
    cwe: [295],
    why: 'TLS without a check of the certificate protects from readers only, and not from an attacker who responds in place of the server',
    remedy:
      'Remove rejectUnauthorized. For a server with a certificate of your own, pass that certificate as ca',
    wrong: 'new Agent({ rejectUnauthorized: false })',
    right: 'new Agent({ ca: await readFile(path) })',
    onCall: findUnverifiedServers,
    find: findUnverifiedProcess,
  },
  {
    id: 'SVC677',
    severity: 'error',
    cwe: [256, 312],
    sources: ['OWASP Cheat Sheet: Password Storage'],
    why: 'Everyone who reads the table, a backup or a log of the database has all passwords, and people use one password in many places',
    remedy: 'Store await hashPassword(password), and compare with checkPassword()',
    wrong: "db.execute('insert into person (name, password) values (?, ?)', [body.name, body.password])",
    right:
      "db.execute('insert into person (name, password) values (?, ?)', [body.name, await hashPassword(body.password)])",
    watch: watchStoredPasswords,
  },
];

/** Functions that compare a password with its hash. */
export const COMPARES_HASH: RegExp =
  /^svc\.checkPassword$|^(?:bcrypt|bcryptjs)\.compare(?:Sync)?$|^argon2\.verify$/;

/**
 * SVC677: inputs in columns whose rows log clients in: a function compares the column as a hash, or code compares a column
 * that is named like a password with an input. A password that nothing compares may be one for another service.
 */
function watchStoredPasswords(report: ReportAt): Watch {
  const sent: Sending[] = [];
  /** Statements whose rows are compared, and the compared column; '' for each column that is named like a password. */
  const compared = new Map<Node, Set<string>>();
  const note = (value: Value | undefined, isHash: boolean): void => {
    if (value === undefined) return;
    const names = [
      ...madeIn(value).map(({ column = '' }) => plain(column)),
      ...clientsIn(value).map((part) => columnOf(part)?.name ?? ''),
    ].filter((name) => isHash || PASSWORD.test(name));
    for (const node of names.length === 0 ? [] : rowsIn(value, [ROW]))
      compared.set(node, new Set([...(compared.get(node) ?? []), ...names]));
  };
  return {
    onCall({ meaning, call, value }) {
      const hash = call.args[meaning === 'argon2.verify' ? 0 : 1];
      if (COMPARES_HASH.test(meaning)) note(value(hash), true);
    },
    onCompare({ sides }) {
      const isOfInput = sides.some((side) => clientsIn(side).some((part) => !isStored(part)));
      if (isOfInput) for (const side of sides) note(side, false);
    },
    onStatement: (sending) => void sent.push(sending),
    finish() {
      const columns = new Set<string>();
      for (const { call, tables, equal } of sent) {
        for (const name of compared.get(call) ?? [])
          for (const table of tables) columns.add(`${table}.${name}`);
        for (const { kind, table, column } of equal)
          if (kind === 'input' && PASSWORD.test(plain(column))) columns.add(`${table}.${plain(column)}`);
      }
      for (const sending of sent)
        for (const { kind, value, table, column, token } of sending.written) {
          const name = plain(column);
          const isPassword =
            columns.has(`${table}.${name}`) || (columns.has(`${table}.`) && PASSWORD.test(name));
          const parts = kind === 'input' ? clientsIn(value) : [];
          const given = parts.find(({ unknown }) => unknown === undefined);
          if (!isPassword || given === undefined || given.origin.what.match(/hash|digest|encrypt/i)) continue;
          report(
            sending.nodeAt(token),
            `${given.origin.what} is stored in the column "${column}" as a client sends it, so who reads the table knows the password`,
          );
        }
    },
  };
}

/** SVC628: encryption whose initialisation vector is always the same. */
function watchCiphers(report: ReportAt): Watch {
  /** Buffers into which a function wrote. */
  const filled = new Set<Value>();
  const opened = new Map<Call, SourceModule>();
  /** Functions that verify what they decrypt, or hand it on to code that may do so. */
  const verifying = new Set<Fn | undefined>();
  return {
    onCall(site) {
      for (const each of filledBy(site)) filled.add(each);
      judgeCipher(site, filled, report);
      const { call, meaning, module, receiver, value } = site;
      const isDecipher = (given: Value | undefined): boolean => given?.type === 'crypto.createDecipheriv';
      if (meaning === 'crypto.createDecipheriv' && VERIFIED.test(constantIn(value(call.args[0])) ?? ''))
        opened.set(call, module);
      if (
        /createDecipheriv\.[^]*(?:final|pipe)$/.test(meaning) ||
        call.args.some((arg) => isDecipher(value(arg)))
      )
        verifying.add(functionAround(call));
      if (isDecipher(receiver) && methodOf(call) === 'final') verifying.add(functionAround(call));
    },
    finish() {
      for (const [call, module] of opened)
        if (!verifying.has(functionAround(call)) && call.parent?.type !== 'leave')
          report(
            { module, call },
            'the decrypted text is used without final(), which compares the tag: an attacker changes the text unnoticed',
            {
              remedy:
                'Set the tag before, and add the end: text + decipher.final("utf8") throws if the tag is wrong',
            },
          );
    },
  };
}

/** Ciphers whose messages have a tag that shows changes. */
const VERIFIED = /-(?:gcm|ccm|ocb)$|poly1305/i;

/** Returns the buffers into which a call may write. */
function filledBy({ call, meaning, receiver, value }: Site): readonly Value[] {
  const written = FILLS.test(meaning)
    ? value(call.args[0])
    : receiver?.type !== undefined && ALLOCATES.test(receiver.type)
      ? receiver
      : undefined;
  // bytes of another buffer may be copied into one
  const isCopy = methodOf(call) === 'copy';
  return [written, ...(isCopy ? call.args.map(value) : [])].filter((each) => each !== undefined);
}

function judgeCipher(
  { call, meaning, module, value }: Site,
  filled: ReadonlySet<Value>,
  report: ReportAt,
): void {
  if (meaning !== 'crypto.createCipheriv') return;
  const [cipher, key, vector] = call.args;
  const given = value(vector);
  if (vector !== undefined && /-ecb$/i.test(constantIn(value(cipher)) ?? ''))
    return report(
      { module, call },
      'the mode ECB has no initialisation vector: equal blocks have equal ciphertexts, so an attacker sees and moves them',
    );
  // RFC 3394 prescribes the vector of a wrapped key, and a random key encrypts one message
  if (
    /wrap/.test(constantIn(value(cipher)) ?? '') ||
    madeIn(value(key)).some(({ by, isLasting: lasts }) => by.startsWith('crypto.random') && lasts !== true)
  )
    return;
  const isFixed = ALLOCATES.test(given?.type ?? '') || isLasting(given?.texts ?? []);
  // a digest of the principal alone has its mark
  const isOfOne = given?.texts.every((text) => {
    const marks = madeIn({ texts: [text] }).map(({ by }) => by);
    return marks.length > 1 && marks.includes(PRINCIPAL) && marks.every((by) => OF_PRINCIPAL.test(by));
  });
  if (vector === undefined || given === undefined || filled.has(given) || !(isFixed || isOfOne === true))
    return;
  report(
    { module, node: vector },
    `the initialisation vector is the same for every ${isFixed ? 'message' : 'message of one client'}, so equal messages look equal and an attacker can compute texts of others`,
  );
}

/** Marks of a digest of the principal. */
const OF_PRINCIPAL = /^(?:principal|crypto\.(?:createHash\..*|createHmac\..*|hash))$/;

/** Functions that fill a buffer with random bytes. */
const FILLS = /^crypto\.(?:randomFill|randomFillSync|getRandomValues|webcrypto\.getRandomValues)$/;

/** SVC629: connections whose certificate is not checked. The name of the option belongs to Node.js. */
function findUnverifiedServers({ call, fn, meaning, module, value }: Site, report: ReportAt): void {
  if (fn !== undefined || meaning === '') return;
  for (const arg of call.args) {
    const given = value(arg);
    const options = [given, ...['tls', 'ssl', 'connect'].map((key) => given?.members?.get(key))];
    const checks = options.map((each) => each?.members?.get('rejectUnauthorized'));
    if (checks.some((each) => each?.constant === false && constantIn(each) === 'false'))
      report(
        { module, node: entryOf(arg, 'rejectUnauthorized') ?? arg },
        'the connection does not check the certificate of the server, so an attacker on the network can read and change what is sent',
      );
  }
}

/** SVC629: the variable with which Node.js checks no certificate at all, set in a function. SVC218 knows what the start sets. */
function findUnverifiedProcess(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('assign')) {
    const path = node.target.type === 'member' ? node.target : undefined;
    const name = path?.property ?? (path?.index?.type === 'text' ? path.index.value : undefined);
    const isZero = node.value.type === 'text' ? node.value.value === '0' : isRaw(node.value, '0');
    if (name === 'NODE_TLS_REJECT_UNAUTHORIZED' && isZero && functionAround(node) !== undefined)
      report(
        { module, node },
        'the process checks the certificate of no server, so an attacker on the network can read and change what is sent',
      );
  }
}

/** Functions that return a buffer of zeros, or of one repeated byte. */
const ALLOCATES = /^Buffer\.alloc$|^buffer\.Buffer\.alloc$|^Uint8Array$/;

/** SVC622: values that others can compute, where only a secret belongs. */
function watchChance(report: ReportAt): Watch {
  /** Keys of maps of the process, and the maps in which cookies or header fields are looked up. */
  const keys = new Map<Node, Made>();
  const asked = new Set<Node>();
  const tell = (made: Made | undefined): void => {
    if (made !== undefined) report(made, CHANCE);
  };
  return {
    onCompare({ node, sides: [left, right] }) {
      if (node.type !== 'binary' || !/^[!=]==?$/.test(node.operator)) return;
      if (isSent(right)) tell(chanceIn(left));
      if (isSent(left)) tell(chanceIn(right));
    },
    onStatement({ bindings = [] }) {
      for (const { use, column, value } of bindings)
        if (use === 'written' && namesSecret(column)) tell(chanceIn(value));
    },
    onReply: ({ value }) => tell(secretMemberIn(value)),
    onCall(site) {
      const { call, receiver, value } = site;
      if (KEEPS_SECRET.test(site.meaning))
        tell(call.args.flatMap((arg) => madeIn(value(arg))).find(({ by }) => by === 'Math.random'));
      for (const field of fieldsOf(site)) if (field.name === 'set-cookie') tell(chanceIn(field.value));
      const method = methodOf(call);
      const first = value(call.args[0]);
      if (method === 'setCookie') tell(chanceIn(value(call.args[1])));
      for (const arg of call.args)
        tell(
          parameterIn(value(arg)) ?? (/^svc\./.test(site.meaning) ? secretMemberIn(value(arg)) : undefined),
        );
      const to = receiver?.lasting;
      if (to === undefined || first === undefined) return;
      const made = /^(?:set|add)$/.test(method) ? chanceIn(first) : undefined;
      if (made !== undefined) keys.set(to, made);
      if (/^(?:get|has)$/.test(method) && /^(?:headers|cookies)$/.test(clientIn(first)?.origin.input ?? ''))
        asked.add(to);
    },
    finish() {
      for (const [map, made] of keys) if (asked.has(map)) tell(made);
    },
  };
}

const CHANCE =
  'a secret is made of Math.random() or of the time, so an attacker computes it from earlier values, or tries the few that are possible';

function isSent(value: Value): boolean {
  const part = clientIn(withoutMembers(value));
  return part !== undefined && !isStored(part);
}

/** Returns the call that makes a text which others can compute; undefined if another part of the text is random. */
function chanceIn(value: Value | undefined): Made | undefined {
  const marks = madeIn(withoutMembers(value));
  const isRandom = marks.some(({ by }) => /^crypto\.(?:random|getRandom)|^svc\.createToken$/.test(by));
  return isRandom ? undefined : marks.find(({ by }) => GUESSABLE.test(by));
}

function secretMemberIn(value: Value | undefined, depth = 0): Made | undefined {
  for (const [key, member] of depth > 3 ? [] : (value?.members ?? [])) {
    const found = (namesSecret(key) ? chanceIn(member) : undefined) ?? secretMemberIn(member, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the call that makes a secret parameter of an address in a text: `?token=…`. */
function parameterIn(value: Value | undefined): Made | undefined {
  if (chanceIn(value) === undefined) return undefined;
  for (const text of value?.texts ?? [])
    for (const [index, part] of text.entries()) {
      const [, name] = /[?&]([\w-]+)=\0*$/.exec(literalOf(text.slice(0, index))) ?? [];
      if (name !== undefined && namesSecret(name)) return chanceIn({ texts: [[part]] });
    }
  return undefined;
}

/** Calls that only a secret needs: its hash is stored, or it is the key of a signature. */
const KEEPS_SECRET =
  /^crypto\.(?:create(?:Hash|Hmac)(?:\.update)*|hash|scrypt|scryptSync|pbkdf2|pbkdf2Sync)$|^svc\.hashPassword$/;

/** Functions that return a fast hash, and the methods that add text to it. */
const HASHES = /^crypto\.createHash\.(?:update\.)*update$|^(?:md5|sha1|sha256)$/;

/** SVC623: inputs that are passwords by their declared names, with a fast hash. */
function findFastHashes({ call, meaning, module, value, passed }: Site, report: ReportAt): void {
  const text = meaning === 'crypto.hash' ? call.args[1] : HASHES.test(meaning) ? call.args[0] : undefined;
  if (text === undefined || !holdsPassword(value(text)) || isSlowLater(call, module)) return;
  // a helper may hash any text: the mistake is the call that hands it a password
  const given = passed(text, true);
  const at = given.node !== text && given.node.parent?.type === 'call' ? given.node.parent : call;
  // only the inner call of md5(md5(password)) is reported
  const isOuter = text.type === 'call' && HASHES.test(meaningOfCall(text, module));
  if (isOuter || [call, at].some(isCompared) || replaces(call, text)) return;
  report(
    { module: at === call ? module : given.module, node: at },
    'the password is hashed by a fast function: an attacker with a copy of the hash can try billions of passwords a second',
  );
}

/** SVC623: slow hashes that are made fast by a small number of rounds (OWASP Password Storage). */
function findFewRounds({ call, meaning, module, value }: Site, report: ReportAt): void {
  const [text, second, third] = call.args.map((arg) => value(arg));
  const count = (given: Value | undefined): number =>
    Number((constantIn(given) ?? 'Infinity').replaceAll('_', ''));
  const isFast = /^crypto\.pbkdf2(?:Sync)?$/.test(meaning)
    ? count(third) < 100_000
    : /^crypto\.scrypt(?:Sync)?$/.test(meaning)
      ? count(value(call.args[3])?.members?.get('N') ?? value(call.args[3])?.members?.get('cost')) < 2 ** 13
      : /^(?:bcrypt|bcryptjs)\.hash(?:Sync)?$/.test(meaning) && count(second) < 10;
  if (isFast && clientIn(text) !== undefined)
    report(
      { module, call },
      'the password is hashed with so few rounds that an attacker with a copy of the hash can try millions of passwords a second',
    );
}

function holdsPassword(value: Value | undefined): boolean {
  return clientPartsOf(value?.texts ?? []).some(({ origin }) =>
    PASSWORD.test(bare(origin.what.split('.').at(-1) ?? '')),
  );
}

/**
 * Whether this fast hash is probably not stored as it is: the module also uses a slow hash, asks another service,
 * or repeats the fast hash in a loop.
 */
function isSlowLater(call: Call, module: SourceModule): boolean {
  // the module also uses a slow password hash, or a service that lists leaked passwords
  const isHashedAgain = /pwnedpasswords|haveibeenpwned|bcrypt|argon2|scrypt|pbkdf2/i.test(module.source);
  if (isHashedAgain || loopAround(call) !== undefined) return true;
  const fn = functionAround(call);
  const code = fn === undefined ? '' : module.source.slice(fn.start, fn.end);
  return ASKS_SERVICE.test(code) || /timingSafeEqual|createCipheriv|createDecipheriv/.test(code);
}

const ASKS_SERVICE =
  /(?<!\.)\b(?:fetch|axios|got|needle|superagent|request|send[A-Z]\w*)[.(]|\bhttps?\.(?:get|request)\(/;

/** Whether code compares the digest at once instead of storing it. */
function isCompared(call: Call): boolean {
  const user = userOf(call);
  return user?.type === 'binary' && /^[!=]==?$/.test(user.operator);
}

/**
 * Whether the hash replaces its input: `password = createHash(…).update(password).digest()`. A slow hash of
 * the new value probably follows.
 */
function replaces(call: Call, text: Node): boolean {
  const user = userOf(call);
  const target = user?.type === 'assign' ? pathOf(user.target) : undefined;
  return target !== undefined && target === pathOf(text);
}

/** Returns the node that uses the result of a chain of calls. */
function userOf(call: Call): Node | undefined {
  return nodesAround(call).find(({ type }) => type !== 'member' && type !== 'call');
}
