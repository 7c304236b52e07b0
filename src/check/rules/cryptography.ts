/**
 * Rules about cryptography: predictable secrets, constant initialisation vectors, and connections without a check of the
 * certificate (SVC622, SVC628, SVC629).
 */
import { calledName, entryOf, functionAround, leadOf, pathOf } from '../reader/nodes.ts';
import { Sources, bare, nameOfCallback, wordOfTarget } from '../sources.ts';
import { constantOf as constantNode } from '../reader/constants.ts';
import { constantIn } from '../values/tests.ts';
import { constantOf } from '../values/text.ts';
import { madeIn } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about cryptography, sorted by id. */
export const CRYPTOGRAPHY_RULES: readonly SourceRule[] = [
  {
    id: 'SVC622',
    severity: 'error',
    phase: 'source',
    cwe: [338],
    why: 'Math.random() is predictable: a few of its outputs reveal all that follow',
    remedy: 'Use randomBytes(32).toString("base64url"), randomUUID() or randomInt() of node:crypto',
    wrong: 'const token = Math.random().toString(36);',
    right: "const token = randomBytes(32).toString('base64url');",
    find: findRandom,
    onCall: findHashedChance,
  },
  {
    id: 'SVC628',
    severity: 'error',
    phase: 'source',
    cwe: [329],
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
    phase: 'source',
    cwe: [295],
    why: 'TLS without a check of the certificate protects from readers only, and not from an attacker who answers in place of the server',
    remedy:
      'Remove rejectUnauthorized. For a server with a certificate of your own, pass that certificate as ca',
    wrong: 'new Agent({ rejectUnauthorized: false })',
    right: 'new Agent({ ca: await readFile(path) })',
    onCall: findUnverifiedServers,
  },
];

/** SVC628: encryption whose initialisation vector is always the same. */
function watchCiphers(report: ReportAt): Watch {
  /** Buffers into which a function wrote. */
  const filled = new Set<Value>();
  return {
    onCall(site) {
      for (const each of filledBy(site)) filled.add(each);
      judgeCipher(site, filled, report);
    },
  };
}

/** Returns the buffers into which a call may write. */
function filledBy({ call, meaning, receiver, value }: Site): readonly Value[] {
  const written = FILLS.test(meaning)
    ? value(call.args[0])
    : receiver?.type !== undefined && ALLOCATES.test(receiver.type)
      ? receiver
      : undefined;
  // bytes of another buffer may be copied into one
  const isCopy = receiver !== undefined && call.callee.type === 'member' && call.callee.property === 'copy';
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
      module,
      call,
      'the mode ECB has no initialisation vector: equal blocks have equal ciphertexts, so an attacker sees and moves them',
    );
  // RFC 3394 prescribes the vector of a wrapped key, and a random key encrypts one message
  if (
    /wrap/.test(constantIn(value(cipher)) ?? '') ||
    madeIn(value(key)).some(({ by }) => by.startsWith('crypto.random'))
  )
    return;
  if (vector === undefined || given === undefined || filled.has(given) || !isFixed(given)) return;
  report(
    module,
    vector,
    'the initialisation vector is the same for every message, so equal messages look equal and an attacker can compute texts of others',
  );
}

/** Functions that fill a buffer with random bytes. */
const FILLS = /^crypto\.(?:randomFill|randomFillSync|getRandomValues|webcrypto\.getRandomValues)$/;

/** SVC629: connections whose certificate is not checked. The name of the option belongs to Node.js. */
function findUnverifiedServers({ call, fn, meaning, module, value }: Site, report: ReportAt): void {
  if (fn !== undefined || meaning === '') return;
  for (const arg of call.args) {
    const given = value(arg);
    const options = [given, ...['tls', 'ssl', 'connect'].map((key) => given?.members?.get(key))];
    if (options.some((each) => isOff(each?.members?.get('rejectUnauthorized'))))
      report(
        module,
        entryOf(arg, 'rejectUnauthorized') ?? arg,
        'the connection does not check the certificate of the server, so an attacker on the network can read and change what is sent',
      );
  }
}

