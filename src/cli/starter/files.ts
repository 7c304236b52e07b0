/**
 * What surrounds the programs of a new project: its README, its settings, and how it is packed, checked and run.
 *
 * They are texts as they will lie on the disk, but for `\`` and `\${`, which are theirs.
 */

/** What `npm run typecheck` of a new project needs; tested to be what this repository uses. */
export const TYPE_CHECKERS: Readonly<Record<string, string>> = { '@types/node': '^24', typescript: '7.0.2' };

/** Docker has no use for a scope. */
function imageOf(name: string): string {
  return name.replace(/^@.*\//, '');
}

/** What a reader of the project needs to know. */
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

/** package.json. */
export const MANIFEST: Template = ({ name, dependency, engine, source }) => `${JSON.stringify(
  {
    name,
    version: '1.0.0',
    private: true,
    type: 'module',
    engines: { node: engine },
    scripts: {
      start: 'svc run src/app.ts',
      dev: 'svc run src/app.ts --env-file .env --reload',
      test: 'node --test "test/**/*.test.ts"',
      migrate: 'svc migrate up src/app.ts',
      check: 'svc check src/app.ts --env production --env-file .env --max-warnings 0',
      typecheck: 'tsc -p .',
    },
    dependencies: { svc: dependency },
    ...(source === 'registry' ? { devDependencies: TYPE_CHECKERS } : {}), // the others must install without a network
  },
  undefined,
  2,
)}
`;

/** tsconfig.json: what Node can run by stripping types, read strictly. */
export const TSCONFIG: Template = () => `{
  // What Node can run by stripping the types, and the strictest reading of it. Nothing is emitted.
  "compilerOptions": {
    "target": "esnext",
    "lib": ["esnext"],
    "types": ["node"],
    "module": "nodenext",
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,
    "isolatedModules": true,
    "allowImportingTsExtensions": true,
    "noEmit": true,
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "exactOptionalPropertyTypes": true,
    "noImplicitOverride": true,
    "noPropertyAccessFromIndexSignature": true,
    "noFallthroughCasesInSwitch": true
  },
  "include": ["src", "test"]
}
`;

/** An image of two stages: what npm brings, then the application, as a user without rights. */
export const DOCKERFILE: Template = ({
  source,
  name,
}) => `# docker build -t ${imageOf(name)} . && docker run --rm -p 8000:8000 -e SVC_AUTH_SECRET -v ${imageOf(name)}-data:/data ${imageOf(name)}
FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
${source === 'vendor' ? 'COPY vendor ./vendor\n' : ''}RUN npm ci --omit=dev --ignore-scripts

FROM node:24-slim
# DATABASE_URL and SVC_DATABASE_URL of the deployment count before this one.
ENV SVC_ENV=production SVC_HOST=0.0.0.0 SVC_PORT=8000 DATABASE_URL=sqlite:///data/data.db
WORKDIR /app
COPY --from=packages /app ./
COPY src ./src
COPY migrations ./migrations
# A new volume takes over whose folder this is. SQLite writes files beside the database, so it needs one of its own.
RUN mkdir /data && chown node:node /data
VOLUME /data
USER node
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.SVC_PORT + '/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Not through npm, and by exec: SIGTERM must reach the process that drains.
CMD ["sh", "-c", "node node_modules/svc/bin/svc.js migrate up src/app.ts && exec node node_modules/svc/bin/svc.js run src/app.ts"]
`;

/** The image with PostgreSQL. */
export const COMPOSE: Template =
  () => `# docker compose up --build: the application at http://127.0.0.1:8000, and PostgreSQL. Values come from .env, or from the environment.
services:
  app:
    build: .
    ports: ["127.0.0.1:8000:8000"]
    environment:
      - DATABASE_URL=postgres://app:\${POSTGRES_PASSWORD:?}@db/app?sslmode=disable # it never leaves the network of this file
      - SVC_AUTH_SECRET=\${SVC_AUTH_SECRET:?}
      - SVC_AUTH_SECRET_PREVIOUS
      - SVC_ENV
      - SVC_BASE_URL
      - SVC_GITHUB_CLIENT_ID
      - SVC_GITHUB_CLIENT_SECRET
      - SVC_GOOGLE_CLIENT_ID
      - SVC_GOOGLE_CLIENT_SECRET
      - SVC_TRUST_PROXY
    depends_on:
      db: { condition: service_healthy }
    restart: unless-stopped
    stop_grace_period: 35s
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
  db:
    image: postgres:17
    environment:
      - POSTGRES_USER=app
      - POSTGRES_DB=app
      - POSTGRES_PASSWORD=\${POSTGRES_PASSWORD:?}
    volumes: ["db:/var/lib/postgresql/data"]
    healthcheck:
      test: ["CMD", "pg_isready", "-h", "127.0.0.1", "-U", "app"]
      interval: 2s
      timeout: 5s
      retries: 30
    restart: unless-stopped
volumes:
  db:
`;

/** A workflow of GitHub: types, tests on both databases, the check, the image. */
export const CI: Template = ({ source }) => `name: ci
on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  test:
    runs-on: ubuntu-latest
    permissions:
      contents: read
      security-events: write # what svc check finds goes to code scanning
    services:
      postgres:
        image: postgres:17
        env:
          POSTGRES_PASSWORD: only-for-tests
        ports: ["5432:5432"]
        options: --health-cmd pg_isready --health-interval 2s --health-timeout 5s --health-retries 30
    steps:
      - uses: actions/checkout@v6
      - uses: actions/setup-node@v6
        with:
          node-version: 24
          cache: npm
      - run: npm ci
${source === 'registry' ? '      - run: npm run typecheck\n' : ''}      - run: npm test
        env:
          POSTGRES_URL: postgres://postgres:only-for-tests@127.0.0.1:5432/postgres
      - name: svc check
        run: |
          export SVC_AUTH_SECRET=$(node -p "crypto.randomBytes(32).toString('hex')")
          npx --no svc check src/app.ts --env production --max-warnings 0 --output sarif=svc.sarif
      - uses: github/codeql-action/upload-sarif@v4
        # Forks may not write there, and private repositories need GitHub Code Security for it.
        if: \${{ !cancelled() && hashFiles('svc.sarif') != '' && github.event.pull_request.head.repo.fork != true }}
        with:
          sarif_file: svc.sarif
          category: svc
      - run: docker build .
`;

/** What the image does not get. */
export const DOCKERIGNORE: Template = () => `.env
.env.*
.git
.github
node_modules
test
coverage
data.db*
*.log
`;

/** What is not committed. */
export const GITIGNORE: Template = () => `.env
node_modules/
coverage/
data.db*
svc.sarif
*.log
`;

/** This machine's settings, with secrets. */
export const ENV: Template = ({
  secret,
  password,
}) => `# This machine's settings, for "npm run dev" and "docker compose up". Never committed, and never copied to another machine.
SVC_ENV=development
SVC_AUTH_SECRET=${secret}
POSTGRES_PASSWORD=${password}
`;

/** The same without values, for others. */
export const ENV_EXAMPLE: Template =
  () => `# Copy to .env, and fill in: README.md says what each of them is for.
SVC_ENV=development
# node -p "crypto.randomBytes(32).toString('hex')"
SVC_AUTH_SECRET=
# Of the database that compose.yaml starts
POSTGRES_PASSWORD=
# SVC_HOST=127.0.0.1
# SVC_PORT=8000
# SVC_DATABASE_URL=sqlite:./data.db
# SVC_BASE_URL=
# SVC_GITHUB_CLIENT_ID=
# SVC_GITHUB_CLIENT_SECRET=
# SVC_GOOGLE_CLIENT_ID=
# SVC_GOOGLE_CLIENT_SECRET=
# SVC_PAGE_SIZE=20
# SVC_MAX_NOTES=1000
# SVC_REQUESTS_PER_MINUTE=120
# SVC_TRUST_PROXY=
# SVC_AUTH_SECRET_PREVIOUS=
`;

/** Where the package comes from: the registry, a copy in the project, or the copy that runs at this moment. */
export type PackageSource = 'registry' | 'vendor' | 'link';

/** What the texts are made for. */
export interface StarterOptions {
  /** The name in package.json: one that `isPackageName()` accepts, so it needs no escaping anywhere. */
  readonly name: string;
  readonly source: PackageSource;
  /** What stands for `svc` under `dependencies`. */
  readonly dependency: string;
  /** The range of Node that the package needs. */
  readonly engine: string;
  /** For `.env` only: it signs sessions and tokens. */
  readonly secret: string;
  /** For `.env` only: the password of the database that compose.yaml starts. */
  readonly password: string;
}

/** The text of a file. */
export type Template = (options: StarterOptions) => string;
