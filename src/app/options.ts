/**
 * Options of `new Svc()` and `app.run()`, and the framework's own settings: read once, with ranges and defaults.
 */
import { SvcError } from '../base/errors.ts';
import { bool, given, int, isObject, readOptions, text, defined, optionalInt } from '../base/options.ts';
import { ACCESS_LOG_NEEDS, readShare } from '../http/middleware/access-log.ts';
import { RequestIDMiddleware } from '../http/middleware/request-id.ts';
import { USUAL_IDENTITY } from '../http/request-id.ts';
import { FORWARDED_HEADERS, readTrustProxy } from '../http/request/proxy.ts';
import { USUAL_SOCKET_MODE } from '../http/server/listen.ts';
import { LIMIT_OPTIONS, TLS_OPTION, readLimits, readTlsOptions } from '../http/server/options.ts';
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { Logger } from '../observability/log.ts';
import type { RoomBus } from '../cache/stores.ts';
import type { Middleware, StateMap } from '../http/contracts.ts';
import type { ForwardedHeader, TrustProxy } from '../http/request/proxy.ts';
import type { RequestDefaults } from '../http/request/request.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { LimitOptions, Limits, ServerTlsOptions, TlsOptions } from '../http/server/options.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { OpsOptions } from '../operations/operations.ts';

