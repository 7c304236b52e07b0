/**
 * Reference implementation of the router: slow and plain. The fast router must agree with it.
 */

const PATTERNS: Readonly<Record<string, RegExp>> = {
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  int: /^-?(0|[1-9]\d*)$/,
  float: /^-?(0|[1-9]\d*)(\.\d+)?$/,
  str: /^[^]+$/,
  path: /^[^]+$/,
};
const ORDER = ['literal', 'uuid', 'int', 'float', 'str', 'path'];

export interface ReferenceRoute {
  readonly method: string;
  readonly template: string;
}
export type ReferenceMatch =
  | { readonly kind: 'found'; readonly route: ReferenceRoute; readonly captures: readonly string[] }
  | { readonly kind: 'wrong-method'; readonly methods: ReadonlySet<string> }
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed' };

/** Returns the captures and the kind of each segment if a template matches a path, else undefined. */
function fit(template: string, path: readonly string[]): { captures: string[]; kinds: number[] } | undefined {
  const segments = template.split('/').slice(1);
  const captures: string[] = [];
  const kinds: number[] = [];
  for (const [index, segment] of segments.entries()) {
    const [, , converter = 'str'] = /^\{(\w+)(?::(\w+))?\}$/.exec(segment) ?? [];
    const isParameter = segment.startsWith('{');
    const text = converter === 'path' ? path.slice(index).join('/') : path[index];
    if (text === undefined || (isParameter ? !PATTERNS[converter]!.test(text) : segment !== text))
      return undefined;
    if (
      (converter === 'int' && !Number.isSafeInteger(Number(text))) ||
      (converter === 'float' && !Number.isFinite(Number(text)))
    )
      return undefined;
    kinds.push(ORDER.indexOf(isParameter ? converter : 'literal'));
    if (isParameter) captures.push(text);
  }
  return template.includes(':path}') || segments.length === path.length ? { captures, kinds } : undefined;
}

/**
 * Finds the most specific route, segment by segment, among those that match the path and have the method.
 * HEAD follows GET.
 */
export function referenceMatch(
  routes: readonly ReferenceRoute[],
  method: string,
  path: string,
): ReferenceMatch {
  let segments: string[];
  try {
    segments = path.split('/').slice(1).map(decodeURIComponent);
  } catch {
    return { kind: 'malformed' };
  }
  const fits = routes.flatMap((route) => {
    const found = fit(route.template, segments);
    return found === undefined ? [] : [{ route, ...found }];
  });
  const having = (wanted: string): typeof fits => fits.filter(({ route }) => route.method === wanted);
  const heads = fits.filter(
    ({ route, kinds }) =>
      route.method === 'HEAD' ||
      (route.method === 'GET' && !having('HEAD').some((head) => head.kinds.join() === kinds.join())),
  );
  const able = (method === 'HEAD' ? heads : having(method)).sort((left, right) =>
    left.kinds.reduce((sign, kind, at) => sign || kind - right.kinds[at]!, 0),
  );
  if (able[0] !== undefined) return { kind: 'found', route: able[0].route, captures: able[0].captures };
  const methods = new Set(
    fits.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method])),
  );
  return fits.length === 0 ? { kind: 'none' } : { kind: 'wrong-method', methods: methods.add('OPTIONS') };
}
