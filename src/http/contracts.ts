/**
 * The interfaces that requests, middleware, plugins and rules share. They name one another, so they have one home.
 *
 * Nothing here runs. What implements them: http/request/request.ts, pipeline.ts, routing/route.ts, routing/plugin.ts, check/check.ts.
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

/** A request as middleware, dependencies and handlers see it. Each part is parsed when it is first read, and once. */
export interface HttpRequest {
  readonly method: string;
  /** The path as it was sent, still encoded, without the query. */
  readonly path: string;
  /** The request target as it was sent. */
  readonly target: string;
  readonly scheme: 'http' | 'https';
  /** The `Host` of the request, port included; empty when there is none. What trusted proxies say only with `trustForwardedHost`. */
  readonly host: string;
  /** The address of the peer; behind trusted proxies that of their client. IPv4 as such, whichever family the socket has. */
  readonly ip: string;
  /** When its head was read, by the monotonic clock in milliseconds. */
  readonly startedMs: number;
  /** The request id: a valid incoming `X-Request-Id`, or a fresh one; see `RequestIDMiddleware`. */
  readonly id: string;
  /** Where it stands in its trace (W3C Trace Context): that of a valid `traceparent`, else a new one. */
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
  /** Aborts when the client has left before its answer was complete (`ClientDisconnected`), or the time of the request is over (`RequestTimeout`), and at no other time. */
  readonly signal: AbortSignal;
  /**
   * Tells a browser what it will need while the answer is made (103, RFC 8297): `'</app.css>; rel=preload; as=style'`. False where
   * nothing was sent: to HTTP/1.0, behind the head of the answer, and without a socket. @throws SvcError `E_HEADER`
   */
  earlyHints(links: string | readonly string[]): boolean;
  /** The whole body. No cap of its own: `maxBytes`, and `maxBodyBytes` of the route, else of the application; beyond it 413. */
  body(options?: BodyOptions): Promise<Uint8Array>;
  /** The body as it arrives, capped as `body()`. Not to be combined with the others. */
  stream(options?: BodyOptions): AsyncIterable<Uint8Array>;
  /** The body parsed as JSON; 10 MB unless `maxBytes`, or `maxBodyBytes` of the route, says otherwise. 400 when malformed or nested deeper than 1,000 levels, 415 when declared as another type. */
  json(options?: BodyOptions): Promise<unknown>;
  /** The body as UTF-8 text; capped as `json()`. */
  text(options?: BodyOptions): Promise<string>;
  /**
   * The fields and files of a form, urlencoded or multipart; 10 MB unless `maxBytes`, or `maxBodyBytes` of the route, says
   * otherwise. A multipart one is read once: later calls give the same. 413 beyond a limit, 400 when malformed, 415 for another type.
   */
  form(options?: FormOptions): Promise<FormFields>;
  /**
   * The parts of a multipart form as they arrive, under the limits of `form()`: read each before you ask for the next one; what
   * you leave of it is read over. Nothing is kept, in memory or elsewhere. Not to be combined with the others.
   */
  parts(options?: FormOptions): AsyncIterable<FormPart>;
  /** The fields of a multipart form that stand before its first file, within its first 64 KiB. The body stays unread for the others. @internal */
  leadingFields(): Promise<MultiMap>;
}

/** How much of a body may be read. */
export interface BodyOptions {
  /** The most bytes, 0 ... 2^53-1; one more is 413. */
  readonly maxBytes?: number | undefined;
}

/** How much of a form may be read; one more is 413. Bytes, unless it says otherwise. */
export interface FormOptions extends BodyOptions {
  /** Fields, 0 ... 1_000_000. Default 1_000. */
  readonly maxFields?: number | undefined;
  /** Files, 0 ... 1_000_000. Default 100. */
  readonly maxFiles?: number | undefined;
  /** One field. Default 1_000_000. */
  readonly maxFieldBytes?: number | undefined;
  /** All fields of a multipart form together, with the heads of all parts. Default 10_000_000. */
  readonly maxTextBytes?: number | undefined;
  /** One file. Default: what `maxBytes` leaves. */
  readonly maxFileBytes?: number | undefined;
  /** The head of one part, 64 ... 1_048_576. Default 16_384. */
  readonly maxHeaderBytes?: number | undefined;
  /** What files may take in memory, all together; the rest goes to a temporary file. Default 1_048_576. */
  readonly memoryBytes?: number | undefined;
  /** Where the temporary file goes. Default: the setting `uploadDirectory`. */
  readonly directory?: string | undefined;
}

/** The fields and files of a form. `has()` and `keys()` know both, `get()` and `getAll()` fields alone. */
export interface FormFields extends MultiMap {
  /** The first file of that name. */
  file(name: string): UploadFile | undefined;
  files(name: string): readonly UploadFile[];
}

