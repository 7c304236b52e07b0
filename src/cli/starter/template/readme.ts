/**
 * README of a new project.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import { imageOf } from './container.ts';
import { TYPE_CHECKERS } from './package.ts';
import type { Template } from '../options.ts';

/** `README.md`. */
export const README: Template = ({ name, source }) => `# ${name}

An HTTP API for notes, and a page that shows everybody their own, made with \`svc new\`. TypeScript is run as it is: there is no
build. Notes are kept in SQLite, or in PostgreSQL where an address says so.

${
  source === 'link'
    ? `\`\`\`sh
npm run dev          # http://127.0.0.1:8000, restarted whenever a file is saved
\`\`\`

It uses the copy of \`svc\` that made it, through a link. Before it goes elsewhere, name the package instead:
\`npm install svc@<version>\`.`
    : `\`\`\`sh
npm install${source === 'vendor' ? ' --offline' : ''}
npm run dev          # http://127.0.0.1:8000, restarted whenever a file is saved
\`\`\`${source === 'vendor' ? '\n\nThe package `svc` lies in `vendor/svc`: commit it, and nothing needs a network.' : ''}`
}

| command | what |
|---|---|
| \`npm run dev\` | serves it with the settings of \`.env\` |
| \`npm start\` | serves it for production: settings come from the environment alone, \`SVC_AUTH_SECRET\` among them |
| \`npm run migrate\` | brings the database up to date: before \`npm start\`, which refuses to run on an old one |
| \`npm test\` | the tests, on a database in memory |
| \`npm run check\` | finds mistakes between declarations, as for production: run it before every deployment |
| \`npm run typecheck\` | the types |
${
  source === 'registry'
    ? ''
    : `
The types need two packages: \`npm install --save-dev ${Object.entries(TYPE_CHECKERS)
        .map((pair) => pair.join('@'))
        .join(' ')}\`.
`
}
## Interface

