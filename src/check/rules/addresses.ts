/**
 * Rules about client input in redirects, file paths and network addresses (SVC605 … SVC607).
 */
import { entryOf, methodOf } from '../reader/nodes.ts';
import { clientPartsOf, hasAny, isLocal, literalOf } from '../values/text.ts';
import { dangerOf, doubt } from './injection.ts';
import { inputsOf } from '../statements/sending.ts';
import { placeIn } from './tokens.ts';
import { constantIn } from '../values/tests.ts';
import { PRINCIPAL } from '../values/marks.ts';
import { ALL } from '../../schema/pattern-parser.ts';
import { MAKES_REPLY, fieldsOf } from './replies.ts';
import { KNOWN, addressText, madeIn, signatureOf } from '../values/value.ts';
import type { ClientPart, Made, Part, Text } from '../values/text.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { Spot } from '../reader/modules.ts';
import type { ReportAt, SourceRule, Sources, Variables, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Place } from './injection.ts';
import type { Value } from '../values/value.ts';

/** Rules about redirects, paths and addresses, sorted by id. */
export const ADDRESS_RULES: readonly SourceRule[] = [
  {
    id: 'SVC605',
    severity: 'error',
    cwe: [601],
    sources: ['OWASP Cheat Sheet: Unvalidated Redirects and Forwards'],
    why: 'Attackers use links to your site that redirect to their own site, to deceive visitors or to receive login codes',
    remedy: 'Redirect only to paths of your own site: new RedirectResponse(localPath(next) ?? "/")',
    wrong: 'new RedirectResponse(query.next)',
    right: "new RedirectResponse(localPath(query.next) ?? '/')",
    watch: watchRedirects,
  },
  {
    id: 'SVC606',
    severity: 'error',
    cwe: [22],
    why: 'A path with ".." leads out of the intended folder. A client can then read settings, keys and sources, or overwrite files',
    remedy:
      'Store files under generated names, serve folders with mountStatic(), or pass the name through basename()',
    wrong: "readFile(join('uploads', params.name))",
    right: "readFile(join('uploads', basename(params.name)))",
    onCall: findPaths,
  },
  {
    id: 'SVC607',
    severity: 'error',
    cwe: [918],
    sources: ['OWASP Cheat Sheet: Server-Side Request Forgery Prevention'],
    why: 'A server that fetches any URL for a client also reaches its internal network: databases, admin pages, cloud metadata',
    remedy:
      'Compare the host of the URL with a list of allowed hosts: if (!HOSTS.has(new URL(address).host)) throw new BadRequest()',
    wrong: 'fetch(body.url)',
    right: 'if (!HOSTS.has(new URL(body.url).host)) throw new BadRequest(); fetch(body.url)',
    watch: watchAddresses,
  },
  {
    id: 'SVC655',
    severity: 'warning',
    cwe: [598],
    sources: ['RFC 6750 §5.3'],
    why: 'Servers, proxies and browsers write addresses into logs and histories, and pages send them on as the referrer',
    remedy:
      'Send the secret in a header field: fetch(address, { headers: { authorization: `Bearer ${key}` } })',
    wrong: 'fetch(`https://api.example/v1?key=${process.env.API_KEY}`)',
    right: "fetch('https://api.example/v1', { headers: { authorization: `Bearer ${process.env.API_KEY}` } })",
    watch: watchSecretAddresses,
  },
  {
    id: 'SVC652',
    severity: 'warning',
    cwe: [367],
    sources: ['CWE-367 Time-of-check Time-of-use'],
    why: 'Between the test and the use of a path, another request or process may create, replace or remove the file',
    remedy:
      "Let one call do both: writeFile(path, text, { flag: 'wx' }), or open the file and use handle.stat()",
    wrong: 'if (!existsSync(path)) await writeFile(path, text);',
    right: "await writeFile(path, text, { flag: 'wx' });",
    watch: watchPaths,
  },
];

