/** Rules about commands of Redis: values that are read and set (SVC642), and locks that are deleted unseen (SVC658). */
import { constantIn } from '../values/tests.ts';
import { literalOf } from '../values/text.ts';
import { madeIn } from '../values/value.ts';
import { isToken } from './races.ts';
import type { Spot } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Searches for mistakes with Redis. */
export const REDIS_PARTS: readonly SourcePart[] = [
  { id: 'SVC642', watch: watchValues },
  { id: 'SVC658', watch: watchLocks },
];

/** SVC642: a value in Redis that is computed from what an earlier command has read. */
function watchValues(report: ReportAt): Watch {
  const read = new Map<Node, string>();
  return {
    onCall({ call, module, meaning, value }) {
      for (const { name, key, rest } of commandsOf({ call, module, meaning, value })) {
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
function commandsOf({
  call,
  module,
  meaning,
  value,
}: Pick<Site, 'call' | 'module' | 'meaning' | 'value'>): readonly RedisCommand[] {
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
