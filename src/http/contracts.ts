/**
 * Interfaces shared by requests, middleware, plugins and rules. They refer to each other, so they are in one file.
 *
 * Types only. Implementations: http/request/request.ts, pipeline.ts, routing/route.ts, routing/plugin.ts, check/check.ts.
 */
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { Finding, Place, Severity } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { UploadFile } from '../schema/types.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { HeaderView } from './headers.ts';
import type { MultiMap } from './request/query.ts';
import type { HttpResponse } from './response.ts';
import type { TraceContext } from './request-id.ts';

export type { Awaitable } from '../cache/stores.ts';

// -- request --

/** A request, for middleware, dependencies and handlers. Each part is parsed once, when it is first read. */
export interface HttpRequest {
  readonly method: string;
  /** The path as it was sent, still encoded, without the query. */
  readonly path: string;
  /** The request target as it was sent. */
  readonly target: string;
  readonly scheme: 'http' | 'https';
  /** The `Host` of the request with its port; empty if absent. A trusted proxy's value only with `trustForwardedHost`. */
  readonly host: string;
  /** Address of the peer; behind trusted proxies, of their client. IPv4 addresses have IPv4 form on every socket. */
  readonly ip: string;
  /** When its head was read, by the monotonic clock in milliseconds. */
  readonly startedMs: number;
  /** Request id: a valid `X-Request-Id` of the request, or a new one; see `RequestIDMiddleware`. */
  readonly id: string;
  /** Position in the trace (W3C Trace Context): from a valid `traceparent`, else new. */
  readonly trace: TraceContext;
  /** The route that matched, before any middleware ran; undefined for 404 and 405. */
  readonly route: CompiledRoute | undefined;
  /** The parameters of the path, as their converters read them. */
  readonly pathParams: Readonly<Record<string, unknown>>;
  readonly query: MultiMap;
  /** Request fields by lower-case name. */
  readonly headers: HeaderView;
  readonly cookies: Readonly<Record<string, string>>;
  /** Values that middleware and plugins leave for one another. */
  readonly state: StateMap;
  /** @throws SvcError `E_SESSION_ABSENT` without session middleware */
  readonly session: Session;
  /** Aborts when the client leaves before its response is complete (`ClientDisconnected`), or the request's time is over (`RequestTimeout`). */
  readonly signal: AbortSignal;
  /**
   * Sends early hints to a browser (103, RFC 8297): `'</app.css>; rel=preload; as=style'`. Returns false if nothing was sent: over
   * HTTP/1.0, after the head of the response, and without a socket. @throws SvcError `E_HEADER`
   */
  earlyHints(links: string | readonly string[]): boolean;
  /** The whole body. No cap of its own: `maxBytes`, and `maxBodyBytes` of the route, else of the application; beyond it 413. */
  body(options?: BodyOptions): Promise<Uint8Array>;
  /** The body as a stream, limited like `body()`. It cannot be combined with the other readers. */
  stream(options?: BodyOptions): AsyncIterable<Uint8Array>;
  /** Parses the body as JSON; at most 10 MB unless `maxBytes`, or the route's `maxBodyBytes`, sets another limit. 400 for malformed JSON or nesting deeper than 1,000, 415 for another declared type. */
  json(options?: BodyOptions): Promise<unknown>;
  /** The body as UTF-8 text; capped as `json()`. */
  text(options?: BodyOptions): Promise<string>;
  /**
   * Fields and files of a form, urlencoded or multipart; at most 10 MB unless `maxBytes`, or the route's `maxBodyBytes`, sets another
   * limit. A multipart form is read once; later calls return the same form. 413 beyond a limit, 400 if malformed, 415 for another type.
   */
  form(options?: FormOptions): Promise<FormFields>;
  /**
   * Parts of a multipart form as a stream, with the limits of `form()`. Read each part before the next one; unread content is
   * skipped. Nothing is stored. It cannot be combined with the other readers.
   */
  parts(options?: FormOptions): AsyncIterable<FormPart>;
  /** Fields of a multipart form before its first file, within the first 64 KiB. The body stays unread for other readers. @internal */
  leadingFields(): Promise<MultiMap>;
}

/** How much of a body may be read. */
export interface BodyOptions {
  /** The most bytes, 0 ... 2^53-1; one more is 413. */
  readonly maxBytes?: number | undefined;
}

