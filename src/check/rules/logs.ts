/**
 * Rules about what programs write into logs: lines from clients, and secrets (SVC610, SVC625).
 */
import { literal } from '../reader/constants.ts';
import { entryOf, pathOf } from '../reader/nodes.ts';
import { PERSON, namesSecret } from '../names.ts';
import { isCommand } from '../sources.ts';
import { specOf } from '../values/functions.ts';
import { isOfPackage } from '../values/calls.ts';
import { clientPartsOf, hasAny, hasClient, isPiece, literalOf } from '../values/text.ts';
import { ALL } from '../../schema/pattern-parser.ts';
import { KNOWN, clientsIn, idsIn, madeIn, withoutMembers } from '../values/value.ts';
import { dangerOf, doubt } from './injection.ts';
import { isUnderCondition } from './replies.ts';
import { plain } from '../statements/sending.ts';
import type { Spot } from '../reader/modules.ts';
import type { ReportAt, SourceRule, Sources, Variables, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';
import type { Place } from './injection.ts';

/** Rules about logs, sorted by id. */
export const LOG_RULES: readonly SourceRule[] = [
  {
    id: 'SVC610',
    severity: 'warning',
    cwe: [117],
    why: 'A client that sends a line feed writes lines of its own into a log, which then shows things that never happened',
    remedy: 'Write each line as JSON, or replace line feeds: text.replace(/[\\r\\n]+/g, " "). Or use app.log',
    wrong: 'appendFile(path, `${date} ${query.reason}\\n`)',
    right: 'appendFile(path, JSON.stringify([date, query.reason]) + "\\n")',
    onCall: findLines,
  },
  {
    id: 'SVC625',
    severity: 'warning',
    cwe: [532],
    sources: ['OWASP Cheat Sheet: Logging'],
    why: 'Logs are kept for long and read by many people, so a secret in a log does not stay secret',
    remedy:
      "Log the user and the action, but not the secret. The application's logger leaves out members named password, token or secret",
    wrong: 'console.log(`login with ${password}`)',
    right: "log.info('login', { name })",
    watch: watchLogged,
  },
];

function watchLogged(report: ReportAt, { variables }: Sources): Watch {
  const shown: Shown[] = [];
  const passwords = new Set<string>();
  const logged: (Spot & { readonly inputs: readonly LoggedInput[] })[] = [];
  return {
    onCall(site) {
      const { call, meaning, module, value } = site;
      if (TAKES_PASSWORD.test(meaning)) for (const id of idsIn(value(call.args[0]))) passwords.add(id);
      if (!isLog(site)) return;
      for (const node of call.args)
        logged.push({ inputs: loggedInputs(value(node), showsAll(site)), node, module });
      if (isUnderCondition(call, module)) return;
      shown.push({ site, values: call.args.map((arg) => value(arg)) });
      findLoggedRequests(site, report);
      findContent(site, report);
    },
    finish() {
      for (const each of shown) findLogged(each, variables, report);
      for (const { inputs, ...spot } of logged)
        if (inputs.some((input) => [...passwords].some((password) => holds(input, password))))
          report(
            spot,
            'the log contains an input that the program checks as a password, so every reader of the log can use the password',
          );
    },
  };
}

const APPENDS =
  /^fs(?:\/promises|\.promises)?\.(?:appendFile(?:Sync)?|createWriteStream\.(?:write|end)|open\.(?:write|writeFile|appendFile))$|^process\.stdout\.write$/;

/** SVC610: client input in the lines of a file. */
function findLines(site: Site, report: ReportAt): void {
  findMailFields(site, report);
  if (!APPENDS.test(site.meaning)) return;
  const line = site.call.args[/^fs(?:\/promises|\.promises)?\.appendFile/.test(site.meaning) ? 1 : 0];
  const danger = dangerOf(site.value(line), endsLine);
  if (danger === undefined) return;
  report(
    { module: site.module, node: line! }, // dangerOf() found a part in it
    `${danger.origin.what}, which a client sends, is written into a line of a file: a line feed in it begins a line of the client`,
    doubt(danger),
  );
}

/** Fields of the head of a message (RFC 5322), at the beginning of a line. */
const MAIL_FIELD = /(?:^|\r?\n)(?:from|to|cc|bcc|subject|reply-to|sender):[^\n]*$/i;

/** SVC610: client input in a field of the head of a mail. */
function findMailFields(site: Site, report: ReportAt): void {
  for (const arg of site.call.args) {
    const danger = dangerOf(
      site.value(arg),
      ({ part, before, after }) =>
        hasAny(part.may, '\n') &&
        !/^(?:headers|cookies)$/.test(part.origin.input) &&
        MAIL_FIELD.test(literalOf(before)) &&
        /\n/.test(literalOf(after)),
    );
    if (danger === undefined) continue;
    report(
      danger.entry ?? site.written(arg),
      `${danger.origin.what}, which a client sends, is written into a field of a mail: a line feed in it adds fields and recipients`,
      doubt(danger),
    );
  }
}

/** Whether a part of a client can end the line that a text makes. Header fields and cookies have no line feeds. */
function endsLine({ part, before, after }: Place): boolean {
  const isLine = before.length > 0 && literalOf(after).endsWith('\n');
  return isLine && hasAny(part.may, '\n') && !/^(?:headers|cookies)$/.test(part.origin.input);
}

/** Methods of loggers, by the import of the function that made the logger. */
const WRITES_LOG =
  /^(?:console|(?!svc[./]|node:)[^.]+(?:\.[^]*)?|svc\.(?:Logger|createLogger)(?:\.child)*)\.(?:log|info|warn|error|debug|trace|fatal)$/;

/** Whether a call writes to a log: of the console, of this package, or of another package. */
export function isLog({ meaning }: Site): boolean {
  const isOfLogger = meaning.startsWith('console.') || meaning.startsWith('svc.') || isOfPackage(meaning);
  return isOfLogger && WRITES_LOG.test(meaning);
}

/** Whether a log shows members as they are. The logger of this package leaves out those that are named like secrets. */
function showsAll({ meaning }: Site): boolean {
  return !meaning.startsWith('svc.');
}

/** A call of a logger, with the values of its arguments. */
interface Shown {
  readonly site: Site;
  readonly values: readonly (Value | undefined)[];
}

/** SVC625: secrets in logs. */
function findLogged({ site, values }: Shown, variables: Variables, report: ReportAt): void {
  const { call, meaning, module } = site;
  const isConsole = showsAll(site);
  if (meaning.startsWith('console.') && isCommand(module)) return;
  for (const [index, value] of values.entries()) {
    const name = secretIn(value, isConsole, variables);
    if (name === undefined) continue;
    report(
      { module, node: call.args[index]! }, // each argument has a value
      `the secret "${name}" is written to the log, where every reader of the log can use the secret`,
    );
    return;
  }
}

/**
 * Returns the name of a secret that a logged value holds: an input or an environment variable, or "token" for a token
 * that the program made. The logger of this package masks members that are named like secrets.
 */
function secretIn(
  value: Value | undefined,
  isConsole: boolean,
  variables: Variables,
  depth = 0,
): string | undefined {
  if (value === undefined || depth > 3) return undefined;
  const [, variable] = /^process\.env\.(\w+)$/.exec(value.meaning ?? '') ?? [];
  if (variable !== undefined && variables.isSecret(variable)) return variable;
  if (value.type === 'jsonwebtoken.sign') return 'token';
  for (const part of value.texts.flat()) {
    if (part.kind === 'own' && part.made?.by === 'svc.createToken') return 'token';
    const key = part.kind === 'client' ? part.origin.what.split('.').at(-1) : undefined;
    if (part.kind === 'client' && part.isSecret === true) return key;
    // a part of a secret, such as its first characters, is no secret
    const isNamed = key !== undefined && (namesSecret(key) || PERSON.test(plain(key)));
    if (part.kind === 'client' && isNamed && !isPiece(part)) return key;
  }
  if (isCardNumber(value)) return 'number of a card';
  for (const [key, member] of value.members ?? []) {
    const found =
      !isConsole && namesSecret(key) ? undefined : secretIn(member, isConsole, variables, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether the declared pattern of an input fits the number of a card, and no word. */
function isCardNumber({ declared, texts }: Value): boolean {
  const pattern = declared?.node?.constraints.pattern;
  return (
    clientPartsOf(texts).some((part) => !isPiece(part)) &&
    pattern?.test('4111111111111111') === true &&
    !pattern.test('abcdefghijklmnop') &&
    !pattern.test('12345678')
  );
}

/** SVC625 for log calls that write all headers or cookies of a request, or the whole body of a login. */
function findLoggedRequests(site: Site, report: ReportAt): void {
  if (!showsAll(site)) return;
  const { call, module, given } = site;
  for (const arg of call.args) {
    const parts =
      arg.type === 'object'
        ? arg.entries.flatMap((entry) =>
            entry.type === 'entry' && entry.value !== undefined ? [entry.value] : [],
          )
        : [arg];
    for (const part of parts) {
      const inner = part.type === 'call' && pathOf(part.callee) === 'JSON.stringify' ? part.args[0] : part;
      const value = given(inner);
      const whole = value?.part;
      const isHead = whole === 'headers' || whole === 'cookies';
      if (isHead || ((whole === 'body' || whole === 'form') && takesPassword(value?.route)))
        return report(
          { module, node: part },
          `the whole "${whole}" of the request is written to the log, including passwords and tokens`,
        );
    }
  }
}

/** SVC625: several texts of a body in one entry of a log, of which at least two are as a person writes them. */
function findContent({ call, module, value }: Site, report: ReportAt): void {
  const of = (what: string): string => what.split('.').slice(0, 2).join('.');
  for (const node of call.args) {
    const given = value(node) ?? KNOWN;
    const parts = clientsIn(given).filter(({ origin }) => /^(?:body|form|args)$/.test(origin.input));
    const written = new Set(parts.filter(({ may }) => may === ALL).map(({ origin }) => of(origin.what)));
    const marks = madeIn(given).flatMap(({ by }) => /^input ((?:body|form|args)\..+)$/.exec(by)?.[1] ?? []);
    const all = new Set([...parts.map(({ origin }) => of(origin.what)), ...marks.map(of)]);
    if (written.size < 2 || all.size < 3) continue;
    const names = [...all].map((what) => what.replace(/^\w+\./, '')).join(', ');
    return report(
      { module, node },
      `the log contains ${names} of one body: what a person has written, such as data about its health, stays in the log`,
      { remedy: 'Log the id of the row and the number of entries, but not what a person has written' },
    );
  }
}

/** Functions that receive a password as a person typed it. */
const TAKES_PASSWORD = /^svc\.(?:checkPassword|hashPassword)$/;

/** An input that a log call writes. */
interface LoggedInput {
  readonly id: string;
  /** Whether the log leaves out a member of the input. */
  hides(member: string): boolean;
}

/** Returns the inputs in an argument of a log call. The logger of this package masks members by their names. */
function loggedInputs(value: Value | undefined, isConsole: boolean, depth = 0): readonly LoggedInput[] {
  if (value === undefined || depth > 3) return [];
  const inner = [...(value.members ?? [])].flatMap(([key, member]) =>
    !isConsole && namesSecret(key) ? [] : loggedInputs(member, isConsole, depth + 1),
  );
  const ids = value.source?.whole === undefined ? idsIn(withoutMembers(value)) : [value.source.id];
  return [
    ...ids.map((id) => ({ id, hides: (member: string) => isHidden(member, value, isConsole) })),
    ...inner,
  ];
}

/** Whether the log leaves out a member of a whole input: a declared secret, or a masked or replaced member. */
function isHidden(member: string, { source, members, texts }: Value, isConsole: boolean): boolean {
  if (source?.lacks?.includes(member) === true) return true;
  if (source?.whole === undefined) return false;
  if (members?.has(member) === true || (!isConsole && namesSecret(member))) return true;
  // a copy such as { ...body } no longer knows which members are secret
  if (!texts.some(hasClient)) return false;
  const node = source.type?.node;
  const field = node?.kind === 'object' ? node.plan().fields.find(({ name }) => name === member) : undefined;
  return field === undefined ? !isConsole : field.isSecret;
}

/** Whether a logged input is the password, or the object with the password. */
function holds({ id, hides }: LoggedInput, password: string): boolean {
  const whole = id.replace(/ json$/, '');
  if (id === password) return true;
  return password.startsWith(`${whole}.`) && !hides(password.slice(whole.length + 1));
}

function takesPassword(route: Parameters<typeof specOf>[0] | undefined): boolean {
  if (route === undefined) return false;
  const spec = specOf(route);
  const input = entryOf(spec, 'form') ?? entryOf(spec, 'body');
  const type = input === undefined ? undefined : (literal(input, route.module) ?? input);
  const text = type === undefined ? '' : route.module.source.slice(type.start, type.end);
  const path = route.call.args[0]?.type === 'text' ? route.call.args[0].value : '';
  return (
    /password|secret|token|\b(?:cvc|cvv|card_?number|iban|ssn)\b/i.test(text) ||
    /login|password|token|signup|register/i.test(path)
  );
}
