/**
 * Rules about client input in SQL, shell commands, code and regular expressions (SVC601 … SVC604). Each asks what the
 * text of an argument may contain.
 */
import {
  entryOf,
  isRaw,
  isWithin,
  loopAround,
  methodOf,
  nodesAround,
  partsIn,
  pathOf,
} from '../reader/nodes.ts';
import { columnOf } from '../statements/sending.ts';
import { isOfPackage } from '../values/calls.ts';
import { ROW } from '../values/marks.ts';
import { freeKeyIn } from '../values/tests.ts';
import { WORD, charsOf, constantOf, hasAny, isStored, literalOf } from '../values/text.ts';
import { writtenOf } from '../sources.ts';
import { clientIn } from '../values/value.ts';
import type { Fn, Node } from '../reader/nodes.ts';
import type { Spot } from '../reader/modules.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { ClientPart, Text } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about client input in SQL, commands, code and patterns, sorted by id. */
export const INJECTION_RULES: readonly SourceRule[] = [
  {
    id: 'SVC601',
    severity: 'error',
    cwe: [89],
    sources: ['OWASP Cheat Sheet: SQL Injection Prevention'],
    why: 'A client that writes a part of an SQL statement can make the statement read, change or delete every table',
    remedy:
      'Pass values as parameters: sql`select * from notes where id = ${id}`. Choose column names from a fixed list',
    wrong: "db.fetchAll(`select * from notes where title = '${query.q}'`)",
    right: 'db.fetchAll(sql`select * from notes where title = ${query.q}`)',
    watch: watchSql,
  },
  {
    id: 'SVC602',
    severity: 'error',
    cwe: [78],
    sources: ['OWASP Cheat Sheet: OS Command Injection Defense'],
    why: 'A client can add commands to a text that a shell runs, for example after a semicolon',
    remedy: 'Call the program without a shell, with its arguments as a list: execFile("sort", ["--", file])',
    wrong: 'exec(`sort ${body.name}`)',
    right: "execFile('sort', ['--', body.name])",
    watch: watchCommands,
  },
  {
    id: 'SVC603',
    severity: 'error',
    cwe: [94, 95],
    why: 'If the server runs text from a client as code, the client gains all rights of the process',
    remedy: 'Never run the text: choose a function by name from a fixed table, or parse the text as data',
    wrong: 'vm.runInNewContext(body.formula)',
    right: 'FORMULAS[body.name]?.(body.value)',
    onCall: findCode,
  },
  {
    id: 'SVC604',
    severity: 'error',
    cwe: [1333, 400],
    why: 'A client can send a regular expression that runs for minutes, or that matches too much',
    remedy: 'Escape the text: new RegExp(RegExp.escape(text)). Or search with includes()',
    wrong: 'new RegExp(query.q)',
    right: 'new RegExp(RegExp.escape(query.q))',
    onCall: findPatterns,
  },
  {
    id: 'SVC650',
    severity: 'error',
    cwe: [1321],
    why: 'Every object has the key "__proto__". A client that chooses two keys in a row writes into the object that all others inherit from, so a member such as isAdmin appears everywhere',
    remedy:
      'Refuse the keys "__proto__", "constructor" and "prototype", read members only after Object.hasOwn(), or keep the data in a Map',
    wrong: 'settings[body.group][body.name] = body.value;',
    right: 'if (Object.hasOwn(settings, body.group)) settings[body.group][body.name] = body.value;',
    watch: (report) => ({
      onIndexed({ target, module, object, key }) {
        if (object.byKey === undefined || freeKeyIn(key) === undefined) return;
        report(
          { module, node: target },
          `keys of ${object.byKey.origin.what}, which a client sends, choose a member of a member: with the key "__proto__" the client changes all objects of the process`,
        );
      },
    }),
  },
  {
    id: 'SVC651',
    severity: 'error',
    cwe: [776, 611],
    sources: ['OWASP Cheat Sheet: XML External Entity Prevention'],
    why: 'Entities that name other entities make gigabytes of a message of one kilobyte, and entities with an address read files of the server',
    remedy:
      'Refuse messages with a document type: if (xml.includes("<!DOCTYPE")) throw new BadRequest(). Replace the five entities of XML only',
    wrong: 'libxml.parseXml(text, { noent: true })',
    right: 'libxml.parseXml(text, { noent: false, nonet: true })',
    watch: watchEntities,
  },
];

