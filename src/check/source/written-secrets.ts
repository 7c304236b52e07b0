/**
 * Secrets that stand in the sources: as arguments, in addresses of databases, and as the fallback of a variable (a part of SVC205).
 */
import { weaknessOf } from '../../crypto/keys.ts';
import { calledName, entryOf, pathOf } from './nodes.ts';
import { literal } from './routes.ts';
import { meaningOfCall } from './sources.ts';
import type { SourceModule } from './modules.ts';
import type { Node } from './nodes.ts';
import type { ReportNode, Sources } from './sources.ts';

/** SVC205 in every module of the project. */
export function findWrittenSecrets(sources: Sources, report: ReportNode): void {
  findWritten(sources, report);
  findFallbacks(sources, report);
}

/** For each function that takes a secret, where: an argument, or a member of its options. */
const TAKES_SECRET: readonly (readonly [function_: RegExp, argument: number | string, what: string])[] = [
  [/^svc\.BearerAuth$/, 0, 'BearerAuth'],
  [/^svc\.SessionMiddleware$/, 'secrets', 'SessionMiddleware'],
  [/^svc\.CSRFMiddleware$/, 'secrets', 'CSRFMiddleware'],
  [/^svc\.(?:createToken|verifyToken)$/, 1, 'the token'],
  [
    /^svc\/oauth\.(?:githubProvider|googleProvider|microsoftProvider|appleProvider|gitlabProvider)$/,
    1,
    'the provider',
  ],
  [/^svc\/oauth\.\w*[pP]rovider$/, 'clientSecret', 'the provider'],
  [/^crypto\.createHmac$/, 1, 'the HMAC'],
  [/^jsonwebtoken\.(?:sign|verify)$/, 1, 'the token'],
];

function findWritten(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    if (
      !/^(?:svc|crypto\.createHmac|jsonwebtoken\.)|(?:Plugin|openDatabase|createPool|createClient)$/.test(
        meaning,
      )
    )
      continue;
    for (const [pattern, where, what] of TAKES_SECRET) {
      if (!pattern.test(meaning)) continue;
      const arg =
        typeof where === 'number'
          ? call.args[where]
          : call.args.map((each) => entryOf(each, where)).find((each) => each !== undefined);
      for (const each of arg?.type === 'list' ? arg.items : [arg]) tellWritten(each, what, module, report);
    }
    if (meaning === 'svc.APIKeyAuth') {
      const keys = entryOf(call.args[0], 'keys');
      if (keys?.type === 'object')
        for (const entry of keys.entries)
          if (entry.type === 'entry') tellWritten(entry.value, 'APIKeyAuth', module, report);
    }
    if (/(?:DatabasePlugin|RedisPlugin|openDatabase|createPool|createClient)$/.test(meaning))
      tellPassword(call.args[0], module, report);
  }
}

function tellWritten(node: Node | undefined, what: string, module: SourceModule, report: ReportNode): void {
  if (node === undefined) return;
  const value = literal(node, module);
  if (value?.type !== 'text' || value.value === '') return;
  const weakness = what === 'APIKeyAuth' ? undefined : weaknessOf(value.value);
  report(
    'SVC205',
    module,
    node,
    `the secret of ${what} stands in the source${weakness === undefined ? '' : `, and ${weakness}`}`,
  );
}

/** `postgres://shop:password@db.example/shop` */
function tellPassword(node: Node | undefined, module: SourceModule, report: ReportNode): void {
  const value = node === undefined ? undefined : literal(node.type === 'binary' ? node.right : node, module);
  if (value?.type !== 'text') return;
  const [, host] = /^[a-z]+:\/\/[^:/@\s]*:[^@/\s]+@([^:/\s?]+)/i.exec(value.value) ?? [];
  if (host !== undefined && !/^(?:localhost|127\.|\[::1\]|db$|postgres$|mysql$|redis$)/.test(host))
    report('SVC205', module, node!, 'the password of the database stands in the source');
}

const SECRET_VARIABLE = /(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|SIGNING_?KEY|PRIVATE_?KEY)/i;

/** `process.env.TOKEN ?? 'dev'`: the fallback is what production runs with where the variable is forgotten. */
function findFallbacks(sources: Sources, report: ReportNode): void {
  for (const { module, node } of sources.all('binary')) {
    if (node.operator !== '??' && node.operator !== '||') continue;
    const name = /^process\.env\.(\w+)$/.exec(pathOf(node.left) ?? '')?.[1];
    if (name !== undefined && SECRET_VARIABLE.test(name)) tellFallback(node.right, name, module, report);
  }
  for (const { module, node: call } of sources.all('call')) {
    const [key, fallback] = call.args;
    if (calledName(call) !== 'get' || key?.type !== 'text' || fallback === undefined) continue;
    if (
      /(?:^|\.)config$/.test(call.callee.type === 'member' ? (pathOf(call.callee.object) ?? '') : '') &&
      SECRET_VARIABLE.test(key.value)
    )
      tellFallback(fallback, key.value, module, report);
  }
}

function tellFallback(fallback: Node, name: string, module: SourceModule, report: ReportNode): void {
  const value = literal(fallback, module);
  if (value?.type !== 'text' || value.value === '' || isForDevelopment(fallback, module)) return;
  report('SVC205', module, fallback, `without ${name} the secret is one that stands in the source`);
}

function isForDevelopment(node: Node, module: SourceModule): boolean {
  for (let at = node.parent; at !== undefined; at = at.parent) {
    if (at.type !== 'if' && at.type !== 'choice') continue;
    if (
      /production|development|\btest\b|\bdev\b|isDev|isProd/i.test(
        module.source.slice(at.test.start, at.test.end),
      )
    )
      return true;
  }
  return false;
}
