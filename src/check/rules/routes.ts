/**
 * Rules about routes and tools in the sources: guards, limits of tries, GET routes that change data, sessions of logins and
 * exception handlers (SVC201, SVC204, SVC210, SVC216, SVC217, SVC305).
 */
import { calledName, entryOf, functionAround, pathOf, walk } from '../reader/nodes.ts';
import { literal, numberOf } from '../reader/constants.ts';
import { specOf } from '../values/functions.ts';
import { meaningOf, meaningOfCall } from '../sources.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportNode, SourcePart, SourceRule, Sources } from '../sources.ts';

/** Rules about routes, sorted by id. */
export const ROUTE_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC216',
    severity: 'warning',
    phase: 'source',
    cwe: [650, 352],
    sources: ['RFC 9110 §9.2.1'],
    why: 'GET must change nothing (RFC 9110 §9.2.1). Any page can make a browser send a GET request, and CSRF protection ignores GET requests',
    remedy: 'Change data only in routes for POST or DELETE, which pages call with a form or fetch()',
    wrong: "app.get('/logout', ({ req }) => req.session.destroy());",
    right: "app.post('/logout', ({ req }) => req.session.destroy());",
    find: findChangingGets,
  },
  {
    id: 'SVC217',
    severity: 'error',
    phase: 'source',
    cwe: [384],
    sources: ['OWASP Cheat Sheet: Session Management'],
    why: 'An attacker can give a browser a known session id. If a login keeps that id, the attacker is logged in, too (session fixation)',
    remedy: 'Call req.session.regenerate() before req.session.set()',
    wrong: "req.session.set('user', id);",
    right: "req.session.regenerate(); req.session.set('user', id);",
    find: findFixedSessions,
  },
  { id: 'SVC201', find: findOpenChanges },
  { id: 'SVC204', find: findHighLimits },
  { id: 'SVC210', find: findChosenKeys },
  { id: 'SVC305', find: findHandlers },
];

/** A route with its handler. */
interface FoundRoute {
  readonly call: Call;
  readonly module: SourceModule;
  readonly path: string;
  readonly handler: Fn;
}

/** Returns the routes whose path is a literal and whose handler is known. */
function routesIn(sources: Sources): readonly FoundRoute[] {
  return sources.all('call').flatMap(({ module, node: call }) => {
    if (!sources.handlers.isRoute(call)) return [];
    const [path] = call.args;
    const last = call.args.at(-1)!; // every method that adds a route requires a path, so `args` has at least one element
    const handler = last.type === 'function' ? last : sources.handlers.resolve(last, module);
    return path?.type !== 'text' || handler === undefined
      ? []
      : [{ call, module, path: path.value, handler }];
  });
}

/** SVC201: guards that accept every authenticated client, and tools and sockets that change data without a guard. */
function findOpenChanges(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    judgeTools(call, module, sources, report);
    if (meaningOfCall(call, module) !== 'svc.requireIf') continue;
    const test = call.args.find(({ type }) => type === 'function');
    if (test?.type === 'function' && isAlwaysTrue(test))
      report(
        'SVC201',
        module,
        test,
        'the condition is always true, so the guard accepts every authenticated client',
      );
  }
}

/** SVC204: rate limits that are too high to hinder the guessing of passwords. */
function findHighLimits(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call'))
    if (meaningOfCall(call, module) === 'svc.RateLimitMiddleware') judgeLimit(call, module, sources, report);
  for (const { call, module, path } of routesIn(sources)) {
    const tries = entryOf(entryOf(specOf({ call, module }), 'rateLimit'), 'perMinute');
    const perMinute = numberOf(tries);
    if (
      methodsOf(call).includes('post') &&
      GUESSED.test(path) &&
      perMinute !== undefined &&
      perMinute > MOST_TRIES
    )
      report(
        'SVC204',
        module,
        tries!,
        `the rate limit allows ${perMinute} attempts a minute for POST ${path}, too many to prevent guessing of passwords or codes`,
      );
  }
}

/** SVC210: rate limit keys that come from a header. */
function findChosenKeys(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call'))
    if (/^svc\.RateLimit(?:Middleware|er)$/.test(meaningOfCall(call, module)))
      judgeKey(call.args[0], module, sources, report);
  for (const { call, module } of routesIn(sources))
    judgeKey(entryOf(specOf({ call, module }), 'rateLimit'), module, sources, report);
}

