/**
 * Rules about tokens: expiry, verification, accounts found by an unverified e-mail address, and links with a secret
 * (SVC215, SVC624, SVC627, SVC639).
 */
import { boundIn } from '../reader/modules.ts';
import { calledName, entryOf, functionAround, pathOf, walk } from '../reader/nodes.ts';
import { constantOf, literal, numberOf } from '../reader/constants.ts';
import { meaningOfCall, nameOfCallback } from '../sources.ts';
import { PROVIDER_MAIL } from '../values/inputs.ts';
import { literalOf } from '../values/text.ts';
import { idsIn, madeIn } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Made, Part } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about tokens, sorted by id. */
export const TOKEN_RULES: readonly SourceRule[] = [
  {
    id: 'SVC215',
    severity: 'warning',
    phase: 'source',
    cwe: [613],
    sources: ['RFC 8725 §3.10'],
    why: 'A leaked token works until it expires, and most leaks are noticed late',
    remedy:
      'Remove the option requireExp: false, which accepts tokens without an expiry time, and issue tokens that expire: expiresInSeconds: 3_600',
    wrong: 'BearerAuth({ requireExp: false })',
    right: 'createToken(sub, secret, { expiresInSeconds: 3_600 })',
    find: findEndlessTokens,
  },
  {
    id: 'SVC624',
    severity: 'error',
    phase: 'source',
    cwe: [347],
    sources: ['RFC 8725 §3'],
    why: 'Until the signature of a token is verified, any client may have written its content',
    remedy: 'Use verifyToken(token, secret), or Depends(BearerAuth())',
    wrong: "JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))",
    right: 'verifyToken(token, secret)',
    find: findUnverified,
    onCall: findChosenAlgorithms,
  },
  {
    id: 'SVC627',
    severity: 'warning',
    phase: 'source',
    cwe: [287],
    sources: ['OpenID Connect Core §5.7'],
    why: 'Some login providers do not verify e-mail addresses, so an attacker can register there with the address of a victim',
    remedy:
      'Find accounts by provider and subject (the user id). Use the e-mail address only if emailVerified is true',
    wrong: "fetchOne('… where email = ?', [info.email])",
    right: "fetchOne('… where provider = ? and subject = ?', [provider, info.subject])",
    watch: watchMail,
  },
  {
    id: 'SVC639',
    severity: 'error',
    phase: 'source',
    cwe: [640],
    sources: ['OWASP Cheat Sheet: Forgot Password'],
    why: 'A client sends the header Host, so it can ask for a link that leads to a server of its own',
    remedy: 'Take the address of the site from a setting: app.config.get("baseUrl")',
    wrong: '`https://${req.host}/reset?token=${token}`',
    right: '`https://app.example/reset?token=${token}`',
    onCall: findLinks,
  },
];

/** SVC215: tokens that stay valid too long. */
function findEndlessTokens(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const isToken = /^svc\.(?:BearerAuth|verifyToken|createToken)$/.test(meaningOfCall(call, module));
    for (const given of isToken ? call.args : []) {
      const constant = constantOf(given, module);
      const arg = constant?.node;
      const required = entryOf(arg, 'requireExp');
      if (required?.type === 'value' && required.raw === 'false')
        report(
          constant!.module, // entryOf() found a member, so `constant` is defined
          required,
          'tokens without an expiry time are accepted, so a leaked token never becomes invalid',
        );
      const seconds = computed(entryOf(arg, 'expiresInSeconds'), constant?.module ?? module);
      if (seconds !== undefined && seconds > 366 * 86_400)
        report(
          constant!.module, // entryOf() found a member, so `constant` is defined
          entryOf(arg, 'expiresInSeconds')!,
          'the token is valid for more than a year, so a leaked token works for more than a year, too',
        );
    }
  }
}

/** SVC624: the member "alg" of a token (RFC 7515) chooses the function that verifies the token. */
function findChosenAlgorithms({ call, meaning, module, value }: Site, report: ReportAt): void {
  const [first] = call.args;
  const asked = /^crypto\.(?:createHmac|createVerify|verify)$/.test(meaning) ? value(first) : undefined;
  const ids = [...(asked === undefined ? [] : idsIn(asked)), ...(value(call.callee)?.keys ?? [])];
  if (!ids.some((id) => / parsed\.alg(?: |$)/.test(id))) return;
  report(
    module,
    call,
    'the token itself chooses the algorithm of its verification, so a client can choose one that accepts any token',
  );
}

