// env: SVC_AUTH_SECRET={secret} HOOK_SECRET={secret2}
/** Webhooks: verified signatures, no duplicates, work after the reply, and a protected list. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  BackgroundTasks,
  BadRequest,
  Depends,
  Field,
  Forbidden,
  MemoryRecordStore,
  RateLimitMiddleware,
  Router,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  datetime,
  int,
  list,
  literal,
  requireScopes,
  str,
} from 'svc';
import type { HttpRequest } from 'svc';

class PushEvent extends Schema {
  id = Field(str, { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9-]+$' });
  kind = Field(literal('push', 'release', 'issue'));
  repository = Field(str, { minLength: 1, maxLength: 140 });
}
class Delivery extends Schema {
  id = Field(str, { maxLength: 64 });
  kind = Field(str, { maxLength: 20 });
  receivedAt = Field(datetime);
}
class Statistics extends Schema {
  deliveries = Field(int, { ge: 0 });
}

const secret = process.env['HOOK_SECRET'] ?? '';
const seen = new MemoryRecordStore({ maxRecords: 10_000 });
const deliveries: { id: string; kind: string; receivedAt: Date }[] = [];

/** Returns the body, or throws when its signature does not match the secret. */
async function signedBody(req: HttpRequest): Promise<Buffer> {
  const bytes = Buffer.from(await req.body({ maxBytes: 256_000 }));
  const expected = createHmac('sha256', secret).update(bytes).digest();
  const shown = Buffer.from((req.headers['x-hub-signature-256'] ?? '').replace(/^sha256=/, ''), 'hex');
  if (shown.length !== expected.length || !timingSafeEqual(shown, expected))
    throw new Forbidden('the signature is invalid');
  return bytes;
}

export const app: Svc = new Svc({ title: 'Hooks', version: '1.0.0', trustProxy: 1, maxBodyBytes: 256_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 600 }));

app.post(
  '/hooks/pushes',
  {
    public: 'every body is signed with HOOK_SECRET',
    status: 202,
    response: Delivery,
    tasks: Depends(BackgroundTasks),
    mcp: false,
    description: 'Receives an event.',
    allow: [
      {
        rule: 'SVC301',
        reason: 'the signature is over the bytes as they came; the schema is applied behind it',
      },
    ],
  },
  async ({ req, tasks }) => {
    const bytes = await signedBody(req);
    const event = PushEvent.safeParse(JSON.parse(bytes.toString('utf8')));
    if (!event.ok) throw new BadRequest('the body is not an event');
    const delivery = { id: event.value.id, kind: event.value.kind, receivedAt: new Date() };
    if (seen.add(delivery.id, delivery.kind, 86_400_000))
      tasks.add(() => {
        deliveries.push(delivery);
      });
    return delivery;
  },
);

const reading = new Router({ deps: { me: Depends(requireScopes('hooks:read')) } });
reading.get(
  '/deliveries',
  { query: { size: Field(int, { default: 50, ge: 1, le: 500 }) }, response: list(Delivery) },
  ({ me, query }) => deliveries.filter(({ id }) => id !== me.sub).slice(-query.size),
);
reading.get('/statistics', { response: Statistics }, () => ({ deliveries: deliveries.length }));
app.includeRouter(reading);
