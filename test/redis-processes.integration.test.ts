/**
 * Three processes behind a load balancer with a shared Redis, as the manual describes for several machines.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../src/base/clock.ts';
import { forked } from './support/oauth-races.ts';
import { RedisServer, needsRedis } from './support/redis-server.ts';
import type { ChildProcess } from 'node:child_process';

interface Backend {
  readonly child: ChildProcess;
  readonly port: number;
}
interface Answer {
  readonly status: number;
  readonly text: string;
  readonly cookie: string | undefined;
}

/** A TCP load balancer: passes each connection to the next process. */
class Balancer {
  readonly backends: Backend[] = [];
  readonly #server = createServer((socket) => this.#join(socket));
  #next = 0;

  static async start(t: TestContext): Promise<Balancer> {
    const balancer = new Balancer();
    balancer.#server.listen(0, '127.0.0.1');
    await once(balancer.#server, 'listening');
    t.after(() => balancer.#server.close());
    return balancer;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Sends a request on a new connection, through the balancer or to one process. */
  send(
    method: string,
    path: string,
    {
      headers = {},
      body = '',
      port = this.port,
    }: { headers?: Record<string, string>; body?: string; port?: number } = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, method, path, headers, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part;
        });
        response.on('end', () =>
          resolve({
            status: response.statusCode!,
            text,
            cookie: response.headers['set-cookie']?.[0]?.split(';')[0],
          }),
        );
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }

  #join(socket: Socket): void {
    const { port } = this.backends[this.#next++ % this.backends.length]!;
    const other = connect(port, '127.0.0.1');
    socket.on('error', () => other.destroy());
    other.on('error', () => socket.destroy());
    socket.pipe(other).pipe(socket);
  }
}

/** A member of a room, connected to the process that the balancer has chosen. */
class Member {
  readonly got: string[] = [];
  pid = 0;
  isLost = false;
  readonly #socket: WebSocket;

  private constructor(port: number, room: string) {
    const socket = (this.#socket = new WebSocket(`ws://127.0.0.1:${port}/rooms/${room}`));
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) =>
      void this.got.push(
        typeof data === 'string' ? data : `bytes ${Buffer.from(data as ArrayBuffer).toString('hex')}`,
      );
    socket.onclose = () => {
      this.isLost = true;
    };
  }

  static async join(t: TestContext, { port }: Balancer, room: string): Promise<Member> {
    const member = new Member(port, room);
    t.after(() => member.close());
    await until(() => member.got.length > 0, 'it is told that it has joined');
    member.pid = Number(/^pid (\d+)$/.exec(member.got.shift()!)![1]);
    return member;
  }

  send(message: string | Uint8Array<ArrayBuffer>): void {
    this.#socket.send(message);
  }

  close(): void {
    this.#socket.close();
  }

  /** Resolves when all earlier messages of its process have arrived. */
  async asks(what: 'ask' | 'leave'): Promise<void> {
    this.send(what);
    await until(() => this.got.includes(`done ${what}`), `an answer to ${what}`);
    this.got.splice(this.got.indexOf(`done ${what}`), 1);
  }
}

async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const endMs = systemClock.monotonicMs() + 30_000;
  while (!(await condition())) {
    assert.ok(systemClock.monotonicMs() < endMs, `in vain: ${what}`);
    await systemClock.sleep(2);
  }
}

/**
 * Every member and every process sends a message. Each member must receive every message of the others
 * exactly once. Redis keeps the order, so no duplicate can follow a process's last message.
 */
async function conversation(balancer: Balancer, members: readonly Member[], name: string): Promise<void> {
  const { backends } = balancer;
  const saidBy = (index: number): string =>
    index === 0 ? `bytes ${Buffer.from(name).toString('hex')}` : `${name} of ${index} €`;
  const ofProcesses = backends.map((_backend, index) => `${name} of process ${index}`);
  for (const [index, member] of members.entries())
    member.send(index === 0 ? Uint8Array.from(Buffer.from(name)) : saidBy(index));
  await Promise.all(
    backends.map(({ port }, index) =>
      balancer.send('POST', '/rooms/tea', { port, body: ofProcesses[index]! }),
    ),
  );
  const expected = members.map((_member, own) =>
    [...members.keys()]
      .filter((index) => index !== own)
      .map(saidBy)
      .concat(ofProcesses)
      .sort(),
  );
  await until(
    () => members.every(({ got }, index) => got.length >= expected[index]!.length),
    `${name}: each message at each member`,
  );
  await Promise.all(
    backends.map(({ port }) => balancer.send('POST', '/rooms/tea', { port, body: `${name} ends ${port}` })),
  );
  await until(
    () => members.every(({ got }) => backends.every(({ port }) => got.includes(`${name} ends ${port}`))),
    `${name}: the end`,
  );
  assert.deepEqual(
    members.map(({ got }) =>
      got
        .splice(0)
        .filter((text) => !text.startsWith(`${name} ends `))
        .sort(),
    ),
    expected,
    name,
  );
}

async function site(
  t: TestContext,
): Promise<{ balancer: Balancer; add: () => Promise<Backend>; redis: RedisServer }> {
  const redis = await RedisServer.start(t);
  const balancer = await Balancer.start(t);
  const add = async (): Promise<Backend> => {
    const { child, said } = await forked(t, 'redis-site.ts', [redis.url]);
    const backend = { child, port: Number(new URL(said as string).port) };
    balancer.backends.push(backend);
    return backend;
  };
  await Promise.all([add(), add(), add()]);
  return { balancer, add, redis };
}

