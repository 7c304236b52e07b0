import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { checkedRule, findRule, makeReport, matches, select } from '../../src/check/check.ts';
import { countFindings, humanReport, jsonReport, relativeFile, shownPlace } from '../../src/check/report.ts';
import { CORE_RULES } from '../../src/check/rules/rules.ts';
import { SvcError } from '../../src/base/errors.ts';
import { Router } from '../../src/routing/route.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { collectedLog } from '../support/collected-log.ts';
import { assertChecks } from '../../src/cli/command.ts';
import type { SvcOptions } from '../../src/app/options.ts';
import type { Finding, Report } from '../../src/base/findings.ts';
import type { Middleware, Plugin, Rule } from '../../src/index.ts';

const make = (options: SvcOptions = {}): Svc => new Svc({ logger: collectedLog().logger, ...options });
const handler = (): string => 'x';
/** Returns the line of the caller. */
const line = (): number => Number(/:(\d+):\d+\)?$/.exec(new Error('here').stack!.split('\n')[2]!)![1]);
/** Findings without SVC404, which depends on the running Node.js, and without rules that small applications break on purpose. */
const about = (app: Svc): Finding[] =>
  app
    .check()
    .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule));
const ids = (app: Svc): string[] => about(app).map(({ rule }) => rule);

const rule = (parts: Partial<Rule> = {}): Rule => ({
  id: 'shop/each',
  severity: 'warning',
  why: 'because',
  remedy: 'fix it',
  phase: 'security',
  run: (_view, report) => report('it', 'is wrong'),
  ...parts,
});

test('app.check() returns ok: true and no findings for an application without mistakes, also at a second call', () => {
  const app = make().get('/a', handler).post('/a', { public: true }, handler);
  const report = app.check();
  assert.deepEqual([report.schemaVersion, report.ok, report.suppressed], [1, true, []]);
  assert.deepEqual(about(app), []);
  assert.ok(Object.isFrozen(report) && Object.isFrozen(report.findings));
  app.get('/b', handler).compileAll();
  assert.deepEqual(about(app), []); // also on a frozen application
});

test('app.check() never throws, does not freeze the application, and runs no hooks', async () => {
  const app = make();
  let hooks = 0;
  app
    .onStartup(() => {
      hooks++;
    })
    .get('/a', { name: 'n' }, handler)
    .get('/a', { name: 'n' }, handler);
  app.use({
    handle: (_req, next) => next(),
    compile: () => {
      throw new TypeError('broken');
    },
  });
  assert.equal(app.check().ok, false);
  app.post('/b', handler);
  assert.deepEqual(ids(app).sort(), ['SVC101', 'SVC104', 'SVC121']);
  assert.equal(hooks, 0);
});

test('app.compileAll() throws an error that contains exactly the findings of app.check()', () => {
  const app = make().get('/a', handler).get('/A', handler).get('/a', handler).addCheck(rule());
  const { findings } = app.check();
  assert.ok(findings.length > 2);
  assert.throws(
    () => app.compileAll(),
    (error: unknown) => {
      assert.ok(error instanceof SvcError && error.code === 'E_COMPILE');
      assert.deepEqual(error.findings, findings);
      assert.match(error.message, /^Cannot compile the application: 1 mistake\n {2}SVC101 GET \/a: [^\n]+$/); // only errors prevent compilation
      return true;
    },
  );
});

test('the error of an application that cannot start counts no findings that do not prevent the start', () => {
  const app = make({ env: 'test' }).get('/a', handler).get('/a', handler).post('/b', handler);
  assert.ok(app.check().findings.some(({ rule: id, severity }) => id === 'SVC201' && severity === 'error'));
  assert.throws(
    () => app.compileAll(),
    (error: unknown) => {
      assert.ok(error instanceof SvcError && error.findings.some(({ rule: id }) => id === 'SVC201'));
      assert.match(error.message, /: 1 mistake\n {2}SVC101 GET \/a: [^\n]+$/);
      return true;
    },
  );
});

test('an application starts despite a warning of svc check, unless an "allow" entry for this warning has expired', () => {
  const twins = (until?: string): Svc => {
    const app = make({ clock: new ManualClock(Date.UTC(2026, 10, 22)) })
      .get('/a', handler)
      .get(
        '/A',
        { allow: [{ rule: until === undefined ? 'SVC999' : 'SVC103', reason: 'old clients', until }] },
        handler,
      );
    assert.equal(
      about(app).some(({ rule: id }) => id === 'SVC103'),
      until !== '2026-12-31',
    );
    return app;
  };
  assert.ok(make().get('/a', handler).get('/A', handler).compileAll());
  assert.ok(twins().compileAll());
  assert.ok(twins('2026-12-31').compileAll());
  assert.throws(() => twins('2026-11-21').compileAll(), {
    code: 'E_COMPILE',
    message: /SVC103 GET \/A: .*the finding was allowed until 2026-11-21/,
  });
});

