/**
 * Configuration in layers. Later layers override earlier ones: built-in defaults, constructor arguments,
 * loadDict(), environment variables `SVC_*`.
 *
 * Spellings of a setting:
 *   in code                 pageSize        baseUrl        oauth2Scopes
 *   environment variable    SVC_PAGE_SIZE   SVC_BASE_URL   SVC_OAUTH2_SCOPES
 *
 * Code may also write page_size or SVC_PAGE_SIZE. get() converts the text of an environment variable to the
 * type of the default, or with `cast`. Environment variables are copied once, and override even later calls
 * of loadDict().
 */
import { SvcError } from './errors.ts';
import { declaredHere } from './findings.ts';
import { closest, shown } from './options.ts';
import type { Declared, Place } from './findings.ts';

/**
 * Environment of the application, from the setting `env` (environment variable `SVC_ENV`). It decides whether
 * cookie names get the prefix `__Host-`, `/docs` is served, and DevProvider may be used.
 */
export type Env = 'production' | 'development' | 'test';

/** Values for the layers of a {@link Config}. The constructor copies them. */
interface ConfigOptions {
  /** The lowest layer: the framework's own defaults. */
  readonly defaults?: Readonly<Record<string, unknown>> | undefined;
  /** The `config` of `new Svc({ config })`. */
  readonly values?: Readonly<Record<string, unknown>> | undefined;
  /** The highest layer. Default `process.env`. Only names that begin with `SVC_` are kept. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Conversion of a setting's text to a value. */
export interface CastOptions<T> {
  /**
   * Called only if the value is a string; other values are returned unchanged. The text is invalid if `cast`
   * throws, or returns `undefined` or NaN. `Number` and `Boolean` accept the same texts as a setting with a
   * number or boolean default.
   */
  readonly cast: (text: string) => T;
  /** Description of valid texts for the error message: `'a comma-separated list of hosts'`. */
  readonly needs?: string | undefined;
}

/** Layer that supplies the value of a setting; `none` if no layer does. */
type ConfigSource = 'default' | 'argument' | 'dict' | 'environment' | 'none';

/** A setting that code has read with get(). `svc check` examines these settings. */
interface ConfigRead {
  readonly key: string;
  readonly variable: string;
  /** Type to which text is converted; `undefined` if get() was called with neither a default nor a cast. */
  readonly cast: 'number' | 'string' | 'boolean' | 'custom' | undefined;
  /** Default that was passed to get(); `undefined` if there was none. */
  readonly fallback: unknown;
  readonly source: ConfigSource;
}

/**
 * An environment variable `SVC_*` that the program has not read, and the known variable with the most similar
 * name.
 */
interface UnknownVariable {
  readonly variable: string;
  readonly suggestion: string | undefined;
}

const PREFIX = 'SVC_';
export const ENVS: readonly Env[] = ['production', 'development', 'test'];
const TRUE: ReadonlySet<string> = new Set(['true', '1', 'yes', 'on']);
const FALSE: ReadonlySet<string> = new Set(['false', '0', 'no', 'off']);
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/** The settings of one application. */
export class Config {
  readonly #defaults: Layer;
  readonly #values: Layer;
  readonly #dict: Layer = new Map();
  readonly #environment: Layer = new Map();
  readonly #reads = new Map<string, ConfigRead>();
  readonly #places = new Map<string, Declared>();
  /** Source location of the running call of {@link together}; undefined at other times. */
  #here: Declared | undefined;
  #isFrozen = false;

  constructor({ defaults = {}, values = {}, environment = process.env }: ConfigOptions = {}) {
    this.#defaults = layer(defaults);
    this.#values = layer(values);
    for (const [name, text] of Object.entries(environment)) {
      if (name.startsWith(PREFIX) && name.length > PREFIX.length && text !== undefined)
        this.#environment.set(name, text);
    }
  }

