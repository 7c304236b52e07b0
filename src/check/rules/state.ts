/**
 * Rules about data that outlives its request: in module variables, in shared caches, and whole bodies that are stored
 * (SVC631 … SVC633).
 */
import { boundIn } from '../reader/modules.ts';
import { calledName, entryOf, functionAround, isWithin, pathOf, walk } from '../reader/nodes.ts';
import { literal } from '../reader/constants.ts';
import { hasDeclaredBody } from '../values/functions.ts';
import { meaningOfCall } from '../sources.ts';
import { isOfPrincipal } from '../values/marks.ts';
import { isStored } from '../values/text.ts';
import { clientIn, madeIn } from '../values/value.ts';
import { methodsOf } from './routes.ts';
import type { Given, Value } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Assign, Call, Fn, Member, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Kept } from '../values/evaluation.ts';
import type { Site } from '../values/calls.ts';

/** Rules about state, sorted by id. */
export const STATE_RULES: readonly SourceRule[] = [
  {
    id: 'SVC631',
    severity: 'warning',
    phase: 'source',
    cwe: [488],
    why: 'Requests run at the same time and share the variables of a module, so a client can see data of another client',
    remedy: 'Keep the value in a local variable of the handler, in req.state or in the session',
    wrong: 'let current; … current = me;',
    right: 'const current = me;',
    find: findKept,
    watch: watchKept,
  },
  {
    id: 'SVC632',
    severity: 'error',
    phase: 'source',
    cwe: [524],
    why: 'A cache finds a result by its key only. If a result depends on more than the key, clients receive results of other clients',
    remedy:
      'Add everything that the result depends on to the key: cached(load, { key: (path, user) => `${user} ${path}` })',
    wrong: 'cached(load, { key: (path) => path })',
    right: 'cached(load, { key: (path, user) => `${user} ${path}` })',
    find: findSharedCaches,
    onCall: findSharedEntries,
  },
  {
    id: 'SVC633',
    severity: 'warning',
    phase: 'source',
    cwe: [915],
    sources: ['OWASP Cheat Sheet: Mass Assignment'],
    why: 'A request body may contain any field. Code that copies the whole body also sets fields that clients must not set',
    remedy: 'Declare a schema of the body, such as body: Rename, and copy its fields by name',
    wrong: 'Object.assign(user, await req.json())',
    right: 'user.name = body.name',
    onCall: findMerged,
  },
];

function watchKept(report: ReportAt, sources: Sources): Watch {
  return { onAssign: (kept) => findKeptRequests(kept, sources, report) };
}

/**
 * Names of objects with settings. Only administrators change settings, and they may usually change all
 * members.
 */
const SETTINGS = /(?:settings?|config\w*|conf|preferences|prefs)(?:\.|$)/i;

/** Names of variables that usually hold data of one client. */
const PERSONAL =
  /^(?:me|user|currentUser|account|session|claims|principal|tenant|customer|profile|req|request|query|params|headers|cookies|token|userId|tenantId)$/;

/** Variables that are already reported for a function, so that each is reported only once. */
const reported = new WeakMap<Fn, Set<Node>>();

/** Whether a variable is not yet reported for this function. Marks it as reported. */
function isFirst(fn: Fn, variable: Node): boolean {
  const known = reported.get(fn) ?? new Set();
  reported.set(fn, known);
  return known.size < known.add(variable).size;
}

/** SVC631: code that assigns data of one client to a module variable. */
function findKept(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('assign')) {
    if (node.operator !== '=') continue;
    const path = pathOf(node.target);
    if (path === undefined) continue;
    const [name] = path.split('.') as [string];
    if (SETTINGS.test(name)) continue;
    const fn = functionAround(node);
    const binding = fn === undefined ? undefined : module.lookup(name, node.target);
    if (
      binding?.kind !== 'declared' ||
      binding.node.type !== 'declarator' ||
      functionAround(binding.node) !== undefined
    )
      continue;
    if (sources.reachedFrom(fn) === undefined) continue;
    if (isOnlyFirst(node) || isUsedAtOnce(usesOf(binding.node, name, sources))) continue;
    const given = personalIn(node.value, module, sources);
    // `fn` is defined, because a binding is looked up only inside a function
    if (given === undefined || !isFirst(fn!, binding.node)) continue;
    report(
      module,
      node,
      `all requests share the variable "${path}", but "${given}" belongs to one request: other clients may see the value`,
    );
  }
}

