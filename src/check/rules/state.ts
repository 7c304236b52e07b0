/**
 * Rules about data that outlives its request: in module variables, in shared caches, in Redis, and whole bodies that are stored
 * (SVC631 … SVC633, SVC642, SVC658).
 */
import { literal } from '../reader/constants.ts';
import { boundIn } from '../reader/modules.ts';
import {
  calledName,
  entryOf,
  functionAround,
  isWithin,
  methodOf,
  objectOf,
  partsIn,
  pathOf,
} from '../reader/nodes.ts';
import { callsIn } from '../sources.ts';
import { isOfPackage } from '../values/calls.ts';
import { hasDeclaredBody } from '../values/functions.ts';
import { isOfPrincipal } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { clientPart, isStored, literalOf } from '../values/text.ts';
import { KNOWN, clientIn, givenOf, madeIn, textValue } from '../values/value.ts';
import { isToken } from './races.ts';
import { methodsOf } from './routes.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Assign, Fn, Member, Node, NodeOf } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Kept, Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Rules about state, sorted by id. */
export const STATE_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC631',
    severity: 'warning',
    cwe: [488],
    why: 'Requests run at the same time and share the variables of a module, so a client can see data of another client',
    remedy: 'Keep the value in a local variable of the handler, in req.state or in the session',
    wrong: 'let current; … current = me;',
    right: 'const current = me;',
    watch: (report, sources) => ({ onAssign: (kept) => findKeptRequests(kept, sources, report) }),
  },
  {
    id: 'SVC632',
    severity: 'error',
    cwe: [524],
    why: 'A cache finds a result by its key only. If a result depends on more than the key, clients receive results of other clients',
    remedy:
      'Add everything that the result depends on to the key: cached(load, { key: (path, user) => `${user} ${path}` })',
    wrong: 'cached(load, { key: (path) => path })',
    right: 'cached(load, { key: (path, user) => `${user} ${path}` })',
    watch: watchShared,
  },
  {
    id: 'SVC633',
    severity: 'warning',
    cwe: [915],
    sources: ['OWASP Cheat Sheet: Mass Assignment'],
    why: 'A request body may contain any field. Code that copies the whole body also sets fields that clients must not set',
    remedy: 'Declare a schema of the body, such as body: Rename, and copy its fields by name',
    wrong: 'Object.assign(user, await req.json())',
    right: 'user.name = body.name',
    watch: watchMerged,
  },
  { id: 'SVC642', watch: watchValues },
  { id: 'SVC658', watch: watchLocks },
];

/**
 * Names of objects with settings. Only administrators change settings, and they may usually change all
 * members.
 */
const SETTINGS = /(?:settings?|config\w*|conf|preferences|prefs)(?:\.|$)/i;

/** Variables that are already reported for a function, so that each is reported only once. */
const reported = new WeakMap<Fn, Set<Node>>();

/** Whether a variable is not yet reported for this function. Marks it as reported. */
function isFirst(fn: Fn, variable: Node): boolean {
  const known = reported.get(fn) ?? new Set();
  reported.set(fn, known);
  return known.size < known.add(variable).size;
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
  const uses =
    variable === undefined
      ? usesOfField(assign.target, sources)
      : sources.usesOf(variable, name).map(({ node }) => node);
  const isRead =
    variable?.parent?.parent?.type === 'export' || uses.some((node) => functionAround(node) !== fn);
  // a request body may change shared state on purpose
  if (isRead && /^(?:body|form|json|text)\b/.test(value.what)) return;
  if (isUsedAtOnce(uses) || !isFirst(fn, variable ?? assign)) return;
  report(
    { module, node: assign },
    `all requests share the ${isField ? 'field' : 'variable'} "${path}", which keeps ${value.what} of one request: requests of other clients see or overwrite the value`,
  );
}

