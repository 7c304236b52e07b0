/**
 * Rules about routes and tools in the sources: guards, limits of tries, GET routes that change data, sessions of logins,
 * exception handlers and messages of errors (SVC201, SVC204, SVC210, SVC216, SVC217, SVC305, SVC626).
 */
import { constantOf, literal, numberOf } from '../reader/constants.ts';
import {
  calledName,
  dependsOn,
  entryOf,
  functionAround,
  isRaw,
  isWithin,
  methodOf,
  nodesAround,
  partsIn,
  partsOf,
  pathOf,
  walk,
} from '../reader/nodes.ts';
import { LINK, LOGIN } from '../names.ts';
import { meaningOf, meaningOfCall } from '../sources.ts';
import { GUARDS, isClock } from '../values/marks.ts';
import { specOf } from '../values/functions.ts';
import { isList } from '../values/calls.ts';
import { constantIn } from '../values/tests.ts';
import { literalOf } from '../values/text.ts';
import { isCaught } from '../values/promises.ts';
import { errorId } from '../values/inputs.ts';
import { KNOWN, innerOf, madeIn, withoutMembers } from '../values/value.ts';
import { CHOSEN_KEY, CREDENTIALS, chosenKey } from './deployment.ts';
import { OTHER_DATABASE, OUR_DATABASE } from './injection.ts';
import { MAKES_REPLY, declaresResponse, isUnderCondition } from './replies.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Run } from '../statements/trace.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { RouteCall } from '../values/functions.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Rules about routes, sorted by id. */
export const ROUTE_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC216',
    severity: 'warning',
    cwe: [650, 352],
    sources: ['RFC 9110 §9.2.1'],
    why: 'GET must change nothing (RFC 9110 §9.2.1). Any page can make a browser send a GET request, and CSRF protection ignores GET requests',
    remedy: 'Change data only in routes for POST or DELETE, which pages call with a form or fetch()',
    wrong: "app.get('/logout', ({ req }) => req.session.destroy());",
    right: "app.post('/logout', ({ req }) => req.session.destroy());",
    onCall: findChangingGets,
  },
  {
    id: 'SVC217',
    severity: 'error',
    cwe: [384],
    sources: ['OWASP Cheat Sheet: Session Management'],
    why: 'An attacker can give a browser a known session id. If a login keeps that id, the attacker is logged in, too (session fixation)',
    remedy: 'Call req.session.regenerate() before req.session.set()',
    wrong: "req.session.set('user', id);",
    right: "req.session.regenerate(); req.session.set('user', id);",
    watch: watchLogins,
  },
  { id: 'SVC201', watch: watchOpenChanges },
  { id: 'SVC210', find: findChosenKeys },
  { id: 'SVC305', find: findHandlers },
  { id: 'SVC626', watch: watchMessages },
];

