/** Creates the response schema of a page, and its `Link` header with the URLs of other pages (RFC 8288). */
import { onePer } from '../../base/options.ts';
import { splitQuery } from '../../http/path.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';

/** Query parameters of each linked page, by link relation: `next`, `prev`, `first`, `last`. */
type PageLinks = Readonly<Record<string, Readonly<Record<string, string>> | undefined>>;

/**
 * Returns the `Link` header of a page, or no header without a request. A link is a query string, such as
 * `?page=3&size=20`. It has no path, because a proxy may change paths.
 */
export function linkHeaders(
  req: HttpRequest | undefined,
  links: PageLinks,
): Readonly<Record<string, string>> {
  if (req === undefined) return {};
  const [, query] = splitQuery(req.target);
  const texts = Object.entries(links).flatMap(([rel, changes]) => {
    if (changes === undefined) return [];
    const params = new URLSearchParams(query);
    params.delete('cursor');
    params.delete('page');
    for (const [name, value] of Object.entries(changes)) params.set(name, value);
    return [`<?${params.toString()}>; rel="${rel}"`];
  });
  return texts.length === 0 ? {} : { Link: texts.join(', ') };
}

/**
 * Returns a function that creates the schema of a page for an item schema, and caches it. For the item schema
 * `Note` and the suffix `Page`, the page schema has the name `NotePage`.
 */
export function pageSchemas(
  suffix: string,
  make: (Item: SchemaClass) => SchemaClass,
): (Item: SchemaClass) => SchemaClass {
  return onePer((Item) => {
    const Page = make(Item);
    Object.defineProperty(Page, 'name', { value: `${Item.name}${suffix}` });
    return Page;
  });
}
