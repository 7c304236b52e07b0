/** Promises: which calls return one, and how code uses it without `await`. */
import { isAbsent, methodOf } from '../reader/nodes.ts';
import { innerOf } from './value.ts';
import type { Spot } from '../reader/modules.ts';
import type { Call } from '../reader/nodes.ts';
import type { Promised, Value } from './value.ts';

/**
 * How code uses a promise in place of its result: as a condition, as a value, or not at all. In `filter()` and
 * similar methods, the promise is the result of a callback that the method tests; in `forEach()` and timers it is dropped. `kept`
 * means a variable or member that lives as long as the process.
 */
export type PromiseUse = 'condition' | 'value' | 'dropped' | 'tested' | 'each' | 'timer' | 'kept';

/** A promise that code uses without `await`. The node has it as its value; for a callback, the node is the argument. */
export interface MisusedPromise extends Spot {
  readonly promise: Promised;
  readonly use: PromiseUse;
}

const OF_DATABASE =
  /^svc\/db\.(?:db|database|openDatabase|Database|Session|Transaction|transaction)(?:\([^)]*\))?\.(?:execute|executeMany|insertMany|fetchOne|fetchAll|fetchSets|fetchArrays|scalar|script|transaction|ping|backup|listen|close)$/;
const OURS =
  /^svc\/db\.(?:(?:R|r)edis\.(?:open|command|transaction|script|subscribe|publish|ping|close|get|set|del|incr|expire|hget|hset)|openDatabase|(?:Keyset|Offset)Pages\.fetch|Migrator\.(?:up|down|status|pending|repair)|(?:Database|Redis)RecordStore\.(?:get|set|add|replace|delete)|RedisCache\.(?:get|set|delete|clear))$|^svc\/oauth\.OAuthPlugin\.(?:revokeAll|listSessions|revokeSession|issue|providerToken|forgetProviderToken|listIdentities|logout|cleanUp)$|^svc\.(?:checkPassword|hashPassword|RateLimiter\.take|Svc\.(?:run|startup|shutdown|fetch|checkLive)|(?:Socket|WebSocketConnection)\.(?:drain|ping))$/;
const OF_NODE =
  /^fs(?:\/promises|\.promises)\.(?!constants|watch)\w+$|^fs\.openAsBlob$|^(?:dns\/promises|stream\/promises|timers\/promises)\.\w+(?:\.\w+)?$|^events\.once$|^fetch$|^(?:fetch|Response|Request)\.(?:json|text|bytes|blob|formData|arrayBuffer)$|^undici\.(?:fetch|request)$|^(?:crypto\.)?(?:webcrypto\.)?subtle\.\w+$/;
/** Methods of the request that return a promise. */
const OF_REQUEST = /^(?:json|text|form|formData|body|bytes|leadingFields)$/;

/** Whether a function of this package or of Node.js returns a promise. */
export function returnsPromise(meaning: string, receiver: Value | undefined, method: string): boolean {
  if (receiver?.source?.isRequest === true) return OF_REQUEST.test(method);
  return OF_DATABASE.test(meaning) || OURS.test(meaning) || OF_NODE.test(meaning);
}

/** Whether a promise of a known function never rejects. */
export function neverRejects(meaning: string): boolean {
  return (
    /^timers\/promises\./.test(meaning) || meaning === 'Promise.allSettled' || meaning === 'Promise.resolve'
  );
}

/** Returns the value without its promise: the value that `await` gives. */
export function awaited(value: Value): Value {
  if (value.promise === undefined) return value;
  const { promise: _promise, ...result } = value;
  return result;
}

/** Returns the promise in a list or object, at most two levels deep. */
export function promiseIn(value: Value | undefined, depth = 0): Promised | undefined {
  if (value === undefined || depth > 2 || value.of !== undefined) return undefined;
  if (value.promise !== undefined) return value.promise;
  for (const inner of innerOf(value)) {
    const found = promiseIn(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns a list with the results of its promises. */
export function settledItems({ promise: _promise, ...value }: Value): Value {
  const members = value.members && new Map([...value.members].map(([key, item]) => [key, awaited(item)]));
  return { ...value, members, items: value.items && awaited(value.items) };
}

/** Whether a chain of calls ends with a `catch()` that has a handler, or a `then()` with two functions. */
export function isCaught(call: Call): boolean {
  const method = methodOf(call);
  const handler = method === 'catch' ? call.args[0] : method === 'then' ? call.args[1] : undefined;
  return handler !== undefined && !isAbsent(handler);
}
