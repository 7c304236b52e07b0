/**
 * What is kept of a session as text, and what is left out when it does not fit.
 */
import type { SessionData, StoredSession } from './values.ts';

/** The text of a session; `id` where nothing else names it. */
export function encoded({ values, flashes }: SessionData, bornSeconds: number, id?: string): string {
  return JSON.stringify({
    i: id,
    b: bornSeconds,
    v: Object.fromEntries(values),
    f: flashes.length === 0 ? undefined : flashes.map(({ kind, text }) => [kind, text]),
  });
}

/** What {@link encoded} wrote; undefined for anything else, which only another version of the program can have written. */
export function decoded(text: string): StoredSession | undefined {
  const { i: id = '', b: bornSeconds, v: values, f: flashes = [] } = jsonObject(text);
  if (
    typeof id !== 'string' ||
    typeof bornSeconds !== 'number' ||
    typeof values !== 'object' ||
    values === null ||
    !Array.isArray(flashes)
  )
    return undefined;
  const pairs = flashes.filter((flash) => Array.isArray(flash)) as readonly (readonly unknown[])[];
  return {
    id,
    bornSeconds,
    text,
    data: {
      values: new Map(Object.entries(values)), // members named __proto__ are entries like any other
      flashes: pairs.map(([kind, message]) => ({ kind: String(kind), text: String(message) })),
    },
  };
}

function jsonObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}

/** A session as it would be kept, and how much room that takes. */
export interface Written {
  readonly text: string;
  readonly bytes: number;
}

/**
 * What `write` makes of the session with as many of its newest messages as there is room for: values are worth more, and a
 * message often repeats what a client has sent. Too many bytes when not even the values fit.
 */
export function fitted(data: SessionData, mostBytes: number, write: (data: SessionData) => Written): Written {
  let written = write(data);
  if (written.bytes <= mostBytes || data.flashes.length === 0) return written;
  const bare = write({ ...data, flashes: [] });
  if (bare.bytes > mostBytes) return bare;
  for (let dropped = 1; dropped < data.flashes.length; dropped++) {
    written = write({ ...data, flashes: data.flashes.slice(dropped) });
    if (written.bytes <= mostBytes) return written;
  }
  return bare;
}
