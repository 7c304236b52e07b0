// env: TOKEN_SALT={secret}
/** A dependency derives a key synchronously and blocks for a tenth of a second. */
import { pbkdf2Sync } from 'node:crypto';
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';
import type { Context } from 'svc';

class Fingerprint extends Schema {
  text = Field(str, { maxLength: 100 });
}

const salt = process.env['TOKEN_SALT'] ?? '';
const address = ({ req }: Context): string => req.ip;
const fingerprint = ({ req }: Context): string => pbkdf2Sync(req.ip, salt, 600_000, 32, 'sha256').toString('hex');

export const app: Svc = new Svc({ title: 'Visitors', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/address', { address: Depends(address), response: Fingerprint }, ({ address }) => ({ text: address }));
app.get('/fingerprint', { fingerprint: Depends(fingerprint), response: Fingerprint }, ({ fingerprint }) => ({ text: fingerprint })); // SVC501
