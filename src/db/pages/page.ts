/**
 * Pages: the schema of their response, and the links between them (RFC 8288).
 */
import type { HttpRequest } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';

/** Query parameters by their relation to this page: `next`, `prev`, `first`, `last`. */
type PageLinks = Readonly<Record<string, Readonly<Record<string, string>> | undefined>>;

/**
 * Returns the `Link` header of a response. Each link is the query of the request with other parameters, as a
 * relative URL, so that it also works behind a proxy with another path. Returns no header without a request.
 */
export function linkHeaders(
  req: HttpRequest | undefined,
  links: PageLinks,
): Readonly<Record<string, string>> {
  if (req === undefined) return {};
  const query = req.target.split('?', 2)[1] ?? '';
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
 * Caches the page schema for each schema of items. The page gets a name after its items, for API documents.
 */
export function pageSchemas(
  suffix: string,
  make: (Item: SchemaClass) => SchemaClass,
): (Item: SchemaClass) => SchemaClass {
  const made = new WeakMap<SchemaClass, SchemaClass>();
  return (Item) => {
    let Page = made.get(Item);
    if (Page === undefined) {
      Page = make(Item);
      Object.defineProperty(Page, 'name', { value: `${Item.name}${suffix}` });
      made.set(Item, Page);
    }
    return Page;
  };
}
