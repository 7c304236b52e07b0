/**
 * The versions of the Model Context Protocol that are spoken, and what each of them has.
 *
 *   legacy   2024-11-05 … 2025-11-25   `initialize` agrees on a version for the process, or for the session
 *   modern   2026-07-28                every request says its version; nothing is remembered between two of them
 */

/** What a version has, as far as answers differ. */
export interface Dialect {
  readonly version: string;
  /** Every request says version and capabilities; results say what kind they are, and how long they may be kept. */
  readonly isModern: boolean;
  /** Tools have `annotations`, progress has a `message`, content may be `audio`: since 2025-03-26. */
  readonly hasAnnotations: boolean;
  /** Several messages may come in one array: until 2025-03-26. */
  readonly hasBatches: boolean;
  /** Tools have `title`, `outputSchema` and `structuredContent`: since 2025-06-18. */
  readonly hasStructure: boolean;
  /** `structuredContent` is any value, not only an object: since 2026-07-28. */
  readonly hasAnyStructure: boolean;
  /** A message about one that has no readable id has none either; before, it says null as JSON-RPC does: since 2025-11-25. */
  readonly omitsUnknownIds: boolean;
}

function dialect(version: string): Dialect {
  return {
    version, isModern: version >= '2026', hasAnnotations: version >= '2025-03-26', hasBatches: version <= '2025-03-26', hasStructure: version >= '2025-06-18',
    hasAnyStructure: version >= '2026', omitsUnknownIds: version >= '2025-11-25',
  };
}

/** The oldest first. */
export const LEGACY: readonly Dialect[] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'].map(dialect);
/** The newest first: the one to prefer stands in front. */
export const MODERN: readonly Dialect[] = ['2026-07-28'].map(dialect);

/** What `initialize` offers whoever asks for a version that it does not know. */
export const NEWEST_LEGACY: Dialect = LEGACY.at(-1)!;
/** What every version since 2025-06-18 has: used where nobody has said which one. */
export const NEWEST: Dialect = MODERN[0]!;
/** Of a request over HTTP that says none: it had no field for it. */
export const UNSAID: Dialect = LEGACY.find(({ version }) => version === '2025-03-26')!;

/** What error -32022 lists: every version that is spoken, however it is agreed on. */
export const SUPPORTED: readonly string[] = [...MODERN, ...LEGACY.toReversed()].map(({ version }) => version);

/** The legacy version of that name. */
export function legacyDialect(version: unknown): Dialect | undefined { return LEGACY.find((known) => known.version === version); }
/** The modern version of that name. */
export function modernDialect(version: unknown): Dialect | undefined { return MODERN.find((known) => known.version === version); }
