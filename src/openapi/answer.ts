/**
 * Serves `/openapi.json`. The document is generated at the first request, and kept in memory with its entity
 * tag.
 */
import { hash } from 'node:crypto';
import { SvcError } from '../base/errors.ts';
import { given, isRecord, readOptions, shown, text, defined } from '../base/options.ts';
import { openapiDocument } from './openapi.ts';
import { notModified } from '../http/files/files.ts';
import { judge, preconditionFailed } from '../http/files/preconditions.ts';
import { HttpResponse, JSON_TYPE } from '../http/response.ts';
import { SENT_REQUESTS, readSentRequest } from '../routing/spec.ts';
import { planSent } from '../routing/steps.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { OpenApiOptions } from './openapi.ts';
import type { Contact, DocumentedServer, License, OpenApiDocument } from './document.ts';
import type { HttpRequest } from '../http/contracts.ts';

/**
 * Validates the options of the OpenAPI document.
 * @throws SvcError `E_OPTION_UNKNOWN` for an unknown member, `E_OPTION_RANGE` for an invalid value
 */
export function readOpenApiOptions(options: OpenApiOptions): OpenApiOptions {
  const owner = 'openapi';
  const read = readOptions(owner, options, {
    description: text(),
    summary: text(),
    termsOfService: text(),
    contact: given<Contact>('{ name, url, email }', isRecord),
    license: given<License>('{ name, identifier or url }', isRecord),
    servers: given<readonly DocumentedServer[]>(
      'a list of { url, description }, at least one',
      (value) => Array.isArray(value) && value.length > 0 && value.every(isServer),
    ),
    tags: given<Readonly<Record<string, string>>>(
      'an object: descriptions by tag',
      (value) => isRecord(value) && Object.values(value as object).every((each) => typeof each === 'string'),
    ),
    webhooks: SENT_REQUESTS,
  });
  const contact =
    read.contact === undefined
      ? undefined
      : readOptions(`${owner}.contact`, read.contact, { name: text(), url: text(), email: text() });
  const license =
    read.license === undefined
      ? undefined
      : readOptions(`${owner}.license`, read.license, { name: text(), identifier: text(), url: text() });
  if (
    license !== undefined &&
    (license.name === undefined || (license.identifier !== undefined && license.url !== undefined))
  ) {
    throw new SvcError('E_OPTION_RANGE', [
      owner,
      'license',
      'must have "name", and at most one of "identifier" and "url"',
      shown(read.license),
    ]);
  }
  return {
    ...read,
    contact: contact && defined(contact),
    license: license && (defined(license) as License),
    webhooks: read.webhooks && readWebhooks(read.webhooks),
  };
}

/** Validates webhooks and compiles their schemas, so that an invalid schema prevents the start. */
function readWebhooks(
  webhooks: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): NonNullable<OpenApiOptions['webhooks']> {
  return Object.fromEntries(
    Object.entries(webhooks).map(([name, given]) => {
      const webhook = readSentRequest(`webhook ${name}`, given);
      planSent(webhook, `webhook ${name}`);
      return [name, webhook];
    }),
  );
}

/** Serves the OpenAPI document of one compiled application. */
export class OpenApiAnswer {
  readonly #view: () => CompilationView;
  readonly #options: OpenApiOptions;
  #document: OpenApiDocument | undefined;
  #response: HttpResponse | undefined;

  /** `view` is called once, when the document is first requested. */
  constructor(view: () => CompilationView, options: OpenApiOptions) {
    this.#view = view;
    this.#options = options;
  }

  get document(): OpenApiDocument {
    return (this.#document ??= openapiDocument(this.#view(), this.#options));
  }

  /**
   * Returns the document, or 304 if the client already has it.
   *
   * @throws HTTPException 412 when a condition of the request, such as `If-Match`, fails
   */
  answer(req: HttpRequest): HttpResponse {
    const response = (this.#response ??= responseOf(this.document));
    const verdict = judge(req, { etag: response.headers.get('ETag'), lastModified: undefined });
    if (verdict === 'failed') throw preconditionFailed();
    return verdict === 'not-modified' ? notModified(response.copy()) : response;
  }
}

function responseOf(document: OpenApiDocument): HttpResponse {
  const bytes = Buffer.from(JSON.stringify(document));
  const etag = `"${hash('sha256', bytes, 'base64url').slice(0, 22)}"`;
  return new HttpResponse(bytes, {
    mediaType: JSON_TYPE,
    // `no-cache` lets clients keep the document if they revalidate it before each use
    headers: { ETag: etag, 'Cache-Control': 'no-cache' },
  });
}

function isServer(value: unknown): boolean {
  return (
    isRecord(value) &&
    typeof (value as Partial<DocumentedServer>).url === 'string' &&
    Object.keys(value as object).every((key) => key === 'url' || key === 'description')
  );
}