/** Methods of databases of this package that run a statement. */
export const OUR_DATABASE: RegExp =
  /^svc\/db\.[^]*\.(?:fetchAll|fetchOne|fetchArrays|execute|executeMany|scalar|script|stream)$/;

export const OTHER_DATABASE: RegExp =
  /^(?:pg|mysql2?(?:\/promise)?|sqlite|sqlite3|better-sqlite3|mariadb|sequelize|@prisma\/client)\.[^]*\.(?:query|execute|exec|prepare|raw|run|all|get|each|batch|unsafe|\$queryRawUnsafe|\$executeRawUnsafe)$|^(?:knex\.(?:[^]*\.)?(?:raw|\w+Raw)|(?:postgres|better-sqlite3)\.(?:[^]*\.)?(?:unsafe|prepare|exec))$/;

/** Characters of names and numbers, which cannot change a statement. */
const NAMES = WORD | charsOf('.-');

function watchSql(report: ReportAt, sources: Sources): Watch {
  const stored: StoredPart[] = [];
  return {
    onCall(site) {
      findSql(site, stored, report);
      findOperators(site, report);
      noteUnknown(site, sources);
    },
    finish() {
      for (const { danger, ...spot } of stored)
        if (sources.columns.nameOf(columnOf(danger), ' ') !== undefined) tellSql(spot, danger, report);
    },
  };
}

/** SVC601: client input in the text of an SQL statement, also by a column that a client writes. */
function findSql(site: Site, stored: StoredPart[], report: ReportAt): void {
  const { call, meaning } = site;
  const [first] = call.args;
  if (first === undefined || call.isNew) return;
  if (!OUR_DATABASE.test(meaning) && !OTHER_DATABASE.test(meaning)) return;
  const text = entryOf(first, 'text') ?? entryOf(first, 'sql') ?? first;
  const danger = dangerOf(site.value(text), ({ part }) => (part.may & ~NAMES) !== 0n, true);
  if (danger === undefined) return;
  const spot = site.written(text);
  if (isStored(danger)) stored.push({ ...spot, danger });
  else tellSql(spot, danger, report);
}

function tellSql(spot: Spot, danger: ClientPart, report: ReportAt): void {
  report(
    spot,
    `the SQL statement contains ${danger.origin.what}, which a client ${isStored(danger) ? 'has stored' : 'sends'}, so the client can change the statement`,
    doubt(danger),
  );
}

/** Methods of databases whose conditions are objects, in which a client may name operators. */
export const ASKS_BY_OBJECT: RegExp =
  /^(?:mongodb|mongoose|monk|nedb|@seald-io\/nedb)\.[^]*\.(?:find\w*|count\w*|update\w*|delete\w*|replaceOne|exists|where)$/;

/** SVC601: values of conditions that may be objects, because no schema of the body says that they are texts. */
function findOperators({ call, meaning, module, value }: Site, report: ReportAt): void {
  const [first] = call.args;
  if (first === undefined || !ASKS_BY_OBJECT.test(meaning)) return;
  const condition = value(first);
  const given = [condition, ...(condition?.members?.values() ?? [])].find(
    (each) =>
      each?.source !== undefined &&
      each.declared?.node === undefined &&
      /^(?:body|query|message)$/.test(each.source.origin.input),
  );
  if (given?.source !== undefined)
    report(
      { module, call },
      `the condition contains ${given.source.origin.what}, which may be an object such as { $ne: null }, so the client chooses other rows`,
      { remedy: 'Declare the body with a schema, or convert the value: String(value)' },
    );
}

/** Methods that look as if their argument were a statement, a command, a path or an address. */
const LOOKS_DANGEROUS =
  /^(?:fetchAll|fetchOne|fetchArrays|execute|executeMany|query|raw|exec|prepare|scalar|script|\$\w+RawUnsafe|execFile|spawn|readFile|writeFile|createReadStream|createWriteStream|unlink|sendFile|redirect)$/;

