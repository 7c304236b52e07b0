/**
 * Configuration in layers; a later one overrides earlier ones: built-in defaults, constructor arguments,
 * loadDict(), environment variables `SVC_*`.
 *
 * Names of settings:
 *   key in code     pageSize   baseUrl   oauth2Scopes        also accepted: page_size, SVC_PAGE_SIZE
 *   variable    SVC_PAGE_SIZE  SVC_BASE_URL  SVC_OAUTH2_SCOPES      digits stay with the word before them
 *
 * A value from the environment stays text until it is read. Its type comes from the default or from `cast`.
 * The environment is copied once, and overrides loadDict(), even if that is called later.
 */
import { SvcError } from './errors.ts';
import { declaredHere } from './findings.ts';
import { closest, shown } from './options.ts';
import type { Declared, Place } from './findings.ts';

/**
 * Environment of the application: setting `env`, variable `SVC_ENV`. It decides whether cookies have a
 * prefix, `/docs` is served, and the development provider may be used.
 */
export type Env = 'production' | 'development' | 'test';

/** Sources of a {@link Config}. They are copied. */
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
   * Called only if the value is a string; other values are returned unchanged. An exception, `undefined` and
   * NaN mean that the text is invalid. `Number` and `Boolean` parse strictly, like a number or boolean
   * default.
   */
  readonly cast: (text: string) => T;
  /** Description of valid values for the error: `'a comma-separated list of hosts'`. */
  readonly needs?: string | undefined;
}

/** Layer that has a key; `none` if no layer has it. */
type ConfigSource = 'default' | 'argument' | 'dict' | 'environment' | 'none';

/** A key that has been read, for `svc check`. */
interface ConfigRead {
  readonly key: string;
  readonly variable: string;
  /** Type to which a text is converted; `undefined` if the read has neither a default nor a cast. */
  readonly cast: 'number' | 'string' | 'boolean' | 'custom' | undefined;
  /** Default of the read; `undefined` if it has none. */
  readonly fallback: unknown;
  readonly source: ConfigSource;
}

/** A variable `SVC_*` that the program has not read, and the most similar known name. */
interface UnknownVariable {
  readonly variable: string;
  readonly suggestion: string | undefined;
}

const PREFIX = 'SVC_';
const ENVS: readonly Env[] = ['production', 'development', 'test'];
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
  /** Place that is recorded for every read while {@link together} runs; undefined otherwise. */
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
   * @throws SvcError `E_CONFIG_CAST`, which names the variable and never the value
   */
  get<T>(key: string, fallback: NoInfer<T>, options: CastOptions<T>): T;
  get<T>(key: string, fallback: undefined, options: CastOptions<T>): T | undefined;
  get(key: string, fallback: number): number;
  get(key: string, fallback: string): string;
  get(key: string, fallback: boolean): boolean;
  get(key: string, fallback?: unknown): unknown;
  get(key: string, fallback?: unknown, options?: Partial<CastOptions<unknown>>): unknown {
    const names = namesOf(key);
    const { variable } = names;
    const { value, source } = this.#find(variable);
    const kind = kindOf(fallback, options?.cast);
    this.#record(names, kind, fallback, source);
    if (value === undefined) return fallback;
    const result =
      typeof value === 'string' ? fromText(value, kind, fallback, options?.cast) : fromValue(value, kind);
    if (result === REFUSED)
      throw this.#refusal(variable, source, options?.needs ?? needed(kind, fallback), value);
    return result;
  }

  /** Runs a function whose reads are all recorded with one place, so that only one stack is captured. */
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
   * @throws SvcError `E_CONFIG_CAST` for any other word
   */
  get env(): Env {
    const text = this.get('env', 'production');
    const env = ENVS.find((candidate) => candidate === text);
    if (env !== undefined) return env;
    const { value, source } = this.#find(`${PREFIX}ENV`);
    throw this.#refusal(`${PREFIX}ENV`, source, ENVS.map((word) => `"${word}"`).join(' or '), value);
  }

  /**
   * Adds values above the constructor's and below the environment's. A later call overrides an earlier one.
   * Keys may be camelCase, snake_case or the variable's name. `undefined` counts as absent.
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
   * Every key read so far, by its camelCase name. If only a later read has a fallback or cast, the entry of
   * the earlier read gets it.
   */
  reads(): ReadonlyMap<string, ConfigRead> {
    return this.#reads;
  }

  /** Returns the place where a key of {@link reads} was first read. */
  placeOf(key: string): Place | undefined {
    return this.#places.get(key)?.place;
  }

  /** Returns the raw value of a setting, without recording a read. */
  peek(key: string): unknown {
    return this.#find(variableOf(key)).value;
  }

  /** Returns the layer that has a setting. */
  sourceOf(key: string): ConfigSource {
    return this.#find(variableOf(key)).source;
  }

  /**
   * Returns the variables `SVC_*` of the environment whose keys were neither read nor given in another layer.
   * Such a variable is usually misspelt.
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

  #record({ variable, key }: Names, cast: Kind, fallback: unknown, source: ConfigSource): void {
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
    return new SvcError('E_CONFIG_CAST', [
      source === 'environment' ? variable : settingOf(variable),
      needs,
      typeof value === 'string' ? shown(value) : `a value of type ${typeof value}`,
    ]);
  }
}

/**
 * Returns the variable of a key. `pageSize`, `page_size` and `SVC_PAGE_SIZE` give `SVC_PAGE_SIZE`; `baseURL`
 * gives `SVC_BASE_URL`.
 */
