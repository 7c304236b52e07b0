/**
 * Accounts of MariaDB and MySQL, one for each authentication method of the server. Each login succeeds, or
 * fails with its reason.
 *
 * MariaDB is started by the tests. MARIADB_URL and MYSQL_URL name other servers and a user who may create
 * accounts. TLS is tested there when CA_FILE names the authority of the server's certificate.
 * CLIENT_CERT_FILE and CLIENT_KEY_FILE then name a client certificate that it has signed:
 *
 *   MYSQL_URL=mysql://root:secret@127.0.0.1/svc CA_FILE=/ca.pem … node --conditions=svc-source --test test/db/mysql/accounts.integration.test.ts
 */
import assert from 'node:assert/strict';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SvcError } from '../../../src/base/errors.ts';
import { DatabaseError, openDatabase, type Database } from '../../../src/db/index.ts';
import { SECOND } from '../../support/certificates.ts';
import { MariaDbServer } from '../../support/mariadb-server.ts';
import { needsEngine, sharedMySql, type Engine } from '../../support/mysql-database.ts';
import { folder, inReverse } from '../../support/run.ts';

const PASSWORD = 'only for tests';
const ODD = 'p@ss:w/o rd%?#&ü';

/** Address of a server, and the authority of its certificate. */
interface Place {
  readonly url: string;
  /** PEM files. Without them TLS is not tested. */
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string } | undefined;
}

/**
 * An account, the statement that creates it, and the expected login: undefined for success, an error number,
 * or a pattern of the message.
 */
interface Account {
  readonly name: string;
  readonly made: string;
  readonly password?: string;
  readonly query?: string;
  readonly fails?: number | readonly number[] | RegExp;
}

/** Features of the server. */
interface Server {
  readonly version: string;
  readonly plugins: ReadonlySet<string>;
  /** Whether the server has created its own certificate. */
  readonly provesCertificate: boolean;
}

/** The tests of this process. */
const PROCESS = inReverse({ after });
let ours: Promise<Place> | undefined;

async function placeOf(engine: Engine): Promise<Place> {
  const named = process.env[engine === 'mariadb' ? 'MARIADB_URL' : 'MYSQL_URL'];
  const { CA_FILE: ca, CLIENT_CERT_FILE: cert, CLIENT_KEY_FILE: key } = process.env;
  if (named === undefined) return (ours ??= ownPlace());
  return {
    url: await sharedMySql(engine),
    files: ca === undefined || cert === undefined || key === undefined ? undefined : { ca, cert, key },
  };
}

async function ownPlace(): Promise<Place> {
  const path = folder(PROCESS, { 'cert.pem': SECOND.cert, 'key.pem': SECOND.key });
  chmodSync(path, 0o755); // the server runs as another user
  // self-signed, so it is its own authority
  const files = { ca: join(path, 'cert.pem'), cert: join(path, 'cert.pem'), key: join(path, 'key.pem') };
  const server = await MariaDbServer.start(PROCESS, [
    `--ssl-ca=${files.ca}`,
    `--ssl-cert=${files.cert}`,
    `--ssl-key=${files.key}`,
    '--plugin-load-add=auth_ed25519',
  ]);
  return { url: server.url, files };
}

async function serverOf(admin: Database): Promise<Server> {
  const version = String(await admin.scalar('select version()'));
  const plugins = await admin.fetchAll(
    "select plugin_name as name from information_schema.plugins where plugin_type = 'AUTHENTICATION' and plugin_status = 'ACTIVE'",
  );
  const provesCertificate =
    admin.dialect === 'mariadb' &&
    Number.parseFloat(version) >= 11.4 &&
    (await admin.scalar("select coalesce(@@ssl_cert, '')")) === '';
  return { version, plugins: new Set(plugins.map(({ name }) => String(name))), provesCertificate };
}

