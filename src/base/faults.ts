/** The table of faults: every mistake of an operator or programmer, with its message and remedy. */
import { findingLine } from './findings.ts';
import type { Finding } from './findings.ts';

/** Message and remedy of one error code. */
interface Fault {
  /** Builds the message, such as "Cannot open the file: it does not exist". Never contains a secret. */
  readonly describe: (...args: never[]) => string;
  readonly remedy: string;
  /** Rule of `svc check` that reports the same mistake. */
  readonly rule?: Finding['rule'];
}

/** Every fault by its permanent code. A test checks that src/REFERENCE.md lists all faults. */
export const FAULTS = {
  E_APP_COPY: {
    describe: (): string => 'Cannot test the application: it is not an application of this copy of svc',
    remedy:
      'Pass the result of new Svc(), and let application and tests import one copy of svc: npm ls svc lists all copies',
  },
  E_APP_FROZEN: {
    describe: (what: string): string =>
      `Cannot add ${what}: too late, because the application is already compiled or checked`,
    remedy: 'Add plugins before check(), and all else before startup(), run(), fetch() or compileAll()',
  },
  E_AUTH: {
    describe: (owner: string, problem: string): string => `Cannot set up ${owner}: ${problem}`,
    remedy:
      'Write the guard as in one of these examples: Depends(requireRoles("admin")), Depends(requireScopes("a", "b")) or Depends(APIKeyAuth({ keys: { client: "16 characters or more" } }))',
  },
  E_BACKGROUND_FULL: {
    describe: (most: number, isOfRequest: boolean): string =>
      `Cannot add a background task: the limit of ${most} tasks ${isOfRequest ? 'per request' : 'in total'} is reached`,
    remedy: 'Add one background task that does the work of many, or use an external job queue',
  },
  E_BACKGROUND_OVER: {
    describe: (): string =>
      'Cannot add a background task: the background tasks of the request have already run, or the handler has failed',
    remedy: 'Await the code that adds tasks, so that they are added before the handler returns',
  },
  E_BODY_CONSUMED: {
    describe: (how: string): string => `Cannot read the request body as ${how}: the body is already read`,
    remedy: 'Read a request body either with stream() or with one of body(), json(), text() and form()',
  },
  E_BODY_DISCARDED: {
    describe: (): string =>
      'Cannot read the request body: the response was sent before the body was read, so the body was discarded',
    remedy: 'Read the request body before the handler returns, and pass its value to code that runs later',
  },
  E_CACHED_KEY: {
    describe: (problem: string): string => `Cannot derive a cache key for the call: ${problem}`,
    remedy:
      'Set the option "key" to a function that makes a text from the arguments of a call: cached(fn, { key: (user) => user.id })',
  },
  E_CACHE_VALUE: {
    describe: (): string =>
      'Cannot cache the value: each caller gets a copy, but structuredClone() cannot copy the value',
    remedy: 'Cache plain data, or set shareReferences: true to give all callers the same object',
  },
  E_CLI_USAGE: {
    describe: (problem: string): string => `Cannot understand the command line: ${problem}`,
    remedy: 'See: svc --help',
  },
  E_COMPILE: {
    describe: (findings: readonly Finding[], step = 'compile the application'): string => {
      const errors = findings.filter((finding) => finding.severity === 'error');
      const mistakes = errors.length === 1 ? '1 mistake' : `${errors.length} mistakes`;
      const list = errors.map(findingLine).join('');
      return `Cannot ${step}: ${mistakes}${list}`;
    },
    remedy: 'Correct each finding; "svc check" prints the same list with remedies',
  },
  E_CONFIG_CAST: {
    describe: (name: string, needed: string, found: string): string =>
      `Cannot read ${name}: ${needed} is needed, found ${found}`,
    remedy: 'Set a value of the form that the message names, or remove the setting to use its default',
    rule: 'SVC401',
  },
  E_COOKIE: {
    describe: (name: string, problem: string): string => `Cannot set the cookie "${name}": ${problem}`,
    remedy: 'Use only letters, digits, "-" and "_" as the name, and encodeURIComponent() for the value',
    rule: 'SVC207',
  },
  E_CORS: {
    describe: (problem: string): string => `Cannot allow other origins: ${problem}`,
    remedy: "Name each origin as browsers send it: origins: ['https://app.example'], or pass a function",
    rule: 'SVC206',
  },
  E_CSP: {
    describe: (directive: string, problem: string): string =>
      `Cannot build the Content-Security-Policy: "${directive}" ${problem}`,
    remedy:
      "Put keywords in single quotes, and one source into each list item: contentSecurityPolicy: { scriptSrc: [\"'self'\", 'https://cdn.example'] }",
  },
  E_CSRF_ABSENT: {
    describe: (): string => 'Cannot make a CSRF token: no CSRF middleware is in use for this request',
    remedy:
      'Register the CSRF middleware after the session middleware: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
  },
  E_DB_CLOSED: {
    describe: (reason = 'the database is closed'): string => `Cannot run a statement: ${reason}`,
    remedy:
      'Use the database only while the application runs; open a separate database for work before its start or after its end',
  },
  E_DB_CONNECT: {
    describe: (server: string, problem: string): string =>
      `Cannot connect to the database server ${server}: ${problem}`,
    remedy:
      'Correct the address, user or password of the server; for a certificate error, set sslrootcert to the certificate of the authority, or choose a weaker sslmode and accept its risk; for a pooler such as PgBouncer, add statement_cache=0&startup=plain',
  },
  E_DB_FRAGMENT: {
    describe: (owner: string, problem: string): string => `Cannot build the SQL of ${owner}: ${problem}`,
    remedy: 'Pass sql templates, lists and complete rows; run no statement if there is nothing to write',
  },
  E_DB_IDENTIFIER: {
    describe: (problem: string): string => `Cannot use a name in a statement: ${problem}`,
    remedy: 'Pass the name of a table or column; for a table in a schema: sql.identifier("schema", "table")',
  },
  E_DB_JOIN: {
    describe: (): string => 'Cannot join SQL fragments: the list of fragments is empty',
    remedy: 'Use sql.in(), sql.and() or sql.or() for a list that may be empty: "in ()" is not valid SQL',
  },
  E_DB_NESTED: {
    describe: (problem: string): string =>
      `Cannot run a statement outside of the innermost open transaction: ${problem}`,
    remedy:
      'Run the statement in the innermost transaction: use the parameter of its callback, or the value of Depends(transaction)',
  },
  E_DB_OPEN: {
    describe: (path: string, problem: string): string => `Cannot open the database "${path}": ${problem}`,
    remedy:
      'Correct the address of the database, start its server, create the folder of its file, or grant the user access; restore a damaged file from a backup',
  },
  E_DB_OPTION: {
    describe: (problem: string): string => `Cannot use an option or method of the database: ${problem}`,
    remedy: 'Correct or remove the option, or use a database that supports the option or method',
  },
  E_DB_OVER: {
    describe: (): string => 'Cannot use a transaction that has ended: it is committed or rolled back',
    remedy: 'Await every call on the transaction inside its callback, and within its time limit',
  },
  E_DB_PAGE: {
    describe: (problem: string): string => `Cannot read the list in pages: ${problem}`,
    remedy: "Order by a unique combination of columns, such as orderBy: { created_at: 'desc', id: 'asc' }",
  },
  E_DB_PARAMETER: {
    describe: (where: string, problem: string): string => `Cannot bind ${where}: ${problem}`,
    remedy: 'Pass null, text, a finite number, bigint, boolean, Date, Uint8Array; wrap others in json(value)',
  },
  E_DB_PARAMETER_COUNT: {
    describe: (needed: number, given: number | undefined, row: number | undefined): string =>
      `Cannot bind the values of ${row === undefined ? 'the statement' : 'row ' + row}: the number of placeholders is ${needed}, but ${given === undefined ? 'the values are not a list' : `the number of values is ${given}`}`,
    remedy:
      'Pass a list with one value for each placeholder (?) of the statement, in order; insertMany() takes such a list for each row, in the order of its columns',
  },
  E_DB_ROW: {
    describe: (what: string, schema: string, problem: string): string =>
      `Cannot read ${what} as ${schema}: ${problem}`,
    remedy:
      'Make the schema match the columns of the statement: use nullable(…) for columns that may be NULL, str for large integers, decimal for decimals, snakeCase: true to read created_at as createdAt',
  },
  E_DB_STALLED: {
    describe: (what: string, ms: number): string => `Cannot wait longer than ${ms} ms for ${what}`,
    remedy: 'Let it settle, or raise "timeoutMs" of the call or "statementTimeoutMs" of the database',
  },
  E_DB_STATEMENT: {
    describe: (problem: string): string => `Cannot run the statement: ${problem}`,
    remedy:
      'Run one statement at a time, with ? in place of each value; use transaction() for a transaction, and script() for several statements',
  },
  E_DB_URL: {
    describe: (url: string, issue: string): string => `Cannot read the database address "${url}": ${issue}`,
    remedy:
      'Write sqlite:./data.db for a file in the working directory, sqlite:///var/lib/app/data.db for an absolute path, sqlite::memory: for a database in memory, or postgres://user:password@host:5432/database',
  },
  E_DEPENDENCY_YIELD: {
    describe: (label: string, problem: string): string => `Cannot use the dependency ${label}: ${problem}`,
    remedy: 'Yield exactly once in the generator: put set-up code before the yield, clean-up after the yield',
  },
  E_DEPENDS: {
    describe: (found: string, problem = 'the value is not a dependency'): string =>
      `Cannot depend on ${found}: ${problem}`,
    remedy: 'Pass a function, generator or class, stateKey() or provide({ … }, fn) to Depends()',
  },
  E_DEV_PROVIDER: {
    describe: (problem: string): string => `Cannot use DevProvider: ${problem}`,
    remedy:
      'Use DevProvider only in development and tests (SVC_ENV or the option env), because everyone can log in without a password; use a real identity provider elsewhere',
  },
  E_EVENT: {
    describe: (problem: string): string => `Cannot send the event: ${problem}`,
    remedy:
      "Write the event as { event: 'name', id: '7', data: { … } }: put the content into data; event and id are texts of one line",
  },
  E_EXCEPTION_HANDLER: {
    describe: (problem: string): string => `Cannot register an exception handler: ${problem}`,
    remedy:
      'Pass an error class and a function: app.exceptionHandler(NotFound, (error, req) => [{ problem: error.message }, 404]); the class HTTPException stands for all statuses',
  },
  E_HEADER: {
    describe: (name: string, problem: string): string =>
      `Cannot set the header ${JSON.stringify(name)}: ${problem}`,
    remedy:
      'Use only letters, digits and "-" in a header name, and no line break, NUL or character above U+00FF in a header value; encode file names by RFC 8187',
  },
  E_HEADER_OWNED: {
    describe: (name: string): string => `Cannot set the header "${name}": only the server may set it`,
    remedy: 'Remove it: it follows from the body; a StreamingResponse takes the option contentLength',
  },
  E_LISTEN: {
    describe: (address: string, reason: string): string => `Cannot listen on ${address}: ${reason}`,
    remedy: 'Choose another --host or --port, or stop the process that uses the address',
  },
  E_LOAD: {
    describe: (target: string, problem: string): string => `Cannot load "${target}": ${problem}`,
    remedy: 'Name a module and its export, for example: svc run src/app.ts:app',
  },
  E_MCP_NAME: {
    describe: (name: string, problem: string): string =>
      `Cannot declare a tool or prompt: the name "${name}" ${problem}`,
    remedy: 'Give each tool and each prompt a unique name: app.tool("add_note", { … }, fn)',
  },
  E_MCP_QUESTION: {
    describe: (key: string, issue: string): string =>
      `Cannot send a request to the MCP client: the request "${key}" ${issue}`,
    remedy:
      'Ask the user with a message and a schema without nested objects: client.elicit({ message, schema: { name: Field(str) } })',
  },
  E_MCP_TOOL: {
    describe: (name: string, near: string | undefined): string =>
      `Cannot call the tool "${name}": no tool has this name` +
      (near === undefined ? '' : `; did you mean "${near}"?`),
    remedy: 'Use a name from app.mcpTools(), or list the names with: svc mcp <module> --list',
  },
  E_METRIC: {
    describe: (name: string, problem: string): string => `Cannot register the metric "${name}": ${problem}`,
    remedy:
      'Use a unique metric name that matches [a-zA-Z_:][a-zA-Z0-9_:]*, and label names that match [a-zA-Z_][a-zA-Z0-9_]* other than "le"',
  },
  E_METRIC_LABELS: {
    describe: (name: string, labels: readonly string[], found: number): string =>
      `Cannot update the metric "${name}": the metric has ${labels.length === 0 ? 'no labels' : `the labels ${labels.map((label) => `"${label}"`).join(', ')}`}, but the call passes ${found} label values`,
    remedy: 'Pass one value for each declared label, in order',
  },
  E_MIDDLEWARE: {
    describe: (problem: string): string => `Cannot register the middleware: ${problem}`,
    remedy: 'Write app.use(async (req, next) => { const response = await next(); return response; })',
  },
  E_MIDDLEWARE_RESULT: {
    describe: (what: string): string => `Cannot respond: the middleware ${what} returned nothing`,
    remedy: 'Return a response from the middleware: return await next(), or a response of your own',
  },
  E_MIGRATION_CHANGED: {
    describe: (origin: string, appliedAt: string): string =>
      `Cannot migrate: ${origin} has changed since it was applied at ${appliedAt}`,
    remedy: 'Restore the text that was applied; add changes as a new migration: svc migrate new <name>',
  },
  E_MIGRATION_CONTRIBUTED: {
    describe: (id: string, problem: string): string => `Cannot read the migration "${id}": ${problem}`,
    remedy:
      'Correct the call in the plugin: host.migration("0001", { sqlite: ["create table …"], postgres: […], mysql: […], mariadb: […] })',
  },
  E_MIGRATION_DIFFERS: {
    describe: (database: string, states: readonly string[]): string =>
      `Cannot read the tables of ${database}: its migrations differ from those of the application: ${states.join(', ')}`,
    remedy: 'Run "svc migrate up <module>", or name a database with all migrations: --database <address>',
  },
  E_MIGRATION_DOWN: {
    describe: (name: string, problem: string): string => `Cannot undo ${name}: ${problem}`,
    remedy:
      'Put the .up.sql and .down.sql files of the migration that you want to undo into the folder of the migrations, or add a migration that reverts its changes',
  },
  E_MIGRATION_FAILED: {
    describe: (origin: string, problem: string, outcome: string): string =>
      `Cannot run ${origin}: ${problem}; ${outcome}`,
    remedy:
      'Correct the statement and migrate again; if the message says that the migration is unfinished, first run: svc migrate repair <module>',
  },
  E_MIGRATION_FILES: {
    describe: (dir: string, problem: string): string => `Cannot read the migrations in "${dir}": ${problem}`,
    remedy:
      'Name the files 0001_create_users.up.sql and 0001_create_users.down.sql, numbered without gaps: svc migrate new <name> creates the next two files',
  },
  E_MIGRATION_ORDER: {
    describe: (origin: string, problem: string): string => `Cannot migrate to ${origin}: ${problem}`,
    remedy:
      'Give a new migration the number after the last one; undo a migration that was applied under another number before you rename its files: svc migrate down <module>',
  },
  E_MIGRATION_PENDING: {
    describe: (database: string, names: readonly string[]): string =>
      `Cannot start: the database "${database}" lacks migrations: ${names.join(', ')}`,
    remedy:
      'Apply the migrations before the new version starts: svc migrate up <module>; or set the option migrations: "apply" of the DatabasePlugin',
    rule: 'SVC402',
  },
  E_MIGRATION_TARGET: {
    describe: (problem: string): string => `Cannot migrate: ${problem}`,
    remedy: 'Register a DatabasePlugin; if there are several, choose one: --database <name of the plugin>',
  },
  E_MIGRATION_UNFINISHED: {
    describe: (name: string): string =>
      `Cannot migrate: ${name} runs without a transaction, and was started but not finished`,
    remedy:
      'If no process still runs the migration, undo its changes and run "svc migrate repair <module> --as pending", or complete its changes and run the command with "--as applied"',
  },
  E_NEW_FOLDER: {
    describe: (dir: string, problem: string): string => `Cannot create a project in "${dir}": ${problem}`,
    remedy: 'Choose a folder that is empty or does not exist yet, and that you may write to',
  },
  E_NEXT_TWICE: {
    describe: (what: string): string =>
      `Cannot call next() a second time: the middleware ${what} has already called next() for the same request`,
    remedy: 'Call next() only once in each middleware, and keep the response that next() returns',
  },
  E_OAUTH_PROVIDER: {
    describe: (provider: string, problem: string): string =>
      `Cannot use the identity provider "${provider}": ${problem}`,
    remedy: 'Give the provider the options that its manual lists (node_modules/svc/src/oauth/README.md)',
  },
  E_OAUTH_PROVIDERS: {
    describe: (problem: string): string => `Cannot set up logins: ${problem}`,
    remedy:
      'Write new OAuthPlugin({ provider: githubProvider(id, secret), … }); for several providers, write providers: […] and give each a name',
  },
  E_OAUTH_SECRET: {
    describe: (): string =>
      'Cannot set up logins: the OAuth plugin and the application have different secrets, so the application could not verify tokens of the plugin',
    remedy: 'Remove the option authSecret of the plugin: without it, the plugin uses SVC_AUTH_SECRET',
  },
  E_OAUTH_UNREGISTERED: {
    describe: (): string =>
      'Cannot use the OAuth plugin: no application has registered the plugin, or the application is not compiled yet',
    remedy: 'Call app.register(plugin), and use the plugin after the application has started',
  },
  E_OAUTH_USER: {
    describe: (hook: string, problem: string): string => `Cannot use the result of ${hook}(): ${problem}`,
    remedy:
      'From onUser(), return the subject as text, or { sub, scopes, claims }, or undefined to refuse the login; from onRefresh(), return { scopes, claims }, or false to end the login; from onLogin(), return { params, scopes }, without parameters that the login sets',
  },
  E_OPTION_RANGE: {
    describe: (owner: string, option: string, requirement: string, found: string): string =>
      `Cannot configure ${owner}: option "${option}" ${requirement}, found ${found}`,
    remedy: 'Set a value in the range that the message names, or remove the option to use its default',
  },
  E_OPTION_UNKNOWN: {
    describe: (owner: string, option: string, near: string | undefined, known: readonly string[]): string =>
      `Cannot configure ${owner}: unknown option "${option}"` +
      (near === undefined ? `; the options are ${known.join(', ')}` : `: did you mean "${near}"?`),
    remedy: 'Use one of the documented options; put your own settings into config: { … }',
  },
  E_PATH_TEMPLATE: {
    describe: (template: string, problem: string): string =>
      `Cannot read the path template "${template}": ${problem}`,
    remedy:
      'Write a path template such as "/users/{id:int}": a leading slash, parameters that fill a whole segment, and the converters str, int, float, uuid and path',
  },
  E_PERMISSION: {
    describe: (flag: string, resource: string): string =>
      `Cannot continue: Node runs with --permission, but without the permission ${flag + (resource === '' ? '' : ` for "${resource}"`)}`,
    remedy:
      'Start Node with the missing permission; svc check, svc routes and svc openapi also need --allow-child-process, because they start another process',
  },
  E_REDIS_ARGUMENT: {
    describe: (where: string, problem: string): string => `Cannot send ${where} to Redis: ${problem}`,
    remedy:
      'Pass text, bytes (Uint8Array), a finite number or a bigint, and other values as JSON.stringify(value); pass the name of the command as its first argument',
  },
  E_REDIS_CLOSED: {
    describe: (): string => 'Cannot use Redis: the client is not open',
    remedy: 'Await redis.open(), or register a RedisPlugin; use the client before the application stops',
  },
  E_REDIS_COMMAND: {
    describe: (name: string): string =>
      `Cannot run ${name}: the command would block or change the connection, which other callers use too`,
    remedy:
      'Use redis.subscribe() or redis.transaction() instead; set user, password and database in the address; run blocking commands on a connection from redis.dedicated()',
  },
  E_REDIS_OPEN: {
    describe: (shown: string, problem: string): string => `Cannot open Redis at "${shown}": ${problem}`,
    remedy: 'Correct the address of Redis, start its server, or grant the user of the address access',
  },
  E_REDIS_URL: {
    describe: (url: string, issue: string): string => `Cannot read the address of Redis "${url}": ${issue}`,
    remedy:
      'Write the address as redis://user:password@host:6379/0, with rediss:// for TLS, or as redis+unix:///run/redis.sock?db=0',
  },
  E_REPLACEMENT: {
    describe: (key: string, problem: string): string => `Cannot use the replacement of "${key}": ${problem}`,
    remedy: 'Correct the function in "overrides" of the test client, or let it return a real value',
  },
  E_REPLY: {
    describe: (issue: string): string => `Cannot turn the handler's return value into a response: ${issue}`,
    remedy: 'Return a JSON value, a string, bytes, [body, status], reply(…) or a response object',
  },
  E_REQUEST_ABSENT: {
    describe: (what: string): string => `Cannot read ${what}: a dependency of scope "app" has no request`,
    remedy: 'Give the dependency the scope "request": Depends(fn, { scope: "request" })',
  },
  E_RESPONSE_MISMATCH: {
    describe: (route: string, problems: string): string =>
      `Cannot send the response of ${route}: it does not match the response schema of the route: ${problems}`,
    remedy: 'Return a value that matches the option "response" of the route, or correct that option',
  },
  E_ROOM: {
    describe: (problem: string): string => `Cannot join a room or send to a room: ${problem}`,
    remedy:
      'Use a text of 1 to 256 characters as the name of a room; leave rooms that are no longer used, or raise the option maxRooms of the WebSocket route',
  },
  E_ROUTE_HANDLER: {
    describe: (route: string): string => `Cannot register ${route}: there is no handler function`,
    remedy: 'Pass the handler last: app.get(path, fn), app.get(path, spec, fn) or app.tool(name, spec, fn)',
  },
  E_ROUTE_METHOD: {
    describe: (method: string): string =>
      `Cannot register the method ${JSON.stringify(method)}: not a valid name of an HTTP method`,
    remedy: 'Use method names such as GET, POST or PROPFIND, in capitals',
  },
  E_ROUTE_SPEC: {
    describe: (route: string, key: string, problem: string): string =>
      `Cannot read the spec of ${route}: "${key}" ${problem}`,
    remedy: 'Use only route options and Depends(…) as keys of a spec; put your own data into meta: { … }',
  },
  E_RULE: {
    describe: (id: string, problem: string): string => `Cannot add the check "${id}": ${problem}`,
    remedy:
      'Write app.addCheck({ id: "shop/owner", severity: "error", why, remedy, phase: "security", run(view, report) { … } })',
  },
  E_SCHEMA_DEFAULT: {
    describe: (field: string, problem: string): string =>
      `Cannot declare ${field}: the default of the field ${problem}`,
    remedy: 'Set a default that the field would accept as input',
    rule: 'SVC303',
  },
  E_SCHEMA_FIELD: {
    describe: (field: string, problem: string): string => `Cannot declare ${field}: ${problem}`,
    remedy:
      'Correct the declaration. A field has a type or default first, then options of the type: name = Field(str, { minLength: 2 })',
  },
  E_SCHEMA_FIELD_CALLS: {
    describe: (schema: string, problem: string): string => `Cannot construct ${schema}: ${problem}`,
    remedy:
      'Call Field() once for each member, and never inside a condition; declare a member that may be absent with optional: true, or use a union',
  },
  E_SCHEMA_PROBE: {
    describe: (name: string, problem: string): string => `Cannot determine the fields of ${name}: ${problem}`,
    remedy: 'Assign each Field() to a member of a class that extends Schema; make computed members getters',
  },
  E_SCHEMA_STANDARD: {
    describe: (vendor: string, problem: string): string => `Cannot use a schema of ${vendor}: ${problem}`,
    remedy: 'Use Standard Schema version 1, and make asynchronous checks in the handler or a dependency',
  },
  E_SCRATCH_DATABASE: {
    describe: (problem: string): string => `Cannot use a scratch database: ${problem}`,
    remedy: 'Name a server whose user may create databases, or a migrated database: --database <address>',
  },
  E_SECRET_ABSENT: {
    describe: (reason: string): string => `Cannot sign or verify data: there is no secret, because ${reason}`,
    remedy: `Set SVC_AUTH_SECRET to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
    rule: 'SVC205',
  },
  E_SECRET_FORM: {
    describe: (problem: string): string => `Cannot use the secret: ${problem}`,
    remedy: 'Use a random text of at least 32 bytes as the secret, or a list of them; never a public key',
    rule: 'SVC205',
  },
  E_SECRET_WEAK: {
    describe: (bytes: number, needed: number): string =>
      `Cannot use a secret of ${bytes} bytes: HMAC-SHA-256 needs ${needed} bytes or more`,
    remedy: `Set SVC_AUTH_SECRET to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
    rule: 'SVC205',
  },
  E_SEED: {
    describe: (problem: string): string => `Cannot seed the database: ${problem}`,
    remedy:
      'Correct the statement that failed; put SQL files such as seeds/10_users.sql beside the migrations; write the files so that they can run more than once',
  },
  E_SEED_PRODUCTION: {
    describe: (): string => 'Cannot seed the database in production: seeds are data for development',
    remedy: 'Set SVC_ENV=development, or use --in-production to seed a production database',
  },
  E_SESSION_ABSENT: {
    describe: (): string => 'Cannot read req.session: no session middleware has run for this request yet',
    remedy:
      'Register it before all code that reads req.session: app.use(new SessionMiddleware()); if it is registered, see whether npm ls svc lists two copies of svc',
  },
  E_SESSION_SENT: {
    describe: (what: string): string =>
      `Cannot create or change ${what}: the handler has already returned its response, whose cookies can no longer change`,
    remedy: 'Change sessions and cookies before the handler returns, not in a task or a streamed body',
  },
  E_SESSION_SIZE: {
    describe: (bytes: number, most: number): string =>
      `Cannot store the session: the session has ${bytes} bytes, and the limit is ${most} bytes`,
    remedy:
      'Store sessions on the server: new SessionMiddleware({ store: new MemoryRecordStore() }); put large data into a database, and only its key into the session',
  },
  E_SESSION_VALUE: {
    describe: (key: string, problem: string): string =>
      `Cannot store "${key}" in the session: the value ${problem}`,
    remedy:
      'Store JSON values: text, finite numbers, booleans, null, and lists and plain objects of them; store dates as text; use delete() to remove a value',
  },
  E_START_DENIED: {
    describe: (): string => 'Cannot start the application while a command such as svc check inspects it',
    remedy: 'Start the application only in the main program: if (import.meta.main) await app.run()',
    rule: 'SVC001',
  },
  E_STATE_UNSET: {
    describe: (name: string): string => `Cannot read the state "${name}": no code has set the state yet`,
    remedy:
      'Register the plugin that provides the state, or set the state in a middleware before it is read; in a test, read it after the first request, which starts the application',
  },
  E_STATIC_DIRECTORY: {
    describe: (path: string, problem: string): string => `Cannot serve the directory "${path}": ${problem}`,
    remedy:
      "Create the directory before the application starts, or give its path relative to the module: new URL('../public', import.meta.url)",
  },
  E_STREAM: {
    describe: (problem: string): string => `Cannot stream the response: ${problem}`,
    remedy:
      'Pass an iterable, an async iterable or a stream of strings and bytes; send objects with NDJSONResponse or EventStreamResponse, and omit contentLength if the length is unknown',
  },
  E_TLS: {
    describe: (problem: string): string => `Cannot serve TLS: ${problem}`,
    remedy:
      "Name the PEM files of one certificate and its key: run({ tls: { cert: 'fullchain.pem', key: 'privkey.pem' } }), or SVC_TLS_CERT and SVC_TLS_KEY",
  },
  E_TOKEN_CLAIM: {
    describe: (claim: string, problem: string): string => `Cannot create a token: "${claim}" ${problem}`,
    remedy:
      'Pass the subject as the first argument of createToken(); use its options expiresInSeconds, issuer, audience and id; pass other JSON values in the option claims',
  },
  E_TRUSTED_HOST: {
    describe: (problem: string): string => `Cannot determine the trusted hosts: ${problem}`,
    remedy: "Name hosts without scheme and port: hosts: ['example.com', '.example.com', '203.0.113.7']",
  },
  E_TRUST_PROXY: {
    describe: (problem: string): string => `Cannot trust proxies: ${problem}`,
    remedy: "Set trustProxy to the addresses (['loopback', '10.0.0.0/8']) or the number (1) of the proxies",
    rule: 'SVC210',
  },
  E_UPLOAD_DIRECTORY: {
    describe: (directory: string, problem: string): string =>
      `Cannot store uploaded files in "${directory}": ${problem}`,
    remedy: 'Set uploadDirectory (SVC_UPLOAD_DIRECTORY) to an existing folder that the process may write to',
  },
  E_UPLOAD_EXISTS: {
    describe: (): string => 'Cannot save an uploaded file: a file with that name already exists',
    remedy: 'Choose another name, such as a random one, or replace the file: save(path, { overwrite: true })',
  },
  E_UPLOAD_GONE: {
    describe: (what: string): string => `Cannot read ${what}: the uploaded data is no longer available`,
    remedy:
      'Read or save a file before the request and its background tasks end; read each part of parts() before you take the next part',
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
    remedy: 'Pass every parameter of the path template, each with a value that its converter accepts',
  },
  E_WEBSOCKET_CLOSE: {
    describe: (code: unknown): string =>
      `Cannot close the WebSocket with the code ${String(code)}: an application must not send this code`,
    remedy: 'Use 1000, a code of your own from 4000 to 4999, or another code that RFC 6455 §7.4 allows',
  },
  E_WEBSOCKET_DATA: {
    describe: (found: string): string => `Cannot send ${found}: a message is a string or a Uint8Array`,
    remedy: 'Send other values as JSON: socket.sendJson(value)',
  },
  E_WEBSOCKET_FULL: {
    describe: (most: number): string =>
      `Cannot send the WebSocket message: the client reads too slowly, and ${most} bytes already wait to be sent`,
    remedy: 'Await socket.drain() between messages, or set another policy with the route option slowConsumer',
  },
  E_WEBSOCKET_ITERATED: {
    describe: (): string => 'Cannot iterate over the WebSocket: other code already receives its messages',
    remedy: 'Take messages either with one "for await" loop or with onMessage()',
  },
  E_WORKERS: {
    describe: (problem: string): string => `Cannot run workers: ${problem}`,
    remedy: 'Read the errors of the workers above this message, or start without workers to see the error',
  },
} as const;

/** Returns the entry of {@link FAULTS} for an error code. */
export function faultOf(code: FaultCode): Fault {
  return FAULTS[code];
}

/** Code of an error in {@link FAULTS}. A code never changes. */
export type FaultCode = keyof typeof FAULTS;
/** Arguments from which the message of an error is built. */
export type FaultArguments<C extends FaultCode> = Parameters<(typeof FAULTS)[C]['describe']>;
