/**
 * Declares the dependencies of handlers. di-plan.ts determines their order when the application compiles, and
 * resolves them for each request. This file also compiles text inputs: query, header fields and cookies.
 *
 * Depends(source) declares a dependency. Its source is a function, a generator function, a class, a state
 * key, or the result of provide(spec, fn). With provide(), `fn` has inputs and dependencies, too.
 *
 * Scopes of dependencies:
 *   request   resolved for each request, and cleaned up after the response was sent
 *   handler   resolved for each request, and cleaned up before the response is sent: an error in a clean-up,
 *             such as a failed commit, replaces the response
 *   app       resolved once at the start, and cleaned up at the shutdown
 *
 * A dependency must not need another one with a shorter scope.
 */
import { SvcError } from '../base/errors.ts';
import { bool, isRecord, oneOf, readOptions, shown } from '../base/options.ts';
import { elementsOf } from '../http/headers.ts';
import { surroundOfSource, type Scope } from '../http/state.ts';
import { fieldsOf, isSchemaClass, isStandardSchema, planOf, planOfStandard } from '../schema/schema.ts';
import type { BackgroundTasks } from './background.ts';
import type { Context, HttpRequest, SecurityRequirement } from '../http/contracts.ts';
import type {
  FieldType,
  Infer,
  Result,
  SchemaClass,
  SchemaPlan,
  StandardSchema,
  TypeSource,
} from '../schema/schema.ts';

export type { Scope } from '../http/state.ts';

/** Argument of {@link Depends}: a function or class that gets the request's context as its argument. */
export type DependencySource =
  ((context: Context) => unknown) | (new (context: Context) => unknown) | typeof BackgroundTasks;

/**
 * Type of the value of a dependency: the instance of a class, the yielded value of a generator, or the result
 * of a promise.
 */
export type Provided<F> = F extends abstract new (...args: never[]) => infer I
  ? I
  : F extends (...args: never[]) => infer R
    ? R extends Generator<infer Y, unknown, unknown> | AsyncGenerator<infer Y, unknown, unknown>
      ? Y
      : Awaited<R>
    : never;

/** A declared dependency. Only {@link Depends} creates instances. */
export class Dependency<out T> {
  /** Carries the type of the value for the compiler; never set at run time. */
  declare readonly value?: T;
  /** @internal */
  readonly source: DependencySource;
  /** @internal */
  readonly isCached: boolean;
  /** Scope that was passed to Depends(), if any. */
  readonly #scope: Scope | undefined;
  /** Private member, so that TypeScript accepts only objects of this class as dependencies. */
  readonly #isDependency = true;

  /** @internal */
  constructor(source: DependencySource, isCached: boolean, scope: Scope | undefined) {
    this.source = source;
    this.isCached = isCached;
    this.#scope = scope;
  }

  /**
   * Lifetime of the value. Read it only when the application compiles, because a spec may use declarations
   * that come later in the program.
   * @internal
   */
  get scope(): Scope {
    return this.#scopeWithin(new Set());
  }

  /** `seen` contains the sources that are being examined, because sources may need each other in a cycle. */
  #scopeWithin(seen: Set<DependencySource>): Scope {
    const known = this.#scope ?? (surroundOfSource(this.source) && 'handler');
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
  /** Whether all handlers and dependencies of a request share one value of the source. Default true. */
  readonly cache?: boolean | undefined;
  /**
   * Lifetime of the value. Default: the default scope of the source, such as `handler` for a transaction. A
   * source without a default scope gets `handler` if it needs a dependency of that scope, and otherwise
   * `request`.
   */
  readonly scope?: Scope | undefined;
}

/**
 * Declares a dependency in a spec: the handler receives the value of `source`.
 * @throws SvcError `E_DEPENDS` when the source is not a function or a class
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

/** A schema class, an object whose members are declared by `Field()`, or a schema of another library. */
export type InputShape = object;
/** Type of the validated values of an {@link InputShape}. */
export type InputOf<S> =
  S extends SchemaClass<infer T>
    ? T
    : S extends StandardSchema
      ? Infer<S>
      : { readonly [K in keyof S]: S[K] };

/** Text inputs of a route or dependency: query, header fields and cookies. */
export interface TextInputs {
  /** Parameters of the query string. */
  readonly query?: InputShape | undefined;
  /** Header fields. The member `userAgent` reads `User-Agent`; an alias names another header field. */
  readonly headers?: InputShape | undefined;
  /** Cookies. An alias names another cookie. */
  readonly cookies?: InputShape | undefined;
}

