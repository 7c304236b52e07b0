/**
 * `/docs`: an OpenAPI document as one HTML page that contains its style and script. It loads nothing from
 * other places. It is readable without JavaScript; the script adds search, calls, copying and colours.
 *
 * The page is rendered once, without its nonce. Each response inserts a new nonce, and is compressed.
 *
 * Text of the document is not trusted, so it is escaped. The security policy allows only scripts and styles
 * with the nonce of the response. The page's script builds elements, never HTML (`trusted-types 'none'`), and
 * connects only to its own origin.
 */
import { prose } from './markdown.ts';
import { NOTHING, html, joined } from './markup.ts';
import { readDocument } from './document.ts';
import { operationMarkup } from './operation.ts';
import { PAGE } from './page.generated.ts';
import { SchemaWriter } from './schema.ts';
import { CompressionMiddleware } from '../../http/middleware/compression.ts';
import { ContentSecurityPolicy, cspNonce } from '../../http/middleware/security-headers.ts';
import { csrfTokenIfAny } from '../../http/session/csrf.ts';
import { HttpResponse } from '../../http/response.ts';
import type { NamedSchema, ReadDocument, Section } from './document.ts';
import type { Content, Markup } from './markup.ts';
import type { HttpRequest, Middleware, Next } from '../../http/contracts.ts';

/** Security policy of the page. `blob:` is for images in responses, `data:` for the page's icon. */
const POLICY = new ContentSecurityPolicy({
  defaultSrc: "'none'",
  scriptSrc: "'none'",
  styleSrc: "'none'",
  imgSrc: ['data:', 'blob:'],
  connectSrc: "'self'",
  baseUri: "'none'",
  formAction: "'none'",
  frameAncestors: "'none'",
  objectSrc: false,
  requireTrustedTypesFor: "'script'",
  trustedTypes: "'none'",
});

const FIELDS: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/**
 * Compresses each response anew, because each has its own nonce. For 500 operations, br compresses 1.3 MB to
 * 37 kB in 5 ms. zstd is slower for this page, and gives more bytes.
 *
 * Script hashes instead of a nonce would allow one compressed page for all responses. But middleware that
 * adds a script to the page needs a nonce.
 */
const COMPRESSION = new CompressionMiddleware({
  encodings: ['br', 'gzip'],
  brotliQuality: 5,
  gzipLevel: 9,
  maxConcurrent: 32,
});

/**
 * Header field with a CSRF token, in responses to the HEAD requests of the page's script. Pages of other
 * sites cannot read it.
 */
const TOKEN_FIELD = 'X-CSRF-Token';

export class DocsPage {
  readonly #document: () => object;
  readonly #documentUrl: string;
  readonly #protection: () => readonly Middleware[];
  /** Parts of the page, between which a nonce is inserted. */
  #parts: readonly string[] | undefined;

  /**
   * `document` is called when the page is first requested. `documentUrl` is relative to the page; default
   * `openapi.json`. `protection` returns the middleware that issues CSRF tokens; an empty list if this
   * middleware runs for all routes anyway.
   */
  constructor(
    document: () => object,
    documentUrl: string = 'openapi.json',
    protection: () => readonly Middleware[] = () => [],
  ) {
    this.#document = document;
    this.#documentUrl = documentUrl;
    this.#protection = protection;
  }

  /**
   * Responds to GET with the page. Responds to HEAD with the header fields, and with a CSRF token if the
   * application uses CSRF protection.
   */
  async respond(req: HttpRequest): Promise<HttpResponse> {
    const nonce = cspNonce(req);
    const response = new HttpResponse(null, {
      mediaType: 'text/html; charset=utf-8',
      headers: { ...FIELDS, 'Content-Security-Policy': POLICY.withNonce(nonce) },
    });
    if (req.method === 'HEAD') {
      const last: Next = () => withToken(req, response);
      return this.#protection().reduceRight<Next>((next, layer) => () => layer.handle(req, next), last)();
    }
    this.#parts ??= pageParts(readDocument(this.#document()), this.#documentUrl);
    response.body = this.#parts.join(nonce);
    return COMPRESSION.handle(req, () => response);
  }
}

