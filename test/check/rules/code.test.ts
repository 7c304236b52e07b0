/**
 * Rules that read the code of functions: blocking calls (SVC501), lost clean-up (SVC502), unused dependencies (SVC113), and
 * values used after their clean-up (SVC112).
 */
import assert from 'node:assert/strict';
import { execSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import * as crypto from 'node:crypto';
import { test } from 'node:test';
import { BackgroundTasks } from '../../../src/routing/background.ts';
import { BearerAuth } from '../../../src/auth/auth.ts';
import { parseHandlers } from '../../../src/check/rules/code.ts';
import { Depends, provide } from '../../../src/routing/di.ts';
import { StreamingResponse } from '../../../src/http/response.ts';
import { found, quiet } from '../../support/found.ts';

const handler = (): string => 'x';
const connection = {
  release: (): void => undefined,
  close: async (): Promise<void> => undefined,
  use: (): number => 1,
};

test('svc check reports blocking calls in handlers, dependencies and middleware, but not in their comments and strings (SVC501)', () => {
  const hashed = provide({}, () => crypto.pbkdf2Sync('a', 'b', 1, 8, 'sha256'));
  const app = quiet()
    .get('/a', () => readFileSync('/dev/null', 'utf8') + readFileSync('/dev/null', 'utf8'))
    .get('/b', { it: Depends(provide({ deep: Depends(hashed) }, ({ deep }) => deep)) }, ({ it }) =>
      it.toString(),
    )
    .get('/c', () => 'readFileSync(' /* readFileSync() */); // readFileSync()
  app.use((_req, next) => {
    execSync('true');
    return next();
  });
  assert.deepEqual(found(app, 'SVC501').sort(), [
    'GET /a: the handler calls readFileSync, which blocks the process: all other requests wait until the call ends',
    'GET /b: the dependency (anonymous) calls pbkdf2Sync, which blocks the process: all other requests wait until the call ends',
    'middleware FunctionMiddleware: the middleware calls execSync, which blocks the process: all other requests wait until the call ends',
  ]);
});

test('svc check reports known blocking functions such as hashSync(), but not every function whose name ends with "Sync" (SVC501)', () => {
  const calendar = { requestSync: async (): Promise<string> => 'asked' };
  const bcrypt = { hashSync: (text: string): string => text };
  const app = quiet()
    .get('/a', async () => await calendar.requestSync())
    .get('/b', () => bcrypt.hashSync('b'));
  assert.deepEqual(found(app, 'SVC501'), [
    'GET /b: the handler calls hashSync, which blocks the process: all other requests wait until the call ends',
  ]);
});

test('svc check accepts a blocking call that runs only once, and a call of a local function named like a blocking function (SVC501)', () => {
  let text: string | undefined;
  const settings = (): string => readFileSync('/dev/null', 'utf8');
  const app = quiet()
    .get('/app', { it: Depends(settings, { scope: 'app' }) }, ({ it }) => it)
    .get('/request', { it: Depends(() => readFileSync('/dev/null', 'utf8')) }, ({ it }) => it)
    .get('/once', () => (text ??= JSON.stringify(readFileSync('/dev/null', 'utf8'))))
    .get('/again', () => {
      text ??= 'x';
      return readFileSync('/dev/null', 'utf8');
    })
    .get(
      '/random',
      () =>
        crypto.randomFillSync(Buffer.alloc(8)).toString('hex') +
        String(crypto.hkdfSync('sha256', 'a', 'b', 'c', 8).byteLength),
    )
    .get('/own', () => {
      const readSync = (): string => 'x';
      const watch = {
        statSync() {
          return 'y';
        },
      };
      return readSync() + watch.statSync();
    });
  assert.deepEqual(
    found(app, 'SVC501')
      .map((reported) => reported.split(':')[0])
      .sort(),
    ['GET /again', 'GET /request'],
  );
});

test('svc check accepts a blocking call whose result a store keeps, and a call that runs only in development (SVC501)', async () => {
  await parseHandlers(); // as svc check does
  const pages = new Map<string, string>();
  const file = '/dev/null';
  let isLoaded = false;
  const env = 'production' as string;
  const once =
    <T>(fn: () => T) =>
    (): T =>
      fn();
  const app = quiet()
    .get('/has', () => {
      if (!pages.has(file)) pages.set(file, readFileSync(file, 'utf8'));
      return pages.get(file);
    })
    .get('/hit', () => {
      const hit = pages.get(file);
      if (hit !== undefined) return hit;
      const text = readFileSync(file, 'utf8');
      pages.set(file, text);
      return text;
    })
    .get('/absent', () => {
      let page = pages.get(file);
      if (page === undefined) {
        page = readFileSync(file, 'utf8');
        pages.set(file, page);
      }
      return page;
    })
    .get('/flag', () => {
      if (isLoaded) return 'yes';
      pages.set('x', readFileSync(file, 'utf8'));
      isLoaded = true;
      return 'now';
    })
    .get('/wrapped', () => once(() => readFileSync(file, 'utf8'))())
    .get('/branch', () => (env === 'development' ? readFileSync(file, 'utf8') : 'x'))
    .get('/early', () => {
      if (env === 'production') return 'x';
      return readFileSync(file, 'utf8');
    })
    .get('/each', () => {
      const page = pages.get(file);
      return `${page}${readFileSync(file, 'utf8')}`;
    })
    .get('/live', () => (env === 'production' ? readFileSync(file, 'utf8') : 'x'));
  assert.deepEqual(
    found(app, 'SVC501').map((reported) => reported.split(':')[0]),
    ['GET /each', 'GET /live'],
  );
});

test('svc check accepts a blocking call whose result is cached in a module variable, but not in a local variable of the handler (SVC501)', () => {
  let text: string | undefined;
  let other: string | null = null;
  const known: { text?: string } = {};
  const app = quiet()
    .get('/compared', () => {
      if (text === undefined) text = readFileSync('/dev/null', 'utf8');
      return text;
    })
    .get('/negated', () => {
      if (!other) {
        const raw = readFileSync('/dev/null', 'utf8');
        other = raw.trim();
      }
      return other;
    })
    .get('/member', () => {
      if (known.text === undefined) {
        known.text = readFileSync('/dev/null', 'utf8');
      }
      return known.text;
    })
    .get('/own', () => {
      let mine: string | undefined;
      if (mine === undefined) mine = readFileSync('/dev/null', 'utf8');
      return mine;
    })
    .get('/given', ({ req: { id: mine } }) => {
      if (!mine) mine = readFileSync('/dev/null', 'utf8');
      return mine;
    })
    .get('/state', ({ state }) => {
      const own = state as { text?: string };
      if (!own.text) own.text = readFileSync('/dev/null', 'utf8');
      return own.text;
    })
    .get('/elsewhere', () => {
      if (text === undefined) other = readFileSync('/dev/null', 'utf8');
      return String(other);
    })
    .get('/after', () => {
      if (!text) text = 'x';
      return readFileSync('/dev/null', 'utf8');
    })
    .get('/present', () => {
      if (text) text = readFileSync('/dev/null', 'utf8');
      return String(text);
    });
  assert.deepEqual(
    found(app, 'SVC501')
      .map((reported) => reported.split(':')[0])
      .sort(),
    ['GET /after', 'GET /elsewhere', 'GET /given', 'GET /own', 'GET /present', 'GET /state'],
  );
});

test('svc check accepts a dependency that commits a transaction after "yield" and rolls the transaction back in "catch" (SVC502)', () => {
  async function* transaction(): AsyncGenerator<typeof connection> {
    try {
      yield connection;
      await connection.close();
    } catch (error) {
      connection.release();
      throw error;
    }
  }
  assert.deepEqual(
    found(
      quiet().get('/', { it: Depends(transaction) }, ({ it }) => String(it.use())),
      'SVC502',
    ),
    [],
  );
});

test('svc check recognises that a nested destructuring pattern uses a dependency, and accepts an unused dependency that returns no value (SVC113)', () => {
  const value = provide({}, () => 1);
  const count = provide({}, ({ req }) => {
    String(req.ip);
  });
  const app = quiet()
    .get('/a/{id}', { it: Depends(value) }, ({ params: { id }, it }) => id + it)
    .get('/b/{id}', { it: Depends(value) }, ({ params: { id } }) => id)
    .get('/c', { count: Depends(count) }, handler);
  assert.deepEqual(
    found(app, 'SVC113').map((text) => text.slice(0, text.indexOf(' runs for'))),
    ['GET /b/{id}: the dependency "it"'],
  );
});

test('svc check reports clean-up code of a dependency that is not awaited or does not run after an error (SVC502)', () => {
  function* bare(): Generator<typeof connection> {
    yield connection;
    connection.release();
  }
  function* guarded(): Generator<typeof connection> {
    try {
      yield connection;
    } finally {
      connection.release();
    }
  }
  function* nothing(): Generator<typeof connection> {
    yield connection;
  }
  async function* forgotten(): AsyncGenerator<typeof connection> {
    try {
      yield connection;
    } finally {
      connection.close();
    }
  }
  async function* awaited(): AsyncGenerator<typeof connection> {
    try {
      yield connection;
    } finally {
      await connection.close();
    }
  }
  const app = quiet();
  for (const source of [bare, guarded, nothing, forgotten, awaited])
    app.get(`/${source.name}` as '/x', { it: Depends(source as typeof bare) }, ({ it }) => String(it.use()));
  assert.deepEqual(found(app, 'SVC502'), [
    'GET /bare: if a request fails, the code after yield in the dependency bare does not run, because there is no finally block',
    'GET /forgotten: the dependency forgotten does not await connection.close() in its clean-up, so errors of the call are lost',
  ]);
});

test('svc check warns of a dependency that the handler does not use, unless this dependency guards the route (SVC113)', () => {
  const value = provide({}, () => 1);
  const guard = provide({}, ({ req }) => {
    if (req.headers['x-key'] === undefined) throw new Error('no');
  });
  const app = quiet()
    .get('/a', { it: Depends(value) }, handler)
    .get('/b', { it: Depends(value), id: Depends(value) }, ({ id }) => String(id))
    .get('/c', { it: Depends(value) }, ({ it: renamed }) => String(renamed))
    .get('/d', { it: Depends(value) }, (context) => String(context.it))
    .get('/e', { it: Depends(value) }, ({ ...all }) => String(all.it))
    .get('/f', { it: Depends(BearerAuth()), guard: Depends(guard) }, handler)
    .get('/g', { it: Depends(value) }, async function named({ it }) {
      return String(it);
    });
  app.websocket('/live', { it: Depends(provide({}, () => 1)) }).onOpen((socket, { it }) => {
    socket.send(String(it));
  }); // handlers of a WebSocket are added later, so SVC113 does not read them
  assert.deepEqual(
    found(app, 'SVC113').map((text) => text.slice(0, text.indexOf(' runs for'))),
    ['GET /a: the dependency "it"', 'GET /b: the dependency "it"'],
  );
});

test('svc check warns when a stream or a background task uses a dependency with the scope "handler" (SVC112)', () => {
  const opened = provide({}, function* () {
    try {
      yield connection;
    } finally {
      connection.release();
    }
  });
  const short = { db: Depends(opened, { scope: 'handler' }) } as const;
  const app = quiet()
    .get(
      '/stream',
      short,
      ({ db }) =>
        new StreamingResponse(
          (async function* () {
            yield String(db.use());
          })(),
        ),
    )
    .get('/task', { ...short, tasks: Depends(BackgroundTasks) }, ({ db, tasks }) => {
      tasks.add(() => {
        db.use();
      });
      return 'x';
    })
    .get('/fine', short, ({ db }) => {
      const used = String(db.use());
      return new StreamingResponse(
        (async function* () {
          yield used;
        })(),
      );
    })
    .get(
      '/wide',
      { db: Depends(opened) },
      ({ db }) =>
        new StreamingResponse(
          (async function* () {
            yield String(db.use());
          })(),
        ),
    );
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC112')
      .map(({ severity, subject }) => [severity, subject]),
    [
      ['warning', 'GET /stream'],
      ['warning', 'GET /task'],
    ],
  );
});
