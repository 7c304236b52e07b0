/**
 * Rules about the comparison of secrets and the hashes of passwords (SVC621, SVC623).
 */
import { literal } from '../reader/constants.ts';
import { assigns, calledName, childrenOf, endsFunction, functionAround, pathOf } from '../reader/nodes.ts';
import { bare, makerOf, meaningOfCall, wordOf } from '../sources.ts';
import { hasClient } from '../values/text.ts';
import { constantIn } from '../values/tests.ts';
import { clientIn, madeIn } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Value } from '../values/value.ts';

/** Rules about passwords, sorted by id. */
export const PASSWORD_RULES: readonly SourceRule[] = [
  {
    id: 'SVC621',
    severity: 'warning',
    phase: 'source',
    cwe: [208],
    why: 'A comparison that stops at the first difference takes longer if more of a guess is correct, so attackers can measure their progress',
    remedy:
      'Compare in constant time: pass two SHA-256 digests to timingSafeEqual(); for passwords use checkPassword()',
    wrong: "if (req.headers['x-key'] !== process.env['KEY'])",
    right: 'if (!timingSafeEqual(sha256(given), sha256(key)))',
    find: findComparisons,
    watch: watchSignatures,
  },
  {
    id: 'SVC623',
    severity: 'error',
    phase: 'source',
    cwe: [916],
    sources: ['OWASP Cheat Sheet: Password Storage'],
    why: 'Attackers who have a fast hash of a password find the password by trying billions a second, even if the hash has a salt',
    remedy: 'Hash with await hashPassword(password), and compare with checkPassword()',
    wrong: "createHash('sha256').update(password)",
    right: 'await hashPassword(password)',
    onCall(site, report) {
      findFastHashes(site, report);
      findFewRounds(site, report);
    },
  },
];

/** SVC621: the HMAC of a message, compared with a text of a client by an operator. */
function watchSignatures(report: ReportAt): Watch {
  return {
    onCompare({ node, module, sides: [left, right] }) {
      if (!isOfDigest(left, right) && !isOfDigest(right, left)) return;
      report(
        module,
        node,
        'the comparison of a signature by an operator stops at the first difference, so its duration shows how much of a guess is correct',
      );
    },
  };
}

/** Whether a comparison tests the HMAC of a message against a text of a client. */
function isOfDigest(held: Value, sent: Value): boolean {
  return madeIn({ texts: held.texts }).some(({ by }) => /createHmac/.test(by)) && sent.texts.some(hasClient);
}

const SECRET_WORD =
  /(?:secret|apikey|accesskey|adminkey|masterkey|sharedkey|webhookkey|password|passwd|passphrase|passwordhash|(?:csrf|access|auth|bearer|admin|reset|internal|service|api|webhook|hook|session|login|invite|verification|confirmation|unsubscribe)token)$/;

/** Words that do not always name a secret: a key, for example, may be the key of a Map. */
const MAYBE_SECRET_WORD = /(?:token|pass|key|signature|hmac|mac|sig)$/;

const SIGNATURE_WORD = /(?:signature|hmac|mac|sig|digest)$/;

/** Names of values that a program computes and then compares with a secret from a client. */
const EXPECTED = /^(?:expected|computed|calculated|actual|wanted)\w*(?:token|mac|sig|signature|secret)$/;

const DIGESTS = /hash|digest|encr|sha\d|md5|hmac|sign|derive|kdf|scrypt|crypt$/i;

/** Names of functions that compute the hash of a password: `generatePassword(password, salt)`. */
const MAKES_DIGEST =
  /^(?:calc|calculate|compute|create|generate|make|gen|get|to|salt)\w*(?:password|pass|pwd)\w*$/i;

