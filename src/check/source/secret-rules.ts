/**
 * Secrets and identities: how they are compared, made, kept, decoded, logged and sent (SVC621 … SVC627).
 */
import { calledName, entryOf, functionAround, pathOf, walk } from './nodes.ts';
import { meaningOfCall } from './sources.ts';
import { literal, specOf } from './routes.ts';
import type { SourceModule } from './modules.ts';
import type { Call, Fn, Node } from './nodes.ts';
import type { Visit } from './flow.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Runs every rule of this file but those that follow requests. */
export function reportSecrets(sources: Sources, report: ReportNode): void {
  findComparisons(sources, report);
  findRandom(sources, report);
  findBareHashes(sources, report);
  findUnverified(sources, report);
  findLogged(sources, report);
  findRevealed(sources, report);
  findUnverifiedMail(sources, report);
}

/** The last name of an expression: `apiKey` of `req.headers['x-api-key']`, in small letters without marks. */
function wordOf(node: Node): string {
  if (node.type === 'await') return wordOf(node.value);
  if (node.type === 'call') {
    const [first] = node.args;
    const isRead = /^(?:get|header|field)$/.test(calledName(node) ?? '') && first?.type === 'text';
    return isRead ? bare(first.value) : '';
  }
  const path = pathOf(node);
  return path === undefined ? '' : bare(path.slice(path.lastIndexOf('.') + 1));
}

function bare(name: string): string {
  return name.replace(/[^A-Za-z\d]/g, '').toLowerCase();
}

// -- SVC621 --

const SECRET_WORD =
  /(?:secret|apikey|accesskey|signature|hmac|password|passwd|passphrase|csrftoken|accesstoken|authtoken|bearertoken|admintoken|resettoken|sharedkey|webhookkey|passwordhash|internaltoken|servicetoken)$/;
const MAYBE_SECRET_WORD = /(?:token|mac|sig|key)$/;
/** Names of values that a secret is compared with. */
const OTHER_SIDE =
  /^(?:expected|computed|calculated|actual|given|provided|received|wanted|supplied|presented)/;

function findComparisons(sources: Sources, report: ReportNode): void {
  for (const { module, node } of sources.all('binary')) {
    if (!/^[!=]==?$/.test(node.operator)) continue;
    const sides = [node.left, node.right];
    if (sides.some((side) => !['name', 'member', 'call', 'template', 'await'].includes(side.type))) continue;
    if (sides.some((side) => side.type === 'name' && side.name === 'undefined')) continue;
    const words = sides.map(wordOf);
    const isConstant = sides.some((side) => literal(side, module)?.type === 'text');
    const isSecret = words.some((word) => SECRET_WORD.test(word)) && !isConfirmation(words) && !isConstant;
    const isCheck =
      words.some((word) => MAYBE_SECRET_WORD.test(word)) && words.some((word) => OTHER_SIDE.test(word));
    if (!isSecret && !isCheck && !sides.some((side) => isSecretSetting(side, module))) continue;
    report(
      'SVC621',
      module,
      node,
      `"${node.operator}" ends at the first difference: how long it takes tells how much of the secret was right`,
    );
  }
}

/** Two fields of one form: a password typed twice. */
function isConfirmation(words: readonly string[]): boolean {
  return (
    words.some((word) => /(?:confirm|repeat|again|old|previous|new|retype|verify)/.test(word)) ||
    words.every((word) => word === 'password')
  );
}

/** `process.env['API_TOKEN']`, or a constant made of it. */
function isSecretSetting(node: Node, module: SourceModule): boolean {
  const value = literal(node, module) ?? node;
  const path = pathOf(value.type === 'binary' ? value.left : value) ?? '';
  return (
    /^process\.env\.\w*(?:SECRET|TOKEN|KEY|PASSWORD|PASS|SIGNATURE)\w*$/i.test(path) &&
    !/PUBLIC|_KEY_ID$/i.test(path)
  );
}

// -- SVC622 --

const SECRET_NAME =
  /^(?:csp|page|script)?nonce$|(?:token|secret|password|passwd|otp|salt|csrf|apikey|sessionid|sid|resetcode|invitecode|verificationcode|magiclink|onetimecode|pin|passcode|recoverycode)s?$/;

