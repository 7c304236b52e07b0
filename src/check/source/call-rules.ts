/**
 * Rules about calls of Node.js and of this package that ask for the values of arguments: CORS and cookies
 * written by hand (SVC206, SVC207), signatures compared by an operator (SVC621), algorithms that a token
 * chooses (SVC624), constant initialisation vectors (SVC628), connections without a check of the certificate
 * (SVC629), numbers of rows without a maximum (SVC637), replies of guarded routes in shared caches (SVC638),
 * and links with a secret for the host that a client names (SVC639).
 */
import { entryOf, walk } from '../reader/nodes.ts';
import { ALL } from '../../schema/pattern-parser.ts';
import { constantIn } from '../values/effects.ts';
import { constantOf, hasClient, literalOf } from '../values/text.ts';
import { clientIn, idsIn, madeIn } from '../values/value.ts';
import { OUR_DATABASE } from './injection-rules.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { Compared } from '../values/evaluation.ts';
import type { Site } from '../values/interpreter.ts';
import type { Made, Part } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { ReportNode, Sources } from './sources.ts';

/** A field that code writes into the header of a reply. */
interface Field {
  readonly name: string;
  readonly node: Node;
  readonly value: Value;
}

/** Judges calls in the order in which the analysis meets them. {@link finish} reports what needs all of them. */
export class CallRules {
  readonly #sources: Sources;
  readonly #report: ReportNode;
  /** Buffers into which a function wrote. */
  readonly #filled = new Set<Value>();
  /** Modules that allow credentials in requests of other sites. */
  readonly #withCredentials = new Set<SourceModule>();
  readonly #reflected: { readonly node: Node; readonly module: SourceModule }[] = [];
  /** Members of inputs that code compares with another value. */
  readonly #compared = new Set<string>();
  readonly #limits: Made[] = [];
  /** Names of cookies that a dependency of this package accepts as a credential. */
  readonly #credentials = new Set<string>();
  readonly #cookies: { readonly field: Field; readonly module: SourceModule }[] = [];

  constructor(sources: Sources, report: ReportNode) {
    this.#sources = sources;
    this.#report = report;
  }

  visit(site: Site): void {
    const { call, meaning, module, value } = site;
    const cookie = /^svc\.(?:APIKeyAuth|SessionMiddleware)$/.test(meaning)
      ? value(entryOf(call.args[0], 'cookie'))
      : undefined;
    const name = constantIn(cookie?.members?.get('name') ?? cookie);
    if (name !== undefined) this.#credentials.add(name);
    this.#judgeCipher(site);
    this.#judgeConnection(site);
    this.#judgeLinks(site);
    this.#judgeLimit(site);
    this.#judgeAlgorithm(site);
    for (const field of fieldsOf(site)) {
      if (field.name === 'access-control-allow-credentials') this.#withCredentials.add(module);
      if (field.name === 'access-control-allow-origin') this.#judgeOrigin(field, site);
      if (field.name === 'set-cookie') this.#cookies.push({ field, module });
      if (field.name === 'cache-control') this.#judgeCaching(field, site);
    }
  }