  /**
   * Returns a setting, or `fallback` if no layer has it. Without fallback and cast the value is returned
   * unchanged.
   *
   * Numbers are finite decimals (`20`, `-1`, `0.5`, `1e3`): no hexadecimal, no separators, no empty text.
   * Booleans are true/false, 1/0, yes/no, on/off in any case. A string is unchanged, also if empty.
   *
   * @throws SvcError `E_CONFIG_CAST` when the value does not have the type. The message never contains the
   *   value.
   */
  get<T>(key: string, fallback: NoInfer<T>, options: CastOptions<T>): T;
  get<T>(key: string, fallback: undefined, options: CastOptions<T>): T | undefined;
  get(key: string, fallback: number): number;
  get(key: string, fallback: string): string;
  get(key: string, fallback: boolean): boolean;
  get(key: string, fallback?: unknown): unknown;
  get(key: string, fallback?: unknown, options?: Partial<CastOptions<unknown>>): unknown {
    const variable = variableOf(key);
    const { value, source } = this.#find(variable);
    const kind = kindOf(fallback, options?.cast);
    this.#record(variable, kind, fallback, source);
    if (value === undefined) return fallback;
    const result =
      typeof value === 'string' ? fromText(value, kind, fallback, options?.cast) : fromValue(value, kind);
    if (result === REFUSED)
      throw this.#refusal(variable, source, options?.needs ?? needed(kind, fallback), value);
    return result;
  }

  /**
   * Runs a function that reads settings. Each setting is recorded with the place of this call in the source
   * code, so a stack is captured only once.
   */
  together<T>(read: () => T): T {
    this.#here = declaredHere();
    try {
      return read();
    } finally {
      this.#here = undefined;
    }
  }

  /**
   * Environment of the application. `production` by default.
   * @throws SvcError `E_CONFIG_CAST` for a value other than `production`, `development` and `test`
   */
  get env(): Env {
    const text = this.get('env', 'production');
    const env = ENVS.find((candidate) => candidate === text);
    if (env !== undefined) return env;
    const { value, source } = this.#find(`${PREFIX}ENV`);
    throw this.#refusal(`${PREFIX}ENV`, source, ENVS.map((word) => `"${word}"`).join(' or '), value);
  }