/** Notes a call with text of a client that looks dangerous, if the type of its object is not known. */
function noteUnknown({ call, module, meaning, receiver, given }: Site, sources: Sources): void {
  const { callee, args } = call;
  const method = methodOf(call);
  if (meaning !== '' || receiver?.pattern !== undefined || !LOOKS_DANGEROUS.test(method)) return;
  if (sources.handlers.resolve(callee, module) !== undefined) return;
  const part = args.map(given).find((each) => each !== undefined);
  if (part !== undefined)
    sources.noteUnjudged(
      module,
      call,
      `${writtenOf(module, callee)}() gets ${part.what} of a client, but the type of its object is not known`,
    );
}

const SHELL = /^child_process\.(?:exec|execSync)$/;

const PROGRAM = /^child_process\.(?:execFile|execFileSync|spawn|spawnSync|fork)$/;

/** Characters that a shell passes on unchanged. */
const PLAIN = WORD | charsOf('-./:@+,=%');

/** A part of a statement or of a command that is a column. */
interface StoredPart extends Spot {
  readonly danger: ClientPart;
}

function watchCommands(report: ReportAt, { columns }: Sources): Watch {
  const stored: StoredPart[] = [];
  return {
    onCall: (site) => findCommands(site, stored, report),
    finish() {
      for (const { danger, ...spot } of stored) {
        const column = columnOf(danger);
        const isNote = column !== undefined && columns.nameOf(column, '-') === undefined;
        tellOption(spot, danger, report, isNote);
      }
    },
  };
}

/** SVC602: client input in commands of the operating system. */
function findCommands(site: Site, stored: StoredPart[], report: ReportAt): void {
  const { call, meaning } = site;
  const [command, args, options] = call.args;
  if (command === undefined) return;
  const tell = (arg: Node, danger: ClientPart | undefined): boolean => {
    if (danger === undefined) return false;
    report(
      site.written(arg),
      `the command contains ${danger.origin.what}, which a client sends, so the client can run other commands`,
      doubt(danger),
    );
    return true;
  };
  const isUnsafe = ({ part, before }: Place): boolean =>
    (part.may & ~PLAIN) !== 0n || (hasAny(part.may, '-') && /(?:^|\s)$/.test(literalOf(before)));
  const given = site.value(command);
  if (SHELL.test(meaning)) tell(command, dangerOf(given, isUnsafe));
  else if (PROGRAM.test(meaning)) {
    const danger = dangerOf(given, () => true);
    if (tell(command, danger) || args === undefined) return;
    const [program] = given?.texts ?? [];
    const shell = entryOf(options ?? args, 'shell');
    const hasShell =
      (shell !== undefined && !isRaw(shell, 'false')) ||
      /(?:^|\/)(?:sh|bash|zsh|cmd(?:\.exe)?|powershell)$/.test(
        program === undefined ? '' : (constantOf(program) ?? ''),
      );
    if (hasShell) tell(args, dangerOf(site.value(args), isUnsafe));
    else findOptions(site, args, stored, report);
  }
}

/** SVC602: client input as an argument of a program, which may take it for an option. */
function findOptions(site: Site, args: Node, stored: StoredPart[], report: ReportAt): void {
  const danger = optionIn(site.value(args));
  if (danger === undefined) return;
  const [copied] = args.type === 'list' && args.items.length === 1 ? args.items : [];
  const spot = site.written(copied?.type === 'spread' ? copied.value : args);
  if (isStored(danger)) stored.push({ ...spot, danger });
  else tellOption(spot, danger, report);
}

/** Reports an argument. It is a note for a column to which no statement of the sources writes a text of a client. */
function tellOption(spot: Spot, danger: ClientPart, report: ReportAt, isNote = false): void {
  report(
    spot,
    `an argument of the program is ${danger.origin.what}, which a client ${isNote ? 'may have sent' : 'sends'}: with "-" at its start it is an option`,
    {
      severity: 'warning',
      remedy: 'Put the argument "--" before it, or "./" before the name of a file',
      ...doubt(danger),
      ...(isNote && { severity: 'info' }),
    },
  );
}