/** Limits of a form; beyond a limit is 413. In bytes, unless stated otherwise. */
export interface FormOptions extends BodyOptions {
  /** Fields, 0 ... 1_000_000. Default 1_000. */
  readonly maxFields?: number | undefined;
  /** Files, 0 ... 1_000_000. Default 100. */
  readonly maxFiles?: number | undefined;
  /** One field. Default 1_000_000. */
  readonly maxFieldBytes?: number | undefined;
  /** All fields of a multipart form together, with the heads of all parts. Default 10_000_000. */
  readonly maxTextBytes?: number | undefined;
  /** Size of one file. Default: the rest of `maxBytes`. */
  readonly maxFileBytes?: number | undefined;
  /** The head of one part, 64 ... 1_048_576. Default 16_384. */
  readonly maxHeaderBytes?: number | undefined;
  /** Memory for all files together; beyond it they go to a temporary file. Default 1_048_576. */
  readonly memoryBytes?: number | undefined;
  /** Folder of the temporary file. Default: the setting `uploadDirectory`. */
  readonly directory?: string | undefined;
}

/** Fields and files of a form. `has()` and `keys()` cover both, `get()` and `getAll()` only fields. */
export interface FormFields extends MultiMap {
  /** The first file of that name. */
  file(name: string): UploadFile | undefined;
  files(name: string): readonly UploadFile[];
}

/** One part of a multipart form. Its content can be read once. */
export interface FormPart extends AsyncIterable<Uint8Array> {
  readonly name: string;
  /** For files only; see {@link UploadFile}. */
  readonly filename: string | undefined;
  /** The media type that the client declared. */
  readonly contentType: string;
  /** Content as UTF-8 text; 400 for invalid UTF-8. */
  text(): Promise<string>;
}

/** Names a value of a session and its type: made by `sessionKey<T>(name)`. */
export interface SessionKey<out T> {
  readonly name: string;
  /** For the compiler only. */
  readonly value?: T;
}

/** A message for the next page: shown once. */
export interface Flash {
  /** For its looks: `info`, `error`. */
  readonly kind: string;
  readonly text: string;
}

/** Session of a client; requires the session middleware. Values are JSON values. */
export interface Session {
  /** Changes with {@link regenerate}. Reading it makes no session. */
  readonly id: string;
  /** Whether the client sent no valid session. */
  readonly isNew: boolean;
  get<T>(key: SessionKey<T>): T | undefined;
  get(key: string): unknown;
  set<T>(key: SessionKey<T>, value: NoInfer<T>): void;
  set(key: string, value: unknown): void;
  delete(key: string | SessionKey<unknown>): void;
  /** Replaces the id, and invalidates the old one: call it after a change of privileges. Keeps all values, or only those named in `keep`. */
  regenerate(options?: { readonly keep?: readonly (string | SessionKey<unknown>)[] | undefined }): void;
  /**
   * Deletes the session here and at the client. A cookie session cannot be revoked: a copy of the cookie is valid until it expires,
   * and a concurrent request that changes the session sends the cookie again. With a store the session ends at once.
   */
  destroy(): void;
  /** Adds a message for the next page. Cut to 500 characters; if there is no room, the oldest are dropped. */
  flash(kind: string, text: string): void;
  /** Returns and removes the messages of earlier requests, oldest first. */
  takeFlashes(): readonly Flash[];
}

/** Argument of a dependency function, a class, a hook or a state key. */
export interface Context {
  readonly req: HttpRequest;
  readonly signal: AbortSignal;
  readonly state: StateMap;
}

/** Names a value of type `T` in a {@link StateMap}. Called with a context it reads it, so that `Depends(key)` works. */
export interface StateKey<T> {
  readonly name: string;
  (context: Context): T;
}

/** Values by key. */
export interface StateMap {
  /** @throws SvcError `E_STATE_UNSET`, which names the part that sets it */
  get<T>(key: StateKey<T>): T;
  set<T>(key: StateKey<T>, value: T): void;
  has(key: StateKey<unknown>): boolean;
}

/** Services of an application. Every request's state has them under the key `services`. */
export interface Services {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly config: Config;
}

// -- middleware --

/** Passes the request to the next layer. Call it once. Await it: a synchronous inner layer returns no promise. */
export type Next = () => Awaitable<HttpResponse>;

/** Kind of a middleware, where its order matters. */
export type MiddlewareKind =
  | 'request-id'
  | 'trusted-host'
  | 'security-headers'
  | 'cors'
  | 'rate-limit'
  | 'concurrency-limit'
  | 'compression'
  | 'etag'
  | 'timeout'
  | 'session'
  | 'csrf'
  | 'idempotency';

/** A layer of the onion around handlers and error rendering. */
export interface Middleware {
  readonly kind?: MiddlewareKind;
  /** Returns a response, or calls `next()` and returns its response, changed or not. */
  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse>;
  /** Secret settings that it cannot do without, for example `['authSecret']`: an application that lacks one does not start. */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Reports mistakes of order and configuration. Called when the application is compiled or checked, before any request. The layer
   * takes its services from here (`view.services`). `view.middleware` has the layers around it and itself, the outermost first.
   */
  compile?(view: CompiledView): Iterable<Omit<Finding, 'place'>>;
}

// -- the compiled application, as rules, documents and plugins read it --

