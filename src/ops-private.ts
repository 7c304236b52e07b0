/**
 * Whether a request comes from a private network: who may read what is for operators.
 */
import { BlockList, isIP } from 'node:net';
import type { HttpRequest } from './http/contracts.ts';

const PRIVATE = new BlockList();
for (const [net, bits] of [['127.0.0.0', 8], ['10.0.0.0', 8], ['172.16.0.0', 12], ['192.168.0.0', 16], ['169.254.0.0', 16]] as const) PRIVATE.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of [['::1', 128], ['fc00::', 7], ['fe80::', 10]] as const) PRIVATE.addSubnet(net, bits, 'ipv6');

/** What proxies add. One that adds nothing cannot be told from a private client: `ops.metrics.auth` and `port` are for that. */
const PROXY_FIELDS = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-client-ip', 'true-client-ip', 'cf-connecting-ip'];

/** A private peer that does not speak for another: a proxy's neighbours are private, its clients are not. */
export function isPrivateRequest(req: HttpRequest): boolean {
  return isPrivatePeer(req.ip) && PROXY_FIELDS.every((name) => req.headers[name] === undefined);
}

/** Loopback, private (RFC 1918, RFC 4193) and link-local addresses. */
export function isPrivatePeer(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && PRIVATE.check(address, family === 6 ? 'ipv6' : 'ipv4');
}
