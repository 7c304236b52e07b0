/**
 * Rules about the comparison of secrets and the hashes of passwords (SVC621, SVC623).
 */
import { calledName, entryOf, functionAround, pathOf } from '../reader/nodes.ts';
import { namesSecret, isSecretVariable } from '../sources.ts';
import { bare, meaningOfCall } from '../sources.ts';
import { ROW } from '../values/marks.ts';
import { constantOf, isStored } from '../values/text.ts';
import { constantIn } from '../values/tests.ts';
import { ABSENT, clientIn, madeIn } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
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
    watch: watchComparisons,
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

/** SVC621: a secret of the program, compared with a text of a client by an operator. */
function watchComparisons(report: ReportAt, sources: Sources): Watch {
  const declared = declaredFields(sources);
  return {
    onCompare({ node, module, sides }) {
      if (node.type !== 'binary') return;
      const [left, right] = sides;
      const isSecret =
        isSecretOf({ held: left, sent: right, node: node.left, declared }) ||
        isSecretOf({ held: right, sent: left, node: node.right, declared });
      if (isSecret && !isLookup(node))
        report(
          module,
          node,
          `the comparison of a secret with "${node.operator}" stops at the first difference, so its duration shows how much of a guess is correct`,
        );
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

interface Sides {
  readonly held: Value;
  readonly sent: Value;
  /** The expression of `held`. */
  readonly node: Node;
  /** Inputs that are credentials. */
  readonly declared: ReadonlySet<string>;
}

/** Whether one value is a secret of the program, and the other one comes from a client. */
function isSecretOf({ held, sent, node, declared }: Sides): boolean {
  const part = sent.texts.flat().find((each) => each.kind === 'client' && !isStored(each));
  if (part?.kind !== 'client' || held === ABSENT || held.constant !== undefined) return false;
  const marks = madeIn({ texts: held.texts }).map(({ by }) => by);
  const stored = held.texts.flat().find((each) => each.kind === 'client');
  if (stored?.kind === 'client' && !isStored(stored)) return false;
  const name = node.type === 'member' ? (node.property ?? '') : '';
  const isRow = stored !== undefined || marks.includes(ROW);
  return (
    marks.some(
      (by) =>
        /createHmac/.test(by) || isSecretVariable(/^(?:process\.env\.|setting )(.*)/.exec(by)?.[1] ?? ''),
    ) ||
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
  const count = (given: Value | undefined): number =>
    Number((constantIn(given) ?? 'Infinity').replaceAll('_', ''));
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
