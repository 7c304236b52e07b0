/**
 * Options of `new Svc()` and `app.run()`, and the settings that the framework itself reads, with their ranges
 * and defaults.
 */
import { SvcError } from '../base/errors.ts';
import {
  bool,
  given,
  int,
  isObject,
  readOptions,
  shown,
  text,
  defined,
  optionalInt,
} from '../base/options.ts';
import { ACCESS_LOG_NEEDS, readShare } from '../http/middleware/access-log.ts';
import { RequestIDMiddleware } from '../http/middleware/request-id.ts';
import { USUAL_IDENTITY } from '../http/request-id.ts';
import { FORWARDED_HEADERS, readTrustProxy } from '../http/request/proxy.ts';
import { USUAL_SOCKET_MODE } from '../http/server/listen.ts';
import { ByteBudget } from '../http/request/budget.ts';
import { LIMIT_OPTIONS, TLS_OPTION, readLimits, readTlsOptions } from '../http/server/options.ts';
import type { Clock } from '../base/clock.ts';
import { settingOf, variableOf } from '../base/config.ts';
import type { Config, Env } from '../base/config.ts';
import type { Logger } from '../observability/log.ts';
import type { Tracer } from '../observability/tracer.ts';
import type { RoomBus } from '../cache/stores.ts';
import type { Middleware, StateMap } from '../http/contracts.ts';
import type { ForwardedHeader, TrustProxy } from '../http/request/proxy.ts';
import type { RequestDefaults } from '../http/request/request.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { LimitOptions, Limits, TlsOptions } from '../http/server/options.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { StopTimes } from '../operations/signals.ts';
import type { OpsOptions } from '../operations/operations.ts';
import type { ServeOptions } from '../operations/supervised.ts';

/**
 * Options of an application. An option that is `undefined` has its default. Settings that your own code reads
 * belong in `config`.
 */