/** Returns all members of the name of a field, of any object. */
function usesOfField(target: Node, sources: Sources): Node[] {
  const { property } = target as Member; // pathOf() gave `this.name`, so the target is a member
  return [...sources.all('member')].map(({ node }) => node).filter((node) => node.property === property);
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
  return partsIn(fn).some(({ type, start }) => type === 'await' && start > from && start < to);
}

/** Names of parameters that do not affect the result of a function, such as `db` and `logger`. */
const NO_PART = /^(?:_|signal|db|tx|database|log|logger|clock|cache|app|fetch)/i;

/** SVC632: data of one client in a cache whose key does not identify the client. */
function watchShared(report: ReportAt, sources: Sources): Watch {
  const cached: CachedCall[] = [];
  const sent: Sending[] = [];
  return {
    onCall(site) {
      findSharedEntries(site, report);
      if (site.meaning !== 'svc.cached') return;
      const key = entryOf(site.call.args[1], 'key');
      cached.push({ site, key, text: site.run(key, ARGUMENTS) });
    },
    onStatement: (sending) => sent.push(sending),
    finish() {
      for (const call of cached) {
        judgeCached(call, sources, report);
        findKept(call.site, sent, sources, report);
      }
    },
  };
}

/** Seconds after which a change that the cache does not notice is a mistake. */
const LONG = 600;

/** SVC632: a change of rows that a cached function has read, while nothing removes its results. */
function findKept(site: Site, sent: readonly Sending[], sources: Sources, report: ReportAt): void {
  const { call, module, value } = site;
  const [load, options] = call.args;
  const fn = load === undefined ? undefined : sources.handlers.resolve(load, module);
  const seconds = Number(constantIn(value(options)?.members?.get('ttlSeconds'))?.replaceAll('_', ''));
  const { parent } = call;
  const name =
    parent?.type === 'entry'
      ? parent.key
      : parent?.type === 'declarator' && parent.target.type === 'name'
        ? parent.target.name
        : undefined;
  if (fn === undefined || name === undefined || !(seconds > LONG)) return;
  const isRemoved = sources.all('call').some(
    ({ node }) =>
      /^(?:delete|clear)$/.test(methodOf(node)) &&
      pathOf(objectOf(node) ?? node)
        ?.split('.')
        .at(-1) === name,
  );
  if (isRemoved) return;
  const calls = new Set(callsIn(fn, module, sources).map((each) => each.call));
  const tables = new Set(sent.filter((each) => calls.has(each.call)).flatMap((each) => each.tables));
  for (const change of sent)
    if (change.isWrite && change.handler !== undefined && tables.has(change.target ?? ''))
      report(
        change.nodeAt(undefined),
        `the results of "${name}" stay in the cache for ${seconds} s although this statement changes the table "${change.target}", because nothing removes them`,
        { severity: 'warning', remedy: `Remove the result after the change: await ${name}.delete(id)` },
      );
}

/** A call of `cached()`, with its option `key` and the text that this function makes of {@link ARGUMENTS}. */
interface CachedCall {
  readonly site: Site;
  readonly key: Node | undefined;
  readonly text: Value | undefined;
}

/** Arguments that a key is asked for: each is a text of its own. */
const ARGUMENTS: readonly Value[] = Array.from({ length: 8 }, (_, index) =>
  textValue(clientPart(`argument ${index}`, { what: `argument ${index}`, input: 'argument' })),
);

/** Whether a key contains an argument; undefined if a part of the key is not known, or tests may choose its words. */
function holds({ texts }: Value = KNOWN, index: number): boolean | undefined {
  const parts = texts.flat();
  if (parts.some((part) => part.kind === 'client' && part.origin.what === `argument ${index}`)) return true;
  const words = new Set(texts.map((text) => literalOf(text, '')));
  return words.size === 1 && parts.every(({ kind }) => kind !== 'own') ? false : undefined;
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
    { module, call },
    `the cached value depends on ${missing}, which is not part of the key, so clients receive values of other clients`,
  );
}