function withToken(req: HttpRequest, response: HttpResponse): ReturnType<Next> {
  const token = csrfTokenIfAny(req);
  if (token !== undefined) response.headers.set(TOKEN_FIELD, token);
  // the page is not rendered for HEAD, so its length is unknown: an empty stream has no Content-Length
  response.body = [];
  return COMPRESSION.handle(req, () => response);
}

/** From this number of rows on, browsers lay out only the visible rows. */
const MANY_ROWS = 100;

/** Returns the page as parts, between which the nonce is inserted. @internal */
export function pageParts(document: ReadDocument, documentUrl: string): readonly string[] {
  const slots = slotsOf(document, documentUrl);
  return PAGE.split('{{nonce}}').map((part) =>
    part.replace(/\{\{(\w+)\}\}/g, (_slot, name: string) => html`${slots[name]!}`.text),
  );
}

function slotsOf(document: ReadDocument, documentUrl: string): Readonly<Record<string, Content>> {
  const { title, sections, schemas, schemes, operationCount, hasSecurity } = document;
  const writer = new SchemaWriter(document);
  return {
    title,
    documentUrl,
    authorize: hasSecurity ? '' : 'hidden',
    main: operationCount + schemas.size >= MANY_ROWS ? 'many' : '',
    contents: [
      ...sections.map(({ id, name }) => html`<a class="h" href="#${encodeURIComponent(id)}">${name}</a>`),
      schemas.size > 0 && html`<a class="h" href="#schemas">Schemas</a>`,
    ],
    intro: introMarkup(document, documentUrl),
    sections:
      operationCount === 0
        ? html`<p class="none">No operations yet.</p>`
        : sections.map((section) => sectionMarkup(section, writer)),
    abouts: schemes.map(
      ([name, description]) => html`<div hidden id=":about-${name}">${prose(description)}</div>`,
    ),
    schemas: schemas.size > 0 && schemasMarkup([...schemas.values()], writer),
  };
}

function introMarkup(
  { title, version, summary, description, servers, links, license, email, operationCount }: ReadDocument,
  documentUrl: string,
): Markup {
  const facts = [
    html`<span>${operationCount} ${operationCount === 1 ? 'operation' : 'operations'}</span>`,
    html`<a href="${documentUrl}">OpenAPI document</a>`,
    ...servers
      .filter(({ url }) => url !== '/')
      .map(
        ({ url, description }) =>
          html`<span>at <code>${url}</code>${description !== undefined && html` ${description}`}</span>`,
      ),
    ...links.map(([text, url]) => html`<a href="${url}" rel="noopener noreferrer">${text}</a>`),
    ...(email === undefined ? [] : [html`<a href="mailto:${email}">${email}</a>`]),
    ...(license === undefined ? [] : [html`<span>Licence: ${license}</span>`]),
  ];
  return html`<h1>${title}${version !== '' && html` <small>${version}</small>`}</h1>${summary !== undefined && html`<p class="lead">${summary}</p>`}${prose(description)}<div class="facts">${joined(facts, ' ')}</div>`;
}

function sectionMarkup({ id, name, description, operations }: Section, writer: SchemaWriter): Markup {
  const about = description === undefined ? NOTHING : html`<div class="about">${prose(description)}</div>`;
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${name}</h2>${about}<div class="list">
${operations.map((operation) => operationMarkup(operation, writer))}</div></section>
`;
}

function schemasMarkup(schemas: readonly NamedSchema[], writer: SchemaWriter): Markup {
  const rows = schemas.map(
    (
      schema,
    ) => html`<details class="sc"><summary><h3>${schema.name}</h3></summary><div class="b" id="${schema.id}"><div class="d">${writer.named(schema)}</div></div></details>
`,
  );
  return html`<section id="schemas"><h2>Schemas</h2><div class="list">${rows}</div></section>`;
}