/** One route after compilation; also `req.route`. */
export interface CompiledRoute {
  /** In capitals; of a WebSocket `WEBSOCKET`. */
  readonly method: string;
  readonly template: string;
  readonly name: string | undefined;
  readonly place: Place;
  readonly security: readonly SecurityRequirement[];
  readonly meta: Readonly<Record<string, unknown>>;
  /** Rate limit of its spec; false: unlimited. */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /** Time limit of its spec; false: unlimited. */
  readonly timeoutMs?: number | false | undefined;
  /** Time limit in milliseconds for receiving the whole request, if its spec has one. */
  readonly requestTimeoutMs?: number | undefined;
}

/** Rate-limit key of a request; undefined: its address. */
export type RateLimitKey = (req: HttpRequest) => string | undefined;

/** How often one client may call a route. */
export interface RouteRateLimit {
  /** 1 ... 1_000_000. */
  readonly perMinute: number;
  /** How many at once, 1 ... 1_000_000. Default: as many as a minute allows. */
  readonly burst?: number | undefined;
  readonly key?: RateLimitKey | undefined;
}

/** One way in: all its scopes, any of its roles. */
export interface SecurityRequirement {
  readonly scheme: 'bearer' | 'session' | 'apiKey';
  readonly scopes: readonly string[];
  readonly roles: readonly string[];
  /** Location of the key of the scheme `apiKey`, or of the cookie of `session`. */
  readonly credential?: { readonly in: 'header' | 'cookie'; readonly name: string } | undefined;
  /** Whether requests without it pass as well. */
  readonly isOptional?: true | undefined;
}

/** Everything that was declared, compiled. */
export interface CompiledView {
  readonly env: Env;
  readonly routes: readonly CompiledRoute[];
  readonly middleware: readonly Middleware[];
  readonly plugins: readonly Plugin[];
  readonly services: Services;
  config(key: string): unknown;
}

/** A check. Only rules of the phase `live` may be asynchronous. */
export interface Rule {
  readonly id: Finding['rule'];
  readonly severity: Severity;
  readonly why: string;
  readonly remedy: string;
  readonly phase: 'graph' | 'security' | 'contract' | 'environment' | 'live';
  run(view: CompiledView, report: (subject: string, message: string, place?: Place) => void): Awaitable<void>;
}

// -- plugins --

/** A reusable part of an application. */
export interface Plugin {
  readonly name: string;
  /** Plugins that must be there, and start before this one. */
  readonly requires?: readonly string[];
  /** Plugins that start before this one if they are there. */
  readonly after?: readonly string[];
  /** Starts before, and stops after, plugins without this: databases. */
  readonly startsFirst?: boolean;
  /** Secret settings that it cannot do without, for example `['authSecret']`: an application that lacks one does not start. */
  readonly secrets?: readonly string[] | undefined;
  /** Declares routes, middleware and the rest. Synchronous, no I/O, before compilation. */
  register(host: Host): void;
  /** Called in dependency order, then `app.onStartup`. After a failure the started plugins are shut down. */
  startup?(signal: AbortSignal): Awaitable<void>;
  /** In reverse order, after the last request and background task. */
  shutdown?(): Awaitable<void>;
}

/** Everything a plugin may touch. */
export interface Host {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly routes: RouterLike;
  /** A configuration value, typed by its fallback or by `cast`. */
  option<T>(key: string, fallback: T, cast?: (text: string) => T): T;
  /** Inside of the application's own middleware, or `outside` of all there is until then. */
  use(middleware: Middleware, where?: 'inside' | 'outside'): void;
  get<T>(key: StateKey<T>): T;
  /** Whether an earlier plugin provides it. */
  has(key: StateKey<unknown>): boolean;
  /** Makes a value known under a key, read anew for each request. */
  provide<T>(key: StateKey<T>, read: () => T): void;
  /** Adds a check to `/readyz`. An exception means down; limit 2 s; its text is only logged. */
  readiness(name: string, probe: (signal: AbortSignal) => Awaitable<void>): void;
  rule(rule: Rule): void;
  /** Adds migrations by engine: `svc migrate up` applies them once, before the application's own, under the id `plugin/id`. */
  migration(
    id: string,
    sql: Readonly<Record<'sqlite' | 'postgres' | 'mysql' | 'mariadb', readonly string[]>>,
  ): void;
  /** Contributions of all plugins so far. @internal */
  readonly migrations: readonly ContributedMigration[];
}

/** Statements of a plugin for the database, by engine. @internal */
export interface ContributedMigration {
  readonly plugin: string;
  readonly id: string;
  readonly sql: Parameters<Host['migration']>[1];
}

/** Where a plugin declares routes. */
export interface RouterLike {
  route(path: string, methods: readonly string[], spec: object, handler: (context: never) => unknown): void;
}
