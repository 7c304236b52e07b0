/**
 * `svc routes`: prints the routes of an application as a table or as JSON.
 */
import { humanReport, relativeFile, shownPlace } from '../check/report.ts';
import { LIST_FORMATS, ask, hasColours, printAll, readFormat } from './inspect.ts';
import { ENVS } from '../base/config.ts';
import { ENV_FILE_HELP, ENV_HELP } from './command.ts';
import type { Command, ModuleInvocation } from './command.ts';
import type { ListedRoute } from './inspect.ts';
import type { SecurityRequirement } from '../http/contracts.ts';

/** Time limit in milliseconds for the import of the module. */
const TIMEOUT_MS = 60_000;

export const routesCommand: Command = {
  usage: 'svc routes <module>[:<app>] [--format human|json] [--env <name>] [--env-file <file>] [--no-color]',
  summary: 'lists the routes of an application, with their security and middleware',
  details: [
    '  --format <form>     human (default) or json',
    ENV_HELP,
    ENV_FILE_HELP,
    '  --no-color          prints no colours; colours are used only on terminals, and not with NO_COLOR',
    '',
    'Each line has a method, a path, the name for urlFor(), the security requirements, the middleware, outermost first,',
    'and the place of the declaration.',
    'The module is imported in a process of its own, without network; no startup hook runs.',
  ].join('\n'),
  options: {
    format: { type: 'string' },
    env: { type: 'string' },
    'env-file': { type: 'string' },
    'no-color': { type: 'boolean' },
  },
  choices: { format: LIST_FORMATS, env: ENVS },
  takesModule: true,
  check: readFormat,
  run,
};

async function run({ values, subject }: ModuleInvocation): Promise<number> {
  const answer = await ask(subject, { wants: 'routes', timeoutMs: TIMEOUT_MS });
  const cwd = process.cwd();
  if (answer.kind !== 'routes') {
    process.stderr.write(
      `${humanReport(answer.report, { target: subject.given, cwd, rules: answer.rules }, false)}\n`,
    );
    return 3;
  }
  const routes = answer.routes.toSorted((left, right) =>
    left.path < right.path ? -1 : left.path > right.path ? 1 : 0,
  );
  await printAll(readFormat(values) === 'json' ? json(routes, cwd) : table(routes, cwd, hasColours(values)));
  return 0;
}

const HEAD = ['METHOD', 'PATH', 'NAME', 'SECURITY', 'MIDDLEWARE', 'DECLARED'];

function table(routes: readonly ListedRoute[], cwd: string, hasColour: boolean): string {
  const rows = routes.map((route) => [
    route.method,
    route.path,
    route.name ?? '-',
    route.security.map(describe).join(', ') || (route.isPublic ? 'public' : '-'),
    route.middleware.join(', ') || '-',
    route.isOperation ? '(operations)' : route.place === null ? '-' : shownPlace(route.place, cwd),
  ]);
  const widths = HEAD.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]!.length)),
  );
  const lines = [HEAD, ...rows].map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  if (hasColour) lines[0] = `\u001b[1m${lines[0]!}\u001b[0m`;
  return lines.join('\n');
}

/** Returns a security requirement as text: `bearer scopes:a+b roles:x|y`, or `bearer (optional)`. */
function describe({ scheme, scopes, roles, isOptional }: SecurityRequirement): string {
  return [
    scheme,
    ...(isOptional === true ? ['(optional)'] : []),
    ...(scopes.length === 0 ? [] : [`scopes:${scopes.join('+')}`]),
    ...(roles.length === 0 ? [] : [`roles:${roles.join('|')}`]),
  ].join(' ');
}

function json(routes: readonly ListedRoute[], cwd: string): string {
  return JSON.stringify(
    {
      schemaVersion: 1,
      routes: routes.map(({ method, path, name, security, middleware, isPublic, isOperation, place }) => ({
        method,
        path,
        name,
        security,
        middleware,
        public: isPublic,
        operations: isOperation,
        place:
          place === null || isOperation
            ? null
            : { file: relativeFile(place.file, cwd), line: place.line, column: place.column },
      })),
    },
    null,
    2,
  );
}