function judgeCached({ site, key, text }: CachedCall, sources: Sources, report: ReportAt): void {
  const { call, module } = site;
  const fn = call.args[0] === undefined ? undefined : sources.handlers.resolve(call.args[0], module);
  if (fn === undefined) return;
  const keyed = key && sources.handlers.resolve(key, module);
  if (key !== undefined && keyed !== undefined) {
    const missing = fn.params.findIndex((param, index) => {
      const names = boundIn(param).map(({ local }) => local);
      if (
        names.length === 0 ||
        names.every((name) => NO_PART.test(name)) ||
        !names.some((name) => uses(fn, name))
      )
        return false;
      const rest = keyed.params.find(({ type }) => type === 'spread');
      const own = keyed.params[index] ?? rest;
      return !(holds(text, index) ?? (own && boundIn(own).some(({ local }) => uses(keyed, local))) ?? false);
    });
    const name = missing === -1 ? undefined : boundIn(fn.params[missing]!)[0]?.local;
    if (name !== undefined)
      report(
        { module, node: key },
        `the cache key does not contain "${name}", so clients receive values that were computed for other clients`,
      );
    return;
  }
  const outer = key === undefined ? takenOutside(fn, site) : undefined;
  if (outer !== undefined)
    report(
      { module, call },
      `the cached result depends on "${outer}", which is not part of the cache key, so clients receive values that were computed for other clients`,
    );
}

/** Returns the name of a parameter of an outer function that `fn` uses and that holds data of one client. */
function takenOutside(fn: Fn, { module, value }: Site): string | undefined {
  const found = namesIn(fn).find((node) => {
    const binding = module.lookup(node.name, node);
    const isOuter = binding?.kind === 'parameter' && !isWithin(binding.owner, fn);
    return isOuter && (givenOf(value(node)) !== undefined || madeIn(value(node)).some(isOfPrincipal));
  });
  return found?.name;
}

function uses(fn: Fn, name: string): boolean {
  return fn.body.some((part) => namesIn(part).some((node) => node.name === name));
}

function namesIn(within: Node): readonly NodeOf<'name'>[] {
  return partsIn(within).filter((part) => part.type === 'name');
}

/** Methods of packages for databases that store their arguments. */
const STORES =
  /^(?:mongodb|mongoose|monk|nedb|@seald-io\/nedb|knex|objection|sequelize|typeorm|@prisma\/client)\b[^]*\.(?:create|insert|insertOne|insertMany|update|updateOne|updateMany|findByIdAndUpdate|findOneAndUpdate|upsert|save|build|bulkCreate|set|merge|patch|values)$/;

/** SVC633: whole request bodies that are stored or merged into an object. */
function watchMerged(report: ReportAt): Watch {
  /** Handlers whose bodies a package may have validated. */
  const validated = new Set<Fn>();
  return {
    onCall(site) {
      const { call, meaning, handler, given } = site;
      const args = storedBy(site);
      const arg = args.find((each) => bodyIn(each, given) !== undefined);
      if (arg !== undefined && !(handler !== undefined && validated.has(handler)))
        report(
          { module: site.module, node: arg },
          `every member of ${bodyIn(arg, given)!} is copied, including members that clients must not set, such as an owner, a role or a price`,
        );
      if (args.length === 0 && handler !== undefined && isOfPackage(meaning))
        if (call.args.some((each) => bodyIn(each, given) !== undefined)) validated.add(handler);
    },
  };
}

/** Returns the arguments that a call stores: with a package, in a collection of the process, or in another object. */
function storedBy({ call, meaning, module, receiver, given }: Site): readonly Node[] {
  const [target, ...more] = call.args;
  if (meaning === 'Object.assign') {
    const isStored = target !== undefined && isKeptLater(target, module) && given(target) === undefined;
    return isStored && !SETTINGS.test(pathOf(target) ?? '') ? more : [];
  }
  const isKept = receiver?.lasting !== undefined && /^(?:set|add|push|unshift)$/.test(calledName(call) ?? '');
  return isKept || STORES.test(meaning) ? call.args : [];
}

