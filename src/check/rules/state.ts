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
import { SETTINGS, TOOL } from '../names.ts';
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
import type { Declarator, Fn, Member, Node, NodeOf } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
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
    watch: watchKept,
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
    watch: watchCached,
  },
  { id: 'SVC632', onCall: findSharedEntries },
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

/** SVC631: values of a request in a variable of the module, in a member of one, or in a field of its object. */
function watchKept(report: ReportAt, sources: Sources): Watch {
  /** Variables by the functions for which they are reported: each pair is reported only once. */
  const reported = new Map<Fn, Set<Node>>();
  return {
    onAssign({ assign, module, value, isLasting }) {
      const path = pathOf(assign.target);
      const fn = functionAround(assign);
      if (path === undefined || fn === undefined || assign.operator !== '=') return;
      const [name] = path.split('.') as [string]; // split() returns at least one part
      const variable = moduleVariable(name, assign.target, module);
      const isField = name === 'this' && isLasting;
      if (variable === undefined && !isField) return;
      const uses =
        variable === undefined
          ? usesOfField(assign.target, sources)
          : sources.usesOf(variable, name).map(({ node }) => node);
      const isExported = variable?.parent?.parent?.type === 'export';
      const isRead = isExported || uses.some((node) => functionAround(node) !== fn);
      // a request body may change shared state on purpose
      if (isRead && /^(?:body|form|json|text)\b/.test(value.what)) return;
      const known = reported.get(fn) ?? new Set();
      if (isUsedAtOnce(uses) || known.has(variable ?? assign)) return;
      reported.set(fn, known.add(variable ?? assign));
      report(
        { module, node: assign },
        `all requests share the ${isField ? 'field' : 'variable'} "${path}", which keeps ${value.what} of one request: requests of other clients see or overwrite the value`,
      );
    },
  };
}

