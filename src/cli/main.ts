/**
 * Entry point of the command line: runs the command that the arguments name, and exits with its status.
 *
 * Exit status:
 *   0  done                                        1  failed while running        2  invalid arguments
 *   3  the application did not load or compile     4  a bug of this package
 */
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { newCommand } from './new.ts';
import { checkCommand } from './check.ts';
import { mcpCommand } from './mcp.ts';
import { completionCommand } from './completion.ts';
import { migrateCommand } from './migrate.ts';
import { openapiCommand } from './openapi.ts';
import { routesCommand } from './routes.ts';
import { runCommand } from './run.ts';
import { SvcError, errorCode } from '../base/errors.ts';
import { exitAfterLog } from '../observability/log.ts';
import { closest, own } from '../base/options.ts';
import {
  codeOf,
  isFault,
  locate,
  ownPackage,
  ownVersion,
  packageSeenBy,
  parseTarget,
  permissionFault,
} from './load.ts';
import { ENVS } from '../base/config.ts';
import { importedApplication } from './command.ts';
import { readWord } from './inspect.ts';
import { sendToParent } from '../operations/supervision.ts';
import type { Command } from './command.ts';
import type { FaultCode } from '../base/faults.ts';

export const COMMANDS: Readonly<Record<string, Command>> = {
  check: checkCommand,
  completion: completionCommand(() => COMMANDS),
  mcp: mcpCommand,
  migrate: migrateCommand,
  new: newCommand,
  openapi: openapiCommand,
  routes: routesCommand,
  run: runCommand,
};

/** Runs a command. Ends the process with its status, unless a server keeps it alive. */
export async function main(argv: readonly string[]): Promise<void> {
  const named = withCommand(argv);
  const status = await dispatch(named).catch((error: unknown) => report(error, named[0]));
  if (status === undefined) return;
  await exitAfterLog(status, importedApplication()?.log);
}

/** Adds the default command `run`: `svc app.ts:app` means `svc run app.ts:app`. */
function withCommand(argv: readonly string[]): readonly string[] {
  const [first = ''] = argv;
  const isTarget =
    !first.startsWith('-') && !Object.hasOwn(COMMANDS, first) && parseTarget(first).module !== first;
  return isTarget ? ['run', ...argv] : argv;
}

async function dispatch(argv: readonly string[]): Promise<number | undefined> {
  const [name, ...rest] = argv;
  if (name === '--version' || name === '-V') return print(ownVersion());
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    if (name === 'help' && rest[0] !== undefined) return print(helpOf(commandNamed(rest[0])));
    print(overview());
    return name === undefined ? 2 : 0;
  }
  const command = commandNamed(name);
  if (rest.includes('--help') || rest.includes('-h')) return print(helpOf(command));
  return invoke(name, command, rest, argv);
}

function commandNamed(name: string): Command {
  const command = own(COMMANDS, name);
  if (command !== undefined) return command;
  const near = /\.[mc]?[jt]s$/.test(name)
    ? `svc run ${name}`
    : closest(name, [...Object.keys(COMMANDS), '--version', '--help']);
  throw new SvcError('E_CLI_USAGE', [
    `${name.startsWith('-') ? 'unknown option' : 'unknown command'} "${name}"` +
      (near === undefined ? '' : `: did you mean "${near}"?`),
  ]);
}