/** SQL statements that change rows or tables. */
const CHANGES_DATA = /^\s*(?:insert|update|delete|replace|merge|create|drop|alter|truncate)\b/i;
/** SQL statements that change rows. Does not match an UPDATE whose first column is a time, is not known, or counts. */
const CHANGES_ROWS =
  /^\s*(?:delete\s+from\b|update\s+\S+\s+set\s+(?!(?:last_?\w*|\w+_at|\w*seen\w*)\s*=)(?=["`\w])(?!(\S+)\s*=\s*\1\s*\+))/i;
const CHANGES_FILES =
  /^fs(?:\/promises|\.promises)?\.(?:writeFile|appendFile|unlink|rm|rename|cp|copyFile|truncate)(?:Sync)?$/;
/** Methods of database clients of other packages that change data. */
const CHANGES_ELSEWHERE =
  /^(?:mongodb|mongoose|sequelize|typeorm)\b[^]*\.(?:create|insert|update|upsert|delete|del|remove|save|replace|destroy)(?:One|Many|AndUpdate)?$/;

/** Returns the text of the SQL statement of a call; empty if it is no statement. */
function statementIn({ call, meaning, value }: Site): string {
  const [text] = (OUR_DATABASE.test(meaning) && value(call.args[0])?.texts) || [];
  return text === undefined ? '' : literalOf(text, '?');
}

/** Returns the expression that made the list, map or set of the process that a call changes. */
function changedCollection({ call, receiver }: Site): Node | undefined {
  const isCollection = /^(?:Map|Set|Array)$/.test(receiver?.type ?? '') || isList(receiver);
  return isCollection && CHANGES_COLLECTION.test(methodOf(call)) ? receiver?.lasting : undefined;
}

const CHANGES_COLLECTION = /^(?:set|add|delete|clear|push|splice|unshift)$/;

/** SVC201: tools and WebSockets that change data without a guard. */
function watchOpenChanges(report: ReportAt, sources: Sources): Watch {
  const changing = new Map<RouteCall, readonly Node[]>();
  /** Collections in which handlers keep values that they compute: caches. */
  const caches = new Set<Node>();
  const refusing = new Set<Node>();
  return {
    onHandler({ route, dependencies }) {
      if (route !== undefined && dependencies.some(mayRefuse)) refusing.add(route.call);
    },
    onCall(site) {
      const { route, isGuarded, meaning, call, given, value } = site;
      if (route === undefined) return;
      const collection = changedCollection(site);
      const isFilled = collection !== undefined && call.args.length > (meaning.endsWith('.set') ? 1 : 0);
      const kept = call.args.at(-1);
      const isComputed = given(kept) === undefined && constantIn(value(kept)) === undefined;
      if (isFilled && isComputed && /^(?:set|add|push)$/.test(methodOf(call))) caches.add(collection);
      const isChange =
        CHANGES_DATA.test(statementIn(site)) ||
        CHANGES_FILES.test(meaning) ||
        CHANGES_ELSEWHERE.test(meaning);
      if (isGuarded || (!isChange && collection === undefined)) return;
      const changed = changing.get(route) ?? [];
      changing.set(route, isChange ? [call] : [...changed, collection!]); // one of both is set: see above
    },
    finish() {
      for (const [route, changed] of changing)
        if (!refusing.has(route.call) && changed.some((node) => !caches.has(node)))
          judgeOpen(route, sources, report);
    },
  };
}

/** Whether a dependency may refuse a request: a guard, a function of the project, or one that is not known. */
function mayRefuse({ gives, depends }: Value): boolean {
  const isOurs =
    depends?.fn === undefined && depends?.of === undefined && gives?.type?.startsWith('svc') === true;
  return !isOurs || GUARDS.test(gives.type ?? '');
}

function judgeOpen({ call, module }: RouteCall, sources: Sources, report: ReportAt): void {
  const name = calledName(call);
  if (name === 'tool' && call.args[0]?.type === 'text' && !isPublic(call, module)) {
    const mounts = sources.all('call').filter(({ node }) => calledName(node) === 'mountMcp');
    if (mounts.some(({ node }) => entryOf(node.args[1], 'deps') === undefined))
      report(
        { module, call },
        `the MCP tool "${call.args[0].value}" changes data, and every client of the MCP endpoint may call it`,
      );
  }
  const socket = socketOf(call);
  if (socket !== undefined && !isPublic(socket, module))
    report(
      { module, node: socket },
      'messages of this WebSocket change data, and every client may send them',
    );
}

/** Returns the call of `app.websocket(path)` to which a handler of messages belongs. */
function socketOf(call: Call): Call | undefined {
  let at: Node = call;
  while (at.type === 'call' && at.callee.type === 'member' && calledName(at) !== 'websocket')
    at = at.callee.object;
  return at.type === 'call' && calledName(at) === 'websocket' ? at : undefined;
}

/** Whether the declaration of a route or tool says that access is public, or is unknown. */
function isPublic(call: Call, module: SourceModule): boolean {
  return call.args.slice(0, 2).some((arg) => {
    const spec = constantOf(arg, module)?.node;
    return (
      spec === undefined ||
      (spec.type === 'object' &&
        spec.entries.some((entry) => entry.type === 'spread' || entry.key === 'public'))
    );
  });
}

/** SVC210: rate limit keys that come from a header, without a second limit that counts by address. */
function findChosenKeys(sources: Sources, report: ReportAt): void {
  const limits = sources.called(LIMITER).toArray();
  const isByAddress = limits.some(({ module, node }) => countsByAddress(node.args[0], module));
  if (!isByAddress) for (const { module, node } of limits) judgeKey(node.args[0], module, sources, report);
  // the option of a route replaces the limit of the first middleware, so the second one must count by address
  if (isByAddress && limits.length > 1) return;
  for (const { module, node: call } of sources.all('call'))
    if (sources.handlers.isRoute(call))
      judgeKey(entryOf(specOf({ call, module }), 'rateLimit'), module, sources, report);
}

/** Whether the options of a rate limit have no key, neither of their own nor in a rule. */
function countsByAddress(options: Node | undefined, module: SourceModule): boolean {
  if (options === undefined) return true;
  const given = constantOf(options, module)?.node;
  return (
    given?.type === 'object' &&
    !partsIn(given).some((part) => part.type === 'spread' || (part.type === 'entry' && part.key === 'key'))
  );
}

/** SVC216: GET routes that change data which the request chooses, or that end the session. */
function findChangingGets(site: Site, report: ReportAt): void {
  const { route, meaning } = site;
  if (route === undefined || !methodsOf(route.call).includes('get')) return;
  const [given] = route.call.args;
  const node = given && literal(given, route.module);
  const path = node?.type === 'text' ? node.value : '';
  const text = statementIn(site);
  // without a value, a condition chooses rows by themselves, such as expired ones
  const isChosen = !/\bwhere\b(?![^]*[?$:@])/i.test(text);
  const change =
    meaning === 'svc.Session.destroy'
      ? 'ends the session'
      : CHANGES_ROWS.test(text) && isChosen && !LINK.test(path) && !setsTime(site, text)
        ? `${/^\s*delete/i.test(text) ? 'deletes' : 'changes'} rows`
        : undefined;
  if (change === undefined || (methodsOf(route.call).length > 1 && testsMethod(route.call))) return;
  report(
    route,
    `GET must not change data, but ${path === '' ? 'this route' : `GET ${path}`} does (${change}): any page can make a browser send the request, for example with an image`,
  );
}

/** Whether the first column that a statement changes gets the present time. */
function setsTime({ call, value }: Site, text: string): boolean {
  if (/\bset\s+\S+\s*=\s*(?:now\s*\(|current_timestamp\b)/i.test(text)) return true;
  const [first] = innerOf(value(call.args[1]) ?? KNOWN);
  return /\bset\s+\S+\s*=\s*[?$]/i.test(text) && madeIn(first).some(({ by }) => isClock(by));
}

/** Whether the handler of several methods reads `method`, probably before it changes data. */
function testsMethod({ args }: Call): boolean {
  // a route has a path and a handler
  return partsIn(args.at(-1)!).some((node) => node.type === 'member' && node.property === 'method');
}

/** SVC217: logins that keep the session id. */
function watchLogins(report: ReportAt): Watch {
  const called = new Map<RouteCall, Map<string, RouteCall>>();
  return {
    onCall({ route, meaning, call, module }) {
      if (route === undefined || !/^svc\.(?:Session\.|checkPassword$)/.test(meaning)) return;
      const firsts = called.get(route) ?? new Map<string, RouteCall>();
      if (!firsts.has(meaning)) called.set(route, firsts.set(meaning, { call, module }));
    },
    finish() {
      for (const [{ call }, firsts] of called) {
        const [path] = call.args;
        const isLogin = firsts.has('svc.checkPassword') || (path?.type === 'text' && LOGIN.test(path.value));
        if (!isLogin || !methodsOf(call).includes('post')) continue;
        const set = firsts.get('svc.Session.set');
        if (set !== undefined && !firsts.has('svc.Session.regenerate'))
          report(
            set,
            'the login keeps the earlier session id, so an attacker who planted that id in the browser is logged in, too',
          );
      }
    },
  };
}

/**
 * SVC305: exception handlers that respond to programs and declare no response. The OpenAPI document then promises
 * nothing for the errors of this class, nor for `4XX` and `5XX`, on every route.
 */
function findHandlers(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const [error, given] = call.args;
    if (calledName(call) !== 'exceptionHandler' || error === undefined || given === undefined) continue;
    const handler = sources.handlers.resolve(given, module);
    if (handler === undefined) continue;
    const home = sources.handlers.homeOf(handler);
    const passesOn = partsOf(handler).some((part) => part.type === 'leave' && part.how === 'throw');
    const statuses = isProblem(handler, home) ? [] : jsonOf(handler, home, sources);
    const className = pathOf(error);
    if (statuses.length === 0 && (!passesOn || className === undefined)) continue;
    // refusals that the handler passes on are problem details, which its own responses do not describe
    if (statuses.length > 0 && passesOn && /^svc[./]/.test(meaningOf(error, module) ?? '')) continue;
    const name = className ?? 'Refused';
    report(
      { module, call },
      'the OpenAPI document does not describe the responses of this exception handler, because it declares none: for clients, errors of all routes may have any content',
      {
        severity: 'warning',
        remedy:
          statuses.length === 0
            ? `Declare that programs get problem details, because the handler throws its errors again: app.exceptionHandler(${name}, { response: 'application/problem+json' }, (error) => …)`
            : `Declare the schema of the response: app.exceptionHandler(${name}, { response: ${schemasFor(statuses)} }, (error) => …)`,
      },
    );
  }
}

function schemasFor(statuses: readonly (number | undefined)[]): string {
  const known = [...new Set(statuses)].sort();
  return known.includes(undefined)
    ? 'Refusal'
    : `{ ${known.map((status) => `${status}: Refusal`).join(', ')} }`;
}

/** Problem details are the usual body of errors, so a handler that sends them needs no schema. */
function isProblem({ start, end }: Node, { source }: SourceModule): boolean {
  return /problem\+json/.test(source.slice(start, end));
}

/** Returns the status of each JSON response that a value is, or that a function returns; undefined for an unknown status. */
function jsonOf(
  node: Node | undefined,
  module: SourceModule,
  sources: Sources,
  depth = 0,
): readonly (number | undefined)[] {
  if (node === undefined || depth > 8) return [];
  const inside = (...nodes: readonly (Node | undefined)[]): readonly (number | undefined)[] =>
    nodes.flatMap((each) => jsonOf(each, module, sources, depth + 1));
  const withStatus = (body: Node | undefined, status: Node | undefined): readonly (number | undefined)[] =>
    inside(body).map((of) => (status === undefined ? of : numberOf(status, module)));
  switch (node.type) {
    case 'function':
      return inside(
        ...(node.isExpression
          ? node.body
          : partsOf(node).map((part) =>
              part.type === 'leave' && part.how === 'return' ? part.value : undefined,
            )),
      );
    case 'await':
      return inside(node.value);
    case 'choice':
      return inside(node.yes, node.no);
    case 'binary':
      return /^(?:\?\?|\|\||&&)$/.test(node.operator) ? inside(node.left, node.right) : [];
    case 'object':
      return [undefined];
    case 'list': // a response with its status, or a list
      return node.items.length === 2 ? withStatus(node.items[0], node.items[1]) : [undefined];
    case 'name':
    case 'member': {
      const constant = constantOf(node, module);
      return constant === undefined || constant.node === node || constant.node.type === 'function'
        ? []
        : jsonOf(constant.node, constant.module, sources, depth + 1);
    }
    case 'call': {
      const [body, options] = node.args;
      const meaning = meaningOfCall(node, module);
      if (meaning === 'svc.reply') return withStatus(body, options);
      if (MAKES_JSON.test(meaning) || (MAKES_REPLY.test(meaning) && isWritten(body)))
        return isProblem(node, module) ? [] : [numberOf(entryOf(options, 'status'), module)];
      const fn = sources.handlers.resolve(node.callee, module);
      if (fn !== undefined) return jsonOf(fn, sources.handlers.homeOf(fn), sources, depth + 1);
      // new Response(…).setCookie(…)
      return node.callee.type === 'member' ? inside(node.callee.object) : [];
    }
    default:
      return [];
  }
}

const MAKES_JSON = /^(?:svc\.JSONResponse|Response\.json)$/;

function isWritten(body: Node | undefined): boolean {
  return body?.type === 'call' && pathOf(body.callee) === 'JSON.stringify';
}

/**
 * Returns the HTTP methods of a route in lower case, also those in the list of `app.route(path, ['GET',
 * 'POST'], …)`.
 */
export function methodsOf({ callee, args }: Call): readonly string[] {
  const list = args.find(({ type }) => type === 'list');
  if (callee.type !== 'member') return [];
  if (callee.property !== 'route' || list?.type !== 'list') return [callee.property ?? ''];
  return list.items.map((item) => (item.type === 'text' ? item.value.toLowerCase() : ''));
}

/** SVC210: rate limit keys that come from a header. Clients can set that header to any value. */
function judgeKey(options: Node | undefined, module: SourceModule, sources: Sources, report: ReportAt): void {
  const given = entryOf(options, 'key');
  const key = sources.handlers.resolve(given, module);
  if (key === undefined) return;
  const home = sources.handlers.homeOf(key);
  const credentials = credentialsIn(sources);
  walk(key, (node) => {
    if (node.type !== 'member' || !/(?:^|\.)headers$/.test(pathOf(node.object) ?? '')) return;
    const name = node.property ?? '';
    // the rate limit middleware itself reports addresses that proxies forward
    if (name === '' || credentials.has(name.toLowerCase()) || /^x-(?:forwarded-for|real-ip)$/i.test(name))
      return;
    report({ module: home, node }, chosenKey(name), CHOSEN_KEY);
  });
}

const LIMITER = /^svc\.RateLimitMiddleware$/;

/** A middleware that limits requests. */
interface Limiter {
  readonly perMinute: number;
  /** The routes to which it belongs; undefined for a middleware of the application or of a router. */
  readonly routes: ReadonlySet<Call> | undefined;
}

export function limitersIn(sources: Sources): readonly Limiter[] {
  return sources
    .called(LIMITER)
    .map(({ node }) => ({
      perMinute: node.args[0] === undefined ? 0 : (numberOf(entryOf(node.args[0], 'perMinute')) ?? 0),
      routes: routesWith(node, sources),
    }))
    .toArray();
}

/**
 * Returns the routes whose option `use` receives a value, also through lists, constants and functions of the project.
 * Undefined if it may go anywhere else.
 */
function routesWith(value: Node, sources: Sources, depth = 0): ReadonlySet<Call> | undefined {
  const { parent } = value;
  if (parent === undefined || depth > 8) return undefined;
  if (/^(?:list|spread|choice|binary)$/.test(parent.type)) return routesWith(parent, sources, depth + 1);
  if (parent.type === 'entry' && parent.key === 'use') {
    const route = nodesAround(parent).find((node) => node.type === 'call');
    return route?.type === 'call' && sources.handlers.isRoute(route) ? new Set([route]) : undefined;
  }
  const fn =
    parent.type === 'leave' && parent.how === 'return'
      ? functionAround(parent)
      : parent.type === 'function' && parent.isExpression
        ? parent
        : undefined;
  const uses =
    fn !== undefined
      ? sources
          .all('call')
          .filter(({ module, node }) => sources.handlers.resolve(node.callee, module) === fn)
          .map(({ node }): Node => node)
          .toArray()
      : parent.type === 'declarator' && parent.target.type === 'name'
        ? sources.usesOf(parent).map(({ node }) => node)
        : [];
  const found = uses.map((use) => routesWith(use, sources, depth + 1));
  return found.length === 0 || found.includes(undefined)
    ? undefined
    : new Set(found.flatMap((routes) => [...(routes ?? [])]));
}

/** Returns the requests per minute that a client may send to the route of a handler. */
export function limitOfRoute({ route }: Run, limiters: readonly Limiter[]): number {
  const own = route === undefined ? undefined : entryOf(specOf(route), 'rateLimit');
  if (isRaw(own, 'false')) return Infinity;
  if (own !== undefined) return own.type === 'object' ? (numberOf(entryOf(own, 'perMinute')) ?? 0) : 0;
  const applied = limiters.filter(({ routes }) => routes === undefined || (route && routes.has(route.call)));
  return Math.min(...applied.map(({ perMinute }) => perMinute));
}

/** Functions whose errors name files, programs and servers. */
const ASKS_SYSTEM = /^(?:fs(?:\/promises|\.promises)?|child_process|net|tls|dns(?:\/promises)?)\./;

/** Returns the ids of the errors to which those of a call belong: of each `catch` that handles them, if their texts are not for clients. */
function errorsOf({ call, meaning, module, stack }: Site): readonly string[] {
  if (methodOf(call) === 'exceptionHandler') return [errorId({ node: call, module })];
  if (![OUR_DATABASE, OTHER_DATABASE, ASKS_SYSTEM].some((each) => each.test(meaning))) return [];
  const ids: string[] = [];
  for (const at of [{ call, module }, ...stack.toReversed()])
    for (const around of at.call === undefined ? [] : nodesAround(at.call)) {
      const handler = at.call && handlerIn(around, at.call);
      if (handler === undefined) continue;
      ids.push(errorId({ node: handler.node, module: at.module }));
      if (!throwsAgain(handler)) return ids;
    }
  return ids;
}

/** Code that receives an error: a `catch` block, or the call of `catch()`, and the parameter of its function. */
interface ErrorHandler {
  readonly node: Node;
  readonly code: Node;
  readonly param: Node | undefined;
}

/** Returns the code that receives the errors of a call in a node. */
function handlerIn(around: Node, call: Node): ErrorHandler | undefined {
  if (around.type === 'try')
    return around.handler !== undefined && isWithin(call, around.block)
      ? { node: around.handler, code: around.handler, param: around.param }
      : undefined;
  if (around.type !== 'call' || !isCaught(around) || around.callee.type !== 'member') return undefined;
  const code = around.args.at(-1);
  return code !== undefined && isWithin(call, around.callee.object)
    ? { node: around, code, param: code.type === 'function' ? code.params[0] : undefined }
    : undefined;
}

function throwsAgain({ code, param }: ErrorHandler): boolean {
  const name = param && pathOf(param);
  return (
    name !== undefined &&
    partsOf(code).some(
      (part) =>
        part.type === 'leave' &&
        part.how === 'throw' &&
        part.value !== undefined &&
        pathOf(part.value) === name,
    )
  );
}

/** Errors whose text a client receives. */
const REFUSES =
  /^svc\.(?:HTTPException|BadRequest|Unauthorized|Forbidden|NotFound|Conflict|UnprocessableContent)$/;

/** SVC626: messages of errors of any class in responses. */
function watchMessages(report: ReportAt): Watch {
  /** Ids of errors of databases and files. */
  const errors = new Set<string>();
  const replies: (readonly [Value | undefined, Spot | undefined])[] = [];
  const judge = (value: Value | undefined, reply: Spot | undefined, depth = 0): void => {
    if (value === undefined || depth > 4) return;
    const message = madeIn(withoutMembers(value)).find(({ by }) =>
      errors.has(by.replace(/^Error\.message of /, '')),
    );
    if (message !== undefined && ![message, reply ?? message].some(isForSome))
      report(
        reply ?? message,
        'the response shows clients the message of every error, also those of the database and of files, with names of tables and paths',
        {
          severity: 'warning',
          remedy:
            'Send a fixed text, and the message of one class only: error instanceof Refused ? error.message : "internal error"',
        },
      );
    for (const inner of innerOf(value)) judge(inner, reply, depth + 1);
  };
  return {
    onCall(site) {
      const { call, meaning, module, route, value } = site;
      for (const id of errorsOf(site)) errors.add(id);
      const [body = call] = call.args;
      if (MAKES_REPLY.test(meaning) && !declaresResponse(route))
        replies.push([value(body), { node: body, module }]);
      if (REFUSES.test(meaning))
        for (const node of call.args) replies.push([{ texts: value(node)?.texts ?? [] }, { node, module }]);
    },
    onReply({ value, route }) {
      if (!declaresResponse(route)) replies.push([value, undefined]);
    },
    finish: () => replies.forEach(([value, reply]) => judge(value, reply)),
  };
}

/** Whether a text depends on a condition about the environment, or about the error to which it belongs. */
function isForSome({ node, module }: Spot): boolean {
  return isUnderCondition(node, module) || dependsOn(node, module, /status|expose|operational/i);
}

/** Returns the header fields with credentials, also those in which a program takes API keys. */
function credentialsIn(sources: Sources): ReadonlySet<string> {
  const own = sources.called(/^svc\.APIKeyAuth$/).flatMap(({ module, node }) => {
    const header = entryOf(node.args[0], 'header');
    const name = literal(header, module);
    return name?.type === 'text' ? [name.value.toLowerCase()] : [];
  });
  return CREDENTIALS.union(new Set(own));
}
