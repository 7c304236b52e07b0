/** Fake servers of Redis. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { Redis } from '../../src/db/index.ts';
import { RespReader } from '../../src/db/redis/resp.ts';
import type { TestContext } from 'node:test';
import type { RedisOptions } from '../../src/db/index.ts';

/** Returns the reply to a command; undefined sends none. */
export type Answer = (command: readonly string[], socket: Socket) => string | undefined;

/** A fake server, and what it has received. */
export interface FakeRedis {
  readonly url: string;
  readonly commands: string[][];
  readonly sockets: Set<Socket>;
  connections: number;
}

export const HELLO: string = '%2\r\n+server\r\n+redis\r\n+role\r\n+master\r\n';

/** Replies of a normal login. */
export function greeting([name, second]: readonly string[]): string | undefined {
  return name === 'HELLO' ? HELLO : name === 'CLIENT' && second === 'SETINFO' ? '+OK\r\n' : undefined;
}

/** Starts a server that replies with the result of `answer`. */
export async function serving(t: TestContext, answer: Answer): Promise<FakeRedis> {
  const fake: FakeRedis = { url: '', commands: [], sockets: new Set(), connections: 0 };
  const server = createServer((socket) => {
    fake.connections++;
    fake.sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => fake.sockets.delete(socket));
    const reader = new RespReader(
      (value) => {
        const command = (value as Buffer[]).map(String);
        fake.commands.push(command);
        const said = answer(command, socket);
        if (said !== undefined) socket.write(said, 'latin1');
      },
      { maxReplyBytes: 10_000_000 },
    );
    socket.on('data', (chunk) => reader.push(chunk));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of fake.sockets) socket.destroy();
    server.close();
  });
  return Object.assign(fake, { url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}/0` });
}

/** Starts a server that accepts each login, and opens a client. */
export async function openedFake(
  t: TestContext,
  answer: Answer,
  options: RedisOptions = {},
): Promise<{ redis: Redis; fake: FakeRedis }> {
  const fake = await serving(t, (command, socket) => greeting(command) ?? answer(command, socket));
  const redis = await new Redis(fake.url, options).open();
  t.after(() => redis.close());
  // the last command of the login
  while (redis.load.pending > 0) await new Promise((resolve) => setImmediate(resolve));
  return { redis, fake };
}
