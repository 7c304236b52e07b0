/**
 * Converts the credentials that routes require to OpenAPI security schemes and requirements.
 *
 * A route requires the credentials of all its dependencies, and takes those of its optional dependencies.
 *
 * Scopes and roles are described in words and in `x-svc-requires`. OpenAPI 3.1 §4.8.30 also allows them in
 * security requirements, but linters refuse scopes that no OAuth flow declares.
 */
import { CSRFMiddleware } from '../http/session/csrf.ts';
import { SessionMiddleware } from '../http/session/middleware.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { SecurityAlternatives } from './document.ts';
import type { Middleware, SecurityRequirement } from '../http/contracts.ts';

type Scheme = Readonly<Record<string, string>>;

const CSRF_SCHEME: Scheme = {
  type: 'apiKey',
  in: 'header',
  name: 'X-CSRF-Token',
  description:
    'A token that the application adds to its pages. A browser must send it with each request that changes something. Forms may send it in the field `_csrf_token` instead.',
};

/** Collects the security schemes that routes use. */
export class SecurityWriter {
  readonly #view: CompilationView;
  readonly #schemes = new Map<string, Scheme>();

  constructor(view: CompilationView) {
    this.#view = view;
  }

  /**
   * Returns the sets of credentials that a route accepts, each with the names of its schemes; empty if the route
   * takes none. Larger sets come first, because a client sends the first one that it has.
   */
  alternatives({ route, declared }: RouteDetail): SecurityAlternatives {
    const layers = [...this.#view.middleware, ...declared.use];
    const csrf = layers.filter((layer) => layer instanceof CSRFMiddleware);
    const asked = route.security.map((requirement): Asked => {
      const names = this.#schemesOf(requirement, layers).map(([base, scheme]) => this.#nameOf(scheme, base));
      return { names, requirement };
    });
    const sets = setsOf(asked).map((set) => {
      const isCovered = csrf.some((layer) => layer.covers(route, [...set.values()]));
      return isCovered ? [...set.keys(), this.#nameOf(CSRF_SCHEME, 'csrf')] : [...set.keys()];
    });
    if (sets.every((names) => names.length === 0)) return [];
    return sets.map((names) => Object.fromEntries(names.map((name) => [name, []])));
  }

  components(): Readonly<Record<string, Scheme>> {
    return Object.fromEntries(this.#schemes);
  }

  /**
   * Returns the name of a scheme, and adds the scheme if it is new. A name that is taken gets a number: API
   * keys in a second header field are `apiKey2`.
   */
  #nameOf(scheme: Scheme, base: string): string {
    const text = JSON.stringify(scheme);
    for (let n = 1; ; n++) {
      const name = n === 1 ? base : `${base}${n}`;
      const known = this.#schemes.get(name);
      if (known === undefined) this.#schemes.set(name, scheme);
      if (known === undefined || JSON.stringify(known) === text) return name;
    }
  }

  /** Returns the schemes that satisfy a requirement, with their names: one scheme for each issuer of tokens. */
  #schemesOf(
    requirement: SecurityRequirement,
    layers: readonly Middleware[],
  ): readonly (readonly [base: string, scheme: Scheme])[] {
    const { scheme, issuers } = requirement;
    if (issuers === undefined) return [[scheme, this.#schemeOf(requirement, layers)]];
    return issuers.map((issuer) => [
      'openIdConnect',
      {
        type: 'openIdConnect',
        openIdConnectUrl: `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`,
        description: `An access token of ${issuer} in the header field \`Authorization: Bearer …\``,
      },
    ]);
  }

  #schemeOf({ scheme, credential }: SecurityRequirement, layers: readonly Middleware[]): Scheme {
    switch (scheme) {
      case 'bearer':
        return {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: `An access token in the header field \`Authorization: Bearer …\`${this.#logins(scheme)}`,
        };
      case 'apiKey':
        return {
          type: 'apiKey',
          in: credential?.in ?? 'header',
          name: credential?.name ?? 'X-API-Key',
          description: 'An API key that identifies a program',
        };
      case 'session':
        return {
          type: 'apiKey',
          in: 'cookie',
          name: credential?.name ?? this.#sessionCookie(layers),
          description: `The cookie of a logged-in session${this.#logins(scheme)}`,
        };
    }
  }

  /** Returns where browsers log in to get a credential: routes with `meta: { login: 'session' }` or `'bearer'`. */
  #logins(scheme: SecurityRequirement['scheme']): string {
    const paths = this.#view.routes
      .filter(
        ({ method, meta, template }) =>
          method === 'GET' && meta['login'] === scheme && !template.includes('{'),
      )
      .map(({ template }) => `[${template}](${template})`);
    return paths.length === 0 ? '' : `: log in at ${paths.join(' or ')}`;
  }

  #sessionCookie(layers: readonly Middleware[]): string {
    const layer = layers.find((candidate) => candidate instanceof SessionMiddleware);
    return layer?.cookieNameIn(this.#view.env) ?? 'session';
  }
}

/**
 * Returns the CSRF and session middleware of the first route that declares CSRF middleware. Returns none if
 * the application has CSRF middleware for all routes.
 */
export function ownProtection({ middleware, details }: CompilationView): readonly Middleware[] {
  const isCsrf = (layer: Middleware): boolean => layer.kind === 'csrf';
  if (middleware.some(isCsrf)) return [];
  const { use } = details.find(({ declared }) => declared.use.some(isCsrf))?.declared ?? { use: [] };
  const csrf = use.find(isCsrf);
  return use.filter((layer) => layer === csrf || layer.kind === 'session');
}

/** A requirement, with the names of the schemes that satisfy it: one for each issuer of tokens. */
interface Asked {
  readonly names: readonly string[];
  readonly requirement: SecurityRequirement;
}

/** Credentials by the name of their scheme. */
type CredentialSet = ReadonlyMap<string, SecurityRequirement>;

/** Number of sets from which a further optional credential is listed alone, because each one doubles the number. */
const MANY_SETS = 16;

/**
 * Returns the sets of credentials that satisfy the requirements, the largest first. Each set has a credential for
 * every requirement that is not optional; of the others, the sets have all combinations, up to MANY_SETS. One
 * credential may satisfy several requirements, so those with fewer names come first.
 */
function setsOf(asked: readonly Asked[]): readonly CredentialSet[] {
  const isOptional = ({ requirement }: Asked): boolean => requirement.isOptional === true;
  const inOrder = asked.toSorted(
    (a, b) => Number(isOptional(a)) - Number(isOptional(b)) || a.names.length - b.names.length,
  );
  /** The sets without optional credentials, which come first in `inOrder`. */
  let needed: readonly CredentialSet[] = [new Map()];
  let sets = needed;
  for (const one of inOrder) {
    const withOne = (set: CredentialSet): readonly CredentialSet[] =>
      one.names.some((name) => set.has(name))
        ? [set]
        : one.names.map((name) => new Map([...set, [name, one.requirement]]));
    if (!isOptional(one)) sets = needed = needed.flatMap(withOne);
    else if (sets.length >= MANY_SETS) sets = [...sets, ...needed.flatMap(withOne)];
    else sets = sets.flatMap((set) => [...withOne(set), set]);
  }
  const distinct = new Map(sets.map((set) => [[...set.keys()].sort().join(' '), set]));
  return [...distinct.values()].toSorted((a, b) => b.size - a.size);
}

/**
 * Returns the requirements of a route as sentences. "Needs an API key with the role `admin`." makes "Needs an API key."
 * redundant, and each of both makes "Takes an API key, if there is one." redundant.
 */
export function describeSecurity(requirements: readonly SecurityRequirement[]): string {
  if (requirements.length === 0) return 'Needs no credentials.';
  const told = requirements.filter(
    (one) =>
      isQualified(one) ||
      !requirements.some(
        (other) =>
          other.scheme === one.scheme &&
          other.credential?.name === one.credential?.name &&
          weightOf(other) > weightOf(one),
      ),
  );
  return [...new Set(told.map(sentenceOf))].join(' ');
}

function isQualified({ scopes, roles }: SecurityRequirement): boolean {
  return scopes.length > 0 || roles.length > 0;
}

function weightOf(requirement: SecurityRequirement): number {
  return (requirement.isOptional === true ? 0 : 2) + Number(isQualified(requirement));
}

function sentenceOf(requirement: SecurityRequirement): string {
  const words = inWords(requirement);
  return requirement.isOptional === true ? `Takes ${words}, if there is one.` : `Needs ${words}.`;
}

const WORDS: Readonly<Record<SecurityRequirement['scheme'], string>> = {
  bearer: 'a bearer token',
  apiKey: 'an API key',
  session: 'a session that has logged in',
};

function inWords({ scheme, scopes, roles }: SecurityRequirement): string {
  const parts = [
    scopes.length === 0 ? '' : `the scope${scopes.length === 1 ? '' : 's'} ${listed(scopes, 'and')}`,
    roles.length === 0 ? '' : `the role ${listed(roles, 'or')}`,
  ];
  const said = parts.filter((part) => part !== '').join(', and ');
  return said === '' ? WORDS[scheme] : `${WORDS[scheme]} with ${said}`;
}

function listed(names: readonly string[], word: 'and' | 'or'): string {
  const quoted = names.map((name) => `\`${name}\``);
  return quoted.length < 3
    ? quoted.join(` ${word} `)
    : `${quoted.slice(0, -1).join(', ')} ${word} ${quoted.at(-1)!}`;
}