/** Returns the variable of a module that a name stands for; undefined for any other name. */
function moduleVariable(name: string, at: Node, module: SourceModule): Declarator | undefined {
  const binding = module.lookup(name, at);
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return undefined;
  return functionAround(binding.node) === undefined ? binding.node : undefined;
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
  const isSet = (use: Node): boolean =>
    use.parent?.type === 'assign' && use.parent.target === use && use.parent.operator === '=';
  const sets = uses.filter(isSet);
  const reads = uses.filter((use) => !isSet(use));
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

/** A call of `cached()`, with its option `key` and the text that this function makes of {@link ARGUMENTS}. */
interface CachedCall {
  readonly site: Site;
  readonly key: Node | undefined;
  readonly keyText: Value | undefined;
}

/** A call of `cached()` with the function whose results it keeps. */
interface CachedFunction extends CachedCall {
  readonly load: Fn;
}

/** Arguments that a key is asked for: each is a text of its own. */
const ARGUMENTS: readonly Value[] = Array.from({ length: 8 }, (_, index) =>
  textValue(clientPart(`argument ${index}`, { what: `argument ${index}`, input: 'argument' })),
);

/** SVC632: calls of `cached()` whose key leaves out a part of the result, or whose results outlive a change of their rows. */
function watchCached(report: ReportAt, sources: Sources): Watch {
  const cached: CachedCall[] = [];
  const sent: Sending[] = [];
  return {
    onCall(site) {
      if (site.meaning !== 'svc.cached') return;
      const key = entryOf(site.call.args[1], 'key');
      cached.push({ site, key, keyText: site.run(key, ARGUMENTS) });
    },
    onStatement: (sending) => sent.push(sending),
    finish() {
      for (const each of cached) {
        const { call, module } = each.site;
        const load = sources.handlers.resolve(call.args[0], module);
        if (load === undefined) continue;
        findMissingParts({ ...each, load }, sources, report);
        findStaleResults({ ...each, load }, sent, sources, report);
      }
    },
  };
}

/** Reports an argument of a cached function that its key leaves out; without a key, data of one client. */
function findMissingParts(
  { site, load, key, keyText }: CachedFunction,
  sources: Sources,
  report: ReportAt,
): void {
  const { call, module } = site;
  if (key === undefined) {
    const outer = takenOutside(load, site);
    if (outer !== undefined)
      report(
        { module, call },
        `the cached result depends on "${outer}", which is not part of the cache key, so clients receive values that were computed for other clients`,
      );
    return;
  }
  const keyOf = sources.handlers.resolve(key, module);
  const missing =
    keyOf &&
    load.params.find(
      (param, index) =>
        affectsResult(param, load) && !(hasArgument(keyText, index) ?? usesParameter(keyOf, index)),
    );
  const [name] = missing === undefined ? [] : boundIn(missing);
  if (name !== undefined)
    report(
      { module, node: key },
      `the cache key does not contain "${name.local}", so clients receive values that were computed for other clients`,
    );
}

/** Whether a function uses a parameter on which its result depends. */
function affectsResult(param: Node, fn: Fn): boolean {
  const names = boundIn(param).map(({ local }) => local);
  return names.some((name) => !TOOL.test(name)) && names.some((name) => uses(fn, name));
}

/** Whether a key contains an argument; undefined if a part of the key is not known, or tests may choose its words. */
function hasArgument({ texts }: Value = KNOWN, index: number): boolean | undefined {
  const parts = texts.flat();
  if (parts.some((part) => part.kind === 'client' && part.origin.what === `argument ${index}`)) return true;
  const words = new Set(texts.map((text) => literalOf(text, '')));
  return words.size === 1 && parts.every(({ kind }) => kind !== 'own') ? false : undefined;
}

/** Whether a function uses the parameter that receives an argument. */
function usesParameter(fn: Fn, index: number): boolean {
  const param = fn.params[index] ?? fn.params.find(({ type }) => type === 'spread');
  return param !== undefined && boundIn(param).some(({ local }) => uses(fn, local));
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

/** A cached result that a change leaves as it is for more seconds is a mistake. */
const LONG_SECONDS = 600;

/** Reports changes of rows that a cached function has read, while nothing removes its results. */
function findStaleResults(
  { site: { call, module, value }, load }: CachedFunction,
  sent: readonly Sending[],
  sources: Sources,
  report: ReportAt,
): void {
  const { parent } = call;
  const seconds = Number(constantIn(value(call.args[1])?.members?.get('ttlSeconds'))?.replaceAll('_', ''));
  const name =
    parent?.type === 'entry' ? parent.key : parent?.type === 'declarator' ? pathOf(parent.target) : undefined;
  if (name === undefined || !(seconds > LONG_SECONDS)) return;
  const isRemoved = sources
    .all('call')
    .some(
      ({ node }) =>
        /^(?:delete|clear)$/.test(methodOf(node)) && pathOf(objectOf(node))?.split('.').at(-1) === name,
    );
  if (isRemoved) return;
  const calls = new Set(callsIn(load, module, sources).map((each) => each.call));
  const tables = new Set(sent.filter((each) => calls.has(each.call)).flatMap((each) => each.tables));
  for (const change of sent)
    if (change.isWrite && change.handler !== undefined && tables.has(change.target ?? ''))
      report(
        change.nodeAt(),
        `the results of "${name}" stay in the cache for ${seconds} s although this statement changes the table "${change.target}", because nothing removes them`,
        { severity: 'warning', remedy: `Remove the result after the change: await ${name}.delete(id)` },
      );
}

/** Caches of this package. A map that lives as long as the process is a cache, too. */
const CACHES = /^svc(?:\/db)?\.(?:MemoryCache|RedisCache|Cache)$/;
const PRINCIPAL_OF_REQUEST = 'the authenticated client';

/** SVC632: an entry that depends on the client, under a key that does not, in a cache that requests share. */
function findSharedEntries({ call, module, receiver, route, value }: Site, report: ReportAt): void {
  const isCache =
    CACHES.test(receiver?.type ?? '') || (receiver?.type === 'Map' && receiver.lasting !== undefined);
  // a route that writes may keep data under any key
  const isReading = route !== undefined && methodsOf(route.call).includes('get');
  const key = value(call.args[0]);
  if (calledName(call) !== 'set' || !isCache || !isReading || key === undefined) return;
  const inKey = originsOf(key);
  const missing = originsOf(value(call.args[1])).find((origin) =>
    origin === PRINCIPAL_OF_REQUEST ? !inKey.includes(origin) : inKey.length === 0,
  );
  if (missing !== undefined)
    report(
      { module, call },
      `the cached value depends on ${missing}, which is not part of the key, so clients receive values of other clients`,
    );
}

/** Returns what of a client a value depends on: the principal, and the first input. */
function originsOf(value: Value | undefined): readonly string[] {
  const part = clientIn(value);
  const inputs = part === undefined || isStored(part) ? [] : [part.origin.what];
  return madeIn(value).some(isOfPrincipal) ? [PRINCIPAL_OF_REQUEST, ...inputs] : inputs;
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
      const { call, meaning, module, handler, given } = site;
      const stored = storedBy(site);
      // a package that stores nothing may validate the body
      const node = (stored.length > 0 ? stored : call.args).find((arg) => bodyIn(arg, given) !== undefined);
      if (node === undefined || (handler !== undefined && validated.has(handler))) return;
      if (stored.length > 0)
        report(
          { module, node },
          `every member of ${bodyIn(node, given)!} is copied, including members that clients must not set, such as an owner, a role or a price`,
        );
      else if (handler !== undefined && isOfPackage(meaning)) validated.add(handler);
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
    if (part.type !== 'await' || part.value.type !== 'call') return false;
    return [objectOf(part.value), ...part.value.args].some((node) => pathOf(node) === target.name);
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
  /** Keys that commands lock, and keys whose value they read, to compare it. */
  const [locked, compared] = [new Set<string>(), new Set<string>()];
  const deletions: { readonly key: string; readonly at: Spot }[] = [];
  return {
    onCall(site) {
      for (const { name, key, rest } of commandsOf(site)) {
        const isLock = isToken(rest[0]) && rest.some((each) => constantIn(each) === 'NX');
        if (name === 'DEL') deletions.push({ key, at: { node: site.call, module: site.module } });
        if (name === 'GET') compared.add(key);
        if (name === 'SET' && isLock) locked.add(key);
      }
    },
    finish() {
      for (const { key, at } of deletions)
        if (locked.has(key) && !compared.has(key))
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