  /** SVC621: the HMAC of a message, compared with a text of a client by an operator. */
  compare({ node, module, sides }: Compared): void {
    for (const { by } of sides.flatMap((side) => madeIn({ texts: side.texts }))) this.#compared.add(by);
    const [left, right] = sides;
    if (!isOfDigest(left, right) && !isOfDigest(right, left)) return;
    this.#report(
      'SVC621',
      module,
      node,
      'the comparison of a signature by an operator stops at the first difference, so its duration shows how much of a guess is correct',
    );
  }

  finish(): void {
    for (const { by, node, module } of this.#limits)
      if (!this.#compared.has(by))
        this.#report(
          'SVC637',
          module,
          node,
          'the number of rows is an input without a maximum, so one request can read a whole table into memory',
        );
    for (const { node, module } of this.#reflected)
      if (this.#withCredentials.has(module))
        this.#report(
          'SVC206',
          module,
          node,
          'the reply allows every origin that a client names, with credentials, so any site can read replies of a logged-in user',
          { remedy: 'Use CORSMiddleware with a list of origins' },
        );
    for (const { field, module } of this.#cookies) this.#judgeCookie(field, module);
  }

  /** SVC206: the header Origin of the request in a reply, with no test against known origins. */
  #judgeOrigin({ node, value }: Field, { module }: Site): void {
    const part = clientIn(value);
    // a test with an anchored pattern, or of the host, lets only known sites through
    const isTested = part?.may !== ALL || part.hasKnownHost === true;
    if (part?.origin.what === 'headers.origin' && !isTested) this.#reflected.push({ node, module });
  }

  /** SVC207: cookies with a credential and without protection, in a header that code writes. */
  #judgeCookie({ node, value }: Field, module: SourceModule): void {
    const all = value.texts.map((text) => literalOf(text));
    const [, name = '', content = ''] = /^\s*([\w.-]+)=([^;]*)/.exec(all[0] ?? '') ?? [];
    const isMade = madeIn({ texts: value.texts }).length > 0;
    if (content === '' || (!isMade && !this.#credentials.has(name))) return;
    const missing = ['HttpOnly', 'Secure'].filter((each) =>
      all.every((text) => !new RegExp(`;\\s*${each}\\b`, 'i').test(text)),
    );
    // a script reads the cookie of a double-submit token on purpose
    if (!missing.includes('Secure')) return;
    this.#report(
      'SVC207',
      module,
      node,
      `the cookie "${name}" identifies a client but lacks ${missing.join(' and ')}, so scripts or attackers on the network can steal the cookie`,
      { remedy: 'Use response.setCookie(name, value), whose defaults are HttpOnly, Secure and SameSite=Lax' },
    );
  }

  /** SVC628: encryption whose initialisation vector is always the same. */
  #judgeCipher(site: Site): void {
    const { call, meaning, module, receiver, value } = site;
    const written = /^crypto\.(?:randomFill|randomFillSync|getRandomValues|webcrypto\.getRandomValues)$/.test(
      meaning,
    )
      ? value(call.args[0])
      : receiver?.type !== undefined && ALLOCATES.test(receiver.type)
        ? receiver
        : undefined;
    if (written !== undefined) this.#filled.add(written);
    // bytes of another buffer may be copied into one
    if (receiver !== undefined && call.callee.type === 'member' && call.callee.property === 'copy')
      for (const given of call.args.map(value)) if (given !== undefined) this.#filled.add(given);
    if (meaning !== 'crypto.createCipheriv') return;
    const [cipher, key, vector] = call.args;
    const given = value(vector);
    // RFC 3394 prescribes the vector of a wrapped key, and a random key encrypts one message
    if (/wrap/.test(constantIn(value(cipher)) ?? '') || madeIn(value(key)).length > 0) return;
    if (vector === undefined || given === undefined || this.#filled.has(given) || !isFixed(given)) return;
    this.#report(
      'SVC628',
      module,
      vector,
      'the initialisation vector is the same for every message, so equal messages look equal and an attacker can compute texts of others',
    );
  }

  /** SVC629: connections whose certificate is not checked. */
  #judgeConnection({ call, meaning, module, value }: Site): void {
    if (!CONNECTS.test(meaning)) return;
    for (const arg of call.args) {
      const given = value(arg);
      const options = [
        given,
        given?.members?.get('tls'),
        given?.members?.get('ssl'),
        given?.members?.get('connect'),
      ];
      if (!options.some((each) => isOff(each?.members?.get('rejectUnauthorized')))) continue;
      this.#report(
        'SVC629',
        module,
        entryOf(arg, 'rejectUnauthorized') ?? arg,
        'the connection does not check the certificate of the server, so an attacker on the network can read and change what is sent',
      );
    }
  }

  /** SVC624: the member "alg" of a token (RFC 7515) chooses the function that verifies the token. */
  #judgeAlgorithm({ call, meaning, module, value }: Site): void {
    const [first] = call.args;
    const asked = /^crypto\.(?:createHmac|createVerify|verify)$/.test(meaning) ? value(first) : undefined;
    const ids = [...(asked === undefined ? [] : idsIn(asked)), ...(value(call.callee)?.keys ?? [])];
    if (!ids.some((id) => / parsed\.alg(?: |$)/.test(id))) return;
    this.#report(
      'SVC624',
      module,
      call,
      'the token itself chooses the algorithm of its verification, so a client can choose one that accepts any token',
    );
  }

  /** SVC637: the number after LIMIT is an input without a maximum. */
  #judgeLimit({ call, meaning, module, value }: Site): void {
    if (!OUR_DATABASE.test(meaning)) return;
    const text = constantIn(value(call.args[0]));
    const found = /\blimit\s+(?:(\?)|\$(\d+)|[:@](\w+))/i.exec(text ?? '');
    if (found === null || text === undefined) return;
    const [, mark, place, name] = found;
    const before = text.slice(0, found.index).split('?').length - 1;
    const key = name ?? String(mark === undefined ? Number(place) - 1 : before);
    const given = value(call.args[1])?.members?.get(key);
    const made = madeIn(given).find(({ by }) => by.startsWith('endless '));
    if (made !== undefined) this.#limits.push({ by: made.by, node: call.args[1] ?? call, module });
  }

  /** SVC639: texts with a secret for the host that the client names in its request. */
  #judgeLinks({ call, value }: Site): void {
    for (const arg of call.args) {
      const host = hostOfLink(value(arg));
      if (host === undefined) continue;
      this.#report(
        'SVC639',
        host.module,
        host.node,
        'a link with a secret leads to the host that the client named in its request, so an attacker who asks for the link receives the secret of another user',
      );
    }
  }

  /** SVC638: replies of guarded routes that shared caches may store. */
  #judgeCaching({ node, value }: Field, { module, isGuarded }: Site): void {
    const isPublic = value.texts.some((text) => {
      const all = literalOf(text);
      return /(?:^|[\s,])(?:public\b|s-maxage=)/i.test(all) && !/\b(?:private|no-store)\b/i.test(all);
    });
    if (!isPublic || !isGuarded) return;
    const spot = this.#fieldIn(node, module) ?? { node, module };
    this.#report(
      'SVC638',
      spot.module,
      spot.node,
      'caches of proxies may store this reply and send it to other clients, although the route requires a credential',
    );
  }

  /** Returns the field in the function of the project that an expression calls for the fields of a reply. */
  #fieldIn(node: Node, module: SourceModule): { node: Node; module: SourceModule } | undefined {
    const fn = node.type === 'call' ? this.#sources.handlers.resolve(node.callee, module) : undefined;
    if (fn === undefined) return undefined;
    let found: Node | undefined;
    walk(fn, (each) => {
      if (each.type === 'entry' && /^cache-control$/i.test(each.key ?? '')) found ??= each;
    });
    return found && { node: found, module: this.#sources.handlers.homeOf(fn) };
  }
}