/** SVC216: GET routes that change data. */
function findChangingGets(sources: Sources, report: ReportNode): void {
  for (const { call, module, path, handler } of routesIn(sources))
    if (methodsOf(call).includes('get')) judgeGet(call, path, handler, module, sources, report);
}

/** SVC217: logins that keep the session id. */
function findFixedSessions(sources: Sources, report: ReportNode): void {
  for (const { call, module, path, handler } of routesIn(sources))
    if (
      methodsOf(call).includes('post') &&
      (LOGIN.test(path) || reaches(handler, sources, isNamed(/^checkPassword$/))) &&
      reaches(handler, sources, ({ callee }) => /(?:^|\.)session\.set$/.test(pathOf(callee) ?? '')) &&
      !reaches(handler, sources, isNamed(/^(?:regenerate|login|logIn|startSession)$/))
    )
      report(
        'SVC217',
        module,
        call,
        'the login keeps the earlier session id, so an attacker who planted that id in the browser is logged in, too',
      );
}

/** SVC305: exception handlers whose replies differ from the OpenAPI document. */
function findHandlers(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) judgeHandlers(call, module, sources, report);
}

/**
 * Whether a condition accepts every client: `() => true`, `Promise.resolve(true)`, or a function that only
 * tests that claims exist, such as `(claims) => !!claims`.
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
      ? 'the OpenAPI document does not describe the error replies of this handler, because the handler declares no response'
      : `the OpenAPI document does not describe the reply to invalid input: this handler replies with ${code}, but declares no response`,
    {
      severity: 'warning',
      remedy: `Declare the schema of the error reply: app.exceptionHandler(${name}, { response: { ${code ?? '400'}: Refusal } }, (error) => …)`,
    },
  );
}

const WRITES = /^(?:execute|executeMany|transaction|(?:unlink|writeFile|appendFile|rm)(?:Sync)?)$/;

/** Names of methods that write data when called on a database or another store. */
const WRITES_TO_STORE =
  /^(?:(?:insert|update|upsert|delete|destroy|remove|save)(?:$|[A-Z])|create(?:One|Many)?$)/;

/** Names of variables that usually hold a database or another store of data. */
const STORE = /^#?(?:\w*(?:[dD]b|DB|[dD]atabase|[rR]epo|[rR]epository|[sS]tore)|tx|prisma|knex|\w+Model)s?$/;

/** Names of collections that hold only temporary data. */
const TRANSIENT = /(?:cache|seen|pending)$/i;

/**
 * SVC201 for MCP tools and WebSocket handlers that change data without a guard. access.ts applies the
 * rule to routes.
 */
function judgeTools(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const name = calledName(call);
  if ((name !== 'tool' && name !== 'onMessage') || call.callee.type !== 'member') return;
  const last = call.args.at(-1);
  const handler = last === undefined ? undefined : sources.handlers.resolve(last, module);
  if (handler === undefined) return;
  const isWriting =
    reaches(handler, sources, isWrite) || (name === 'tool' && changesModule(handler, sources));
  if (!isWriting) return;
  if (name === 'tool' && call.args[0]?.type === 'text') {
    const mounts = sources.all('call').filter(({ node }) => calledName(node) === 'mountMcp');
    const isOpen = mounts.some(({ node }) => entryOf(node.args[1], 'deps') === undefined);
    if (isOpen && !hasGuard(call, module))
      report(
        'SVC201',
        module,
        call,
        `the MCP tool "${call.args[0].value}" changes data, and every client of the MCP endpoint may call it`,
      );
  }
  if (name !== 'onMessage') return;
  let at: Node = call.callee.object;
  while (at.type === 'call' && at.callee.type === 'member' && calledName(at) !== 'websocket')
    at = at.callee.object;
  if (at.type === 'call' && calledName(at) === 'websocket' && !hasGuard(at, module))
    report('SVC201', module, at, 'messages of this WebSocket change data, and every client may send them');
}

