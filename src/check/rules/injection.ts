/**
 * Rules about input of clients that becomes code, a path or an address. The source phase judges them: see
 * source/injection-rules.ts.
 */
import type { CoreRule } from '../check.ts';

/** Rules about injection, sorted by id. */
export const INJECTION_RULES: readonly CoreRule[] = [
  {
    id: 'SVC601',
    severity: 'error',
    phase: 'source',
    cwe: [89],
    sources: ['OWASP Cheat Sheet: SQL Injection Prevention'],
    why: 'A client that writes a part of an SQL statement can make the statement read, change or delete every table',
    remedy:
      'Pass values as parameters: sql`select * from notes where id = ${id}`. Choose column names from a fixed list',
    wrong: "db.fetchAll(`select * from notes where title = '${query.q}'`)",
    right: 'db.fetchAll(sql`select * from notes where title = ${query.q}`)',
  },
  {
    id: 'SVC602',
    severity: 'error',
    phase: 'source',
    cwe: [78],
    sources: ['OWASP Cheat Sheet: OS Command Injection Defense'],
    why: 'A client can add commands to a text that a shell runs, for example after a semicolon',
    remedy: 'Call the program without a shell, with its arguments as a list: execFile("sort", ["--", file])',
    wrong: 'exec(`sort ${body.name}`)',
    right: "execFile('sort', ['--', body.name])",
  },
  {
    id: 'SVC603',
    severity: 'error',
    phase: 'source',
    cwe: [94, 95],
    why: 'If the server runs text from a client as code, the client gains all rights of the process',
    remedy: 'Never run the text: choose a function by name from a fixed table, or parse the text as data',
    wrong: 'vm.runInNewContext(body.formula)',
    right: 'FORMULAS[body.name]?.(body.value)',
  },
  {
    id: 'SVC604',
    severity: 'error',
    phase: 'source',
    cwe: [1333, 400],
    why: 'A client can send a regular expression that runs for minutes, or that matches too much',
    remedy: 'Escape the text: new RegExp(RegExp.escape(text)). Or search with includes()',
    wrong: 'new RegExp(query.q)',
    right: 'new RegExp(RegExp.escape(query.q))',
  },
  {
    id: 'SVC605',
    severity: 'error',
    phase: 'source',
    cwe: [601],
    sources: ['OWASP Cheat Sheet: Unvalidated Redirects and Forwards'],
    why: 'Attackers use links to your site that redirect to their own site, to deceive visitors or to receive login codes',
    remedy: 'Redirect only to paths of your own site: new RedirectResponse(localPath(next) ?? "/")',
    wrong: 'new RedirectResponse(query.next)',
    right: "new RedirectResponse(localPath(query.next) ?? '/')",
  },
  {
    id: 'SVC606',
    severity: 'error',
    phase: 'source',
    cwe: [22],
    why: 'A path with ".." leads out of the intended folder. A client can then read settings, keys and sources, or overwrite files',
    remedy:
      'Store files under generated names, serve folders with mountStatic(), or pass the name through basename()',
    wrong: "readFile(join('uploads', params.name))",
    right: "readFile(join('uploads', basename(params.name)))",
  },
  {
    id: 'SVC607',
    severity: 'error',
    phase: 'source',
    cwe: [918],
    sources: ['OWASP Cheat Sheet: Server-Side Request Forgery Prevention'],
    why: 'A server that fetches any URL for a client also reaches its internal network: databases, admin pages, cloud metadata',
    remedy:
      'Compare the host of the URL with a list of allowed hosts: if (!HOSTS.has(new URL(address).host)) throw new BadRequest()',
    wrong: 'fetch(body.url)',
    right: 'if (!HOSTS.has(new URL(body.url).host)) throw new BadRequest(); fetch(body.url)',
  },
  {
    id: 'SVC608',
    severity: 'error',
    phase: 'source',
    cwe: [79],
    sources: ['OWASP Cheat Sheet: Cross Site Scripting Prevention'],
    why: 'Text from a client that is not escaped can contain a script, which runs in the browsers of other visitors',
    remedy: 'Escape every value: `<p>${escapeHtml(name)}</p>`',
    wrong: 'new HTMLResponse(`<p>${query.name}</p>`)',
    right: 'new HTMLResponse(`<p>${escapeHtml(query.name)}</p>`)',
  },
  {
    id: 'SVC609',
    severity: 'warning',
    phase: 'source',
    cwe: [113, 434],
    why: 'A client that chooses the media type or the file name of a reply can make browsers run it as a page, or save it as a program',
    remedy:
      'Build the field with contentDisposition() or setCookie(), and choose the media type from a fixed list by the content of the file',
    wrong:
      'new HttpResponse(csv, { headers: { "Content-Disposition": `attachment; filename="${query.name}"` } })',
    right: 'new HttpResponse(csv, { headers: { "Content-Disposition": contentDisposition(query.name) } })',
  },
  {
    id: 'SVC610',
    severity: 'warning',
    phase: 'source',
    cwe: [117],
    why: 'A client that sends a line feed writes lines of its own into a log, which then shows things that never happened',
    remedy: 'Write each line as JSON, or replace line feeds: text.replace(/[\\r\\n]+/g, " "). Or use app.log',
    wrong: 'appendFile(path, `${date} ${query.reason}\\n`)',
    right: 'appendFile(path, JSON.stringify([date, query.reason]) + "\\n")',
  },
];
