/**
 * Types for the parts of an OpenAPI 3.1 document that this package writes. They are plain JSON with the names
 * of the specification.
 */
import type { JsonSchema } from '../schema/json-schema.ts';

/** A reference to a part under `components` (OpenAPI 3.1 §4.8.23). */
export interface Reference {
  readonly $ref: string;
  /** Replaces the description of the referenced part. */
  readonly description?: string;
}

/** A parameter (OpenAPI 3.1 §4.8.12). */
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header' | 'cookie';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
  /** Form in which a list is sent, if it differs from the default for `in` (OpenAPI 3.1 §4.8.12.2). */
  readonly style?: 'form';
  readonly explode?: false;
  readonly example?: unknown;
}

/** Encoding of a form field (OpenAPI 3.1 §4.8.15). */
export interface Encoding {
  readonly contentType?: string;
  readonly style?: 'form';
  readonly explode?: false;
}

/** Content of a body in one media type (OpenAPI 3.1 §4.8.14). */
export interface MediaType {
  readonly schema: JsonSchema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
  readonly encoding?: Readonly<Record<string, Encoding>>;
}

/** Request body (OpenAPI 3.1 §4.8.13). */
export interface RequestBody {
  readonly required: boolean;
  readonly content: Readonly<Record<string, MediaType>>;
}

/** Response (OpenAPI 3.1 §4.8.17). */
export interface DocumentedResponse {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

/**
 * Security requirements. Any one object of the list is sufficient; all schemes in that object are needed
 * (OpenAPI 3.1 §4.8.30).
 */
export type SecurityAlternatives = readonly Readonly<Record<string, readonly never[]>>[];

/** An operation: one method of a path (OpenAPI 3.1 §4.8.10). */
export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly deprecated?: true;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: RequestBody;
  readonly responses: Readonly<Record<string, DocumentedResponse | Reference>>;
  readonly security: SecurityAlternatives;
  /**
   * Callbacks, by name and URL: requests that the application sends because of this operation (OpenAPI 3.1
   * §4.8.18).
   */
  readonly callbacks?: Readonly<Record<string, Readonly<Record<string, SentItem>>>>;
  /** Required scopes and roles: all of the scopes, and any one of the roles. */
  readonly 'x-svc-requires'?: readonly {
    readonly scheme: string;
    readonly scopes: readonly string[];
    readonly roles: readonly string[];
  }[];
}

/**
 * Methods that the document lists. HEAD exists wherever GET does, and OPTIONS for every path, so they are not
 * listed.
 */
export type DocumentedMethod = 'get' | 'put' | 'post' | 'delete' | 'patch' | 'trace';
/** The operations of a path (OpenAPI 3.1 §4.8.9). */
export type PathItem = { readonly [M in DocumentedMethod]?: Operation };

/** An operation of a webhook or callback, which the application sends to another server. */
export type SentOperation = Omit<Operation, 'tags' | 'callbacks' | 'x-svc-requires'>;
/** Requests that the application sends to one address (OpenAPI 3.1 §4.8.9). */
export type SentItem = { readonly [M in DocumentedMethod]?: SentOperation };

/** Address of the application (OpenAPI 3.1 §4.8.5). */
export interface DocumentedServer {
  /** Absolute URL, or relative to the URL of the document. */
  readonly url: string;
  /** Name of the server for readers of the document. */
  readonly description?: string | undefined;
}

/** Contact information (OpenAPI 3.1 §4.8.3). */
export interface Contact {
  /** Name of the person or organisation. */
  readonly name?: string | undefined;
  /** URL of a page with contact information. */
  readonly url?: string | undefined;
  /** Email address. */
  readonly email?: string | undefined;
}

/** Licence of the interface (OpenAPI 3.1 §4.8.4). */
export interface License {
  /** Name of the license, such as `MIT`. */
  readonly name: string;
  /** An SPDX expression, such as `Apache-2.0`. Give either this or `url`. */
  readonly identifier?: string | undefined;
  /** URL of the text of the license. */
  readonly url?: string | undefined;
}

/** An OpenAPI document (OpenAPI 3.1 §4.8.1). */
export interface OpenApiDocument {
  readonly openapi: '3.1.1';
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary?: string | undefined;
    readonly description?: string | undefined;
    readonly termsOfService?: string | undefined;
    readonly contact?: Contact | undefined;
    readonly license?: License | undefined;
  };
  readonly servers: readonly DocumentedServer[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, PathItem>>;
  /** Webhooks: requests that the application sends to subscribers, by name. */
  readonly webhooks?: Readonly<Record<string, SentItem>>;
  /** Shared definitions, to which other parts of the document refer. */
  readonly components: {
    readonly schemas?: Readonly<Record<string, JsonSchema>>;
    readonly responses?: Readonly<Record<string, DocumentedResponse>>;
    readonly headers?: Readonly<Record<string, unknown>>;
    readonly securitySchemes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
}
