/** The realistic request (../realistic.ts) on svc. */
import {
  CORSMiddleware,
  CSRFMiddleware,
  CompressionMiddleware,
  Depends,
  Field,
  NotFound,
  RateLimitMiddleware,
  Schema,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
  int,
  str,
} from 'svc';
import { DatabasePlugin, RedisPlugin, RedisRateLimitStore, RedisRecordStore, db } from 'svc/db';

class Note extends Schema {
  id = Field(int);
  title = Field(str);
  body = Field(str);
  author = Field(str);
}

const app = new Svc({ env: 'production', authSecret: process.env.BENCH_SECRET });
const redis = process.env.REDIS_URL === undefined ? undefined : new RedisPlugin(process.env.REDIS_URL);
if (redis !== undefined) app.register(redis);
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://app.example'], credentials: true }));
app.use(
  new RateLimitMiddleware({
    perMinute: 1_000_000,
    ...(redis && { store: new RedisRateLimitStore(redis.client) }),
  }),
);
app.use(new CompressionMiddleware());
app.use(
  new SessionMiddleware({
    ...(redis && { store: new RedisRecordStore(redis.client, { prefix: 'session:' }) }),
  }),
);
app.use(new CSRFMiddleware());
app.register(new DatabasePlugin(process.env.POSTGRES_URL));
app.get('/login', { public: 'bench' }, ({ req }) => {
  req.session.set('user', 'ada');
  return 'ok';
});
app.get(
  '/api/notes/{id:int}',
  { response: Note, db: Depends(db), public: 'bench' },
  async ({ params, db, req }) => {
    if (req.session.get('user') === undefined) throw new NotFound();
    const row = await db.fetchOne('select id, title, body, author from bench_note where id = ?', [params.id]);
    if (row === undefined) throw new NotFound();
    return row;
  },
);
const { port } = await app.run({ port: 0 });
console.log(`READY ${port}`);
