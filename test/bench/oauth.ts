/**
 * Refreshes on SQLite beside the bare statements: `RefreshTokens` and `SqlTokenStore` over `Database`, without the hold,
 * against the same three statements prepared on node:sqlite. CPU per refresh, medians of fresh processes that take turns; WAL
 * and synchronous=normal for all, so that the disk is not what is measured. Beside them the codec, in ns.
 *
 *   node --conditions=svc-source test/bench/oauth.ts [--rounds=5]
 *
 * Exits 1 when one is above its bound. The store alone may cost 1.6 × the bare statements: it turns rows into objects and
 * waits for promises. A whole refresh may cost 3.2 ×: four HMACs, three hashes, and an event of the audit trail come on top.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/base/clock.ts';
import { oauthDatabase, tokensIn } from '../support/oauth-tokens.ts';
import type { Tokens } from '../support/oauth-tokens.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string' }, client: { type: 'string' } } });
const LOGINS = 1_000;
const REFRESHES = 10_000;
const CODEC_CALLS = 100_000;
const CLIENTS = ['bare', 'store', 'refresh'] as const;
type Client = (typeof CLIENTS)[number];
/** × the bare statements. */
const BOUNDS: Readonly<Record<Client, number>> = { bare: 1, store: 1.6, refresh: 3.2 };
/** Most nanoseconds of one call. */
const CODEC_BOUNDS = { parse: 10_000, format: 10_000, next: 10_000 } as const;

const HASHES: readonly string[] = Array.from({ length: 16 }, (_, index) => index.toString(16).repeat(64));

const STARTED = systemClock.nowMicros();

interface Login {
  readonly id: string;
  readonly currentHash: string;
  readonly refreshToken: string;
}

/** The three statements of a refresh, of one login after the other: by generation, the hash is another one of sixteen. */
function bare(path: string, logins: readonly Login[]): (index: number) => unknown {
  const db = new DatabaseSync(path);
  db.exec('pragma synchronous = normal');
  const rotate = db.prepare(`UPDATE svc_oauth_login
   SET gen = gen + 1, prev_hash = cur_hash, cur_hash = ?, rotated_at = ?, delivered_at = NULL, last_used_at = ?,
       idle_expires_at = CASE WHEN abs_expires_at < ? THEN abs_expires_at ELSE ? END
 WHERE id = ? AND gen = ? AND cur_hash = ? AND revoked_at IS NULL AND idle_expires_at > ? AND abs_expires_at > ?`);
  const find =
    db.prepare(`SELECT id, sub, provider, subject, gen, cur_hash, prev_hash, scopes, claims, auth_time, created_at, last_used_at, rotated_at, delivered_at,
       idle_expires_at, abs_expires_at, revoked_at, revoke_reason, user_agent, ip, cnf_jkt FROM svc_oauth_login WHERE id = ?`);
  const mark = db.prepare(
    'UPDATE svc_oauth_login SET delivered_at = ? WHERE id = ? AND gen = ? AND delivered_at IS NULL',
  );
  return (index) => {
    const { id, generation, now, hash, next } = step(logins, index);
    if (rotate.run(next, now, now, now + 1e12, now + 1e12, id, generation, hash, now, now).changes !== 1)
      throw new Error('not rotated');
    find.get(id);
    mark.run(now, id, generation + 1);
  };
}

function overStore({ store }: Tokens, logins: readonly Login[]): (index: number) => Promise<unknown> {
  return async (index) => {
    const { id, generation, now, hash, next } = step(logins, index);
    if (
      !(await store.rotate({
        id,
        generation,
        currentHash: hash,
        keyThumbprint: null,
        nextHash: next,
        now,
        idleExpiresAt: now + 1e12,
      }))
    )
      throw new Error('not rotated');
    await store.findLogin(id);
    await store.markDelivered(id, generation + 1, now);
  };
}

