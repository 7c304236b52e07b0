/**
 * What can be set about proxies in front. Apart from proxy.ts, which reads what they say: most servers trust none.
 */

/** How many proxies stand in front (1 … 32), or which: addresses, networks (`10.0.0.0/8`), `loopback`, `private`, `linklocal`. */
export type TrustProxy = number | string | readonly string[];

/** The fields that the proxies write: `X-Forwarded-For` with `X-Forwarded-Proto`, or `Forwarded`. The others belong to the client. */
export type ForwardedHeader = (typeof FORWARDED_HEADERS)[number];
/** All of them, the default first. @internal */
export const FORWARDED_HEADERS = ['x-forwarded', 'forwarded'] as const;

/** Which fields of trusted proxies count. @internal */
export interface ForwardedFields {
  readonly header: ForwardedHeader;
  /** Whether they say the host, too: many proxies pass on the `X-Forwarded-Host` of the client. */
  readonly saysHost: boolean;
}
