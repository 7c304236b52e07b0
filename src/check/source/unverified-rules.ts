/** The rule about tokens that code reads but does not verify (SVC624). */
import { boundIn } from '../reader/modules.ts';
import { calledName, functionAround, pathOf, walk } from '../reader/nodes.ts';
import { literal } from './routes.ts';
import { meaningOfCall, nameOfCallback } from './sources.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportNode, Sources } from './sources.ts';

/** SVC624: a token whose claims code trusts without verifying its signature. */
export function findUnverified(sources: Sources, report: ReportNode): void {
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
    report(
      'SVC624',
      module,
      call,
      'the token is read without verifying its signature: any client can forge a token',
    );
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
