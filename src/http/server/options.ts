/**
 * The options of a server: its limits, and what TLS needs. Read without loading what does TLS, which most applications leave to a proxy.
 *
 *   connection --headers---> request --body---> answer -----------> taken --silence---> next request
 *              headersTimeoutMs                    sendTimeoutMs      keepAliveTimeoutMs
 *              \------ requestTimeoutMs ---/
 */
import { SvcError } from '../../base/errors.ts';
import { given, int, oneOf, readOptions, shown, text } from '../../base/options.ts';
import { variableOf } from '../../base/config.ts';
import type { Config } from '../../base/config.ts';
import type { OptionKind } from '../../base/options.ts';

/** The limits of a server, as options of an application. `undefined` means not given. */
export interface LimitOptions {
  /** Time for a client to send the head of a request, and limit of silence on a new connection, 10 ... 3_600_000 ms. Default 10_000. */
  readonly headersTimeoutMs?: number | undefined;
  /** How long it may take for the whole request with its body, 10 ... 86_400_000 ms. Default 30_000; a route may have its own. */
  readonly requestTimeoutMs?: number | undefined;
  /** How long it may be silent between two requests, 10 ... 3_600_000 ms. Default 5_000, with `trustProxy` 65_000: a proxy must be the first to close. */
  readonly keepAliveTimeoutMs?: number | undefined;
  /** Time for which a client may take no byte of a waiting response, 10 ... 3_600_000 ms. Default 30_000; then, or half as long later, its connection is cut. */
  readonly sendTimeoutMs?: number | undefined;
  /** Connections of a process, 1 ... 1_000_000. Default 20_000; beyond it 503, then they are closed. */
  readonly maxConnections?: number | undefined;
  /** Requests of a process that are not answered yet, 1 ... 1_000_000, streams included. Default 10_000; beyond it 503. */
  readonly maxInFlight?: number | undefined;
  /** Requests of one connection that are not answered yet, 1 ... 10_000. Default 20; one more is answered, and is the last of the connection. */
  readonly maxPipelined?: number | undefined;
  /** The most bytes of the fields and the target of a request, 1_024 ... 1_048_576. Default 16_384; beyond it 431. */
  readonly maxHeaderBytes?: number | undefined;
  /** Their most fields, 10 ... 10_000. Default 200; beyond it 431. */
  readonly maxHeaderFields?: number | undefined;
}

/** Every limit, read. */
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
const NAMES = Object.keys(KINDS) as (keyof Limits)[]; // KINDS is a literal
/** Proxies keep idle connections for a minute. If the server closed one first, the next request over it would fail. */
const BEHIND_PROXY_MS = 65_000;

/** The default limits. */
export const USUAL_LIMITS: Limits = Object.freeze(
  Object.fromEntries(NAMES.map((name) => [name, KINDS[name].fallback])) as unknown as Limits,
); // each name has been read

/** How each is read among the options of an application. @internal */
export const LIMIT_OPTIONS: { readonly [K in keyof Limits]: OptionKind<number | undefined> } =
  Object.fromEntries(
    NAMES.map((name) => [name, given<number>(KINDS[name].needs, KINDS[name].accepts)]),
  ) as Record<keyof Limits, OptionKind<number | undefined>>; // each name has been read

/** Parses `requestTimeoutMs` of a route. @internal */
export const REQUEST_TIMEOUT: OptionKind<number | undefined> = LIMIT_OPTIONS.requestTimeoutMs;

/** Reads the settings. @throws SvcError `E_CONFIG_CAST` */
export function readLimits(config: Config, isBehindProxy: boolean): Limits {
  const read = (name: keyof Limits): number => {
    const { needs, accepts, fallback } = KINDS[name];
    const value = config.get(
      name,
      isBehindProxy && name === 'keepAliveTimeoutMs' ? BEHIND_PROXY_MS : fallback,
    );
    if (!accepts(value))
      throw new SvcError('E_CONFIG_CAST', [
        `the setting "${name}" (${variableOf(name)})`,
        needs,
        shown(value),
      ]);
    return value;
  };
  return Object.fromEntries(NAMES.map((name) => [name, read(name)])) as unknown as Limits; // each name has been read
}

/** A certificate and its key: PEM, or paths of PEM files, which SIGHUP reads again. `undefined` means not given. */
export interface TlsOptions {
  /** The certificate, then its chain to the authority. Default: the file that SVC_TLS_CERT names. */
  readonly cert?: string | undefined;
  /** The private key. Default: the file that SVC_TLS_KEY names. */
  readonly key?: string | undefined;
  /** The passphrase of the key, if it is encrypted. */
  readonly passphrase?: string | undefined;
  /** Authorities of client certificates. If given, every client needs a certificate that one of them signed. */
  readonly ca?: string | undefined;
  /** Minimum version. Default `TLSv1.2`. */
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3' | undefined;
}

/** The options of TLS, read. */
export interface ServerTlsOptions extends TlsOptions {
  readonly cert: string;
  readonly key: string;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** The options above the settings `tlsCert` and `tlsKey`; undefined without TLS. @throws SvcError `E_TLS`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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

/** The option of run(). @internal */
export const TLS_OPTION: OptionKind<TlsOptions | undefined> = given<TlsOptions>(
  '{ cert, key }',
  (value) => typeof value === 'object' && value !== null,
);