/** Whether code sets a variable only the first time: `if (!provider) provider = start(req)`. */
export function isOnlyFirst({ target, parent }: Assign): boolean {
  const path = pathOf(target);
  let at = parent;
  while (at?.type === 'statement' || at?.type === 'block') at = at.parent;
  if (at?.type !== 'if') return false;
  const { test } = at;
  const isUnset = test.type === 'unary' && test.operator === '!' && test.value !== undefined;
  return isUnset
    ? pathOf(test.value!) === path
    : test.type === 'binary' && /^===?$/.test(test.operator) && pathOf(test.left) === path;
}

/** SVC631: code that assigns a request value to a module variable, to a member of one, or to a field of its object. */
function findKeptRequests(
  { assign, module, value, isLasting }: Kept,
  sources: Sources,
  report: ReportAt,
): void {
  const path = pathOf(assign.target);
  const fn = functionAround(assign);
  if (path === undefined || fn === undefined || assign.operator !== '=') return;
  const [name] = path.split('.') as [string];
  const binding = module.lookup(name, assign.target);
  const variable =
    binding?.kind === 'declared' &&
    binding.node.type === 'declarator' &&
    functionAround(binding.node) === undefined
      ? binding.node
      : undefined;
  const isField = name === 'this' && isLasting;
  if (variable === undefined && !isField) return;
  const uses = variable === undefined ? usesOfField(assign.target, sources) : usesOf(variable, name, sources);
  const isRead =
    variable?.parent?.parent?.type === 'export' || uses.some((node) => functionAround(node) !== fn);
  // a request body may change shared state on purpose
  if (isRead && /^(?:body|form|json|text)\b/.test(value.what)) return;
  if (isUsedAtOnce(uses) || !isFirst(fn, variable ?? assign)) return;
  report(
    module,
    assign,
    `all requests share the ${isField ? 'field' : 'variable'} "${path}", which keeps ${value.what} of one request: requests of other clients see or overwrite the value`,
  );
}

/** Returns all members of the name of a field, of any object. */
function usesOfField(target: Node, sources: Sources): Node[] {
  const { property } = target as Member; // pathOf() gave `this.name`, so the target is a member
  return [...sources.all('member')].map(({ node }) => node).filter((node) => node.property === property);
}

/** Returns all uses of a variable except its declaration. */
function usesOf(declarator: Node, name: string, sources: Sources): Node[] {
  return [...sources.all('name')].flatMap(({ module, node }) => {
    if (node.name !== name || node.parent === declarator) return [];
    const binding = module.lookup(name, node);
    return binding?.kind === 'declared' && binding.node === declarator ? [node] : [];
  });
}

/**
 * Whether every function that reads the variable has set it just before, without `await` in between. The
 * variable then serves as a local one: no other request can change it before it is read.
 */
function isUsedAtOnce(uses: readonly Node[]): boolean {
  const isSet = (node: Node): boolean =>
    node.parent?.type === 'assign' && node.parent.target === node && node.parent.operator === '=';
  const [sets, reads] = [uses.filter(isSet), uses.filter((use) => !isSet(use))];
  return (
    reads.length > 0 &&
    reads.every((read) => {
      const fn = functionAround(read);
      return sets.some(
        (set) => functionAround(set) === fn && set.end < read.start && !waits(fn!, set.end, read.start),
      );
    })
  );
}

/** Whether a function awaits a promise between two positions. */
function waits(fn: Fn, from: number, to: number): boolean {
  let found = false;
  walk(fn, (node) => {
    if (node.type === 'await' && node.start > from && node.start < to) found = true;
    return !found && node.end > from && node.start < to;
  });
  return found;
}