| request | answer |
|---|---|
| \`GET /\` | the page; its forms post to \`/\`, \`/delete\`, \`/token\` and \`/logout\` |
| \`GET /live\` | a page that shows notes as they are written; its script speaks with the WebSocket \`/live/notes\` |
| \`GET /oauth/login\` | begins a login, which ends at \`/oauth/callback\` and \`/welcome\` |
| \`GET /api/notes?page=1&size=20\` | \`{ items, total, page, size }\`, the newest first |
| \`POST /api/notes {"text":"hello"}\` | 201 with the note, its address in \`Location\` |
| \`GET /api/notes/{id}\` | the note, or 404 |
| \`DELETE /api/notes/{id}\` | 204, or 404 |
| \`GET /docs\` | a page that shows what there is under \`/api\` and \`/oauth\`, and calls it; not in production (\`SVC_ENABLE_DOCS\`) |
| \`GET /openapi.json\` | the same for programs |
| \`GET /healthz\`, \`GET /readyz\`, \`GET /metrics\` | for probes and Prometheus |

Errors are \`application/problem+json\` (RFC 9457), and pages for browsers outside of \`/api\`. Everything under \`/api\` needs \`Authorization: Bearer …\` with a token of scope
\`notes:read\`, to change something \`notes:write\`: the page makes one that counts for an hour. Notes of others are not found.

\`/metrics\` counts, beside what the framework does, \`svc_notes_written_total\` by how notes were written.

A WebSocket is opened by the session, and only by pages of this site. It hears of every note of its owner, in the background of whatever wrote
it, and \`{"text":"hello"}\` writes one. Logging out closes it: at once in this process, within half a minute in others. With several
processes a window hears what was written in its own; a \`RedisRoomBus\` of \`svc/db\` joins them.

What protects it is in \`src/app.ts\`, one line each: security headers with a strict Content-Security-Policy, a limit of
requests for each client (429 with \`Retry-After\`), sessions in a signed cookie, and CSRF tokens, without which the forms of the
page are refused. The JSON interface needs none: it asks for a bearer token.

## Login

In development and tests \`src/login.ts\` brings an OpenID provider of its own, below \`/_dev/provider\`: anybody logs in as anybody.
It is not there in production, where people log in at GitHub, Google, or both:

1. Register an OAuth app there, with the callback \`https://<host>/oauth/callback\`.
2. Set \`SVC_GITHUB_CLIENT_ID\` and \`SVC_GITHUB_CLIENT_SECRET\` to what it gives, and \`SVC_BASE_URL\` to \`https://<host>\`.

Google is the same with \`SVC_GOOGLE_CLIENT_ID\` and \`SVC_GOOGLE_CLIENT_SECRET\`. With both the page offers both, and the callbacks are
\`https://<host>/oauth/github/callback\` and \`https://<host>/oauth/google/callback\`; people are others at another provider.

Until then nobody can log in there, and the log says so (\`login_missing\`). Other providers are a line in \`src/login.ts\`:
\`new OAuthProvider()\` for any that speaks OpenID Connect. Logging out is
for everywhere: it ends all logins of a person, the sessions of every browser, copies of their cookies too, and the tokens that
the page has made; where several processes serve it, tokens after five seconds at most. A login that nobody ends lasts two weeks at most.

## Data

Notes are kept where \`SVC_DATABASE_URL\` says, or \`DATABASE_URL\`, which many platforms set: \`src/notes.ts\` has the statements, and
\`GET /readyz\` says whether the database answers. Nothing else changes between the two:

| address | |
|---|---|
| \`sqlite:./data.db\` | a file. While it is open, \`data.db-wal\` and \`data.db-shm\` lie beside it and belong to it. Several processes on one machine may share it, such as \`npm start -- --workers 2\`; a network file system will not do |
| \`postgres://user:password@host/database\` | a server, for several machines. Other hosts than this one must speak TLS with a certificate that is valid for their name, unless \`?sslmode=…\` says otherwise |

Their tables are made by \`migrations/\`, in statements that both understand: \`npx --no svc migrate new add_tags\` begins the next one,
\`npm run dev\` applies it, \`npx --no svc migrate status src/app.ts\` lists them. A file that has been applied is not changed any more.
\`npm test\` uses SQLite in memory; where \`POSTGRES_URL\` names a server, what touches the database is tested there, too.

A copy of a file that is whole, while the application runs (of \`data.db\` alone it would lack what is still in the log):

\`\`\`sh
node --input-type=module -e "import { openDatabase } from 'svc/db'; await using db = await openDatabase('sqlite:./data.db'); await db.backup('./backup.db')"
\`\`\`

To go back to it, stop the application, remove all three files, and put the copy in the place of \`data.db\`. For PostgreSQL there is \`pg_dump\`.

## Settings

| variable | default | what |
|---|---|---|
| \`SVC_ENV\` | \`production\` | \`production\`, \`development\` or \`test\` |
| \`SVC_HOST\` | \`127.0.0.1\` | address to listen on |
| \`SVC_PORT\` | \`8000\` | port to listen on |
| \`SVC_DATABASE_URL\` | \`DATABASE_URL\`, else \`sqlite:./data.db\` | where notes are kept: see [Data](#data) |
| \`SVC_BASE_URL\` | none | where people reach it, such as \`https://notes.example\`: needed for logins in production |
| \`SVC_GITHUB_CLIENT_ID\`, \`SVC_GITHUB_CLIENT_SECRET\` | none | log people in at GitHub |
| \`SVC_GOOGLE_CLIENT_ID\`, \`SVC_GOOGLE_CLIENT_SECRET\` | none | log people in at Google |
| \`SVC_PAGE_SIZE\` | \`20\` | notes on a page unless the request says, 1 … 100 |
| \`SVC_MAX_NOTES\` | \`1000\` | notes that one person keeps at most, 1 … 1000000 |
| \`SVC_REQUESTS_PER_MINUTE\` | \`120\` | requests of one client in a minute, 1 … 1000000 |
| \`SVC_ENABLE_DOCS\` | \`true\` outside production | whether \`/docs\` and \`/openapi.json\` are there |
| \`SVC_TRUST_PROXY\` | none | the proxies in front, such as \`10.0.0.0/8\`, or how many: they say who the client is, and whether it came with TLS |
| \`SVC_AUTH_SECRET\` | none | signs sessions and tokens: nothing starts without it, and every deployment has one of its own |
| \`SVC_AUTH_SECRET_PREVIOUS\` | none | the one before: what it has signed still counts |

\`.env\` holds those of your machine, a secret among them, and is not committed; \`.env.example\` lists them for others.

## Deployment

\`\`\`sh
npm run check
docker build -t ${imageOf(name)} .
export SVC_AUTH_SECRET=$(node -p "crypto.randomBytes(32).toString('hex')")    # once: keep it where your secrets are
docker run --rm -p 8000:8000 -e SVC_AUTH_SECRET -e SVC_BASE_URL -e SVC_GITHUB_CLIENT_ID -e SVC_GITHUB_CLIENT_SECRET -v ${imageOf(name)}-data:/data ${imageOf(name)}
\`\`\`

The image runs as a user without rights, keeps SQLite in the volume \`/data\` unless \`DATABASE_URL\` names a server, and applies pending
migrations before it serves. \`docker compose up --build\` starts it with PostgreSQL: by the settings of \`.env\` for development, so that you can log in
as anybody at <http://127.0.0.1:8000>; with \`SVC_ENV=production\` for production. Without Docker the steps are \`npm ci --omit=dev\`,
\`npm run migrate\`, \`npm start\`; \`npx --no svc check src/app.ts --live\` says whether anything is missing.

\`npm run check\` reads \`.env\`; where there is none, \`npx --no svc check src/app.ts\` takes the secret from the environment, too.
\`.github/workflows/ci.yml\` runs the tests on both databases, and hands over what \`svc check\` finds to code scanning.
In production cookies are sent over TLS only: put a proxy in front that speaks it, and name it in \`SVC_TRUST_PROXY\`.
${source === 'link' ? '\nThe image needs the package by its name, not the link: see above.\n' : '\nCommit `package-lock.json`: the image installs from it.\n'}
To exchange the secret, move it to \`SVC_AUTH_SECRET_PREVIOUS\`, and remove that after two weeks: by then nothing counts that it has signed.

SIGTERM ends it gracefully: it stops listening at once, and requests in flight have 30 seconds (\`docker stop --time 35\`).
\`/readyz\` answers 503 from then on, which only connections that are open already still see.
`;