/** SVC621: comparisons of secrets that stop at the first difference. */
function findComparisons(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('binary')) {
    if (!/^[!=]==?$/.test(node.operator)) continue;
    const sides = [node.left, node.right].map(plain);
    const [left, right] = sides as [Node, Node]; // map() keeps the length, so there are two sides
    const isSecret = isSecretOfServer(left, right, module) || isSecretOfServer(right, left, module);
    if (!isSecret || isConfirmation(sides.map(wordOf)) || isChangeTest(node, sides) || isLookup(node, sides))
      continue;
    report(
      module,
      node,
      `the comparison of a secret with "${node.operator}" stops at the first difference, so its duration shows how much of a guess is correct`,
    );
  }
}

/**
 * Whether a comparison only finds an element of a list: `tokens.find((each) => each.token === token)`. The
 * duration of a search says little about one element.
 */
function isLookup({ parent }: Node, sides: readonly Node[]): boolean {
  const isOfPassword = sides.some((side) => /passw/.test(wordOf(side)));
  let at = parent;
  while (!isOfPassword && at?.type === 'binary' && at.operator === '&&') at = at.parent;
  return (
    at?.type === 'function' &&
    at.parent?.type === 'call' &&
    /^(?:find\w*|filter)$/.test(calledName(at.parent) ?? '')
  );
}

/** Returns the expression without conversions: `key` for `key.trim()`, `await key` and `String(key)`. */
function plain(node: Node): Node {
  if (node.type === 'await') return plain(node.value);
  if (node.type !== 'call') return node;
  const { callee, args } = node;
  if (pathOf(callee) === 'String' && args[0] !== undefined) return plain(args[0]);
  return callee.type === 'member' &&
    /^(?:trim|toString|toLowerCase)$/.test(callee.property ?? '') &&
    callee.object.type !== 'call'
    ? plain(callee.object)
    : node;
}

/** Whether `held` is certainly a secret of the server, and `sent` probably comes from a client. */
function isSecretOfServer(held: Node, sent: Node, module: SourceModule): boolean {
  // the `state` of an OAuth login is valid only once, and a challenge is public, so timing does not help an
  // attacker
  if ([held, sent].some((side) => wordOf(side).startsWith('state') || /challenge/i.test(pathOf(side) ?? '')))
    return false;
  if ([held, sent].some((side) => /id$/.test(wordOf(side)))) return false; // an id is public
  const isSent = isFromClient(sent, module);
  if (!isSent && !isSecretParameter(sent, module)) return false;
  return !isFromClient(held, module) && isHeld(held, module, isSent);
}

const PARTS_OF_REQUEST =
  /(?:^|\.)(?:params|query|body|headers|cookies|signedCookies|form|fields|handshake|searchParams)(?:\.|$)/;

/** Whether a value certainly comes from a request, or from a token that a client sent. */
function isFromClient(node: Node, module: SourceModule, depth = 0): boolean {
  if (depth > 4) return false;
  const path = pathOf(node);
  if (path !== undefined && PARTS_OF_REQUEST.test(path) && !/^process\./.test(path)) return true;
  if (node.type === 'await') return isFromClient(node.value, module, depth);
  if (node.type === 'member') return isFromClient(node.object, module, depth + 1);
  if (node.type === 'binary')
    return /^(?:\|\||\?\?)$/.test(node.operator) && isFromClient(node.left, module, depth);
  if (node.type === 'call') {
    const name = calledName(node) ?? '';
    const owner = node.callee.type === 'member' ? (pathOf(node.callee.object) ?? '') : '';
    if (/(?:^|\.)(?:req|request|ctx|c)$/.test(owner) && /^(?:get|header|query|param|cookie)$/.test(name))
      return true;
    if (
      DIGESTS.test(name) ||
      MAKES_DIGEST.test(name) ||
      /^(?:find|get|load|fetch|read|query|select|lookup)/i.test(name)
    )
      return false;
    const parts = [...node.args, ...(node.callee.type === 'member' ? [node.callee.object] : [])];
    return parts.some((part) => part.type !== 'function' && isFromClient(part, module, depth + 1));
  }
  const binding = node.type === 'name' ? module.lookup(node.name, node) : undefined;
  return (
    binding?.kind === 'declared' &&
    binding.node.type === 'declarator' &&
    binding.node.value !== undefined &&
    isFromClient(binding.node.value, binding.module, depth + 1)
  );
}

