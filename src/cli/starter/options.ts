/**
 * Options of a new project, and the form of the texts in `template/` that are made from them.
 */

/** Source of the package `svc`: the registry, a copy inside the project, or a link to the copy that runs `svc new`. */
export type PackageSource = 'registry' | 'vendor' | 'link';

/** Values that the texts of a new project contain. */
export interface StarterOptions {
  /** Name in package.json. `isPackageName()` accepts it, so no text needs to escape it. */
  readonly name: string;
  readonly source: PackageSource;
  /** Version or address of `svc` under `dependencies`. */
  readonly dependency: string;
  /** Range of Node versions that the package needs. */
  readonly engine: string;
  /** Secret that signs sessions and tokens; only `.env` has it. */
  readonly secret: string;
  /** Password of the database that compose.yaml starts; only `.env` has it. */
  readonly password: string;
}

/** Returns the text of one file. */
export type Template = (options: StarterOptions) => string;
