// env: SVC_AUTH_SECRET={secret}
/** The constructor of a dependency class hashes synchronously. */
import { scryptSync } from 'node:crypto';
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';
import type { Context } from 'svc';

class Digest extends Schema {
  text = Field(str, { maxLength: 200 });
}
class Hasher {
  readonly text: string;
  constructor({ req }: Context) { this.text = scryptSync(req.path, 'salt', 32).toString('hex'); }
}

export const app: Svc = new Svc({ title: 'Digests', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/plain', { me: Depends(BearerAuth()), response: Digest }, ({ me }) => ({ text: me.sub }));
app.get('/digest', { me: Depends(BearerAuth()), hasher: Depends(Hasher), response: Digest }, ({ me, hasher }) => ({ text: me.sub + hasher.text })); // SVC501