  /**
   * Adds values, which override the values of the constructor and of earlier calls, but not environment
   * variables. Keys may be camelCase, snake_case or the name of the environment variable. `undefined` counts
   * as absent.
   *
   * @throws SvcError `E_APP_FROZEN` once the application is compiled
   */
  loadDict(values: Readonly<Record<string, unknown>>): this {
    if (this.#isFrozen) throw new SvcError('E_APP_FROZEN', ['settings']);
    for (const [variable, value] of layer(values)) this.#dict.set(variable, value);
    return this;
  }

  /**
   * Makes later calls of loadDict() throw, because the application runs with the settings it was compiled
   * with.
   */
  freeze(): void {
    this.#isFrozen = true;
  }

  /**
   * Settings that code has read so far, by camelCase name. Each entry has the first fallback and the first
   * cast that a call of get() passed for the setting.
   */
  reads(): ReadonlyMap<string, ConfigRead> {
    return this.#reads;
  }

  /** Returns the place in the source code where a key of {@link reads} was first read. */
  placeOf(key: string): Place | undefined {
    return this.#places.get(key)?.place;
  }

  /** Returns the raw value of a setting, without recording a read. */
  peek(key: string): unknown {
    return this.#find(variableOf(key)).value;
  }

  /** Returns the layer that supplies the value of a setting. */
  sourceOf(key: string): ConfigSource {
    return this.#find(variableOf(key)).source;
  }

  /**
   * Returns the environment variables `SVC_*` that no code has read and that no other layer contains. Such a
   * variable is usually misspelt.
   */
  unknownVariables(): readonly UnknownVariable[] {
    const known = new Set([
      `${PREFIX}ENV`,
      ...this.#defaults.keys(),
      ...this.#values.keys(),
      ...this.#dict.keys(),
    ]);
    for (const { variable } of this.#reads.values()) known.add(variable);
    return [...this.#environment.keys()]
      .filter((variable) => !known.has(variable))
      .sort()
      .map((variable) => ({ variable, suggestion: closest(variable, known) }));
  }

  #find(variable: string): { readonly value: unknown; readonly source: ConfigSource } {
    let value = this.#environment.get(variable);
    if (value !== undefined) return { value, source: 'environment' };
    if ((value = this.#dict.get(variable)) !== undefined) return { value, source: 'dict' };
    if ((value = this.#values.get(variable)) !== undefined) return { value, source: 'argument' };
    if ((value = this.#defaults.get(variable)) !== undefined) return { value, source: 'default' };
    return { value: undefined, source: 'none' };
  }

  #record(variable: string, cast: Kind, fallback: unknown, source: ConfigSource): void {
    const key = keyOf(variable);
    const before = this.#reads.get(key);
    if (
      before !== undefined &&
      before.source === source &&
      (before.cast ?? cast) === before.cast &&
      (before.fallback ?? fallback) === before.fallback
    )
      return;
    if (before === undefined) this.#places.set(key, this.#here ?? declaredHere());
    this.#reads.set(key, {
      key,
      variable,
      cast: before?.cast ?? cast,
      fallback: before?.fallback ?? fallback,
      source,
    });
  }

  #refusal(variable: string, source: ConfigSource, needs: string, value: unknown): SvcError {
    const name = source === 'environment' ? variable : settingOf(variable);
    const found = typeof value === 'string' ? shown(value) : `a value of type ${typeof value}`;
    return new SvcError('E_CONFIG_CAST', [name, needs, found]);
  }
}

/**
 * Returns the environment variable of a key. `pageSize`, `page_size` and `SVC_PAGE_SIZE` give
 * `SVC_PAGE_SIZE`; `baseURL` gives `SVC_BASE_URL`.
 */
export function variableOf(key: string): string {
  const words = /[a-z]/.test(key)
    ? key
        .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
        .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
        .toUpperCase()
    : key;
  const name = words.replace(/[^A-Z0-9]+/g, '_');
  return name.startsWith(PREFIX) ? name : PREFIX + name;
}

/** Returns the camelCase key of an environment variable: `pageSize` for `SVC_PAGE_SIZE`. */
export function keyOf(variable: string): string {
  return variable
    .slice(PREFIX.length)
    .toLowerCase()
    .replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Returns the name of a setting in messages: `the setting "pageSize" (SVC_PAGE_SIZE)`. */
export function settingOf(variable: string): string {
  return `the setting "${keyOf(variable)}" (${variable})`;
}

/** Settings by the name of their environment variable, so that all spellings of a key share one entry. */
type Layer = Map<string, unknown>;
type Kind = ConfigRead['cast'];
type Cast = ((text: string) => unknown) | undefined;

const REFUSED: unique symbol = Symbol('refused');

function layer(values: Readonly<Record<string, unknown>>): Layer {
  const entries: Layer = new Map();
  for (const [key, value] of Object.entries(values)) {
    if (value !== undefined) entries.set(variableOf(key), value);
  }
  return entries;
}

function kindOf(fallback: unknown, cast: Cast): Kind {
  if (cast !== undefined)
    return cast === Number ? 'number' : cast === Boolean ? 'boolean' : cast === String ? 'string' : 'custom';
  const type = typeof fallback;
  return type === 'number' || type === 'string' || type === 'boolean' ? type : undefined;
}

/** Descriptions of valid texts, and how each becomes a value. */
const TEXTS = {
  string: { needs: 'a string', read: (text: string): unknown => text },
  number: { needs: 'a finite decimal number', read: decimal },
  boolean: { needs: 'true, false, 1, 0, yes, no, on or off', read: word },
} as const;

function fromText(text: string, kind: Kind, fallback: unknown, cast: Cast): unknown {
  if (kind === 'custom') return attempt(cast!, text);
  if (kind !== undefined) return TEXTS[kind].read(text);
  return fallback === undefined || fallback === null ? text : REFUSED;
}

/**
 * Checks a value that code has set, and that is not text. Returns the value if it has the expected type, or
 * else REFUSED. Does not convert the value.
 */
function fromValue(value: unknown, kind: Kind): unknown {
  return kind === undefined || kind === 'custom' || (typeof value === kind && !Number.isNaN(value))
    ? value
    : REFUSED;
}

function decimal(given: string): unknown {
  const text = given.trim();
  const value = DECIMAL.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : REFUSED;
}

function word(given: string): unknown {
  const text = given.trim().toLowerCase();
  return TRUE.has(text) ? true : FALSE.has(text) ? false : REFUSED;
}

function attempt(cast: (text: string) => unknown, text: string): unknown {
  try {
    const value = cast(text);
    return value === undefined || Number.isNaN(value) ? REFUSED : value;
  } catch {
    // the caught error is not kept as the cause: most such errors quote the value, which may be a secret
    return REFUSED;
  }
}

function needed(kind: Kind, fallback: unknown): string {
  if (kind === 'custom') return 'text that the function "cast" accepts';
  if (kind !== undefined) return TEXTS[kind].needs;
  return `the option "cast" to convert text to ${Array.isArray(fallback) ? 'a list' : `a value of type ${typeof fallback}`}`;
}

/** Whether the application runs in several processes, which do not share data in memory. */
export function isServedByMany(view: { config(key: string): unknown }): boolean {
  const workers = view.config('workers');
  return workers === 'auto' || Number(workers ?? 1) > 1;
}
