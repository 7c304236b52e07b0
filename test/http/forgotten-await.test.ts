import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  EventStreamResponse,
  Field,
  JSONResponse,
  NDJSONResponse,
  Schema,
  Svc,
  TextResponse,
  any,
  int,
  list,
  nullable,
  record,
  reply,
  str,
} from 'svc';
import { collectedLog } from '../support/collected-log.ts';
import { served } from '../support/served.ts';

class Count extends Schema {
  n = Field(int);
}
class Note extends Schema {
  text = Field(str, { optional: true });
  count = Field(Count, { optional: true });
}

const later = (): Promise<number> => Promise.resolve(1);
const lazy = { then: (take: (value: number) => void): void => take(1) };

/** Replies that contain a promise, with the place that the log names. */
const REPLIES: readonly (readonly [where: string, reply: () => unknown, place: string])[] = [
  ['a member', () => ({ v: later() }), '$.v is a promise'],
  ['a list', () => [1, later()], '$[1] is a promise'],
  ['a nested list', () => ({ a: [{ b: 1 }, { b: [later()] }] }), '$.a[1].b[0] is a promise'],
  ['a reply', () => reply(later()), '$ is a promise'],
  ['a tuple', () => [{ v: later() }, 201], '$.v is a promise'],
  ['a response', () => new JSONResponse({ v: later() }), '$.v is a promise'],
  ['a value behind an empty object', () => ({ a: {}, n: 1n, v: later() }), '$.v is a promise'],
  ['what toJSON() returns', () => ({ a: { toJSON: () => ({ v: later() }) } }), '$.a.v is a promise'],
  ['a member, as another thenable', () => ({ v: lazy }), '$.v is a promise'],
  ['the body of a response', () => new TextResponse(later() as unknown as string), 'the body is a promise'],
  ['the first line', () => new NDJSONResponse([{ v: later() }]), '$.v is a promise'],
];

for (const env of ['production', 'development'] as const) {
  test(`a reply that contains a promise causes a 500, and the log names the place of the promise (environment ${env})`, async () => {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger, env, enableDocs: false });
    REPLIES.forEach(([, handler], index) => app.get(`/${index}`, { public: true }, handler));
    await using server = await served(app);
    for (const [index, [where, , place]] of REPLIES.entries()) {
      events.length = 0;
      assert.equal((await server.ask('GET', `/${index}`)).status, 500, where);
      assert.ok(JSON.stringify(events).includes(`${place}: await it`), `${where}: ${JSON.stringify(events)}`);
    }
  });
}

test('if a route has a response schema, a reply that contains a promise causes a 500, and the log names the place of the promise', async () => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env: 'test' });
  const CASES = [
    [{ response: Count }, () => ({ n: later() }), 'n is a promise: await it'],
    [{ response: list(Count) }, () => [{ n: 1 }, { n: later() }], '1.n is a promise: await it'],
    [{ response: list(Count) }, () => [later()], '0 is a promise: await it'],
    [{ response: Note }, () => ({ count: later() }), 'count is a promise: await it'],
    [{ response: list(Note) }, () => [later()], '0 is a promise: await it'],
    [{ response: record(int) }, () => ({ a: later() }), 'a is a promise: await it'],
    [{ response: list(record(int)) }, () => [later()], '0 is a promise: await it'],
    [{ response: any }, () => ({ a: { b: later() } }), 'a.b is a promise: await it'],
    [{ response: nullable(Note) }, () => reply(later()), 'the value is a promise: await it'],
    [{ response: any }, () => ({ a: [new Set([1])] }), 'a.0 is an object of type Set'],
  ] as const;
  CASES.forEach(([spec, handler], index) => app.get(`/${index}`, spec as object, handler as () => never));
  await using server = await served(app);
  for (const [index, [, , message]] of CASES.entries()) {
    events.length = 0;
    assert.equal((await server.ask('GET', `/${index}`)).status, 500);
    assert.match(JSON.stringify(events), new RegExp(`response schema of the route: ${message}[",]`));
  }
});

test('if an NDJSON line or server-sent event after the first contains a promise, the response ends incomplete, and the log names the place', async () => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env: 'test' });
  app.get('/lines', () => new NDJSONResponse([{ v: 1 }, { v: later() }]));
  app.get('/events', () => new EventStreamResponse([{ data: { v: 1 } }, { data: { v: later() } }]));
  await using server = await served(app);
  for (const path of ['/lines', '/events']) {
    events.length = 0;
    const answer = await server.ask('GET', path);
    assert.equal(answer.isWhole, false, path);
    assert.match(JSON.stringify(events), /\$\.v is a promise: await it/);
  }
});

test('replies with empty objects or with the text "{}" are sent, because they contain no promise', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/empty', () => ({
    a: {},
    b: [{}, new (class Own {})()],
    c: '{}',
    d: new Date(0),
    e: null,
    f: { then: 1 },
  }));
  app.get('/declared', { response: any }, () => ({ a: {}, c: '{}' }));
  await using server = await served(app);
  assert.equal(
    (await server.ask('GET', '/empty')).text(),
    '{"a":{},"b":[{},{}],"c":"{}","d":"1970-01-01T00:00:00.000Z","e":null,"f":{"then":1}}',
  );
  assert.equal((await server.ask('GET', '/declared')).text(), '{"a":{},"c":"{}"}');
});
