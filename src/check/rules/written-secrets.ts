/**
 * Rule SVC205 in the sources: secrets that are written as arguments, in database URLs, or as fallbacks of environment
 * variables.
 */
import { basename } from 'node:path';
import { weaknessOf } from '../../crypto/keys.ts';
import {
  calledName,
  classAround,
  dependsOn,
  entryOf,
  methodOf,
  objectOf,
  partsIn,
  pathOf,
} from '../reader/nodes.ts';
import { constantOf, literal } from '../reader/constants.ts';
import { ASKS } from './availability.ts';
import { namesSecret } from '../names.ts';
import { meaningOfCall } from '../sources.ts';
import { readsThroughHelpers } from './variables.ts';
import { FALLBACK } from '../values/marks.ts';
import { literalOf } from '../values/text.ts';
import { isBuiltIn, isOfPackage } from '../values/calls.ts';
import { constantIn } from '../values/tests.ts';
import { madeIn } from '../values/value.ts';
import { variableOf as variableOfSetting } from '../../base/config.ts';
import type { Site } from '../values/calls.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { Value } from '../values/value.ts';
import type { ReportAt, SourcePart, Sources, Variables, Watch } from '../sources.ts';

/** The search for secrets in the sources. */
export const WRITTEN_SECRET_RULES: readonly SourcePart[] = [
  { id: 'SVC205', find: findWrittenSecrets, watch: watchKeyFallbacks },
  { id: 'SVC205', onCall: findSentSecrets },
];

/** Remedy for a secret that is written in the sources and has no environment variable yet. */
export const WRITTEN_REMEDY = 'Read the secret from the environment, and generate a new one';
const WRITTEN = { remedy: WRITTEN_REMEDY, about: { isWritten: true } } as const;

/** SVC205: secrets that are written in the sources. */
function findWrittenSecrets(sources: Sources, report: ReportAt): void {
  const secrets = secretsOf(sources);
  findWritten(sources, secrets, report);
  findShared(secrets, report);
  findFallbacks(sources, report);
}

/** A function with a parameter for a secret. */
interface Taker {
  readonly function: RegExp;
  /** Position of the secret: the index of an argument, or the name of an option. */
  readonly where: number | string;
  readonly what: string;
  /** Purpose of the secret. Default: the name of the function. */
  readonly purpose?: string;
}

const TAKERS: readonly Taker[] = [
  { function: /^svc\.BearerAuth$/, where: 0, what: 'BearerAuth', purpose: 'tokens' },
  { function: /^svc\.SessionMiddleware$/, where: 'secrets', what: 'SessionMiddleware', purpose: 'sessions' },
  { function: /^svc\.CSRFMiddleware$/, where: 'secrets', what: 'CSRFMiddleware', purpose: 'CSRF tokens' },
  { function: /^svc\.(?:createToken|verifyToken)$/, where: 1, what: 'the token', purpose: 'tokens' },
  { function: /^svc\/oauth\.keycloakProvider$/, where: 3, what: 'the provider' },
  {
    function: /^svc\/oauth\.(?!keycloak|oidc|auth0|cognito|okta)\w+Provider$/,
    where: 1,
    what: 'the provider',
  },
  { function: /^svc\/oauth\.(?:oidc|auth0|cognito|okta)Provider$/, where: 2, what: 'the provider' },
  { function: /^svc\/oauth\.\w*[pP]rovider$/, where: 'clientSecret', what: 'the provider' },
  { function: /^crypto\.createHmac$/, where: 1, what: 'the HMAC', purpose: 'signatures' },
  { function: /^jsonwebtoken\.(?:sign|verify)$/, where: 1, what: 'the token', purpose: 'tokens' },
];

const MAY_TAKE =
  /^(?:svc[./]|crypto\.createHmac|jsonwebtoken\.)|(?:Plugin|openDatabase|createPool|createClient)$/;

/** An argument that is a secret. */
interface Taken {
  readonly module: SourceModule;
  readonly meaning: string;
  readonly taker: Taker;
  readonly secret: Node;
}

/** Returns all arguments in the project that are secrets, such as the secret of `createToken()`. */
function secretsOf(sources: Sources): readonly Taken[] {
  const found: Taken[] = [];
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    if (!MAY_TAKE.test(meaning)) continue;
    for (const taker of TAKERS) {
      const { where } = taker;
      if (!taker.function.test(meaning)) continue;
      const arg =
        typeof where === 'number'
          ? call.args[where]
          : call.args.map((each) => entryOf(each, where)).find((each) => each !== undefined);
      for (const secret of arg?.type === 'list' ? arg.items : [arg])
        if (secret !== undefined) found.push({ module, meaning, taker, secret });
    }
  }
  return found;
}