/** Returns an item of a list of arguments that may begin with `-`. The items after `--` are no options. */
function optionIn(list: Value | undefined): ClientPart | undefined {
  const items = [...(list?.members ?? [])].flatMap(([key, item]) => (/^\d+$/.test(key) ? [item] : []));
  for (const { texts } of [...items, ...(list?.items === undefined ? [] : [list.items])]) {
    if (texts.some((text) => constantOf(text) === '--')) return undefined;
    for (const [lead] of texts)
      if (lead?.kind === 'client' && hasAny(lead.may, '-') && isFreeToBegin(lead, '-')) return lead;
  }
  return undefined;
}

function isFreeToBegin({ begins, notFirst = [] }: ClientPart, char: string): boolean {
  return (begins === undefined || begins.startsWith(char)) && !notFirst.includes(char);
}

/** Functions that run a text: engines of Node.js, and templates of packages, which may hold code. */
const RUNS_CODE =
  /^(?:eval|Function|vm\.(?:runInContext|runInNewContext|runInThisContext|compileFunction|Script)|import|require|vm2\.(?:Node)?VM\.run|(?:handlebars|pug|ejs)\.(?:compile|precompile|render|compileClient)|nunjucks\.[^]*(?:renderString|compile)|(?:lodash|lodash-es|underscore)\.template|lodash\.template|dot\.(?:template|compile)|eta\.[^]*(?:renderString|compile)|twig\.twig|art-template\.(?:render|compile))$/;

/** Functions that make objects of a text, with methods and types that the text chooses. */
const REBUILDS =
  /^(?:v8\.(?:deserialize|Deserializer)|node-serialize\.unserialize|(?:funcster|serialize-to-js|cryo)\.(?:deepDeserialize|deserialize|parse))$/;

/** SVC603: client input in code that is evaluated. */
function findCode(site: Site, report: ReportAt): void {
  const { call, meaning } = site;
  const isRebuilt = REBUILDS.test(meaning) || hasTypesOfCode(site);
  if (!RUNS_CODE.test(meaning) && !isRebuilt) return;
  // the data of a template is no code
  const isTemplate = isOfPackage(meaning);
  for (const arg of isTemplate ? call.args.slice(0, 1) : call.args) {
    // a JSON file is data, which require() does not run
    const danger = dangerOf(
      site.value(arg),
      ({ after }) => meaning !== 'require' || !literalOf(after).endsWith('.json'),
    );
    if (danger === undefined) continue;
    return report(
      site.written(arg),
      isRebuilt
        ? `${meaning}() rebuilds objects from ${danger.origin.what} of a client, who may choose objects that run code or end the process`
        : `${meaning}() runs ${danger.origin.what} from a client as code, so the client gains all rights of the process`,
      doubt(danger),
    );
  }
}

/** Whether a call reads YAML with a schema that makes functions. */
function hasTypesOfCode({ call, meaning, value }: Site): boolean {
  const schema = value(call.args[1])?.members?.get('schema')?.meaning ?? '';
  return (
    /^js-yaml\.(?:load|loadAll)$/.test(meaning) && /^js-yaml(?:\.DEFAULT_FULL_SCHEMA|-js-types)/.test(schema)
  );
}

/** SVC604: client input in regular expressions, which methods of texts also make of a text. */
function findPatterns(site: Site, report: ReportAt): void {
  const [source] = site.call.args;
  const makes =
    site.meaning === 'RegExp' ||
    (/^(?:search|match|matchAll)$/.test(methodOf(site.call)) && isText(site.receiver));
  if (!makes || source === undefined) return;
  const danger = dangerOf(site.value(source), ({ part }) => hasAny(part.may, '*+{'));
  if (danger === undefined) return;
  report(
    site.written(source),
    `the regular expression is built from ${danger.origin.what}: a client can send a pattern that blocks the process`,
    doubt(danger),
  );
}

/** Whether a value is certainly a text: of the program, of a client, or of a column. */
function isText(value: Value | undefined): boolean {
  const isOther = [value?.type, value?.items, value?.members, value?.fn, value?.of].some(
    (each) => each !== undefined,
  );
  return (
    !isOther &&
    value?.texts
      .flat()
      .some((part) => part.kind !== 'own' || (part.made?.by === ROW && part.made.column !== undefined)) ===
      true
  );
}

/** A part of a client in a text, with the text before and after it. */
export interface Place {
  readonly part: ClientPart;
  readonly before: Text;
  readonly after: Text;
}

