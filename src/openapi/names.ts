/**
 * Names in an OpenAPI document: paths, operations, tags. The same declarations always have the same names.
 */
import { encodeLiteral } from '../http/path.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { ParsedTemplate } from '../http/path.ts';

/** The path of a template with these names for its parameters: literal text encoded as it is sent. */
export function documentedPath({ literals, parameters }: ParsedTemplate, names: readonly string[]): string {
  return (
    parameters.map((_, index) => `${encodeLiteral(literals[index]!)}{${names[index]!}}`).join('') +
    encodeLiteral(literals.at(-1)!)
  );
}

/** Every template of one shape is one path to OpenAPI (§4.8.8), whatever its parameters are called and converted by. */
export function shapeOf(template: ParsedTemplate): string {
  return documentedPath(
    template,
    template.parameters.map(() => ''),
  );
}

/**
 * What generated clients call an operation: the name of its route, which is unique already; else its method and path,
 * `GET /notes/{id}` as `getNotesById`. Names that would be the same are numbered in order of declaration.
 */
export function operationIds(details: readonly RouteDetail[]): ReadonlyMap<RouteDetail, string> {
  const taken = new Set<string>();
  const ids = new Map<RouteDetail, string>();
  const give = (detail: RouteDetail, wanted: string): void => {
    let id = wanted;
    for (let n = 2; taken.has(id); n++) id = `${wanted}${n}`;
    taken.add(id);
    ids.set(detail, id);
  };
  for (const detail of details) {
    const { name } = detail.route;
    if (name !== undefined)
      give(
        detail,
        detail.declared.methods.length === 1
          ? identifier(name)
          : detail.route.method.toLowerCase() + capitals(name),
      );
  }
  for (const detail of details) if (detail.route.name === undefined) give(detail, derivedId(detail));
  return ids;
}

/** Characters that mean something in a URL are left out: documents are linked to by these names. */
function identifier(name: string): string {
  return name.replace(/[^A-Za-z0-9._~-]+/g, '_');
}

function derivedId({ route, declared: { template } }: RouteDetail): string {
  const parts = template.literals.map((literal, index) => {
    const parameter = template.parameters[index];
    return capitals(literal) + (parameter === undefined ? '' : `By${capitals(parameter.name)}`);
  });
  const path = parts.join('');
  return route.method.toLowerCase() + (path === '' ? 'Root' : path);
}

/** `/api/note-books` as `ApiNoteBooks`. */
function capitals(text: string): string {
  return text
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

/** `createUser`, `create_user` as `Create user`; the method and path of a route without name. */
export function titleOf({ route }: RouteDetail): string {
  if (route.name === undefined) return `${route.method} ${route.template.replace(/:[a-z]+\}/g, '}')}`;
  const words = route.name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/[_.\s-]+/g, ' ')
    .trim()
    .toLowerCase();
  return words === '' ? route.name : words.charAt(0).toUpperCase() + words.slice(1);
}

/** The tags of a route, each once; without any, the first word of its path that tells paths apart. */
export function tagsOf({ declared: { tags, template } }: RouteDetail): readonly string[] {
  if (tags.length > 0) return [...new Set(tags)];
  const words = template.template.split('/').filter((word) => word !== '' && !word.startsWith('{'));
  return [words.find((word) => word !== 'api' && !/^v\d+$/.test(word)) ?? words[0] ?? 'root'];
}

/** The path that all templates begin with, segment by segment. */
export function commonPath(templates: readonly string[]): string {
  const [first = '/', ...others] = templates;
  const segments = first.split('/');
  let length = segments.findIndex((segment) => segment.startsWith('{'));
  if (length === -1) length = segments.length;
  for (const other of others) {
    const theirs = other.split('/');
    let same = 0;
    while (same < length && segments[same] === theirs[same]) same++;
    length = same;
  }
  const path = segments.slice(0, length).join('/');
  return path === '' ? '/' : path;
}
