/**
 * The tables of the plugin, for each engine. Times are microseconds since the epoch as integers: no time zones, no
 * fractions cut off. Subjects compare byte for byte: in a collation that does not, "Alice" would end the logins of "alice".
 */

/** Statements by engine, as `host.migration()` takes them. */
export const OAUTH_TABLES: Readonly<Record<'sqlite' | 'postgres' | 'mysql' | 'mariadb', readonly string[]>> = {
  sqlite: [
    `CREATE TABLE svc_oauth_login (
  id TEXT NOT NULL PRIMARY KEY, sub TEXT NOT NULL, provider TEXT NOT NULL, subject TEXT NOT NULL,
  gen INTEGER NOT NULL, cur_hash TEXT NOT NULL, prev_hash TEXT, scopes TEXT NOT NULL, claims TEXT NOT NULL,
  auth_time INTEGER NOT NULL, created_at INTEGER NOT NULL, last_used_at INTEGER NOT NULL, rotated_at INTEGER, delivered_at INTEGER,
  idle_expires_at INTEGER NOT NULL, abs_expires_at INTEGER NOT NULL, revoked_at INTEGER, revoke_reason TEXT,
  user_agent TEXT, ip TEXT, cnf_jkt TEXT
) STRICT, WITHOUT ROWID`,
    'CREATE INDEX svc_oauth_login_sub ON svc_oauth_login (sub)',
    'CREATE INDEX svc_oauth_login_end ON svc_oauth_login (abs_expires_at)',
    `CREATE TABLE svc_oauth_state (
  state_hash TEXT NOT NULL PRIMARY KEY, browser_hash TEXT NOT NULL, provider TEXT NOT NULL, redirect_uri TEXT NOT NULL,
  return_to TEXT, nonce TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID`,
    'CREATE INDEX svc_oauth_state_end ON svc_oauth_state (expires_at)',
    'CREATE TABLE svc_oauth_subject (sub TEXT NOT NULL PRIMARY KEY, valid_after INTEGER NOT NULL) STRICT, WITHOUT ROWID',
  ],
  postgres: [
    `CREATE TABLE svc_oauth_login (
  id TEXT NOT NULL PRIMARY KEY, sub TEXT COLLATE "C" NOT NULL, provider TEXT NOT NULL, subject TEXT NOT NULL,
  gen BIGINT NOT NULL, cur_hash TEXT NOT NULL, prev_hash TEXT, scopes TEXT NOT NULL, claims TEXT NOT NULL,
  auth_time BIGINT NOT NULL, created_at BIGINT NOT NULL, last_used_at BIGINT NOT NULL, rotated_at BIGINT, delivered_at BIGINT,
  idle_expires_at BIGINT NOT NULL, abs_expires_at BIGINT NOT NULL, revoked_at BIGINT, revoke_reason TEXT,
  user_agent TEXT, ip TEXT, cnf_jkt TEXT
)`,
    'CREATE INDEX svc_oauth_login_sub ON svc_oauth_login (sub) WHERE revoked_at IS NULL',
    'CREATE INDEX svc_oauth_login_end ON svc_oauth_login (abs_expires_at)',
    `CREATE TABLE svc_oauth_state (
  state_hash TEXT NOT NULL PRIMARY KEY, browser_hash TEXT NOT NULL, provider TEXT NOT NULL, redirect_uri TEXT NOT NULL,
  return_to TEXT, nonce TEXT NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL
)`,
    'CREATE INDEX svc_oauth_state_end ON svc_oauth_state (expires_at)',
    'CREATE TABLE svc_oauth_subject (sub TEXT COLLATE "C" NOT NULL PRIMARY KEY, valid_after BIGINT NOT NULL)',
  ],
  mysql: tablesOfMySql(),
  mariadb: tablesOfMySql(),
};

function tablesOfMySql(): readonly string[] {
  const ascii = 'CHARACTER SET ascii COLLATE ascii_bin';
  const exact = 'CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';
  const subject = 'VARBINARY(767)'; // collations of text do not see spaces at the end; and longer keys MySQL 5.6 does not have
  return [
    `CREATE TABLE svc_oauth_login (
  id VARCHAR(32) ${ascii} NOT NULL PRIMARY KEY, sub ${subject} NOT NULL, provider VARCHAR(64) ${exact} NOT NULL, subject VARCHAR(255) ${exact} NOT NULL,
  gen BIGINT NOT NULL, cur_hash CHAR(64) ${ascii} NOT NULL, prev_hash CHAR(64) ${ascii}, scopes TEXT ${exact} NOT NULL, claims TEXT ${exact} NOT NULL,
  auth_time BIGINT NOT NULL, created_at BIGINT NOT NULL, last_used_at BIGINT NOT NULL, rotated_at BIGINT, delivered_at BIGINT,
  idle_expires_at BIGINT NOT NULL, abs_expires_at BIGINT NOT NULL, revoked_at BIGINT, revoke_reason VARCHAR(16) ${ascii},
  user_agent VARCHAR(255) ${exact}, ip VARCHAR(45) ${ascii}, cnf_jkt CHAR(43) ${ascii},
  INDEX svc_oauth_login_sub (sub, revoked_at), INDEX svc_oauth_login_end (abs_expires_at)
) ENGINE=InnoDB`,
    `CREATE TABLE svc_oauth_state (
  state_hash CHAR(64) ${ascii} NOT NULL PRIMARY KEY, browser_hash CHAR(64) ${ascii} NOT NULL, provider VARCHAR(64) ${exact} NOT NULL, redirect_uri TEXT ${exact} NOT NULL,
  return_to TEXT ${exact}, nonce VARCHAR(64) ${ascii} NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL,
  INDEX svc_oauth_state_end (expires_at)
) ENGINE=InnoDB`,
    `CREATE TABLE svc_oauth_subject (sub ${subject} NOT NULL PRIMARY KEY, valid_after BIGINT NOT NULL) ENGINE=InnoDB`,
  ];
}
