/** Catalogue of the rules that check the source code of an application. The id of a rule never changes. */
import type { CoreRule } from '../check.ts';

/** Every rule that reads source code, sorted by id. */
export const SOURCE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC601',
    severity: 'error',
    phase: 'source',
    why: 'A client that writes a part of an SQL statement can make the statement read, change or delete every table',
    remedy:
      'Pass values as parameters: sql`select * from notes where id = ${id}`. Choose column names from a fixed list',
  },
  {
    id: 'SVC602',
    severity: 'error',
    phase: 'source',
    why: 'A client can add commands to a text that a shell runs, for example after a semicolon',
    remedy: 'Call the program without a shell, with its arguments as a list: execFile("convert", [file])',
  },
  {
    id: 'SVC603',
    severity: 'error',
    phase: 'source',
    why: 'If the server runs text from a client as code, the client gains all rights of the process',
    remedy: 'Never run the text: choose a function by name from a fixed table, or parse the text as data',
  },
  {
    id: 'SVC604',
    severity: 'error',
    phase: 'source',
    why: 'A client can send a regular expression that runs for minutes, or that matches too much',
    remedy: 'Escape the text: new RegExp(RegExp.escape(text)). Or search with includes()',
  },
  {
    id: 'SVC605',
    severity: 'error',
    phase: 'source',
    why: 'Attackers use links to your site that redirect to their own site, to deceive visitors or to receive login codes',
    remedy: 'Redirect only to paths of your own site: new RedirectResponse(localPath(next) ?? "/")',
  },
  {
    id: 'SVC606',
    severity: 'error',
    phase: 'source',
    why: 'A path with ".." leads out of the intended folder. A client can then read settings, keys and sources, or overwrite files',
    remedy:
      'Store files under generated names, serve folders with mountStatic(), or pass the name through basename()',
  },
  {
    id: 'SVC607',
    severity: 'error',
    phase: 'source',
    why: 'A server that fetches any URL for a client also reaches its internal network: databases, admin pages, cloud metadata',
    remedy:
      'Compare the host of the URL with a list of allowed hosts: if (!HOSTS.has(new URL(address).host)) throw new BadRequest()',
  },
  {
    id: 'SVC608',
    severity: 'error',
    phase: 'source',
    why: 'Text from a client that is not escaped can contain a script, which runs in the browsers of other visitors',
    remedy: 'Escape every value: `<p>${escapeHtml(name)}</p>`',
  },
  {
    id: 'SVC611',
    severity: 'error',
    phase: 'source',
    why: 'A promise always counts as true, so a condition that tests a promise lets every client in. Errors of promises that no code awaits are lost',
    remedy: 'Await the promise, return it, or pass it to BackgroundTasks',
  },
  {
    id: 'SVC612',
    severity: 'warning',
    phase: 'source',
    why: 'Array methods do not wait for asynchronous callbacks',
    remedy: 'Use for (const each of list) { await … }, or await Promise.all(list.map(…))',
  },
  {
    id: 'SVC613',
    severity: 'warning',
    phase: 'source',
    why: 'If a stream has no listener for errors, an error ends the process. After an error, pipe() leaves the second stream open',
    remedy:
      'Use await pipeline(source, target) of node:stream/promises, or return new StreamingResponse(source)',
  },
  {
    id: 'SVC614',
    severity: 'error',
    phase: 'source',
    why: 'A statement outside of the transaction is not rolled back, does not see the writes of the transaction, and may wait forever for locks of the transaction',
    remedy:
      'Use the session that transaction() passes to its callback: db.transaction(async (tx) => { await tx.execute(…); })',
  },
  {
    id: 'SVC615',
    severity: 'warning',
    phase: 'source',
    why: 'A request with an unknown id finds no row. The client should then get status 404, and not 500',
    remedy: 'Test whether the row exists: if (row === undefined) throw new NotFound()',
  },
  {
    id: 'SVC621',
    severity: 'warning',
    phase: 'source',
    why: 'A comparison that stops at the first difference takes longer if more of a guess is correct, so attackers can measure their progress',
    remedy:
      'Compare in constant time: pass two SHA-256 digests to timingSafeEqual(); for passwords use checkPassword()',
  },
  {
    id: 'SVC622',
    severity: 'error',
    phase: 'source',
    why: 'Math.random() is predictable: a few of its outputs reveal all that follow',
    remedy: 'Use randomBytes(32).toString("base64url"), randomUUID() or randomInt() of node:crypto',
  },
  {
    id: 'SVC623',
    severity: 'error',
    phase: 'source',
    why: 'Attackers who have a fast hash of a password find the password by trying billions a second, even if the hash has a salt',
    remedy: 'Hash with await hashPassword(password), and compare with checkPassword()',
  },
  {
    id: 'SVC624',
    severity: 'error',
    phase: 'source',
    why: 'Until the signature of a token is verified, any client may have written its content',
    remedy: 'Use verifyToken(token, secret), or Depends(BearerAuth())',
  },
  {
    id: 'SVC625',
    severity: 'warning',
    phase: 'source',
    why: 'Logs are kept for long and read by many people, so a secret in a log does not stay secret',
    remedy:
      "Log the user and the action, but not the secret. The application's logger leaves out members named password, token or secret",
  },
  {
    id: 'SVC626',
    severity: 'error',
    phase: 'source',
    why: 'A reply with a hash, a secret or a stack trace helps only attackers',
    remedy:
      'Declare a response schema without the secret field, such as response: User. Write errors to the log, and send only the request id',
  },
  {
    id: 'SVC627',
    severity: 'warning',
    phase: 'source',
    why: 'Some login providers do not verify e-mail addresses, so an attacker can register there with the address of a victim',
    remedy:
      'Find accounts by provider and subject (the user id). Use the e-mail address only if emailVerified is true',
  },
  {
    id: 'SVC631',
    severity: 'warning',
    phase: 'source',
    why: 'Requests run at the same time and share the variables of a module, so a client can see data of another client',
    remedy: 'Keep the value in a local variable of the handler, in req.state or in the session',
  },
  {
    id: 'SVC632',
    severity: 'error',
    phase: 'source',
    why: 'A cache finds a result by its key only. If a result depends on more than the key, clients receive results of other clients',
    remedy:
      'Add everything that the result depends on to the key: cached(load, { key: (path, user) => `${user} ${path}` })',
  },
  {
    id: 'SVC633',
    severity: 'warning',
    phase: 'source',
    why: 'A request body may contain any field. Code that copies the whole body also sets fields that clients must not set',
    remedy: 'Declare a schema of the body, such as body: Rename, and copy its fields by name',
  },
  {
    id: 'SVC634',
    severity: 'warning',
    phase: 'source',
    why: 'A request body that is collected without a limit can fill the memory of the process',
    remedy: 'Use await req.body({ maxBytes: 1_000_000 }), or maxBodyBytes for the route',
  },
  {
    id: 'SVC635',
    severity: 'warning',
    phase: 'source',
    why: 'While a request waits for a slow service, the request keeps its connection and its memory',
    remedy: 'Set a time limit: fetch(address, { signal: req.signal }), or pass a signal that aborts sooner',
  },
  {
    id: 'SVC636',
    severity: 'warning',
    phase: 'source',
    why: 'A regular expression with nested repetitions tries very many ways to match a text: thirty characters can take minutes',
    remedy: 'Write regular expressions without nested repetitions, and limit the length of the text first',
  },
];
