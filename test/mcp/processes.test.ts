/**
 * Sessions of MCP clients behind a load balancer, up to 2025-11-25: each message of a client may reach another process
 * than the one before. Two applications with one RoomBus stand for two processes.
 */
import assert from 'node:assert/strict';
import nodeCluster from 'node:cluster';
import { test } from 'node:test';
import { Depends, Field, MemoryRoomBus, Svc, createLogger, str, toolClient, toolLog } from 'svc';
import { TestClient } from 'svc/testing';
import { gateOf, soon } from '../support/endings.ts';
import type { RoomBus } from 'svc';
import type { TestContext } from 'node:test';

type Json = Record<string, unknown>;

interface Process {
  /** Sends a message in a session. */
  post(message: Json, session?: string): Promise<Response>;
  end(session: string): Promise<Response>;
}

interface Cluster {
  readonly here: Process;
  readonly there: Process;
  readonly bus: RoomBus;
  /** Resolves when the tool `wait` has started, and then when its call is cancelled. */
  readonly waiting: { readonly started: Promise<void>; readonly cancelled: Promise<void> };
  /** Starts a session in the first process. */
  begin(): Promise<string>;
}

function cluster(t: TestContext, bus: RoomBus = new MemoryRoomBus()): Cluster {
  const [started, cancelled] = [gateOf(t), gateOf(t)];
  const make = (): Process => {
    const app = new Svc({
      env: 'test',
      authSecret: '3f0a9c7d5e1b48263f0a9c7d5e1b4826',
      roomBus: bus,
      logger: createLogger({ sink: () => undefined }),
    });
    app.tool('ask', { client: Depends(toolClient) }, async ({ client }) => {
      const { content } = await client.elicit({ message: 'Who?', schema: { name: Field(str) } });
      return `Hello ${content?.name}`;
    });
    app.tool('wait', {}, async ({ signal }) => {
      signal.addEventListener('abort', () => cancelled.resolve());
      started.resolve();
      await cancelled.promise;
    });
    app.tool('talk', { tell: Depends(toolLog) }, ({ tell }) => {
      tell('debug', 'said');
      return 'done';
    });
    app.mountMcp('/mcp');
    const client = new TestClient(app);
    t.after(() => client.close());
    const fields = (session?: string): Record<string, string> => ({
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(session === undefined ? {} : { 'mcp-session-id': session }),
    });
    return {
      post: (message, session) =>
        client.post('/mcp', {
          body: JSON.stringify({ jsonrpc: '2.0', ...message }),
          headers: fields(session),
        }),
      end: (session) => client.delete('/mcp', { headers: fields(session) }),
    };
  };
  const [here, there] = [make(), make()];
  const begin = async (): Promise<string> => {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'test', version: '1' },
    };
    const session = (await here.post({ id: 0, method: 'initialize', params })).headers.get('mcp-session-id')!;
    assert.equal((await there.post({ id: 0, method: 'ping' }, session)).status, 200);
    return session;
  };
  return { here, there, bus, begin, waiting: { started: started.promise, cancelled: cancelled.promise } };
}

const call = (name: string, id: number = 1): Json => ({ id, method: 'tools/call', params: { name, arguments: {} } }); // prettier-ignore

/** Reads the messages of an event stream. */
async function* messagesOf(response: Response): AsyncGenerator<Json> {
  let text = '';
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end; (end = text.indexOf('\n\n')) !== -1; text = text.slice(end + 2)) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      if (data !== undefined) yield JSON.parse(data) as Json;
    }
  }
}

test('a response of a client reaches the process that waits for it, and only from the session of the call', async (t) => {
  const { here, there, bus, begin } = cluster(t);
  const [mine, other] = [await begin(), await begin()];
  const messages = messagesOf(await here.post(call('ask'), mine));
  const { id, method } = (await soon(messages.next(), 'the request')).value as Json;
  assert.equal(method, 'elicitation/create');
  const response = (name: string): Json => ({ id, result: { action: 'accept', content: { name } } });
  bus.publish('', Buffer.from('from another program on the bus'), true);
  assert.equal((await there.post(response('Eve'), other)).status, 202);
  assert.equal((await there.post(response('Ada'), mine)).status, 202);
  const last = (await soon(messages.next(), 'the result')).value as Json;
  assert.match(JSON.stringify(last['result']), /Hello Ada/);
});

test('a client can cancel a call that runs in another process', async (t) => {
  const { here, there, begin, waiting } = cluster(t);
  const session = await begin();
  const calling = here.post(call('wait', 7), session);
  await soon(waiting.started, 'the call');
  await there.post({ method: 'notifications/cancelled', params: { requestId: 8 } }, session);
  await there.post({ method: 'notifications/cancelled', params: { requestId: 7 } }, session);
  await soon(waiting.cancelled, 'the end of the call');
  assert.equal((await calling).status, 202);
});

test('the end of a session and its log level hold in every process that has served the session', async (t) => {
  const { here, there, begin } = cluster(t);
  const session = await begin();
  const levels = async (): Promise<boolean[]> =>
    Promise.all(
      [here, there].map(async (each) =>
        (await (await each.post(call('talk'), session)).text()).includes('said'),
      ),
    );
  assert.deepEqual(await levels(), [false, false]);
  await there.post({ id: 2, method: 'logging/setLevel', params: { level: 'debug' } }, session);
  assert.deepEqual(await levels(), [true, true]);
  assert.equal((await there.end(session)).status, 204);
  assert.deepEqual(
    [(await here.post(call('talk'), session)).status, (await there.post(call('talk'), session)).status],
    [404, 404],
  );
});

test('a worker process without authSecret logs once that other workers refuse its MCP sessions', async (t) => {
  const warned = async (isWorker: boolean, authSecret?: string): Promise<unknown[]> => {
    Reflect.set(nodeCluster, 'isWorker', isWorker);
    const lines: string[] = [];
    const app = new Svc({
      env: 'test',
      authSecret,
      logger: createLogger({ sink: (line) => void lines.push(line) }),
    });
    app.mountMcp('/mcp');
    await using client = new TestClient(app);
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    };
    const json = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
    const headers = { accept: 'application/json, text/event-stream' };
    for (let i = 0; i < 2; i++) assert.equal((await client.post('/mcp', { json, headers })).status, 200);
    return lines.map((line) => (JSON.parse(line) as Json)['event']);
  };
  t.after(() => Reflect.set(nodeCluster, 'isWorker', false));
  assert.deepEqual(await warned(true), ['mcp_sessions_unshared']);
  assert.deepEqual(await warned(true, '3f0a9c7d5e1b48263f0a9c7d5e1b4826'), []);
  assert.deepEqual(await warned(false), []);
});
