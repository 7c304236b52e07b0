/**
 * src/oauth/README.md lists all codes, events and metrics.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { OAUTH_ERRORS } from 'svc/oauth';
import { systemClock } from '../../src/base/clock.ts';
import { DENIALS } from '../../src/oauth/errors.ts';
import { ROOT } from '../support/build.ts';
import { oauthDatabase, tokensIn } from '../support/oauth-tokens.ts';
import { unwrapped } from '../support/unwrapped.ts';

const FOLDER = join(ROOT, 'src', 'oauth');
const README = readFileSync(join(FOLDER, 'README.md'), 'utf8');

/** Returns the names in the first column of a table. `heading`: heading of that column. */
function namesOf(heading: string, from = README): string[] {
  const table = from.slice(from.indexOf(`| ${heading} |`)).split('\n\n', 1)[0]!;
  return table
    .split('\n')
    .slice(2)
    .flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
}

test('the README of svc/oauth lists exactly the error codes in the source, each with its HTTP status', () => {
  assert.deepEqual(namesOf('Code'), Object.keys(OAUTH_ERRORS).toSorted());
  const denials = Object.values(DENIALS).map((denial) => ['access_denied', denial] as const);
  for (const [code, { status, description }] of [...Object.entries(OAUTH_ERRORS), ...denials]) {
    assert.match(README, new RegExp(`^\\| \`${code}\` \\| [\\d, ]*\\b${status}\\b`, 'm'));
    assert.match(description, /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/, 'the characters of RFC 6749 §5.2');
  }
});

test('the README of svc/oauth lists every log event and every metric in the source', () => {
  const source = ['src/oauth', 'src/auth/provider']
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts') && !file.startsWith('dev-provider'))
        .map((file) => unwrapped(readFileSync(join(ROOT, folder, file), 'utf8'))),
    )
    .join('\n');
  const events = [...source.matchAll(/(?:log|audit)\.(?:info|warn|error)\([^{\n]*/g)].flatMap(([call]) =>
    [...call.matchAll(/'([a-z]+(?:_[a-z]+)+)'/g)].map(([, name]) => name!),
  );
  assert.deepEqual(namesOf('Event').toSorted(), [...new Set(events)].toSorted());
  assert.deepEqual(
    namesOf('Metric').toSorted(),
    [...new Set([...source.matchAll(/'(svc_oauth_\w+)'/g)].map(([, name]) => name!))]
      .filter((name) => /_total$|_seconds$/.test(name))
      .toSorted(),
  );
});

test('the SQL statements in the README of svc/oauth for restoring a backup end every login and invalidate all earlier tokens', async () => {
  const [, sql] = /### Restore a backup[^]*?```sql\n([^]*?)```/.exec(README)!;
  const database = await oauthDatabase('sqlite::memory:');
  const { store, issue, refresh } = tokensIn(database, { holdMs: 0 });
  const { refreshToken } = await issue('ada');
  await issue('alan');
  await store.revokeAll('alan', 1);
  const next = await refresh(refreshToken);
  for (const statement of sql!.split(';\n').filter((each) => each.trim() !== ''))
    await database.execute(statement);
  for (const sub of ['ada', 'alan']) {
    assert.deepEqual(await store.listLogins(sub, systemClock.nowMicros()), []);
    assert.ok(Math.abs((await store.validAfter(sub)) - systemClock.nowMicros()) < 60_000_000);
  }
  await assert.rejects(refresh(next), { code: 'invalid_grant' });
  await database.close();
});