/** Functions that connect to a server with TLS, or keep the options of such connections. */
const CONNECTS =
  /^(?:https\.(?:request|get|Agent)|tls\.(?:connect|TLSSocket)|undici\.(?:Agent|Pool|Client|request|fetch)|pg\.(?:Pool|Client)|mysql2?(?:\/promise)?\.create(?:Connection|Pool)|ws(?:\.WebSocket)?|nodemailer\.createTransport|svc\/db\.(?:DatabasePlugin|RedisPlugin|openDatabase))$/;

/** Functions that return a buffer of zeros, or of one repeated byte. */
const ALLOCATES = /^Buffer\.alloc$|^buffer\.Buffer\.alloc$|^Uint8Array$/;

function isFixed({ type, texts }: Value): boolean {
  if (type !== undefined && ALLOCATES.test(type)) return true;
  return texts.length > 0 && texts.every((text) => (constantOf(text) ?? '') !== '');
}

function isOff(value: Value | undefined): boolean {
  return value?.constant === false && constantIn(value) === 'false';
}

function isHost(part: Part): boolean {
  return part.kind === 'own' && part.made?.by === 'request.host';
}

/** Returns the place of the host in a text that also holds a secret of the program. */
function hostOfLink(value: Value | undefined, depth = 0): Made | undefined {
  if (value === undefined || depth > 3) return undefined;
  for (const text of value.texts) {
    const isSecret = madeIn({ texts: [text] }).some(({ by }) =>
      /^crypto\.random|^svc\.createToken$/.test(by),
    );
    const host = text.find((part, index) => isHost(part) && /^[/?#:]/.test(literalOf(text.slice(index + 1))));
    if (isSecret && host?.kind === 'own') return host.made;
  }
  for (const inner of value.members?.values() ?? []) {
    const found = hostOfLink(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the header fields that a call writes: `headers.set(name, value)`, `reply(body, 200, { … })`. */
function fieldsOf({ call, meaning, receiver, value }: Site): readonly Field[] {
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
    const fields = value(node)?.members ?? new Map<string, Value>();
    return [...fields].map(([name, given]) => ({
      name: name.toLowerCase(),
      node: entryOf(node, name) ?? node,
      value: given,
    }));
  });
}

/** Whether a comparison tests the HMAC of a message against a text of a client. */
function isOfDigest(held: Value, sent: Value): boolean {
  return madeIn({ texts: held.texts }).some(({ by }) => /createHmac/.test(by)) && sent.texts.some(hasClient);
}