test('app.check() sorts its findings by severity, place and rule, whatever the order of the rules', () => {
  const app = make();
  app
    .addCheck(rule({ id: 'z/info', severity: 'info', phase: 'graph' }))
    .addCheck(rule({ id: 'a/warning' }))
    .get('/a', handler)
    .get('/A', handler);
  app.get('/b', handler).get('/b', handler);
  assert.deepEqual(ids(app), ['SVC101', 'a/warning', 'SVC103', 'z/info']);
  assert.deepEqual(about(app), about(app));
});

test('app.check() runs check rules in the order graph, security, contract, environment, and gives each rule the compiled application', () => {
  const seen: string[] = [];
  const app = make({ env: 'test', config: { pageSize: 20 } });
  for (const phase of ['live', 'environment', 'contract', 'security', 'graph'] as const)
    app.addCheck(
      rule({
        id: `shop/${phase}`,
        phase,
        run: () => {
          seen.push(phase);
        },
      }),
    );
  app.addCheck(
    rule({
      run: (view) => {
        seen.push(
          view.env,
          String(view.config('pageSize')),
          String(view.config('nothing')),
          String(view.routes.some((route) => route.template === '/late')),
        );
      },
    }),
  );
  app.get('/late', handler);
  assert.deepEqual(ids(app), []); // config() of a rule does not make a setting required
  assert.deepEqual(seen, ['graph', 'security', 'test', '20', 'undefined', 'true', 'contract', 'environment']);
});

test('a finding of app.check() about a route has the line where the route is declared', () => {
  const app = make().addCheck(
    rule({
      run: (view, report) =>
        view.routes.forEach((route) => report(`${route.method} ${route.template}`, 'seen')),
    }),
  );
  const at = line() + 1;
  app.get('/a', handler);
  assert.equal(about(app).find(({ subject }) => subject === 'GET /a')!.place!.line, at);
});

test('when a check rule throws or returns a promise, app.check() reports this as a finding', () => {
  const app = make()
    .addCheck(
      rule({
        run: () => {
          throw new RangeError('too far\nsecond line');
        },
      }),
    )
    .addCheck(rule({ id: 'shop/late', run: () => Promise.reject(new Error('unheard')) }))
    .addCheck(
      rule({
        id: 'shop/null',
        run: () => {
          throw null;
        },
      }),
    );
  assert.deepEqual(
    about(app).map(({ rule: id, severity, subject, message }) => [id, severity, subject, message]),
    [
      ['shop/each', 'error', 'rule shop/each', 'the rule threw RangeError: too far'],
      [
        'shop/late',
        'error',
        'rule shop/late',
        'the rule returned a promise, which only rules of the phase live may do',
      ],
      ['shop/null', 'error', 'rule shop/null', 'the rule threw null'],
    ],
  );
  app.compileAll(); // findings outside the phase graph do not prevent compilation
});

test('an error of a check rule prevents the start of an application only if the rule has the phase "graph"', async () => {
  for (const [phase, starts] of [
    ['graph', false],
    ['security', true],
    ['contract', true],
    ['environment', true],
  ] as const) {
    const app = make().addCheck(rule({ phase, severity: 'error' }));
    assert.equal(app.check().ok, false);
    assert.equal(
      await app.startup().then(
        () => true,
        (error: SvcError) => error.code !== 'E_COMPILE',
      ),
      starts,
      phase,
    );
    assert.throws(() => assertChecks(app, true), { code: 'E_COMPILE', message: /shop\/each it: is wrong/ });
  }
  assertChecks(make().addCheck(rule()), true);
});

test('app.checkLive() runs only the check rules with the phase "live", and waits for asynchronous rules', async () => {
  const app = make()
    .addCheck(
      rule({
        phase: 'live',
        run: async (view, report) => {
          await undefined;
          report(view.env, 'is slow');
        },
      }),
    )
    .addCheck(rule({ id: 'shop/other' }))
    .addCheck(
      rule({ id: 'shop/broken', phase: 'live', run: () => Promise.reject(new Error('no database')) }),
    );
  const report = await app.checkLive();
  assert.deepEqual(
    report.findings.map(({ rule: id, subject, message }) => [id, subject, message]),
    [
      ['shop/broken', 'rule shop/broken', 'the rule threw Error: no database'],
      ['shop/each', 'production', 'is slow'],
    ],
  );
  assert.equal(report.ok, false);
});

