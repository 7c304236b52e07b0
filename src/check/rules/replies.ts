/**
 * Rules about the content of responses: markup and header fields from clients, secrets, and responses in shared
 * caches (SVC608, SVC609, SVC626, SVC638).
 */
import { calledName, entryOf, functionAround, walk } from '../reader/nodes.ts';
import { specOf } from '../values/functions.ts';
import { bare, writtenOf } from '../sources.ts';
import { constantIn } from '../values/tests.ts';
import { hasAny, isStored, literalOf } from '../values/text.ts';
import { WrittenColumns, columnOf } from '../statements/sending.ts';
import { clientPlaces, dangerOf, doubt } from './injection.ts';
import { statementOf } from './queries.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { RouteCall } from '../values/functions.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import { madeIn } from '../values/value.ts';
import type { RowColumn, Sending } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { ClientPart, Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { Place } from './injection.ts';

/** Rules about responses, sorted by id. */
export const REPLY_RULES: readonly (SourceRule | SourcePart)[] = [
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
    onCall: findHtml,
  },
  {
    id: 'SVC609',
    severity: 'warning',
    phase: 'source',
    cwe: [113, 434],
    why: 'A client that chooses the media type or the file name of a response can make browsers run it as a page, or save it as a program',
    remedy:
      'Build the field with contentDisposition() or setCookie(), and choose the media type from a fixed list by the content of the file',
    wrong:
      'new HttpResponse(csv, { headers: { "Content-Disposition": `attachment; filename="${query.name}"` } })',
    right: 'new HttpResponse(csv, { headers: { "Content-Disposition": contentDisposition(query.name) } })',
    onCall: findFields,
  },
  {
    id: 'SVC626',
    severity: 'error',
    phase: 'source',
    cwe: [200, 209],
    why: 'A response with a hash, a secret or a stack trace helps only attackers',
    remedy:
      'Declare a response schema without the secret field, such as response: User. Write errors to the log, and send only the request id',
    wrong: '({ ...user, passwordHash: user.hash })',
    right: '{ response: User }',
    find: findRevealed,
    watch: watchRevealed,
  },
  {
    id: 'SVC638',
    severity: 'error',
    phase: 'source',
    cwe: [524],
    sources: ['RFC 9111 §5.2.2'],
    why: 'Proxies and content delivery networks store a response with public or s-maxage, and send it to other clients',
    remedy: 'Use Cache-Control: private, or no-store',
    wrong: "reply(account, 200, { 'Cache-Control': 'public, max-age=60' })",
    right: "reply(account, 200, { 'Cache-Control': 'private, max-age=60' })",
    onCall: findShared,
  },
  {
    id: 'SVC656',
    severity: 'warning',
    phase: 'source',
    cwe: [1236],
    sources: ['OWASP CSV Injection'],
    why: 'Programs for tables run a cell that begins with =, +, - or @ as a formula, which can send other cells away or start programs',
    remedy: "Write an apostrophe before such a text: /^[=+\\-@\\t\\r]/.test(text) ? `'${text}` : text",
    wrong: 'new HttpResponse(`${row.id},"${row.name}"`, { headers: { "Content-Type": "text/csv" } })',
    right: 'new HttpResponse(`${row.id},"\'${row.name}"`, { headers: { "Content-Type": "text/csv" } })',
    watch: watchFormulas,
  },
  { id: 'SVC609', watch: watchStoredTypes },
  { id: 'SVC609', watch: watchUploads },
];

