/**
 * Dependencies: declared as data in this file; planned when the application compiles, then resolved and
 * cleaned up for each request (both in di-plan.ts). Text inputs (query, headers, cookies) are compiled here.
 *
 * Two ways to declare one:
 *   Depends(source)        a function, generator, class, state key, or the result of provide()
 *   provide(spec, fn)      a function with inputs and dependencies of its own, validated and resolved before it runs
 *
 * Scopes:
 *   scope    resolved           cleaned up
 *   request  per request        after the response has been sent; a generator gets the error that ended the request early
 *   handler  per request        before the first byte: a commit that fails becomes the response
 *   app      once, at start-up  once, at shutdown
 *
 * A dependency must not need one of a shorter scope. If Depends() names no scope, the source decides: its own
 * scope; else `handler` if it needs a dependency of that scope; else `request`. A source is resolved once for
 * each request, unless `cache` is false.
 */
import { SvcError } from '../base/errors.ts';
import { bool, oneOf, readOptions, shown } from '../base/options.ts';
import { scopeOfSource, type Scope } from '../http/state.ts';
import { fieldsOf, isSchemaClass, planOf } from '../schema/schema.ts';
import type { BackgroundTasks } from './background.ts';
import type { Context, HttpRequest, SecurityRequirement } from '../http/contracts.ts';
import type { Result, SchemaClass, SchemaPlan } from '../schema/schema.ts';

export type { Scope } from '../http/state.ts';

/** A dependency source: a function of the request's context, or a class. */
export type DependencySource =
  ((context: Context) => unknown) | (new (context: Context) => unknown) | typeof BackgroundTasks;

/**
 * Type of a source's value: an instance of a class, the yielded value of a generator, or the result of a
 * promise.
 */
export type Provided<F> = F extends abstract new (...args: never[]) => infer I
  ? I
  : F extends (...args: never[]) => infer R
    ? R extends Generator<infer Y, unknown, unknown> | AsyncGenerator<infer Y, unknown, unknown>
      ? Y
      : Awaited<R>
    : never;

/** A dependency in a spec. Made by {@link Depends} only. */
export class Dependency<out T> {
  /** Not set at run time: carries the type of the value for the compiler. */
  declare readonly value?: T;
  /** @internal */
  readonly source: DependencySource;
  /** @internal */
  readonly isCached: boolean;
  /** Scope given to Depends(), if any. */
  readonly #scope: Scope | undefined;
  /** Private, so that TypeScript does not accept objects of another class as dependencies. */
  readonly #isDependency = true;

  /** @internal */
  constructor(source: DependencySource, isCached: boolean, scope: Scope | undefined) {
    this.source = source;
    this.isCached = isCached;
    this.#scope = scope;
  }

  /**
   * Scope of the value. Read it when the application compiles: a provided function may refer to later
   * declarations. @internal
   */
  get scope(): Scope {
    return this.#scopeWithin(new Set());
  }

  /** `seen`: the sources that lead to this one, to find cycles. */
  #scopeWithin(seen: Set<DependencySource>): Scope {
    const known = this.#scope ?? scopeOfSource(this.source);
    if (known !== undefined || seen.has(this.source)) return known ?? 'request';
    seen.add(this.source);
    const needsHandler = Object.values(readSource(this.source).spec).some(
      (need) => Dependency.is(need) && need.#scopeWithin(seen) === 'handler',
    );
    return needsHandler ? 'handler' : 'request';
  }

  /** Returns whether a value is a dependency. */
  static is(value: unknown): value is Dependency<unknown> {
    return typeof value === 'object' && value !== null && #isDependency in value;
  }
}

/** Options of {@link Depends}. */
export interface DependsOptions {
  /** Resolves the source once for each request, and shares the value. Default true. */
  readonly cache?: boolean | undefined;
  /**
   * Scope of the value. Default: the source's own scope (a transaction has `handler`); else `handler` if the
   * source needs a dependency of that scope; else `request`.
   */
  readonly scope?: Scope | undefined;
}

/**
 * Declares a dependency: the handler gets the value of `source`.
 * @throws SvcError `E_DEPENDS` for an invalid source
 */
