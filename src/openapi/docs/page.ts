/**
 * `/docs`: an OpenAPI document as one page of HTML, with its style and its script in it. Nothing comes from elsewhere, and
 * nothing of it needs JavaScript to be read; the script adds search, calls, copies and colours.
 *
 *   document -> readDocument() -> Markup -> text around two places for the nonce -> codings, made once
 *
 * Nobody's text is trusted: what a document says is escaped, and the policy lets nothing run but what carries the nonce of
 * this one answer. The script builds elements, never HTML (`trusted-types 'none'`), and talks to this origin alone.
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

/** `blob:` is for pictures that an operation answers with, `data:` for the page's icon. */
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

/** Where a page tells its script a CSRF token: in the answer to HEAD, which other sites can neither read nor keep. */
const TOKEN_FIELD = 'X-CSRF-Token';

/** A page of one document. */
export class DocsPage {
  readonly #document: () => object;
  readonly #documentUrl: string;
  readonly #protection: () => readonly Middleware[];
  #page: CodedPage | undefined;

  /**
   * The document is asked for when the page is first looked at. `documentUrl` is where browsers find it, relative to the page;
   * default `openapi.json`. `protection` returns the layers that give a CSRF token where the application has none for all routes.
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

  /** Answers GET with the page, HEAD with its fields and a CSRF token where the application has such. */
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

/** The response to HEAD, without content. */
function withToken(req: HttpRequest, response: HttpResponse): HttpResponse {
  const token = csrfTokenIfAny(req);
  if (token !== undefined) response.headers.set(TOKEN_FIELD, token);
  response.body = []; // content of unknown length: the page is not written for HEAD
  response.headers.vary('Accept-Encoding');
  const coding = negotiateEncoding(req.headers['accept-encoding'], CODINGS);
  if (coding !== undefined) response.headers.set('Content-Encoding', coding);
  return response;
}

/** From so many rows on a browser lays out only the rows in view. A picture of a page with fewer rows has them all. */
const MANY_ROWS = 100;

/** The page in three parts; between them the nonce stands. @internal */
export function pageParts(document: ReadDocument, documentUrl: string): readonly string[] {
  const slots = slotsOf(document, documentUrl);
  return PAGE.split('{{nonce}}').map((part) =>
    part.replace(/\{\{(\w+)\}\}/g, (_slot, name: string) => html`${slots[name]!}`.text),
  );
}

/** Values of the slots of page.html. */
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
      .filter((server) => server !== '/')
      .map((server) => html`<span>at <code>${server}</code></span>`),
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
 * The page on the wire: the same bytes around a nonce that is another one each time, compressed for each answer.
 *
 * Kept bytes cannot be shared, then; they need not be. Of 500 operations the page has 1.3 MB, of which br makes 37 kB in 5 ms,
 * in another thread, and a page of the common size takes 1 ms. Hashes in place of the nonce would
 * save that, and a policy that names the page's content would have to be made anew by whoever adds to it.
 */

const CODERS = codersOf({ zstd: 3, br: 5, gzip: 9 });
/** The best first: of this page zstd makes more bytes in more time. */
const CODINGS = ['br', 'gzip'] as const;
/** Answers that are compressed at a time; further ones go out as they are. */
const MOST_AT_A_TIME = 32;

/** A page with places for a nonce. */
export class CodedPage {
  readonly #parts: readonly Buffer[];
  #underWay = 0;

  /** The nonce stands between the parts. */
  constructor(parts: readonly string[]) {
    this.#parts = parts.map((part) => Buffer.from(part));
  }

  /** Gives an answer its body, in the coding that its client likes best. */
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