/** The available plugins depend on the version. */
function accountsOf(engine: Engine, server: Server, files: Place['files']): readonly Account[] {
  const { version, plugins, provesCertificate } = server;
  const by = (plugin: string, password: string): string =>
    engine === 'mariadb'
      ? `identified via ${plugin} using password('${password}')`
      : `identified with ${plugin} by '${password}'`;
  if (engine === 'mysql' && version.startsWith('5.')) {
    return [
      { name: 'native', made: `identified by '${PASSWORD}'` },
      { name: 'wrong', made: `identified by 'another'`, fails: 1045 },
      { name: 'odd', made: `identified by '${ODD}'`, password: ODD },
      { name: 'empty', made: '', password: '' },
      {
        name: 'other',
        made: `identified by '${PASSWORD}'`,
        query: 'auth_plugins=caching_sha2_password',
        fails: /plugin "mysql_native_password", but the client may use only caching_sha2_password/,
      },
    ];
  }
  const plain = engine === 'mariadb' ? 'mysql_native_password' : 'caching_sha2_password';
  const encrypted = `sslmode=verify-full&sslrootcert=${encodeURIComponent(files?.ca ?? '')}`;
  const certified = `${encrypted}&sslcert=${encodeURIComponent(files?.cert ?? '')}&sslkey=${encodeURIComponent(files?.key ?? '')}`;
  return [
    ...['mysql_native_password', 'caching_sha2_password', 'sha256_password', 'parsec']
      .filter((plugin) => plugins.has(plugin))
      .flatMap((plugin): Account[] => [
        { name: `${plugin.slice(0, 6)}_a`, made: by(plugin, PASSWORD) },
        { name: `${plugin.slice(0, 6)}_b`, made: by(plugin, 'another'), fails: 1045 },
        ...(provesCertificate && plugin !== 'caching_sha2_password' && plugin !== 'sha256_password'
          ? [{ name: `${plugin.slice(0, 6)}_c`, made: by(plugin, PASSWORD), query: 'sslmode=verify-full' }]
          : []),
      ]),
    { name: 'odd', made: by(plain, ODD), password: ODD },
    {
      name: 'empty',
      made: engine === 'mariadb' ? `identified via ${plain} using ''` : by(plain, ''),
      password: '',
    },
    ...(provesCertificate
      ? [
          {
            name: 'empty_proof',
            made: `identified via ${plain} using ''`,
            password: '',
            query: 'sslmode=verify-full',
            fails: /DEPTH_ZERO_SELF_SIGNED_CERT|self-signed/,
          },
        ]
      : []),
    ...(plugins.has('ed25519')
      ? [
          {
            name: 'unspoken',
            made: by('ed25519', PASSWORD),
            fails:
              /plugin "client_ed25519", which this client does not support: give the account the plugin parsec/,
          },
          {
            name: 'two',
            made: `identified via ed25519 using password('another') or mysql_native_password using password('${PASSWORD}')`,
          },
        ]
      : []),
    {
      name: 'other',
      made: by(plain, PASSWORD),
      query: 'auth_plugins=parsec',
      fails: new RegExp(`plugin "${plain}", but the client may use only parsec`),
    },
    { name: 'expired', made: `${by(plain, PASSWORD)} password expire`, fails: [1820, 1862] },
    ...(plugins.has('mysql_old_password')
      ? [
          {
            name: 'old',
            made: "identified via mysql_old_password using '7c3fb4b84a5c1c2a'",
            fails: /in the old format|before MySQL 4\.1/,
          },
        ]
      : []),
    ...(files === undefined || provesCertificate
      ? []
      : [
          { name: 'tls_plain', made: `${by(plain, PASSWORD)} require ssl`, fails: 1045 },
          { name: 'tls', made: `${by(plain, PASSWORD)} require ssl`, query: encrypted },
          { name: 'x509_none', made: `${by(plain, PASSWORD)} require x509`, query: encrypted, fails: 1045 },
          { name: 'x509', made: `${by(plain, PASSWORD)} require x509`, query: certified },
          {
            name: 'tls_unknown',
            made: by(plain, PASSWORD),
            query: 'sslmode=verify-full',
            fails: /E_DB_CONNECT|the TLS connection to the server failed|self-signed/,
          },
        ]),
  ];
}

/** Returns the address of an account. */
function addressOf({ url }: Place, user: string, password: string, query = ''): string {
  const [, scheme, host] = /^(\w+:\/\/)[^@]*@([^/?]+)/.exec(url)!; // the address names a user
  return `${scheme}${user}${password === '' ? '' : `:${encodeURIComponent(password)}`}@${host}${query === '' ? '' : `/?${query}`}`;
}

async function logsIn(place: Place, user: string, { password = PASSWORD, query }: Account): Promise<void> {
  await using db = await openDatabase(addressOf(place, user, password, query), {
    pool: { max: 1, acquireTimeoutMs: 2_000 },
  });
  assert.match(String(await db.scalar('select current_user()')), new RegExp(`^${user}@`));
  assert.equal((await db.fetchOne('select ? + 1 as value', [1]))!['value'], 2);
}