function findWritten(sources: Sources, secrets: readonly Taken[], report: ReportAt): void {
  for (const { module, taker, secret } of secrets) tellWritten(secret, taker.what, module, report);
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    if (!MAY_TAKE.test(meaning) && calledName(call) !== 'loadDict') continue;
    const [first] = call.args;
    if (meaning === 'svc.APIKeyAuth') {
      const given = entryOf(first, 'keys');
      const keys = constantOf(given, module);
      if (keys?.node.type === 'object')
        for (const entry of keys.node.entries)
          if (entry.type === 'entry')
            for (const key of entry.value?.type === 'list' ? entry.value.items : [entry.value])
              tellWritten(key, 'APIKeyAuth', keys.module, report);
      tellKeysOfMap(entryOf(first, 'verify'), module, report);
    }
    const ops = meaning === 'svc.Svc' ? entryOf(first, 'ops') : undefined;
    for (const part of ['metrics', 'docs'])
      tellWritten(entryOf(entryOf(ops, part), 'auth'), `/${part}`, module, report);
    const ofSvc = meaning === 'svc.Svc' ? entryOf(first, 'config') : undefined;
    const config = calledName(call) === 'loadDict' ? first : ofSvc;
    for (const key of ['authSecret', 'authSecretPrevious', 'mcpToken'])
      tellWritten(entryOf(config, key), key, module, report);
    if (/(?:DatabasePlugin|RedisPlugin|openDatabase|createPool|createClient)$/.test(meaning))
      tellPassword(first, module, report);
  }
}

/**
 * Reports a secret that has two purposes, at its second use. If one purpose leaks the secret, the other is no
 * longer protected.
 */
function findShared(secrets: readonly Taken[], report: ReportAt): void {
  const first = new Map<string, { readonly purpose: string; readonly place: string }>();
  for (const { module, meaning, taker, secret } of secrets) {
    const key = keyOf(secret, module);
    if (key === undefined) continue;
    const purpose = taker.purpose ?? meaning.replace(/^svc\/oauth\./, '');
    const earlier = first.get(key);
    if (earlier === undefined) {
      const { line } = module.placeAt(secret.start);
      first.set(key, { purpose, place: `${basename(module.file)}:${line}` });
    } else if (earlier.purpose !== purpose)
      report(
        { module, node: secret },
        `one secret${key.startsWith('process.env.') ? ` (${key.slice(12)})` : ''} is used for two purposes: for ${earlier.purpose} at ${earlier.place}, and here for ${purpose}`,
        {
          severity: 'warning',
          remedy: 'Give each purpose its own secret, so that a leaked secret affects one purpose only',
        },
      );
  }
}

/**
 * Returns the text of a secret, or the environment variable from which code reads it. Uses of one secret have
 * equal results.
 */
function keyOf(secret: Node, module: SourceModule): string | undefined {
  const constant = fieldOf(secret) ?? constantOf(secret, module)?.node;
  const value = constant?.type === 'binary' ? constant.left : constant;
  if (value?.type === 'text') return value.value === '' ? undefined : value.value;
  const path = pathOf(value);
  return path?.startsWith('process.env.') === true ? path : undefined;
}

/** Returns the initial value of a field: for `this.#secret`, the value of `#secret` in the class. */
function fieldOf(node: Node): Node | undefined {
  if (node.type !== 'member' || pathOf(node.object) !== 'this') return undefined;
  const field = classAround(node)?.members.find(
    (member) => member.type === 'entry' && member.key === node.property,
  );
  return field?.type === 'entry' ? field.value : undefined;
}

/**
 * Reports API keys that are written as keys of a Map, which a function such as `(key) => clients.get(key)`
 * reads.
 */
function tellKeysOfMap(verify: Node | undefined, module: SourceModule, report: ReportAt): void {
  for (const node of verify === undefined ? [] : partsIn(verify)) {
    const object = node.type === 'call' && methodOf(node) === 'get' ? objectOf(node) : undefined;
    const map = object && constantOf(object, module);
    if (map?.node.type !== 'call' || pathOf(map.node.callee) !== 'Map') continue;
    const [pairs] = map.node.args;
    for (const pair of pairs?.type === 'list' ? pairs.items : [])
      if (pair.type === 'list') tellWritten(pair.items[0], 'APIKeyAuth', map.module, report);
  }
}

