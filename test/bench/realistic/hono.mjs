/**
 * The realistic request (../realistic.ts) on Hono with its own middleware, and packages of its organisation
 * where it has none.
 */
import { serve } from '@hono/node-server';
import { useSession, useSessionStorage } from '@hono/session';
import { zValidator } from '@hono/zod-validator';
import { Hono } from 'hono';
import { compress } from 'hono/compress';
import { cors } from 'hono/cors';
import { csrf } from 'hono/csrf';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import { MemoryStore, RedisStore, rateLimiter } from 'hono-rate-limiter';
import pg from 'pg';
import { createClient } from 'redis';
import { z } from 'zod';

const { POSTGRES_URL, REDIS_URL, BENCH_SECRET } = process.env;
const pool = new pg.Pool({ connectionString: POSTGRES_URL, max: 10 });
const client = REDIS_URL === undefined ? undefined : await createClient({ url: REDIS_URL }).connect();
const Note = z.object({ id: z.int(), title: z.string(), body: z.string(), author: z.string() });

const app = new Hono();
app.use(requestId());
app.use(secureHeaders());
app.use(cors({ origin: 'https://app.example', credentials: true }));
app.use(
  rateLimiter({
    windowMs: 60_000,
    limit: 1_000_000,
    keyGenerator: (c) => c.env.incoming.socket.remoteAddress,
    store:
      client === undefined
        ? new MemoryStore()
        : new RedisStore({
            client: {
              scriptLoad: (script) => client.scriptLoad(script),
              evalsha: (sha, keys, args) => client.evalSha(sha, { keys, arguments: args.map(String) }),
              decr: (key) => client.decr(key),
              del: (key) => client.del(key),
            },
          }),
  }),
);
app.use(compress());
if (client !== undefined)
  app.use(
    useSessionStorage({
      get: async (id) => JSON.parse((await client.get(`session:${id}`)) ?? 'null'),
      set: (id, value) => client.set(`session:${id}`, JSON.stringify(value), { EX: 86_400 }),
      delete: (id) => client.del(`session:${id}`),
    }),
  );
app.use(useSession({ secret: BENCH_SECRET, duration: { absolute: 86_400 } }));
app.use(csrf({ origin: 'https://app.example' }));
app.get('/login', async (c) => {
  await c.var.session.update({ user: 'ada' });
  return c.text('ok');
});
app.get('/api/notes/:id', zValidator('param', z.object({ id: z.coerce.number().int() })), async (c) => {
  const session = await c.var.session.get();
  if (session?.user === undefined) return c.json({ error: 'not found' }, 404);
  const { rows } = await pool.query({
    name: 'note',
    text: 'select id, title, body, author from bench_note where id = $1',
    values: [c.req.valid('param').id],
  });
  return c.json(Note.parse(rows[0]));
});
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => console.log(`READY ${port}`));
