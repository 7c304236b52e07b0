/**
 * Options of a server: limits and TLS. This file does not import the TLS code, because most applications do
 * not need it: a proxy terminates TLS.
 */
import { SvcError } from '../../base/errors.ts';
import { given, int, oneOf, readOptions, shown, text } from '../../base/options.ts';
import { settingOf, variableOf } from '../../base/config.ts';
import { usualBudgetBytes } from '../request/budget.ts';
import type { Config } from '../../base/config.ts';
import type { OptionKind } from '../../base/options.ts';

/** Limits of the server of an application. An option that is `undefined` has its default. */
export interface LimitOptions {
  /**
   * Maximum time for receiving the head of a request, 10 ... 3_600_000 ms. Default 10_000. For the first
   * request of a connection, the time begins when the connection is opened.
   */
  readonly headersTimeoutMs?: number | undefined;
  /**
   * Maximum time for receiving a request including its body, 10 ... 86_400_000 ms. Default 30_000. A route
   * may override it.
   */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * Maximum idle time of a connection between two requests, 10 ... 3_600_000 ms. Default 75_000: balancers
   * keep idle connections for about a minute, and should close them before the server does.
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /**
   * Maximum time in which a client reads nothing of its response, 10 ... 3_600_000 ms. Default 30_000. After
   * this time, or up to half as long later, the connection is closed.
   */
  readonly sendTimeoutMs?: number | undefined;
  /**
   * Maximum number of connections of a process, 1 ... 1_000_000. Default 20_000. Up to a tenth more
   * connections, at most 1,000, are accepted, but their requests get 503. All further connections are closed
   * at once. Above 80 % of the maximum, connections that are idle longest are closed, down to 75 %.
   */
  readonly maxConnections?: number | undefined;
  /**
   * Maximum number of requests that a process serves at the same time, 1 ... 1_000_000. Default
   * 10_000. Further requests get 503. A streamed response counts until it ends.
   */
  readonly maxInFlight?: number | undefined;
  /**
   * Maximum number of requests of a connection that wait for their responses, 1 ... 10_000. Default 20. One
   * further request is handled, and then the connection is closed.
   */
  readonly maxPipelined?: number | undefined;
  /**
   * Maximum size of request target and header fields together in bytes, 1_024 ... 1_048_576. Default 16_384.
   * Larger requests get 431.
   */
  readonly maxHeaderBytes?: number | undefined;
  /**
   * Maximum number of bytes of received request bodies and WebSocket messages that a process holds at the same time,
   * 65_536 ... 2^53-1. Default: a sixteenth of the heap's maximum size, at least 10 MB. Further bodies get 503,
   * further WebSocket messages close with 1013. A client may hold half of it.
   */
  readonly maxHeldBytes?: number | undefined;
  /** Maximum number of header fields of a request, 10 ... 10_000. Default 200. Requests with more get 431. */
  readonly maxHeaderFields?: number | undefined;
}

/** All limits of a server, with defaults filled in. */
export type Limits = { readonly [K in keyof Required<LimitOptions>]: number };

const KINDS: { readonly [K in keyof Limits]: OptionKind<number> } = {
  headersTimeoutMs: int(10_000, 10, 3_600_000),
  requestTimeoutMs: int(30_000, 10, 86_400_000),
  keepAliveTimeoutMs: int(75_000, 10, 3_600_000),
  sendTimeoutMs: int(30_000, 10, 3_600_000),
  maxConnections: int(20_000, 1, 1_000_000),
  maxInFlight: int(10_000, 1, 1_000_000),
  maxPipelined: int(20, 1, 10_000),
  maxHeaderBytes: int(16_384, 1_024, 1_048_576),
  maxHeaderFields: int(200, 10, 10_000),
  maxHeldBytes: int(usualBudgetBytes(), 65_536, Number.MAX_SAFE_INTEGER),
};
const NAMES = Object.keys(KINDS) as (keyof Limits)[];

/** Limits of a server without any options. */
export const USUAL_LIMITS: Limits = Object.freeze(
  Object.fromEntries(NAMES.map((name) => [name, KINDS[name].fallback])) as unknown as Limits,
);

/** Range of each limit, for readOptions(). @internal */
export const LIMIT_OPTIONS: { readonly [K in keyof Limits]: OptionKind<number | undefined> } =
  Object.fromEntries(
    NAMES.map((name) => [name, given<number>(KINDS[name].needs, KINDS[name].accepts)]),
  ) as Record<keyof Limits, OptionKind<number | undefined>>;

/** Range of the option `requestTimeoutMs` of a route, for readOptions(). @internal */
export const REQUEST_TIMEOUT: OptionKind<number | undefined> = LIMIT_OPTIONS.requestTimeoutMs;

export function readLimits(config: Config): Limits {
  const read = (name: keyof Limits): number => {
    const { needs, accepts, fallback } = KINDS[name];
    const value = config.get(name, fallback);
    if (!accepts(value))
      throw new SvcError('E_CONFIG_CAST', [settingOf(variableOf(name)), needs, shown(value)]);
    return value;
  };
  return Object.fromEntries(NAMES.map((name) => [name, read(name)])) as unknown as Limits;
}

/**
 * Certificate and key for TLS: PEM text, or paths of PEM files. In PEM text, `\n` may stand for line breaks. The
 * signal SIGHUP reads the files again. An option that is `undefined` has its default.
 */
export interface TlsOptions {
  /**
   * The certificate, followed by the intermediate certificates. Default: the file that SVC_TLS_CERT names.
   */
  readonly cert?: string | undefined;
  /** The private key of the certificate. Default: the file that SVC_TLS_KEY names. */
  readonly key?: string | undefined;
  /** The passphrase of the key, if it is encrypted. */
  readonly passphrase?: string | undefined;
  /** Certificate authorities. If set, every client must present a certificate that one of them has signed. */
  readonly ca?: string | undefined;
  /** Minimum TLS version. Default `TLSv1.2`. */
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3' | undefined;
}

export interface ServerTlsOptions extends TlsOptions {
  readonly cert: string;
  readonly key: string;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/**
 * Checks the TLS options. Certificate and key default to the settings `tlsCert` and `tlsKey`. Returns
 * undefined, which means plain HTTP, if neither options nor settings are given.
 */
export function readTlsOptions(
  options: TlsOptions | undefined,
  config: Config,
): ServerTlsOptions | undefined {
  const { minVersion, ...rest } = readOptions('tls', options ?? {}, {
    cert: text(),
    key: text(),
    passphrase: text(),
    ca: text(),
    minVersion: oneOf(['TLSv1.2', 'TLSv1.3'], 'TLSv1.2'),
  });
  const cert = rest.cert ?? config.get('tlsCert', undefined, TEXT);
  const key = rest.key ?? config.get('tlsKey', undefined, TEXT);
  if (options === undefined && cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined)
    throw new SvcError('E_TLS', [
      cert === undefined ? 'no certificate is configured' : 'no private key is configured',
    ]);
  return { ...rest, cert, key, minVersion };
}

const TEXT = { cast: String };

/** Accepted values of the option `tls` of `app.run()`, for readOptions(). @internal */
export const TLS_OPTION: OptionKind<TlsOptions | undefined> = given<TlsOptions>(
  '{ cert, key }',
  (value) => typeof value === 'object' && value !== null,
);
