/**
 * Dependencies: declared as data (here), put in order when the application compiles (di-plan.ts), resolved per request
 * and cleaned up in reverse (di-resolution.ts). Text inputs (query, headers, cookies) are compiled here.
 *
 *   Depends(source)        a function, generator, class, state key, or the result of provide()
 *   provide(spec, fn)      a function with inputs and dependencies of its own, validated and resolved before it runs
 *
 *   scope    resolved           cleaned up
 *   request  per request        after the response has been sent; a generator gets the error that ended the request early
 *   handler  per request        before the first byte: a commit that fails becomes the response
 *   app      once, at start-up  once, at shutdown
 *
 * A wider scope may not need a narrower one. Without a scope in Depends() it is the source's own, `handler` for a source that needs
 * one of scope `handler`, else `request`. A source is resolved once per request, unless `cache: false`.
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

/** Value of a source: an instance of a class, the yielded value of a generator, the result of a promise. */
export type Provided<F> = F extends abstract new (...args: never[]) => infer I
  ? I
  : F extends (...args: never[]) => infer R
    ? R extends Generator<infer Y, unknown, unknown> | AsyncGenerator<infer Y, unknown, unknown>
      ? Y
      : Awaited<R>
    : never;

/** A dependency in a spec. Made by {@link Depends} only. */
export class Dependency<out T> {
  /** For the compiler only: type of the value. */
  declare readonly value?: T;
  /** @internal */
  readonly source: DependencySource;
  /** @internal */
  readonly isCached: boolean;
  /** As Depends() says. */
  readonly #scope: Scope | undefined;
  /** Keeps look-alikes out. */
  readonly #isDependency = true;

  /** @internal */
  constructor(source: DependencySource, isCached: boolean, scope: Scope | undefined) {
    this.source = source;
    this.isCached = isCached;
    this.#scope = scope;
  }

  /** Known when the application compiles: a provided function may name what is declared later. @internal */
  get scope(): Scope {
    return this.#scopeWithin(new Set());
  }

  /** `seen`: the sources that lead here, of which one may need itself. */
  #scopeWithin(seen: Set<DependencySource>): Scope {
    const known = this.#scope ?? scopeOfSource(this.source);
    if (known !== undefined || seen.has(this.source)) return known ?? 'request';
    seen.add(this.source);
    const needsHandler = Object.values(readSource(this.source).spec).some(
      (need) => Dependency.is(need) && need.#scopeWithin(seen) === 'handler',
    );
    return needsHandler ? 'handler' : 'request';
  }

  static is(value: unknown): value is Dependency<unknown> {
    return typeof value === 'object' && value !== null && #isDependency in value;
  }
}

/** Options of {@link Depends}. */
export interface DependsOptions {
  /** Resolves once for each request, for all its users. Default true. */
  readonly cache?: boolean | undefined;
  /** Default: the scope of the source's own, as `handler` of a transaction; `handler` when the source needs one of that scope; else `request`. */
  readonly scope?: Scope | undefined;
}

/** Injects the value of `source`. @throws SvcError `E_DEPENDS` for an invalid source */
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

/** Fields by name, as `Field()` declares them, or a schema class. */
export type InputShape = object;
/** The values of a shape or of a class's instances. */
export type InputOf<S> = S extends SchemaClass<infer T> ? T : { readonly [K in keyof S]: S[K] };

/** Locations of inputs, beside path and body. */
export interface TextInputs {
  readonly query?: InputShape | undefined;
  /** `userAgent` reads `User-Agent`; an alias names other fields. */
  readonly headers?: InputShape | undefined;
  readonly cookies?: InputShape | undefined;
}