/** Options of an application. `undefined` means not given. Settings of your own go under `config`. */
export interface SvcOptions extends LimitOptions {
  /** Stack traces in 5xx answers. Default false. */
  readonly debug?: boolean | undefined;
  /** `/docs` and `/openapi.json`. Default: true outside production. */
  readonly enableDocs?: boolean | undefined;
  /** Title, servers, tags and other members of the document at `/openapi.json`. */
  readonly openapi?: OpenApiOptions | undefined;
  /**
   * Signs tokens and sessions that have no secret of their own: at least 32 bytes. The first secret of a list signs, the others
   * are still accepted. Keep it in the variable SVC_AUTH_SECRET instead, and the one before in SVC_AUTH_SECRET_PREVIOUS.
   */
  readonly authSecret?: string | readonly string[] | undefined;
  /** The version of your interface, for documents. Default `1.0.0`. */
  readonly version?: string | undefined;
  /** Its title. Default `svc`. */
  readonly title?: string | undefined;
  /** Default `production`; the variable SVC_ENV wins. */
  readonly env?: Env | undefined;
  /** Limit of every request body in bytes, unless its route has a `maxBodyBytes`. Default: only the limits of `json()`, `text()` and `form()`. */
  readonly maxBodyBytes?: number | undefined;
  /** Where uploaded files are kept that do not fit in memory, until their requests are over. Default: the system's folder for temporary files. SVC_UPLOAD_DIRECTORY. */
  readonly uploadDirectory?: string | undefined;
  /**
   * Decodes bodies with `Content-Encoding` gzip, deflate, br or zstd. Default false: 415. The decoded size counts for every limit, and
   * may be at most 100 times the encoded size if it is more than 1 MiB.
   */
  readonly decompressBodies?: boolean | undefined;
  /**
   * Whether content without `Content-Type` is 415 where a route declares `body`. Default true: a page of another origin can send such
   * content with a user's cookies, and no preflight asks first. A route's `strictContentType` wins. SVC_STRICT_CONTENT_TYPE.
   */
  readonly strictContentType?: boolean | undefined;
  /**
   * Trusted proxies in front, which determine `req.ip`, `req.scheme` and `req.host`: their number, or their addresses, networks
   * (`10.0.0.0/8`), `loopback`, `private`, `linklocal`. In the variable SVC_TRUST_PROXY with commas. Default: none.
   */
  readonly trustProxy?: TrustProxy | undefined;
  /**
   * The fields that these proxies write: `x-forwarded` (default) is `X-Forwarded-For` with `X-Forwarded-Proto`, `forwarded` is
   * `Forwarded` (RFC 7239). The other is ignored, because proxies pass on a client's values. SVC_FORWARDED_HEADER.
   */
  readonly forwardedHeader?: ForwardedHeader | undefined;
  /**
   * Whether `req.host` comes from `X-Forwarded-Host`, or from `host=` of `Forwarded`. Default false: from `Host`. Safe only if every
   * proxy sets or removes the field; otherwise clients choose the host of links. SVC_TRUST_FORWARDED_HOST.
   */
  readonly trustForwardedHost?: boolean | undefined;
  /**
   * Logs one line for each request, by the logger `svc_access`, event `request`. A number 0 ... 1 logs that share of requests, and
   * every response of 500 and above. Default false. The variable SVC_ACCESS_LOG wins.
   */
  readonly accessLog?: boolean | number | undefined;
  /** Where events go. Default: standard error. */
  readonly logger?: Logger | undefined;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
  /** Carries messages to the rooms of WebSockets in other processes. Default: among the workers of this program. */
  readonly roomBus?: RoomBus | undefined;
  /** Access to `/metrics`, and its port. */
  readonly ops?: OpsOptions | undefined;
  /** Settings of your own, below loadDict() and the variables `SVC_*`. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
}

/** Where to listen. Missing options come from the settings `host` and `port` (SVC_HOST, SVC_PORT), or `socket`. */
export interface RunOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /** 0 ... 65535; 0 takes a free one. Default 8000. */
  readonly port?: number | undefined;
  /** Path of a Unix socket to listen on instead of host and port. The file of a killed process is removed. SVC_SOCKET. */
  readonly socket?: string | undefined;
  /** The permissions of the socket's file, 0 ... 0o777. Default 0o660: the user and the group of the process. SVC_SOCKET_MODE in octal: `660`. */
  readonly socketMode?: number | undefined;
  /** How long requests in flight may take after SIGTERM, in seconds, 0 ... 3600. Default 30. */
  readonly drainSeconds?: number | undefined;
  /** Whether SIGTERM and SIGINT drain and end the process. Default true. */
  readonly handleSignals?: boolean | undefined;
  /** Speaks TLS. Default: where SVC_TLS_CERT and SVC_TLS_KEY name a certificate and its key. */
  readonly tls?: TlsOptions | undefined;
  /** Serves with so many processes that each run this program, 1 ... 1024, or with one for each core. Default: with this one. */
  readonly workers?: number | 'auto' | undefined;
  /** Serves with another process that runs this program, and starts it anew when a file that it imports is saved. Default false. */
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
  trustProxy: given<TrustProxy>(), // read with the other settings
  forwardedHeader: given<ForwardedHeader>(FORWARDED_NEEDS, (value) =>
    FORWARDED_HEADERS.some((known) => known === value),
  ),
  trustForwardedHost: bool(),
  logger: given<Logger>('a logger', isObject),
  clock: given<Clock>('a clock', isObject),
  roomBus: given<RoomBus>('a RoomBus', isObject),
  config: given<Record<string, unknown>>('an object', isObject),
  ops: given<OpsOptions>('an object', isObject),
  openapi: given<OpenApiOptions>('an object', isObject),
} as const;

/** The options of `new Svc()`, apart: objects that the application uses, and settings, which `config` and variables may override. */
interface ReadSvcOptions {
  readonly logger: Logger | undefined;
  readonly clock: Clock | undefined;
  readonly roomBus: RoomBus | undefined;
  readonly ops: OpsOptions;
  readonly openapi: OpenApiOptions | undefined;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function readSvcOptions(options: SvcOptions): ReadSvcOptions {
  const { logger, clock, config, ops, roomBus, openapi, ...settings } = readOptions(
    'Svc',
    options,
    SVC_OPTIONS,
  );
  return {
    logger,
    clock,
    roomBus,
    ops: ops ?? {},
    openapi,
    settings: { ...config, ...defined(settings) },
  };
}

const MODE_NEEDS = 'the permissions of a file, 0 … 0o777';

function isMode(value: unknown): boolean {
  return int(0, 0, 0o777).accepts(value);
}

/** Reads permissions in octal: `660`. Undefined for other texts. */
export function readMode(text: string): number | undefined {
  return /^0?[0-7]{3}$/.test(text) ? Number.parseInt(text, 8) : undefined;
}

/**
 * Where to listen: at the socket that is given, else at the host or port that is given, else as the settings say.
 *
 * @throws SvcError `E_OPTION_RANGE` for a socket beside a host or port, `E_CONFIG_CAST`
 */
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
      'to be omitted, because "host" or "port" is set',
      'both',
    ]);
  const path = socket ?? (isPort ? '' : config.get('socket', ''));
  if (path === '')
    return { host: host ?? config.get('host', '127.0.0.1'), port: port ?? config.get('port', 8000) };
  const mode =
    socketMode ??
    config.get('socketMode', USUAL_SOCKET_MODE, {
      cast: readMode,
      needs: 'permissions in octal, such as 660',
    });
  return { socket: path, socketMode: mode };
}

