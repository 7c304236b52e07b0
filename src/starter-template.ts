/**
 * What a file of a new project is made of.
 */

/** Where the package comes from: the registry, a copy in the project, or the copy that runs at this moment. */
export type PackageSource = 'registry' | 'vendor' | 'link';

/** What the texts are made for. */
export interface StarterOptions {
  /** The name in package.json: one that `isPackageName()` accepts, so it needs no escaping anywhere. */
  readonly name: string;
  readonly source: PackageSource;
  /** What stands for `svc` under `dependencies`. */
  readonly dependency: string;
  /** The range of Node that the package needs. */
  readonly engine: string;
  /** For `.env` only: it signs sessions and tokens. */
  readonly secret: string;
  /** For `.env` only: the password of the database that compose.yaml starts. */
  readonly password: string;
}

/** The text of a file. */
export type Template = (options: StarterOptions) => string;
