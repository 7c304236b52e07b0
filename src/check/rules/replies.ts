/**
 * Rules about the content of responses: markup and header fields from clients, secrets, and responses in
 * shared caches (SVC608, SVC609, SVC626, SVC638).
 */
import { calledName, dependsOn, entryOf, functionAround, methodOf, partsIn } from '../reader/nodes.ts';
import { specOf } from '../values/functions.ts';
import { SECRET_COLUMN, SECRET_MEMBER, bare } from '../names.ts';
import { writtenOf } from '../sources.ts';
import { CLASS_ROW, ROW } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { clientPartsOf, hasAny, isStored, literalOf } from '../values/text.ts';
import { columnOf, plain } from '../statements/sending.ts';
import { clientPlaces, dangerOf, doubt } from './injection.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Fn, Node } from '../reader/nodes.ts';
import type { RouteCall } from '../values/functions.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import { hasMark, innerOf, madeIn, withoutMembers } from '../values/value.ts';
import type { RowColumn, Sending, WrittenColumns } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { ClientPart, Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { Place } from './injection.ts';

/** Rules about responses, sorted by id. */
export const REPLY_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC608',
    severity: 'error',
    cwe: [79],
    sources: ['OWASP Cheat Sheet: Cross Site Scripting Prevention'],
    why: 'Text from a client that is not escaped can contain a script, which runs in the browsers of other visitors',
    remedy: 'Escape every value: `<p>${escapeHtml(name)}</p>`',
    wrong: 'new HTMLResponse(`<p>${query.name}</p>`)',
    right: 'new HTMLResponse(`<p>${escapeHtml(query.name)}</p>`)',
    watch: watchPages,
  },
  {
    id: 'SVC609',
    severity: 'warning',
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
    cwe: [200, 209],
    why: 'A response with a hash, a secret or a stack trace helps only attackers',
    remedy:
      'Declare a response schema without the secret field, such as response: User. Write errors to the log, and send only the request id',
    wrong: '({ ...user, passwordHash: user.hash })',
    right: '{ response: User }',
    watch: watchRevealed,
  },
  {
    id: 'SVC638',
    severity: 'error',
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
function watchFormulas(report: ReportAt, { columns }: Sources): Watch {
  const cells: { readonly module: SourceModule; readonly body: Node; readonly danger: ClientPart }[] = [];
  /** Columns of rows without a class that begin a cell. */
  const stored: (Spot & { readonly made: Made })[] = [];
  return {
    onCall(site) {
      const [body] = site.call.args;
      const type = typeIn(fieldsOf(site))?.value;
      if (type?.texts.some((text) => /^text\/(?:csv|tab-separated-values)/.test(literalOf(text))) !== true)
        return;
      for (const text of site.value(body)?.texts ?? [])
        text.forEach((part, index) => {
          const made = part.kind === 'own' && part.made?.by === ROW ? part.made : undefined;
          // the text of a column stands before its mark
          const before = literalOf(text.slice(0, index)).replace(/\0$/, '');
          if (body !== undefined && made !== undefined && CELL.test(before))
            stored.push({ made, ...(made.entry ?? { module: site.module, node: body }) });
        });
      for (const place of clientPlaces(site.value(body)))
        if (body !== undefined && beginsFormula(place))
          cells.push({ module: site.module, body, danger: place.part });
    },
    finish() {
      for (const { made, ...spot } of stored) {
        const column = columns.columnIn(made, '=');
        if (column !== undefined) report(spot, `the column ${column} ${FORMULA}`, { severity: 'warning' });
      }
      for (const { danger, ...cell } of cells) {
        if (columns.isSafe(columnOf(danger), '=')) continue;
        report(danger.entry ?? { node: cell.body, module: cell.module }, `${danger.origin.what} ${FORMULA}`, {
          ...doubt(danger),
          ...(danger.unknown === undefined && { severity: 'warning' }),
        });
      }
    },
  };
}

const FORMULA = 'is a cell of the table, and a text that begins with "=" is a formula';
/** The end of a text that precedes a cell. */
const CELL = /(?:^|[,;\t\r\n"])$/;

/** Whether a part of a client begins a cell, and may begin with a character of formulas. */
function beginsFormula({ part, before }: Place): boolean {
  const isFree = ['=', '@', '+'].some(
    (char) => hasAny(part.may, char) && part.notFirst?.includes(char) !== true,
  );
  return isFree && part.begins === undefined && CELL.test(literalOf(before));
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
      spot,
      'caches of proxies may store this response and send it to other clients, although the route requires a credential',
    );
  }
}

/** Returns the field in the function of the project that an expression calls for the fields of a response. */
function fieldIn(node: Node, module: SourceModule, { handlers }: Sources): Spot | undefined {
  const fn = node.type === 'call' ? handlers.resolve(node.callee, module) : undefined;
  if (fn === undefined) return undefined;
  const found = partsIn(fn).find((each) => each.type === 'entry' && /^cache-control$/i.test(each.key ?? ''));
  return found && { node: found, module: handlers.homeOf(fn) };
}

/** SVC626: environment variables, stack traces and rows with a secret column in values that a handler returns. */
function watchRevealed(report: ReportAt, sources: Sources): Watch {
  const sent = new Map<Node, Sending>();
  /** Tables with a secret column. */
  const secrets = new Map<string, string>();
  const replies: (readonly [Value | undefined, Spot | undefined])[] = [];
  const shown: RepliesOf = new Map();
  const add = (value: Value | undefined, route: RouteCall | undefined, reply?: Spot): void => {
    for (const [key, member] of (route && value?.members) ?? [])
      if (route !== undefined && SECRET_MEMBER.test(bare(key)))
        shown.set(route.call, [...(shown.get(route.call) ?? []), [key, member]]);
    if (!declaresResponse(route)) replies.push([value, reply]);
  };
  for (const { name, columns } of sources.tables.values())
    for (const column of columns) if (SECRET_COLUMN.test(column)) secrets.set(name, column);
  const judge = (value: Value | undefined, reply: Spot | undefined, depth = 0): void => {
    if (value === undefined || depth > 4) return;
    const stacks = madeIn(withoutMembers(value)).filter(({ by }) => by === 'Error.stack');
    for (const made of [...stacks, ...(value.whole === undefined ? [] : [value.whole])]) {
      const message = revealed(made, value, sent.get(made.node), secrets);
      if (message !== undefined && !isUnderCondition(made.node, made.module))
        report(made.by === 'Error.stack' ? (reply ?? made) : made, message);
    }
    for (const inner of innerOf(value)) judge(inner, reply, depth + 1);
  };
  return {
    onCall({ call, meaning, module, route, value }) {
      const [body = call] = call.args;
      if (MAKES_REPLY.test(meaning)) add(value(body), route, { node: body, module });
    },
    onReply: ({ value, route }) => add(value, route),
    onStatement(sending) {
      sent.set(sending.call, sending);
      for (const { table, column, value } of sending.written)
        if (SECRET_COLUMN.test(column) || hasMark(value, HASHES)) secrets.set(table, column);
    },
    finish() {
      replies.forEach(([value, reply]) => judge(value, reply));
      findRevealed(sources, report, shown);
    },
  };
}

/** Whether a response schema of the route removes members that it does not declare. */
export function declaresResponse(route: RouteCall | undefined): boolean {
  return route !== undefined && entryOf(specOf(route), 'response') !== undefined;
}

/** Calls that respond with their arguments. */
export const MAKES_REPLY: RegExp = /^svc\.(?:reply|\w+Response)$|^Response(?:\.\w+)?$/;
/** Functions whose results are hashes of passwords. */
const HASHES = /^svc\.hashPassword$|^(?:bcrypt|bcryptjs|argon2)\.|^crypto\.(?:scrypt|pbkdf2)/;

/** Returns what a stack trace, the environment, or the rows of a statement reveal. */
function revealed(
  { by }: Made,
  { members, lacks }: Value,
  sending: Sending | undefined,
  secrets: ReadonlyMap<string, string>,
): string | undefined {
  if (by === 'Error.stack')
    return 'the response shows clients the stack trace of an error, with file paths and package names';
  if (by === 'process.env')
    return 'the response contains all environment variables, including passwords and tokens';
  if (sending?.outline.verb !== 'select') return undefined;
  const { outline, target = '' } = sending;
  const message = (column: string): string => {
    const owner =
      outline.tables.find(({ name }) => secrets.get(name.toLowerCase()) === column)?.name ?? target;
    return `the response contains rows of the table "${owner}" with the secret column "${column}": every client receives the values of the column`;
  };
  if (by === CLASS_ROW) {
    const secret = [...(members ?? [])].find(
      ([name, member]) => SECRET_COLUMN.test(name) && isColumnOf(sending, member),
    );
    return secret && message(secret[0]);
  }
  const known = secrets.get(target);
  const selected = outline.before('from').map(({ name }) => name);
  const column =
    selected.find((name) => name === known || SECRET_COLUMN.test(name)) ??
    (outline.hasStar ? known : undefined);
  // a member of the same name replaces the column: { ...user, password: undefined }
  const gone = [...(members?.keys() ?? []), ...(lacks ?? [])];
  return column === undefined || gone.some((key) => plain(key) === plain(column))
    ? undefined
    : message(column);
}

/** Whether a value is the column of a declared class, and the class does not keep it out of responses. */
function isColumnOf({ call }: Sending, { texts }: Value): boolean {
  return clientPartsOf(texts).some(({ isSecret, origin }) => isSecret !== true && origin.made?.node === call);
}

/** SVC608: client input in HTML. Pages are judged once all statements are known that write the columns in them. */
function watchPages(report: ReportAt, { columns }: Sources): Watch {
  const pages: { readonly made: readonly Made[]; readonly site: Site }[] = [];
  return {
    onCall(site) {
      if (isPage(site))
        pages.push({ made: madeIn({ texts: site.value(site.call.args[0])?.texts ?? [] }), site });
    },
    finish() {
      for (const { site } of pages) judgePage(site, columns, report);
      for (const { made, site } of pages) judgeColumns(made, site, columns, report);
    },
  };
}

function isPage(site: Site): boolean {
  const { call, meaning } = site;
  const [body] = call.args;
  const isHtml =
    meaning === 'svc.HTMLResponse' ||
    (/^(?:svc\.(?:HttpResponse|StreamingResponse)|Response)$/.test(meaning) &&
      typeIn(fieldsOf(site))?.value.texts.some((text) => literalOf(text).startsWith('text/html')) === true);
  return body !== undefined && isHtml && site.value(body)?.source?.whole === undefined;
}

function judgePage(site: Site, columns: WrittenColumns, report: ReportAt): void {
  const body = site.call.args[0]!; // a page has a body: see isPage()
  const value = site.value(body);
  const markup = dangerOf(value, (place) => entersMarkup(place, columns), true);
  const danger = markup ?? dangerOf(value, choosesScheme, true);
  if (danger === undefined) return;
  const { node, module } = danger.entry ?? site.written(body);
  if (markup !== undefined)
    return report(
      { module, node },
      `${danger.origin.what} is written into the page without escaping: a client can inject scripts (${writtenOf(module, node)})`,
      doubt(danger),
    );
  report(
    { module, node },
    `${danger.origin.what} is the address of a link: an address such as "javascript:alert(1)" runs as a script when a visitor follows the link`,
    {
      severity: 'warning',
      remedy: "Refuse other schemes: if (URL.parse(address)?.protocol !== 'https:') throw new BadRequest()",
      ...(danger.unknown !== undefined && doubt(danger)),
    },
  );
}

/** SVC608: columns of rows without a declared class, to which another handler writes the text of a client. */
function judgeColumns(made: readonly Made[], site: Site, columns: WrittenColumns, report: ReportAt): void {
  for (const mark of made) {
    const column = columns.columnIn(mark, '<');
    if (column === undefined) continue;
    const { node, module } = mark.entry ?? site.written(site.call.args[0]!); // a page has a body: see isPage()
    report(
      { module, node },
      `the column ${column} is written into the page without escaping: a client can inject scripts (${writtenOf(module, node)})`,
      { severity: 'warning' },
    );
  }
}

/** Whether a part of a client begins an address to which a page leads, and may choose its scheme. */
function choosesScheme({ part, before }: Place): boolean {
  const { may, begins = '', notFirst = [] } = part;
  const isAddress = /<[a-z][^<>]*\s(?:href|src|action|formaction)\s*=\s*["']?$/i.test(literalOf(before));
  const isScript = begins === '' || /^javascript:/i.test(begins);
  return isAddress && isScript && hasAny(may, ':') && !notFirst.includes('javascript:');
}

/** Whether a part of a client can open an element, or leave the quotes of an attribute. Columns may hold escaped texts only. */
function entersMarkup({ part, before }: Place, columns: WrittenColumns): boolean {
  const tag = /<[a-z][^<>]*$/i.exec(literalOf(before))?.[0];
  const quote = tag === undefined ? undefined : /=\s*(["'])[^"']*$/.exec(tag)?.[1];
  return hasAny(part.may, quote ?? '<') && (quote !== undefined || !columns.isSafe(columnOf(part), '<'));
}

const REPLIES = /^(?:svc\.(?:reply|HttpResponse|HTMLResponse|FileResponse|StreamingResponse)|Response)$/;

/** SVC609: client input in header fields that decide what a browser does with a response. */
function findFields(site: Site, report: ReportAt): void {
  if (!REPLIES.test(site.meaning)) return;
  for (const { name, written, node, value } of fieldsOf(site)) {
    const danger = dangerOf(value, (place) => choosesField(name, place));
    if (danger !== undefined)
      report(
        danger.entry ?? { node, module: site.module },
        `${danger.origin.what}, which a client sends, chooses a part of the header field ${written}`,
        doubt(danger),
      );
  }
}

/** Whether a part of a client names a media type, or ends the parameter of a field in which it stands. */
function choosesField(name: string, { part, before }: Place): boolean {
  const lead = literalOf(before);
  if (name === 'content-type') return !lead.includes(';') && (lead !== '' || hasAny(part.may, '/'));
  if (name === 'set-cookie') return hasAny(part.may, ';');
  const isQuoted = lead.split('"').length % 2 === 0;
  return name === 'content-disposition' && hasAny(part.may, isQuoted ? '"' : ';"');
}

/** Members of responses that are named like secrets, by the calls that declare their routes. Whole values hold much memory. */
type RepliesOf = Map<Node, readonly (readonly [key: string, member: Value])[]>;

/** Whether a text is random, or what the client itself has sent: no hash, and nothing that is stored. */
function isOwnText({ texts }: Value): boolean {
  return (
    texts.length > 0 &&
    texts.every((text) =>
      text.every((part) =>
        part.kind === 'client'
          ? !isStored(part)
          : part.kind === 'literal'
            ? part.text === '' || text.length > 1
            : /^crypto\.random/.test(part.made?.by ?? ''),
      ),
    )
  );
}

/** SVC626: secrets in responses, by their names. */
function findRevealed(sources: Sources, report: ReportAt, shown: RepliesOf): void {
  for (const { module, node } of sources.all('entry')) {
    const { key = '' } = node;
    if (node.parent?.type !== 'object' || !SECRET_MEMBER.test(bare(key)) || node.value === undefined)
      continue;
    if (
      node.value.type === 'text' ||
      node.value.type === 'value' ||
      (node.value.type === 'name' && node.value.name === 'undefined')
    )
      continue;
    const handler = returnsObject(node.parent, sources);
    if (handler === undefined) continue;
    const route = sources.handlers.routeOf(handler);
    const given = (route && shown.get(route.call)) ?? [];
    const members = given.flatMap(([name, member]) => (name === key ? [member] : []));
    if (members.length === 0 || !members.every(isOwnText))
      report(
        { module, node },
        `the response contains "${key}", which clients should not see: every client receives the value`,
      );
  }
}

/** Whether a value depends on a condition about the environment: `env === 'prod' ? null : error.stack`. */
export function isUnderCondition(node: Node, module: SourceModule): boolean {
  return dependsOn(node, module, /prod|dev|debug|env|\btest/i);
}

/** Returns the handler that returns an object directly, without a response schema that could remove members. */
function returnsObject(node: Node, sources: Sources): Fn | undefined {
  const fn = functionAround(node);
  if (fn === undefined || !sources.handlers.isHandler(fn)) return undefined;
  const route = sources.handlers.routeOf(fn);
  if (declaresResponse(route)) return undefined;
  let at: Node = node;
  for (let up = node.parent; up !== undefined && up !== fn; at = up, up = up.parent) {
    if (up.type === 'leave') return up.how === 'return' ? fn : undefined;
    if (up.type === 'call' && !/^(?:reply|json|JSONResponse|map)$/.test(calledName(up) ?? ''))
      return undefined;
    if (up.type === 'statement' || up.type === 'declarator' || up.type === 'if' || up.type === 'binary')
      return undefined;
  }
  return fn.isExpression && fn.body[0] === at ? fn : undefined;
}

/** A field that code writes into the header of a response. */
export interface Field {
  /** The name in lower case. */
  readonly name: string;
  readonly written: string;
  readonly node: Node;
  readonly value: Value;
}

function typeIn(fields: readonly Field[]): Field | undefined {
  return fields.find(({ name }) => name === 'content-type');
}

/** Returns the header fields that a call writes: `headers.set(name, value)`, `reply(body, 200, { … })`. */
export function fieldsOf({ call, meaning, receiver, value }: Site): readonly Field[] {
  const { args } = call;
  const field = (written: string, node: Node, given: Value): Field => ({
    name: written.toLowerCase(),
    written,
    node,
    value: given,
  });
  const isSet = /^(?:set|append|setHeader|header)$/.test(methodOf(call)) && args.length === 2;
  if (isSet && receiver?.source === undefined) {
    const [name, given] = [constantIn(value(args[0])), value(args[1])];
    return name === undefined || given === undefined ? [] : [field(name, call, given)];
  }
  if (!/^svc\.(?:reply|\w+Response)$|^(?:Response|Headers)$/.test(meaning)) return [];
  return args.slice(meaning === 'Headers' ? 0 : 1).flatMap((arg) => {
    const node = entryOf(arg, 'headers') ?? arg;
    const type = value(arg)?.members?.get('mediaType');
    return [
      ...[...(value(node)?.members ?? [])].map(([name, given]) =>
        field(name, entryOf(node, name) ?? node, given),
      ),
      ...(type === undefined ? [] : [field('content-type', entryOf(arg, 'mediaType') ?? arg, type)]),
    ];
  });
}

// -- SVC609: media types that a client stored with an upload, and that a later response repeats --

const WRITES = /^fs(?:\/promises|\.promises)?\.(?:writeFile|createWriteStream|rename|copyFile|cp)(?:Sync)?$/;

/** SVC609: files in a folder that the application serves, with the extension that a client chose. */
function watchUploads(report: ReportAt): Watch {
  const folders: string[] = [];
  const written: (Spot & { readonly path: string })[] = [];
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
            { module, node },
            'a client chooses the extension of a file in a folder that the application serves, so browsers run an uploaded page on this site',
            {
              remedy:
                'Choose the extension from a list by the content of the file, or serve uploads as attachments',
            },
          );
    },
  };
}

/** SVC609: a column that an upload filled names the media type of a response that browsers show. */
function watchStoredTypes(report: ReportAt, { columns }: Sources): Watch {
  /** Responses with the media type of a column; for a row without a class, with the mark of the column. */
  const shown: (Spot & { readonly column: RowColumn | undefined; readonly made: Made | undefined })[] = [];
  return {
    onCall: (site) => {
      const fields = fieldsOf(site);
      const type = typeIn(fields);
      const column = type === undefined ? undefined : columnIn(type.value);
      const made = madeIn(type && { texts: type.value.texts }).find((mark) => mark.column !== undefined);
      if (type !== undefined && (column ?? made) !== undefined && !isAttachment(site, fields))
        shown.push({ column, made, node: type.node, module: site.module });
    },
    finish: () => {
      for (const { node, module, column, made } of shown) {
        const name = column === undefined ? made && columns.columnIn(made, '/') : columns.nameOf(column, '/');
        if (name !== undefined)
          report(
            { module, node },
            `the column "${name}" has the media type that a client sent with an upload: with text/html or image/svg+xml, scripts in the upload run on this site`,
            {
              remedy:
                'Declare the types of the file field (contentTypes) or compare the type with a list of images, and send every other file with Content-Disposition: attachment and application/octet-stream',
            },
          );
      }
    },
  };
}

/** Returns the column of a row that a value holds unchanged. */
function columnIn({ texts }: Value): RowColumn | undefined {
  const [part, ...more] = clientPartsOf(texts);
  return part === undefined || more.length > 0 || !hasAny(part.may, '/') ? undefined : columnOf(part);
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
