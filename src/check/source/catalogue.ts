/**
 * The rules that read source code: handlers and the functions that they call. The id of a rule never changes.
 */
import type { CoreRule } from '../check.ts';

/** Every rule that reads source code, sorted by id. */
export const SOURCE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC601',
    severity: 'error',
    phase: 'source',
    why: 'SQL that contains text of a client runs what the client writes. It can read, change and delete every table',
    remedy: 'Bind values: sql`select * from notes where id = ${id}`; choose column names from a fixed list',
  },
  {
    id: 'SVC602',
    severity: 'error',
    phase: 'source',
    why: 'A shell runs any text that a client writes after a semicolon or a quotation mark',
    remedy: 'Call the program without a shell, with its arguments as a list: execFile("convert", [file])',
  },
  {
    id: 'SVC603',
    severity: 'error',
    phase: 'source',
    why: 'Text of a client that runs as code has all rights of the process',
    remedy: 'Look the name up in a table of functions, or parse the text as data',
  },
  {
    id: 'SVC604',
    severity: 'error',
    phase: 'source',
    why: 'A client that chooses the pattern can choose one that backtracks for minutes, or one that matches too much',
    remedy: 'Escape the text: new RegExp(RegExp.escape(text)); or search with includes()',
  },
  {
    id: 'SVC605',
    severity: 'error',
    phase: 'source',
    why: 'Phishing uses links to your site that redirect to another one. After a login such a redirect can carry a code away',
    remedy: 'Accept only paths of this site: new RedirectResponse(localPath(next) ?? "/")',
  },
  {
    id: 'SVC606',
    severity: 'error',
    phase: 'source',
    why: 'A path with ".." leaves the folder. A client can then read settings, keys and sources, or overwrite files',
    remedy:
      'Store files under generated names, serve folders with mountStatic(), or use basename() of the name',
  },
  {
    id: 'SVC607',
    severity: 'error',
    phase: 'source',
    why: 'A server that fetches any address also reaches its internal network: databases, consoles, cloud metadata',
    remedy: 'Compare the host with a list: if (!HOSTS.has(new URL(address).host)) throw new BadRequest()',
  },
  {
    id: 'SVC608',
    severity: 'error',
    phase: 'source',
    why: 'Unescaped text of a client in a page becomes a script in the browser of other visitors',
    remedy: 'Escape every value: `<p>${escapeHtml(name)}</p>`',
  },
  {
    id: 'SVC611',
    severity: 'error',
    phase: 'source',
    why: 'A promise counts as true, so a condition on it lets every client in. If no code awaits a promise, no code sees its error',
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
    why: 'An error of a stream without a listener ends the process, and pipe() leaves the other stream open',
    remedy:
      'Use await pipeline(source, target) of node:stream/promises, or return new StreamingResponse(source)',
  },
  {
    id: 'SVC614',
    severity: 'error',
    phase: 'source',
    why: 'A statement outside of the transaction stays after a rollback, does not see its writes, and may wait for the transaction forever',
    remedy:
      'Use the session that the transaction gives: db.transaction(async (tx) => { await tx.execute(…); })',
  },
  {
    id: 'SVC615',
    severity: 'warning',
    phase: 'source',
    why: 'A row that does not exist is the ordinary case of a wrong id: the client should get a 404, and not a 500',
    remedy: 'Test the row: if (row === undefined) throw new NotFound()',
  },
  {
    id: 'SVC621',
    severity: 'warning',
    phase: 'source',
    why: 'A comparison that stops at the first difference shows by its duration how much of the secret was right',
    remedy:
      'Compare in constant time: timingSafeEqual() of two SHA-256 digests; for passwords checkPassword()',
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
    why: 'Passwords are short, so a fast hash of one is found by trying, with or without a salt',
    remedy: 'Use await hashPassword(password), and checkPassword() to compare',
  },
  {
    id: 'SVC624',
    severity: 'error',
    phase: 'source',
    why: 'The content of a token is what its sender wrote until the signature is verified',
    remedy: 'Use verifyToken(token, secret), or Depends(BearerAuth())',
  },
  {
    id: 'SVC625',
    severity: 'warning',
    phase: 'source',
    why: 'Logs are kept for long, copied to other systems and read by many people',
    remedy:
      "Log the user and the action, but not the secret. The application's logger leaves out members named password, token or secret",
  },
  {
    id: 'SVC626',
    severity: 'error',
    phase: 'source',
    why: 'A reply with a hash, a secret or a stack trace helps only attackers',
    remedy: 'Declare response: User without that field; log errors, and reply with the request id',
  },
  {
    id: 'SVC627',
    severity: 'warning',
    phase: 'source',
    why: 'Some providers do not verify e-mail addresses. An attacker can enter the address of a victim there',
    remedy: 'Find accounts by provider and subject; use the address only where emailVerified is true',
  },
  {
    id: 'SVC631',
    severity: 'warning',
    phase: 'source',
    why: 'Requests run at the same time and share the variables of a module. One client then sees data of another',
    remedy: 'Keep the value in a constant of the handler, in req.state or in the session',
  },
  {
    id: 'SVC632',
    severity: 'error',
    phase: 'source',
    why: 'A cache answers by its key. Results that depend on more than the key reach clients that must not see them',
    remedy:
      'Add everything that the result depends on to the key: cached(load, { key: (path, user) => `${user} ${path}` })',
  },
  {
    id: 'SVC633',
    severity: 'warning',
    phase: 'source',
    why: 'A body may hold any field. Copied as a whole, it sets fields that only the program should set',
    remedy: 'Declare the body, body: Rename, and copy its fields by name',
  },
  {
    id: 'SVC634',
    severity: 'warning',
    phase: 'source',
    why: 'A body that is collected without a limit can fill the memory of the process',
    remedy: 'Use await req.body({ maxBytes: 1_000_000 }), or maxBodyBytes for the route',
  },
  {
    id: 'SVC635',
    severity: 'warning',
    phase: 'source',
    why: 'A service that never answers holds the request, its connection and its memory',
    remedy: 'Set a time limit: fetch(address, { signal: req.signal }), or a signal that ends sooner',
  },
  {
    id: 'SVC636',
    severity: 'warning',
    phase: 'source',
    why: 'A pattern with nested repetitions tries all ways to match. Thirty characters can take minutes',
    remedy: 'Write patterns without nested repetitions, and limit the length of the text first',
  },
];