test('three processes with Redis share rate limits, idempotency keys, sessions and rooms, and lose no data when one process is killed', async (t) => {
  if (!needsRedis(t)) return;
  const { balancer, add } = await site(t);
  const pids = new Set(
    (await Promise.all(Array.from({ length: 9 }, () => balancer.send('GET', '/pid')))).map(
      ({ text }) => text,
    ),
  );
  assert.equal(pids.size, 3);

  const limited = await Promise.all(Array.from({ length: 200 }, () => balancer.send('GET', '/limited')));
  const allowed = limited.filter(({ status }) => status === 200).length;
  assert.ok(
    allowed >= 60 && allowed <= 61 && limited.every(({ status }) => status === 200 || status === 429),
    `${allowed} were let in, of a limit of 60`,
  );

  const orders = await Promise.all(
    Array.from({ length: 30 }, () =>
      balancer.send('POST', '/orders', {
        headers: { 'idempotency-key': 'one', 'content-type': 'application/json' },
        body: '{}',
      }),
    ),
  );
  const bodies = new Set(orders.filter(({ status }) => status === 200).map(({ text }) => text));
  assert.deepEqual(
    [...bodies].map((text) => (JSON.parse(text) as { executions: number }).executions),
    [1],
    'executed once, and told alike',
  );
  assert.ok(orders.every(({ status }) => status === 200 || status === 409));

  await balancer.send('POST', '/say', { body: 'hello' });
  const received = async (): Promise<string[]> =>
    Promise.all(
      balancer.backends.map(async ({ port }) => (await balancer.send('GET', '/heard', { port })).text),
    );
  while ((await received()).some((text) => text === '[]')) await systemClock.sleep(5);
  assert.deepEqual(
    await received(),
    Array.from({ length: 3 }, () => '["lobby: hello"]'),
    'each once',
  );

  const { port } = balancer.backends[0]!;
  const { cookie } = await balancer.send('GET', '/login', { port });
  const { child } = balancer.backends.shift()!;
  child.kill('SIGKILL');
  await add();
  for (const other of balancer.backends)
    assert.equal(
      (
        JSON.parse(
          (await balancer.send('GET', '/who', { port: other.port, headers: { cookie: cookie! } })).text,
        ) as { user: string }
      ).user,
      'ada',
    );
});

test('when three processes that share sessions in Redis are replaced one after the other, no request fails', async (t) => {
  if (!needsRedis(t)) return;
  const { balancer, add } = await site(t);
  const { cookie } = await balancer.send('GET', '/login');
  const pids = new Set<number>();
  let isOver = false;
  let served = 0;
  const loading = Promise.all(
    Array.from({ length: 8 }, async () => {
      while (!isOver) {
        const { status, text } = await balancer.send('GET', '/who', { headers: { cookie: cookie! } });
        assert.equal(status, 200, text);
        const { user, pid } = JSON.parse(text) as { user: string; pid: number };
        assert.equal(user, 'ada');
        pids.add(pid);
        served++;
      }
    }),
  );
  for (let round = 0; round < 3; round++) {
    await add();
    // the balancer opens no new connections to it, and open ones are answered
    const { child, port } = balancer.backends.shift()!;
    await balancer.send('GET', '/pid', { port }); // after the requests in progress
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const before = served;
    assert.equal((await ended)[0], 0, 'it has stopped gracefully');
    while (served < before + 20) await systemClock.sleep(2);
  }
  isOver = true;
  await loading;
  assert.equal(pids.size, 6);
});

test('with Redis, each member of a room gets a message once, whichever of three processes the member is connected to', async (t) => {
  if (!needsRedis(t)) return;
  const { balancer, add } = await site(t);
  const join = (count: number, room = 'tea'): Promise<Member[]> =>
    Promise.all(Array.from({ length: count }, () => Member.join(t, balancer, room)));
  const inRoom = async (): Promise<number> =>
    (
      await Promise.all(
        balancer.backends.map(async ({ port }) =>
          Number((await balancer.send('GET', '/rooms/tea', { port })).text),
        ),
      )
    ).reduce((sum, count) => sum + count);
  const membersOf = (members: readonly Member[], { child }: Backend): Member[] =>
    members.filter(({ pid }) => pid === child.pid);

  let members = await join(6);
  const strangers = await join(3, 'coffee');
  for (const backend of balancer.backends)
    assert.deepEqual(
      [members, strangers].map((all) => membersOf(all, backend).length),
      [2, 1],
    );
  await conversation(balancer, members, 'three processes');

  const killed = balancer.backends.shift()!;
  const lost = membersOf(members, killed);
  killed.child.kill('SIGKILL');
  await until(() => lost.every(({ isLost }) => isLost), 'its members are parted with');
  members = members.filter((member) => !lost.includes(member));
  await conversation(balancer, members, 'two processes');
  members.push(...(await join(lost.length)));
  await conversation(balancer, members, 'they are back');
  await add();
  members.push(...(await join(3)));
  assert.equal(new Set(members.map(({ pid }) => pid)).size, 3);
  await conversation(balancer, members, 'another process');
  assert.equal(await inRoom(), 9);

  const leaver = members.shift()!;
  await leaver.asks('leave');
  members.pop()!.close();
  await until(async () => (await inRoom()) === 7, 'two have left');
  await conversation(balancer, members, 'two have left');
  leaver.send('from outside'); // a client outside the room may still send to it
  await until(() => members.every(({ got }) => got.length > 0), 'what is said from outside');
  for (const outsider of [
    leaver,
    ...membersOf(strangers, balancer.backends[0]!),
    ...membersOf(strangers, balancer.backends[1]!),
  ]) {
    await outsider.asks('ask');
    assert.deepEqual(outsider.got, [], 'of another room nothing is heard');
  }
  assert.deepEqual(
    members.map(({ got }) => got),
    members.map(() => ['from outside']),
  );
});