/** Functions that return a buffer of zeros, or of one repeated byte. */
const ALLOCATES = /^Buffer\.alloc$|^buffer\.Buffer\.alloc$|^Uint8Array$/;

function isFixed(value: Value): boolean {
  const { type, texts } = value;
  if (type !== undefined && ALLOCATES.test(type)) return true;
  if (texts.length > 0 && texts.every((text) => (constantOf(text) ?? '') !== '')) return true;
  const made = madeIn({ texts });
  return (
    made.length > 0 && made.every((each) => /createHash|crypto\.hash$/.test(each.by) && isOfConstants(each))
  );
}

/** Whether every argument in a chain of calls is a constant: `createHash('md5').update('x').digest()`. */
function isOfConstants({ node, module }: Made): boolean {
  for (let at = node; at.type === 'call'; at = at.callee.object) {
    if (at.args.some((arg) => !/^(?:text|value)$/.test(constantNode(arg, module)?.node.type ?? '')))
      return false;
    if (at.callee.type !== 'member') break;
  }
  return true;
}

function isOff(value: Value | undefined): boolean {
  return value?.constant === false && constantIn(value) === 'false';
}

const SECRET_NAME =
  /^(?:csp|page|script)nonce$|^(?:access|refresh|auth|bearer|id|api|user|admin|session|login|remember|csrf|xsrf|security|secret|magic|email|reset|password|passwordreset|resetpassword|verify|verification|confirm|confirmation|activation|invite|invitation|registration|signup|unsubscribe|share)?tokens?$|(?:secret|password|passwd|otp|csrf|apikey|sessionid|sid|resetcode|invitecode|verificationcode|magiclink|onetimecode|passcode|recoverycode)s?$|^pins?$/;

/**
 * Words that occur in code about logins. In other code, a token may identify a lock, and a session a device.
 */
const OF_CLIENTS = /passw|log_?in|\bauth(?!or)|cookie|e-?mail|verif|reset|invit/i;

/** SVC622: secrets from Math.random(). */
function findRandom(sources: Sources, report: ReportAt): void {
  const reported = new Set<Node>();
  for (const { module, node: call } of sources.all('call')) {
    if (pathOf(call.callee) !== 'Math.random') continue;
    if (usesBetterChance(call, module) || isOrder(call) || isLength(call)) continue;
    const name = secretNameAround(call) ?? secretMaker(call);
    const statement = statementAround(call);
    if (name === undefined || isNamedId(call, name) || reported.has(statement)) continue;
    if (/^(?:\w*sessionid|sid|token|secret)s?$/.test(bare(name)) && !OF_CLIENTS.test(module.source)) continue;
    // two calls in one expression are reported once: `Math.random().toString(36) +
    // Math.random().toString(36)`
    reported.add(statement);
    report(
      module,
      call,
      `"${name}" is made with Math.random(), whose next numbers an attacker can compute from earlier numbers`,
    );
  }
}

/** Calls that only a secret needs: its hash is stored, or it is the key of a signature. */
const KEEPS_SECRET =
  /^crypto\.(?:create(?:Hash|Hmac)(?:\.update)*|scrypt|scryptSync|pbkdf2|pbkdf2Sync)$|^svc\.hashPassword$/;

/** SVC622: a number of Math.random() in a text that code hashes, or signs with. */
function findHashedChance({ call, meaning, value }: Site, report: ReportAt): void {
  if (!KEEPS_SECRET.test(meaning)) return;
  for (const made of call.args.flatMap((arg) => madeIn(value(arg))))
    if (made.by === 'Math.random')
      report(
        made.module,
        made.node,
        'a secret is made with Math.random(), whose next numbers an attacker can compute from earlier numbers',
      );
}

/** Whether a random number is only an argument, such as a length: `randomText(10 + Math.random() * 9)`. */
function isLength(call: Call): boolean {
  for (let at = call.parent; at !== undefined && at.type !== 'function'; at = at.parent)
    if (at.type === 'call' && /rand(?!om$)|^gen|^make/.test(calledName(at) ?? '')) return true;
  return false;
}