/** Whether an expression is a parameter that is named like a secret, as in `isAllowed(apiKey)`. */
function isSecretParameter(node: Node, module: SourceModule): boolean {
  if (node.type !== 'name') return false;
  const word = wordOf(node);
  const binding = module.lookup(node.name, node);
  return (
    binding?.kind === 'parameter' &&
    binding.owner.type === 'function' &&
    (SECRET_WORD.test(word) || /^(?:token|signature)$/.test(word))
  );
}

/** Whether a value is a secret of the server: a setting, a stored column, or a computed signature. */
function isHeld(node: Node, module: SourceModule, isSent: boolean, depth = 0): boolean {
  if (depth > 3) return false;
  const word = wordOf(node);
  const isNamed = SECRET_WORD.test(word) || (isSent && MAYBE_SECRET_WORD.test(word));
  if (node.type === 'await') return isHeld(node.value, module, isSent, depth);
  if (node.type === 'call') return isHeldCall(node, module, isSent);
  if (isSecretSetting(node, module)) return true;
  if (node.type === 'binary')
    return /^(?:\|\||\?\?)$/.test(node.operator) && isHeld(node.left, module, isSent, depth + 1);
  if (isNamedConstant(node) || isDefault(node)) return false;
  if (node.type === 'member') {
    if (isStored(node, module)) return false;
    const isSetting = /(?:^|\.)\w*(?:config|settings|env|conf)\./i.test(pathOf(node) ?? '');
    return isSetting
      ? SECRET_WORD.test(word) || MAYBE_SECRET_WORD.test(word)
      : isNamed && !SIGNATURE_WORD.test(word) && (SECRET_WORD.test(word) || word === 'token');
  }
  if (node.type !== 'name') return false;
  const binding = module.lookup(node.name, node);
  if (binding?.kind === 'external')
    return /^[.@~]/.test(binding.from) && isNamed && !SIGNATURE_WORD.test(word);
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return false;
  const { value, target } = binding.node;
  if (value !== undefined && target.type === 'name' && isHeld(value, binding.module, isSent, depth + 1))
    return true;
  if (EXPECTED.test(word)) return true;
  const isConstant =
    value?.type === 'text' || (value?.type === 'value' && value.raw !== 'null') || value?.type === 'object';
  return functionAround(binding.node) === undefined && isNamed && !SIGNATURE_WORD.test(word) && !isConstant;
}

/**
 * Whether a call returns a secret from the settings, as `config('password')` does, or computes a signature.
 */
function isHeldCall(call: Call, module: SourceModule, isSent: boolean): boolean {
  const [first] = call.args;
  const path = pathOf(call.callee) ?? '';
  if (/(?:config|settings?|env|conf)(?:\.get)?$/i.test(path) && first?.type === 'text') {
    const word = bare(first.value);
    return SECRET_WORD.test(word) || MAYBE_SECRET_WORD.test(word);
  }
  const made = innermostCall(call);
  if (/^(?:crypto\.)?createHmac$/.test(made === undefined ? '' : meaningOfCall(made, module))) return true;
  const name = calledName(call) ?? '';
  if (call.args.length === 0) return false;
  if (isSent && /signature$/i.test(name)) return true;
  return (
    /hmac$|^(?:calc|calculate|compute|create|generate)\w*signature$/i.test(name) &&
    /hmac/i.test(module.source)
  );
}

/**
 * Whether code compares a stored value only to decide whether to update the value: `if (user.token !== token)
 * user.token = token`, or an early return before the update.
 */
