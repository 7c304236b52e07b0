/**
 * Package of a new project: its manifest with scripts and dependencies, and the options of its type checker.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** Packages that `npm run typecheck` of a new project needs. A test compares them with this repository. */
export const TYPE_CHECKERS: Readonly<Record<string, string>> = { '@types/node': '^24', typescript: '7.0.2' };

/** `package.json`. */
export const MANIFEST: Template = ({ name, dependency, engine, source }) => `${JSON.stringify(
  {
    name,
    version: '1.0.0',
    private: true,
    type: 'module',
    engines: { node: engine },
    scripts: {
      start: 'svc run src/app.ts',
      dev: 'svc run src/app.ts --env-file .env --reload',
      test: 'node --test "test/**/*.test.ts"',
      migrate: 'svc migrate up src/app.ts',
      check: 'svc check src/app.ts --env production --env-file .env --max-warnings 0',
      typecheck: 'tsc -p .',
    },
    dependencies: { svc: dependency },
    ...(source === 'registry' ? { devDependencies: TYPE_CHECKERS } : {}), // the others must install without a network
  },
  undefined,
  2,
)}
`;

/** `tsconfig.json`: the language that Node runs by stripping types, checked strictly. */
export const TSCONFIG: Template = () => `{
  // What Node can run by stripping the types, and the strictest reading of it. Nothing is emitted.
  "compilerOptions": {
    "target": "esnext",
    "lib": ["esnext"],
    "types": ["node"],
    "module": "nodenext",
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,
    "isolatedModules": true,
    "allowImportingTsExtensions": true,
    "noEmit": true,
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "exactOptionalPropertyTypes": true,
    "noImplicitOverride": true,
    "noPropertyAccessFromIndexSignature": true,
    "noFallthroughCasesInSwitch": true
  },
  "include": ["src", "test"]
}
`;
