/**
 * Calls that `svc check` makes before its synchronous rules run: functions for origins, and the guard of the metrics.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BearerAuth, CORSMiddleware, Depends, Svc, requireIf } from 'svc';
import { probe } from '../../src/check/check.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { CORSOptions, SvcOptions } from 'svc';

const make = (options: SvcOptions = {}): Svc =>
  new Svc({ logger: collectedLog().logger, env: 'production', ...options }).get('/', () => 'x');

async function found(app: Svc, rule: string): Promise<string[]> {
  await probe(app.inspect());
  return app
    .check()
    .findings.filter((finding) => finding.rule === rule)
    .map(({ severity, message }) => `${severity}: ${message}`);
}

const withOrigins = (origins: CORSOptions['origins']): Svc =>
  make().use(new CORSMiddleware({ origins, credentials: true }));

test('svc check reports an asynchronous CORS origin function that compares only a suffix of the origin or allows every site (SVC206)', async () => {
  const bySuffix = withOrigins(async (origin) => Promise.resolve(origin.endsWith('acme.example')));
  assert.deepEqual(await found(bySuffix, 'SVC206'), [
    'error: the CORS origin function accepts https://svc-checkacme.example: an attacker could register this site and send requests with the cookies of visitors',
  ]);
  const everySite = withOrigins(() => Promise.resolve(true));
  assert.deepEqual(await found(everySite, 'SVC206'), [
    'error: the CORS origin function accepts even an invented origin, so pages of every site may send requests with cookies',
  ]);
});

test('svc check reports an unanchored regular expression that a CORS origin function uses, even if declared outside the function (SVC206)', async () => {
  const pattern = /^https:\/\/(www\.)?shop\.example/;
  const messages = await found(
    withOrigins((origin) => pattern.test(origin)),
    'SVC206',
  );
  assert.equal(messages.length, 1);
  assert.match(messages[0]!, /https:\/\/shop\.example\.svc-check\.invalid/);
});

test('svc check accepts an asynchronous CORS origin function that compares whole origins, rejects, or reads the request (SVC206)', async () => {
  for (const origins of [
    async (origin: string) => Promise.resolve(origin === 'https://acme.example'),
    async () => Promise.reject<boolean>(new Error('no database')),
    (_origin: string, req: { readonly headers: object }) => Promise.resolve('x' in req.headers),
  ] as const)
    assert.deepEqual(await found(withOrigins(origins), 'SVC206'), []);
});

test('svc check awaits the origin function of a WebSocket route, and warns if the function allows every site (SVC212)', async () => {
  const app = make();
  app.websocket('/live', { origins: () => Promise.resolve(true) }).onMessage(() => undefined);
  assert.equal((await found(app, 'SVC212')).length, 1);
  const right = make();
  right.websocket('/live', { origins: (origin) => Promise.resolve(origin === 'https://a.example') });
  assert.deepEqual(await found(right, 'SVC212'), []);
});

test('svc check reports a guard of the endpoint /metrics that accepts requests without a valid credential (SVC208)', async () => {
  for (const auth of [(req: object) => req !== undefined, () => Promise.resolve(true)])
    assert.deepEqual(await found(make({ ops: { metrics: { auth } } }), 'SVC208'), [
      'warning: every client can read /metrics, because the function ops.metrics.auth accepts every request',
    ]);
  for (const auth of [
    (req: { readonly headers: Readonly<Record<string, string | undefined>> }) => req.headers['x-key'] === 'a',
    (req: { readonly ip: string }) => req.ip.startsWith('10.'),
  ])
    assert.deepEqual(await found(make({ ops: { metrics: { auth } } }), 'SVC208'), []);
});

test('svc check reports a condition of requireIf() that is true for claims without members and for claims with every member (SVC201)', async () => {
  const auth = BearerAuth('Kq3vZr8LmX5tYw1Nb7cJd9Fh2Gs6Pa4Eu0Ti');
  const guarded = (
    condition: (claims: Readonly<Record<string, unknown>>) => boolean | Promise<boolean>,
  ): Svc => make().post('/a', { me: Depends(requireIf(condition, { auth })) }, () => 'x');
  for (const condition of [
    () => true,
    () => Promise.resolve(true),
    (claims: object) => claims !== undefined,
    (claims: object) => Boolean(claims),
  ])
    assert.deepEqual(await found(guarded(condition), 'SVC201'), [
      'error: the condition is always true, so the guard accepts every authenticated client',
    ]);
  for (const condition of [
    (claims: Readonly<Record<string, unknown>>) => claims['staff'] === true,
    (claims: Readonly<Record<string, unknown>>) => claims['isBlocked'] !== true,
    () => Promise.reject<boolean>(new Error('no database')),
  ])
    assert.deepEqual(await found(guarded(condition), 'SVC201'), []);
});