function readArguments(
  command: Command,
  args: readonly string[],
): { positionals: readonly string[]; values: Readonly<Record<string, unknown>> } {
  const bare = new Set(command.optionalValues?.map((name) => `--${name}`));
  try {
    return parseArgs({
      args: args.map((arg) => (bare.has(arg) ? `${arg}=` : arg)),
      options: command.options,
      allowPositionals: true,
      strict: true,
    });
  } catch (error) {
    const option = /'(--?[\w-]+)/.exec((error as Error).message)?.[1] ?? '';
    if (errorCode(error) !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION')
      throw new SvcError('E_CLI_USAGE', [valueIssue(command, option, args)]);
    const near = closest(option.replace(/^-+/, ''), Object.keys(command.options));
    throw new SvcError('E_CLI_USAGE', [
      `unknown option "${option}"` + (near === undefined ? '' : `: did you mean "--${near}"?`),
    ]);
  }
}

/** Returns the message for a wrong value. parseArgs() takes `--x` for an option. */
function valueIssue({ options, choices }: Command, option: string, args: readonly string[]): string {
  const name = option.slice(2);
  if (options[name]?.type === 'boolean') return `${option} takes no value`;
  const found = args[args.indexOf(option) + 1];
  const listed = choices?.[name] ?? [];
  const words = typeof listed === 'function' ? [] : listed;
  return (
    `${option} needs ${words.length > 0 && words.length < 10 ? `one of ${words.join(', ')}` : 'a value'}` +
    (found === undefined ? '' : `, found "${found}"`)
  );
}

/** Matches the address of a database server. */
const ADDRESS = /^[a-z][a-z\d+.-]*:\/\/[^/]*@/i;

/** Runs a command. If the application imports another copy of this package, that copy runs the command. */
async function invoke(
  name: string,
  command: Command,
  args: readonly string[],
  argv: readonly string[],
): Promise<number | undefined> {
  const { positionals, values } = readArguments(command, args);
  // before --env-file is read, so that the option wins
  if (values['env'] !== undefined)
    process.env['SVC_ENV'] = readWord('env', values['env'], ENVS, 'production');
  await command.check?.(values);
  const takesModule =
    typeof command.takesModule === 'function'
      ? command.takesModule(values, positionals)
      : command.takesModule;
  if (!takesModule) return command.run({ positionals, values, argv, subject: undefined });
  const [given, ...surplus] = positionals.slice(command.words ?? 0);
  if (positionals.some((each) => ADDRESS.test(each)))
    // the message does not quote the address, because it may have a password
    throw new SvcError('E_CLI_USAGE', ['an address is the value of an option: write --database <address>']);
  if (given === undefined || surplus.length > 0)
    throw new SvcError('E_CLI_USAGE', [
      given === undefined
        ? `svc ${name} needs a module, such as src/app.ts`
        : `svc ${name} takes one module, but found a second argument "${surplus[0]!}"`,
    ]);
  if (typeof values['env-file'] === 'string') loadEnvironment(values['env-file']);
  const target = parseTarget(given);
  let module: URL;
  try {
    module = locate(target, process.cwd());
  } catch (error) {
    if (command.absent === undefined || !(error instanceof SvcError)) throw error;
    return command.absent({ positionals, values, argv, subject: undefined }, given, error);
  }
  const theirs = packageSeenBy(module);
  if (theirs !== undefined && theirs !== ownPackage()) return delegate(theirs, given, argv);
  return command.run({ positionals, values, argv, subject: { given, target, module } });
}

/**
 * Paths of the module with `main()` in a copy of this package. The second path is that of older, bundled
 * versions.
 */
const COMMAND_LINES = ['dist/cli/main.js', 'dist/cli.js'] as const;

/** Runs the command in the copy of this package that the application imports. */
async function delegate(packageJson: string, given: string, argv: readonly string[]): Promise<undefined> {
  const [current, bundled] = COMMAND_LINES.map((path) => resolve(dirname(packageJson), path)) as [
    string,
    string,
  ];
  const cli = existsSync(current) || !existsSync(bundled) ? current : bundled;
  if (!existsSync(cli))
    throw new SvcError('E_LOAD', [
      given,
      `the package "svc" that the module imports is incomplete or a different package: the file ${cli} is missing`,
    ]);
  const { main: theirMain } = (await import(pathToFileURL(cli).href)) as { main: typeof main };
  await theirMain(argv);
  return undefined;
}

function loadEnvironment(file: string): void {
  try {
    process.loadEnvFile(file);
  } catch (error) {
    throw new SvcError('E_CLI_USAGE', [`--env-file ${file} cannot be read: ${codeOf(error)}`], {
      cause: error,
    });
  }
}

const STATUS: Partial<Record<FaultCode, number>> = { E_CLI_USAGE: 2, E_LOAD: 3, E_COMPILE: 3 };

/**
 * Prints a line with the error and a line with the remedy. A stack is printed only for a bug of this
 * package or the application.
 */
function report(thrown: unknown, command: string | undefined): number {
  const error = permissionFault(thrown);
  const text = isFault(error)
    ? `${error.message}\n     ${adviceOn(error, command)}`
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error);
  process.stderr.write(`svc: ${text}\n`);
  void sendToParent({ svc: 'failed', text });
  return isFault(error) ? (STATUS[error.code] ?? 1) : 1;
}

/**
 * Returns advice for an error: the help of the command, the remedy of the only finding, or the stack of the
 * application's exception.
 */
function adviceOn({ code, cause, remedy, findings }: SvcError, command: string | undefined): string {
  if (code === 'E_CLI_USAGE')
    return command !== undefined && Object.hasOwn(COMMANDS, command) ? `See: svc ${command} --help` : remedy;
  if (code === 'E_COMPILE') {
    const [only, ...more] = new Set(
      findings.filter(({ severity }) => severity === 'error').map((finding) => finding.remedy),
    );
    const advice = only === undefined || more.length > 0 ? remedy : only;
    return command === 'mcp' ? `${advice}. On your own machine: --env development` : advice;
  }
  if (code !== 'E_LOAD' || cause === undefined) return remedy;
  if (isFault(cause)) return cause.remedy;
  return process.env['SVC_DEBUG'] === '1'
    ? ((cause instanceof Error ? cause.stack : undefined) ?? String(cause))
    : 'Set SVC_DEBUG=1 to see the stack';
}

function print(text: string): 0 {
  process.stdout.write(`${text}\n`);
  return 0;
}

function overview(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length)) + 3;
  const lines = Object.entries(COMMANDS).map(
    ([name, command]) => `  ${name.padEnd(width)}${command.summary}`,
  );
  return [
    'svc: a web application framework for Node.js',
    '',
    'Usage: svc <command> [options]',
    '       svc <module>:<app> [options]    as svc run',
    '',
    ...lines,
    '',
    '  --help       this text; svc <command> --help for a command',
    '  --version    the version of the package',
  ].join('\n');
}

function helpOf(command: Command): string {
  return `${command.summary[0]!.toUpperCase()}${command.summary.slice(1)}.\n\nUsage: ${command.usage}\n\n${command.details}`;
}