/** SVC639: texts with a secret for the host that the client names in its request. */
function findLinks({ call, value }: Site, report: ReportAt): void {
  for (const arg of call.args) {
    const host = hostOfLink(value(arg));
    if (host === undefined) continue;
    report(
      host.module,
      host.node,
      'a link with a secret leads to the host that the client named in its request, so an attacker who asks for the link receives the secret of another user',
    );
  }
}

/** Returns the value of a number, or of a product whose factors may be constants: `10 * YEAR`. */
function computed(node: Node | undefined, module: SourceModule, depth = 0): number | undefined {
  if (node?.type === 'binary' && node.operator === '*')
    return (computed(node.left, module, depth) ?? NaN) * (computed(node.right, module, depth) ?? NaN);
  const constant = node === undefined || depth > 4 ? undefined : constantOf(node, module);
  return constant === undefined || constant.node === node
    ? numberOf(node)
    : computed(constant.node, constant.module, depth + 1);
}

/** SVC624: a token whose claims code trusts without verifying its signature. */
function findUnverified(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    const isDecoder =
      isOfPackage(call, module) &&
      /^(?:jsonwebtoken|jwt|jose)\.(?:decode|decodeJwt|UnsecuredJWT\.decode)$|(?:^|\.)(?:decodeJwt|jwtDecode|jwt_decode)$/.test(
        meaning,
      ) &&
      sources.handlers.resolve(call.callee, module) === undefined;
    const isByHand = meaning === 'JSON.parse' && readsTokenPart(call, module);
    // `!!jwt.decode(text)` only tests whether the text is a token
    if ((!isDecoder && !isByHand) || call.parent?.type === 'unary' || isOwnObject(call, module)) continue;
    const around = functionAround(call);
    if (/verif(?!ied)|timingSafeEqual|TokenExpired|passport/i.test(module.source)) continue;
    const code = module.source.slice(around?.start ?? 0, around?.end);
    if (isClearlyOwn(code) || call.args.some(isOfAccount) || !isTrusted(call, around)) continue;
    if (isProviderCallback(around) || IS_CLIENT.test(module.source)) continue;
    if (isVerifiedByCallers(around, sources) || isOfProvider(call, module)) continue;
    report(module, call, 'the token is read without verifying its signature: any client can forge a token');
  }
}

/** Whether a call runs a function of a package. `this.jwt.decodeJwt()` runs a method of the project. */
function isOfPackage({ callee }: Call, module: SourceModule): boolean {
  const [root] = (pathOf(callee) ?? '').split('.') as [string];
  const kind = module.lookup(root, callee)?.kind;
  return root !== '' && root !== 'this' && (kind === undefined || kind === 'external');
}

/**
 * Whether a token is a member of an account or of `this`, such as `user.ssoToken`. Such a token does not come
 * from the current request.
 */
function isOfAccount(node: Node): boolean {
  return /^(?:this\.)?(?:user|account|profile|session|connection)\.\w+$|^this\.#?\w+$/.test(
    pathOf(node) ?? '',
  );
}

