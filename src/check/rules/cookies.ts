/**
 * Rules about cookies and CORS in fields that code writes (SVC206, SVC207).
 */
import { ALL } from '../../schema/pattern-parser.ts';
import { calledName, entryOf, functionAround } from '../reader/nodes.ts';
import { constantOf } from '../reader/constants.ts';
import { namesClient } from '../names.ts';
import { constantIn } from '../values/tests.ts';
import { literalOf } from '../values/text.ts';
import { clientIn, closuresOf, madeIn } from '../values/value.ts';
import { fieldsOf } from './replies.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';
import type { Field } from './replies.ts';

/** Rules about cookies and CORS, sorted by id. */
export const COOKIE_RULES: readonly SourcePart[] = [
  { id: 'SVC206', watch: watchOrigins },
  { id: 'SVC206', watch: watchPatterns },
  { id: 'SVC207', watch: watchCookies },
];

/** SVC206: the header Origin of the request in a response, with no test against known origins. */
function watchOrigins(report: ReportAt): Watch {
  /** Modules that allow credentials in requests of other sites. */
  const withCredentials = new Set<SourceModule>();
  const reflected: Spot[] = [];
  return {
    onCall(site) {
      const { module } = site;
      for (const { name, node, value } of fieldsOf(site)) {
        if (name === 'access-control-allow-credentials') withCredentials.add(module);
        if (name === 'access-control-allow-origin' && isReflected(value)) reflected.push({ node, module });
      }
    },
    finish() {
      for (const { node, module } of reflected)
        if (withCredentials.has(module))
          report(
            { module, node },
            'the response allows every origin that a client names, with credentials, so any site can read responses for a logged-in user',
            { remedy: 'Use CORSMiddleware with a list of origins' },
          );
    },
  };
}

/** SVC206: a pattern of origins that texts of other sites match, because nothing ends it. */
function watchPatterns(report: ReportAt): Watch {
  const judges = new Set<Fn>();
  const tests: (Spot & { readonly fn: Fn })[] = [];
  return {
    onCall({ call, meaning, module, receiver, value }) {
      const origins =
        meaning === 'svc.CORSMiddleware' ? value(call.args[0])?.members?.get('origins') : undefined;
      if (origins !== undefined) for (const { fn } of closuresOf(origins)) judges.add(fn);
      const { callee } = call;
      const fn = functionAround(call);
      const source = receiver?.pattern?.source;
      if (fn === undefined || source === undefined || callee.type !== 'member' || callee.property !== 'test')
        return;
      if (!/(?<!\\)\$$/.test(source))
        tests.push({ fn, ...(constantOf(callee.object, module) ?? { node: call, module }) });
    },
    finish() {
      for (const { fn, node, module } of tests)
        if (judges.has(fn))
          report(
            { module, node },
            'the pattern of origins does not end with "$", so it also accepts sites whose names only begin like yours',
            { remedy: 'End the pattern with "$", or compare the whole origin: ORIGINS.includes(origin)' },
          );
    },
  };
}

function isReflected(value: Value): boolean {
  const part = clientIn(value);
  // a test with an anchored pattern, or of the host, lets only known sites through
  const isTested = part?.may !== ALL || part.hasKnownHost === true;
  return part?.origin.what === 'headers.origin' && !isTested;
}

/** SVC207: cookies with a credential and without protection, in a header that code writes. */
function watchCookies(report: ReportAt): Watch {
  /** Names of cookies that a dependency of this package accepts as a credential. */
  const credentials = new Set<string>();
  const cookies: { readonly field: Field; readonly module: SourceModule }[] = [];
  const set: { readonly name: string; readonly judge: () => void }[] = [];
  return {
    onCall(site) {
      const { call, meaning, module, value } = site;
      const cookie = /^svc\.(?:APIKeyAuth|SessionMiddleware)$/.test(meaning)
        ? value(entryOf(call.args[0], 'cookie'))
        : undefined;
      const name = constantIn(cookie?.members?.get('name') ?? cookie);
      if (name !== undefined) credentials.add(name);
      for (const field of fieldsOf(site)) if (field.name === 'set-cookie') cookies.push({ field, module });
      const given = cookieOf(site);
      if (given === undefined) return;
      const options = { ...site.passed(given.options), value: value(given.options) };
      const judge = (): void => judgeOptions(options, meaning === 'svc.SessionMiddleware', report);
      if (given.isMade) judge();
      else set.push({ name: given.name, judge });
    },
    finish() {
      for (const { name: used, judge } of set) if (credentials.has(used)) judge();
      for (const { field, module } of cookies) judgeCookie(field, credentials, module, report);
    },
  };
}

function judgeCookie(
  { node, value }: Field,
  credentials: ReadonlySet<string>,
  module: SourceModule,
  report: ReportAt,
): void {
  const all = value.texts.map((text) => literalOf(text));
  const [, name = '', content = ''] = /^\s*([\w.-]+)=([^;]*)/.exec(all[0] ?? '') ?? [];
  const isMade = madeIn({ texts: value.texts }).some(({ by }) => !by.startsWith('Date'));
  if (content === '' || (!isMade && !credentials.has(name) && !namesClient(name))) return;
  const missing = ['HttpOnly', 'Secure'].filter((each) =>
    all.every((text) => !new RegExp(`;\\s*${each}\\b`, 'i').test(text)),
  );
  // a script reads the cookie of a double-submit token on purpose
  if (!missing.includes('Secure')) return;
  report(
    { module, node },
    `the cookie "${name}" identifies a client but lacks ${missing.join(' and ')}, so scripts or attackers on the network can steal the cookie`,
    { remedy: 'Use response.setCookie(name, value), whose defaults are HttpOnly, Secure and SameSite=Lax' },
  );
}

/** Returns the options of a cookie that a call sets, and whether the cookie identifies a client: by its value, or by its name. */
function cookieOf({
  call,
  meaning,
  value,
}: Site): { readonly options: Node; readonly name: string; readonly isMade: boolean } | undefined {
  const [first, second, third] = call.args;
  if (meaning === 'svc.SessionMiddleware') {
    const options = entryOf(first, 'cookie');
    return options && { options, name: '', isMade: true };
  }
  if (!/^(?:setCookie|cookie)$/.test(calledName(call) ?? '') || third === undefined) return undefined;
  const name = constantIn(value(first)) ?? '';
  const isMade = madeIn(value(second)).some(
    ({ by }) => !by.startsWith('Date') && !/^(?:input|endless) /.test(by),
  );
  return { options: third, name, isMade: isMade || namesClient(name) };
}

/** SVC207: cookies whose options switch a protection off. */
function judgeOptions(
  { node, module, value }: Spot & { readonly value: Value | undefined },
  isOfSession: boolean,
  report: ReportAt,
): void {
  for (const key of isOfSession ? ['httpOnly'] : ['httpOnly', 'secure']) {
    const given = value?.members?.get(key);
    if (constantIn(given) !== 'false') continue;
    const written = given?.texts.flat().find((part) => part.kind === 'literal')?.from?.[0];
    report(
      written ?? { module, node },
      key === 'httpOnly'
        ? 'scripts can read the cookie that identifies a client, so an injected script can steal the cookie'
        : 'the cookie that identifies a client is also sent over connections without TLS, where attackers can read the cookie',
    );
  }
}