function tellWritten(node: Node | undefined, what: string, module: SourceModule, report: ReportAt): void {
  if (node === undefined) return;
  const value = literal(node, module);
  if (value?.type !== 'text' || value.value === '') return;
  const weakness = /^(?:APIKeyAuth|\/\w+)$/.test(what) ? undefined : weaknessOf(value.value);
  report(
    { module, node },
    `the secret of ${what} is written in the source code${weakness === undefined ? '' : `, and ${weakness}`}`,
    WRITTEN,
  );
}

/** Reports a password in the URL of a database, such as `postgres://shop:password@db.example/shop`. */
function tellPassword(node: Node | undefined, module: SourceModule, report: ReportAt): void {
  const value = literal(node?.type === 'binary' ? node.right : node, module);
  if (value?.type !== 'text') return;
  const [, host] = /^[a-z]+:\/\/[^:/@\s]*:[^@/\s]+@([^:/\s?]+)/i.exec(value.value) ?? [];
  if (host !== undefined && !/^(?:localhost|127\.|\[::1\]|db$|postgres$|mysql$|redis$)/.test(host))
    report({ module, node: node! }, 'the password of the database is written in the source code', WRITTEN);
}

const DEVELOPMENT = /production|development|\btest\b|\bdev\b|isDev|isProd/i;

/**
 * Reports secrets that are written as fallbacks. With `process.env.TOKEN ?? 'dev'`, production uses 'dev' if
 * the variable is not set.
 */
function findFallbacks(sources: Sources, report: ReportAt): void {
  const { variables } = sources;
  for (const { module, node } of sources.all('binary')) {
    if (node.operator !== '??' && node.operator !== '||') continue;
    const name = variableOf(node.left, module);
    if (name !== undefined && variables.isSecret(name)) tellFallback(node.right, name, module, report);
  }
  for (const { module, node, name } of readsThroughHelpers(sources)) {
    const [, fallback] = node.parent?.type === 'call' ? node.parent.args : [];
    if (fallback !== undefined && variables.isSecret(name)) tellFallback(fallback, name, module, report);
  }
  for (const { module, node } of sources.all('declarator')) {
    if (node.value === undefined || pathOf(node.value) !== 'process.env' || node.target.type !== 'object')
      continue;
    for (const entry of node.target.entries)
      if (entry.type === 'entry' && entry.value?.type === 'assign' && variables.isSecret(entry.key ?? ''))
        // `entry.key` is set, because no variable with an empty name holds a secret
        tellFallback(entry.value.value, entry.key!, module, report);
  }
}

/** Reports a secret whose fallback is written in the sources, also if it went through fields and functions. */
function watchKeyFallbacks(report: ReportAt, { variables }: Sources): Watch {
  const settings: { readonly key: string; readonly fallback: Node; readonly module: SourceModule }[] = [];
  return {
    onCall(site) {
      noteUses(site, variables);
      findKeyFallbacks(site, report);
      const [key, fallback] = site.meaning === 'svc.Config.get' ? site.call.args : [];
      if (key?.type === 'text' && fallback !== undefined)
        settings.push({ key: key.value, fallback, module: site.module });
    },
    onCompare({ sides: [left, right] }) {
      for (const [one, other] of [
        [left, right],
        [right, left],
      ] as const)
        if (/^(?:true|false|yes|no|on|off|[01])$/i.test(constantIn(other) ?? '')) variables.note(one, false);
    },
    finish() {
      for (const { key, fallback, module } of settings)
        if (variables.isSecret(variableOfSetting(key))) tellFallback(fallback, key, module, report);
    },
  };
}

/** Arguments that are keys or passwords, by the import of the function. */
const KEYS: readonly (readonly [by: RegExp, index: number])[] = [
  [/^crypto\.create(?:SecretKey|PrivateKey)$|^crypto\.(?:scrypt|pbkdf2|timingSafeEqual)/, 0],
  [/^crypto\.(?:createSign|createVerify)\.[^]*sign$|^jose\.SignJWT\.(?:[^]*\.)?sign$/, 0],
  [/^crypto\.(?:create(?:Hmac|Cipheriv|Decipheriv)|hkdf|timingSafeEqual)|^jose\.jwtVerify$/, 1],
  [/^crypto\.sign$/, 2],
];
/** Functions whose argument is a number, a file or an address, and no secret. */
const PLAIN =
  /^(?:Number|BigInt|parseInt|parseFloat|Number\.parse(?:Int|Float)|URL(?:\.parse)?)$|^fs(?:\/promises|\.promises)?\.\w+$/;