/** Matches code of an OAuth client, which receives its tokens directly from the provider. */
const IS_CLIENT = /\bgrant_type\b|OAuth2?Client\b|\bgetToken\(|\bid_token\b/;

/**
 * Whether a function is the callback of an OAuth login, such as `(accessToken, refreshToken, profile, done)
 * => …`, or returns the key that verifies a token.
 */
function isProviderCallback(fn: Fn | undefined): boolean {
  if (/^(?:secretOrKeyProvider|getKey|keyProvider)$/.test((fn && nameOfCallback(fn)) ?? '')) return true;
  const names = fn?.params.flatMap((param) => boundIn(param).map(({ local }) => local)) ?? [];
  return (
    names.filter((name) => /^_?(?:access_?token|refresh_?token|id_?token|profile)$/i.test(name)).length > 1
  );
}

/** Claims that name the client, or that say what the client may do. */
const CLAIM =
  /^(?:sub|uid|id|_id|user|user_?id|user_?name|login|email|account|account_?id|tenant|tenant_?id|roles?|is_?admin|admin|scopes?|permissions|groups)$/i;

/** Names of functions that read a token only for information, not to authenticate its sender. */
const ONLY_READS = /expir|kid|header|audience|issuer|inspect|debug|print|display|log|meta/i;

/**
 * Whether code trusts a decoded token, because it returns the claims or reads a claim about identity or
 * rights.
 */
function isTrusted(call: Call, fn: Fn | undefined): boolean {
  if (fn === undefined || ONLY_READS.test(nameOfCallback(fn) ?? '')) return false;
  let at: Node = call;
  while (at.parent?.type === 'await' || at.parent?.type === 'choice' || at.parent?.type === 'binary')
    at = at.parent;
  const { parent } = at;
  if (parent?.type === 'leave' || parent === fn) return true;
  if (parent?.type === 'member') return CLAIM.test(parent.property ?? '');
  if (parent?.type === 'declarator' && parent.target.type !== 'name')
    return boundIn(parent.target).some(({ path }) => path.some((key) => CLAIM.test(key)));
  const name = parent?.type === 'declarator' || parent?.type === 'assign' ? pathOf(parent.target) : undefined;
  if (name === undefined) return false;
  let isRead = false;
  walk(fn, (node) => {
    if (node.type === 'member' && pathOf(node.object) === name && CLAIM.test(node.property ?? ''))
      isRead = true;
    if (node.type === 'leave' && node.value !== undefined && pathOf(node.value) === name) isRead = true;
    return !isRead;
  });
  return isRead;
}

/** Whether a caller of a function also verifies the token. */
function isVerifiedByCallers(fn: Fn | undefined, sources: Sources): boolean {
  const name = fn === undefined ? undefined : nameOfCallback(fn);
  if (name === undefined) return false;
  return sources.all('call').some(({ module, node }) => {
    const caller = calledName(node) === name ? functionAround(node) : undefined;
    return caller !== undefined && /\bverif\w*\s*\(/i.test(module.source.slice(caller.start, caller.end));
  });
}

/** Whether a token comes from the reply of another server. TLS has proved the identity of that server. */
function isOfProvider(call: Call, module: SourceModule): boolean {
  let found = false;
  for (const arg of call.args)
    walk(arg, (node) => {
      const value = node.type === 'name' ? literal(node, module) : undefined;
      const made = value?.type === 'await' ? value.value : value;
      if (made?.type !== 'call' || made.callee.type !== 'member') return;
      const owner = pathOf(made.callee.object) ?? '';
      if (
        /^(?:text|json)$/.test(made.callee.property ?? '') &&
        /^(?:res|resp|response|answer|reply)$/i.test(owner)
      )
        found = true;
    });
  return found;
}

/** Whether the code also signs a token. It then probably decodes this token, and not one from a client. */
function isClearlyOwn(code: string): boolean {
  return /\bcreateToken\s*\(|\bsign\s*\(/.test(code);
}

/**
 * Whether a call parses a part of a token: `JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))`. A
 * variable may hold the part.
 */
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

/**
 * Whether a method is called on an object of the program, as in `const jwt = this.tokens; jwt.decode(token)`.
 * Such a method may verify the token.
 */
function isOwnObject({ callee }: Call, module: SourceModule): boolean {
  if (callee.type !== 'member' || callee.object.type !== 'name') return false;
  const binding = module.lookup(callee.object.name, callee);
  return binding?.kind === 'declared' || binding?.kind === 'parameter';
}

/** SVC627: accounts that code finds by an unverified e-mail address. */
function watchMail(report: ReportAt): Watch {
  const judge = (module: SourceModule, node: Node): void =>
    report(
      module,
      node,
      'the account is found by an e-mail address that may be unverified: an attacker who enters this address at the login provider gets the account',
    );
  return {
    onStatement: (sending) => {
      const found = sending.bindings?.find(
        ({ use, value }) => (use === 'equal' || use === 'other') && isUnverifiedMail(value),
      );
      if (found === undefined || sending.outline.verb === 'insert') return;
      judge(sending.module, sending.call);
    },
    onCall: ({ call, fn, meaning, module, value }) => {
      const method = call.callee.type === 'member' ? (call.callee.property ?? '') : '';
      const isLookup = meaning === '' && fn === undefined && /^(?:get|find\w*)$/.test(method);
      if (isLookup && call.args.some((arg) => isUnverifiedMail(value(arg)))) judge(module, call);
    },
  };
}

function isUnverifiedMail(value: Value | undefined): boolean {
  return value !== undefined && idsIn(value).some((id) => id.startsWith(PROVIDER_MAIL));
}

function isHost(part: Part): boolean {
  return part.kind === 'own' && part.made?.by === 'request.host';
}

/** Returns the place of the host in a text that also holds a secret of the program. */
function hostOfLink(value: Value | undefined, depth = 0): Made | undefined {
  if (value === undefined || depth > 3) return undefined;
  for (const text of value.texts) {
    const host = text.find((part, index) => isHost(part) && /^[/?#:]/.test(literalOf(text.slice(index + 1))));
    const hasSecret = (): boolean =>
      madeIn({ texts: [text] }).some(({ by }) => /^crypto\.random|^svc\.createToken$/.test(by));
    if (host?.kind === 'own' && hasSecret()) return host.made;
  }
  for (const inner of value.members?.values() ?? []) {
    const found = hostOfLink(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
