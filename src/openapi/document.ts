/**
 * The parts of an OpenAPI 3.1 document that this package writes, as types: plain JSON, each part named as the specification does.
 */
import type { JsonSchema } from '../schema/json-schema.ts';

/** A part that is written once, under `components`. */
export interface Reference {
  readonly $ref: string;
  /** In place of that of the part. */
  readonly description?: string;
}

/** A parameter (§4.8.12). */
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header' | 'cookie';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
  /** How a list becomes text, where that is not as its place has it (§4.8.12.2). */
  readonly style?: 'form';
  readonly explode?: false;
  readonly example?: unknown;
}

/** How a member of a form is written (§4.8.15). */
export interface Encoding {
  readonly contentType?: string;
  readonly style?: 'form';
  readonly explode?: false;
}

/** A form of a body (§4.8.14). */
export interface MediaType {
  readonly schema: JsonSchema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
  readonly encoding?: Readonly<Record<string, Encoding>>;
}

/** What a request brings (§4.8.13). */
export interface RequestBody {
  readonly required: boolean;
  readonly content: Readonly<Record<string, MediaType>>;
}

/** An answer (§4.8.17). */
export interface DocumentedResponse {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

/** All schemes of one of these are needed together; any one of a list is enough (§4.8.30). */
export type SecurityAlternatives = readonly Readonly<Record<string, readonly never[]>>[];

/** One method of a path (§4.8.10). */
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
  /** Requests that the application sends because of this one, by name and address (§4.8.18). */
  readonly callbacks?: Readonly<Record<string, Readonly<Record<string, SentItem>>>>;
  /** All scopes and any role of each. */
  readonly 'x-svc-requires'?: readonly {
    readonly scheme: string;
    readonly scopes: readonly string[];
    readonly roles: readonly string[];
  }[];
}

/** Methods of a path item that an application declares; HEAD follows GET, and OPTIONS is answered for every path. */
export type DocumentedMethod = 'get' | 'put' | 'post' | 'delete' | 'patch' | 'trace';
/** The operations of a path (§4.8.9). */
export type PathItem = { readonly [M in DocumentedMethod]?: Operation };

/** A request that the application sends: an operation of another server, of whose credentials nothing is known. */
export type SentOperation = Omit<Operation, 'tags' | 'callbacks' | 'x-svc-requires'>;
/** Requests that the application sends to one address (§4.8.9). */
export type SentItem = { readonly [M in DocumentedMethod]?: SentOperation };

/** Where the application is served (§4.8.5). */
export interface DocumentedServer {
  /** Absolute, or relative to where the document is. */
  readonly url: string;
  readonly description?: string | undefined;
}

/** Whom to ask (§4.8.3). */
export interface Contact {
  readonly name?: string | undefined;
  readonly url?: string | undefined;
  readonly email?: string | undefined;
}

/** On which terms the interface may be used (§4.8.4). */
export interface License {
  readonly name: string;
  /** An SPDX expression, such as `Apache-2.0`; or a `url`, not both. */
  readonly identifier?: string | undefined;
  readonly url?: string | undefined;
}

/** An OpenAPI document (§4.8.1). */
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
  /** By name. */
  readonly webhooks?: Readonly<Record<string, SentItem>>;
  /** Those that are used. */
  readonly components: {
    readonly schemas?: Readonly<Record<string, JsonSchema>>;
    readonly responses?: Readonly<Record<string, DocumentedResponse>>;
    readonly headers?: Readonly<Record<string, unknown>>;
    readonly securitySchemes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
}
