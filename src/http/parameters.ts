/**
 * Values of header fields that have parameters (RFC 9110 §5.6.6): media types, codings, dispositions.
 */

/** A media type or similar value with parameters: `text/html; charset="utf-8"` (RFC 9110 §5.6.6, §8.3.1). */
export interface Parameterised {
  /** In lower case. */
  readonly value: string;
  /** By lower-case name; quoted values unquoted. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Reads a value with parameters. Anything malformed after the value is left out: the value alone decides in doubt. */
export function parseParameters(field: string): Parameterised {
  const semicolon = field.indexOf(';');
  if (semicolon === -1) return { value: field.trim().toLowerCase(), parameters: new Map() };
  const parameters = new Map<string, string>();
  const pattern = /;[ \t]*(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)|"((?:[^"\\]|\\.)*)"))?[ \t]*/y;
  pattern.lastIndex = semicolon;
  for (let match = pattern.exec(field); match !== null; match = pattern.exec(field)) {
    const name = match[1]?.toLowerCase();
    if (name !== undefined && !parameters.has(name)) parameters.set(name, match[2] ?? match[3]!.replace(/\\(.)/g, '$1'));
  }
  return { value: field.slice(0, semicolon).trim().toLowerCase(), parameters };
}
