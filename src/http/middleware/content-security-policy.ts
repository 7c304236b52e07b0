/**
 * Content-Security-Policy (CSP Level 3): from an object of directives, or a text, to what is sent; checked when it is built.
 *
 *   { scriptSrc: ["'self'", 'https://cdn.example'] } -> default-src 'self'; ...; script-src 'self' https://cdn.example
 *
 * A browser ignores a directive or keyword that it does not know, so a slip of the pen is a hole: here it is an error.
 */
import { SvcError } from '../../base/errors.ts';
import { closest, shown } from '../../base/options.ts';

/** The sources of a directive: one text, or a list of texts. `false` leaves it out. */
export type Sources = string | readonly string[] | false | undefined;

/** Directives by their names in camelCase. Those not named are as {@link DEFAULT_DIRECTIVES} says. */
export type Directives = {
  readonly [N in DirectiveName]?:
    Sources | (N extends 'upgradeInsecureRequests' | 'sandbox' ? boolean : never);
};

/** A directive's name in camelCase. */
export type DirectiveName = (typeof NAMES)[number];

const NAMES = [
  'defaultSrc',
  'scriptSrc',
  'scriptSrcElem',
  'scriptSrcAttr',
  'styleSrc',
  'styleSrcElem',
  'styleSrcAttr',
  'imgSrc',
  'fontSrc',
  'connectSrc',
  'mediaSrc',
  'objectSrc',
  'frameSrc',
  'childSrc',
  'workerSrc',
  'manifestSrc',
  'baseUri',
  'formAction',
  'frameAncestors',
  'sandbox',
  'upgradeInsecureRequests',
  'requireTrustedTypesFor',
  'trustedTypes',
  'reportUri',
  'reportTo',
] as const;
const WIRE_NAMES: ReadonlyMap<string, DirectiveName> = new Map(NAMES.map((name) => [wireName(name), name]));
/** Directives of other things than sources. */
const FREE: ReadonlySet<string> = new Set([
  'sandbox',
  'trustedTypes',
  'reportUri',
  'reportTo',
  'upgradeInsecureRequests',
]);
/** Those that stand alone. */
const BARE: ReadonlySet<string> = new Set(['sandbox', 'upgradeInsecureRequests', 'trustedTypes']);
const KEYWORDS = [
  'self',
  'none',
  'unsafe-inline',
  'unsafe-eval',
  'unsafe-hashes',
  'strict-dynamic',
  'report-sample',
  'wasm-unsafe-eval',
  'inline-speculation-rules',
  'script',
  'trusted-types-eval',
  'report-sha256',
  'report-sha384',
  'report-sha512',
];

/** Everything from this site, no plug-ins, no frames around, no other base, forms to this site alone. */
export const DEFAULT_DIRECTIVES: Directives = Object.freeze({
  defaultSrc: "'self'",
  baseUri: "'none'",
  formAction: "'self'",
  frameAncestors: "'none'",
  objectSrc: "'none'",
});

/** A policy that is ready to be sent. */
export class ContentSecurityPolicy {
  /** Without a nonce. */
  readonly text: string;
  /** Around the places of the nonce. */
  readonly #parts: readonly string[];

  /** @throws SvcError `E_CSP` */
  constructor(given: Directives | string) {
    const directives = typeof given === 'string' ? parse(given) : read(given);
    this.text = write(directives);
    // where nothing restricts scripts or styles, a nonce must not be the first thing that does; the last two win over the others for elements
    for (const name of ['scriptSrc', 'styleSrc', 'scriptSrcElem', 'styleSrcElem'] as const) {
      const sources =
        directives.get(name) ?? (name.endsWith('Src') ? directives.get('defaultSrc') : undefined);
      if (sources !== undefined)
        directives.set(name, [...sources.filter((source) => source !== "'none'"), NONCE]);
    }
    this.#parts = write(directives).split(NONCE);
  }

