/**
 * Captures → parameters of a path: plain objects, each made by a constructor that V8 knows.
 */
import type { PathParameter } from './path.ts';

/** Reads the raw captures of a path, in their order. */
export type ParamsReader = (captures: readonly string[]) => Readonly<Record<string, unknown>>;

const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});
/** By names and converters: as many as the templates of the program differ in. */
const READERS = new Map<string, ParamsReader>();
/** By the very list, which templates share. */
const READERS_OF = new WeakMap<readonly PathParameter[], ParamsReader>();

/**
 * The reader of these parameters. Routes whose parameters are called the same have one reader: with a constructor of its own
 * for each route, every look-up of 200 routes meets another hidden class (topic `router` of test/bench/table.ts).
 */
export function paramsReader(parameters: readonly PathParameter[]): ParamsReader {
  let reader = READERS_OF.get(parameters);
  if (reader === undefined) READERS_OF.set(parameters, (reader = readerByKey(parameters)));
  return reader;
}

function readerByKey(parameters: readonly PathParameter[]): ParamsReader {
  const key = parameters.map(({ name, converter }) => `${name}:${converter.name}`).join('/'); // names are identifiers
  let reader = READERS.get(key);
  if (reader === undefined) READERS.set(key, (reader = readerOf(parameters)));
  return reader;
}

/**
 * The name as V8 keeps the keys of objects. Cut out of a template it is another string of the same text, with which each store
 * takes the slow way, a tenth of a look-up with three parameters.
 */
function asKey(name: string): string {
  return Object.keys({ [name]: null })[0]!; // the one key
}

/**
 * A constructor gives its objects one hidden class; an object literal with a computed key cost four times as much, 93 ns
 * against 23 (routes `param` of test/bench/http.ts). Its prototype is Object's: these are plain objects to everybody.
 */
function readerOf(parameters: readonly PathParameter[]): ParamsReader {
  if (parameters.length === 0) return () => NO_PARAMS;
  const names = parameters.map((parameter) => asKey(parameter.name));
  const reads = parameters.map((parameter) => parameter.converter.read);
  const [name0, name1, name2] = names as [string, string, string];
  const [read0, read1, read2] = reads as [PathParameter['converter']['read'], PathParameter['converter']['read'], PathParameter['converter']['read']];
  function One(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
  }
  function Two(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
    this[name1] = read1(captures[1]!);
  }
  function Three(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
    this[name1] = read1(captures[1]!);
    this[name2] = read2(captures[2]!);
  }
  function More(this: Record<string, unknown>, captures: readonly string[]): void {
    for (let index = 0; index < names.length; index++) this[names[index]!] = reads[index]!(captures[index]!);
  }
  const Params = ([One, Two, Three][names.length - 1] ?? More) as unknown as new (captures: readonly string[]) => Record<string, unknown>; // functions used as constructors have no type of their own
  Params.prototype = Object.prototype;
  return (captures) => new Params(captures);
}