function isChangeTest(node: Node, sides: readonly Node[]): boolean {
  let at: Node | undefined = node;
  while (at?.parent !== undefined && at.type !== 'if' && at.type !== 'function') at = at.parent;
  if (at?.type !== 'if') return false;
  const { yes, parent } = at;
  const next = endsFunction(yes) && parent !== undefined ? childrenOf(parent) : [];
  const changing = [yes, ...next.filter(({ start }) => start > yes.end)];
  return sides.some((side) => {
    const path = pathOf(side);
    return path !== undefined && changing.some((part) => assigns(part, path));
  });
}

/**
 * Whether a value is a constant or a member of an enumeration, such as `consts.ID_ZIP64` and
 * `Events.ForgotPassword`.
 */
function isNamedConstant(side: Node): boolean {
  const path = pathOf(side) ?? '';
  if (/(?:^|\.)[A-Z]\w*[a-z]\w*(?:\.[A-Z_]+)?\.[A-Z]\w*$|^(?:const(?:ant)?s?|enums?|codes?)\./.test(path))
    return true;
  if (/^(?!\w*(?:CONF|ENV|SETTING|SECRET))[A-Z][A-Z\d_]*\.[A-Z]/.test(path)) return true;
  return (
    /(?:^|\.)[A-Z][A-Z\d]*(?:_[A-Z\d]+)+$/.test(path) &&
    !path.startsWith('process.env.') &&
    !SECRET_WORD.test(wordOf(side)) &&
    !MAYBE_SECRET_WORD.test(wordOf(side))
  );
}

/**
 * Whether the name of a value says that it is a default, as in `secret === DEFAULT_SECRET`. Defaults are
 * public.
 */
function isDefault(side: Node): boolean {
  return /default/i.test(pathOf(side) ?? '');
}

/** Whether a value is a member of a record from a store: `record.token` of `record = await store.get(id)`. */
function isStored(side: Node, module: SourceModule): boolean {
  if (side.type !== 'member' || side.object.type !== 'name') return false;
  const maker = makerOf(side.object, module);
  return maker !== undefined && /(?:^|\.)(?:db|store|cache|storage)\.get$/i.test(maker);
}

/** Whether code compares two fields of a form, such as a password and its repetition. */
function isConfirmation(words: readonly string[]): boolean {
  return (
    words.some((word) =>
      /(?:confirm|repeat|again|old|previous|new|retype|verify|passwordcheck|password2)/.test(word),
    ) || words.every((word) => word === 'password')
  );
}

/** Whether a value is a secret setting: `process.env['API_TOKEN']`, or a constant set to it. */
function isSecretSetting(node: Node, module: SourceModule): boolean {
  const value = literal(node, module) ?? node;
  const path = pathOf(value.type === 'binary' ? value.left : value) ?? '';
  return (
    /^process\.env\.\w*(?:SECRET|TOKEN|KEY|PASSWORD|PASS|SIGNATURE)\w*$/i.test(path) &&
    !/PUBLIC|_KEY_ID$/i.test(path)
  );
}

/** Functions that return a fast hash, and the methods that add text to it. */
const HASHES = /^crypto\.createHash\.(?:update\.)*update$|^(?:md5|sha1|sha256)$/;
const PASSWORD = /(?:password|passwd|pwd|passphrase|passcode)$/;

/** SVC623: inputs that are passwords by their declared names, with a fast hash. */
function findFastHashes({ call, meaning, module, value, passed }: Site, report: ReportAt): void {
  const text = meaning === 'crypto.hash' ? call.args[1] : HASHES.test(meaning) ? call.args[0] : undefined;
  if (text === undefined || !holdsPassword(value(text)) || isSlowLater(call, module)) return;
  // a function of the project may only pass its parameter on
  const given = passed(text);
  const at = given.node !== text && given.node.parent?.type === 'call' ? given.node.parent : call;
  if ([call, at].some(isCompared) || replaces(call, text) || HASHES.test(makerOfCall(text, module))) return;
  report(
    at === call ? module : given.module,
    at,
    'the password is hashed by a fast function: an attacker with a copy of the hash can try billions of passwords a second',
  );
}