export function variableOf(key: string): string {
  return namesOf(key).variable;
}

function namesOf(key: string): Names {
  const words = /[a-z]/.test(key)
    ? key
        .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
        .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
        .toUpperCase()
    : key;
  const name = words.replace(/[^A-Z0-9]+/g, '_');
  const variable = name.startsWith(PREFIX) ? name : PREFIX + name;
  return { variable, key: keyOf(variable) };
}

/** Returns the camelCase key of a variable: `pageSize` for `SVC_PAGE_SIZE`. */
export function keyOf(variable: string): string {
  return variable
    .slice(PREFIX.length)
    .toLowerCase()
    .replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Returns the name of a setting in messages: its key and its variable. */
export function settingOf(variable: string): string {
  return `the setting "${keyOf(variable)}" (${variable})`;
}

/** Settings by variable name, so that all spellings of a key share one entry. */
type Layer = Map<string, unknown>;
/** Names of a setting: every spelling has one variable and one key. */
interface Names {
  readonly variable: string;
  readonly key: string;
}
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

function fromText(text: string, kind: Kind, fallback: unknown, cast: Cast): unknown {
  switch (kind) {
    case 'string':
      return text;
    case 'number':
      return decimal(text.trim());
    case 'boolean':
      return word(text.trim().toLowerCase());
    case 'custom':
      return attempt(cast!, text);
    default:
      return fallback === undefined || fallback === null ? text : REFUSED;
  }
}

/** Converts a value by its kind. Only strings are converted: values from code already have their type. */
function fromValue(value: unknown, kind: Kind): unknown {
  return kind === undefined || kind === 'custom' || (typeof value === kind && !Number.isNaN(value))
    ? value
    : REFUSED;
}

function decimal(text: string): unknown {
  const value = DECIMAL.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : REFUSED;
}

function word(text: string): unknown {
  return TRUE.has(text) ? true : FALSE.has(text) ? false : REFUSED;
}

function attempt(cast: (text: string) => unknown, text: string): unknown {
  try {
    const value = cast(text);
    return value === undefined || Number.isNaN(value) ? REFUSED : value;
  } catch {
    return REFUSED; // the error does not become the cause, because most errors quote the value, which may be a secret
  }
}

function needed(kind: Kind, fallback: unknown): string {
  switch (kind) {
    case 'number':
      return 'a finite decimal number';
    case 'boolean':
      return 'true, false, 1, 0, yes, no, on or off';
    case 'string':
      return 'a string';
    case 'custom':
      return 'text that its cast accepts';
    default:
      return `a cast that makes text ${Array.isArray(fallback) ? 'a list' : `a value of type ${typeof fallback}`}`;
  }
}