/** Returns the parts of clients in the texts of a value, with the texts before and after them. */
export function* clientPlaces(value: Value | undefined): Generator<Place, undefined> {
  for (const text of value?.texts ?? [])
    for (const [index, part] of text.entries())
      if (part.kind === 'client') yield { part, before: text.slice(0, index), after: text.slice(index + 1) };
  return undefined;
}

/**
 * Returns the part of a client for which a question is true, in one of the texts that a value may be. A part that went
 * through a function of unknown effect counts only if there is no other.
 */
export function dangerOf(
  value: Value | undefined,
  asks: (place: Place) => boolean,
  isOfRows = false,
): ClientPart | undefined {
  const found: ClientPart[] = [];
  for (const place of clientPlaces(value))
    if ((isOfRows || !isStored(place.part)) && asks(place)) found.push(place.part);
  const certain = found.filter(({ unknown }) => unknown === undefined);
  return certain.find((part) => !isStored(part)) ?? certain[0] ?? found[0];
}

/**
 * Returns the particulars of a finding: a note if a function of a package may have cleaned the text, and a
 * warning for a column of a row, which the program may have cleaned before it stored it.
 */
export function doubt(part: ClientPart): NonNullable<Parameters<ReportAt>[2]> {
  const { unknown } = part;
  if (unknown === undefined) return isStored(part) ? { severity: 'warning' } : {};
  return {
    severity: 'info',
    remedy: `Make sure that ${unknown}() returns only texts that are safe here: svc check does not know what it does`,
  };
}

const PARSES = /^(?:libxmljs2?|libxml2-wasm|libxml-wasm|node-libxml)\./;

function watchEntities(report: ReportAt): Watch {
  const replaced: Site[] = [];
  return {
    onCall(site) {
      const { call, meaning, module, value } = site;
      const method = methodOf(call);
      if (PARSES.test(meaning) && clientIn(value(call.args[0])) !== undefined && expands(site))
        report({ module, call }, 'the parser expands the entities that a client declares in its document');
      if (/^replace(?:All)?$/.test(method)) replaced.push(site);
      if (isRepeated(site)) report({ module, call }, REPEATED);
    },
    finish() {
      for (const site of replaced) if (isInLoop(site)) report(site, REPEATED);
    },
  };
}

const REPEATED =
  'texts that a client declares are replaced by each other again and again: a short message becomes gigabytes';

/** Whether the options of a parser expand entities, or remove its limits. */
function expands({ call, value }: Site): boolean {
  const options = value(call.args[1])?.members;
  return ['noent', 'replaceEntities', 'dtdload', 'huge'].some((key) => options?.get(key)?.constant === true);
}

/** Whether a function calls itself in a callback of `replace()`, with a text of a client. */
function isRepeated({ call, fn, value }: Site): boolean {
  if (fn === undefined || !call.args.some((arg) => clientIn(value(arg)) !== undefined)) return false;
  const callback = nodesAround(call).find(
    (around) => around.type === 'function' && /^replace(?:All)?$/.test(methodOf(around.parent)),
  );
  return callback !== undefined && isWithin(callback, fn) && !counts(fn);
}

/** Whether a function compares a number: a depth, or a length. */
function counts(within: Node): boolean {
  return partsIn(within).some((node) => node.type === 'binary' && /^[<>]=?$/.test(node.operator));
}

/** Whether a loop replaces parts of a text of a client by texts of this client. */
function isInLoop({ call, value }: Site): boolean {
  const { callee, args } = call;
  const target = call.parent?.type === 'assign' ? pathOf(call.parent.target) : undefined;
  if (callee.type !== 'member' || target === undefined || target !== pathOf(callee.object)) return false;
  const by = args[1];
  const made = by?.type === 'function' ? resultOf(by) : by;
  if (clientIn(value(callee.object)) === undefined || clientIn(value(made)) === undefined) return false;
  const loop = loopAround(call);
  return loop !== undefined && !counts(loop);
}

function resultOf(fn: Fn): Node | undefined {
  const last = fn.body.at(-1);
  const result = fn.isExpression ? last : last?.type === 'leave' ? last.value : undefined;
  return result?.type === 'binary' ? result.left : result;
}