test('a plugin can add a rule of svc check by calling host.rule() in register()', () => {
  const plugin: Plugin = { name: 'shop', register: (host) => host.rule(rule()) };
  assert.deepEqual(ids(make().register(plugin)), ['shop/each']);
});

for (const [what, parts, problem] of [
  ['an invalid id', { id: 'each' as never }, /Cannot add the check "each": the id of a check must/],
  ['the id of another rule', { id: 'SVC101' }, /another check already has the same id/],
  ['an unknown severity', { severity: 'fatal' as never }, /severity/],
  ['an unknown phase', { phase: 'load' as never }, /phase/],
  ['no property "why"', { why: undefined as never }, /"why" and "remedy"/],
  ['no function "run"', { run: undefined as never }, /run\(view, report\)/],
] as const) {
  test(`app.addCheck() refuses a check rule with ${what} (E_RULE)`, () => {
    assert.throws(() => make().addCheck(rule(parts)), { code: 'E_RULE', message: problem });
  });
}

test('app.addCheck() refuses the id of each built-in rule, also of the rules that only svc check loads (E_RULE)', () => {
  for (const { id } of CORE_RULES)
    assert.throws(() => make().addCheck(rule({ id: id as never })), { code: 'E_RULE' }, id);
  const { id } = checkedRule(rule({ id: 'SVC601' }), [], { mayExtend: true });
  assert.equal(id, 'SVC601');
});

test('app.addCheck() refuses a second rule with the same id, and refuses every rule after the application was compiled', () => {
  const app = make().addCheck(rule());
  assert.throws(() => app.addCheck(rule()), { code: 'E_RULE' });
  assert.throws(() => app.compileAll().addCheck(rule({ id: 'shop/late' })), { code: 'E_APP_FROZEN' });
  assert.equal(checkedRule(rule({ id: '@org/plugin.name' as never }), []).id, '@org/plugin.name');
});

test('when register() of a plugin throws, app.check() reports the error at the line of the throw, also at a second call', () => {
  const app = make();
  const at = line() + 1;
  app.register({
    name: 'odd',
    register: () => {
      throw new TypeError('nope');
    },
  });
  for (let time = 0; time < 2; time++)
    assert.deepEqual(
      about(app).map(({ rule: id, subject, message, place }) => [id, subject, message, place!.line]),
      [['SVC114', 'plugin odd', 'register() of the plugin threw TypeError: nope', at]],
    );
  assert.throws(() => app.compileAll(), { code: 'E_COMPILE' });
  const configured = make({ config: { size: 'large' } }).register({
    name: 'sized',
    register: (host) => void host.option('size', 5),
  });
  assert.match(
    about(configured)[0]!.message,
    /register\(\) of the plugin threw Cannot read the setting "size"/,
  );
});

test('a finding of app.check() about a middleware has the line of its app.use() call', () => {
  const app = make();
  const layer: Middleware = {
    kind: 'cors',
    handle: (_req, next) => next(),
    compile: () => [{ rule: 'SVC121', severity: 'warning', subject: 'cors', message: 'm', remedy: 'r' }],
  };
  const at = line() + 1;
  app.use(layer);
  assert.deepEqual(
    about(app).map(({ rule: id, place }) => [id, place!.line]),
    [['SVC121', at]],
  );
  const broken: Middleware = {
    kind: 'csrf',
    handle: (_req, next) => next(),
    compile: () => {
      throw new SvcError('E_SESSION_ABSENT', []);
    },
  };
  assert.deepEqual(
    about(make().use(broken)).map(({ subject, remedy }) => [subject, remedy]),
    [
      [
        'middleware csrf',
        'Register it before all code that reads req.session: app.use(new SessionMiddleware()); if it is registered, see whether npm ls svc lists two copies of svc',
      ],
    ],
  );
});

// ── allowances ──

const DAY = Date.UTC(2026, 10, 20);
const perRoute = rule({
  run: (view, report) =>
    view.routes
      .filter((route) => route.template === '/a')
      .forEach((route) => report(`${route.method} ${route.template}`, 'is open')),
});
const allowed = (allow: readonly unknown[], nowMs = DAY): Report =>
  make({ clock: new ManualClock(nowMs) })
    .addCheck(perRoute)
    .get('/a', { allow: allow as never }, handler)
    .check();
