/**
 * Settings and guards as they are written: SVC201, SVC204, SVC207, SVC208, SVC210, SVC211, SVC212, SVC215 … SVC218 and SVC305, as far as the
 * application that was made of them no longer shows them, or not their line.
 */
import { calledName, entryOf, pathOf, walk } from './nodes.ts';
import { isRouteCall, literal, specOf } from './routes.ts';
import { meaningOfCall } from './sources.ts';
import type { SourceModule } from './modules.ts';
import type { Call, Fn, Node } from './nodes.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Runs every rule of this file. */
export function reportDeclared(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    judgeApplication(call, meaning, module, report);
    judgeGuards(call, meaning, module, report);
    judgeCookies(call, meaning, module, report);
    judgePolicy(call, meaning, module, report);
    judgeDatabases(call, meaning, module, report);
    judgeHandlers(call, meaning, module, report);
    judgeTools(call, module, sources, report);
    if (isRouteCall(call)) judgeRoute(call, module, sources, report);
    if (meaning === 'svc.RateLimitMiddleware') judgeLimit(call, module, sources, report);
    if (/^svc\.RateLimit(?:Middleware|er)$/.test(meaning)) judgeKey(call, module, report);
    if (calledName(call) === 'loadDict') judgeSettings(call, module, report);
  }
  for (const { module, node } of sources.all('entry')) {
    if (node.parent?.type !== 'object' || node.value === undefined) continue;
    if (node.key === 'trustProxy') judgeProxies(node.value, module, report);
    if (LIMITS.test(node.key ?? '') && isEndless(node.value) && isOption(node.parent))
      report(
        'SVC212',
        module,
        node,
        `${node.key!} is switched off: what hangs holds its connection and its memory for ever`,
        { severity: 'warning' },
      );
  }
}

/** SVC208 */
function judgeApplication(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (meaning !== 'svc.Svc') return;
  const env = entryOf(call.args[0], 'env');
  const value = env === undefined ? undefined : literal(env, module);
  if (value?.type === 'text' && value.value !== 'production')
    report(
      'SVC208',
      module,
      env!,
      `the environment is written into the source: production runs as "${value.value}", with traces and documents for every client`,
      {
        severity: 'warning',
        remedy: 'Leave out env, and set SVC_ENV=development where you develop',
      },
    );
}

/** SVC201, SVC215 */
function judgeGuards(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (meaning === 'svc.requireIf') {
    const test = call.args.find(({ type }) => type === 'function');
    if (test?.type === 'function' && isAlwaysTrue(test))
      report(
        'SVC201',
        module,
        test,
        'its condition is always true: the guard lets every client through that is known',
      );
  }
  if (
    (meaning === 'svc.requireRoles' || meaning === 'svc.requireScopes') &&
    !call.args.some(({ type }) => type !== 'object' && type !== 'call')
  )
    report(
      'SVC201',
      module,
      call,
      `${meaning.slice(4)}() names none: it lets every client through that is known`,
    );
  const isToken = /^svc\.(?:BearerAuth|verifyToken|createToken)$/.test(meaning);
  for (const arg of isToken ? call.args : []) {
    const required = entryOf(arg, 'requireExp');
    if (required?.type === 'value' && required.raw === 'false')
      report(
        'SVC215',
        module,
        required,
        'tokens without an end are accepted: one that leaks counts for ever',
      );
    const seconds = numberOf(entryOf(arg, 'expiresInSeconds'));
    if (seconds !== undefined && seconds > 366 * 86_400)
      report(
        'SVC215',
        module,
        entryOf(arg, 'expiresInSeconds')!,
        'the token counts for more than a year: one that leaks does, too',
      );
  }
}

function isAlwaysTrue({ isExpression, body }: Fn): boolean {
  const [only] = body;
  const value = isExpression ? only : body.length === 1 && only?.type === 'leave' ? only.value : undefined;
  return value?.type === 'value' && value.raw === 'true';
}

const SESSION_COOKIE = /sess|token|auth|sid\b|jwt|login|remember/i;