export interface SvcOptions extends LimitOptions {
  /** Includes stack traces in error responses with status 5xx. Default false. */
  readonly debug?: boolean | undefined;
  /** Serves `/docs` and `/openapi.json`. Default: true, except in production. */
  readonly enableDocs?: boolean | undefined;
  /** Title, servers, tags and other members of the document at `/openapi.json`. */
  readonly openapi?: OpenApiOptions | undefined;
  /**
   * Secret of at least 32 bytes. It signs tokens and sessions that have no secret of their own. In a list,
   * the first secret signs, and the others are still accepted. Prefer the environment variables
   * SVC_AUTH_SECRET and, for the previous secret, SVC_AUTH_SECRET_PREVIOUS.
   */
  readonly authSecret?: string | readonly string[] | undefined;
  /** Version of your API, as the OpenAPI document shows it. Default `1.0.0`. */
  readonly version?: string | undefined;
  /** Title of your API, as the OpenAPI document shows it. Default `svc`. */
  readonly title?: string | undefined;
  /**
   * Environment: `development`, `test` or `production`. Default `production`; the environment variable
   * SVC_ENV overrides this option.
   */
  readonly env?: Env | undefined;
  /**
   * Maximum size of a request body in bytes, for routes without their own `maxBodyBytes`. Without it,
   * `json()`, `text()` and `form()` stop at 10,000,000.
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Existing folder for uploaded files that do not fit in memory, to which the process can write. They are
   * deleted when their request ends, unless `UploadFile.save()` has moved them. Default: the system's folder for temporary files, where they have no
   * name and cannot be moved. Environment variable SVC_UPLOAD_DIRECTORY.
   */
  readonly uploadDirectory?: string | undefined;
  /**
   * Decodes request bodies with `Content-Encoding` gzip, deflate, br or zstd. Default false: such bodies are
   * refused with 415. All body limits apply to the decoded size. A decoded body over 1 MiB may be at most 100
   * times as large as the encoded body.
   */
  readonly decompressBodies?: boolean | undefined;
  /**
   * Whether JSON without `Content-Type` is refused with 415, for routes that declare `body` and for
   * `req.json()`. Default true: a page of another origin can send such a body with the user's cookies, and
   * without a CORS preflight. The option `strictContentType` of a route overrides this one. Environment
   * variable SVC_STRICT_CONTENT_TYPE.
   */
  readonly strictContentType?: boolean | undefined;
  /**
   * Trusted proxies in front of the application. Their header fields determine `req.ip`, `req.scheme` and
   * `req.host`. Either the number of proxies, or a list of addresses, networks (`10.0.0.0/8`), `loopback`,
   * `private` and `linklocal`. In the environment variable SVC_TRUST_PROXY, commas separate them. Default:
   * none.
   */
  readonly trustProxy?: TrustProxy | undefined;
  /**
   * Header fields that the trusted proxies write. `x-forwarded` (default) means `X-Forwarded-For` and
   * `X-Forwarded-Proto`; `forwarded` means `Forwarded` (RFC 7239). Fields of the other kind are ignored,
   * because a proxy passes them on unchanged from the client. Environment variable SVC_FORWARDED_HEADER.
   */
  readonly forwardedHeader?: ForwardedHeader | undefined;
  /**
   * Whether `req.host` comes from `X-Forwarded-Host`, or from `host=` of `Forwarded`. Default false: it comes
   * from `Host`. True is safe only if every proxy sets or removes that field; otherwise clients choose the
   * host in generated links. Environment variable SVC_TRUST_FORWARDED_HOST.
   */
  readonly trustForwardedHost?: boolean | undefined;
  /**
   * Logs one line for each request: event `request` of the logger `svc_access`. A number 0 ... 1 logs this
   * share of the requests, and every response with status 500 or above. Default false. The environment
   * variable SVC_ACCESS_LOG overrides this option.
   */
  readonly accessLog?: boolean | number | undefined;
  /** Logger for the events of the application. The default writes to standard error. */
  readonly logger?: Logger | undefined;
  /**
   * Reports requests, handlers, dependencies, statements, calls to providers, background tasks and messages of
   * WebSockets as spans. Default: none. The manual of operations has a tracer for OpenTelemetry.
   */
  readonly tracer?: Tracer | undefined;
  /** Clock for all times and timers. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /**
   * Carries messages to WebSocket rooms, and messages about MCP sessions, to other processes. The default reaches
   * the worker processes of this program.
   */
  readonly roomBus?: RoomBus | undefined;
  /** Access to `/metrics`: a bearer token and a separate port. */
  readonly ops?: OpsOptions | undefined;
  /** Settings that your own code reads. loadDict() and environment variables `SVC_*` override them. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Options of `app.run()`. A missing address comes from the settings `host` and `port` (environment variables
 * SVC_HOST, SVC_PORT), or `socket` (SVC_SOCKET).
 */
export interface RunOptions {
  /** Host name or address. Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /**
   * Port, 0 ... 65535; 0 chooses a free one. Default: the setting `port`, else the environment variable PORT,
   * else 8000.
   */
  readonly port?: number | undefined;
  /**
   * Path of a Unix socket, instead of host and port. A socket file that a killed process left behind is
   * removed. Environment variable SVC_SOCKET.
   */
  readonly socket?: string | undefined;
  /**
   * Permissions of the socket file, 0 ... 0o777. Default 0o660: user and group of the process may connect.
   * The environment variable SVC_SOCKET_MODE is octal: `660`.
   */
  readonly socketMode?: number | undefined;
  /**
   * Time in seconds after SIGTERM in which the server still accepts connections, 0 ... 3600. Meanwhile
   * `/readyz` responds with 503, and each response ends its connection, so that balancers choose another
   * server. Default: 5 in production, at most a fifth of `shutdownTimeoutSeconds`; otherwise 0. SIGINT and
   * SIGHUP have no delay. Environment variable SVC_SHUTDOWN_DELAY_SECONDS.
   */
  readonly shutdownDelaySeconds?: number | undefined;
  /**
   * Time in seconds after a signal until the process exits, even if requests or hooks still run, 1 ... 3600.
   * Default 28, because Kubernetes kills a process after 30. Environment variable
   * SVC_SHUTDOWN_TIMEOUT_SECONDS.
   */
  readonly shutdownTimeoutSeconds?: number | undefined;
  /**
   * Maximum time in seconds for running requests after the delay, 0 ... 3600. Default: the rest of
   * `shutdownTimeoutSeconds`, less a fifth of it, at most 5, for hooks and plugins.
   */
  readonly drainSeconds?: number | undefined;
  /** Whether SIGTERM and SIGINT drain the server and end the process. Default true. */
  readonly handleSignals?: boolean | undefined;
  /**
   * Certificate and key for HTTPS. Default: HTTPS if the environment variables SVC_TLS_CERT and SVC_TLS_KEY
   * name files, otherwise plain HTTP.
   */
  readonly tls?: TlsOptions | undefined;
  /**
   * Number of worker processes that run this program and serve requests, 1 ... 1024, or `auto` for one per
   * CPU core. Default: this process serves the requests.
   */
  readonly workers?: number | 'auto' | undefined;
  /**
   * Runs this program in a child process, which serves the requests. The child is restarted when a file that
   * it imports is saved. Default false.
   */
  readonly reload?: boolean | undefined;
}

const FORWARDED_NEEDS = FORWARDED_HEADERS.map((name) => `"${name}"`).join(' or ');

const SVC_OPTIONS = {
  debug: bool(),
  enableDocs: bool(),
  authSecret: given<string | readonly string[]>('a string or a list of strings', (value) =>
    [value].flat().every((secret) => typeof secret === 'string'),
  ),
  version: text(),
  title: text(),
  env: text(),
  maxBodyBytes: given<number>(
    'an integer 0 or more',
    (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  ),
  uploadDirectory: text(),
  accessLog: given<boolean | number>(
    ACCESS_LOG_NEEDS,
    (value) => typeof value !== 'string' && readShare(value) !== undefined,
  ),
  decompressBodies: bool(),
  strictContentType: bool(),
  ...LIMIT_OPTIONS,
  trustProxy: given<TrustProxy>(), // EffectiveOptions checks this value, because a setting may override it
  forwardedHeader: given<ForwardedHeader>(FORWARDED_NEEDS, (value) =>
    FORWARDED_HEADERS.some((known) => known === value),
  ),
  trustForwardedHost: bool(),
  logger: given<Logger>('a logger', isObject),
  clock: given<Clock>('a clock', isObject),
  tracer: given<Tracer>('a tracer', isObject),
  roomBus: given<RoomBus>('a RoomBus', isObject),
  config: given<Record<string, unknown>>('an object', isObject),
  ops: given<OpsOptions>('an object', isObject),
  openapi: given<OpenApiOptions>('an object', isObject),
} as const;

/**
 * The options of `new Svc()` in two groups: objects that only the program can pass, and settings that
 * `config` and environment variables may override.
 */
interface ReadSvcOptions {
  readonly logger: Logger | undefined;
  readonly tracer: Tracer | undefined;
  readonly clock: Clock | undefined;
  readonly roomBus: RoomBus | undefined;
  readonly ops: OpsOptions;
  readonly openapi: OpenApiOptions | undefined;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** Checks the options of `new Svc()`. Separates objects such as `logger` from plain settings such as `env`. */
export function readSvcOptions(options: SvcOptions): ReadSvcOptions {
  const { logger, tracer, clock, config, ops, roomBus, openapi, ...settings } = readOptions(
    'Svc',
    options,
    SVC_OPTIONS,
  );
  return {
    logger,
    tracer,
    clock,
    roomBus,
    ops: ops ?? {},
    openapi,
    settings: { ...config, ...defined(settings) },
  };
}

/** Parses file permissions in octal, such as `660`. Returns undefined for any other text. */
export function readMode(text: string): number | undefined {
  return /^0?[0-7]{3}$/.test(text) ? Number.parseInt(text, 8) : undefined;
}

/** Returns the given socket, or else the given host and port, or else the address in the settings. */
export function readPlace(
  owner: string,
  { host, port, socket, socketMode }: ListenOptions,
  config: Config,
): ListenOptions {
  const isPort = host !== undefined || port !== undefined;
  if (isPort && socket !== undefined)
    throw new SvcError('E_OPTION_RANGE', [
      owner,
      'socket',
      'cannot be combined with "host" or "port": a server listens either on a socket or on a port',
      'both',
    ]);
  const path = socket ?? (isPort ? '' : config.get('socket', ''));
  if (path === '')
    return { host: host ?? config.get('host', '127.0.0.1'), port: port ?? config.get('port', usualPort()) };
  const mode =
    socketMode ??
    config.get('socketMode', USUAL_SOCKET_MODE, {
      cast: readMode,
      needs: 'permissions in octal, such as 660',
    });
  return { socket: path, socketMode: mode };
}

/** Default port: the environment variable PORT, which hosting platforms set, else 8000. */
function usualPort(): number {
  const text = process.env['PORT'] ?? '';
  if (text === '') return 8_000;
  const { accepts, needs } = RUN_OPTIONS.port;
  if (!/^\d+$/.test(text) || !accepts(Number(text)))
    throw new SvcError('E_CONFIG_CAST', ['PORT', needs, shown(text)]);
  return Number(text);
}

const RUN_OPTIONS = {
  host: text(),
  port: optionalInt(0, 65_535),
  socket: given<string>('the path of a socket', (value) => typeof value === 'string' && value !== ''),
  socketMode: given<number>('the permissions of a file, 0 … 0o777', int(0, 0, 0o777).accepts),
  shutdownDelaySeconds: optionalInt(0, 3_600),
  shutdownTimeoutSeconds: optionalInt(1, 3_600),
  drainSeconds: optionalInt(0, 3_600),
  handleSignals: bool(true),
  reload: bool(false),
  tls: TLS_OPTION,
  workers: given<number | 'auto'>(
    'an integer 1 … 1024, or "auto"',
    (value) => value === 'auto' || int(1, 1, 1_024).accepts(value),
  ),
} as const;

/** Checks the options of `app.run()`. Options that are missing come from the settings. */
export function readRunOptions(
  options: RunOptions,
  config: Config,
): {
  readonly server: ServeOptions;
  readonly workers: number | 'auto' | undefined;
  readonly reload: boolean;
} {
  const { handleSignals, workers, reload, tls, host, port, socket, socketMode, ...stop } = readOptions(
    'run()',
    options,
    RUN_OPTIONS,
  );
  if (workers !== undefined && reload)
    throw new SvcError('E_OPTION_RANGE', [
      'run()',
      'reload',
      'cannot be combined with "workers": with "reload", a single child process serves the application',
      'both',
    ]);
  const server: ServeOptions = {
    place: readPlace('run()', { host, port, socket, socketMode }, config),
    stop: readStopTimes(stop, config),
    handleSignals,
    tls: readTlsOptions(tls, config),
  };
  return { server, workers, reload };
}

/** Default of the delay after SIGTERM in production, and of the time that is kept for hooks, in milliseconds. */
const STOP_PART_MS = 5_000;

function readStopTimes(
  options: Pick<RunOptions, 'shutdownDelaySeconds' | 'shutdownTimeoutSeconds' | 'drainSeconds'>,
  config: Config,
): StopTimes {
  const { shutdownDelaySeconds, shutdownTimeoutSeconds, drainSeconds } = options;
  const totalMs = 1_000 * (shutdownTimeoutSeconds ?? readSeconds('shutdownTimeoutSeconds', 28, config));
  const partMs = Math.min(STOP_PART_MS, totalMs / 5);
  const usualDelay = config.env === 'production' ? partMs / 1_000 : 0;
  const delayMs = 1_000 * (shutdownDelaySeconds ?? readSeconds('shutdownDelaySeconds', usualDelay, config));
  const drainMs = drainSeconds === undefined ? Math.max(0, totalMs - delayMs - partMs) : drainSeconds * 1_000;
  if (delayMs + drainMs > totalMs)
    throw new SvcError('E_OPTION_RANGE', [
      'run()',
      'shutdownTimeoutSeconds',
      'needs at least "shutdownDelaySeconds" and "drainSeconds" together',
      `${totalMs / 1_000}, with ${delayMs / 1_000} and ${drainMs / 1_000}`,
    ]);
  return { delayMs, drainMs, totalMs };
}

function readSeconds(
  name: 'shutdownDelaySeconds' | 'shutdownTimeoutSeconds',
  fallback: number,
  config: Config,
): number {
  const value = config.get(name, fallback);
  const { accepts, needs } = RUN_OPTIONS[name];
  if (value !== fallback && !accepts(value))
    throw new SvcError('E_CONFIG_CAST', [settingOf(variableOf(name)), needs, shown(value)]);
  return value;
}

/** The settings that the framework itself reads, from `config`, environment variables and defaults. */
export class EffectiveOptions {
  readonly env: Env;
  readonly debug: boolean;
  readonly title: string;
  readonly version: string;
  readonly defaults: RequestDefaults;
  readonly limits: Limits;
  /** Share of the requests that are logged in the access log, 0 ... 1. */
  readonly accessLog: number;

  constructor(
    config: Config,
    state: StateMap,
    envOverride: Env | undefined,
    middleware: readonly Middleware[],
  ) {
    this.env = envOverride ?? config.env;
    this.debug = config.get('debug', false);
    this.title = config.get('title', 'svc');
    this.version = config.get('version', '1.0.0');
    const share = readShare(
      config.get('accessLog', undefined, { cast: readShare, needs: ACCESS_LOG_NEEDS }) ?? false,
    );
    if (share === undefined)
      throw new SvcError('E_CONFIG_CAST', [settingOf('SVC_ACCESS_LOG'), ACCESS_LOG_NEEDS, 'another value']);
    this.accessLog = share;
    const header = config.get<ForwardedHeader | undefined>('forwardedHeader', 'x-forwarded', {
      cast: (text) => FORWARDED_HEADERS.find((known) => known === text),
      needs: FORWARDED_NEEDS,
    })!;
    const saysHost = config.get('trustForwardedHost', false);
    const trusted = config.get('trustProxy', undefined, { cast: (text): unknown => text });
    const trust = trusted === undefined ? undefined : readTrustProxy(trusted, { header, saysHost });
    const identity =
      middleware.find((layer) => layer instanceof RequestIDMiddleware)?.identity ?? USUAL_IDENTITY;
    this.limits = readLimits(config);
    this.defaults = {
      state,
      maxBodyBytes: config.get('maxBodyBytes', Infinity),
      strictContentType: config.get('strictContentType', true),
      decompressBodies: config.get('decompressBodies', false),
      trust,
      identity,
      uploadDirectory: config.get('uploadDirectory', '') || undefined,
      budget: new ByteBudget(this.limits.maxHeldBytes),
    };
  }
}
