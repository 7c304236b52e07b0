/**
 * The files that `svc new` writes: a path, and the text for a project. Nothing is read or written here; cli/new.ts does.
 */
import { APP_TEST } from './template/app-test.ts';
import { APP } from './template/app.ts';
import { COMPOSE, DOCKERFILE, DOCKERIGNORE } from './template/container.ts';
import { LIVE, LIVE_PAGE, LIVE_TEST } from './template/live.ts';
import { LOGIN } from './template/login.ts';
import { MANIFEST, TSCONFIG } from './template/package.ts';
import { PAGE } from './template/page.ts';
import { README } from './template/readme.ts';
import { CI, GITIGNORE } from './template/repository.ts';
import { ENV, ENV_EXAMPLE, SETTINGS } from './template/settings.ts';
import { MIGRATION_DOWN, MIGRATION_UP, NOTES, NOTES_TEST, PEOPLE } from './template/storage.ts';
import type { StarterOptions, Template } from './options.ts';

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