/** Returns the name of a variable in `value` that, by its name, holds data of one client. */
function personalIn(value: Node, module: SourceModule, sources: Sources): string | undefined {
  let found: string | undefined;
  walk(value, (node) => {
    if (node.type !== 'name' || found !== undefined || !PERSONAL.test(node.name))
      return node.type !== 'function';
    if (node.parent?.type === 'entry' && node.parent.isShorthand === false && node.parent.value !== node)
      return true;
    // skips `providers(req)`, which may return a setting of the application
    if (node.parent?.type === 'call' && node.parent.callee !== node && /^req(?:uest)?$/.test(node.name))
      return true;
    if (node.parent?.type === 'member' && /^(?:json|text|form|body|method)$/.test(node.parent.property ?? ''))
      return true; // skips a request body, which may change shared state on purpose
    if (isOfClient(node.name, node, module, sources)) found = node.name;
    return true;
  });
  return found;
}

/**
 * Whether a variable holds data of one client. True for a parameter of a handler, for a parameter with a name
 * such as `req`, and for a constant that code computes from a request.
 */
function isOfClient(name: string, at: Node, module: SourceModule, sources: Sources): boolean {
  const binding = module.lookup(name, at);
  if (binding?.kind === 'parameter')
    return (
      /^(?:req|request|me|currentUser|principal|claims)$/.test(name) ||
      (binding.owner.type === 'function' && sources.handlers.isHandler(binding.owner))
    );
  if (binding?.kind !== 'declared' || functionAround(binding.node) === undefined) return false;
  const value = binding.node.type === 'declarator' ? binding.node.value : undefined;
  const text = value === undefined ? '' : module.source.slice(value.start, value.end);
  return /\b(?:req|request|ctx|context|session)\b/.test(text);
}

/** Names of parameters that do not affect the result of a function, such as `db` and `logger`. */
const NO_PART = /^(?:_|signal|db|tx|database|log|logger|clock|cache|app|fetch)/i;

/** SVC632: data of one client in a cache whose key does not identify the client. */
function findSharedCaches(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    if (meaningOfCall(call, module) === 'svc.cached') judgeCached(call, module, sources, report);
  }
}

/** Caches of this package, and maps that live as long as the process. */
const CACHES = /^svc(?:\/db)?\.(?:MemoryCache|RedisCache|Cache)$/;

/** SVC632: an entry that depends on the client, under a key that does not, in a cache that requests share. */
function findSharedEntries({ call, module, receiver, route, value }: Site, report: ReportAt): void {
  const [key, entry] = call.args.map((arg) => value(arg));
  const isCache =
    CACHES.test(receiver?.type ?? '') || (receiver?.type === 'Map' && receiver.lasting !== undefined);
  // a route that writes may keep data under any key
  const isReading = route !== undefined && methodsOf(route.call).includes('get');
  if (calledName(call) !== 'set' || !isCache || !isReading || key === undefined) return;
  const own = (each: Value | undefined): readonly string[] => {
    const part = clientIn(each);
    const inputs = part === undefined || isStored(part) ? [] : [part.origin.what];
    return [...(madeIn(each).some(isOfPrincipal) ? ['the authenticated client'] : []), ...inputs];
  };
  const missing = own(entry).find((what) => !own(key).includes(what));
  if (missing === undefined || (missing !== 'the authenticated client' && own(key).length > 0)) return;
  report(
    module,
    call,
    `the cached value depends on ${missing}, which is not part of the key, so clients receive values of other clients`,
  );
}

function judgeCached(call: Call, module: SourceModule, sources: Sources, report: ReportAt): void {
  const fn = call.args[0] === undefined ? undefined : sources.handlers.resolve(call.args[0], module);
  const key = entryOf(call.args[1], 'key');
  if (fn === undefined) return;
  if (key?.type === 'function') {
    const missing = fn.params.findIndex((param, index) => {
      const names = boundIn(param).map(({ local }) => local);
      if (
        names.length === 0 ||
        names.every((name) => NO_PART.test(name)) ||
        !names.some((name) => uses(fn, name))
      )
        return false;
      const own = key.params[index];
      return own === undefined || !boundIn(own).some(({ local }) => uses(key, local));
    });
    const name = missing === -1 ? undefined : boundIn(fn.params[missing]!)[0]?.local;
    if (name !== undefined)
      report(
        module,
        key,
        `the cache key does not contain "${name}", so clients receive values that were computed for other clients`,
      );
    return;
  }
  const outer = key === undefined ? personalOutside(fn, module) : undefined;
  if (outer !== undefined)
    report(
      module,
      call,
      `the cached result depends on "${outer}", which is not part of the cache key, so clients receive values that were computed for other clients`,
    );
}