export function Depends<F extends DependencySource>(
  source: F,
  options: DependsOptions = {},
): Dependency<Provided<F>> {
  if (typeof source !== 'function') throw new SvcError('E_DEPENDS', [shown(source)]);
  const { cache, scope } = readOptions('Depends', options, {
    cache: bool(true),
    scope: oneOf<Scope | ''>(['request', 'handler', 'app'], ''),
  });
  return new Dependency(source, cache, scope === '' ? undefined : scope);
}

/** Input fields by name, as `Field()` declares them, or a schema class. */
export type InputShape = object;
/** Type of the values that an {@link InputShape} describes. */
export type InputOf<S> = S extends SchemaClass<infer T> ? T : { readonly [K in keyof S]: S[K] };

/** Text inputs of a route or dependency: query, header fields and cookies, in addition to path and body. */
export interface TextInputs {
  readonly query?: InputShape | undefined;
  /** Header fields: `userAgent` reads `User-Agent`; an alias gives another field name. */
  readonly headers?: InputShape | undefined;
  readonly cookies?: InputShape | undefined;
}

/** Inputs and dependencies of a {@link provide}d function. Every key that is not an input is a dependency. */
export interface ProviderSpec extends TextInputs {
  /** Security requirement that the dependency enforces, for documents and checks. */
  readonly security?: SecurityRequirement | readonly SecurityRequirement[] | undefined;
  /**
   * Names of required secret settings, for example `['authSecret']`: an application that lacks one does not
   * start.
   */
  readonly secrets?: readonly string[] | undefined;
}
/** Members of every context. Dependencies of a provided function cannot have these names. */
export type ContextKey = 'req' | 'signal' | 'state' | 'params';
type ProviderKey = keyof ProviderSpec | ContextKey;

/** `S`, in which each key that is neither an input nor a dependency has an error text as its type. */
type CheckedProvider<S> = {
  readonly [K in keyof S]: K extends keyof ProviderSpec
    ? ProviderSpec[K]
    : K extends ContextKey
      ? `"${K}" is reserved: give the dependency another name`
      : S[K] extends Dependency<unknown>
        ? S[K]
        : `"${K & string}" is neither query, headers, cookies, security nor secrets, and no Depends(…)`;
};

/** Context of a provided function. */
export type ProviderContext<S> = Context & {
  readonly [K in keyof S & keyof TextInputs]: InputOf<NonNullable<S[K]>>;
} & { readonly [K in Exclude<keyof S, ProviderKey>]: S[K] extends Dependency<infer T> ? T : never };

const PROVIDERS = new WeakMap<
  object,
  { readonly spec: Readonly<Record<string, unknown>>; readonly fn: (context: never) => unknown }
>();

/**
 * Creates a dependency function with inputs and dependencies of its own. The spec is read when the
 * application compiles, so that a getter in it may refer to later declarations.
 */
export function provide<const S extends object, R>(
  spec: S & CheckedProvider<S>,
  fn: (context: ProviderContext<S>) => R,
): (context: Context) => R {
  const provider = (_context: Context): R => {
    throw new SvcError('E_DEPENDS', [
      fn.name || 'this function',
      'a function made by provide() must not be called directly',
    ]);
  };
  Object.defineProperty(provider, 'name', { value: fn.name });
  PROVIDERS.set(provider, { spec, fn: fn as (context: never) => unknown });
  return provider;
}

/** A source with its inputs and dependencies. */
export interface ReadSource {
  readonly label: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly run: (context: never) => unknown;
  readonly isPlain: boolean;
  readonly security: readonly SecurityRequirement[];
}

/** A dependency as rules of `svc check` see it. */
interface DependencyView {
  readonly label: string;
  readonly secrets: readonly string[];
  /** Security requirements of this dependency, without those of its own dependencies. */
  readonly security: readonly SecurityRequirement[];
  readonly needs: readonly Dependency<unknown>[];
}

/** Returns the name, secrets, security requirements and dependencies of a dependency. */
export function viewOfDependency({ source }: Dependency<unknown>): DependencyView {
  const { label, spec, security } = readSource(source);
  return {
    label,
    security,
    secrets: (spec['secrets'] as ProviderSpec['secrets']) ?? [],
    needs: Object.keys(spec)
      .map((key) => spec[key])
      .filter(Dependency.is),
  }; // the type of provide() allows only texts in `secrets`
}