function findRandom(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (pathOf(call.callee) !== 'Math.random') continue;
    const name = secretNameAround(call);
    if (name !== undefined)
      report(
        'SVC622',
        module,
        call,
        `"${name}" is made of Math.random(), whose next numbers can be computed from earlier ones`,
      );
  }
}

/** The name of a secret that a value becomes: of its constant, member, or function. */
function secretNameAround(node: Node): string | undefined {
  let depth = 0;
  for (let at = node.parent; at !== undefined && depth < 3; at = at.parent) {
    const name =
      at.type === 'declarator' || at.type === 'assign'
        ? wordOfTarget(at.target)
        : at.type === 'entry'
          ? at.key
          : at.type === 'function'
            ? at.name
            : undefined;
    if (at.type === 'function') depth++;
    if (name !== undefined && SECRET_NAME.test(bare(name))) return name;
    if (at.type === 'statement') return undefined;
  }
  return undefined;
}

function wordOfTarget(target: Node): string | undefined {
  const path = pathOf(target);
  return path?.slice(path.lastIndexOf('.') + 1);
}

// -- SVC623 --

const PASSWORD = /(?:^|[a-z])?(?:password|passwd|pwd|passphrase|passcode)$/;

function findBareHashes(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    const isUpdate = call.callee.type === 'member' && call.callee.property === 'update';
    const made = isUpdate ? innermostCall(call) : undefined;
    const isHash = made !== undefined && /^(?:crypto\.)?createHash$/.test(meaningOfCall(made, module));
    const text = isHash
      ? call.args[0]
      : /^crypto\.hash$|^(?:md5|sha1|sha256)$/.test(meaning)
        ? call.args.at(meaning === 'crypto.hash' ? 1 : 0)
        : undefined;
    if (text === undefined || /pwnedpasswords|haveibeenpwned/i.test(module.source)) continue;
    if (/bcrypt|argon2|scrypt|pbkdf2/i.test(module.source)) continue; // it is hashed once more
    if (replaces(call, text)) continue; // it goes on under its name, to a slower hash
    if (mentions(text, (word) => PASSWORD.test(word)))
      report(
        'SVC623',
        module,
        call,
        'the password is hashed by a function that is made to be fast: a thief of the table tries billions a second',
      );
  }
}

/** `password = createHash(…).update(password).digest()` */
function replaces(call: Call, text: Node): boolean {
  let at: Node | undefined = call.parent;
  while (at?.type === 'member' || at?.type === 'call') at = at.parent;
  return at?.type === 'assign' && pathOf(at.target) !== undefined && pathOf(at.target) === pathOf(text);
}

/** `createHash(…)` of `createHash(…).update(…).update(…)`. */
function innermostCall(call: Call): Call | undefined {
  let at: Node = call;
  while (at.type === 'call' && at.callee.type === 'member' && at.callee.object.type === 'call')
    at = at.callee.object;
  return at.type === 'call' && at !== call ? at : undefined;
}

function mentions(node: Node, test: (word: string) => boolean): boolean {
  let found = false;
  walk(node, (part) => {
    if ((part.type === 'name' || part.type === 'member') && test(wordOf(part))) found = true;
    return !found && part.type !== 'function';
  });
  return found;
}

// -- SVC624 --

function findUnverified(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    const isDecoder =
      /^(?:jsonwebtoken|jwt|jose)\.(?:decode|decodeJwt|UnsecuredJWT\.decode)$|(?:^|\.)(?:decodeJwt|jwtDecode|jwt_decode|decodeToken)$/.test(
        meaning,
      ) && sources.handlers.resolve(call.callee, module) === undefined;
    const isByHand = meaning === 'JSON.parse' && readsTokenPart(call, module);
    if (!isDecoder && !isByHand) continue;
    const around = functionAround(call);
    const code = module.source.slice(around?.start ?? 0, around?.end);
    if (/\b\w*(?:verif|timingSafeEqual)\w*\s*\(/i.test(code) || isClearlyOwn(code)) continue;
    report(
      'SVC624',
      module,
      call,
      'the token is read without its signature being verified: any client can write one',
    );
  }
}