/** SVC623: slow hashes that are made fast by a small number of rounds (OWASP Password Storage). */
function findFewRounds({ call, meaning, module, value }: Site, report: ReportAt): void {
  const [text, second, third] = call.args.map((arg) => value(arg));
  const count = (given: Value | undefined): number => Number((constantIn(given) ?? 'Infinity').replaceAll('_', ''));
  const isFast = /^crypto\.pbkdf2(?:Sync)?$/.test(meaning)
    ? count(third) < 100_000
    : /^crypto\.scrypt(?:Sync)?$/.test(meaning)
      ? count(value(call.args[3])?.members?.get('N') ?? value(call.args[3])?.members?.get('cost')) < 2 ** 13
      : /^(?:bcrypt|bcryptjs)\.hash(?:Sync)?$/.test(meaning) && count(second) < 10;
  if (isFast && clientIn(text) !== undefined)
    report(
      module,
      call,
      'the password is hashed with so few rounds that an attacker with a copy of the hash can try millions of passwords a second',
    );
}

function holdsPassword(value: Value | undefined): boolean {
  return (value?.texts ?? [])
    .flat()
    .some((part) => part.kind === 'client' && PASSWORD.test(bare(part.origin.what.split('.').at(-1) ?? '')));
}

/** Returns the function whose result an argument is: only the inner call of `md5(md5(password))` is reported. */
function makerOfCall(node: Node, module: SourceModule): string {
  return node.type === 'call' ? meaningOfCall(node, module) : '';
}

/**
 * Whether this fast hash is probably not stored as it is: the module also uses a slow hash, asks another service,
 * or repeats the fast hash in a loop.
 */
function isSlowLater(call: Call, module: SourceModule): boolean {
  if (isHashedAgain(module)) return true;
  for (let at = call.parent; at !== undefined && at.type !== 'function'; at = at.parent)
    if (at.type === 'loop') return true;
  const fn = functionAround(call);
  const code = fn === undefined ? '' : module.source.slice(fn.start, fn.end);
  return ASKS_SERVICE.test(code) || /timingSafeEqual|createCipheriv|createDecipheriv/.test(code);
}

/** Whether the module also uses a slow password hash, or a service that lists leaked passwords. */
function isHashedAgain({ source }: SourceModule): boolean {
  return /pwnedpasswords|haveibeenpwned|bcrypt|argon2|scrypt|pbkdf2/i.test(source);
}

const ASKS_SERVICE =
  /(?<!\.)\b(?:fetch|axios|got|needle|superagent|request|send[A-Z]\w*)[.(]|\bhttps?\.(?:get|request)\(/;

/** Whether code compares the digest at once instead of storing it. */
function isCompared(call: Call): boolean {
  let at: Node | undefined = call.parent;
  while (at?.type === 'member' || at?.type === 'call') at = at.parent;
  return at?.type === 'binary' && /^[!=]==?$/.test(at.operator);
}

/**
 * Whether the hash replaces its input: `password = createHash(…).update(password).digest()`. A slow hash of
 * the new value probably follows.
 */
function replaces(call: Call, text: Node): boolean {
  const target = targetOf(call);
  return target !== undefined && target === pathOf(text);
}

/** Returns the variable or member to which code assigns the result of a chain of calls. */
function targetOf(call: Call): string | undefined {
  let at: Node | undefined = call.parent;
  while (at?.type === 'member' || at?.type === 'call') at = at.parent;
  return at?.type === 'assign' ? pathOf(at.target) : undefined;
}

/** Returns the first call of a chain: `createHash(…)` for `createHash(…).update(…).update(…)`. */
function innermostCall(call: Call): Call | undefined {
  let at: Node = call;
  while (at.type === 'call' && at.callee.type === 'member' && at.callee.object.type === 'call')
    at = at.callee.object;
  return at.type === 'call' && at !== call ? at : undefined;
}
