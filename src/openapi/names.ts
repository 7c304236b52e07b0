/**
 * Names in an OpenAPI document: ids and titles of operations, tags, and names that must be unique.
 */
import { takesRest } from '../http/path.ts';
import type { RouteDetail } from '../routing/compile.ts';

/** Returns the name, followed by a number if the name is taken. Adds the result to `taken`. */
export function uniqueName(wanted: string, taken: Set<string>, separator = ''): string {
  let name = wanted;
  for (let n = 2; taken.has(name); n++) name = `${wanted}${separator}${n}`;
  taken.add(name);
  return name;
}

/** Replaces characters that would need escaping in a URL, because links to an operation contain its id. */
export function identifier(name: string): string {
  return name.replace(/[^A-Za-z0-9._~-]+/g, '_');
}

/**
 * Returns the id that an operation should have: the route's name, or else one made from method and path, such as
 * `getNotesById` for `GET /notes/{id}`.
 */
export function wantedId({ route, declared: { methods, template } }: RouteDetail): string {
  const method = route.method.toLowerCase();
  if (route.name !== undefined) {
    const last = template.template === route.template ? undefined : template.parameters.at(-1);
    const suffix = takesRest(last) ? `By${capitals(last!.name)}` : ''; // defined, because it takes the rest
    return (methods.length === 1 ? identifier(route.name) : method + capitals(route.name)) + suffix;
  }
  const parts = template.literals.map((literal, index) => {
    const parameter = template.parameters[index];
    return capitals(literal) + (parameter === undefined ? '' : `By${capitals(parameter.name)}`);
  });
  return method + (parts.join('') || 'Root');
}

/** Returns `/api/note-books` as `ApiNoteBooks`. */
export function capitals(text: string): string {
  return text
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

/**
 * Converts the name of a route to a title: `createUser` and `create_user` become `Create user`. A route
 * without a name gets its method and path.
 */
export function titleOf({ route, declared }: RouteDetail): string {
  if (route.name === undefined)
    return `${route.method} ${declared.template.template.replace(/:[a-z]+\}/g, '}')}`;
  const words = route.name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/[_.\s-]+/g, ' ')
    .trim()
    .toLowerCase();
  return words === '' ? route.name : words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Returns the tags of a route, without duplicates. Default: the first literal segment of its path, except
 * `api` and versions such as `v1`.
 */
export function tagsOf({ declared: { tags, template } }: RouteDetail): readonly string[] {
  if (tags.length > 0) return [...new Set(tags)];
  const words = template.template.split('/').filter((word) => word !== '' && !word.startsWith('{'));
  return [words.find((word) => word !== 'api' && !/^v\d+$/.test(word)) ?? words[0] ?? 'root'];
}

/** Returns the longest path without parameters with which all templates begin. */
export function commonPath(templates: readonly string[]): string {
  const [first = [], ...others] = templates.map((template) => template.split('/'));
  const end = first.findIndex(
    (segment, index) => segment.startsWith('{') || others.some((other) => other[index] !== segment),
  );
  return first.slice(0, end === -1 ? undefined : end).join('/') || '/';
}
