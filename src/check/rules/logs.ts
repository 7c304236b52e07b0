/**
 * Rules about what programs write into logs: lines from clients, and secrets (SVC610, SVC625).
 */
import { calledName, entryOf, pathOf } from '../reader/nodes.ts';
import { literal } from '../reader/constants.ts';
import { specOf } from '../values/functions.ts';
import { bare, isCommand, wordOf, wordOfTarget } from '../sources.ts';
import { hasAny, literalOf } from '../values/text.ts';
import { KNOWN, idsIn } from '../values/value.ts';
import { dangerIn, doubt } from './injection.ts';
import { isUnderCondition } from './replies.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportNode, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Value } from '../values/value.ts';
import type { Place } from './injection.ts';

/** Rules about logs, sorted by id. */
export const LOG_RULES: readonly SourceRule[] = [
  {
    id: 'SVC610',
    severity: 'warning',
    phase: 'source',
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
    phase: 'source',
    cwe: [532],
    sources: ['OWASP Cheat Sheet: Logging'],
    why: 'Logs are kept for long and read by many people, so a secret in a log does not stay secret',
    remedy:
      "Log the user and the action, but not the secret. The application's logger leaves out members named password, token or secret",
    wrong: 'console.log(`login with ${password}`)',
    right: "log.info('login', { name })",
    find: findLogged,
    watch: watchLogged,
  },
];

function watchLogged(report: ReportNode): Watch {
  const passwords = new LoggedPasswords(report);
  return {
    onCall(site) {
      passwords.visit(site);
      findLoggedRequests(site, report);
    },
    finish: () => passwords.finish(),
  };
}

const APPENDS = /^fs(?:\/promises|\.promises)?\.(?:appendFile(?:Sync)?|createWriteStream\.write)$/;

/** SVC610: client input in the lines of a file. */
function findLines(site: Site, report: ReportNode): void {
  if (!APPENDS.test(site.meaning)) return;
  const line = site.call.args[/write$/.test(site.meaning) ? 0 : 1];
  const danger = dangerIn(site, line, endsLine);
  if (danger === undefined) return;
  report(
    'SVC610',
    site.module,
    line!, // dangerIn() found a part in it
    `${danger.origin.what}, which a client sends, is written into a line of a file: a line feed in it begins a line of the client`,
    doubt(danger),
  );
}

/** Whether a part of a client can end the line that a text makes. Header fields and cookies have no line feeds. */
function endsLine({ part, before, after }: Place): boolean {
  const isLine = before.length > 0 && literalOf(after).endsWith('\n');
  return isLine && hasAny(part.may, '\n') && !/^(?:headers|cookies)$/.test(part.origin.input);
}

const LOGGED =
  /^(?:password|passwd|pwd|passphrase|secret|clientsecret|apikey|accesstoken|refreshtoken|idtoken|authtoken|bearertoken|resettoken|privatekey|token|sessiontoken|otp|authorization|cookie|creditcard|cardnumber|cvv|cvc)$/;

function isLog(call: Call): boolean {
  const path = pathOf(call.callee) ?? '';
  return /^console\.(?:log|info|warn|error|debug|trace)$/.test(path) || isLogger(path);
}

function isLogger(path: string): boolean {
  return /(?:^|\.)#?(?:log|logger)\.(?:info|warn|error|debug|trace|fatal|log)$/.test(path);
}

/** SVC625: secrets in logs. */
function findLogged(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (!isLog(call) || isUnderCondition(call, module)) continue;
    const isConsole = pathOf(call.callee)!.startsWith('console.');
    if (isConsole && isCommand(module)) continue;
    for (const arg of call.args) {
      const name = loggedName(arg, isConsole, module);
      if (name === undefined || isHarmlessMessage(bare(name), call, module)) continue;
      report(
        'SVC625',
        module,
        arg,
        `the secret "${name}" is written to the log, where every reader of the log can use the secret`,
      );
      break;
    }
  }
}

/**
 * Whether a log call with a secret is harmless, because it shows a generated password or a rejected token. A
 * token is also harmless in a call such as debug() or error(), but not in log() or info().
 */
function isHarmlessMessage(word: string, call: Call, { source }: SourceModule): boolean {
  const text = source.slice(call.start, call.end);
  if (/^(?:pass|pwd|\w*secret|privatekey|c(?:redit|ard|v))/.test(word))
    return /generated|default|initial/i.test(text);
  return !/^(?:log|info)$/.test(calledName(call) ?? '') || REFUSES.test(text);
}

