/**
 * The table of faults: every mistake of an operator or programmer, with its message and remedy.
 *
 * Separate from errors.ts, because it is loaded only for a mistake.
 */
import { fileOfPlace } from './findings.ts';
import type { Finding } from './findings.ts';

/** Texts of a mistake. */
interface Fault {
  /** "Cannot ‹action›: ‹finding, requirement›", values quoted, no full stop, never a secret. */
  readonly describe: (...args: never[]) => string;
  readonly remedy: string;
  /** The rule of `svc check` that reports the same mistake. */
  readonly rule?: Finding['rule'];
}

/** Every fault by code. A code is permanent, a message is not. src/REFERENCE.md lists them, which a test checks. */
export const FAULTS = {
  E_APP_FROZEN: {
    describe: (what: string): string =>
      `Cannot ${what}: the application is compiled and takes no further declarations`,
    remedy: 'Declare everything before startup(), run(), fetch() or compileAll() is called',
  },
  E_AUTH: {
    describe: (owner: string, problem: string): string => `Cannot set up ${owner}: ${problem}`,
    remedy:
      'Write Depends(requireRoles("admin")), Depends(requireScopes("a", "b")), Depends(APIKeyAuth({ keys: { client: "16 characters or more" } }))',
  },
  E_BACKGROUND_FULL: {
    describe: (most: number, which: string): string =>
      `Cannot add a background task: there are ${most} ${which} already`,
    remedy: 'Add one task that does the work of many, or use a queue that outlives the process',
  },
  E_BACKGROUND_OVER: {
    describe: (): string =>
      'Cannot add a background task: those of this request have run, or its handler has failed',
    remedy: 'Await in the handler whatever adds tasks, so that they are added before it returns',
  },
  E_BODY_CONSUMED: {
    describe: (what: string): string =>
      `Cannot read the request body as ${what}: its stream has been taken already`,
    remedy: 'Call stream() or one of body(), json(), text(), form(), not both',
  },
  E_BODY_DISCARDED: {
    describe: (): string =>
      'Cannot read the request body: the response was sent before the body was read, and what came of it was thrown away',
    remedy:
      'Read the body in the handler, before it returns, and hand the value to the background task or clean-up that needs it',
  },
  E_CACHED_KEY: {
    describe: (problem: string): string => `Cannot cache the call: ${problem}, which makes no key`,
    remedy:
      'Say what tells calls apart by the option "key", which returns text: cached(fn, { key: (user) => user.id })',
  },
  E_CACHE_VALUE: {
    describe: (): string =>
      'Cannot cache the value: it has no structured clone, so callers could not be given copies of it',
    remedy: 'Cache plain data without functions and handles, or make the cache with shareReferences: true',
  },
  E_CLI_USAGE: {
    describe: (problem: string): string => `Cannot understand the command line: ${problem}`,
    remedy: 'See: svc --help',
  },
  E_COMPILE: {
    describe: (findings: readonly Finding[]): string => {
      const errors = findings.filter((finding) => finding.severity === 'error');
      return (
        `Cannot compile the application: ${errors.length} mistake${errors.length === 1 ? '' : 's'}` +
        errors.map(line).join('')
      );
    },
    remedy: 'Mend what each finding names; "svc check" prints the same list with remedies',
  },
  E_CONFIG_CAST: {
    describe: (name: string, needed: string, found: string): string =>
      `Cannot read ${name}: ${needed} is needed, found ${found}`,
    remedy: 'Set the variable, or the setting, to text of that form, or leave it out for its default',
    rule: 'SVC401',
  },
  E_COOKIE: {
    describe: (name: string, problem: string): string => `Cannot set the cookie "${name}": ${problem}`,
    remedy:
      'Names are RFC 9110 tokens, values RFC 6265 cookie-octets: encode others, for example with encodeURIComponent()',
    rule: 'SVC207',
  },
  E_CORS: {
    describe: (problem: string): string => `Cannot allow other origins: ${problem}`,
    remedy:
      "Name each site as browsers send it: origins: ['https://app.example']; for whole groups of them give a function",
    rule: 'SVC206',
  },
  E_CSP: {
    describe: (directive: string, problem: string): string =>
      `Cannot build the Content-Security-Policy: "${directive}" ${problem}`,
    remedy:
      "Write contentSecurityPolicy: { scriptSrc: [\"'self'\", 'https://cdn.example'] }: keywords in single quotes, one source an item",
  },
  E_CSRF_ABSENT: {
    describe: (): string => 'Cannot make a CSRF token: no CSRF middleware is in use for this request',
    remedy:
      'Register it behind the session: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
  },
  E_DB_CLOSED: {
    describe: (what: string): string => `Cannot ${what}: the database is closed`,
    remedy:
      'Use it between startup and shutdown; a task that outlives the application needs a database of its own',
  },
  E_DB_CONNECT: {
    describe: (server: string, problem: string): string =>
      `Cannot connect to the database server ${server}: ${problem}`,
    remedy:
      'Correct the address or the account; for a certificate name who has signed it (sslrootcert), or choose another sslmode knowing what it gives up',
  },
  E_DB_IDENTIFIER: {
    describe: (found: string): string =>
      `Cannot quote a name: found ${found}, 1 … 63 bytes of text without NUL are needed`,
    remedy: 'Pass a table or column name; for "schema.table" pass two: sql.identifier("schema", "table")',
  },
  E_DB_JOIN: {
    describe: (): string => 'Cannot join SQL: there is nothing to join, and an empty list has no SQL',
    remedy: 'Answer for the empty list before the statement is made: no row is in ()',
  },
  E_DB_NESTED: {
    describe: (which: string, remedy: string): string =>
      `Cannot run a statement on ${which}: a transaction is open here, and ${remedy}`,
    remedy: 'Use the handle that the innermost callback is given: transaction(async (tx) => tx.execute(…))',
  },
  E_DB_OPEN: {
    describe: (path: string, problem: string): string => `Cannot open the database "${path}": ${problem}`,
    remedy:
      'Correct the address, start the server or make the directory, or give this user the rights; a file that is damaged comes back from a backup',
  },
  E_DB_OPTION: {
    describe: (problem: string): string => `Cannot open the database with these options: ${problem}`,
    remedy: 'Leave the option out, or use a database that has what it asks for',
  },
  E_DB_OVER: {
    describe: (): string =>
      'Cannot use a transaction: its callback has settled, so it is committed or rolled back',
    remedy: 'Await inside the callback everything that uses its handle, and do not keep the handle',
  },
  E_DB_PAGE: {
    describe: (problem: string): string => `Cannot read the list in pages: ${problem}`,
    remedy:
      "Order by columns of the rows that together are unique, for example orderBy: { created_at: 'desc', id: 'asc' }",
  },
  E_DB_PARAMETER: {
    describe: (where: string, problem: string): string => `Cannot bind ${where}: found ${problem}`,
    remedy:
      'Pass null, text, a finite number, bigint, boolean, Date or Uint8Array, and anything else as json(value)',
  },
  E_DB_PARAMETER_COUNT: {
    describe: (needed: number, given: number, row: number | undefined): string =>
      `Cannot bind ${given} value${given === 1 ? '' : 's'}${row === undefined ? '' : ` in row ${row}`}: the statement has ${needed} placeholder${needed === 1 ? '' : 's'}`,
    remedy: 'Pass a list with one value for each ? of the statement, in their order',
  },
  E_DB_ROW: {
    describe: (what: string, schema: string, problem: string): string =>
      `Cannot read ${what} as ${schema}: ${problem}`,
    remedy:
      'Make the statement and the schema agree: nullable(…) for a column that may be NULL, str for integers and decimals that no number is equal to, snakeCase: true where created_at is the member createdAt',
  },
  E_DB_STATEMENT: {
    describe: (problem: string): string => `Cannot run the statement: ${problem}`,
    remedy:
      'Run one statement at a time with ? for values, transactions by transaction(), and scripts by script()',
  },
  E_DB_URL: {
    describe: (shown: string, problem: string): string =>
      `Cannot read the database address "${shown}": ${problem}`,
    remedy:
      'Write sqlite:./data.db for a file beside the program, sqlite:///var/lib/app/data.db, sqlite::memory:, or postgres://user:password@host:5432/database',
  },
  E_DEPENDENCY_YIELD: {
    describe: (label: string, problem: string): string =>
      `Cannot use the dependency ${label}: its generator ${problem}`,
    remedy: 'Yield exactly once: what comes before is set-up, what comes after is clean-up',
  },
  E_DEPENDS: {
    describe: (found: string): string => `Cannot depend on ${found}: it is no source of a dependency`,
    remedy: 'Pass a function, a generator, a class, a state key or provide(…) to Depends()',
  },
  E_DEV_PROVIDER: {
    describe: (problem: string): string => `Cannot use DevProvider: ${problem}`,
    remedy:
      'DevProvider accepts any user without a password: use it in development and tests only, named by SVC_ENV or the option env, and a real identity provider elsewhere',
  },
  E_EVENT: {
    describe: (problem: string): string => `Cannot send the event: ${problem}`,
    remedy:
      "Write { event: 'name', id: '7', data: { … } }: whatever is to be sent goes under data, and event and id are texts of one line",
  },
  E_EXCEPTION_HANDLER: {
    describe: (problem: string): string => `Cannot register an exception handler: ${problem}`,
    remedy:
      'Name a class, and a function of its errors: app.exceptionHandler(NotFound, (error, req) => [{ problem: error.message }, 404]); HTTPException has those of all statuses',
  },
  E_HEADER: {
    describe: (name: string, problem: string): string =>
      `Cannot set the header ${JSON.stringify(name)}: ${problem}`,
    remedy:
      'Names are RFC 9110 tokens; values hold no CR, LF or NUL and nothing above U+00FF: encode file names by RFC 8187',
  },
  E_LISTEN: {
    describe: (address: string, reason: string): string => `Cannot listen on ${address}: ${reason}`,
    remedy: 'Choose another --host or --port, or stop the process that holds the address',
  },
  E_LOAD: {
    describe: (target: string, problem: string): string => `Cannot load "${target}": ${problem}`,
    remedy: 'Name a module and its export, for example: svc run src/app.ts:app',
  },
  E_MCP_NAME: {
    describe: (name: string, problem: string): string =>
      `Cannot declare a tool or prompt: the name "${name}" ${problem}`,
    remedy: 'Give each tool and each prompt a name of its own: app.tool("add_note", { … }, fn)',
  },
  E_MCP_TOOL: {
    describe: (name: string, near: string | undefined): string =>
      `Cannot call the tool "${name}": there is none of that name` +
      (near === undefined ? '' : `; did you mean "${near}"?`),
    remedy: 'See the names in app.mcpTools(), or: svc mcp <module> --list',
  },
  E_METRIC: {
    describe: (name: string, problem: string): string => `Cannot register the metric "${name}": ${problem}`,
    remedy: 'Names are svc_[a-z0-9_]+ and unique; labels are [a-z_][a-z0-9_]*, "le" is taken',
  },
  E_METRIC_LABELS: {
    describe: (name: string, labels: readonly string[], found: number): string =>
      `Cannot count "${name}": it is declared with ${labels.length === 0 ? 'no label' : `the labels ${labels.map((label) => `"${label}"`).join(', ')}`}, found ${found} label values`,
    remedy: 'Pass one value for each declared label, in that order',
  },
  E_MIDDLEWARE: {
    describe: (what: string): string =>
      `Cannot use ${what} as middleware: it is neither a function (req, next) nor an object with handle(req, next)`,
    remedy: 'Write app.use(async (req, next) => { const response = await next(); return response; })',
  },
  E_MIDDLEWARE_RESULT: {
    describe: (what: string): string => `Cannot answer the request: the middleware ${what} returned nothing`,
    remedy: 'Return the response: return await next(), or a response of your own',
  },
  E_MIGRATION_CHANGED: {
    describe: (origin: string, appliedAt: string): string =>
      `Cannot migrate: ${origin} has changed since it was applied (${appliedAt})`,
    remedy: 'Restore the applied version, and write the change as a new migration: svc migrate new <name>',
  },
  E_MIGRATION_CONTRIBUTED: {
    describe: (id: string, problem: string): string => `Cannot read the migration "${id}": ${problem}`,
    remedy:
      'Mend the plugin: host.migration("0001", { sqlite: ["create table …"], postgres: […], mysql: […], mariadb: […] })',
  },
  E_MIGRATION_DOWN: {
    describe: (name: string, problem: string): string => `Cannot undo ${name}: ${problem}`,
    remedy: 'Put its .up.sql and .down.sql beside the others, or go forward with another migration',
  },
  E_MIGRATION_FAILED: {
    describe: (origin: string, where: string, problem: string, outcome: string): string =>
      `Cannot run ${origin}: ${where}: ${problem}; ${outcome}`,
    remedy:
      'Mend the statement and migrate again; when the migration is unfinished now: svc migrate repair <module>',
  },
  E_MIGRATION_FILES: {
    describe: (path: string, problem: string): string =>
      `Cannot read the migrations in "${path}": ${problem}`,
    remedy:
      'Name files 0001_create_users.up.sql and .down.sql, numbered without gaps: svc migrate new <name> makes the next two',
  },
  E_MIGRATION_ORDER: {
    describe: (origin: string, problem: string): string => `Cannot migrate to ${origin}: ${problem}`,
    remedy: 'Give a migration that is new the number after the last one; see: svc migrate status',
  },
  E_MIGRATION_PENDING: {
    describe: (database: string, names: readonly string[]): string =>
      `Cannot start: the database "${database}" lacks ${names.length} migration${names.length === 1 ? '' : 's'}: ${names.join(', ')}`,
    remedy:
      'Apply them before the new version starts: svc migrate up <module>; or make the plugin with migrations: "apply"',
    rule: 'SVC402',
  },
  E_MIGRATION_TARGET: {
    describe: (problem: string): string => `Cannot migrate: ${problem}`,
    remedy: 'Register a DatabasePlugin; where there are several, choose with --database <name of the plugin>',
  },
  E_MIGRATION_UNFINISHED: {
    describe: (name: string): string =>
      `Cannot migrate: ${name} runs without a transaction, was begun, and has not ended`,
    remedy:
      'If no process runs it any more, undo or complete what it did, then: svc migrate repair <module> --as pending, or --as applied',
  },
  E_NEW_FOLDER: {
    describe: (folder: string, problem: string): string =>
      `Cannot create a project in "${folder}": ${problem}`,
    remedy: 'Name a folder that is absent or empty, where you may write',
  },
  E_NEXT_TWICE: {
    describe: (what: string): string =>
      `Cannot call next() a second time: the middleware ${what} has already passed this request on`,
    remedy: 'Call next() once and keep the response it gives',
  },
  E_OAUTH_PROVIDER: {
    describe: (provider: string, problem: string): string =>
      `Cannot use the identity provider "${provider}": ${problem}`,
    remedy:
      'Give githubProvider(), googleProvider() or new OAuthProvider({ … }) what src/oauth/README.md lists for it',
  },
  E_OAUTH_PROVIDERS: {
    describe: (problem: string): string => `Cannot set up logins: ${problem}`,
    remedy:
      'Write new OAuthPlugin({ provider: githubProvider(id, secret), … }), or providers: […] with a name for each',
  },
  E_OAUTH_SECRET: {
    describe: (): string =>
      'Cannot set up logins: the plugin and the application have different secrets, so the application could not verify its tokens',
    remedy: 'Leave out authSecret of the plugin: it takes that of the application, SVC_AUTH_SECRET',
  },
  E_OAUTH_UNREGISTERED: {
    describe: (): string =>
      'Cannot use the OAuth plugin: no application has registered it, or not compiled it yet',
    remedy: 'Call app.register(plugin), and use it once the application has started',
  },
  E_OAUTH_USER: {
    describe: (hook: string, problem: string): string => `Cannot use what ${hook}() has answered: ${problem}`,
    remedy:
      'Return the subject from onUser() as text, or { sub, scopes, claims }, undefined to refuse the login; from onRefresh() false, or { scopes, claims }',
  },
  E_OPTION_RANGE: {
    describe: (owner: string, option: string, needed: string, found: string): string =>
      `Cannot configure ${owner}: option "${option}" needs ${needed}, found ${found}`,
    remedy: 'Give a value in the range that the message names, or leave the option out for its default',
  },
  E_OPTION_UNKNOWN: {
    describe: (
      owner: string,
      option: string,
      suggestion: string | undefined,
      known: readonly string[],
    ): string =>
      `Cannot configure ${owner}: unknown option "${option}"` +
      (suggestion === undefined
        ? `; the options are ${known.join(', ')}`
        : `: did you mean "${suggestion}"?`),
    remedy: 'Use one of the documented options; settings of your own belong under config: { … }',
  },
  E_PATH_TEMPLATE: {
    describe: (template: string, problem: string): string =>
      `Cannot read the path template "${template}": ${problem}`,
    remedy:
      'Write "/users/{id:int}": a leading slash, parameters that fill a whole segment, converters str, int, float, uuid, path',
  },
  E_PERMISSION: {
    describe: (flag: string, resource: string): string =>
      `Cannot go on under --permission of Node: this needs ${flag}${resource === '' ? '' : ` for "${resource}"`}`,
    remedy:
      'Start Node with that as well; svc check, routes and openapi need --allow-child-process, for they import the application in a process of its own',
  },
  E_REDIS_ARGUMENT: {
    describe: (where: string, problem: string): string => `Cannot send ${where} to Redis: found ${problem}`,
    remedy:
      'Pass text, bytes (Uint8Array), a finite number or bigint; anything else as JSON.stringify(value), and at least the name of the command',
  },
  E_REDIS_CLOSED: {
    describe: (): string => 'Cannot use Redis: the client is not open',
    remedy:
      'Await redis.open(), or register new RedisPlugin(redis), and use it before the application has stopped',
  },
  E_REDIS_COMMAND: {
    describe: (name: string): string =>
      `Cannot run ${name}: it would hold up or change what all others get over the same connection`,
    remedy:
      'Use subscribe(), transaction() or the address (user, password, database) in its place; commands that wait need redis.dedicated()',
  },
  E_REDIS_OPEN: {
    describe: (shown: string, problem: string): string => `Cannot open Redis at "${shown}": ${problem}`,
    remedy: 'Correct the address, start the server, or give this user the rights',
  },
  E_REDIS_URL: {
    describe: (shown: string, problem: string): string =>
      `Cannot read the address of Redis "${shown}": ${problem}`,
    remedy:
      'Write redis://user:password@host:6379/0, rediss:// for TLS, or redis+unix:///run/redis.sock?db=0',
  },
  E_REPLY: {
    describe: (problem: string): string =>
      `Cannot turn the handler's return value into a response: ${problem}`,
    remedy: 'Return a JSON value, a string, bytes, [body, status], reply(…) or a response object',
  },
  E_REQUEST_ABSENT: {
    describe: (what: string): string => `Cannot read ${what}: a dependency of scope "app" has no request`,
    remedy: 'Give the dependency the scope "request"',
  },
  E_RESPONSE_MISMATCH: {
    describe: (route: string, problems: string): string =>
      `Cannot send the reply of ${route}: it does not fit the declared response: ${problems}`,
    remedy: 'Return what "response" of the route describes, or describe what the handler returns',
  },
  E_ROOM: {
    describe: (problem: string): string => `Cannot join or address a room: found ${problem}`,
    remedy:
      'Name rooms with text of 1 … 256 characters; leave those that are over, or raise maxRooms of the WebSocket route',
  },
  E_ROUTE_HANDLER: {
    describe: (route: string): string => `Cannot register ${route}: there is no handler function`,
    remedy: 'Pass the handler last: app.get(path, handler), or app.get(path, spec, handler)',
  },
  E_ROUTE_METHOD: {
    describe: (method: string): string =>
      `Cannot register the method ${JSON.stringify(method)}: it is not an HTTP method token`,
    remedy: 'Use names such as GET, POST or PROPFIND, in capitals',
  },
  E_ROUTE_SPEC: {
    describe: (route: string, key: string, problem: string): string =>
      `Cannot read the spec of ${route}: "${key}" ${problem}`,
    remedy: 'Every key of a spec is a route option or a Depends(…); data of your own goes under meta: { … }',
  },
  E_RULE: {
    describe: (id: string, problem: string): string => `Cannot add the check "${id}": ${problem}`,
    remedy:
      'Write app.addCheck({ id: "shop/owner", severity: "error", why, remedy, phase: "security", run(view, report) { … } })',
  },
  E_SCHEMA_DEFAULT: {
    describe: (field: string, problem: string): string =>
      `Cannot declare the field ${field}: its default does not fit: it ${problem}`,
    remedy: 'Give a default that the field itself would take',
    rule: 'SVC303',
  },
  E_SCHEMA_FIELD: {
    describe: (field: string, problem: string): string => `Cannot declare the field ${field}: ${problem}`,
    remedy:
      'Write name = Field(str, { minLength: 2 }): a type or a default first, then the options of that type',
  },
  E_SCHEMA_FIELD_CALLS: {
    describe: (schema: string, problem: string): string => `Cannot construct ${schema}: ${problem}`,
    remedy:
      'Call Field() once per member, always the same ones in the same order: no conditions around it; use optional: true or a union',
  },
  E_SCHEMA_PROBE: {
    describe: (schema: string, problem: string): string => `Cannot learn the fields of ${schema}: ${problem}`,
    remedy:
      'Assign each Field() directly to a member of a class that extends Schema; turn computed members into getters',
  },
  E_SECRET_ABSENT: {
    describe: (variable: string): string =>
      `Cannot sign or verify: there is no secret, ${variable} is not set`,
    remedy: `Set SVC_AUTH_SECRET to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
    rule: 'SVC205',
  },
  E_SECRET_FORM: {
    describe: (found: string): string => `Cannot use the secret: it is ${found}`,
    remedy:
      'Use a secret text of at least 32 random bytes, or a list of such texts: HS256 has no public keys',
    rule: 'SVC205',
  },
  E_SECRET_WEAK: {
    describe: (bytes: number, needed: number): string =>
      `Cannot use a secret of ${bytes} bytes: HMAC-SHA-256 needs ${needed} or more`,
    remedy: `Set SVC_AUTH_SECRET to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
    rule: 'SVC205',
  },
  E_SEED: {
    describe: (problem: string): string => `Cannot seed the database: ${problem}`,
    remedy:
      'Put SQL files such as seeds/10_users.sql beside the migrations; write them so that they may run again',
  },
  E_SEED_PRODUCTION: {
    describe: (): string =>
      'Cannot seed the database: the environment is production, and seeds are rows for development',
    remedy:
      'Set SVC_ENV=development, for example by --env-file .env; --in-production seeds a production database all the same',
  },
  E_SESSION_ABSENT: {
    describe: (): string => 'Cannot read req.session: no session middleware is in use',
    remedy: 'Register it: app.use(new SessionMiddleware())',
  },
  E_SESSION_SENT: {
    describe: (what: string): string =>
      `Cannot ${what}: the answer has left the handler, and its cookies with it`,
    remedy:
      'Do it before the handler returns: not in a background task, nor in the pieces of a streamed answer',
  },
  E_SESSION_SIZE: {
    describe: (bytes: number, most: number): string =>
      `Cannot keep the session: it takes ${bytes} bytes, of which ${most} fit`,
    remedy:
      'Keep sessions on the server: new SessionMiddleware({ store: new MemoryRecordStore() }); large data belongs into a database, its key into the session',
  },
  E_SESSION_VALUE: {
    describe: (key: string, problem: string): string => `Cannot keep "${key}" in the session: it ${problem}`,
    remedy:
      'Keep JSON values: text, finite numbers, booleans, null, and lists and plain objects of them; dates as text; delete() for nothing',
  },
  E_START_DENIED: {
    describe: (): string => 'Cannot start the application while its module is imported to be inspected',
    remedy: 'Start it only where the module is the program: if (import.meta.main) await app.run()',
    rule: 'SVC001',
  },
  E_STATE_UNSET: {
    describe: (name: string): string => `Cannot read the state "${name}": nothing has set it`,
    remedy: 'Register the plugin that provides it, or set it in a middleware before it is read',
  },
  E_STATIC_DIRECTORY: {
    describe: (directory: string, problem: string): string =>
      `Cannot serve the directory "${directory}": ${problem}`,
    remedy:
      "Make the directory before the application starts, or name it from where the program is: new URL('../public', import.meta.url)",
  },
  E_STREAM: {
    describe: (problem: string): string => `Cannot send the answer in pieces: ${problem}`,
    remedy:
      'Give an iterable, an async iterable or a stream of strings and bytes; objects go through NDJSONResponse or EventStreamResponse, and contentLength is left out where it is not known',
  },
  E_TLS: {
    describe: (problem: string): string => `Cannot serve TLS: ${problem}`,
    remedy:
      "Name PEM files of one pair: run({ tls: { cert: 'fullchain.pem', key: 'privkey.pem' } }), or SVC_TLS_CERT and SVC_TLS_KEY",
  },
  E_TOKEN_CLAIM: {
    describe: (claim: string, problem: string): string => `Cannot create a token: "${claim}" ${problem}`,
    remedy:
      'Pass the subject first, times and names by the options expiresInSeconds, issuer, audience and id, and JSON values as claims',
  },
  E_TRUSTED_HOST: {
    describe: (problem: string): string => `Cannot tell which hosts are trusted: ${problem}`,
    remedy:
      "Name each as clients do, without scheme and port: hosts: ['example.com', '.example.com', '203.0.113.7']",
  },
  E_TRUST_PROXY: {
    describe: (problem: string): string => `Cannot trust proxies: ${problem}`,
    remedy: "Name them, trustProxy: ['loopback', '10.0.0.0/8'], or say how many there are, trustProxy: 1",
    rule: 'SVC210',
  },
  E_UPLOAD_DIRECTORY: {
    describe: (directory: string, problem: string): string =>
      `Cannot keep an uploaded file in "${directory}": ${problem}`,
    remedy: 'Set uploadDirectory (SVC_UPLOAD_DIRECTORY) to a folder that is there and may be written to',
  },
  E_UPLOAD_EXISTS: {
    describe: (): string => 'Cannot save an uploaded file: there is a file of that name already',
    remedy:
      'Choose a name of your own, such as a random one, or replace the file: save(path, { overwrite: true })',
  },
  E_UPLOAD_GONE: {
    describe: (what: string): string => `Cannot read ${what} of a form: it is not kept any more`,
    remedy:
      'Read or save a file before its request is over, in its background tasks at the latest; read each part of parts() before the next one',
  },
  E_URL_NAME: {
    describe: (name: string, suggestion: string | undefined): string =>
      `Cannot build a URL: no route is named "${name}"` +
      (suggestion === undefined ? '' : `: did you mean "${suggestion}"?`),
    remedy: 'Name the route in its spec: app.get("/users/{id:int}", { name: "user" }, handler)',
  },
  E_URL_PARAM: {
    describe: (name: string, param: string, problem: string): string =>
      `Cannot build the URL of "${name}": parameter "${param}" ${problem}`,
    remedy: 'Pass every parameter of the template, each as its converter reads it',
  },
  E_WEBSOCKET_CLOSE: {
    describe: (code: unknown): string =>
      `Cannot close the WebSocket with the code ${String(code)}: no close frame has it`,
    remedy:
      'Use 1000, a code of your own between 4000 and 4999, or another one that RFC 6455 §7.4 lets be sent',
  },
  E_WEBSOCKET_DATA: {
    describe: (found: string): string => `Cannot send: a message is a string or a Uint8Array, found ${found}`,
    remedy: 'Send other values as JSON: socket.sendJson(value)',
  },
  E_WEBSOCKET_FULL: {
    describe: (most: number): string =>
      `Cannot send: the client reads too slowly, and ${most} bytes wait for it already`,
    remedy: 'Await socket.drain() between messages, or let the route choose another policy: slowConsumer',
  },
  E_WEBSOCKET_ITERATED: {
    describe: (): string => 'Cannot iterate over the messages of the WebSocket: something takes them already',
    remedy: 'Take messages either with one "for await" loop or with onMessage()',
  },
  E_WORKERS: {
    describe: (problem: string): string => `Cannot run workers: ${problem}`,
    remedy:
      'Read the output of the processes above this message; start a single one, without workers, to see its own error',
  },
} as const;

/** A finding as E_COMPILE lists it. */
function line({ rule, subject, message, place }: Finding): string {
  return (
    `\n  ${rule} ${subject}: ${message}` +
    (place === undefined ? '' : ` (${fileOfPlace(place)}:${place.line}:${place.column})`)
  );
}

/** Texts of a fault. */
export function faultOf(code: FaultCode): Fault {
  return FAULTS[code];
}

/** A stable code of {@link FAULTS}. */
export type FaultCode = keyof typeof FAULTS;
/** Values for the texts of a fault. */
export type FaultArguments<C extends FaultCode> = Parameters<(typeof FAULTS)[C]['describe']>;