const messages = ({ findings }: Report): string[] =>
  findings
    .filter(({ rule: id }) => id === 'shop/each')
    .map(({ severity, message }) => `${severity}: ${message}`);

test('if the option "allow" of a route names a check rule, app.check() lists the findings of this rule as suppressed', () => {
  const report = allowed([
    { rule: 'shop/other', reason: 'another' },
    { rule: 'shop/each', reason: 'a public route' },
  ]);
  assert.deepEqual(messages(report), []);
  assert.deepEqual(
    report.suppressed.map(({ rule: id, subject }) => [id, subject]),
    [['shop/each', 'GET /a']],
  );
});

test('an entry in the option "allow" of a route suppresses a finding until the end of its last day, and then it becomes an error', () => {
  const allow = [{ rule: 'shop/each', reason: 'until the login is there', until: '2026-11-20' }];
  assert.deepEqual(messages(allowed(allow)), []);
  assert.deepEqual(messages(allowed(allow, DAY + 86_399_999)), []);
  assert.deepEqual(messages(allowed(allow, DAY + 86_400_000)), [
    'error: is open; the finding was allowed until 2026-11-20: until the login is there',
  ]);
});

test('an entry in the option "allow" without a reason or with an invalid date has no effect', () => {
  assert.deepEqual(messages(allowed([{ rule: 'shop/each', reason: ' ' }])), [
    'error: is open; the allowance gives no reason',
  ]);
  assert.deepEqual(messages(allowed([{ rule: 'shop/each' }, null])), [
    'error: is open; the allowance gives no reason',
  ]);
  for (const until of ['soon', '2026-13-01', '20.11.2027'])
    assert.match(
      messages(allowed([{ rule: 'shop/each', reason: 'r', until }]))[0]!,
      /error: is open; the date of the allowance/,
    );
});

test('an entry in the option "allow" of a route suppresses neither findings of other routes nor findings that prevent compilation', () => {
  const app = make()
    .addCheck(perRoute)
    .get('/a', handler)
    .post('/a', { allow: [{ rule: 'shop/each', reason: 'r' }] }, handler);
  assert.deepEqual(
    about(app).map(({ subject }) => subject),
    ['GET /a'],
  );
  const twice = make()
    .get('/a', handler)
    .get('/a', { allow: [{ rule: 'SVC101', reason: 'r' }] }, handler);
  assert.deepEqual(ids(twice), ['SVC101']);
  const path = make()
    .get('/a', handler)
    .get('/A', { allow: [{ rule: 'SVC103', reason: 'an old link' }] }, handler);
  assert.deepEqual([ids(path), path.check().suppressed.length], [[], 1]);
});

test('when two routes are declared on one line, the option "allow" of one route does not suppress findings of the other route', () => {
  const router = new Router();
  for (const path of ['/a', '/b'] as const)
    router.get(path, path === '/b' ? { allow: [{ rule: 'shop/each', reason: 'r' }] } : {}, handler);
  const app = make()
    .includeRouter(router)
    .addCheck(
      rule({
        run: (view, report) =>
          view.routes
            .filter(({ template }) => /^\/[ab]$/.test(template))
            .forEach((route) => report(`GET ${route.template}`, 'open', route.place)),
      }),
    );
  assert.deepEqual(
    about(app).map(({ subject }) => subject),
    ['GET /a'],
  );
});

// ── selection of rules and forms of reports ──

test('matches() compares a rule id with a pattern in which * stands for any text, and ignores letter case', () => {
  for (const [pattern, id, expected] of [
    ['SVC1*', 'SVC101', true],
    ['svc101', 'SVC101', true],
    ['SVC1', 'SVC101', false],
    ['shop/*', 'shop/each', true],
    ['*', 'a/b', true],
    ['a.b/c', 'axb/c', false],
    ['@o/*', '@o/x', true],
  ] as const) {
    assert.equal(matches(pattern, id), expected, `${pattern} ${id}`);
  }
});

const FINDINGS: readonly Finding[] = [
  {
    rule: 'SVC103',
    severity: 'warning',
    subject: 'GET /A',
    message: 'm at file:///project/src/b.ts:2',
    remedy: 'r',
  },
  {
    rule: 'SVC101',
    severity: 'error',
    subject: 'GET /a',
    message: 'twice',
    remedy: 'once',
    place: { file: 'file:///project/src/a.ts', line: 3, column: 5 },
  },
  {
    rule: 'SVC101',
    severity: 'error',
    subject: 'GET /b',
    message: 'twice',
    remedy: 'once',
    place: { file: '/elsewhere/a.ts', line: 1, column: 1 },
  },
  {
    rule: 'a/b',
    severity: 'info',
    subject: 's',
    message: 'm',
    remedy: 'r',
    place: { file: '<unknown>', line: 0, column: 0 },
  },
];
const CONTEXT = { target: 'app.ts', cwd: '/project', rules: CORE_RULES };