/** SVC656: texts of clients at the beginning of cells in CSV. */
function watchFormulas(report: ReportAt): Watch {
  const written = new WrittenColumns('=');
  const cells: { readonly module: SourceModule; readonly body: Node; readonly danger: ClientPart }[] = [];
  return {
    onCall(site) {
      written.visit(site);
      const [body] = site.call.args;
      const type = fieldsOf(site).find(({ name }) => name === 'content-type')?.value;
      if (type?.texts.some((text) => /^text\/(?:csv|tab-separated-values)/.test(literalOf(text))) !== true)
        return;
      for (const place of clientPlaces(site.value(body)))
        if (body !== undefined && beginsFormula(place))
          cells.push({ module: site.module, body, danger: place.part });
    },
    onStatement: (sending) => written.add(sending),
    finish() {
      for (const { danger, ...cell } of cells) {
        const column = columnOf(danger);
        if (column !== undefined && written.isSafe(column)) continue;
        const { node, module } = danger.entry ?? { node: cell.body, module: cell.module };
        report(
          module,
          node,
          `${danger.origin.what} is a cell of the table, and a text that begins with "=" is a formula`,
          { ...doubt(danger), ...(danger.unknown === undefined && { severity: 'warning' }) },
        );
      }
    },
  };
}

/** Whether a part of a client begins a cell, and may begin with a character of formulas. */
function beginsFormula({ part, before }: Place): boolean {
  const isFree = ['=', '@', '+'].some(
    (char) => hasAny(part.may, char) && part.notFirst?.includes(char) !== true,
  );
  return isFree && part.begins === undefined && /(?:^|[,;\t\r\n"])$/.test(literalOf(before));
}

/** SVC638: responses of guarded routes that shared caches may store. */
function findShared(site: Site, report: ReportAt, sources: Sources): void {
  const { module, isGuarded } = site;
  for (const { name, node, value } of fieldsOf(site)) {
    const isPublic = value.texts.some((text) => {
      const all = literalOf(text);
      return /(?:^|[\s,])(?:public\b|s-maxage=)/i.test(all) && !/\b(?:private|no-store)\b/i.test(all);
    });
    if (name !== 'cache-control' || !isPublic || !isGuarded) continue;
    const spot = fieldIn(node, module, sources) ?? { node, module };
    report(
      spot.module,
      spot.node,
      'caches of proxies may store this response and send it to other clients, although the route requires a credential',
    );
  }
}

/** Returns the field in the function of the project that an expression calls for the fields of a response. */
function fieldIn(node: Node, module: SourceModule, { handlers }: Sources): Spot | undefined {
  const fn = node.type === 'call' ? handlers.resolve(node.callee, module) : undefined;
  if (fn === undefined) return undefined;
  let found: Node | undefined;
  walk(fn, (each) => {
    if (each.type === 'entry' && /^cache-control$/i.test(each.key ?? '')) found ??= each;
  });
  return found && { node: found, module: handlers.homeOf(fn) };
}

function watchRevealed(report: ReportAt, sources: Sources): Watch {
  const revealed = new RevealedValues(sources, report);
  return {
    onCall: (site) => revealed.visit(site),
    onReply: ({ value, route }) => revealed.judge(value, route),
    onStatement: (sending) => revealed.add(sending),
    finish: () => revealed.finish(),
  };
}

/** SVC608: client input in HTML. */
function findHtml(site: Site, report: ReportAt): void {
  const { call, meaning } = site;
  const [body, options] = call.args;
  if (body === undefined) return;
  const isPage =
    meaning === 'svc.HTMLResponse' ||
    (/^(?:svc\.(?:HttpResponse|StreamingResponse)|Response)$/.test(meaning) && isHtml(site, options));
  if (!isPage || site.value(body)?.source?.whole !== undefined) return;
  const value = site.value(body);
  const markup = dangerOf(value, entersMarkup, true);
  const danger = markup ?? dangerOf(value, choosesScheme, true);
  if (danger === undefined) return;
  const { node, module } = danger.entry ?? site.written(body);
  if (markup !== undefined)
    return report(
      module,
      node,
      `${danger.origin.what} is written into the page without escaping: a client can inject scripts (${writtenOf(module, node)})`,
      doubt(danger),
    );
  report(
    module,
    node,
    `${danger.origin.what} is the address of a link: an address such as "javascript:alert(1)" runs as a script when a visitor follows the link`,
    {
      severity: 'warning',
      remedy: "Refuse other schemes: if (URL.parse(address)?.protocol !== 'https:') throw new BadRequest()",
      ...(danger.unknown !== undefined && doubt(danger)),
    },
  );
}

/** Whether a part of a client begins an address to which a page leads, and may choose its scheme. */
function choosesScheme({ part, before }: Place): boolean {
  const { may, begins = '', notFirst = [] } = part;
  const isAddress = /<[a-z][^<>]*\s(?:href|src|action|formaction)\s*=\s*["']?$/i.test(literalOf(before));
  const isScript = begins === '' || /^javascript:/i.test(begins);
  return isAddress && isScript && hasAny(may, ':') && !notFirst.includes('javascript:');
}

/** Whether the options of a response name the type HTML. */
function isHtml(site: Site, options: Node | undefined): boolean {
  const headers = entryOf(options, 'headers');
  return [
    entryOf(options, 'mediaType'),
    entryOf(headers, 'content-type'),
    entryOf(headers, 'Content-Type'),
  ].some((node) => site.value(node)?.texts.some((text) => literalOf(text).startsWith('text/html')) === true);
}

/** Whether a part of a client can open an element, or leave the quotes of an attribute. */
function entersMarkup({ part, before }: Place): boolean {
  const tag = /<[a-z][^<>]*$/i.exec(literalOf(before))?.[0];
  const quote = tag === undefined ? undefined : /=\s*(["'])[^"']*$/.exec(tag)?.[1];
  return hasAny(part.may, quote ?? '<');
}

const REPLIES = /^(?:svc\.(?:reply|HttpResponse|HTMLResponse|FileResponse|StreamingResponse)|Response)$/;

/** SVC609: client input in header fields that decide what a browser does with a response. */
function findFields({ call, meaning, value, module }: Site, report: ReportAt): void {
  if (!REPLIES.test(meaning)) return;
  const options = call.args[meaning === 'svc.reply' ? 2 : 1];
  const given = value(options)?.members;
  const headers = meaning === 'svc.reply' ? given : given?.get('headers')?.members;
  for (const [name, field] of [...(headers ?? []), ['content-type', given?.get('mediaType')] as const]) {
    const danger = dangerOf(field, (place) => choosesField(name.toLowerCase(), place));
    if (danger === undefined) continue;
    const at = danger.entry ?? { node: entryOf(options, 'mediaType') ?? options!, module };
    report(
      at.module,
      at.node,
      `${danger.origin.what}, which a client sends, chooses a part of the header field ${name}`,
      doubt(danger),
    );
  }
}

/** Whether a part of a client names a media type, or ends the parameter of a field in which it stands. */
function choosesField(name: string, { part, before }: Place): boolean {
  const lead = literalOf(before);
  if (name === 'content-type') return !lead.includes(';');
  if (name === 'set-cookie') return hasAny(part.may, ';');
  const isQuoted = lead.split('"').length % 2 === 0;
  return name === 'content-disposition' && hasAny(part.may, isQuoted ? '"' : ';"');
}

const REVEALED =
  /^(?:password|passwd|pwd|passwordhash|hashedpassword|passwordsalt|clientsecret|privatekey|apisecret|totpsecret|mfasecret)$/;

/** SVC626: secrets, stack traces and environment variables in responses. */
function findRevealed(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('entry')) {
    if (node.parent?.type !== 'object' || !REVEALED.test(bare(node.key ?? '')) || node.value === undefined)
      continue;
    if (
      node.value.type === 'text' ||
      node.value.type === 'value' ||
      (node.value.type === 'name' && node.value.name === 'undefined')
    )
      continue;
    if (isReturned(node.parent, sources))
      report(
        module,
        node,
        `the response contains "${node.key!}", which clients should not see: every client receives the value`,
      );
  }
}

/** Functions whose results are hashes of passwords. */
const HASHES = /^svc\.hashPassword$|^(?:bcrypt|bcryptjs|argon2)\.|^crypto\.(?:scrypt|pbkdf2)/;

/** A node with its module. */
interface Spot {
  readonly node: Node;
  readonly module: SourceModule;
}

/** SVC626: environment variables, stack traces and rows with a secret column in values that a handler returns. */
class RevealedValues {
  readonly #report: ReportAt;
  readonly #tables: Map<string, string>;
  /** Responses that are judged again once all statements are known. */
  readonly #sent: (readonly [Value | undefined, RouteCall | undefined, Spot | undefined])[] = [];

  constructor(sources: Sources, report: ReportAt) {
    this.#report = report;
    this.#tables = tablesWithSecrets(sources);
  }

  /** Notes a column to which a statement writes the hash of a password. */
  add({ bindings = [] }: Sending): void {
    for (const { use, table, column, value } of bindings)
      if (use === 'written' && madeIn(value).some(({ by }) => HASHES.test(by)))
        this.#tables.set(table, column);
  }

  finish(): void {
    for (const each of this.#sent.splice(0)) this.judge(...each);
  }

  visit({ call, meaning, module, route, value }: Site): void {
    if (
      /^svc\.(?:reply|JSONResponse|HTMLResponse|TextResponse|HttpResponse)$|^Response(?:\.json)?$/.test(
        meaning,
      )
    )
      this.judge(value(call.args[0]), route, { node: call.args[0] ?? call, module });
  }

  /** Judges a value that a handler returns, or passes to a function that makes a response. */
  judge(value: Value | undefined, route: RouteCall | undefined, reply?: Spot): void {
    // a response schema removes members that it does not declare
    if (route !== undefined && entryOf(specOf(route), 'response') !== undefined) return;
    this.#judge(value, reply, 0);
    this.#sent.push([value, route, reply]);
  }

  #judge(value: Value | undefined, reply: Spot | undefined, depth: number): void {
    if (value === undefined || depth > 4) return;
    const stacks = madeIn({ texts: value.texts }).filter(({ by }) => by === 'Error.stack');
    for (const made of [...stacks, ...(value.whole === undefined ? [] : [value.whole])]) {
      const message = isUnderCondition(made.node, made.module) ? undefined : this.#messageOf(made, value);
      if (message === undefined) continue;
      const { module, node } = made.by === 'Error.stack' ? (reply ?? made) : made;
      this.#report(module, node, message);
    }
    for (const member of value.members?.values() ?? []) this.#judge(member, reply, depth + 1);
    this.#judge(value.items, reply, depth + 1);
  }

  #messageOf({ by, node, module }: Made, { members }: Value): string | undefined {
    if (by === 'Error.stack')
      return 'the response shows clients the stack trace of an error, with file paths and package names';
    if (by === 'process.env')
      return 'the response contains all environment variables, including passwords and tokens';
    const [table, column] = (node.type === 'call' && secretColumnOf(node, module, this.#tables)) || [];
    // a member of the same name replaces the column: { ...user, password: undefined }
    const isSent = table !== undefined && members?.has(column ?? '') !== true;
    return isSent
      ? `the response contains rows of the table "${table}" with the secret column "${column}": every client receives the values of the column`
      : undefined;
  }
}

/** Whether a value depends on a condition about the environment: `env === 'prod' ? null : error.stack`. */
export function isUnderCondition(node: Node, { source }: SourceModule): boolean {
  for (let at = node.parent; at !== undefined && at.type !== 'function'; at = at.parent) {
    const test =
      at.type === 'choice' || at.type === 'if' ? at.test : at.type === 'binary' ? at.left : undefined;
    if (test !== undefined && /prod|dev|debug|env|\btest/i.test(source.slice(test.start, test.end)))
      return true;
  }
  return false;
}

/** Whether a handler returns a value directly and has no response schema that could remove it. */
function isReturned(node: Node, sources: Sources): boolean {
  const fn = functionAround(node);
  if (fn === undefined || !sources.handlers.isHandler(fn)) return false;
  const route = sources.handlers.routeOf(fn);
  if (route !== undefined && entryOf(specOf(route), 'response') !== undefined) return false;
  let at: Node = node;
  for (let up = node.parent; up !== undefined && up !== fn; at = up, up = up.parent) {
    if (up.type === 'leave') return up.how === 'return';
    if (up.type === 'call' && !/^(?:reply|json|JSONResponse|map)$/.test(calledName(up) ?? '')) return false;
    if (up.type === 'statement' || up.type === 'declarator' || up.type === 'if' || up.type === 'binary')
      return false;
  }
  return fn.isExpression && fn.body[0] === at;
}

const SECRET_COLUMN =
  /(?:^|[\s,."`])(\w*(?:password|passwd)(?:_?hash)?|\w*(?:secret|api_?key|private_?key|_hash|passwordhash))(?=[\s,"`]|$)/i;

/** Returns the table of a query and the secret column that its rows hold; undefined if there is none. */
function secretColumnOf(
  call: Call,
  module: SourceModule,
  secretTables: ReadonlyMap<string, string>,
): readonly [table: string, column: string] | undefined {
  const text = statementOf(call.args[0], module);
  const [, columns, table] = /^\s*select\s+([^]*?)\s+from\s+["`]?(\w+)/i.exec(text) ?? [];
  if (columns === undefined || table === undefined) return undefined;
  const known = secretTables.get(table.toLowerCase());
  const isNamed = known !== undefined && new RegExp(`\\b${known}\\b`, 'i').test(columns);
  const named = SECRET_COLUMN.exec(columns)?.[1] ?? (isNamed ? known : undefined);
  const starred = /^(?:\w+\.)?\*$/.test(columns.trim()) ? known : undefined;
  const column = named ?? starred;
  return column === undefined || /csrf|file_?hash|content_?hash|block_?hash|commit_?hash/i.test(column)
    ? undefined
    : [table, column];
}

/** Returns the tables that have a secret column, each with the name of that column. */
function tablesWithSecrets(sources: Sources): Map<string, string> {
  const found = new Map<string, string>();
  for (const { source } of sources.project.modules)
    for (const [, table, columns] of source.matchAll(
      /(?:insert\s+into|create\s+table(?:\s+if\s+not\s+exists)?)\s+["`]?(\w+)["`]?\s*\(([^()]*)\)?/gi,
    )) {
      const column = SECRET_COLUMN.exec(columns!)?.[1];
      if (column !== undefined) found.set(table!.toLowerCase(), column);
    }
  return found;
}

/** A field that code writes into the header of a response. */
export interface Field {
  readonly name: string;
  readonly node: Node;
  readonly value: Value;
}

/** Returns the header fields that a call writes: `headers.set(name, value)`, `reply(body, 200, { … })`. */
export function fieldsOf({ call, meaning, receiver, value }: Site): readonly Field[] {
  const { callee, args } = call;
  const method = callee.type === 'member' ? (callee.property ?? '') : '';
  if (
    /^(?:set|append|setHeader|header)$/.test(method) &&
    args.length === 2 &&
    receiver?.source === undefined
  ) {
    const name = constantIn(value(args[0]))?.toLowerCase();
    const given = value(args[1]);
    return name === undefined || given === undefined ? [] : [{ name, node: call, value: given }];
  }
  if (!/^svc\.(?:reply|\w+Response)$|^(?:Response|Headers)$/.test(meaning)) return [];
  return args.slice(meaning === 'Headers' ? 0 : 1).flatMap((arg) => {
    const node = entryOf(arg, 'headers') ?? arg;
    const fields = [...(value(node)?.members ?? [])].map(([name, given]) => ({
      name: name.toLowerCase(),
      node: entryOf(node, name) ?? node,
      value: given,
    }));
    const type = value(arg)?.members?.get('mediaType');
    if (type !== undefined)
      fields.push({ name: 'content-type', node: entryOf(arg, 'mediaType') ?? arg, value: type });
    return fields;
  });
}

// -- SVC609: media types that a client stored with an upload, and that a later response repeats --

const WRITES = /^fs(?:\/promises|\.promises)?\.(?:writeFile|createWriteStream|rename|copyFile|cp)(?:Sync)?$/;

/** SVC609: files in a folder that the application serves, with the extension that a client chose. */
function watchUploads(report: ReportAt): Watch {
  const folders: string[] = [];
  const written: { readonly path: string; readonly node: Node; readonly module: SourceModule }[] = [];
  return {
    onCall({ call, meaning, module, value }) {
      const folder = /^svc\.(?:Svc|Router)\.mountStatic$/.test(meaning)
        ? constantIn(value(call.args[1]))
        : undefined;
      if (folder !== undefined) folders.push(folder.replace(/\/*$/, '/'));
      const path = /(?:rename|copyFile|cp)/.test(meaning) ? call.args[1] : call.args[0];
      if (!WRITES.test(meaning) || path === undefined) return;
      for (const text of value(path)?.texts ?? []) {
        const last = text.at(-1);
        if (last?.kind === 'client' && hasAny(last.may, '.') && !isStored(last))
          written.push({ path: literalOf(text), node: call, module });
      }
    },
    finish() {
      for (const { path, node, module } of written)
        if (folders.some((folder) => path.startsWith(folder)))
          report(
            module,
            node,
            'a client chooses the extension of a file in a folder that the application serves, so browsers run an uploaded page on this site',
            {
              remedy:
                'Choose the extension from a list by the content of the file, or serve uploads as attachments',
            },
          );
    },
  };
}

/** A response with the media type of a column, and the class of the row. */
interface Shown extends RowColumn {
  readonly node: Node;
  readonly module: SourceModule;
}

/** SVC609: a column that an upload filled names the media type of a response that browsers show. */
function watchStoredTypes(report: ReportAt): Watch {
  const shown: Shown[] = [];
  const written = new WrittenColumns('/');
  return {
    onCall: (site) => {
      written.visit(site);
      const fields = fieldsOf(site);
      const type = fields.find(({ name }) => name === 'content-type');
      const column = type === undefined ? undefined : columnIn(type.value);
      if (type !== undefined && column !== undefined && !isAttachment(site, fields))
        shown.push({ ...column, node: type.node, module: site.module });
    },
    onStatement: (sending) => written.add(sending),
    finish: () => {
      for (const { node, module, ...column } of shown)
        if (written.has(column))
          report(
            module,
            node,
            `the column "${column.name}" has the media type that a client sent with an upload: with text/html or image/svg+xml, scripts in the upload run on this site`,
            {
              remedy:
                'Compare the type with a list of images, and send every other file with Content-Disposition: attachment and application/octet-stream',
            },
          );
    },
  };
}

/** Returns the column of a row that a value holds unchanged. */
function columnIn({ texts }: Value): RowColumn | undefined {
  const [part, ...more] = texts.flat().filter(({ kind }) => kind === 'client');
  return part?.kind !== 'client' || more.length > 0 || !hasAny(part.may, '/') ? undefined : columnOf(part);
}

/** Whether browsers save the response, or show it without scripts. */
function isAttachment({ call, value }: Site, fields: readonly Field[]): boolean {
  const policy = fields.find(({ name }) => name === 'content-security-policy');
  if (policy !== undefined) return true;
  const disposition = fields.find(({ name }) => name === 'content-disposition');
  // FileResponse sends a name for the file as an attachment
  if (disposition === undefined) return value(call.args[1])?.members?.has('filename') === true;
  const node = valueNode(disposition.node, call);
  const isBuilt = node?.type === 'call' && value(node.callee)?.meaning === 'svc.contentDisposition';
  const kind = isBuilt
    ? node.args[1] === undefined
      ? 'attachment'
      : constantIn(value(node.args[1]))
    : constantIn(disposition.value);
  return kind?.startsWith('inline') !== true;
}

function valueNode(node: Node, call: Node): Node | undefined {
  if (node.type === 'entry') return node.value;
  return node === call ? entryOf(node, 'value') : node;
}