function step(
  logins: readonly Login[],
  index: number,
): { id: string; generation: number; now: number; hash: string; next: string } {
  const { id, currentHash } = logins[index % LOGINS]!;
  const generation = Math.floor(index / LOGINS);
  return {
    id,
    generation,
    now: STARTED + index,
    hash: generation === 0 ? currentHash : HASHES[(generation - 1) % 16]!,
    next: HASHES[generation % 16]!,
  };
}

function whole({ refresh }: Tokens, logins: readonly Login[]): (index: number) => Promise<unknown> {
  const current = logins.map(({ refreshToken }) => refreshToken);
  return async (index) => {
    current[index % LOGINS] = await refresh(current[index % LOGINS]!);
  };
}

/** CPU of a call in microseconds. */
async function cpuOf(calls: number, call: (index: number) => unknown): Promise<number> {
  const before = process.cpuUsage();
  for (let index = 0; index < calls; index++) {
    const work = call(index);
    if (work instanceof Promise) await work;
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / calls;
}

async function child(client: Client): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  try {
    const path = join(folder, 'data.db');
    await using database = await oauthDatabase(`sqlite:${path}`, { synchronous: 'normal' });
    const tokens = tokensIn(database, { holdMs: 0 });
    const logins: Login[] = [];
    for (let index = 0; index < LOGINS; index++) {
      const { login, refreshToken } = await tokens.issue(`user-${index}`);
      logins.push({ id: login.id, currentHash: login.currentHash, refreshToken });
    }
    const run =
      client === 'bare'
        ? bare(path, logins)
        : client === 'store'
          ? overStore(tokens, logins)
          : whole(tokens, logins);
    await cpuOf(2 * LOGINS, run); // warm
    const result: Record<string, number> = { us: await cpuOf(REFRESHES, (index) => run(index + 2 * LOGINS)) };
    if (client === 'refresh') {
      const { codec } = tokens;
      const parsed = logins.map(({ refreshToken }) => codec.parse(refreshToken)!);
      const calls: Record<keyof typeof CODEC_BOUNDS, (index: number) => unknown> = {
        parse: (index) => codec.parse(logins[index % LOGINS]!.refreshToken),
        format: (index) => codec.format(parsed[index % LOGINS]!),
        next: (index) => codec.next(parsed[index % LOGINS]!),
      };
      for (const [name, call] of Object.entries(calls)) {
        await cpuOf(CODEC_CALLS / 10, call);
        result[name] = 1_000 * (await cpuOf(CODEC_CALLS, call));
      }
    }
    console.log(`RESULT ${JSON.stringify(result)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function measure(client: Client): Record<string, number> {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--conditions=svc-source', fileURLToPath(import.meta.url), `--client=${client}`],
    { encoding: 'utf8' },
  );
  const result = /RESULT (.*)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${client}: ${stderr}`);
  return JSON.parse(result) as Record<string, number>;
}

function parent(): number {
  const samples = new Map<Client, Record<string, number>[]>(CLIENTS.map((client) => [client, []]));
  for (let round = 0; round < Number(values.rounds ?? 5); round++)
    for (const client of CLIENTS) samples.get(client)!.push(measure(client));
  const median = (client: Client, name: string): number =>
    samples
      .get(client)!
      .map((each) => each[name]!)
      .toSorted((left, right) => left - right)[samples.get(client)!.length >> 1]!;
  let isSlow = false;
  console.log('| | µs | × bare | at most |');
  for (const client of CLIENTS) {
    const ratio = median(client, 'us') / median('bare', 'us');
    isSlow ||= ratio > BOUNDS[client];
    console.log(
      `| ${client} | ${median(client, 'us').toFixed(1)} | ${ratio.toFixed(2)} | ${BOUNDS[client].toFixed(2)} |`,
    );
  }
  console.log('| codec | ns | at most |');
  for (const [name, bound] of Object.entries(CODEC_BOUNDS)) {
    isSlow ||= median('refresh', name) > bound;
    console.log(`| ${name} | ${median('refresh', name).toFixed(0)} | ${bound} |`);
  }
  return isSlow ? 1 : 0;
}

if (values.client === undefined) process.exitCode = parent();
else await child(values.client as Client);