/** Spec of a function for {@link provide}. Every key that is not listed here is a dependency. */
export interface ProviderSpec extends TextInputs {
  /** Security requirement that this dependency enforces, for the OpenAPI document and `svc check`. */
  readonly security?: SecurityRequirement | readonly SecurityRequirement[] | undefined;
  /**
   * Names of settings with secrets that this dependency needs, for example `['authSecret']`. Without them,
   * the application does not start.
   */
  readonly secrets?: readonly string[] | undefined;
}
/** Members that every context has. A dependency in the spec of {@link provide} cannot have these names. */
export type ContextKey = 'req' | 'signal' | 'state' | 'params';
type ProviderKey = keyof ProviderSpec | ContextKey;

type ProviderKind =
  'query, headers, cookies, security nor secrets, and no Depends(…); for path parameters, read req.pathParams';

/**
 * Constraint for the type of a spec with the options `O`. Editors offer these options; `object` admits
 * dependencies beside them.
 */
export type SpecOf<O> = O | object;
/**
 * Type of an argument that is a spec `S` with the options `O`. An invalid member gets an error text as its
 * type, which the compiler shows. `Taken` are names that dependencies cannot have.
 *
 * The type is conditional, so that the compiler infers `S` from the argument, and then compares the argument
 * only with the checked members. Schema classes come first, because most types of routes are classes.
 * Completion gets `O` itself, because TypeScript 7.0 does not show the documentation of mapped members.
 */
export type CheckedSpec<S, O, Taken, Kind extends string> = S extends object
  ? O extends S
    ? O
    : {
        readonly [K in keyof S]: K extends keyof O
          ? S[K] extends SchemaClass
            ? O[K]
            : K extends TypeKey
              ? S[K] extends O[K]
                ? O[K]
                : NoType<S[K], K, O[K]>
              : K extends ShapeKey
                ? CheckedShape<S[K], O[K]>
                : O[K]
          : S[K] extends Dependency<unknown>
            ? K extends Taken
              ? `"${K & string}" is reserved: give the dependency another name`
              : S[K]
            : `"${K & string}" is neither ${Kind}`;
      }
  : S;

/** Options that are types of values. */
type TypeKey = 'body' | 'response' | 'message';
/** Options that are objects of fields. */
type ShapeKey = keyof TextInputs | 'params' | 'form' | 'args';
/** Any class. It is an interface, because a constructor type would compile more slowly here. */
interface AnyClass {
  new (data: never): object;
}
/**
 * Type of an option `K` whose value is not a type: for a response, an object of types by status. Classes that
 * do not extend Schema, and other objects, get an error text.
 */
type NoType<T, K, O> = T extends AnyClass
  ? 'a class that does not extend Schema has no fields to read: write class … extends Schema'
  : T extends object
    ? K extends 'response'
      ? { readonly [N in keyof T]: T[N] extends TypeSource ? T[N] : NoType<T[N], 'a status', TypeSource> }
      : `"${K & string}" takes a type, not an object: write class … extends Schema with these members`
    : O;
/** Accepts a foreign schema or an object of `Field()` members. A member that is a type lacks its Field(). */
type CheckedShape<T, O> = T extends StandardSchema
  ? T
  : T extends AnyClass
    ? NoType<T, never, O>
    : T extends FieldType<unknown, object>
      ? 'a type is not an object of fields: write { name: Field(type) }, or a class that extends Schema'
      : T extends object
        ? {
            readonly [N in keyof T]: T[N] extends TypeSource
              ? `"${N & string}" is a type, not a field: write Field(type)`
              : T[N];
          }
        : O;

/** Context of the function that is passed to {@link provide}. */
export type ProviderContext<S> = Context & {
  readonly [K in keyof S & keyof TextInputs]: InputOf<NonNullable<S[K]>>;
} & { readonly [K in Exclude<keyof S, ProviderKey>]: S[K] extends Dependency<infer T> ? T : never };

const PROVIDERS = new WeakMap<
  object,
  { readonly spec: Readonly<Record<string, unknown>>; readonly fn: (context: never) => unknown }
>();

/**
 * Returns a function for {@link Depends} that has inputs and dependencies itself. The spec is read when the
 * application compiles, so a getter in it may refer to later declarations.
 * @throws SvcError `E_DEPENDS` when the spec is not an object, or `fn` is not a function
 */
export function provide<S extends SpecOf<ProviderSpec>, R>(
  spec: CheckedSpec<S, ProviderSpec, ContextKey, ProviderKind>,
  fn: (context: ProviderContext<S>) => R,
): (context: Context) => R {
  if (!isRecord(spec) || typeof fn !== 'function')
    throw new SvcError('E_DEPENDS', [
      'the result of provide()',
      `the arguments must be an object and a function, found ${shown(spec)} and ${shown(fn)}`,
    ]);
  const provider = (_context: Context): R => {
    throw new SvcError('E_DEPENDS', [
      fn.name || 'an anonymous function',
      'the result of provide() must be passed to Depends() instead of being called',
    ]);
  };
  Object.defineProperty(provider, 'name', { value: fn.name });
  // the casts are safe: a spec is an object, and the function gets the context that its spec describes
  PROVIDERS.set(provider, {
    spec: spec as Readonly<Record<string, unknown>>,
    fn: fn as (context: never) => unknown,
  });
  return provider;
}

