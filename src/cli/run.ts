/**
 * `svc run`: serves an application.
 */
import { systemClock } from '../base/clock.ts';
import { ENV_FILE_HELP, openApplication, readCount, settling, textOf } from './command.ts';
import { Config } from '../base/config.ts';
import { fileOfPlace, placeOf } from '../base/findings.ts';
import { SvcError } from '../base/errors.ts';
import { readMode, readPlace } from '../app/options.ts';
import { createLogger, exitAfterLog } from '../observability/log.ts';
import { ownRole } from '../operations/supervision.ts';
import type { Svc } from '../app/svc.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { Logger } from '../observability/log.ts';
import type { Command, Invocation, ModuleInvocation, Subject } from './command.ts';

/** Port of Node's inspector. */
const USUAL_INSPECTOR_PORT = 9_229;

export const runCommand: Command = {
  usage:
    'svc run <module>[:<app>] [--host <address>] [--port <number> | --socket <path> [--socket-mode <octal>]] [--workers <number> | --reload] [--inspect[=<address>]] [--no-check] [--env-file <file>]',
  summary: 'serves an application',
  details: [
    '  --host <address>    address to listen on; default SVC_HOST, else 127.0.0.1',
    '  --port <number>     port to listen on, 0 for a free one; default SVC_PORT, else PORT, else 8000',
    '  --socket <path>     Unix socket to listen on, in place of host and port; default SVC_SOCKET',
    '  --socket-mode <octal>  permissions of the socket file; default SVC_SOCKET_MODE, else 660',
    '  --workers <number>  number of processes that serve, "auto" for one per core; a process that ends unexpectedly is replaced; default SVC_WORKERS, else one',
    '  --reload            restarts the application when a file that it imports is saved; sets SVC_ENV to',
    '                      "development" unless it is set. Then logs SQL statements that the database would refuse',
    '  --inspect[=<[host:]port>]  opens the inspector of the process that serves, at 127.0.0.1:9229',
    '  --inspect-brk[=<[host:]port>]  as --inspect, and loads the application when a debugger is attached',
    '  --no-check          in production, starts even if svc check finds errors; logs the errors. With --reload, checks no SQL statements',
    ENV_FILE_HELP,
    '',
    'The module is a .ts or .js file, or a package; the default export name is "app". The export is an application,',
    'or a function without arguments that returns an application or its promise.',
    'After SIGTERM or SIGINT, requests in flight finish, then the process ends; a second signal ends it at once. In',
    'production, it still accepts connections for 5 seconds after SIGTERM, with 503 for /readyz.',
    'With --workers, SIGHUP replaces one process after another, and no request fails. Without --workers, SIGHUP reads',
    'the TLS certificate again; without TLS, it ends the process as SIGTERM does.',
    'An uncaught error is logged as one line, and ends the process with status 1.',
  ].join('\n'),
  options: {
    'no-check': { type: 'boolean' },
    host: { type: 'string' },
    port: { type: 'string' },
    socket: { type: 'string' },
    'socket-mode': { type: 'string' },
    workers: { type: 'string' },
    reload: { type: 'boolean' },
    inspect: { type: 'string' },
    'inspect-brk': { type: 'string' },
    'env-file': { type: 'string' },
  },
  optionalValues: ['inspect', 'inspect-brk'],
  choices: { host: [], port: [], 'socket-mode': [], workers: ['auto'], inspect: [], 'inspect-brk': [] },
  takesModule: true,
  check: readRunOptions,
  run,
};

async function run({ values, subject }: ModuleInvocation): Promise<number | undefined> {
  const { inspector, ...options } = readRunOptions(values);
  const { workers, reload } = options;
  if ((workers !== undefined || reload) && ownRole() === undefined)
    return supervise(options, {
      envFile: textOf(values, 'env-file'),
      checked: values['no-check'] === true ? undefined : subject,
    });
  if (reload) process.env['SVC_ENV'] ??= 'development';
  if (inspector !== undefined) await openInspector(inspector);
  let app: Svc | undefined;
  endOnUncaught(() => app?.log ?? createLogger());
  const opened = (app = await openApplication(subject, { isChecked: values['no-check'] !== true }));
  await settling(opened.run(options), subject.given, () => opened.lifecycle.step);
  return undefined;
}

/**
 * Ends the process with one log line and status 1 after an uncaught exception or an unhandled rejection. Does
 * nothing if the application has its own listener.
 */