/** Whether a token is read that the program itself has just asked for. */
function isClearlyOwn(code: string): boolean {
  return /\bcreateToken\s*\(|\bsign\s*\(/.test(code);
}

/** `JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))`, also by way of a name. */
function readsTokenPart(call: Call, module: SourceModule): boolean {
  const [text] = call.args;
  if (text === undefined) return false;
  const written = module.source.slice(text.start, text.end);
  if (!/base64|atob/.test(written)) return false;
  if (/\.split\(\s*['"]\.['"]\s*\)/.test(written)) return true;
  let found = false;
  walk(text, (node) => {
    if (node.type !== 'name') return;
    const binding = module.lookup(node.name, node);
    const value =
      binding?.kind === 'declared' && binding.node.type === 'declarator' ? binding.node.value : undefined;
    if (
      value !== undefined &&
      /\.split\(\s*['"]\.['"]\s*\)/.test(module.source.slice(value.start, value.end))
    )
      found = true;
  });
  return found;
}

// -- SVC625 --

const LOGGED =
  /^(?:password|passwd|pwd|passphrase|secret|clientsecret|apikey|accesstoken|refreshtoken|idtoken|authtoken|bearertoken|resettoken|privatekey|token|sessiontoken|otp|authorization|cookie|creditcard|cardnumber|cvv|cvc)$/;

function isLog(call: Call): boolean {
  const path = pathOf(call.callee) ?? '';
  return /^console\.(?:log|info|warn|error|debug|trace)$/.test(path) || isLogger(path);
}

function isLogger(path: string): boolean {
  return /(?:^|\.)#?(?:log|logger)\.(?:info|warn|error|debug|trace|fatal|log)$/.test(path);
}

function findLogged(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (!isLog(call)) continue;
    const isConsole = pathOf(call.callee)!.startsWith('console.');
    for (const arg of call.args) {
      const name = loggedName(arg, isConsole);
      if (name === undefined) continue;
      report('SVC625', module, arg, `"${name}" goes into the log, where everybody who reads logs can use it`);
      break;
    }
  }
}

/** A secret among what is logged. The logger of this package leaves out members that are called as secrets are. */
function loggedName(node: Node, isConsole: boolean): string | undefined {
  switch (node.type) {
    case 'name':
    case 'member':
      return LOGGED.test(wordOf(node)) ? (wordOfTarget(node) ?? undefined) : undefined;
    case 'template':
      return firstOf(node.values, (value) => loggedName(value, isConsole));
    case 'binary':
      return node.operator === '+' || node.operator === '??' || node.operator === '||'
        ? (loggedName(node.left, isConsole) ?? loggedName(node.right, isConsole))
        : undefined;
    case 'object':
      return firstOf(node.entries, (entry) => {
        if (entry.type === 'spread' || entry.value === undefined) return undefined;
        if (!isConsole && LOGGED.test(bare(entry.key ?? ''))) return undefined;
        return loggedName(entry.value, isConsole);
      });
    case 'call':
      return pathOf(node.callee) === 'JSON.stringify' && node.args[0] !== undefined
        ? loggedName(node.args[0], true)
        : undefined;
    default:
      return undefined;
  }
}

function firstOf<T extends Node, R>(nodes: readonly T[], find: (node: T) => R | undefined): R | undefined {
  for (const node of nodes) {
    const found = find(node);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** SVC625 for whole bodies of logins, and the fields and cookies of a request. */
export function findLoggedRequests({ call, module, given }: Visit, report: ReportNode): void {
  if (!isLog(call)) return;
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
        return report('SVC625', module, part, `all of "${whole!}" goes into the log, with the secrets in it`);
    }
  }
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

// -- SVC626 --

const REVEALED =
  /^(?:password|passwd|pwd|passwordhash|hashedpassword|passwordsalt|clientsecret|privatekey|apisecret|totpsecret|mfasecret)$/;
const SENDS = /^(?:json|send|end|write|html|text)$/;

function findRevealed(sources: Sources, report: ReportNode): void {
  for (const { module, node } of sources.all('member')) {
    if (
      node.property !== 'stack' ||
      !/^(?:\w*[eE]rr(?:or)?|e|ex|cause|reason|exception)$/.test(pathOf(node.object) ?? '')
    )
      continue;
    if (isSent(node, sources, module))
      report('SVC626', module, node, 'the answer shows the stack: paths, packages and their versions');
  }
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
      report('SVC626', module, node, `the answer has "${node.key!}": every client gets it`);
  }
  for (const { module, node } of sources.all('member')) {
    if (pathOf(node) !== 'process.env' || node.parent?.type === 'member') continue;
    if (isReturned(node, sources) || isSent(node, sources, module))
      report('SVC626', module, node, 'the answer has the environment, with every secret in it');
  }
}

/** Whether a value is part of an answer: returned by a handler, or handed to what makes or sends one. */
function isSent(node: Node, sources: Sources, module: SourceModule): boolean {
  for (let at = node.parent; at !== undefined && at.type !== 'function'; at = at.parent) {
    if (at.type === 'call') {
      const name = calledName(at) ?? '';
      if (isLog(at)) return false;
      if (
        /(?:^|\.)(?:\w*Response|reply|HTTPException|BadRequest|InternalError)$/.test(
          meaningOfCall(at, module),
        )
      )
        return true;
      if (
        SENDS.test(name) &&
        at.callee.type === 'member' &&
        /(?:^|\.)(?:res|response|reply|ctx|c)\b/.test(
          pathOf(at.callee.object) ??
            (at.callee.object.type === 'call' ? (pathOf(at.callee.object.callee) ?? '') : ''),
        )
      )
        return true;
      if (!/^(?:String|split|join|slice|trim|map|toString|stringify)$/.test(name)) return false;
    }
  }
  return isReturned(node, sources);
}

/** Whether a handler returns it as it stands there, with no schema of the reply that would leave it out. */
function isReturned(node: Node, sources: Sources): boolean {
  const fn = functionAround(node);
  if (fn === undefined || !sources.handlers.isHandler(fn)) return false;
  const [role] = sources.handlers.rolesOf(fn).filter((each) => each !== undefined);
  if (role?.route !== undefined && entryOf(specOf(role.route), 'response') !== undefined) return false;
  let at: Node = node;
  for (let up = node.parent; up !== undefined && up !== fn; at = up, up = up.parent) {
    if (up.type === 'leave') return up.how === 'return';
    if (up.type === 'call' && !/^(?:reply|json|JSONResponse|map)$/.test(calledName(up) ?? '')) return false;
    if (up.type === 'statement' || up.type === 'declarator' || up.type === 'if' || up.type === 'binary')
      return false;
  }
  return fn.isExpression && fn.body[0] === at;
}

// -- SVC627 --

function findUnverifiedMail(sources: Sources, report: ReportNode): void {
  for (const { module, node: fn } of sources.all('function')) {
    if (nameOfCallback(fn) !== 'onUser') continue;
    const code = module.source.slice(fn.start, fn.end);
    if (/verified/i.test(code)) continue;
    walk(fn, (node) => {
      if (node.type !== 'call' || node.isNew || !isLookup(node, module)) return;
      const mail = node.args.find((arg) => mentions(arg, (word) => word === 'email'));
      if (mail !== undefined)
        report(
          'SVC627',
          module,
          node,
          'the account is found by an e-mail address that may not be verified: a person who enters it at the provider gets the account',
        );
      return;
    });
  }
}

function nameOfCallback(fn: Fn): string | undefined {
  return (
    fn.name ??
    (fn.parent?.type === 'entry'
      ? fn.parent.key
      : fn.parent?.type === 'declarator'
        ? wordOfTarget(fn.parent.target)
        : undefined)
  );
}

function isLookup(call: Call, module: SourceModule): boolean {
  const name = calledName(call) ?? '';
  const [statement] = call.args;
  const text = statement === undefined ? '' : module.source.slice(statement.start, statement.end);
  return /^(?:find|get|lookup|load|userBy|accountBy|select|by)\w*$/i.test(name) ||
    /^(?:fetchOne|fetchAll|scalar)$/.test(name)
    ? !/\binsert\b/i.test(text)
    : false;
}