/** SVC207 */
function judgeCookies(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  const [name] = call.args;
  const isSet =
    /^(?:setCookie|cookie)$/.test(calledName(call) ?? '') &&
    name?.type === 'text' &&
    SESSION_COOKIE.test(name.value) &&
    !/csrf|xsrf/i.test(name.value);
  const options = isSet
    ? call.args.at(-1)
    : meaning === 'svc.SessionMiddleware'
      ? entryOf(call.args[0], 'cookie')
      : undefined;
  for (const key of isSet ? ['httpOnly', 'secure'] : ['httpOnly']) {
    const value = entryOf(options, key);
    if (value?.type === 'value' && value.raw === 'false')
      report(
        'SVC207',
        module,
        value,
        key === 'httpOnly'
          ? 'scripts can read the cookie that says who a client is: one that gets into a page takes it along'
          : 'the cookie that says who a client is goes over connections without TLS',
      );
  }
}

/** SVC211 */
function judgePolicy(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (meaning !== 'svc.SecurityHeadersMiddleware') return;
  const given = entryOf(call.args[0], 'contentSecurityPolicy');
  const policy = given === undefined ? undefined : literal(given, module);
  if (policy === undefined) return;
  for (const [sources, node] of scriptSources(policy)) {
    const found = /'unsafe-inline'|'unsafe-eval'|(?<![\w:/*.-])(?:https?:|data:|\*)(?![\w/.*-])/.exec(
      sources,
    )?.[0];
    if (found === undefined || (found === "'unsafe-inline'" && /'nonce-|'strict-dynamic'/.test(sources)))
      continue;
    report(
      'SVC211',
      module,
      node,
      `the policy allows scripts from ${found}: a script that gets into a page runs`,
      {
        remedy: "Name the files: script-src 'self'; for a script in the page use cspNonce()",
      },
    );
  }
}

function scriptSources(policy: Node): (readonly [sources: string, node: Node])[] {
  if (policy.type === 'text') {
    const directives = policy.value.split(';').map((each) => each.trim());
    const found =
      directives.find((each) => /^script-src\s/.test(each)) ??
      directives.find((each) => /^default-src\s/.test(each));
    return found === undefined ? [] : [[found, policy]];
  }
  const node = entryOf(policy, 'scriptSrc') ?? entryOf(policy, 'script-src') ?? entryOf(policy, 'defaultSrc');
  if (node === undefined) return [];
  const items = node.type === 'list' ? node.items : [node];
  return [[items.map((item) => (item.type === 'text' ? item.value : '')).join(' '), node]];
}

/** SVC218 */
function judgeDatabases(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (!/(?:^|\.)(?:DatabasePlugin|RedisPlugin|openDatabase)$/.test(meaning) || call.args[0] === undefined)
    return;
  const given = call.args[0].type === 'binary' ? call.args[0].right : call.args[0];
  const value = literal(given, module);
  if (value?.type !== 'text') return;
  const [, scheme, host] = /^(\w+):\/\/(?:[^@/]*@)?(\[[^\]]+\]|[^:/?]+)/.exec(value.value) ?? [];
  if (host === undefined || /^(?:localhost|127\.|\[::1\])/.test(host)) return;
  if (/[?&]sslmode=(?:disable|prefer)\b/.test(value.value) || scheme === 'redis')
    report(
      'SVC218',
      module,
      given,
      `the connection to ${host} has no TLS: passwords and rows can be read on the way`,
    );
}

/** SVC305 */
function judgeHandlers(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  const [error, handler] = call.args;
  if (calledName(call) !== 'exceptionHandler' || error?.type !== 'name' || handler?.type !== 'function')
    return;
  if (error.name !== 'ValidationError' || meaning === '') return;
  const text = module.source.slice(handler.start, handler.end);
  const status = /\bstatus\s*:\s*(\d{3})|,\s*(\d{3})\s*[,)\]]/.exec(text);
  const code = status?.[1] ?? status?.[2];
  if (code !== undefined && code !== '400')
    report(
      'SVC305',
      module,
      call,
      `the document says that invalid input is answered with 400 and a problem, and this answers ${code}`,
      {
        severity: 'warning',
        remedy: 'Answer with 400, or say so at the routes: response: { 422: Problem }',
      },
    );
}

const WRITES =
  /^(?:execute|executeMany|insert\w*|update\w*|delete\w*|remove\w*|save\w*|create\w*|transaction|unlink|writeFile|rm)$/;

/** SVC201 for tools of MCP and messages of WebSockets, which SVC201 of routes does not see. */
function judgeTools(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const name = calledName(call);
  const handler = call.args.at(-1);
  if (handler?.type !== 'function' || call.callee.type !== 'member' || !callsAny(handler, WRITES)) return;
  if (name === 'tool' && call.args[0]?.type === 'text') {
    const mounts = [...sources.all('call')].filter(({ node }) => calledName(node) === 'mountMcp');
    const isOpen = mounts.some(({ node }) => entryOf(node.args[1], 'deps') === undefined);
    if (isOpen && !hasGuard(call, module))
      report(
        'SVC201',
        module,
        call,
        `the tool "${call.args[0].value}" changes something, and every client of the endpoint may call it`,
      );
  }
  if (name !== 'onMessage') return;
  let at: Node = call.callee.object;
  while (at.type === 'call' && at.callee.type === 'member' && calledName(at) !== 'websocket')
    at = at.callee.object;
  if (at.type === 'call' && calledName(at) === 'websocket' && !hasGuard(at, module))
    report(
      'SVC201',
      module,
      at,
      'messages of this WebSocket change something, and every client may send them',
    );
}

/** Whether the declaration of a route or a tool asks who is there, or says that it is public. */
function hasGuard(call: Call, module: SourceModule): boolean {
  return call.args.slice(0, 2).some((arg) => {
    const spec = literal(arg, module) ?? arg;
    return (
      /\bDepends\(|\bpublic\s*:|\.\.\./.test(module.source.slice(spec.start, spec.end)) ||
      (spec === arg && arg.type === 'name')
    );
  });
}

const LOGIN = /(?:^|\/)(?:log-?in|sign-?in|session|auth)s?(?:\/|$)/i;
const CHANGING = /(?:^|\/)(?:log-?out|sign-?out|delete|remove|destroy)(?:[/-]|$)/i;

/** SVC216, SVC217 */
function judgeRoute(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const method = call.callee.type === 'member' ? call.callee.property! : ''; // isRouteCall
  const [path] = call.args;
  const last = call.args.at(-1)!; // there is a path at least
  const handler = last.type === 'function' ? last : sources.handlers.resolve(last, module);
  if (path?.type !== 'text' || handler === undefined) return;
  const tries = entryOf(entryOf(specOf({ call, module }), 'rateLimit'), 'perMinute');
  const perMinute = numberOf(tries);
  if (method === 'post' && GUESSED.test(path.value) && perMinute !== undefined && perMinute > MOST_TRIES)
    report('SVC204', module, tries!, `${perMinute} tries a minute for POST ${path.value} are no limit`);
  if (method === 'get') {
    const change =
      changeIn(handler) ??
      (CHANGING.test(path.value) && callsAny(handler, /^(?:delete|remove|destroy|revoke\w*|logout)$/)
        ? 'changes something'
        : undefined);
    if (change !== undefined)
      report(
        'SVC216',
        module,
        call,
        `GET ${path.value} ${change}: a picture on any page makes a browser send it, and prefetching does`,
      );
  }
  if (
    method === 'post' &&
    LOGIN.test(path.value) &&
    setsSession(handler) &&
    !callsAny(handler, /^(?:regenerate|login|logIn|startSession)$/)
  )
    report(
      'SVC217',
      module,
      call,
      'it logs in and keeps the id of the session: a person who has planted that id is logged in, too',
    );
}

function changeIn(handler: Fn): string | undefined {
  let found: string | undefined;
  walk(handler, (node) => {
    if (node.type !== 'call' || node.callee.type !== 'member') return;
    const path = pathOf(node.callee) ?? '';
    if (/(?:^|\.)session\.destroy$/.test(path)) found = 'ends the session';
    const [statement] = node.args;
    const text =
      statement?.type === 'text'
        ? statement.value
        : statement?.type === 'template'
          ? statement.texts.join('?')
          : '';
    if (/^\s*delete\s+from\b/i.test(text) && /^(?:execute|query|run)$/.test(node.callee.property ?? ''))
      found = 'deletes rows';
  });
  return found;
}

function callsAny(handler: Fn, names: RegExp): boolean {
  let found = false;
  walk(handler, (node) => {
    if (node.type === 'call' && names.test(calledName(node) ?? '')) found = true;
  });
  return found;
}

function setsSession(handler: Fn): boolean {
  let found = false;
  walk(handler, (node) => {
    if (node.type === 'call' && /(?:^|\.)session\.set$/.test(pathOf(node.callee) ?? '')) found = true;
  });
  return found;
}

/** More tries in a minute are no limit for a password. */
const MOST_TRIES = 600;
const GUESSED = /(?:^|\/)(?:log-?in|sign-?in|tokens?|passwords?|otp|2fa|forgot|reset)(?:\/|$)/i;

/** SVC204 */
function judgeLimit(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const node = entryOf(call.args[0], 'perMinute');
  const perMinute = numberOf(node);
  if (perMinute === undefined || perMinute <= MOST_TRIES || entryOf(call.args[0], 'rules') !== undefined)
    return;
  for (const { module: other, node: route } of sources.all('call')) {
    const [path] = route.args;
    if (!isRouteCall(route) || path?.type !== 'text' || !GUESSED.test(path.value)) continue;
    if (
      calledName(route) !== 'post' ||
      entryOf(specOf({ call: route, module: other }), 'rateLimit') !== undefined
    )
      continue;
    report('SVC204', module, node!, `${perMinute} tries a minute for POST ${path.value} are no limit`);
    return;
  }
}

/** SVC210 */
function judgeKey(call: Call, module: SourceModule, report: ReportNode): void {
  const key = entryOf(call.args[0], 'key');
  if (key?.type !== 'function') return;
  walk(key, (node) => {
    if (node.type !== 'member' || !/(?:^|\.)headers$/.test(pathOf(node.object) ?? '')) return;
    const name = node.property ?? (node.index?.type === 'text' ? node.index.value : '');
    if (name !== '' && !/^(?:authorization|cookie|x-forwarded-for|x-real-ip)$/i.test(name))
      report(
        'SVC210',
        module,
        node,
        `its key is the field "${name}", which every client can write: a new text is a new client`,
        { severity: 'warning', remedy: 'Count by req.ip, or by the user that a guard has found' },
      );
  });
}

/** SVC208 for settings that are loaded. */
function judgeSettings(call: Call, module: SourceModule, report: ReportNode): void {
  for (const [key, what] of [
    ['debug', 'answers show stack traces to every client'],
    ['enableDocs', '/docs and /openapi.json show every route to every client'],
  ] as const) {
    const value = entryOf(call.args[0], key);
    if (value?.type === 'value' && value.raw === 'true')
      report('SVC208', module, value, what, {
        severity: key === 'debug' ? 'error' : 'warning',
        remedy: `Leave ${key} out of the source, and set it where you develop`,
      });
  }
}

function numberOf(node: Node | undefined): number | undefined {
  if (node?.type === 'value')
    return /^[\d_.e]+$/i.test(node.raw) ? Number(node.raw.replaceAll('_', '')) : undefined;
  if (node?.type === 'name' && node.name === 'Infinity') return Infinity;
  if (node?.type !== 'binary' || node.operator !== '*') return undefined;
  const [left, right] = [numberOf(node.left), numberOf(node.right)];
  return left === undefined || right === undefined ? undefined : left * right;
}

/** SVC210: halves of all addresses, which no "all" among the words shows. */
function judgeProxies(value: Node, module: SourceModule, report: ReportNode): void {
  for (const item of value.type === 'list' ? value.items : []) {
    const prefix = item.type === 'text' ? /^([\d.]+|[\da-f:]+)\/(\d+)$/i.exec(item.value) : null;
    if (prefix === null || Number(prefix[2]) >= 8) continue;
    report(
      'SVC210',
      module,
      item,
      `"${prefix[0]}" is so large a part of all addresses that clients are in it`,
    );
  }
}

const LIMITS =
  /^(?:statementTimeoutMs|connectTimeoutMs|requestTimeoutMs|headersTimeoutMs|sendTimeoutMs|timeoutMs)$/;

function isEndless(value: Node): boolean {
  return (
    (value.type === 'value' && (value.raw === 'false' || value.raw === '0')) ||
    (value.type === 'name' && value.name === 'Infinity')
  );
}

/** Whether an object is an argument, or an option inside of one. */
function isOption(node: Node): boolean {
  return (
    node.parent?.type === 'call' ||
    (node.parent?.type === 'entry' && node.parent.parent !== undefined && isOption(node.parent.parent))
  );
}