/** One part of a multipart form, its content to be read once. */
export interface FormPart extends AsyncIterable<Uint8Array> {
  readonly name: string;
  /** There for files only; see {@link UploadFile}. */
  readonly filename: string | undefined;
  /** What the client says it is. */
  readonly contentType: string;
  /** The content as UTF-8 text; 400 for other bytes. */
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

/** What a client is remembered by; there with the session middleware only. Values are JSON values. */
export interface Session {
  /** Changes with {@link regenerate}. Reading it makes no session. */
  readonly id: string;
  /** Whether the client has brought none, or one that no longer counts. */
  readonly isNew: boolean;
  get<T>(key: SessionKey<T>): T | undefined;
  get(key: string): unknown;
  set<T>(key: SessionKey<T>, value: NoInfer<T>): void;
  set(key: string, value: unknown): void;
  delete(key: string | SessionKey<unknown>): void;
  /** A new id, the old one worth nothing: after a change of privileges. Keeps every value, or only those named in `keep`. */
  regenerate(options?: { readonly keep?: readonly (string | SessionKey<unknown>)[] | undefined }): void;
  /**
   * Forgets everything, here and at the client. Kept in the cookie, a session is not ended by that: a copy counts until its own
   * time is over, and a request under way that changes it gives the client its cookie back. With a store it is ended at once.
   */
  destroy(): void;
  /** Leaves a message for the page after this one. Cut to 500 characters; where there is no room for all, the oldest are left out. */
  flash(kind: string, text: string): void;
  /** The messages that earlier requests have left, the oldest first; they are gone then. */
  takeFlashes(): readonly Flash[];
}

/** What a plain dependency function, a class, a hook or a state key gets. */
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
  /** @throws SvcError `E_STATE_UNSET`, which says who sets it */
  get<T>(key: StateKey<T>): T;
  set<T>(key: StateKey<T>, value: T): void;
  has(key: StateKey<unknown>): boolean;
}

/** What an application lends to its parts. In the state of every request under the key `services`. */
export interface Services {
  readonly env: Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly config: Config;
}

// -- middleware --

/** Passes the request on to the next layer. To be called once. Await it: a synchronous inner layer returns no promise. */
export type Next = () => Awaitable<HttpResponse>;

/** What a middleware is for, where its order matters. */
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
  /** Answers, or passes on with `next()` and answers with what comes back, changed or not. */
  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse>;
  /** Secret settings that it cannot do without, for example `['authSecret']`: an application that lacks one does not start. */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Mistakes of order and configuration. Asked whenever the application is compiled or checked, before any request; what
   * the layer needs of the application (`view.services`) it takes from here. `view.middleware` are the layers around it and
   * itself, the outermost first.
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
  /** How often a client may call it, where its spec says so; false: as often as it likes. */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /** How long it may take to answer, where its spec says so; false: as long as it likes. */
  readonly timeoutMs?: number | false | undefined;
  /** How long a client may take to send the whole request, in milliseconds, where its spec says so. */
  readonly requestTimeoutMs?: number | undefined;
}

/** What a client is counted by; undefined: by its address. */
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
  /** Where the key of the scheme `apiKey` stands, or the cookie of `session`. */
  readonly credential?: { readonly in: 'header' | 'cookie'; readonly name: string } | undefined;
  /** Whether requests without it pass, too. */
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

/** A part of an application that somebody else wrote. */
export interface Plugin {
  readonly name: string;
  /** Plugins that must be there, and start before this one. */
  readonly requires?: readonly string[];
  /** Plugins that start before this one if they are there. */
  readonly after?: readonly string[];
  /** Whether it starts before, and stops after, those that do not ask for this: databases. */
  readonly startsFirst?: boolean;
  /** Secret settings that it cannot do without, for example `['authSecret']`: an application that lacks one does not start. */
  readonly secrets?: readonly string[] | undefined;
  /** Declares routes, middleware and the rest. Synchronous, no I/O, before compilation. */
  register(host: Host): void;
  /** In dependency order, then `app.onStartup`; a failure shuts down what had started. */
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
  /** Whether a plugin that was registered before provides it. */
  has(key: StateKey<unknown>): boolean;
  /** Makes a value known under a key, read anew for each request. */
  provide<T>(key: StateKey<T>, read: () => T): void;
  /** A part of `/readyz`: throwing means down; 2 s; the text goes to the log only. */
  readiness(name: string, probe: (signal: AbortSignal) => Awaitable<void>): void;
  rule(rule: Rule): void;
  /** Statements for the application's database, by engine: `svc migrate up` applies them before those of the application, once, under the id `plugin/id`. */
  migration(
    id: string,
    sql: Readonly<Record<'sqlite' | 'postgres' | 'mysql' | 'mariadb', readonly string[]>>,
  ): void;
  /** What all plugins have contributed so far. @internal */
  readonly migrations: readonly ContributedMigration[];
}

/** Statements that a plugin wants in the database, by engine. @internal */
export interface ContributedMigration {
  readonly plugin: string;
  readonly id: string;
  readonly sql: Parameters<Host['migration']>[1];
}

/** Where a plugin declares routes. */
export interface RouterLike {
  route(path: string, methods: readonly string[], spec: object, handler: (context: never) => unknown): void;
}
