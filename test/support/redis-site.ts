/**
 * One of several processes that serve the same application, and share all data in Redis. Sends its address by
 * IPC. SIGTERM ends it gracefully.
 */
import {
  Depends,
  IdempotencyMiddleware,
  RateLimitMiddleware,
  SessionMiddleware,
  Svc,
  rooms,
} from '../../src/index.ts';
import { RedisPlugin, RedisRateLimitStore, RedisRecordStore, RedisRoomBus } from '../../src/db/index.ts';
import { collectedLog } from './collected-log.ts';

const redis = new RedisPlugin(process.argv[2]!);
const roomBus = new RedisRoomBus(redis.client);
const frames = new RedisRoomBus(redis.client, { channel: 'frames' });
const app = new Svc({
  authSecret: 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg',
  logger: collectedLog().logger,
  env: 'test',
  roomBus,
});
const received: string[] = [];
app.register(redis);
app.use(
  new RateLimitMiddleware({
    perMinute: 1_000_000,
    rules: [{ path: '/limited', perMinute: 60 }],
    store: new RedisRateLimitStore(redis.client, { timeoutMs: 5_000 }),
    onStoreError: 'refuse',
  }),
);
app.use(
  new SessionMiddleware({
    store: new RedisRecordStore(redis.client, { prefix: 'session:', timeoutMs: 5_000 }),
  }),
);
app.use(
  new IdempotencyMiddleware({
    store: new RedisRecordStore(redis.client, { prefix: 'once:', timeoutMs: 5_000 }),
  }),
);
app.get('/pid', () => process.pid);
app.get('/limited', () => 'in');
app.get('/login', ({ req }) => {
  req.session.set('user', 'ada');
  return 'hello';
});
app.get('/who', ({ req }) => ({ user: req.session.get('user') ?? null, pid: process.pid }));
app.post('/orders', async () => {
  const executions = await redis.client.command(['INCR', 'executions']);
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { executions, by: process.pid };
});
app.post('/say', async ({ req }) => {
  frames.publish('lobby', Buffer.from(await req.text()), true);
  return 'said';
});
app.get('/heard', () => received);
app
  .websocket('/rooms/{room}', { allowMissingOrigin: true })
  .onOpen((socket, { params }) => {
    socket.join(params.room);
    socket.send(`pid ${process.pid}`);
  })
  .onMessage((socket, message, { params }) => {
    if (message === 'leave') socket.leave(params.room);
    if (message === 'leave' || message === 'ask') socket.send(`done ${message}`);
    else socket.broadcast(params.room, message);
  });
app.post('/rooms/{room}', { rooms: Depends(rooms) }, async ({ req, params, rooms }) =>
  rooms.broadcast(params.room, await req.text()),
);
app.get('/rooms/{room}', { rooms: Depends(rooms) }, ({ params, rooms }) => rooms.count(params.room));
app.onStartup(async () => {
  frames.subscribe((room, frame) => void received.push(`${room}: ${new TextDecoder().decode(frame)}`));
  await Promise.all([roomBus.settled(), frames.settled()]);
});
const server = await app.run({ port: 0 });
process.on('disconnect', () => process.exit(0));
process.send!(server.url);