/** Returns the name of a whole body of which an argument has every member, also ones that no type declares. */
function bodyIn(arg: Node, given: Site['given']): string | undefined {
  const spread = arg.type === 'object' ? arg.entries.filter((entry) => entry.type === 'spread') : [];
  return (
    [arg, ...spread.map(({ value }) => value)]
      .map((node) => given(node))
      // a middleware of an unknown route may have validated the body
      .find(
        (value) =>
          value?.part === 'body' &&
          value.route !== undefined &&
          (value.isOpen === true || !hasDeclaredBody(value.route)),
      )?.what
  );
}

/** Whether an object lives on: it is not made here, as `{}` or `new Form()`, or a call of which code awaits the end receives it. */
function isKeptLater(target: Node, module: SourceModule): boolean {
  const made = literal(target, module);
  if (made?.type !== 'object' && !(made?.type === 'call' && made.isNew)) return true;
  const around = functionAround(target);
  if (target.type !== 'name' || around === undefined) return false;
  return partsIn(around).some((part) => {
    const call = part.type === 'await' && part.value.type === 'call' ? part.value : undefined;
    const object = call?.callee.type === 'member' ? [call.callee.object] : [];
    return [...object, ...(call?.args ?? [])].some((node) => pathOf(node) === target.name);
  });
}

/** SVC642: a value in Redis that is computed from what an earlier command has read. */
function watchValues(report: ReportAt): Watch {
  const read = new Map<Node, string>();
  return {
    onCall(site) {
      const { call, module } = site;
      for (const { name, key, rest } of commandsOf(site)) {
        if (name === 'GET') read.set(call, key);
        const isComputed = rest.some((each) => madeIn(each).some(({ node }) => read.get(node) === key));
        if (name === 'SET' && isComputed)
          report(
            { node: call, module },
            'the value is computed from what an earlier command has read, so a value that another request sets between them is lost',
            { remedy: "Let Redis compute it in one command: ['INCRBY', key, n], or in a script" },
          );
      }
    },
  };
}

interface RedisCommand {
  readonly name: string | undefined;
  /** Text that is equal for equal keys. */
  readonly key: string;
  /** The values after the key. */
  readonly rest: readonly Value[];
}

/** Returns the commands that a call sends to Redis. */
function commandsOf({ call, module, meaning, value }: Site): readonly RedisCommand[] {
  if (!/^svc\/db\.[Rr]edis\.\w+$/.test(meaning)) return [];
  const list = value(call.args[0]);
  const isOfOne = constantIn(list?.members?.get('0')) !== undefined;
  return [...(isOfOne ? [list] : (list?.members?.values() ?? []))].map((command) => {
    const [name, of, ...rest] = command?.members?.values() ?? [];
    const written = of?.texts.map((text) => literalOf(text, '?')).join();
    const marks = madeIn(of).map(({ by }) => by);
    return { name: constantIn(name), key: [written === '?' ? module.file : written, ...marks].join(), rest };
  });
}

/** SVC658: a lock in Redis that ends by itself, and that is deleted without a comparison of its token. */
function watchLocks(report: ReportAt): Watch {
  const keys = { SET: new Set<string>(), GET: new Set<string>() };
  const deletions: { readonly key: string; readonly at: Spot }[] = [];
  return {
    onCall(site) {
      for (const { name, key, rest } of commandsOf(site)) {
        const isLock = isToken(rest[0]) && rest.some((each) => constantIn(each) === 'NX');
        if (name === 'DEL') deletions.push({ key, at: { node: site.call, module: site.module } });
        if (name === 'GET') keys.GET.add(key);
        if (name === 'SET' && isLock) keys.SET.add(key);
      }
    },
    finish() {
      for (const { key, at } of deletions)
        if (keys.SET.has(key) && !keys.GET.has(key))
          report(
            at,
            'the lock is deleted without a comparison of its token: work that outlives its lock releases that of the next holder',
            {
              remedy:
                "Compare and delete in one script: if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end",
            },
          );
    },
  };
}