/** Returns the name of a parameter of an outer function that `fn` uses and that holds data of one client. */
function personalOutside(fn: Fn, module: SourceModule): string | undefined {
  let found: string | undefined;
  walk(fn, (node) => {
    if (node.type !== 'name' || !PERSONAL.test(node.name) || node.parent?.type === 'entry') return true;
    const binding = module.lookup(node.name, node);
    if (binding?.kind !== 'parameter' || isWithin(binding.owner, fn)) return true;
    found ??= node.name;
    return true;
  });
  return found;
}

function uses(fn: Fn, name: string): boolean {
  let isUsed = false;
  for (const part of fn.body)
    walk(part, (node) => {
      if (node.type === 'name' && node.name === name) isUsed = true;
      return !isUsed;
    });
  return isUsed;
}

const STORES =
  /^(?:create|insert|insertOne|insertMany|update|updateOne|updateMany|findByIdAndUpdate|findOneAndUpdate|upsert|save|build|bulkCreate|set|merge|patch|values|assign)$/;

/** Names of objects whose methods store their arguments. */
const MODEL =
  /^(?:[A-Z]\w*[a-z]\w*|\w*(?:prisma|knex|[Dd]b|[Mm]odel|[Rr]epo(?:sitory)?|[Cc]ollection|[Tt]able)(?:\.\w+)?)$/;

/**
 * Names of objects that usually stand between handlers and the database, such as a service. Their methods may
 * store only some members of a body.
 */
const OWN_LAYER = /(?:store|service|manager|controller|api|client|provider|handler|logic|helper)s?$/i;