/** SVC655: secrets in the parameters of addresses that the server requests, or to which it sends browsers. */
function watchSecretAddresses(report: ReportAt, { variables }: Sources): Watch {
  const asked: (Spot & { readonly texts: readonly Text[] })[] = [];
  return {
    onCall(site) {
      const [first] = site.call.args;
      const isAsked = ASKS.test(site.meaning) && first !== undefined;
      const target = isAsked ? { node: first, value: site.value(first) } : redirectTarget(site);
      const { texts } = addressText(target?.value ?? KNOWN);
      if (target !== undefined) asked.push({ node: target.node, module: site.module, texts });
    },
    finish() {
      for (const { texts, ...spot } of asked) {
        const text = texts.find((each) =>
          each.some((part, index) => isSecretParameter(part, each.slice(0, index), variables)),
        );
        if (text !== undefined)
          report(
            placeIn(text) ?? spot,
            'a parameter of the address is a secret, and logs and histories keep addresses',
          );
      }
    },
  };
}

function isSecretParameter(part: Part, before: Text, variables: Variables): boolean {
  if (part.kind !== 'own' || part.made === undefined || !/[?&][^/#\0]*$/.test(literalOf(before)))
    return false;
  return (
    /^(?:svc\.createToken|jsonwebtoken\.sign|jose\.)/.test(part.made.by) || variables.isSecretMark(part.made)
  );
}

/** Inputs that a link on another site cannot set to an address. */
const CANNOT_CHOOSE: ReadonlySet<string> = new Set(['headers', 'cookies', 'params']);

/** SVC605: redirects to an address that a client sends, also one that a session or a cookie keeps in between. */
function watchRedirects(report: ReportAt): Watch {
  /** Inputs that choose a site, by the name of the entry or cookie that keeps them. */
  const kept = new Map<string, string>();
  const tested = new Set<string>();
  /** Redirects to a text that an earlier request kept: the names of entries of the session, or of cookies. */
  const returning: (Spot & { readonly from: readonly string[] })[] = [];
  return {
    onCall(site) {
      findRedirects(site, report);
      for (const [name, value] of keptBy(site)) {
        const danger = [value, ...(value?.members?.values() ?? [])]
          .map((each) =>
            dangerOf(each, ({ part, before }) => choosesSite({ part: decoded(part), before, after: [] })),
          )
          .find((part) => part !== undefined);
        if (danger !== undefined && danger.unknown === undefined) kept.set(name, danger.origin.what);
      }
      const { call, module, receiver, value } = site;
      if (/^(?:has|includes|indexOf|test|exec|match|startsWith)$/.test(methodOf(call)))
        for (const each of [receiver, ...call.args.map((arg) => value(arg))])
          for (const name of namesIn(each)) tested.add(name);
      const target = redirectTarget(site);
      if (target !== undefined) returning.push({ node: target.node, module, from: namesIn(target.value) });
    },
    finish() {
      for (const { from, ...spot } of returning) {
        const name = from.find((each) => kept.has(each) && !tested.has(each));
        if (name !== undefined)
          report(
            spot,
            `the redirect leads to the address of ${name}, where an earlier request has kept ${kept.get(name)!}: a client can name any other site`,
          );
      }
    },
  };
}

/** Returns the texts that a call keeps for later requests of the client, by the name of the entry or cookie. */
function keptBy(site: Site): readonly (readonly [string, Value | undefined])[] {
  const { call, meaning, value } = site;
  const [first, second] = call.args.map((arg) => value(arg));
  const key = constantIn(first) ?? '';
  if (meaning === 'svc.Session.set') return [[`the entry "${key}" of the session`, second]];
  if (/^svc\.[^]*\.setCookie$/.test(meaning)) return [[`the cookie "${key}"`, second]];
  return fieldsOf(site).flatMap(({ name, value: field }) =>
    field.texts.flatMap(([lead, ...rest]) => {
      const cookie = lead?.kind === 'literal' ? /^([\w-]+)=$/.exec(lead.text)?.[1] : undefined;
      return name !== 'set-cookie' || cookie === undefined
        ? []
        : [[`the cookie "${cookie}"`, { texts: [rest] }] as const];
    }),
  );
}

/** Returns a part as a later request reads it: a cookie and its reader undo the encoding of an address. */
function decoded(part: ClientPart): ClientPart {
  return part.operations?.at(-1) === 'encoded' ? { ...part, may: ALL } : part;
}

/** Returns the names of the entries and cookies with which a text begins. */
function namesIn(value: Value | undefined): readonly string[] {
  return (value?.texts ?? []).flatMap((text) => {
    const [lead] = text;
    if (lead?.kind === 'client')
      return lead.origin.input === 'cookies' && choosesSite({ part: lead, before: [], after: [] })
        ? [`the cookie "${lead.origin.what.replace('cookies.', '')}"`]
        : [];
    const other = text.findIndex(({ kind }) => kind !== 'own');
    const own = other === -1 ? text : text.slice(0, other);
    const made = madeIn({ texts: [own] }).find(({ by }) => by === PRINCIPAL);
    const [key] = made?.node.type === 'call' ? made.node.args : [];
    return key?.type === 'text' ? [`the entry "${key.value}" of the session`] : [];
  });
}

/** SVC605: client input in the target of a redirect. */
function findRedirects(site: Site, report: ReportAt): void {
  const target = redirectTarget(site);
  const danger = dangerOf(
    target?.value,
    (place) => !CANNOT_CHOOSE.has(place.part.origin.input) && choosesSite(place),
  );
  if (danger === undefined) return;
  report(
    site.written(target!.node), // dangerOf() found a part in it
    `the redirect leads to the address in ${danger.origin.what}, where a client can name any other site`,
    doubt(danger),
  );
}

/** Whether a part of a client decides to which site an address leads. */
function choosesSite({ part, before }: Place): boolean {
  if (before.some(({ kind }) => kind !== 'literal') || part.hasKnownHost === true) return false;
  const lead = literalOf(before);
  if (lead === '') return !isLocal(part) && hasAny(part.may, '/\\:');
  if (/^\/+$/.test(lead)) return hasAny(part.may, '/\\') && part.notFirst?.includes('/') !== true;
  return /^[a-z][a-z\d+.-]*:(?:\/\/[^/?#]*)?$/i.test(lead);
}

/** The address to which a response leads, and the expression that names it. */
interface Target {
  readonly node: Node;
  readonly value: Value | undefined;
}

function redirectTarget(site: Site): Target | undefined {
  const { call, meaning, value } = site;
  const [first, ...rest] = call.args;
  if (meaning === 'svc.RedirectResponse' || meaning === 'Response.redirect')
    return first && { node: first, value: value(first) };
  // a 2xx response is not a redirect: its Location names a created resource
  const statuses = rest.map((arg) => constantIn(value(arg)?.members?.get('status') ?? value(arg)) ?? '');
  if (!MAKES_REPLY.test(meaning) || statuses.some((status) => /^2\d\d$/.test(status))) return undefined;
  return fieldsOf(site).find(({ name }) => name === 'location');
}

const OPENS_FILE =
  /^fs(?:\/promises|\.promises)?\.(?:readFile|createReadStream|createWriteStream|writeFile|appendFile|unlink|rm|rmdir|readdir|open|opendir|copyFile|cp|rename|mkdir|openAsBlob|readlink|symlink|truncate)(?:Sync)?$/;

const TWO_PATHS = /(?:copyFile|cp|rename|symlink)(?:Sync)?$/;

/** SVC606: client input in file paths. */
function findPaths(site: Site, report: ReportAt): void {
  for (const path of pathsOf(site)) {
    const danger = dangerOf(site.value(path), leavesFolder);
    if (danger === undefined) continue;
    const { entry } = danger;
    report(
      // a function of another file builds the path
      entry === undefined || entry.module === site.module ? site.written(path) : entry,
      `the file path is built from ${danger.origin.what}: a value with ".." leads to any file`,
      doubt(danger),
    );
  }
}

function pathsOf({ call, meaning, receiver }: Site): Node[] {
  const [first, second] = call.args;
  const isUpload = receiver?.source !== undefined && methodOf(call) === 'save';
  const isOpened = OPENS_FILE.test(meaning) || meaning === 'svc.FileResponse' || isUpload;
  return [isOpened ? first : undefined, TWO_PATHS.test(meaning) && isOpened ? second : undefined].filter(
    (node) => node !== undefined,
  );
}

/** Whether a part of a client can lead a path out of the folder before it. */
function leavesFolder({ part, before, after }: Place): boolean {
  if (part.isInside === true || !hasAny(part.may, '/')) return false;
  // with a fixed name at its end, a path leads to files of this name only
  if (/[/\\][^/\\\s]+$/.test(literalOf(after))) return false;
  const isRoot = before.length === 0 || /^\/+$/.test(literalOf(before));
  return isRoot || mayAscend(part, before);
}

/** Whether a part of a client may complete the segment `..`, alone or with a dot before it. */
function mayAscend(part: ClientPart, before: Text): boolean {
  return hasAny(part.may, '.') && (part.lacks?.includes('..') !== true || endsInDot(before));
}

/** Whether a dot of the program before a part may be a segment of its own. */
function endsInDot(before: Text): boolean {
  const last = before.at(-1);
  if (last?.kind !== 'literal' || !last.text.endsWith('.')) return false;
  return last.text === '.' ? before.at(-2)?.kind !== 'own' : /[/\\]\.$/.test(last.text);
}

/** Functions and clients that send a request to the address in their first argument. */
const ASKS =
  /^(?:fetch|undici\.(?:fetch|request|stream)|https?\.(?:get|request)|http2\.connect|WebSocket|EventSource|ws|got(?:\.extend)?(?:\.\w+)?|ky(?:\.create)?(?:\.\w+)?|ofetch\.(?:ofetch|\$fetch)|axios(?:\.create)?(?:\.(?:get|post|put|patch|delete|head|request))?|node-fetch|superagent\.\w+|needle(?:\.\w+)?)$/;

function watchAddresses(report: ReportAt, { variables }: Sources): Watch {
  /** Tests of hosts, by the address. */
  const tests = new Map<string, Spot>();
  /** Requests with a part of a client in the path of their address, and the marks of what they carry. */
  const carrying: (Spot & { readonly danger: ClientPart; readonly carried: readonly Made[] })[] = [];
  return {
    onTest({ value, node, module }) {
      for (const [id, { hasKnownHost }] of [...(value.yes ?? []), ...(value.no ?? [])])
        if (hasKnownHost === true) tests.set(id, { node, module });
    },
    onCall(site) {
      const { call, meaning, module, value } = site;
      const [node, options] = call.args;
      if (!ASKS.test(meaning) || node === undefined || hasAgent(call)) return;
      if (findAddresses(site, node, tests, report)) return;
      const danger = dangerOf(value(node), leavesPath);
      if (danger !== undefined) carrying.push({ node, module, danger, carried: madeIn(value(options)) });
      findRedirected(site, report);
    },
    finish() {
      for (const { danger, carried, ...spot } of carrying)
        if (carried.some((made) => variables.isSecretMark(made)))
          report(
            danger.entry ?? spot,
            `${danger.origin.what} is a part of the path of an address: with "../" it leads the request, which carries a secret of this server, to another path`,
            {
              severity: 'warning',
              remedy: 'Encode each part of a path: `${base}/items/${encodeURIComponent(id)}`',
              ...doubt(danger),
            },
          );
    },
  };
}

/**
 * SVC607: client input in addresses that the server requests. The place is a test of the host that does not suffice, if
 * there is one. Returns whether it has found a mistake.
 */
function findAddresses(
  site: Site,
  address: Node,
  tests: ReadonlyMap<string, Spot>,
  report: ReportAt,
): boolean {
  const value = site.value(address);
  const members = value?.members;
  const isSent = (place: Place): boolean => place.part.origin.input !== 'headers';
  const danger =
    dangerOf(members ? members.get('url') : value, (place) => isSent(place) && choosesHost(place)) ??
    // the last part of a host says who owns it
    dangerOf(
      members?.get('hostname') ?? members?.get('host'),
      (place) => isSent(place) && place.after.length === 0,
    );
  if (danger === undefined) return false;
  const node = entryOf(address, 'url') ?? entryOf(address, 'hostname') ?? entryOf(address, 'host') ?? address;
  const test = tests.get(danger.id);
  report(
    test ?? { module: site.module, node },
    `the server sends a request to the address in ${danger.origin.what}, and a client can choose an address in the internal network${test === undefined ? '' : ', because this test of the host does not hold for each address that is requested'}`,
    doubt(danger),
  );
  return true;
}

/** Whether a part of a client, after the host of an address, may lead out of its place in the path. */
function leavesPath({ part, before }: Place): boolean {
  const isInPath = /^(?:[a-z][a-z\d+.-]*:\/\/[^/?#]+|\0+)\/[^?#]*$/i.test(literalOf(before));
  return isInPath && hasAny(part.may, '/') && mayAscend(part, before);
}

/** A note for a request to a compared host whose redirects no code compares. */
function findRedirected({ call, meaning, module, value }: Site, report: ReportAt): void {
  const parts = clientPartsOf(value(call.args[0])?.texts ?? []);
  const isCompared = parts.some(({ hasKnownHost }) => hasKnownHost === true);
  const options = value(call.args[1])?.members;
  if (!isCompared || !/fetch$/.test(meaning) || options?.has('redirect') === true) return;
  report(
    { module, call },
    'the host of the address is compared, but not the hosts to which its responses redirect, so a redirect on one of them leads into the internal network',
    { severity: 'info', remedy: "Refuse redirects: fetch(address, { redirect: 'error' })" },
  );
}

/**
 * Whether a call passes its own HTTP agent, such as `httpsAgent`. That agent may refuse private addresses.
 */
function hasAgent({ args }: Call): boolean {
  return ['agent', 'httpAgent', 'httpsAgent', 'dispatcher'].some((key) =>
    args.some((arg) => entryOf(arg, key) !== undefined),
  );
}

/** Whether a part of a client is, or is in, the host of an address. */
function choosesHost({ part, before }: Place): boolean {
  if (before.some(({ kind }) => kind !== 'literal') || part.hasKnownHost === true) return false;
  if (before.length === 0) return !isLocal(part) && hasAny(part.may, '/:');
  const lead = literalOf(before) + (part.begins ?? '');
  return !lead.startsWith('/') && !/^[a-z][a-z\d+.-]*:\/\/[^/]+[/?#]/i.test(lead) && hasAny(part.may, './:@');
}

/** Functions that tell whether a path exists. */
const TESTS = /^fs(?:\/promises|\.promises)?\.(?:exists|access|stat)(?:Sync)?$/;
/** Functions that tell what a path is, without following links: code asks for safety. */
const TESTS_KIND = /^fs(?:\/promises|\.promises)?\.(?:lstat|readlink)(?:Sync)?$/;
const WRITES = /^fs(?:\/promises|\.promises)?\.(?:writeFile|createWriteStream|open)(?:Sync)?$/;
const READS =
  /^fs(?:\/promises|\.promises)?\.(?:readFile|createReadStream|open|rm|unlink|chmod|chown)(?:Sync)?$/;

interface Asked {
  readonly path: string;
  readonly isOfKind: boolean;
}

/** SVC652: a path that a client chooses, which a handler tests, and then writes or reads by its name. */
function watchPaths(report: ReportAt): Watch {
  const asked = new Map<Fn, Asked[]>();
  const judged = new Set<Node>();
  return {
    onCall(site) {
      const { call, meaning, module, handler, value } = site;
      const path = pathIn(value(call.args[0]));
      if (handler === undefined || path === undefined || !meaning.startsWith('fs')) return;
      const before = asked.get(handler) ?? [];
      const isOfKind = TESTS_KIND.test(meaning);
      if (isOfKind || TESTS.test(meaning)) asked.set(handler, [...before, { path, isOfKind }]);
      const isUse = (each: Asked): boolean =>
        each.path === path && (each.isOfKind ? READS.test(meaning) : WRITES.test(meaning) && makes(site));
      if (!before.some(isUse) || judged.has(call)) return;
      judged.add(call);
      report(
        { module, call },
        'the path is used by its name after a test of it: in between, another request or process may have changed what it names',
      );
    },
  };
}

/** Returns a text that is equal for equal paths; undefined for a path that no client chooses, which only the program replaces. */
function pathIn(value: Value | undefined): string | undefined {
  return value === undefined || inputsOf(value).length === 0
    ? undefined
    : signatureOf({ texts: value.texts });
}

/** Whether a call makes the file if it is missing, and overwrites it if it exists. */
function makes({ call, meaning, value }: Site): boolean {
  const [, second, third] = call.args;
  const isOpen = /\.open(?:Sync)?$/.test(meaning);
  const options = value(isOpen || /createWriteStream/.test(meaning) ? second : third);
  const flags = options?.members?.get('flag') ?? options?.members?.get('flags') ?? options;
  const text = constantIn(flags);
  return isOpen
    ? text !== undefined && /[wa]/.test(text) && !text.includes('x')
    : text?.includes('x') !== true;
}
