/**
 * The files that `svc new` writes: a path, and the text for a project. Nothing is read or written here; cli/new.ts does.
 */
import {
  CI,
  COMPOSE,
  DOCKERFILE,
  DOCKERIGNORE,
  ENV,
  ENV_EXAMPLE,
  GITIGNORE,
  MANIFEST,
  README,
  TSCONFIG,
} from './files.ts';
import {
  APP,
  LIVE,
  LIVE_PAGE,
  LOGIN,
  MIGRATION_DOWN,
  MIGRATION_UP,
  NOTES,
  PAGE,
  PEOPLE,
  SETTINGS,
} from './sources.ts';
import { APP_TEST, LIVE_TEST, NOTES_TEST } from './tests.ts';
import type { StarterOptions, Template } from './files.ts';

/** A file of the project. */
export interface StarterFile {
  /** Relative, with slashes. */
  readonly path: string;
  readonly text: string;
  /** Only its owner may read it. */
  readonly isPrivate: boolean;
}

/** Every file of a new project, in the order in which a reader wants them. */
export function starterFiles(options: StarterOptions): readonly StarterFile[] {
  return Object.entries(TEMPLATES).map(([path, text]) => ({
    path,
    text: text(options),
    isPrivate: path === '.env',
  }));
}

/** Whether npm takes it as the name of a package, and nothing resolves to another one by it. */
export function isPackageName(name: string): boolean {
  return (
    name.length <= 214 &&
    /^(?:@[a-z0-9-][a-z0-9._-]*\/)?[a-z0-9-][a-z0-9._-]*$/.test(name) &&
    !TAKEN.has(name)
  );
}

/** `svc` is what the project depends on; npm refuses the others. */
const TAKEN: ReadonlySet<string> = new Set(['svc', 'node_modules', 'favicon.ico']);

const TEMPLATES: Readonly<Record<string, Template>> = {
  'README.md': README,
  'src/app.ts': APP,
  'src/settings.ts': SETTINGS,
  'src/notes.ts': NOTES,
  'src/people.ts': PEOPLE,
  'src/login.ts': LOGIN,
  'src/page.ts': PAGE,
  'src/live.ts': LIVE,
  'src/live-page.ts': LIVE_PAGE,
  'migrations/0001_notes.up.sql': MIGRATION_UP,
  'migrations/0001_notes.down.sql': MIGRATION_DOWN,
  'test/app.test.ts': APP_TEST,
  'test/notes.test.ts': NOTES_TEST,
  'test/live.test.ts': LIVE_TEST,
  'tsconfig.json': TSCONFIG,
  Dockerfile: DOCKERFILE,
  'compose.yaml': COMPOSE,
  '.github/workflows/ci.yml': CI,
  '.dockerignore': DOCKERIGNORE,
  '.gitignore': GITIGNORE,
  '.env.example': ENV_EXAMPLE,
  '.env': ENV,
  'package.json': MANIFEST,
};