/** Matches code that validates a body or selects some of its members. */
const VALIDATES = /validat|sanitiz|whitelist|\b(?:Joi|z|yup)\.|\bpick\(|\.(?:safeParse|parseAsync)\(/i;

/** SVC633: whole request bodies that are stored or merged into an object. */
function findMerged({ call, module, receiver, given: valueOf }: Site, report: ReportAt): void {
  // ignores values of unknown routes, because a middleware of the route may have validated the body
  const given: Site['given'] = (node) => {
    const value = isPicked(node) ? undefined : valueOf(node);
    return value?.route === undefined ? undefined : value;
  };
  if (call.callee.type !== 'member') return;
  const isAssign = pathOf(call.callee) === 'Object.assign';
  const kept = keptBody(call, receiver, given);
  const arg =
    kept ?? (isAssign ? assignedBody(call, module, given) : storedBody(call, call.callee, module, given));
  if (arg === undefined) return;
  const around = functionAround(call) ?? call;
  if (VALIDATES.test(module.source.slice(around.start, call.start))) return;
  if (kept !== undefined)
    return report(
      module,
      kept,
      `every member of body is copied, including members that clients must not set, such as an owner, a role or a price`,
    );
  const what = wholeBody(arg, given) ?? mergedBody(arg, given) ?? 'body';
  report(
    module,
    arg,
    `every member of ${what} is copied, including members that clients must not set, such as an owner, a role or a price`,
  );
}

/** Whether a value is a whole body that may have members which no type declares. */
function isWholeBody(value: ReturnType<Site['given']>): value is Given {
  return value?.part === 'body' && (value.isOpen === true || !hasDeclaredBody(value.route));
}

/** Returns the argument with a whole body that a collection of the process keeps. */
function keptBody(call: Call, receiver: Value | undefined, given: Site['given']): Node | undefined {
  if (receiver?.lasting === undefined || !/^(?:set|add|push|unshift)$/.test(calledName(call) ?? ''))
    return undefined;
  return call.args.find((arg) => {
    const value = given(arg);
    return isWholeBody(value);
  });
}

/** Returns the argument of Object.assign() that is a whole body, if the target may be stored. */
function assignedBody({ args }: Call, module: SourceModule, given: Site['given']): Node | undefined {
  const [target, ...sources] = args;
  if (target === undefined || isNewObject(target, module) || given(target) !== undefined) return undefined;
  if (SETTINGS.test(pathOf(target) ?? '')) return undefined;
  return sources.find((arg) => {
    const value = given(arg);
    return isWholeBody(value);
  });
}

/** Returns the argument of a call that stores a whole body, such as `User.create(body)`. */
function storedBody(
  call: Call,
  callee: Member,
  module: SourceModule,
  given: Site['given'],
): Node | undefined {
  const name = callee.property ?? '';
  const isStore = STORES.test(name);
  if (!isStore && !/^(?:push|put|replace\w*)$/.test(name)) return undefined;
  if (/h(?:mac|ash)/i.test(module.source.slice(callee.start, callee.end))) return undefined;
  const names =
    pathOf(callee)
      ?.replace(/^this\./, '')
      .split('.')
      .slice(0, -1) ?? [];
  if (/^(?:headers|cookies|session|cache|map|res|response|reply)$/i.test(names.at(-1) ?? ''))
    return undefined;
  if (/^(?:set|save|update\w*|replace\w*|push|put)$/.test(name)) {
    const merged = call.args.find((arg) => mergedBody(arg, given) !== undefined);
    if (merged !== undefined) return merged;
  }
  const owner = names.join('.');
  // `set(key, value)` stores one value and merges nothing
  if (!isStore || owner === 'Object' || (name === 'set' && call.args.length > 1)) return undefined;
  // a method of the project, or an unknown function, may store only some members of the body
  if (isOfProject(callee, module) || OWN_LAYER.test(owner) || SETTINGS.test(owner)) return undefined;
  return call.args.find(
    (arg) =>
      (MODEL.test(owner) || (arg.type === 'object' && /^(?:insert|create)/.test(name))) &&
      wholeBody(arg, given) !== undefined,
  );
}

/**
 * Whether an object is new and the function does not store it: `{}` or `new Form()`. Such an object may serve
 * only to validate the body.
 */
function isNewObject(target: Node, module: SourceModule): boolean {
  const made = literal(target, module);
  if (made?.type !== 'object' && !(made?.type === 'call' && made.isNew)) return false;
  const around = functionAround(target);
  const code = module.source.slice(around?.start ?? 0, around?.end);
  return (
    target.type !== 'name' ||
    !new RegExp(
      `\\b${target.name.replaceAll('$', '\\$')}\\.save\\(|\\b(?:save|insert|create|persist)\\w*\\(\\s*${target.name.replaceAll('$', '\\$')}\\b`,
    ).test(code)
  );
}

/**
 * Whether the project declares the called method: `User.create` with `const User = { create(fields) { … } }`.
 */
function isOfProject({ object, property }: Member, module: SourceModule): boolean {
  const binding = object.type === 'name' ? module.lookup(object.name, object) : undefined;
  if (binding?.kind === 'module') return true;
  if (binding?.kind !== 'declared') return false;
  const { node } = binding;
  const value = node.type === 'declarator' ? node.value : node;
  if (value?.type === 'object') return property !== undefined && entryOf(value, property) !== undefined;
  const made = value?.type === 'call' && value.isNew ? literal(value.callee, binding.module) : value;
  return (
    made?.type === 'class' &&
    made.members.some((member) => member.type === 'entry' && member.key === property)
  );
}

/**
 * Whether a node is the result of a function that may leave out protected members: `stripProtected(body)`,
 * `pick(body, FIELDS)`.
 */
function isPicked(node: Node | undefined): boolean {
  const call = node?.type === 'await' ? node.value : node;
  return call?.type === 'call' && call.callee.type === 'name';
}

/** Returns the body that overwrites members of another object: `{ ...user, ...body }`. */
function mergedBody(arg: Node, given: Site['given']): string | undefined {
  if (arg.type !== 'object') return undefined;
  const spreads = arg.entries.filter((entry) => entry.type === 'spread');
  if (spreads.length < 2) return undefined;
  for (const { value } of spreads.slice(1)) {
    const found = given(value);
    if (isWholeBody(found)) return found.what;
  }
  return undefined;
}

function wholeBody(arg: Node, given: Site['given']): string | undefined {
  const direct = given(arg);
  if (arg.type !== 'object') return isWholeBody(direct) ? direct.what : undefined;
  for (const entry of arg.entries) {
    const value = entry.type === 'spread' ? given(entry.value) : undefined;
    if (isWholeBody(value)) return value.what;
  }
  return undefined;
}
