/**
 * Options of a server: its limits, and the options of TLS. This file does not load the code of TLS, because
 * in most applications a proxy terminates TLS.
 *
 * Which phase each time limit covers:
 *   connection --headers---> request --body---> answer -----------> taken --silence---> next request
 *              headersTimeoutMs                    sendTimeoutMs      keepAliveTimeoutMs
 *              \------ requestTimeoutMs ---/
 */
import { SvcError } from '../../base/errors.ts';
import { given, int, oneOf, readOptions, shown, text } from '../../base/options.ts';
import { settingOf, variableOf } from '../../base/config.ts';
import type { Config } from '../../base/config.ts';
import type { OptionKind } from '../../base/options.ts';

/** Options of an application that limit its server. An option that is `undefined` has its default. */
export interface LimitOptions {
  /**
   * Maximum time for receiving the head of a request, 10 ... 3_600_000 ms. Default 10_000. For the first
   * request it is counted from the start of the connection.
   */
  readonly headersTimeoutMs?: number | undefined;
  /**
   * Maximum time for receiving a whole request with its body, 10 ... 86_400_000 ms. Default 30_000; a route
   * may set its own.
   */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * Maximum time that a connection stays idle between two requests, 10 ... 3_600_000 ms. Default 5_000; with
   * `trustProxy` 65_000, because a proxy should close the connection before the server does.
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /**
   * Maximum time without progress while a client does not read its response, 10 ... 3_600_000 ms. Default
   * 30_000. The connection is closed after this time, at most half as long later.
   */
  readonly sendTimeoutMs?: number | undefined;
  /**
   * Maximum number of connections of a process, 1 ... 1_000_000. Default 20_000. A tenth more, at most 1,000,
   * get 503; all others are closed at once.
   */
  readonly maxConnections?: number | undefined;
  /**
   * Maximum number of requests that a process handles or responds to at the same time, streams included, 1
   * ... 1_000_000. Default 10_000; further ones get 503.
   */
  readonly maxInFlight?: number | undefined;
  /**
   * Maximum number of requests of one connection that wait for their responses, 1 ... 10_000. Default 20. One
   * more is handled, and then the connection is closed.
   */
  readonly maxPipelined?: number | undefined;
  /**
   * Maximum size of target and header fields of a request in bytes, 1_024 ... 1_048_576. Default 16_384;
   * larger ones get 431.
   */
  readonly maxHeaderBytes?: number | undefined;
  /** Maximum number of header fields of a request, 10 ... 10_000. Default 200; more get 431. */
  readonly maxHeaderFields?: number | undefined;
}

/** The limits with all values set. */
export type Limits = { readonly [K in keyof Required<LimitOptions>]: number };

const KINDS: { readonly [K in keyof Limits]: OptionKind<number> } = {
  headersTimeoutMs: int(10_000, 10, 3_600_000),
  requestTimeoutMs: int(30_000, 10, 86_400_000),
  keepAliveTimeoutMs: int(5_000, 10, 3_600_000),
  sendTimeoutMs: int(30_000, 10, 3_600_000),
  maxConnections: int(20_000, 1, 1_000_000),
  maxInFlight: int(10_000, 1, 1_000_000),
  maxPipelined: int(20, 1, 10_000),
  maxHeaderBytes: int(16_384, 1_024, 1_048_576),
  maxHeaderFields: int(200, 10, 10_000),
};
// the cast is safe: KINDS is an object literal with the keys of Limits
const NAMES = Object.keys(KINDS) as (keyof Limits)[];
/**
 * Default of `keepAliveTimeoutMs` behind a proxy. Proxies keep idle connections for a minute. If the server
 * closed such a connection before, the next request that the proxy sends on it would fail.
 */
const BEHIND_PROXY_MS = 65_000;

/** The default limits. */
export const USUAL_LIMITS: Limits = Object.freeze(
  Object.fromEntries(NAMES.map((name) => [name, KINDS[name].fallback])) as unknown as Limits,
); // the cast is safe: NAMES has every name of Limits

/** Definitions of the limits as options of an application: default and range, by name. @internal */
export const LIMIT_OPTIONS: { readonly [K in keyof Limits]: OptionKind<number | undefined> } =
  Object.fromEntries(
    NAMES.map((name) => [name, given<number>(KINDS[name].needs, KINDS[name].accepts)]),
    // the cast is safe: NAMES has every name of Limits
  ) as Record<keyof Limits, OptionKind<number | undefined>>;

/** Definition of the option `requestTimeoutMs` of a route: its range. @internal */
export const REQUEST_TIMEOUT: OptionKind<number | undefined> = LIMIT_OPTIONS.requestTimeoutMs;

/** Reads the limits from the configuration. @throws SvcError `E_CONFIG_CAST` */
export function readLimits(config: Config, isBehindProxy: boolean): Limits {
  const read = (name: keyof Limits): number => {
    const { needs, accepts, fallback } = KINDS[name];
    const value = config.get(
      name,
      isBehindProxy && name === 'keepAliveTimeoutMs' ? BEHIND_PROXY_MS : fallback,
    );
    if (!accepts(value))
      throw new SvcError('E_CONFIG_CAST', [settingOf(variableOf(name)), needs, shown(value)]);
    return value;
  };
  // the cast is safe: NAMES has every name of Limits
  return Object.fromEntries(NAMES.map((name) => [name, read(name)])) as unknown as Limits;
}

/**
 * A certificate and its key: PEM text, or paths of PEM files, which SIGHUP reads again. An option that is
 * `undefined` has its default.
 */
export interface TlsOptions {
  /** The certificate, followed by its chain to the authority. Default: the file named by SVC_TLS_CERT. */
  readonly cert?: string | undefined;
  /** The private key. Default: the file named by SVC_TLS_KEY. */
  readonly key?: string | undefined;
  /** The passphrase of the key, if it is encrypted. */
  readonly passphrase?: string | undefined;
  /**
   * Certificate authorities for client certificates. If given, every client must present a certificate that
   * one of them signed.
   */
  readonly ca?: string | undefined;
  /** Minimum TLS version. Default `TLSv1.2`. */
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3' | undefined;
}

/** The options of TLS with all defaults set. */
export interface ServerTlsOptions extends TlsOptions {
  readonly cert: string;
  readonly key: string;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/**
 * Reads the options, with the settings `tlsCert` and `tlsKey` as defaults; undefined without TLS.
 * @throws SvcError `E_TLS`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
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
    throw new SvcError('E_TLS', [cert === undefined ? 'there is no certificate' : 'there is no key']);
  return { ...rest, cert, key, minVersion };
}

const TEXT = { cast: String };

/** Definition of the option `tls` of run(). @internal */
export const TLS_OPTION: OptionKind<TlsOptions | undefined> = given<TlsOptions>(
  '{ cert, key }',
  (value) => typeof value === 'object' && value !== null,
);
