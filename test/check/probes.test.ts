/**
 * Calls that `svc check` makes before its synchronous rules run: functions for origins, and the guard of the metrics.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CORSMiddleware, Svc } from 'svc';
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