/** Notes how a call uses variables of the environment: as keys, passwords and credentials, or as something else. */
function noteUses({ call, meaning, value }: Site, variables: Variables): void {
  const args = call.args.map((arg) => value(arg));
  for (const { where } of TAKERS.filter((taker) => taker.function.test(meaning)))
    for (const arg of typeof where === 'number'
      ? [args[where]]
      : args.map((each) => each?.members?.get(where)))
      variables.note(arg, true);
  for (const [by, index] of KEYS) if (by.test(meaning)) variables.note(args[index], true);
  if (PLAIN.test(meaning)) variables.note(args[0], false);
  if (ASKS.test(meaning)) {
    for (const text of args[0]?.texts ?? []) variables.note({ texts: [text.slice(0, 1)] }, false);
    for (const [, field] of credentialsIn(args)) variables.note(field, true);
  } else if (isBuiltIn(meaning) || isOfPackage(meaning) || meaning.startsWith('svc'))
    for (const [, option] of args.flatMap((arg) => secretMembers(arg))) variables.note(option, true);
}

/** Returns the options that hold secrets, also those of options, such as `auth: { user, pass }`. */
function secretMembers(of: Value | undefined, depth = 0): readonly (readonly [string, Value])[] {
  return depth > 1
    ? []
    : [...(of?.members ?? [])].flatMap(([key, member]) => [
        ...(member.members === undefined && (namesSecret(key) || key === 'pass')
          ? [[key, member] as const]
          : []),
        ...secretMembers(member, depth + 1),
      ]);
}

/** Returns the credentials in the header fields of a request. */
function credentialsIn(args: readonly (Value | undefined)[]): readonly (readonly [string, Value])[] {
  return args
    .flatMap((arg) => [...(arg?.members?.get('headers')?.members ?? [])])
    .filter(([name]) => /^authorization$/i.test(name) || namesSecret(name));
}

function findKeyFallbacks({ call, meaning, value }: Site, report: ReportAt): void {
  for (const { where } of TAKERS.filter((taker) => taker.function.test(meaning))) {
    const given =
      typeof where === 'number'
        ? value(call.args[where])
        : call.args.map((arg) => value(arg)?.members?.get(where)).find((each) => each !== undefined);
    for (const { by, node, module } of madeIn(given)) {
      const [key, fallback] = node.type === 'call' ? node.args : [];
      if (by === FALLBACK && key?.type === 'text' && fallback !== undefined)
        tellFallback(fallback, key.value, module, report);
    }
    for (const part of given?.texts.flat() ?? []) {
      const from = part.kind === 'literal' ? part.from?.[0] : undefined;
      const around = from?.node.parent;
      const variable =
        from !== undefined && around?.type === 'binary' ? variableOf(around.left, from.module) : undefined;
      if (from !== undefined && variable !== undefined)
        tellFallback(from.node, variable, from.module, report);
    }
  }
}

/** Fewer characters are a name or a placeholder of a test. */
const MIN_SENT = 16;

/** SVC205: credentials that requests of the server send, and that are written in the sources. */
function findSentSecrets({ call, meaning, value }: Site, report: ReportAt): void {
  if (!ASKS.test(meaning)) return;
  for (const [name, field] of credentialsIn(call.args.map((arg) => value(arg)))) {
    for (const text of field.texts) {
      const [part, ...more] = text;
      const secret = part?.kind === 'literal' ? part.from?.at(-1) : undefined;
      const isWritten = more.length === 0 && /^(?:\w+ )?[^\s]+$/.test(literalOf(text));
      if (secret !== undefined && isWritten && secret.text.length >= MIN_SENT)
        report(secret, `the secret that requests send as "${name}" is written in the source code`, WRITTEN);
    }
  }
}

/** Returns the name of the environment variable that an expression reads: of `process.env`, or of a constant that holds it. */
function variableOf(node: Node, module: SourceModule): string | undefined {
  if (node.type !== 'member') return undefined;
  const from = constantOf(node.object, module)?.node;
  return from !== undefined && pathOf(from) === 'process.env' ? node.property : undefined;
}

function tellFallback(fallback: Node, name: string, module: SourceModule, report: ReportAt): void {
  const value = literal(fallback, module);
  if (value?.type !== 'text' || value.value === '' || dependsOn(fallback, module, DEVELOPMENT)) return;
  if (
    /^(?:(?:not|un)[-_ ]?(?:used|needed|required|set)|none|null|no[-_ ]?key|empty|-+)$/i.test(value.value) ||
    /^(?:\d{1,6} ?(?:[smhdw]|ms|days?|hours?|minutes?)?|true|false)$/.test(value.value)
  )
    return;
  report(
    { module, node: fallback },
    `if ${name} is not set, the program uses a secret that is written in the source code`,
    WRITTEN,
  );
}