function endOnUncaught(log: () => Logger): void {
  process.on('uncaughtException', (error, origin) => {
    if (process.listenerCount('uncaughtException') > 1) return;
    const place = placeOf(error.stack ?? '');
    const fields = place.line === 0 ? {} : { place: `${fileOfPlace(place)}:${place.line}:${place.column}` };
    if (origin === 'unhandledRejection') log().error('unhandled_rejection', error, fields);
    else log().error('uncaught_exception', error, fields);
    void exitAfterLog(1, log());
  });
}

/** Address of Node's inspector. `waits` is whether the application loads only after a debugger is attached. */
interface InspectorOptions {
  readonly host: string;
  readonly port: number;
  readonly waits: boolean;
}

/** Opens the inspector of this process, which serves. */
async function openInspector({ host, port, waits }: InspectorOptions): Promise<void> {
  const inspector = await import('node:inspector');
  inspector.open(port, host);
  // otherwise, Node waits at the end of the process until the debugger is detached
  process.on('exit', () => inspector.close());
  if (waits) inspector.waitForDebugger();
}

function readInspector(values: Invocation['values']): InspectorOptions | undefined {
  const waits = values['inspect-brk'] !== undefined;
  const text = textOf(values, 'inspect-brk') ?? textOf(values, 'inspect');
  if (text === undefined) return undefined;
  const match = /^(?:(\[[0-9a-f:]+\]|[\w.-]+):)?(\d{0,5})$/i.exec(text);
  const port = Number(match?.[2] || USUAL_INSPECTOR_PORT);
  if (match === null || port > 65_535)
    throw new SvcError('E_CLI_USAGE', [
      `--${waits ? 'inspect-brk' : 'inspect'} needs a port, or an address such as 127.0.0.1:9229, found "${text}"`,
    ]);
  return { host: match[1]?.replace(/[[\]]/g, '') ?? '127.0.0.1', port, waits };
}

interface RunOptions extends ListenOptions {
  readonly workers: number | 'auto' | undefined;
  readonly reload: boolean;
  readonly inspector: InspectorOptions | undefined;
}

function readRunOptions(values: Invocation['values']): RunOptions {
  const reload = values['reload'] === true;
  if (reload && values['workers'] !== undefined)
    throw new SvcError('E_CLI_USAGE', [
      '--workers and --reload cannot be combined: with --reload, one process serves the application',
    ]);
  const mode = textOf(values, 'socket-mode');
  const socketMode = mode === undefined ? undefined : readMode(mode);
  if (mode !== undefined && socketMode === undefined)
    throw new SvcError('E_CLI_USAGE', [
      `--socket-mode needs permissions in octal, such as 660, found "${mode}"`,
    ]);
  const socket = textOf(values, 'socket');
  if (socket !== undefined && (values['host'] ?? values['port']) !== undefined)
    throw new SvcError('E_CLI_USAGE', [
      '--socket cannot be combined with --host or --port: a server listens either on a socket or on a port',
    ]);
  const workers = reload ? undefined : (values['workers'] ?? (new Config().get('workers', '') || undefined));
  const count = workers === 'auto' ? 'auto' : readCount('workers', workers, 1, 1_024);
  const inspector = readInspector(values);
  if (inspector !== undefined && (count ?? 1) !== 1)
    throw new SvcError('E_CLI_USAGE', [
      `--inspect cannot be combined with ${count} workers, because an address belongs to one process: use --workers 1`,
    ]);
  return {
    host: textOf(values, 'host'),
    port: readCount('port', values['port'], 0, 65_535),
    socket,
    socketMode,
    workers: count,
    reload,
    inspector,
  };
}

/** Starts child processes, which alone load the application. */
async function supervise(
  { workers, reload: _, ...place }: Omit<RunOptions, 'inspector'>,
  { envFile, checked }: { readonly envFile: string | undefined; readonly checked: Subject | undefined },
): Promise<number | undefined> {
  const deps = { clock: systemClock, log: createLogger(), handleSignals: true };
  if (workers !== undefined) {
    const { countOf, superviseWorkers } = await import('../operations/workers.ts');
    const outcome = await superviseWorkers({ ...deps, count: countOf(workers) });
    // on failure, superviseWorkers() has logged the reason
    return 'url' in outcome ? undefined : outcome.status || 1;
  }
  const { superviseReload } = await import('../operations/reload.ts');
  await superviseReload({
    ...deps,
    envFile,
    place: readPlace('svc run', place, new Config()),
    onStart: checked && (await statementCheck(checked, deps.log)),
  });
  return undefined;
}

/** Returns a function that checks the SQL statements of an application in the background. */
async function statementCheck(subject: Subject, log: Logger): Promise<() => void> {
  const { StatementWatch, checkOf } = await import('./statement-watch.ts');
  const watch = new StatementWatch(checkOf(subject), log);
  return () => void watch.check();
}