  /** With a nonce that lets the scripts and styles run which carry it. */
  withNonce(nonce: string): string {
    return this.#parts.join(`'nonce-${nonce}'`);
  }
}

/** No source can have that form. */
const NONCE = '\0';

function read(given: Readonly<Record<string, unknown>>): Map<DirectiveName, readonly string[]> {
  const directives = new Map<DirectiveName, readonly string[]>();
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  for (const [name, value] of Object.entries({ ...DEFAULT_DIRECTIVES, ...Object.fromEntries(named) }) as [
    string,
    unknown,
  ][]) {
    // not what the caller's type promises
    if (!(NAMES as readonly string[]).includes(name)) throw unknown(name, NAMES);
    if (value === false) continue;
    const known = name as DirectiveName; // it is in the list
    const isText = (item: unknown): item is string => typeof item === 'string';
    const items: readonly unknown[] =
      value === true && BARE.has(name) ? [] : Array.isArray(value) ? value : [value];
    const wrong = items.find((item) => !isText(item));
    if (wrong !== undefined)
      throw new SvcError('E_CSP', [wireName(known), `a source is text, found ${shown(wrong)}`]);
    directives.set(
      known,
      checked(
        known,
        items
          .filter(isText)
          .flatMap((item) => item.trim().split(/[ \t]+/))
          .filter((item) => item !== ''),
      ),
    );
  }
  return directives;
}

function parse(text: string): Map<DirectiveName, readonly string[]> {
  const directives = new Map<DirectiveName, readonly string[]>();
  for (const part of text.split(';')) {
    const [word, ...sources] = part.trim().split(/[ \t]+/);
    if (word === undefined || word === '') continue;
    const name = WIRE_NAMES.get(word.toLowerCase());
    if (name === undefined) throw unknown(word, [...WIRE_NAMES.keys()]);
    if (directives.has(name)) throw new SvcError('E_CSP', [word, 'is there twice: browsers take the first']);
    directives.set(name, checked(name, sources));
  }
  if (directives.size === 0)
    throw new SvcError('E_CSP', [
      '(none)',
      'an empty policy protects nothing: to send none, write contentSecurityPolicy: false',
    ]);
  return directives;
}

function unknown(name: string, names: readonly string[]): SvcError {
  const near = closest(name, names);
  return new SvcError('E_CSP', [
    name,
    'is no directive' + (near === undefined ? '' : `: did you mean "${near}"?`),
  ]);
}

/** What no browser would take as it was meant. */
function checked(name: DirectiveName, sources: readonly string[]): readonly string[] {
  const refuse = (problem: string): never => {
    throw new SvcError('E_CSP', [wireName(name), problem]);
  };
  if (sources.length === 0 && !BARE.has(name)) refuse(`needs a source: "'none'" for nothing at all`);
  for (const source of sources) {
    if (!/^[\x21-\x7e]+$/.test(source) || /[;,]/.test(source))
      refuse(`${JSON.stringify(source)} has a character that cannot stand in a policy`);
    if (FREE.has(name)) continue;
    const bare = source.replace(/^'|'$/g, '');
    const isKeyword = KEYWORDS.includes(bare.toLowerCase()) || /^(?:nonce|sha256|sha384|sha512)-/i.test(bare);
    if (isKeyword && source !== `'${bare}'`) refuse(`${source} is a host unless it is quoted: "'${bare}'"`);
    if (!isKeyword && source.includes("'")) {
      const near = closest(bare, KEYWORDS);
      refuse(`${source} is no keyword` + (near === undefined ? '' : `: did you mean "'${near}'"?`));
    }
    if (bare.toLowerCase() === 'none' && sources.length > 1) refuse(`'none' stands alone`);
  }
  return sources;
}

function write(directives: ReadonlyMap<DirectiveName, readonly string[]>): string {
  return [...directives].map(([name, sources]) => [wireName(name), ...sources].join(' ')).join('; ');
}

function wireName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
