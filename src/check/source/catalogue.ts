/**
 * The rules of the source phase: what `svc check` finds in the code of handlers and of all that they call. An id is for ever.
 */
import type { CoreRule } from '../check.ts';

/** Every rule of the source phase, in the order of their ids. */
export const SOURCE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC601',
    severity: 'error',
    phase: 'source',
    why: 'SQL that is put together with text of a client does what the client wants: it reads and deletes every table',
    remedy:
      'Bind values: sql`select * from notes where id = ${id}`; take names of columns out of a list of your own',
  },
  {
    id: 'SVC602',
    severity: 'error',
    phase: 'source',
    why: 'A shell runs whatever stands behind a semicolon or a quotation mark of a client',
    remedy: 'Call the program without a shell, its arguments as a list: execFile("convert", [file])',
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
    why: 'A client that writes a pattern writes one that backtracks for minutes, and one that matches what it should not',
    remedy: 'Escape the text: new RegExp(RegExp.escape(text)); or search with includes()',
  },
  {
    id: 'SVC605',
    severity: 'error',
    phase: 'source',
    why: 'A link to your site that leads to another one is what phishing needs, and after a login it can carry a code away',
    remedy: 'Let paths of this site through only: new RedirectResponse(localPath(next) ?? "/")',
  },
  {
    id: 'SVC606',
    severity: 'error',
    phase: 'source',
    why: 'A path with ".." in it leaves the folder: settings, keys and sources can be read, and written where files are saved',
    remedy:
      'Keep files under names of your own, serve folders with mountStatic(), or take basename() of the name',
  },
  {
    id: 'SVC607',
    severity: 'error',
    phase: 'source',
    why: 'A server that asks any address asks those of its own network as well: databases, consoles, the metadata of the cloud',
    remedy: 'Compare the host with a list: if (!HOSTS.has(new URL(address).host)) throw new BadRequest()',
  },
  {
    id: 'SVC608',
    severity: 'error',
    phase: 'source',
    why: 'Text of a client in a page without escape is a script in the browser of the next visitor, with the rights of that visitor',
    remedy: 'Escape every value: `<p>${escapeHtml(name)}</p>`',
  },
  {
    id: 'SVC611',
    severity: 'error',
    phase: 'source',
    why: 'A promise is always true: a test of one lets everybody in. One that is not awaited fails unseen, after the answer has gone',
    remedy: 'Await it, return it, or hand it to BackgroundTasks',
  },
  {
    id: 'SVC612',
    severity: 'warning',
    phase: 'source',
    why: 'Methods of lists do not wait for the function that they are given',
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
    why: 'A statement beside the transaction stays when that is rolled back, does not see what it wrote, and may wait for it for ever',
    remedy:
      'Use what the transaction hands to its function: db.transaction(async (tx) => { await tx.execute(…); })',
  },
  {
    id: 'SVC621',
    severity: 'warning',
    phase: 'source',
    why: 'A comparison that ends at the first difference tells by its time how much was right, one character after the other',
    remedy:
      'Compare in constant time: timingSafeEqual() of the two SHA-256 digests; for passwords checkPassword()',
  },
  {
    id: 'SVC622',
    severity: 'error',
    phase: 'source',
    why: 'Math.random() is no source of secrets: a few of its numbers give all that follow',
    remedy: 'Use randomBytes(32).toString("base64url"), randomUUID() or randomInt() of node:crypto',
  },
  {
    id: 'SVC623',
    severity: 'error',
    phase: 'source',
    why: 'Passwords are short: a fast hash of one is found by trying, salted or not',
    remedy: 'Use await hashPassword(password), and checkPassword() to compare',
  },
  {
    id: 'SVC624',
    severity: 'error',
    phase: 'source',
    why: 'The content of a token counts only once its signature has been verified: before, it is what the client wrote',
    remedy: 'Use verifyToken(token, secret), or Depends(BearerAuth())',
  },
  {
    id: 'SVC625',
    severity: 'warning',
    phase: 'source',
    why: 'Logs are kept for long, copied to other systems and read by many: a secret in them is no secret',
    remedy:
      'Log who and what, not the secret; members called password, token or secret are left out by the logger of the application',
  },
  {
    id: 'SVC626',
    severity: 'error',
    phase: 'source',
    why: 'An answer with a hash, a secret or a stack helps attackers, and no other client',
    remedy: 'Declare response: User without that field; answer with the id of the request, and log the error',
  },
  {
    id: 'SVC627',
    severity: 'warning',
    phase: 'source',
    why: 'Some providers let people enter any address: an account that is found by it belongs to the person who enters it',
    remedy: 'Find accounts by provider and subject; use the address only where emailVerified is true',
  },
  {
    id: 'SVC631',
    severity: 'warning',
    phase: 'source',
    why: 'Requests run at the same time, and share the variables of a module: one client gets what belongs to another',
    remedy: 'Keep it in a constant of the handler, in req.state or in the session',
  },
  {
    id: 'SVC632',
    severity: 'error',
    phase: 'source',
    why: 'A cache answers by its key: what depends on more than that is given to clients that it was not made for',
    remedy:
      'Make all that the result depends on a part of the key: cached(load, { key: (path, user) => `${user} ${path}` })',
  },
  {
    id: 'SVC633',
    severity: 'warning',
    phase: 'source',
    why: 'A body has whatever its client writes into it: taken over as a whole, it sets what only the program should set',
    remedy: 'Declare it, body: Rename, and take over its fields by name',
  },
  {
    id: 'SVC634',
    severity: 'warning',
    phase: 'source',
    why: 'A body that is collected without a limit grows until the process has no memory left',
    remedy: 'Use await req.body({ maxBytes: 1_000_000 }), or maxBodyBytes for the route',
  },
  {
    id: 'SVC635',
    severity: 'warning',
    phase: 'source',
    why: 'A service that does not answer holds the request, its connection and its memory; a few minutes of that fill the process',
    remedy:
      'Give it a limit: fetch(address, { signal: req.signal }), or a signal of AbortSignal that ends sooner',
  },
  {
    id: 'SVC636',
    severity: 'warning',
    phase: 'source',
    why: 'A pattern that can match a text in many ways tries them all: thirty characters are enough for minutes',
    remedy:
      'Write patterns without repetitions inside of repetitions, and limit the length of the text first',
  },
];
