/**
 * What is found between routes while they are compiled: two that want the same paths, or the same name.
 */
import { fileOfPlace } from './place.ts';
import type { Finding } from './findings.ts';
import type { CompiledRoute } from './http/contracts.ts';
import type { FlatRoute } from './route.ts';

/** What else may be done where the framework and a route want the same path. */
const OTHER_WAYS: Readonly<Record<string, string>> = {
  '/metrics': ', or the metrics a port of their own: ops: { metrics: { port } }', '/docs': ', or do without the page: enableDocs: false', '/openapi.json': ', or do without the document: enableDocs: false',
};

/** The framework answers there itself. */
export function hidden(route: CompiledRoute): Finding {
  return {
    rule: 'SVC102', severity: 'error', subject: `${route.method} ${route.template}`, place: route.place,
    message: `it can never be reached: ${route.template} belongs to the operations endpoints`,
    remedy: `Give the route another path${OTHER_WAYS[route.template] ?? ''}`,
  };
}

/** A static folder and a route of the very same paths: one of them is in vain. */
export function mounted(route: CompiledRoute, { template, place }: CompiledRoute): Finding {
  return {
    rule: 'SVC102', severity: 'error', subject: `${route.method} ${route.template}`, place: route.place,
    message: `the static folder mounted as ${template} at ${fileOfPlace(place)}:${place.line} has the same paths, and one of the two is never reached`,
    remedy: 'Give the route another path, or mount the folder elsewhere',
  };
}

/** Two routes that match the same. */
export function duplicate(route: CompiledRoute, first: CompiledRoute): Finding {
  return {
    rule: 'SVC101', severity: 'error', subject: `${route.method} ${route.template}`, place: route.place,
    message: `the same path and method are registered as ${first.template} at ${fileOfPlace(first.place)}:${first.place.line}`,
    remedy: 'Remove one of the two, or give it another path or method; parameter names do not tell paths apart',
  };
}

/** Of a route whose name an earlier one has. */
export function namedTwice(name: string, route: FlatRoute, earlier: FlatRoute): Finding {
  return {
    rule: 'SVC104', severity: 'error', subject: `${route.methods.join(', ')} ${route.template.template}`, place: route.declared.place,
    message: `the name "${name}" belongs to ${earlier.template.template} already`, remedy: 'Give each route a name of its own: urlFor() finds it by that',
  };
}