const RUN_OPTIONS = {
  host: given<string>('a string', (value) => typeof value === 'string'),
  port: optionalInt(0, 65_535),
  socket: given<string>('the path of a socket', (value) => typeof value === 'string' && value !== ''),
  socketMode: given<number>(MODE_NEEDS, isMode),
  drainSeconds: int(30, 0, 3_600),
  handleSignals: bool(true),
  reload: bool(false),
  tls: TLS_OPTION,
  workers: given<number | 'auto'>(
    'an integer 1 … 1024, or "auto"',
    (value) => value === 'auto' || int(1, 1, 1_024).accepts(value),
  ),
} as const;

/** The address, the drain time and the TLS settings of a server. */
export interface ServerOptions {
  readonly place: ListenOptions;
  readonly drainMs: number;
  readonly handleSignals: boolean;
  /** Undefined: no TLS. */
  readonly tls: ServerTlsOptions | undefined;
}

/** Options of `run()`; missing ones come from the settings. @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_TLS` */
export function readRunOptions(
  options: RunOptions,
  config: Config,
): {
  readonly server: ServerOptions;
  readonly workers: number | 'auto' | undefined;
  readonly reload: boolean;
} {
  const { drainSeconds, handleSignals, workers, reload, tls, ...place } = readOptions(
    'run()',
    options,
    RUN_OPTIONS,
  );
  if (workers !== undefined && reload)
    throw new SvcError('E_OPTION_RANGE', [
      'run()',
      'reload',
      'to be omitted, because "workers" is set',
      'both',
    ]);
  const server: ServerOptions = {
    place: readPlace('run()', place, config),
    drainMs: drainSeconds * 1_000,
    handleSignals,
    tls: readTlsOptions(tls, config),
  };
  return { server, workers, reload };
}

/** The framework's own settings. */
export class EffectiveOptions {
  readonly env: Env;
  readonly debug: boolean;
  readonly title: string;
  readonly version: string;
  readonly defaults: RequestDefaults;
  readonly limits: Limits;
  /** The part of all requests that has a line in the access log. */
  readonly accessLog: number;
  /** Whether declared JSON bodies need a Content-Type. */
  readonly strictContentType: boolean;

  /** @throws SvcError `E_CONFIG_CAST`, `E_TRUST_PROXY` */
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
      throw new SvcError('E_CONFIG_CAST', [
        'the setting "accessLog" (SVC_ACCESS_LOG)',
        ACCESS_LOG_NEEDS,
        'another value',
      ]);
    this.accessLog = share;
    this.strictContentType = config.get('strictContentType', true);
    const header = config.get<ForwardedHeader | undefined>('forwardedHeader', 'x-forwarded', {
      cast: (text) => FORWARDED_HEADERS.find((known) => known === text),
      needs: FORWARDED_NEEDS,
    })!;
    const saysHost = config.get('trustForwardedHost', false);
    const trusted = config.get('trustProxy', undefined, { cast: (text): unknown => text });
    const trust = trusted === undefined ? undefined : readTrustProxy(trusted, { header, saysHost });
    const identity =
      middleware.find((layer) => layer instanceof RequestIDMiddleware)?.identity ?? USUAL_IDENTITY;
    this.limits = readLimits(config, trust !== undefined);
    this.defaults = {
      state,
      maxBodyBytes: config.get('maxBodyBytes', Infinity),
      decompressBodies: config.get('decompressBodies', false),
      trust,
      identity,
      uploadDirectory: config.get('uploadDirectory', '') || undefined,
    };
  }
}
