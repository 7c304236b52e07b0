/**
 * Checks invariants of refresh tokens under races, revocations and kills: shortly in the suite, at length in
 * test/soak/oauth-races.ts. Each function returns what it has counted.
 */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { ROOT } from './build.ts';
import { oauthDatabase, tokensIn } from './oauth-tokens.ts';
import { folder } from './run.ts';
import type { ChildProcess } from 'node:child_process';
import type { Database } from '../../src/db/index.ts';
import type { Order, Outcome } from './oauth-child.ts';
import type { Tokens } from './oauth-tokens.ts';
import type { Scope } from './run.ts';

/** Milliseconds for a command to reach all processes. */
const LEAD_MS = 15;
const isToken = (text: string): boolean => text.startsWith('svcrt_');

/**
 * Starts a process of this folder and returns its first message. It writes no coverage, because a process
 * that is killed would leave half a file.
 */
export async function forked(
  scope: Scope,
  file: string,
  args: readonly string[],
): Promise<{ readonly child: ChildProcess; readonly said: unknown }> {
  const child = fork(join(ROOT, 'test/support', file), args, {
    execArgv: ['--conditions=svc-source'],
    env: {
      ...process.env,
      NODE_V8_COVERAGE: '',
      NODE_TEST_CONTEXT: undefined,
      SVC_SHUTDOWN_DELAY_SECONDS: '0',
    },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  scope.after(() => void child.kill('SIGKILL'));
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${file} has ended`);
  });
  const [said] = (await Promise.race([once(child, 'message'), ended])) as [unknown];
  ended.catch(() => undefined);
  return { child, said };
}

/** A database, and processes that refresh its tokens. */
export class Fleet {
  readonly url: string;
  readonly database: Database;
  /** Operations in this process. */
  readonly own: Tokens;
  readonly #scope: Scope;
  readonly #children: readonly ChildProcess[];
  #lastId = 0;

  private constructor(url: string, database: Database, scope: Scope, children: readonly ChildProcess[]) {
    this.url = url;
    this.database = database;
    this.own = tokensIn(database, { holdMs: 0 });
    this.#scope = scope;
    this.#children = children;
  }

  /** Starts the processes. Default database: a SQLite file. */
  static async start(
    scope: Scope,
    processes: number,
    url: string = `sqlite:${join(folder(scope), 'data.db')}`,
  ): Promise<Fleet> {
    const database = await oauthDatabase(url);
    scope.after(() => database.close());
    const children = await Promise.all(
      Array.from({ length: processes }, () => forked(scope, 'oauth-child.ts', [url])),
    );
    return new Fleet(
      url,
      database,
      scope,
      children.map(({ child }) => child),
    );
  }

  get size(): number {
    return this.#children.length;
  }

  /** Sends a command to one process, and returns its result. */
  async tell(index: number, order: Order): Promise<Outcome> {
    const child = this.#children[index]!;
    const id = ++this.#lastId;
    child.send({ id, order });
    for (;;) {
      const [outcome] = (await once(child, 'message')) as [Outcome];
      if (outcome.id === id) return outcome;
    }
  }

  /** Sends a command to all processes, with a common start time if it has one. */
  async all(
    order: (index: number, atMs: number) => Order,
  ): Promise<{ readonly results: readonly string[]; readonly reuses: number; readonly rotations: number }> {
    const atMs = systemClock.nowMs() + LEAD_MS;
    const outcomes = await Promise.all(
      this.#children.map((_child, index) => this.tell(index, order(index, atMs))),
    );
    const sum = (of: (outcome: Outcome) => number): number =>
      outcomes.reduce((total, outcome) => total + of(outcome), 0);
    return {
      results: outcomes.flatMap(({ results }) => results),
      reuses: sum(({ reuses }) => reuses),
      rotations: sum(({ rotations }) => rotations),
    };
  }

  /** Starts another process with a command that kills it. */
  async sacrifice(order: Order): Promise<void> {
    const { child } = await forked(this.#scope, 'oauth-child.ts', [this.url]);
    child.send({ id: 0, order });
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
    assert.equal(signal, 'SIGKILL', 'it was killed between commit and answer');
  }

  /** Refreshes a token `count` times, divided among all processes. */
  race(
    token: string,
    count: number,
    mode: 'coalesce' | 'strict' = 'coalesce',
    isLate = false,
  ): ReturnType<Fleet['all']> {
    return this.all((index, atMs) => ({
      kind: 'refresh',
      token,
      count: Math.floor((count + index) / this.size),
      atMs,
      mode,
      isLate,
    }));
  }
}

/** Asserts that the login of a token still works, and that it ends when this token is used again. */
async function assertAliveThenCaught({ own }: Fleet, token: string): Promise<void> {
  const next = await own.refresh(token);
  await assert.rejects(own.refresh(token), { code: 'invalid_grant', reason: 'reuse' });
  await assert.rejects(own.refresh(next), { code: 'invalid_grant', reason: 'revoked_reuse' });
}

/** Simultaneous refreshes get one successor, the login stays alive, and a later replay is detected. */
export async function coalesced(fleet: Fleet, count: number, rounds: number): Promise<number> {
  for (let round = 0; round < rounds; round++) {
    const { refreshToken, login } = await fleet.own.issue('alice');
    const { results } = await fleet.race(refreshToken, count);
    assert.equal(results.length, count);
    assert.deepEqual(
      [...new Set(results.map((result) => (isToken(result) ? 'token' : result)))],
      ['token'],
      'everybody gets one',
    );
    assert.equal(new Set(results).size, 1, 'and all the same');
    const row = await fleet.own.store.findLogin(login.id);
    assert.deepEqual([row?.generation, row?.revokedAt], [1, null]);
    await assertAliveThenCaught(fleet, results[0]!);
  }
  return rounds;
}

/**
 * Concurrent refreshes in strict mode: one gets a successor, the others are refused, and the login stays
 * valid.
 */
export async function strict(fleet: Fleet, count: number, rounds: number): Promise<number> {
  for (let round = 0; round < rounds; round++) {
    const { refreshToken } = await fleet.own.issue('alice');
    const { results } = await fleet.race(refreshToken, count, 'strict');
    const [won, lost] = [results.filter(isToken), results.filter((result) => !isToken(result))];
    assert.equal(won.length, 1);
    assert.deepEqual(new Set(lost), new Set(['invalid_grant concurrent']));
    await assertAliveThenCaught(fleet, won[0]!);
  }
  return rounds;
}

/**
 * Twenty logins that are constantly rotated have all ended when revokeAll() returns. Returns the number of
 * rotations.
 */
export async function revoked(
  fleet: Fleet,
  rounds: number,
  random: (below: number) => number,
): Promise<number> {
  let rotations = 0;
  for (let round = 0; round < rounds; round++) {
    const { own } = fleet;
    const logins = await Promise.all(Array.from({ length: 20 }, () => own.issue(`user-${round}`)));
    const bystander = await own.issue(`User-${round}`);
    const working = fleet.all((index) => ({
      kind: 'rotate',
      tokens: logins
        .filter((_login, at) => at % fleet.size === index)
        .map(({ refreshToken }) => refreshToken),
    }));
    await systemClock.sleep(10 + random(30));
    assert.equal(await own.store.revokeAll(`user-${round}`, systemClock.nowMicros()), 20);
    assert.deepEqual(await own.store.listLogins(`user-${round}`, systemClock.nowMicros()), []);
    const outcome = await working;
    assert.deepEqual(new Set(outcome.results), new Set(['invalid_grant revoked_all']));
    assert.deepEqual(await own.store.listLogins(`user-${round}`, systemClock.nowMicros()), []);
    assert.ok(await own.refresh(bystander.refreshToken));
    rotations += outcome.rotations;
  }
  return rotations;
}

/**
 * A process is killed between commit and response; the retry gets the undelivered successor, without a grace
 * period.
 */
export async function killed(
  fleet: Fleet,
  kills: number,
  random: (below: number) => number,
): Promise<number> {
  for (let kill = 0; kill < kills; kill++) {
    const { own } = fleet;
    const { refreshToken, login } = await own.issue('alice');
    await fleet.sacrifice({ kind: 'die', token: refreshToken, afterMs: kill % 2 === 0 ? 0 : 1 + random(23) });
    if (fleet.database.dialect === 'sqlite')
      assert.equal(await fleet.database.scalar('pragma integrity_check'), 'ok');
    const row = await own.store.findLogin(login.id);
    assert.deepEqual([row?.generation, row?.deliveredAt, row?.revokedAt], [1, null, null]);
    const retried = await own.refresh(refreshToken);
    assert.equal(retried, own.codec.format(own.codec.next(own.codec.parse(refreshToken)!)));
    await assertAliveThenCaught(fleet, retried);
  }
  return kills;
}

/** An old token that all processes use at the same time causes one audit event. */
export async function replayed(fleet: Fleet, rounds: number): Promise<number> {
  for (let round = 0; round < rounds; round++) {
    const { own } = fleet;
    const { refreshToken } = await own.issue('alice');
    await own.refresh(await own.refresh(refreshToken));
    const { results, reuses } = await fleet.race(refreshToken, fleet.size, 'coalesce', true);
    assert.equal(reuses, 1, 'one event');
    for (const result of results) assert.match(result, /^invalid_grant (?:reuse|revoked_reuse)$/);
  }
  return rounds;
}

/**
 * Logins that started before revokeAll(), and are stored while it runs, are not usable. Returns how many of
 * them got a token first.
 */
export async function begunBefore(
  fleet: Fleet,
  rounds: number,
  random: (below: number) => number,
): Promise<number> {
  let admitted = 0;
  for (let round = 0; round < rounds; round++) {
    const { own } = fleet;
    const [sub, startedAt] = [`user-in-flight-${round}`, systemClock.nowMicros()];
    const working = fleet.all((_index, atMs) => ({ kind: 'issue', sub, count: 8, startedAt, atMs }));
    await systemClock.sleep(LEAD_MS + random(10));
    await own.store.revokeAll(sub, systemClock.nowMicros());
    const { results } = await working;
    assert.deepEqual(await own.store.listLogins(sub, systemClock.nowMicros()), []);
    for (const result of results) assert.match(result, /^(?:svcrt_|access_denied revoked_meanwhile$)/);
    admitted += results.filter(isToken).length;
  }
  return admitted;
}

/** A login state that all processes try to use is accepted once. */
export async function takenOnce(fleet: Fleet, rounds: number): Promise<number> {
  for (let round = 0; round < rounds; round++) {
    const stateHash = `state-${systemClock.nowMicros()}`;
    const { results } = await fleet.all((_index, atMs) => ({ kind: 'take', stateHash, count: 8, atMs }));
    assert.equal(results.filter((result) => result === 'taken').length, 1);
  }
  return rounds;
}

/** Processes that serve applications with one database, and a client with connections to each. */
export class Sites {
  readonly own: Tokens;
  readonly database: Database;
  readonly url: string;
  readonly #scope: Scope;
  readonly #urls: readonly string[];
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 });

  private constructor(scope: Scope, url: string, database: Database, urls: readonly string[]) {
    this.#scope = scope;
    this.url = url;
    this.database = database;
    this.own = tokensIn(database, { holdMs: 0 });
    this.#urls = urls;
    scope.after(() => this.#agent.destroy());
  }

  /** Starts the processes; see {@link Fleet.start}. */
  static async start(
    scope: Scope,
    processes: number,
    limits: 'limited' | 'unlimited' | 'no limits',
    url: string = `sqlite:${join(folder(scope), 'data.db')}`,
    skew: { readonly offsetsMs: readonly number[]; readonly clockSkewMs?: number } = { offsetsMs: [] },
  ): Promise<Sites> {
    const database = await oauthDatabase(url);
    scope.after(() => database.close());
    const sites = await Promise.all(
      Array.from({ length: processes }, (_, index) =>
        forked(scope, 'oauth-site.ts', [
          url,
          limits,
          'skewed',
          String(skew.offsetsMs[index] ?? 0),
          String(skew.clockSkewMs ?? 0),
        ]),
      ),
    );
    return new Sites(
      scope,
      url,
      database,
      sites.map(({ said }) => String(said)),
    );
  }

  /** Refreshes by HTTP. Returns the next token, or `status code`, or `cut` without a response. */
  refresh(token: string, site = 0): Promise<string> {
    return this.#post(this.#urls[site % this.#urls.length]!, token);
  }

  /** Refreshes a token `count` times at once, over connections that are already open, or over new ones. */
  async race(token: string, count: number, connections: 'open' | 'new' = 'open'): Promise<readonly string[]> {
    const url = (index: number): string => this.#urls[index % this.#urls.length]!;
    if (connections === 'open')
      await Promise.all(Array.from({ length: count }, (_, index) => this.#get(url(index))));
    const agent = connections === 'open' ? this.#agent : false;
    return Promise.all(Array.from({ length: count }, (_, index) => this.#post(url(index), token, agent)));
  }

  /** Starts another process, which is killed between commit and response. */
  async sacrifice(token: string): Promise<void> {
    const { child, said } = await forked(this.#scope, 'oauth-site.ts', [this.url, 'unlimited', 'mortal']);
    const exit = once(child, 'exit');
    assert.equal(await this.#post(String(said), token), 'cut');
    assert.equal((await exit)[1], 'SIGKILL');
  }

  /** Starts another process, to be killed by the test. */
  async victim(): Promise<{
    readonly refresh: (token: string) => Promise<string>;
    readonly kill: () => Promise<void>;
  }> {
    const { child, said } = await forked(this.#scope, 'oauth-site.ts', [this.url, 'no limits']);
    return {
      refresh: (token) => this.#post(String(said), token),
      kill: async () => {
        const exit = once(child, 'exit');
        child.kill('SIGKILL');
        await exit;
      },
    };
  }

  /** Sends a request, and repeats it if an old connection was used: the server may just have closed it. */
  #get(url: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const asked = request(`${url}/oauth/token`, { agent: this.#agent }, (answer) =>
        answer.resume().on('end', resolve),
      );
      asked
        .on('error', (error) => (asked.reusedSocket ? this.#get(url).then(resolve, reject) : reject(error)))
        .end();
    });
  }

  #post(url: string, token: string, agent: Agent | false = this.#agent): Promise<string> {
    const body = `grant_type=refresh_token&refresh_token=${token}`;
    return new Promise((resolve) => {
      request(
        `${url}/oauth/token`,
        {
          method: 'POST',
          agent,
          headers: { 'content-type': 'application/x-www-form-urlencoded', 'content-length': body.length },
        },
        (answer) => {
          let text = '';
          answer
            .setEncoding('utf8')
            .on('data', (chunk: string) => {
              text += chunk;
            })
            .on('end', () => {
              const { refresh_token: next, error } = JSON.parse(text) as {
                refresh_token?: string;
                error?: unknown;
              };
              resolve(answer.statusCode === 200 ? next! : `${answer.statusCode} ${String(error)}`);
            });
        },
      )
        .on('error', () => resolve('cut'))
        .end(body);
    });
  }
}

/** Results of races over HTTP. */
export interface HttpRaces {
  readonly rounds: number;
  /** Number of rounds after which the login was still valid. */
  readonly alive: number;
  /** Number of later replays that were detected, without those over the rate limit. */
  readonly caught: number;
  readonly answered: number;
  readonly limited: number;
}

/**
 * Concurrent refreshes by HTTP never give two successors. The login stays valid, unless a server read a
 * request after the others had their responses. A busy machine may cause that; the login then has to end.
 */
export async function overHttp(sites: Sites, count: number, rounds: number): Promise<HttpRaces> {
  let [alive, caught, answered, limited] = [0, 0, 0, 0];
  for (let round = 0; round < rounds; round++) {
    const { refreshToken, login } = await sites.own.issue('alice');
    const results = await sites.race(refreshToken, count);
    const tokens = results.filter(isToken);
    assert.equal(new Set(tokens).size, 1, JSON.stringify([...new Set(results)]));
    for (const result of results) assert.match(result, /^(?:svcrt_|429 rate_limited$|400 invalid_grant$)/);
    answered += tokens.length;
    limited += results.filter((result) => result.startsWith('429')).length;
    const row = await sites.own.store.findLogin(login.id);
    assert.equal(row?.generation, 1);
    if (row.revokedAt !== null) continue;
    alive++;
    assert.ok(!results.includes('400 invalid_grant'), 'nobody is refused while the login lives');
    const next = await sites.refresh(tokens[0]!);
    if (next === '429 rate_limited') continue;
    assert.ok(isToken(next), next);
    const replay = await sites.refresh(tokens[0]!, 1); // in another process if there is one
    if (replay === '429 rate_limited') continue; // a slow machine regains one request a second
    assert.equal(replay, '400 invalid_grant');
    assert.equal((await sites.own.store.findLogin(login.id))?.revokeReason, 'reuse');
    caught++;
  }
  return { rounds, alive, caught, answered, limited };
}

/**
 * A process is killed between commit and response, by HTTP: the retry at another process gets the successor.
 */
export async function killedOverHttp(sites: Sites, kills: number): Promise<number> {
  for (let kill = 0; kill < kills; kill++) {
    const { refreshToken } = await sites.own.issue('alice');
    await sites.sacrifice(refreshToken);
    const retried = await sites.refresh(refreshToken);
    assert.equal(retried, sites.own.codec.format(sites.own.codec.next(sites.own.codec.parse(refreshToken)!)));
    assert.ok(isToken(await sites.refresh(retried)));
  }
  return kills;
}

/** Outcomes of refreshes that were in flight when their process was killed. */
export interface KilledUnderLoad {
  readonly inFlight: number;
  /** Number of logins that ended although their client repeated each token until it had the next one. */
  readonly lost: number;
  /** Number of later replays, each of which must end its login. */
  readonly caught: number;
}

/**
 * Clients refresh one after the other at a process that is killed with kill -9. Each client repeats its last
 * refresh at another process, and then replays an old token.
 */
export async function killedUnderLoad(
  sites: Sites,
  kills: number,
  clients: number,
  random: (below: number) => number,
): Promise<KilledUnderLoad> {
  let [inFlight, lost, caught] = [0, 0, 0];
  for (let kill = 0; kill < kills; kill++) {
    const victim = await sites.victim();
    const work = async (): Promise<void> => {
      let token = (await sites.own.issue('alice')).refreshToken;
      let next = await victim.refresh(token);
      for (; isToken(next); next = await victim.refresh(token)) token = next;
      assert.equal(next, 'cut');
      inFlight++;
      const retried = await sites.refresh(token);
      if (!isToken(retried)) return void lost++;
      assert.equal(
        await sites.refresh(token, 1),
        '400 invalid_grant',
        'a replay, in another process if there is one',
      );
      caught++;
    };
    const working = Promise.all(Array.from({ length: clients }, work));
    await systemClock.sleep(300 + random(200));
    await victim.kill();
    await working;
  }
  return { inFlight, lost, caught };
}

/**
 * Pairs of overlapping requests at two processes: the login stays valid, and a later replay is detected.
 * Returns how many logins were lost.
 */
export async function overlapping(
  sites: Sites,
  rounds: number,
  count: number,
  connections: 'open' | 'new' = 'open',
): Promise<{ readonly rounds: number; readonly lost: number; readonly caught: number }> {
  let [lost, caught] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    const { refreshToken } = await sites.own.issue('alice');
    const results = await sites.race(refreshToken, count, connections);
    const tokens = results.filter(isToken);
    assert.equal(new Set(tokens).size, 1, JSON.stringify([...new Set(results)]));
    const next = await sites.refresh(tokens[0]!);
    if (!isToken(next)) {
      lost++;
      continue;
    }
    assert.equal(await sites.refresh(tokens[0]!, 1), '400 invalid_grant');
    caught++;
  }
  return { rounds, lost, caught };
}

/**
 * Pairs of overlapping requests, and sequential replays, at two hosts of which the second has a slower clock.
 * Returns how many pairs were refused, and how many replays were accepted.
 */
export async function skewed(
  sites: Sites,
  rounds: number,
): Promise<{ readonly rounds: number; readonly refused: number; readonly accepted: number }> {
  let [refused, accepted] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    const { refreshToken } = await sites.own.issue('alice');
    const results = await sites.race(refreshToken, 2);
    if (!results.every(isToken)) refused++;
    const other = await sites.own.issue('alice');
    const next = await sites.refresh(other.refreshToken, 0);
    assert.ok(isToken(next), next);
    if (isToken(await sites.refresh(other.refreshToken, 1))) accepted++;
    else assert.equal((await sites.own.store.findLogin(other.login.id))?.revokeReason, 'reuse');
  }
  return { rounds, refused, accepted };
}