/** Returns the statement, declaration, function or member around a node. */
function statementAround(node: Node): Node {
  let at = node;
  while (at.parent !== undefined && !/^(?:statement|declarator|leave|entry|function|block)$/.test(at.type))
    at = at.parent;
  return at;
}

/**
 * Whether a session id begins with a readable word, as in `task-${Date.now()}-${Math.random()}`. Such an id
 * is shown to people and is not a credential.
 */
function isNamedId(call: Call, name: string): boolean {
  if (!/(?:sessionid|sid)$/.test(bare(name))) return false;
  let at: Node = call;
  while (at.parent !== undefined && !/^(?:declarator|statement|leave|entry|assign)$/.test(at.parent.type))
    at = at.parent;
  return /^[a-z]{2,}[-_:]/i.test(leadOf(at));
}

/**
 * Returns the name of the variable, member or function that receives a value. Undefined unless this is the
 * name of a secret.
 */
function secretNameAround(node: Node): string | undefined {
  let depth = 0;
  for (let at = node.parent; at !== undefined && depth < 3; at = at.parent) {
    // a function named `token` may read tokens of a text, so only the values that it returns count
    if (at.type === 'function' && !isResult(node, at)) return undefined;
    const name =
      at.type === 'declarator' || at.type === 'assign'
        ? wordOfTarget(at.target)
        : at.type === 'entry'
          ? at.key
          : at.type === 'function'
            ? at.name
            : undefined;
    if (at.type === 'function') depth++;
    if (/^(?:length|size|min|max)$/.test(name ?? '')) return undefined;
    if (name !== undefined && SECRET_NAME.test(bare(name)) && !BELONGS.test(name)) return name;
    // `{ placeholder: Math.random() }` is not part of a secret, even if the object has the name of a secret
    if (at.type === 'statement' || at.type === 'entry') return undefined;
  }
  return undefined;
}

/** Whether a value is part of the result of a function: `() => Math.random()`, `return Math.random()`. */
function isResult(node: Node, fn: Fn): boolean {
  let at = node;
  while (at.parent !== undefined && at.parent !== fn && at.type !== 'leave') at = at.parent;
  return at.type === 'leave' || fn.isExpression;
}

/**
 * Names that contain the name of a secret but mean another value, such as `idForToken` and `cacheBustToken`.
 */
const BELONGS = /[a-z](?:For|Of|From)[A-Z]|cache|bust|placeholder|dummy|fake|mock/i;

/** Names of functions that generate secrets: `newInviteCode`, `generateOtp`. */
const MAKES_SECRET =
  /^(?:new|make|create|gen|generate|random|issue|build|next|get)(?:new|random|unique|temp|temporary)?(?:(?:access|refresh|auth|api|user|session|login|csrf|reset|password|verification|verify|confirmation|activation|invite|email)?token|\w*secret|\w*password|passcode|otp|pin|apikey|invite|invitation|sessionid|resetcode|logincode|verificationcode|activationcode|magiclink)(?:code|id|string|key|value)?$/;

/**
 * Returns the name of the function around a call. Undefined unless the name says that the function generates
 * a secret.
 */
function secretMaker(call: Call): string | undefined {
  const fn = functionAround(call);
  const name = fn === undefined ? undefined : nameOfCallback(fn);
  const isMade = name !== undefined && MAKES_SECRET.test(bare(name)) && !BELONGS.test(name);
  return isMade ? name : undefined;
}

/**
 * Whether the function around a call also uses a secure random source. Math.random() then probably chooses
 * only a detail of the secret, such as its length.
 */
function usesBetterChance(call: Call, module: SourceModule): boolean {
  const fn = functionAround(call);
  const code = module.source.slice(fn?.start ?? 0, fn?.end ?? 0);
  return /randomBytes|randomInt|randomUUID|getRandomValues|nanoid/.test(code);
}

/** Whether a call of Math.random() only shuffles a list: `letters.sort(() => Math.random() - 0.5)`. */
function isOrder(call: Call): boolean {
  const around = functionAround(call)?.parent;
  return around?.type === 'call' && calledName(around) === 'sort';
}