/** Whether a function, or a project function that it calls, contains a call that satisfies a condition. */
function reaches(
  fn: Fn,
  sources: Sources,
  test: (call: Call, module: SourceModule) => boolean,
  depth = 0,
): boolean {
  const module = sources.handlers.homeOf(fn);
  let found = false;
  walk(fn, (node) => {
    if (node.type !== 'call' || found) return;
    const called = depth < 2 ? sources.handlers.resolve(node.callee, module) : undefined;
    found =
      test(node, module) ||
      (called !== undefined && called !== fn && reaches(called, sources, test, depth + 1));
  });
  return found;
}

/** Whether a call writes to a database, a file, or a collection that outlives the request. */
function isWrite(call: Call, module: SourceModule): boolean {
  const name = calledName(call) ?? '';
  if (WRITES.test(name)) return true;
  if (!WRITES_TO_STORE.test(name) || call.callee.type !== 'member') return false;
  const names = namesIn(call.callee.object);
  const [root] = names;
  // `at(-1)` is defined: `names` is not empty, because `root` is defined
  if (root === undefined || TRANSIENT.test(names.at(-1)!)) return false;
  const binding = module.lookup(root, call);
  const value =
    binding?.kind === 'declared' && binding.node.type === 'declarator' ? binding.node.value : undefined;
  if ([...names, ...(value === undefined ? [] : namesIn(value))].some((each) => STORE.test(each)))
    return true;
  // a name that begins with a capital letter is a model class, as in `User.create(…)`
  if (names.length === 1 && /^[A-Z]/.test(root)) return binding !== undefined;
  const isKept =
    root === 'this' || (binding?.kind === 'declared' && functionAround(binding.node) === undefined);
  return isKept && /^(?:insert|delete|remove|save)/.test(name);
}

/** Returns the names in a chain of members and calls: `knex` and `where` for `knex('users').where(…)`. */
function namesIn(node: Node): string[] {
  if (node.type === 'name') return [node.name];
  if (node.type === 'call') return namesIn(node.callee);
  if (node.type === 'await') return namesIn(node.value);
  return node.type === 'member' ? [...namesIn(node.object), node.property ?? ''] : [];
}

/** Whether a function changes a collection that a module variable holds: `stock.set(id, count)`. */
function changesModule(handler: Fn, sources: Sources): boolean {
  const module = sources.handlers.homeOf(handler);
  let found = false;
  walk(handler, (node) => {
    if (node.type !== 'call' || node.callee.type !== 'member' || node.callee.object.type !== 'name') return;
    if (!/^(?:set|delete|clear|push|splice|unshift)$/.test(node.callee.property ?? '')) return;
    const binding = module.lookup(node.callee.object.name, node);
    if (TRANSIENT.test(node.callee.object.name)) return;
    if (binding?.kind === 'declared' && functionAround(binding.node) === undefined) found = true;
  });
  return found;
}

/** Whether the declaration of a route or tool names a guard or says that access is public. */
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

/**
 * Paths that links in e-mails and redirects open, such as `/verify`. Browsers always request them with GET.
 */
const LINKED = /(?:^|\/)(?:verify|confirm|activate|unsubscribe|callback|invitations?|magic)(?:[/-]|$)/i;

const CHANGING = /(?:^|\/)(?:log-?out|sign-?out|delete|remove|destroy)(?:[/-]|$)/i;

/** SVC216: a GET handler that changes data. */
function judgeGet(
  call: Call,
  path: string,
  handler: Fn,
  module: SourceModule,
  sources: Sources,
  report: ReportNode,
): void {
  const text = module.source.slice(handler.start, handler.end);
  // a handler of several HTTP methods may test `method` before it changes data
  if (methodsOf(call).length > 1 && /\bmethod\b/.test(text)) return;
  const change =
    changeIn(handler, module, sources, LINKED.test(path)) ??
    (CHANGING.test(path) && callsAny(handler, /^(?:delete|remove|destroy|revoke\w*|logout)$/)
      ? 'changes something'
      : undefined);
  if (change !== undefined)
    report(
      'SVC216',
      module,
      call,
      `GET must not change data, but GET ${path} does (${change}): any page can make a browser send the request, for example with an image`,
    );
}

/**
 * Returns the HTTP methods of a route in lower case, also those in the list of `app.route(path, ['GET',
 * 'POST'], …)`.
 */