function isExpected({ password = PASSWORD, fails }: Account): (error: unknown) => boolean {
  return (error) => {
    assert.ok(
      (error instanceof SvcError && error.code === 'E_DB_OPEN') ||
        (error instanceof SvcError && error.code === 'E_DB_CONNECT'),
      String(error),
    );
    if (password !== '') assert.ok(!String(error).includes(password), 'the password in a message');
    if (fails instanceof RegExp) assert.match(error.message, fails);
    else
      assert.ok(
        error.cause instanceof DatabaseError && [fails].flat().includes(error.cause.errno),
        `${String(error)}: ${String((error.cause as DatabaseError | undefined)?.errno)}`,
      );
    return true;
  };
}

for (const [name, engine] of [
  ['MariaDB', 'mariadb'],
  ['MySQL', 'mysql'],
] as const) {
  test(`${name}: accounts with supported authentication methods can log in, and the error for a refused login does not contain the password`, async (t) => {
    if (!needsEngine(t, engine)) return;
    const place = await placeOf(engine);
    await using admin = await openDatabase(place.url, { pool: { max: 1 } });
    const server = await serverOf(admin);
    const accounts = accountsOf(engine, server, place.files);
    assert.ok(accounts.length >= 5);
    for (const account of accounts) {
      const user = `t${process.pid % 10_000}_${account.name}`.slice(0, 16); // MySQL 5.6 allows no more
      await admin.script(`create user ${user}@'%' ${account.made}`);
      try {
        if (account.fails === undefined)
          await logsIn(place, user, account).catch((error: unknown) =>
            assert.fail(`${account.name}: ${String(error)}`),
          );
        else await assert.rejects(logsIn(place, user, account), isExpected(account), account.name);
        t.diagnostic(
          `${account.name}: ${account.fails === undefined ? 'logged in' : `refused, ${String(account.fails)}`}`,
        );
      } finally {
        await admin.script(`drop user ${user}@'%'`);
      }
    }
  });

  test(`${name}: when the server allows an account only two connections, the pool opens at most two, and all callers get a connection in turn`, async (t) => {
    if (!needsEngine(t, engine)) return;
    const place = await placeOf(engine);
    await using admin = await openDatabase(place.url, { pool: { max: 1 } });
    if (engine === 'mysql' && (await serverOf(admin)).version.startsWith('5.'))
      return t.skip('MySQL 5 makes accounts otherwise');
    const user = `t${process.pid % 10_000}_limited`;
    await admin.script(`create user ${user}@'%' identified by '${PASSWORD}' with max_user_connections 2`);
    try {
      await using db = await openDatabase(addressOf(place, user, PASSWORD), { pool: { max: 5 } });
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) => db.scalar('select ? + sleep(0.01)', [index])),
      );
      assert.deepEqual(
        answers.map(Number),
        Array.from({ length: 20 }, (_, index) => index),
      );
      assert.ok(db.load.idle <= 2);
    } finally {
      await admin.script(`drop user ${user}@'%'`);
    }
  });
}

test('MySQL: without TLS, the client encrypts the password with the configured RSA key, or with the key that a local server sends', async (t) => {
  if (!needsEngine(t, 'mysql')) return;
  const place = await placeOf('mysql');
  await using admin = await openDatabase(place.url, { pool: { max: 1 } });
  if ((await serverOf(admin)).version.startsWith('5.')) return t.skip('MySQL 5.6 has no such key');
  const key = String(
    (await admin.fetchOne("show status like 'Caching_sha2_password_rsa_public_key'"))!['Value'],
  );
  const another =
    'MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==';
  const files = folder(t, {
    'key.pem': key,
    'another.pem': `-----BEGIN PUBLIC KEY-----\n${another}\n-----END PUBLIC KEY-----\n`,
  });
  const user = `t${process.pid % 10_000}_rsa`;
  await admin.script(`create user ${user}@'%' identified with caching_sha2_password by '${PASSWORD}'`);
  try {
    for (const query of ['', `server_public_key=${encodeURIComponent(join(files, 'key.pem'))}`]) {
      // otherwise the server would cache the password, and not ask for it
      await admin.script('flush privileges');
      for (const _ of ['cold', 'warm']) await logsIn(place, user, { name: 'rsa', made: '', query });
    }
    await admin.script('flush privileges');
    await assert.rejects(
      openDatabase(
        addressOf(
          place,
          user,
          PASSWORD,
          `server_public_key=${encodeURIComponent(join(files, 'another.pem'))}`,
        ),
        { pool: { max: 1, acquireTimeoutMs: 2_000 } },
      ),
      (error) => error instanceof SvcError,
    );
  } finally {
    await admin.script(`drop user ${user}@'%'`);
  }
});
