/**
 * What TLS needs, as options: read without loading what does TLS, which most applications leave to a proxy.
 */
import { SvcError } from '../../base/errors.ts';
import { given, oneOf, readOptions, text } from '../../base/options.ts';
import type { Config } from '../../base/config.ts';
import type { OptionKind } from '../../base/options.ts';

/** A certificate and its key: PEM, or paths of PEM files, which SIGHUP reads again. `undefined` means not given. */
export interface TlsOptions {
  /** The certificate, then those that lead to its authority. Default: the file that SVC_TLS_CERT names. */
  readonly cert?: string | undefined;
  /** Its private key. Default: the file that SVC_TLS_KEY names. */
  readonly key?: string | undefined;
  /** What the key is encrypted with, if it is. */
  readonly passphrase?: string | undefined;
  /** The authorities of clients: given, every client must show a certificate that one of them has signed. */
  readonly ca?: string | undefined;
  /** The oldest version that is spoken. Default `TLSv1.2`. */
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3' | undefined;
}

/** What a server speaks TLS with. */
export interface ServerTlsOptions extends TlsOptions {
  readonly cert: string;
  readonly key: string;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** The options above the settings `tlsCert` and `tlsKey`; undefined where nobody asks for TLS. @throws SvcError `E_TLS`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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
