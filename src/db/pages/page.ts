/**
 * Schema of the response for a page, and links between pages (RFC 8288).
 */
import type { HttpRequest } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';

/** Query parameters of linked pages by link relation: `next`, `prev`, `first`, `last`. */
type PageLinks = Readonly<Record<string, Readonly<Record<string, string>> | undefined>>;

/**
 * Returns the `Link` header of a response. Each link is a relative URL that consists of the query of the
 * request, with other values for the parameters in `links`. So links also work behind a proxy that changes
 * the path. If there is no request, returns no header.
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
 * Returns a function that makes the schema of a page from the schema of its items. The page schemas are
 * cached. The name of a page schema, which API documents show, begins with the name of the item schema.
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
