/** The realistic request (../realistic.ts) on Fastify with its usual plugins. */
import compress from '@fastify/compress';
import cookie from '@fastify/cookie';
import cors from '@fastify/cors';
import csrf from '@fastify/csrf-protection';
import helmet from '@fastify/helmet';
import rateLimit from '@fastify/rate-limit';
import session from '@fastify/session';
import { RedisStore } from 'connect-redis';
import Fastify from 'fastify';
import { Redis } from 'ioredis';
import pg from 'pg';
import { createClient } from 'redis';

const { POSTGRES_URL, REDIS_URL, BENCH_SECRET } = process.env;
const app = Fastify({ genReqId: () => crypto.randomUUID(), requestIdHeader: 'x-request-id' });
const pool = new pg.Pool({ connectionString: POSTGRES_URL, max: 10 });
const client = REDIS_URL === undefined ? undefined : await createClient({ url: REDIS_URL }).connect();
await app.register(helmet);
await app.register(cors, { origin: ['https://app.example'], credentials: true });
await app.register(rateLimit, {
  max: 1_000_000,
  timeWindow: '1 minute',
  ...(REDIS_URL !== undefined && { redis: new Redis(REDIS_URL) }),
});
await app.register(compress);
await app.register(cookie);
await app.register(session, {
  secret: BENCH_SECRET,
  cookie: { secure: false },
  saveUninitialized: false,
  ...(client && { store: new RedisStore({ client, prefix: 'session:' }) }),
});
await app.register(csrf, { sessionPlugin: '@fastify/session' });
app.addHook('onRequest', async (req, reply) => {
  reply.header('x-request-id', req.id);
});
app.get('/login', async (req) => {
  req.session.set('user', 'ada');
  return 'ok';
});
const text = { type: 'string' };
const schema = {
  params: { type: 'object', properties: { id: { type: 'integer' } } },
  response: {
    200: { type: 'object', properties: { id: { type: 'integer' }, title: text, body: text, author: text } },
  },
};
app.get('/api/notes/:id', { schema }, async (req, reply) => {
  if (req.session.get('user') === undefined) return reply.code(404).send({ error: 'not found' });
  const { rows } = await pool.query({
    name: 'note',
    text: 'select id, title, body, author from bench_note where id = $1',
    values: [req.params.id],
  });
  return rows[0];
});
await app.listen({ port: 0, host: '127.0.0.1' });
console.log(`READY ${app.server.address().port}`);
