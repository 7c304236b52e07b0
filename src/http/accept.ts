/**
 * Content codings: which of those on offer a client wants most (RFC 9110 §12.5.3).
 *
 *   Accept-Encoding: gzip;q=0.8, br, *;q=0          members with a weight 0 … 1, three decimals; "*" is what is not named
 */

/** `coding [ ; q=weight ]`, white space around each part (RFC 9110 §12.4.2). Three decimals fit thousandths. */
const MEMBER = /^[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*(?:;[ \t]*q=(?:(1(?:\.0{0,3})?)|0(?:\.(\d{0,3}))?)[ \t]*)?$/i;

/** More members say nothing new: of a longer field the rest is not read. */
const MAX_MEMBERS = 32;

/**
 * The coding to answer with, or undefined for the content as it is. Of equal weights the first of `offered` wins, so that
 * comes in order of preference, in lower case; content as it is comes last unless `identity` has a greater weight.
 *
 * Without the field, or with an empty one, nothing is coded. A malformed member is as if it were not there; of two members
 * for one coding the first counts; `x-gzip` is `gzip` (§8.4.1.3). Who refuses even `identity` gets it nevertheless, where
 * nothing else fits: the RFC leaves that open, and an answer is worth more than a 406.
 */
export function negotiateEncoding<const C extends string>(header: string | undefined, offered: readonly C[]): C | undefined {
  if (header === undefined || header === '' || offered.length === 0) return undefined;
  const weights = weightsOf(header);
  const others = weights.get('*') ?? 0;
  let best: C | undefined;
  let bestWeight = 0;
  for (const coding of offered) {
    const weight = weights.get(coding) ?? others;
    if (weight > bestWeight) [best, bestWeight] = [coding, weight];
  }
  return bestWeight >= (weights.get('identity') ?? 0) ? best : undefined;
}

/** Weights in thousandths by coding in lower case. */
function weightsOf(header: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const member of header.split(',', MAX_MEMBERS)) {
    const match = MEMBER.exec(member);
    if (match === null) continue;
    const [, name, one, decimals] = match as unknown as [string, string, string?, string?];
    const isFull = one !== undefined || !member.includes(';');
    const coding = name.toLowerCase() === 'x-gzip' ? 'gzip' : name.toLowerCase();
    if (!weights.has(coding)) weights.set(coding, isFull ? 1_000 : Number((decimals ?? '').padEnd(3, '0')));
  }
  return weights;
}