/** Words of messages about rejected tokens, and about tokens of a currency. */
const REFUSES =
  /invalid|expire|unknown|mis-?match|malform|wrong|bad |fail|reject|denied|refuse|missing|unable|unauthori|forbidden|revoke|error|incorrect|n[o']t |no (?:such|user|session|match)|amount|symbol|balance/i;

/**
 * Returns the name of a secret in an argument of a log call. The logger of this package masks members that
 * are named like secrets, so such members count only for `console`.
 */
function loggedName(node: Node, isConsole: boolean, module: SourceModule): string | undefined {
  switch (node.type) {
    case 'name':
    case 'member':
      return LOGGED.test(wordOf(node)) && (wordOf(node) !== 'token' || isCredential(node, module))
        ? wordOfTarget(node)
        : undefined;
    case 'template':
      return firstOf(node.values, (value) => loggedName(value, isConsole, module));
    case 'binary':
      return node.operator === '+' || node.operator === '??' || node.operator === '||'
        ? (loggedName(node.left, isConsole, module) ?? loggedName(node.right, isConsole, module))
        : undefined;
    case 'object':
      return firstOf(node.entries, (entry) => {
        if (entry.type === 'spread' || entry.value === undefined) return undefined;
        if (!isConsole && LOGGED.test(bare(entry.key ?? ''))) return undefined;
        return loggedName(entry.value, isConsole, module);
      });
    case 'call':
      return pathOf(node.callee) === 'JSON.stringify' && node.args[0] !== undefined
        ? loggedName(node.args[0], true, module)
        : undefined;
    default:
      return undefined;
  }
}

const TOKEN_MAKER =
  /createToken|\bsign\(|randomBytes|randomUUID|getRandomValues|nanoid|\bauthorization\b|\bcookies?\b|\bbearer\b|\bjwt\b/i;

const REQUEST_PART = /(?:^|\.)(?:body|form|query|params|headers|cookies|session)$/;

/**
 * Whether a value named `token` is a credential, which the program generated or a client sent. Other values
 * of this name are, for example, words of a text or ids of rooms.
 */
function isCredential(node: Node, module: SourceModule): boolean {
  if (node.type === 'member') return REQUEST_PART.test(pathOf(node.object) ?? '');
  const binding = node.type === 'name' ? module.lookup(node.name, node) : undefined;
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return false;
  const { target, value } = binding.node;
  if (value === undefined) return false;
  return target.type === 'object'
    ? REQUEST_PART.test(pathOf(value) ?? '')
    : isCredential(value, module) || TOKEN_MAKER.test(module.source.slice(value.start, value.end));
}

function firstOf<T extends Node, R>(nodes: readonly T[], find: (node: T) => R | undefined): R | undefined {
  for (const node of nodes) {
    const found = find(node);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** SVC625 for log calls that write all headers or cookies of a request, or the whole body of a login. */
function findLoggedRequests({ call, module, given }: Site, report: ReportNode): void {
  if (!isLog(call) || isUnderCondition(call, module)) return;
  const isConsole = pathOf(call.callee)!.startsWith('console.');
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
      const hasSecrets =
        (isConsole && (whole === 'headers' || whole === 'cookies')) ||
        ((whole === 'body' || whole === 'form') && isConsole && takesPassword(value?.route));
      if (hasSecrets)
        return report(
          'SVC625',
          module,
          part,
          `the whole "${whole!}" of the request is written to the log, including passwords and tokens`,
        );
    }
  }
}

/** Functions that receive a password as a person typed it. */
const TAKES_PASSWORD = /^svc\.(?:checkPassword|hashPassword)$/;

/** SVC625: texts of the log that hold an input which the program checks or hashes as a password. */
class LoggedPasswords {
  readonly #report: ReportNode;
  readonly #passwords = new Set<string>();
  readonly #logged: {
    readonly ids: readonly string[];
    readonly node: Node;
    readonly module: SourceModule;
  }[] = [];

  constructor(report: ReportNode) {
    this.#report = report;
  }

  visit({ call, meaning, module, value }: Site): void {
    const [first] = call.args;
    if (TAKES_PASSWORD.test(meaning)) for (const id of idsIn(value(first) ?? KNOWN)) this.#passwords.add(id);
    if (!isLog(call)) return;
    const isConsole = pathOf(call.callee)!.startsWith('console.');
    for (const node of call.args) {
      const ids = loggedIds(value(node), isConsole);
      if (ids.length > 0) this.#logged.push({ ids, node, module });
    }
  }

  finish(): void {
    for (const { ids, node, module } of this.#logged)
      if (ids.some((id) => [...this.#passwords].some((password) => holds(id, password))))
        this.#report(
          'SVC625',
          module,
          node,
          'the log contains an input that the program checks as a password, so every reader of the log can use the password',
        );
  }
}

/** Returns the ids of inputs in a text of the log. The logger of this package masks members by their names. */
function loggedIds(value: Value | undefined, isConsole: boolean, depth = 0): readonly string[] {
  if (value === undefined || depth > 3) return [];
  const isMasked = value.source !== undefined && !isConsole;
  const inner = [...(value.members ?? [])].flatMap(([key, member]) =>
    !isConsole && LOGGED.test(bare(key)) ? [] : loggedIds(member, isConsole, depth + 1),
  );
  return [...(isMasked && value.source.whole !== undefined ? [] : idsIn({ texts: value.texts })), ...inner];
}

/** Whether a logged input is the password, or the object with the password. */
function holds(id: string, password: string): boolean {
  const whole = id.replace(/ json$/, '');
  return id === password || password.startsWith(`${whole}.`);
}

function takesPassword(route: Parameters<typeof specOf>[0] | undefined): boolean {
  if (route === undefined) return false;
  const spec = specOf(route);
  const input = entryOf(spec, 'form') ?? entryOf(spec, 'body');
  const type = input === undefined ? undefined : (literal(input, route.module) ?? input);
  const text = type === undefined ? '' : route.module.source.slice(type.start, type.end);
  const path = route.call.args[0]?.type === 'text' ? route.call.args[0].value : '';
  return /password|secret|token/i.test(text) || /login|password|token|signup|register/i.test(path);
}