/** Returns the function of a dependency, for rules that inspect its code. */
export function functionOf({ source }: Dependency<unknown>): (...args: never[]) => unknown {
  return readSource(source).run;
}

/**
 * Reads a source. If `source` is a replacement (as in a test client), `declared` is the replaced source. A
 * replacement keeps the security requirements of that source, so that it is resolved at the same step, before
 * the body is read.
 */
export function readSource(source: DependencySource, declared: DependencySource = source): ReadSource {
  const provider = PROVIDERS.get(source);
  // the type of provide() allows one requirement or a list
  const security = [PROVIDERS.get(declared)?.spec['security'] ?? []].flat() as SecurityRequirement[];
  const run = provider?.fn ?? (source as (context: never) => unknown);
  return {
    label: run.name || '(anonymous)',
    spec: provider?.spec ?? {},
    run,
    isPlain: provider === undefined,
    security,
  };
}

/** The inputs of one location (query, headers or cookies), of a route or dependency. */
export class TextInputPlan {
  /** Name of the property in the context. */
  readonly key: keyof TextInputs;
  readonly from: 'query' | 'header' | 'cookie';
  readonly plan: SchemaPlan;
  /** Header names by member names: `user-agent` for `userAgent`. */
  readonly #fieldNames: ReadonlyMap<string, string>;
  readonly #lists: ReadonlySet<string>;

  constructor(key: keyof TextInputs, from: TextInputPlan['from'], plan: SchemaPlan) {
    this.key = key;
    this.from = from;
    this.plan = plan;
    this.#fieldNames = new Map(
      plan.fields.map(({ name, wireName }) => [
        wireName,
        from === 'header' ? fieldNameOf(name, wireName) : wireName,
      ]),
    );
    this.#lists = new Set(plan.fields.filter((field) => field.isList).map((field) => field.wireName));
  }

  /** Returns the name that clients use for a member: the name of the header, or the member's own. */
  nameOf(wireName: string): string {
    return this.#fieldNames.get(wireName) ?? wireName;
  }

  /** Reads and validates the inputs of a request. */
  read(req: HttpRequest): Result<unknown> {
    if (this.from === 'query') return this.plan.parseText(req.query, 'query');
    if (this.from === 'cookie') return this.plan.parseText(req.cookies, 'cookie');
    const result = this.plan.parseText(
      {
        getAll: (name) => {
          const value = req.headers[this.nameOf(name)];
          return value === undefined ? [] : this.#lists.has(name) ? itemsOf(value) : [value];
        },
        keys: () => this.#fieldNames.keys(),
      },
      'header',
    );
    if (result.ok) return result;
    return {
      ok: false,
      issues: result.issues.map((issue) => ({
        ...issue,
        loc: issue.loc.map((step, index) => (index === 1 ? this.nameOf(String(step)) : step)),
      })),
    };
  }
}

/** Returns the header name of a member: its alias, or for example `user-agent` for `userAgent`. */
function fieldNameOf(name: string, wireName: string): string {
  return (
    name === wireName ? name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll('_', '-') : wireName
  ).toLowerCase();
}

/** Returns the items of a comma-separated list, without empty ones (RFC 9110 §5.6.1.2). */
function itemsOf(value: string): string[] {
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

const SOURCES = [
  ['query', 'query'],
  ['headers', 'header'],
  ['cookies', 'cookie'],
] as const;

/** Compiles the text inputs of a spec. */
export function readTextInputs(spec: Readonly<Record<string, unknown>>): TextInputPlan[] {
  return SOURCES.flatMap(([key, from]) => {
    const shape = spec[key];
    return shape === undefined ? [] : [new TextInputPlan(key, from, planOfShape(shape as InputShape, key))]; // the type of the spec allows only shapes
  });
}

/** Returns the plan of a schema class, or of an object of fields. */
export function planOfShape(shape: InputShape, owner: string): SchemaPlan {
  return isSchemaClass(shape) ? planOf(shape) : fieldsOf(shape, owner);
}