test('select() keeps only the findings of the selected rules in a report, and sets "ok" to false if one of them is an error', () => {
  const report = makeReport(FINDINGS, [FINDINGS[0]!]);
  assert.deepEqual(
    select(report, { only: ['SVC1*'], skip: ['SVC101'] }).findings.map(({ rule: id }) => id),
    ['SVC103'],
  );
  assert.equal(select(report, { only: [], skip: ['SVC101'] }).ok, true);
  assert.deepEqual(
    [
      select(report, { only: ['x/*'], skip: [] }).findings,
      select(report, { only: ['x/*'], skip: [] }).suppressed,
    ],
    [[], []],
  );
  assert.equal(select(report, { only: [], skip: [] }).ok, false);
});

test('findRule() returns the check rule with the given id, or suggests an id that differs by one letter', () => {
  assert.deepEqual(findRule('svc101', CORE_RULES), { rule: CORE_RULES.find(({ id }) => id === 'SVC101') });
  assert.deepEqual(
    ['SVC110', 'SVC999', 'SVC', 'zzz'].map((id) => findRule(id, CORE_RULES)),
    [{ near: 'SVC101' }, { near: undefined }, { near: undefined }, { near: undefined }],
  );
});

test('humanReport() groups findings by severity, with places, remedies and counts, and gives the reason of each rule once', () => {
  assert.equal(
    humanReport(
      makeReport(FINDINGS, [FINDINGS[0]!]),
      { ...CONTEXT, rules: [{ ...CORE_RULES[0]!, id: 'SVC101', why: 'one answers' }] },
      false,
    ),
    [
      'Errors',
      '  SVC101  GET /b  /elsewhere/a.ts:1:1',
      '      twice',
      '      why: one answers',
      '      fix: once',
      '  SVC101  GET /a  src/a.ts:3:5',
      '      twice',
      '      fix: once',
      '',
      'Warnings',
      '  SVC103  GET /A',
      '      m at src/b.ts:2',
      '      fix: r',
      '',
      'Notes',
      '  a/b  s',
      '      m',
      '      fix: r',
      '',
      'app.ts: 2 errors, 1 warning, 1 note, 1 allowed',
    ].join('\n'),
  );
  assert.equal(humanReport(makeReport([]), CONTEXT, true), 'app.ts: nothing found');
  assert.match(
    humanReport(makeReport(FINDINGS), CONTEXT, true),
    /\u001b\[31mSVC101\u001b\[0m {2}GET \/a {2}\u001b\[2msrc\/a\.ts:3:5\u001b\[0m/,
  );
});

test('jsonReport() returns one JSON document with the documented members', () => {
  const document = JSON.parse(
    jsonReport(makeReport(FINDINGS.slice(0, 2), [FINDINGS[3]!]), CONTEXT),
  ) as Record<string, unknown>;
  assert.deepEqual(Object.keys(document), [
    'schemaVersion',
    'target',
    'ok',
    'counts',
    'findings',
    'suppressed',
  ]);
  const [error, warning] = document['findings'] as [Record<string, unknown>, Record<string, unknown>];
  assert.deepEqual(Object.keys(error), ['rule', 'severity', 'subject', 'message', 'why', 'remedy', 'place']);
  assert.deepEqual(error['place'], { file: 'src/a.ts', line: 3, column: 5 });
  assert.deepEqual([warning['place'], warning['message']], [null, 'm at src/b.ts:2']);
  const [suppressed] = document['suppressed'] as [Record<string, unknown>];
  assert.deepEqual([suppressed['place'], suppressed['why']], [null, null]);
  assert.deepEqual(
    [document['schemaVersion'], document['ok'], document['counts']],
    [1, false, { error: 1, warning: 1, info: 0, suppressed: 1 }],
  );
  assert.deepEqual(countFindings([]), { error: 0, warning: 0, info: 0 });
});

test('relativeFile() shortens a path only if it is inside the working folder', () => {
  assert.equal(relativeFile('file:///project/a%20b.ts', '/project'), 'a b.ts');
  assert.equal(relativeFile('/projects/a.ts', '/project'), '/projects/a.ts');
  assert.equal(shownPlace({ file: '/project/a.ts', line: 0, column: 0 }, '/project'), '');
});