function methodsOf({ callee, args }: Call): readonly string[] {
  const list = args.find(({ type }) => type === 'list');
  if (callee.type !== 'member') return [];
  if (callee.property !== 'route' || list?.type !== 'list') return [callee.property ?? ''];
  return list.items.map((item) => (item.type === 'text' ? item.value.toLowerCase() : ''));
}

/** SQL statements that change rows. Does not match an UPDATE whose first column is a time or a counter. */
const CHANGES_ROWS =
  /^\s*(?:delete\s+from\b|update\s+\S+\s+set\s+(?!(?:last_?\w*|\w+_at|\w*(?:views?|hits|visits|count|seen)\w*)\s*=))/i;

/**
 * Returns how a handler, or a project function that it calls, changes data, such as "deletes rows". Undefined
 * if neither changes data. With `isLinked`, SQL statements do not count, because links in e-mails may change
 * rows.
 */
function changeIn(
  handler: Fn,
  module: SourceModule,
  sources: Sources,
  isLinked: boolean,
  depth = 0,
): string | undefined {
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
    if (
      !isLinked &&
      CHANGES_ROWS.test(text) &&
      /^(?:execute|query|run|fetch\w*)$/.test(calledName(node) ?? '')
    )
      found = /^\s*delete/i.test(text) ? 'deletes rows' : 'changes rows';
    const called = depth < 2 && mayChange(node) ? sources.handlers.resolve(node.callee, module) : undefined;
    if (called !== undefined && called !== handler)
      found ??= changeIn(called, sources.handlers.homeOf(called), sources, isLinked, depth + 1);
  });
  return found;
}

/**
 * Whether a call may change data. True if its name contains a word such as `delete`, or if it calls a method
 * of `this` or of a new object.
 */
function mayChange(call: Call): boolean {
  const { callee } = call;
  const path = pathOf(callee) ?? calledName(call) ?? '';
  if (/expired|stale|old|outdated/i.test(path)) return false;
  if (/delete|remove|destroy|revoke|log-?out|sign-?out|endSession/i.test(path)) return true;
  if (callee.type !== 'member') return false;
  const { object } = callee;
  return (object.type === 'name' && object.name === 'this') || (object.type === 'call' && object.isNew);
}

function isNamed(names: RegExp): (call: Call) => boolean {
  return (call) => names.test(calledName(call) ?? '');
}

function callsAny(handler: Fn, names: RegExp): boolean {
  let found = false;
  walk(handler, (node) => {
    if (node.type === 'call' && names.test(calledName(node) ?? '')) found = true;
  });
  return found;
}

/** Rate limit, in requests per minute, above which passwords can be guessed. */
const MOST_TRIES = 600;

const GUESSED =
  /(?:^|\/)(?:log-?in|sign-?in|tokens?|passwords?|otp|2fa|forgot|reset|unlock|pins?|passcodes?)(?:\/|$)/i;

/** SVC204: rate limits that are too high to hinder the guessing of passwords. */
function judgeLimit(call: Call, module: SourceModule, sources: Sources, report: ReportNode): void {
  const node = entryOf(call.args[0], 'perMinute');
  const perMinute = numberOf(node);
  if (perMinute === undefined || perMinute <= MOST_TRIES || entryOf(call.args[0], 'rules') !== undefined)
    return;
  for (const { module: other, node: route } of sources.all('call')) {
    const [path] = route.args;
    if (!sources.handlers.isRoute(route) || path?.type !== 'text' || !GUESSED.test(path.value)) continue;
    if (
      calledName(route) !== 'post' ||
      entryOf(specOf({ call: route, module: other }), 'rateLimit') !== undefined
    )
      continue;
    report(
      'SVC204',
      module,
      node!,
      `the rate limit allows ${perMinute} attempts a minute for POST ${path.value}, too many to prevent guessing of passwords or codes`,
    );
    return;
  }
}

/** SVC210: rate limit keys that come from a header. Clients can set that header to any value. */
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
        `the rate limit counts requests by the header "${name}", so a client can avoid the limit by sending a new value each time`,
        {
          severity: 'warning',
          remedy: 'Let the option "key" return req.ip, or the id of the authenticated user',
        },
      );
  });
}