/** The inputs and dependencies of a {@link provide}d function; every key that is none of these is a dependency. */
export interface ProviderSpec extends TextInputs {
  /** Security requirement of a dependency, for documents and checks. */
  readonly security?: SecurityRequirement | readonly SecurityRequirement[] | undefined;
  /** Secret settings that it cannot do without, for example `['authSecret']`: an application that lacks one does not start. */
  readonly secrets?: readonly string[] | undefined;
}
/** Names that no dependency of a provided function may take: the parts of its context. */
export type ContextKey = 'req' | 'signal' | 'state' | 'params';
type ProviderKey = keyof ProviderSpec | ContextKey;

/** `S`, or a sentence at each key that is neither. */
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
 * A dependency function with its own inputs and dependencies. The spec is read when the application compiles, so that a getter in it
 * may refer to later declarations.
 */
export function provide<const S extends object, R>(
  spec: S & CheckedProvider<S>,
  fn: (context: ProviderContext<S>) => R,
): (context: Context) => R {
  const provider = (_context: Context): R => {
    throw new SvcError('E_DEPENDS', [`${fn.name || 'a provided function'}, called directly`]);
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

/** A dependency, for checks. */
interface DependencyView {
  readonly label: string;
  readonly secrets: readonly string[];
  /** Its own inputs, without those of its dependencies. */
  readonly security: readonly SecurityRequirement[];
  readonly needs: readonly Dependency<unknown>[];
}

/** Name, inputs and dependencies of a dependency. */
export function viewOfDependency({ source }: Dependency<unknown>): DependencyView {
  const { label, spec, security } = readSource(source);
  return {
    label,
    security,
    secrets: (spec['secrets'] as ProviderSpec['secrets']) ?? [],
    needs: Object.keys(spec)
      .map((key) => spec[key])
      .filter(Dependency.is),
  }; // provide() types it
}

/** The user's function, for rules that read its code. */
export function functionOf({ source }: Dependency<unknown>): (...args: never[]) => unknown {
  return readSource(source).run;
}

/** A replacement has the security of its original, so it is resolved as early. */
export function readSource(source: DependencySource, declared: DependencySource = source): ReadSource {
  const provider = PROVIDERS.get(source);
  const security = [PROVIDERS.get(declared)?.spec['security'] ?? []].flat() as SecurityRequirement[]; // provide() types it: one or a list
  if (provider !== undefined)
    return {
      label: provider.fn.name || '(anonymous)',
      spec: provider.spec,
      run: provider.fn,
      isPlain: false,
      security,
    };
  return {
    label: source.name || '(anonymous)',
    spec: {},
    run: source as (context: never) => unknown,
    isPlain: true,
    security,
  };
}

/** One source of text inputs of a route or dependency. */
export class TextInputPlan {
  /** The member of the context. */
  readonly key: keyof TextInputs;
  readonly from: 'query' | 'header' | 'cookie';
  readonly plan: SchemaPlan;
  /** Field names by the names of the schema: `userAgent` is `user-agent`. */
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

  /** Returns the client's name for a member: the name of the header, or the member's own. */
  nameOf(wireName: string): string {
    return this.#fieldNames.get(wireName) ?? wireName;
  }

  /** Validates inputs of the request. */
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

/** Field of a member: its alias unchanged, else `userAgent` as `user-agent`. */
function fieldNameOf(name: string, wireName: string): string {
  return (
    name === wireName ? name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll('_', '-') : wireName
  ).toLowerCase();
}

/** The items of a comma list; empty ones are none (RFC 9110 §5.6.1.2). */
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

/** Compiled text inputs of a spec. */
export function readTextInputs(spec: Readonly<Record<string, unknown>>): TextInputPlan[] {
  return SOURCES.flatMap(([key, from]) => {
    const shape = spec[key];
    return shape === undefined ? [] : [new TextInputPlan(key, from, planOfShape(shape as InputShape, key))]; // the type of the spec guarantees it
  });
}

/** Plan of a schema class, or of an object's fields. */
export function planOfShape(shape: InputShape, owner: string): SchemaPlan {
  return isSchemaClass(shape) ? planOf(shape) : fieldsOf(shape, owner);
}
