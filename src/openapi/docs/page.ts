/**
 * `/docs`: an OpenAPI document as one HTML page that contains its style and script. It loads nothing from
 * other places. It is readable without JavaScript; the script adds search, calls, copying and colours.
 *
 * Steps:
 *   document -> readDocument() -> Markup -> text with two places for the nonce -> content codings, made once
 *
 * No text of the document is trusted: it is escaped, and the policy allows only elements with the response's
 * nonce. The script builds elements, never HTML (`trusted-types 'none'`), and connects only to its own
 * origin.
 */
import { prose } from './markdown.ts';
import { NOTHING, html, joined } from './markup.ts';
import { readDocument } from './document.ts';
import { operationMarkup } from './operation.ts';
import { PAGE } from './page.generated.ts';
import { SchemaWriter } from './schema.ts';
import { ContentSecurityPolicy, cspNonce } from '../../http/middleware/security-headers.ts';
import { csrfTokenIfAny } from '../../http/session/csrf.ts';
import { HttpResponse } from '../../http/response.ts';
import { codersOf, negotiateEncoding } from '../../http/content-codings.ts';
import type { NamedSchema, ReadDocument, Section } from './document.ts';
import type { Content, Markup } from './markup.ts';
import type { HttpRequest, Middleware, Next } from '../../http/contracts.ts';
import type { ContentCoding } from '../../http/content-codings.ts';

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
 * Field in the response to HEAD that gives the page's script a CSRF token. Other sites can neither read nor
 * store it.
 */
const TOKEN_FIELD = 'X-CSRF-Token';

/** The docs page of one document. */
export class DocsPage {
  readonly #document: () => object;
  readonly #documentUrl: string;
  readonly #protection: () => readonly Middleware[];
  #page: CodedPage | undefined;

  /**
   * Calls `document` when the page is first requested. `documentUrl` is the document's URL relative to the
   * page; default `openapi.json`. `protection` returns the middleware that issues a CSRF token if no
   * middleware of the application does.
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
   * Responds to GET with the page. Responds to HEAD with the header fields, and a CSRF token if the
   * application has one.
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
    this.#page ??= new CodedPage(pageParts(readDocument(this.#document()), this.#documentUrl));
    return this.#page.write(response, req.headers['accept-encoding'], nonce);
  }
}

/** Returns the response to HEAD, without content. */
function withToken(req: HttpRequest, response: HttpResponse): HttpResponse {
  const token = csrfTokenIfAny(req);
  if (token !== undefined) response.headers.set(TOKEN_FIELD, token);
  response.body = []; // an empty stream of unknown length, so that the page is not rendered for HEAD
  response.headers.vary('Accept-Encoding');
  const coding = negotiateEncoding(req.headers['accept-encoding'], CODINGS);
  if (coding !== undefined) response.headers.set('Content-Encoding', coding);
  return response;
}

/**
 * Number of rows from which on browsers lay out only the visible rows. With fewer, screenshots show all rows.
 */
const MANY_ROWS = 100;

/** Renders the page as three parts. The nonce is inserted between them. @internal */
export function pageParts(document: ReadDocument, documentUrl: string): readonly string[] {
  const slots = slotsOf(document, documentUrl);
  return PAGE.split('{{nonce}}').map((part) =>
    part.replace(/\{\{(\w+)\}\}/g, (_slot, name: string) => html`${slots[name]!}`.text),
  );
}

/** Values of the slots in page.html. */
function slotsOf(document: ReadDocument, documentUrl: string): Readonly<Record<string, Content>> {
  const { title, sections, schemas, operationCount, hasSecurity } = document;
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
    schemas: schemas.size > 0 && schemasMarkup([...schemas.values()], writer),
  };
}

function introMarkup(
  { title, version, summary, description, servers, links, operationCount }: ReadDocument,
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

/*
 * Bytes of the page. Each response has another nonce between the same parts, and is compressed anew.
 *
 * Compressed bytes cannot be cached, because the nonce changes. For 500 operations, br compresses 1.3 MB to
 * 37 kB in 5 ms, in another thread; a page of the usual size takes 1 ms. Hashes instead of the nonce would
 * save that time. But middleware that adds elements to the page would then have to update the policy.
 */

const CODERS = codersOf({ zstd: 3, br: 5, gzip: 9 });
/**
 * The codings that are used, the best first. For this page, zstd gives more bytes and takes longer than br.
 */
const CODINGS = ['br', 'gzip'] as const;
/** Maximum number of concurrent compressions; further responses are sent uncompressed. */
const MOST_AT_A_TIME = 32;

/** The parts of a page, with a nonce between them. */
export class CodedPage {
  readonly #parts: readonly Buffer[];
  #underWay = 0;

  /** `parts`: texts of the page, between which the nonce is inserted. */
  constructor(parts: readonly string[]) {
    this.#parts = parts.map((part) => Buffer.from(part));
  }

  /** Sets the response's body, in the coding that the client prefers. */
  async write(response: HttpResponse, accepted: string | undefined, nonce: string): Promise<HttpResponse> {
    const bytes = this.#with(nonce);
    const coding = negotiateEncoding(accepted, CODINGS);
    response.headers.vary('Accept-Encoding');
    response.body = bytes;
    if (coding === undefined || this.#underWay >= MOST_AT_A_TIME) return response;
    response.body = await this.#coded(bytes, coding);
    response.headers.set('Content-Encoding', coding);
    return response;
  }

  #with(nonce: string): Buffer {
    const between = Buffer.from(nonce);
    return Buffer.concat(this.#parts.flatMap((part, index) => (index === 0 ? [part] : [between, part])));
  }

  #coded(bytes: Buffer, coding: ContentCoding): Promise<Buffer> {
    this.#underWay++;
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    CODERS[coding].later(bytes, (error, coded) => {
      this.#underWay--;
      if (error === null) resolve(coded);
      else reject(error);
    });
    return promise;
  }
}
