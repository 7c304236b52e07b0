/**
 * Rules about guards, routes and tools in the source: SVC201, SVC204, SVC210, SVC215 … SVC217 and SVC305.
 * They report what the compiled application does not show, or whose line it does not know.
 */
import { calledName, entryOf, functionAround, pathOf, walk } from './nodes.ts';
import { constantOf, isRouteCall, literal, numberOf, specOf } from './routes.ts';
import { meaningOf, meaningOfCall } from './sources.ts';
import type { SourceModule } from './modules.ts';
import type { Call, Fn, Node } from './nodes.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Runs every rule of this file. */
export function reportDeclared(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    judgeGuards(call, meaning, module, report);
    judgeHandlers(call, module, sources, report);
    judgeTools(call, module, sources, report);
    if (isRouteCall(call)) judgeRoute(call, module, sources, report);
    if (meaning === 'svc.RateLimitMiddleware') judgeLimit(call, module, sources, report);
    if (/^svc\.RateLimit(?:Middleware|er)$/.test(meaning)) judgeKey(call.args[0], module, sources, report);
  }
}

/** SVC201 and SVC215: guards that accept every authenticated client, and tokens that stay valid too long. */
function judgeGuards(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (meaning === 'svc.requireIf') {
    const test = call.args.find(({ type }) => type === 'function');
    if (test?.type === 'function' && isAlwaysTrue(test))
      report(
        'SVC201',
        module,
        test,
        'the condition is always true, so the guard accepts every authenticated client',
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
      `${meaning.slice(4)}() names no role or scope, so it accepts every authenticated client`,
    );
  const isToken = /^svc\.(?:BearerAuth|verifyToken|createToken)$/.test(meaning);
  for (const given of isToken ? call.args : []) {
    const constant = constantOf(given, module);
    const arg = constant?.node;
    const required = entryOf(arg, 'requireExp');
    if (required?.type === 'value' && required.raw === 'false')
      report(
        'SVC215',
        constant!.module, // entryOf() found the member, so the constant exists
        required,
        'tokens without an expiry are accepted, so a leaked token never becomes invalid',
      );
    const seconds = numberOf(entryOf(arg, 'expiresInSeconds'));
    if (seconds !== undefined && seconds > 366 * 86_400)
      report(
        'SVC215',
        constant!.module, // entryOf() found the member, so the constant exists
        entryOf(arg, 'expiresInSeconds')!,
        'the token is valid for more than a year, and so is a leaked token',
      );
  }
}

/**
 * Whether a condition accepts every client: `() => true`, `Promise.resolve(true)`, or a test whether claims
 * exist, such as `(claims) => !!claims`.
 */
function isAlwaysTrue({ isExpression, body, params }: Fn): boolean {
  const [only] = body;
  const value = isExpression ? only : body.length === 1 && only?.type === 'leave' ? only.value : undefined;
  const [claims] = params;
  const isClaims = (node: Node | undefined): boolean =>
    node?.type === 'name' && claims?.type === 'name' && node.name === claims.name;
  switch (value?.type) {
    case 'value':
      return value.raw === 'true' || value.raw === '1';
    case 'call':
      return (
        (pathOf(value.callee) === 'Promise.resolve' &&
          value.args[0]?.type === 'value' &&
          value.args[0].raw === 'true') ||
        (pathOf(value.callee) === 'Boolean' && isClaims(value.args[0]))
      );
    case 'unary':
      return value.operator === '!' && value.value?.type === 'unary' && isClaims(value.value.value);
    case 'binary':
      return (
        /^!==?$/.test(value.operator) &&
        isClaims(value.left) &&
        (pathOf(value.right) === 'undefined' || (value.right.type === 'value' && value.right.raw === 'null'))
      );
    default:
      return false;
  }
}

/** SVC305: exception handlers whose replies differ from the OpenAPI document. */
function judgeHandlers(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const [error, given] = call.args;
  if (calledName(call) !== 'exceptionHandler' || error === undefined || given === undefined) return;
  const [, name] =
    /^(?:svc\.)?(ValidationError|HTTPException|BadRequest)$/.exec(meaningOf(error, module) ?? '') ?? [];
  const handler = sources.handlers.resolve(given, module);
  if (name === undefined || handler === undefined) return;
  const text = sources.handlers.homeOf(handler).source.slice(handler.start, handler.end);
  const status = /\bstatus\s*:\s*(\d{3})|,\s*(\d{3})\s*[,)\]]/.exec(text);
  const code = status?.[1] ?? status?.[2];
  const isOther =
    name === 'HTTPException' &&
    !/problem\+json|throw\b|Problem/.test(text) &&
    /JSONResponse|return\s*\{|=>\s*\(?\s*[[{(]/.test(text);
  if (name !== 'HTTPException' && (code === undefined || code === '400')) return;
  if (name === 'HTTPException' && !isOther) return;
  report(
    'SVC305',
    module,
    call,
    code === undefined || code === '400'
      ? 'the document cannot describe error replies: this handler has its own form of reply, and declares no response'
      : `the document cannot describe the answer to invalid input: this answers ${code}, and declares no response`,
    {
      severity: 'warning',
      remedy: `Declare it: app.exceptionHandler(${name}, { response: { ${code ?? '400'}: Refusal } }, (error) => …)`,
    },
  );
}

const WRITES =
  /^(?:execute|executeMany|insert\w*|update\w*|delete\w*|remove\w*|save\w*|create\w*|transaction|unlink|writeFile|rm)$/;

/**
 * SVC201 for MCP tools and WebSocket messages that change data. The rule of the same id in access-rules.ts
 * sees only routes.
 */
function judgeTools(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const name = calledName(call);
  if ((name !== 'tool' && name !== 'onMessage') || call.callee.type !== 'member') return;
  const last = call.args.at(-1);
  const handler = last === undefined ? undefined : sources.handlers.resolve(last, module);
  if (handler === undefined) return;
  const isWriting = writesIn(handler, sources) || (name === 'tool' && changesModule(handler, sources));
  if (!isWriting) return;
  if (name === 'tool' && call.args[0]?.type === 'text') {
    const mounts = sources.all('call').filter(({ node }) => calledName(node) === 'mountMcp');
    const isOpen = mounts.some(({ node }) => entryOf(node.args[1], 'deps') === undefined);
    if (isOpen && !hasGuard(call, module))
      report(
        'SVC201',
        module,
        call,
        `the tool "${call.args[0].value}" changes data, and every client of the endpoint may call it`,
      );
  }
  if (name !== 'onMessage') return;
  let at: Node = call.callee.object;
  while (at.type === 'call' && at.callee.type === 'member' && calledName(at) !== 'websocket')
    at = at.callee.object;
  if (at.type === 'call' && calledName(at) === 'websocket' && !hasGuard(at, module))
    report('SVC201', module, at, 'messages of this WebSocket change data, and every client may send them');
}

/** Whether a function writes to a database or a file, itself or through project functions that it calls. */
function writesIn(handler: Fn, sources: Sources, depth = 0): boolean {
  if (callsAny(handler, WRITES)) return true;
  if (depth > 1) return false;
  let found = false;
  const module = sources.handlers.homeOf(handler);
  walk(handler, (node) => {
    if (node.type !== 'call' || found) return;
    const called = sources.handlers.resolve(node.callee, module);
    if (called !== undefined && called !== handler) found = writesIn(called, sources, depth + 1);
  });
  return found;
}

/** Whether a function changes a collection in a module variable: `stock.set(id, count)`. */
function changesModule(handler: Fn, sources: Sources): boolean {
  const module = sources.handlers.homeOf(handler);
  let found = false;
  walk(handler, (node) => {
    if (node.type !== 'call' || node.callee.type !== 'member' || node.callee.object.type !== 'name') return;
    if (!/^(?:set|delete|clear|push|splice|unshift)$/.test(node.callee.property ?? '')) return;
    const binding = module.lookup(node.callee.object.name, node);
    if (binding?.kind === 'declared' && functionAround(binding.node) === undefined) found = true;
  });
  return found;
}

/** Whether the declaration of a route or a tool has a guard, or is declared public. */
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

/** SVC216 and SVC217: GET routes that change data, and logins that keep the session id. */
function judgeRoute(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  // isRouteCall() requires a member with a name
  const method = call.callee.type === 'member' ? call.callee.property! : '';
  const [path] = call.args;
  const last = call.args.at(-1)!; // isRouteCall() requires a path, so there is an argument
  const handler = last.type === 'function' ? last : sources.handlers.resolve(last, module);
  if (path?.type !== 'text' || handler === undefined) return;
  const limit = entryOf(specOf({ call, module }), 'rateLimit');
  judgeKey(limit, module, sources, report);
  const tries = entryOf(limit, 'perMinute');
  const perMinute = numberOf(tries);
  if (method === 'post' && GUESSED.test(path.value) && perMinute !== undefined && perMinute > MOST_TRIES)
    report(
      'SVC204',
      module,
      tries!,
      `${perMinute} attempts a minute for POST ${path.value} are too many to stop guessing`,
    );
  if (method === 'get') {
    const change =
      changeIn(handler, module, sources) ??
      (CHANGING.test(path.value) && callsAny(handler, /^(?:delete|remove|destroy|revoke\w*|logout)$/)
        ? 'changes something'
        : undefined);
    if (change !== undefined)
      report(
        'SVC216',
        module,
        call,
        `GET ${path.value} ${change}: images on any page and prefetching make a browser send the request`,
      );
  }
  if (
    method === 'post' &&
    (LOGIN.test(path.value) || callsAny(handler, /^checkPassword$/)) &&
    setsSession(handler) &&
    !callsAny(handler, /^(?:regenerate|login|logIn|startSession)$/)
  )
    report(
      'SVC217',
      module,
      call,
      'the login keeps the session id, so an attacker who has planted this id is logged in, too',
    );
}

/**
 * Returns how a handler changes data, such as "deletes rows", also through project functions that it calls.
 * Undefined if nothing was found.
 */
function changeIn(handler: Fn, module: SourceModule, sources: Sources, depth = 0): string | undefined {
  let found: string | undefined;
  walk(handler, (node) => {
    if (node.type !== 'call' || found !== undefined) return;
    const path = pathOf(node.callee) ?? '';
    if (/(?:^|\.)session\.destroy$/.test(path)) found = 'ends the session';
    const [statement] = node.args;
    const text =
      statement?.type === 'text'
        ? statement.value
        : statement?.type === 'template'
          ? statement.texts.join('?')
          : '';
    if (/^\s*delete\s+from\b/i.test(text) && /^(?:execute|query|run)$/.test(calledName(node) ?? ''))
      found = 'deletes rows';
    const isRemoval =
      /delete|remove|destroy|revoke|log-?out|sign-?out|endSession/i.test(path) &&
      !/expired|stale|old|outdated/i.test(path);
    const called = depth < 2 && isRemoval ? sources.handlers.resolve(node.callee, module) : undefined;
    if (called !== undefined && called !== handler)
      found ??= changeIn(called, sources.handlers.homeOf(called), sources, depth + 1);
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

/** Highest limit in requests per minute that still hinders the guessing of passwords. */
const MOST_TRIES = 600;
const GUESSED = /(?:^|\/)(?:log-?in|sign-?in|tokens?|passwords?|otp|2fa|forgot|reset)(?:\/|$)/i;

/** SVC204: rate limits that are too high to hinder the guessing of passwords. */
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
    report(
      'SVC204',
      module,
      node!,
      `${perMinute} attempts a minute for POST ${path.value} are too many to stop guessing`,
    );
    return;
  }
}

/** SVC210: rate limit keys that are computed from a header which clients can set. */
function judgeKey(
  options: Node | undefined,
  module: SourceModule,
  sources: Sources,
  report: ReportNode,
): void {
  const given = entryOf(options, 'key');
  const key = given === undefined ? undefined : sources.handlers.resolve(given, module);
  if (key === undefined) return;
  const home = sources.handlers.homeOf(key);
  walk(key, (node) => {
    if (node.type !== 'member' || !/(?:^|\.)headers$/.test(pathOf(node.object) ?? '')) return;
    const name = node.property ?? (node.index?.type === 'text' ? node.index.value : '');
    if (name !== '' && !/^(?:authorization|cookie|x-forwarded-for|x-real-ip)$/i.test(name))
      report(
        'SVC210',
        home,
        node,
        `the key of the limit is the header "${name}", which every client can set: each new value counts as a new client`,
        { severity: 'warning', remedy: 'Count by req.ip, or by the authenticated user' },
      );
  });
}
