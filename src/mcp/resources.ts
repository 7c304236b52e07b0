/**
 * MCP resources: contents that clients read by a URI, which may have parameters. A resource of the
 * application is a function, which is called as a route handler. This package adds two resources: the list of
 * routes, and the OpenAPI document.
 */
import { SvcError } from '../base/errors.ts';
import { defined, jsonOf } from '../base/options.ts';
import { toBase64 } from '../schema/formats.ts';
import { BYTES_TYPE } from '../http/response.ts';
import { INTERNAL_ERROR, RpcError } from './messages.ts';
import { PlannedPrompt, refusalOf } from './prompts.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { PlannedTool } from './tools.ts';

/** The content of a resource: text, or bytes in base64. */
export type ResourceContent = { readonly text: string } | { readonly blob: string };

/** The key in a route's `meta` that marks it as a resource. */
export const RESOURCE = 'mcp resource';
export interface DeclaredResource {
  readonly uri: string;
  readonly name: string;
  readonly mimeType: string;
}

const URI =
  /^[a-z][a-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}|\{[A-Za-z_][A-Za-z0-9_]*\})+$/;
const PARAMETER = /\{([A-Za-z_][A-Za-z0-9_]*)\}/;

export function parametersOf(uri: string): readonly string[] {
  if (typeof uri !== 'string' || !URI.test(uri) || uri.startsWith('svc:'))
    throw new SvcError('E_MCP_NAME', [
      String(uri),
      'is not a valid URI of a resource: use a URI such as "notes://{id}"; the scheme "svc:" is reserved',
    ]);
  const names = uri.split(PARAMETER).filter((_, index) => index % 2 === 1);
  if (new Set(names).size < names.length)
    throw new SvcError('E_MCP_NAME', [uri, 'has two parameters of the same name']);
  return names;
}

export class PlannedResource extends PlannedPrompt {
  readonly uri: string;
  readonly mimeType: string;
  readonly #parameters: readonly string[];
  readonly #pattern: RegExp;

  constructor(detail: RouteDetail) {
    const { uri, name, mimeType } = detail.route.meta[RESOURCE] as DeclaredResource;
    super(name, detail);
    this.uri = uri;
    this.mimeType = mimeType;
    this.#parameters = parametersOf(uri);
    const parts = uri.split(PARAMETER);
    this.#pattern = new RegExp(
      `^${parts.map((part, index) => (index % 2 === 1 ? '([^/?#]+)' : RegExp.escape(part))).join('')}$`,
    );
  }

  /** Whether the URI has parameters. */
  get isTemplate(): boolean {
    return this.#parameters.length > 0;
  }

  /** Returns the values of the URI's parameters; undefined if it does not match. */
  match(uri: string): JsonObject | undefined {
    const found = this.#pattern.exec(uri);
    if (found === null) return undefined;
    try {
      return Object.fromEntries(
        this.#parameters.map((name, index) => [name, decodeURIComponent(found[index + 1]!)] as const),
      );
    } catch {
      return undefined;
    }
  }

  override definition(dialect: Dialect): JsonObject {
    const { arguments: _, ...about } = super.definition(dialect);
    const { uri, mimeType } = this;
    return { ...(this.isTemplate ? { uriTemplate: uri } : { uri }), ...about, mimeType };
  }
}

/** Converts the response of a resource's function to the content for the client. */
export async function contentOf(response: Response, maxBytes: number): Promise<ResourceContent> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (!response.ok) throw refusalOf(response.status, jsonOf(new TextDecoder().decode(bytes)));
  if (bytes.length > maxBytes)
    throw new RpcError(
      INTERNAL_ERROR,
      `The content of the resource is larger than ${maxBytes} bytes: raise the option maxResultBytes`,
    );
  return response.headers.get('content-type') === BYTES_TYPE
    ? { blob: toBase64(bytes) }
    : { text: new TextDecoder().decode(bytes) };
}

export interface Resource {
  readonly uri: string;
  readonly mimeType: string;
  definition(dialect: Dialect): JsonObject;
  read(): string;
}

export function resourcesOf(
  app: { openapi(): unknown },
  toolset: { readonly tools: readonly PlannedTool[] },
): readonly Resource[] {
  const about = 'The routes behind the tools: method, path, and what each asks of its caller';
  const document = 'The OpenAPI 3.1 document of the application';
  return [
    resource('routes', 'Routes', about, () => routesText(toolset)),
    resource('openapi.json', 'OpenAPI', document, () => JSON.stringify(app.openapi())),
  ];
}

function resource(name: string, title: string, description: string, read: () => string): Resource {
  const uri = `svc://${name}`;
  const mimeType = 'application/json';
  return {
    uri,
    mimeType,
    read,
    definition: ({ hasStructure }) =>
      defined({ uri, name, title: hasStructure ? title : undefined, description, mimeType }),
  };
}

function routesText({ tools }: { readonly tools: readonly PlannedTool[] }): string {
  const routes = tools
    .filter(({ isFunction }) => !isFunction)
    .map(({ name, detail: { route, declared } }) => ({
      tool: name,
      method: route.method,
      path: route.template,
      name: route.name,
      summary: declared.spec.summary,
      security: route.security.map(({ scheme, scopes, roles, isOptional }) => ({
        scheme,
        scopes,
        roles,
        isOptional,
      })),
    }));
  return JSON.stringify({ routes });
}