/** Name, function and spec of a source, the function or class that was passed to {@link Depends}. */
export interface ReadSource {
  readonly label: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly run: (context: never) => unknown;
  readonly isPlain: boolean;
  readonly security: readonly SecurityRequirement[];
}

/** A dependency, as the rules of `svc check` read it. */
interface DependencyView {
  readonly label: string;
  readonly secrets: readonly string[];
  /** Security requirements that this dependency itself enforces. */
  readonly security: readonly SecurityRequirement[];
  readonly needs: readonly Dependency<unknown>[];
}

export function viewOfDependency({ source }: Dependency<unknown>): DependencyView {
  const { label, spec, security } = readSource(source);
  return {
    label,
    security,
    secrets: (spec['secrets'] as ProviderSpec['secrets']) ?? [],
    needs: Object.keys(spec)
      .map((key) => spec[key])
      .filter(Dependency.is),
  };
}

/** Returns the function of a dependency, whose code some rules of `svc check` read. */
export function functionOf({ source }: Dependency<unknown>): (...args: never[]) => unknown {
  return readSource(source).run;
}

/**
 * Returns the name, function and spec of `source`, an argument of {@link Depends}. In a test, `source` may
 * replace `declared`. The security requirements of `declared` still apply.
 */
export function readSource(source: DependencySource, declared: DependencySource = source): ReadSource {
  const provider = PROVIDERS.get(source);
  const written = [PROVIDERS.get(declared)?.spec['security'] ?? []].flat() as Partial<SecurityRequirement>[];
  // JavaScript may leave out what the type demands
  const security = written.map((each) => ({ scheme: 'bearer' as const, scopes: [], roles: [], ...each }));
  const run = provider?.fn ?? (source as (context: never) => unknown);
  return {
    label: run.name || '(anonymous)',
    spec: provider?.spec ?? {},
    run,
    isPlain: provider === undefined,
    security,
  };
}

/** Text inputs of a route, which may also declare the parameters of its path. */
export interface RouteTextInputs extends TextInputs {
  /** Parameters of the path. Their values are texts. Default: the types in the path, such as `{id:int}`. */
  readonly params?: InputShape | undefined;
}

/** Compiled inputs of a route or dependency from one place: path, query, header fields or cookies. */
export class TextInputPlan {
  /** Name of the member of the context that contains the values. */
  readonly key: keyof RouteTextInputs;
  readonly from: 'path' | 'query' | 'header' | 'cookie';
  readonly plan: SchemaPlan;
  /** Name of the header field for each member, such as `user-agent` for `userAgent`. */
  readonly #fieldNames: ReadonlyMap<string, string>;
  readonly #lists: ReadonlySet<string>;

  constructor(key: keyof RouteTextInputs, from: TextInputPlan['from'], plan: SchemaPlan) {
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

  /** Returns the name that clients use for an input: for header inputs, the name of the header field. */
  nameOf(wireName: string): string {
    return this.#fieldNames.get(wireName) ?? wireName;
  }

  read(req: HttpRequest): Result<unknown> {
    if (this.from === 'path') return this.plan.parseText(textsOf(req.pathParams), 'path');
    if (this.from === 'query') return this.plan.parseText(req.query, 'query');
    if (this.from === 'cookie') return this.plan.parseText(req.cookies, 'cookie');
    const result = this.plan.parseText(
      {
        getAll: (name) => {
          const value = req.headers[this.nameOf(name)];
          return value === undefined ? [] : this.#lists.has(name) ? elementsOf(value) : [value];
        },
        keys: () =>
          this.plan.foreign !== undefined
            ? [...this.#fieldNames.keys(), ...Object.keys(req.headers)]
            : this.#fieldNames.keys(),
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

/** Returns the alias of a member, or its name in another form: `user-agent` for `userAgent`. */
function fieldNameOf(name: string, wireName: string): string {
  return (
    name === wireName ? name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll('_', '-') : wireName
  ).toLowerCase();
}

/** Returns path parameters as texts again, because the path may have converted them to numbers. */
function textsOf(params: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]));
}

const SOURCES = [
  ['params', 'path'],
  ['query', 'query'],
  ['headers', 'header'],
  ['cookies', 'cookie'],
] as const;

export function readTextInputs(spec: Readonly<Record<string, unknown>>): TextInputPlan[] {
  return SOURCES.flatMap(([key, from]) => {
    const shape = spec[key];
    return shape === undefined ? [] : [new TextInputPlan(key, from, planOfShape(shape as InputShape, key))];
  });
}

export function planOfShape(shape: InputShape, owner: string): SchemaPlan {
  if (isSchemaClass(shape)) return planOf(shape);
  return isStandardSchema(shape) ? planOfStandard(shape, owner) : fieldsOf(shape, owner);
}
