/**
 * The security log under a flood: one line a client, event and minute, in bounded memory.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CSRFMiddleware } from 'svc';
import { ManualClock } from 'svc/testing';
import { SecurityLog } from '../../src/http/security-log.ts';
import { Site } from '../support/session-site.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { HttpRequest, Services } from '../../src/http/contracts.ts';

interface Watched {
  readonly log: SecurityLog;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  refuse(ip: string, event?: string): void;
}

function watched(): Watched {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const log = SecurityLog.of({ log: logger, clock } as unknown as Services);
  return {
    log,
    clock,
    events,
    refuse: (ip, event = 'refused') =>
      log.refused(event, { id: 'r', ip, method: 'POST', route: { template: '/x' } } as HttpRequest, {
        reason: 'why',
      }),
  };
}

test('SecurityLog writes one line per client, event and minute, and the next line says how many lines were omitted', async () => {
  const { clock, events, refuse } = watched();
  for (let round = 0; round < 1_000; round++) refuse('192.0.2.1');
  refuse('192.0.2.1', 'other');
  refuse('192.0.2.2');
  assert.deepEqual(
    events.map(({ event, address, suppressed }) => [event, address, suppressed]),
    [
      ['refused', '192.0.2.1', undefined],
      ['other', '192.0.2.1', undefined],
      ['refused', '192.0.2.2', undefined],
    ],
  );
  assert.deepEqual(Object.fromEntries(Object.entries(events[0]!).filter(([name]) => name !== 'time')), {
    level: 'warn',
    logger: 'svc_security',
    event: 'refused',
    reason: 'why',
    request_id: 'r',
    address: '192.0.2.1',
    method: 'POST',
    route: '/x',
  });
  events.length = 0;
  await clock.advance(59_999);
  refuse('192.0.2.1');
  assert.deepEqual(events, []);
  await clock.advance(1);
  for (let round = 0; round < 3; round++) refuse('192.0.2.1');
  await clock.advance(60_000);
  refuse('192.0.2.1');
  assert.deepEqual(
    events.map(({ suppressed }) => suppressed),
    [1_000, 2],
  );
});

test('SecurityLog treats the addresses of one IPv6 network as one client', () => {
  const { events, refuse } = watched();
  for (const ip of ['2001:db8::1', '2001:db8::2', '2001:db8:0:0:ffff::1', '2001:db8:0:1::1']) refuse(ip);
  assert.deepEqual(
    events.map(({ address }) => address),
    ['2001:db8::1', '2001:db8:0:1::1'],
  );
});

test('when SecurityLog has its maximum number of clients, a new client replaces the one whose minute ended first, even if that one came again within its minute', async () => {
  const { clock, events, refuse } = watched();
  refuse('192.0.2.1');
  await clock.advance(30_000);
  for (let client = 1; client < 10_000; client++) refuse(`10.0.${client >> 8}.${client & 255}`);
  refuse('192.0.2.1'); // omitted
  assert.equal(events.length, 10_000);
  await clock.advance(30_000);
  for (const ip of ['198.51.100.1', '198.51.100.2', '198.51.100.3']) refuse(ip);
  assert.deepEqual(
    events.slice(10_000).map(({ address }) => address),
    ['198.51.100.1', '198.51.100.2'], // the second client is the first of those that share a line
  );
});

test('when SecurityLog has its maximum number of clients, all further clients share one line per minute and event', async () => {
  const { clock, events, refuse } = watched();
  for (let client = 0; client < 10_000; client++) refuse(`10.0.${client >> 8}.${client & 255}`);
  assert.equal(events.length, 10_000);
  for (let client = 0; client < 5_000; client++) refuse(`10.1.${client >> 8}.${client & 255}`);
  refuse('10.0.0.0');
  refuse('10.2.0.0', 'other');
  assert.deepEqual(
    events.slice(10_000).map(({ event, address }) => [event, address]),
    [
      ['refused', '10.1.0.0'],
      ['other', '10.2.0.0'],
    ],
  );
  await clock.advance(60_000);
  refuse('10.3.0.0'); // in the place of the first, whose minute is over
  refuse('10.3.0.0');
  refuse('10.0.0.1');
  assert.deepEqual(
    events.slice(10_002).map(({ address, suppressed }) => [address, suppressed]),
    [
      ['10.3.0.0', undefined],
      ['10.0.0.1', undefined],
    ],
  );
});

test('SecurityLog.of() returns the same log for each call with one application', () => {
  const services = { log: collectedLog().logger, clock: new ManualClock() } as unknown as Services;
  assert.equal(SecurityLog.of(services), SecurityLog.of(services));
  assert.notEqual(SecurityLog.of(services), SecurityLog.of({ ...services }));
});

test('forged cookies and forms without a token are always refused, but logged only once a minute', async () => {
  await using site = new Site({ use: [new CSRFMiddleware()] });
  for (let round = 0; round < 50; round++) {
    const response = await site.visit(() => 'reached', {
      method: 'POST',
      headers: { cookie: `svc_session=s1.x.1.2.e30.${'A'.repeat(43)}` },
    });
    assert.equal(response.status, 403);
  }
  assert.deepEqual(
    site.events.filter(({ logger }) => logger === 'svc_security').map(({ event }) => event),
    ['session_rejected', 'malicious_csrf'],
  );
  await site.wait(60);
  await site.visit(() => 'reached', { method: 'POST' });
  assert.equal(site.audited('malicious_csrf')[1]!['suppressed'], 49);
});
