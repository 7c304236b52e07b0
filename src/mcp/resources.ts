/**
 * The package's own resources: the list of routes that are tools, and the OpenAPI document.
 */
import type { McpApplication, Toolset } from './calls.ts';
import type { Dialect } from './messages.ts';

/** A resource of the package. */
export interface Resource {
  readonly uri: string;
  definition(dialect: Dialect): {
    readonly uri: string;
    readonly name: string;
    readonly title?: string;
    readonly description: string;
    readonly mimeType: string;
  };
  read(): string;
}

/** Returns the package's resources for an application. */
export function resourcesOf(app: McpApplication, toolset: Toolset): readonly Resource[] {
  return [
    resource(
      'svc://routes',
      'routes',
      'Routes',
      'The routes behind the tools: method, path, and what each asks of its caller',
      () => routesText(toolset),
    ),
    resource(
      'svc://openapi.json',
      'openapi.json',
      'OpenAPI',
      'The OpenAPI 3.1 document of the application',
      () => JSON.stringify(app.openapi()),
    ),
  ];
}

function resource(
  uri: string,
  name: string,
  title: string,
  description: string,
  read: () => string,
): Resource {
  return {
    uri,
    read,
    definition: ({ hasStructure }) => ({
      uri,
      name,
      ...(hasStructure ? { title } : {}),
      description,
      mimeType: 'application/json',
    }),
  };
}

function routesText({ tools }: Toolset): string {
  return JSON.stringify({
    routes: tools
      .filter(({ isFunction }) => !isFunction)
      .map(
        ({
          name,
          detail: {
            route,
            declared: { spec },
          },
        }) => ({
          tool: name,
          method: route.method,
          path: route.template,
          name: route.name,
          summary: spec.summary,
          security: route.security.map(({ scheme, scopes, roles }) => ({ scheme, scopes, roles })),
        }),
      ),
  });
}
