/**
 * `svc run`: serves an application.
 */
import { ENV_FILE_HELP, openApplication, readCount, settling } from './command.ts';
import type { Command, Invocation } from './command.ts';

export const runCommand: Command = {
  usage: 'svc run <module>[:<app>] [--host <address>] [--port <number>] [--env-file <file>]',
  summary: 'serves an application',
  details: [
    '  --host <address>    address to listen on; default SVC_HOST, else 127.0.0.1',
    '  --port <number>     port to listen on, 0 for a free one; default SVC_PORT, else 8000',
    ENV_FILE_HELP,
    '',
    'The module is a .ts or .js file, or a package; the export is "app" unless named.',
    'SIGTERM and SIGINT let requests in flight finish, then end the process; a second one ends it at once.',
  ].join('\n'),
  options: { host: { type: 'string' }, port: { type: 'string' }, 'env-file': { type: 'string' } },
  takesModule: true,
  check: readPort,
  run,
};

async function run({ values, subject }: Invocation): Promise<undefined> {
  const port = readPort(values);
  const app = await openApplication(subject!); // takesModule
  await settling(app.run({ host: values['host'] as string | undefined, port }), subject!.given, 'a startup hook'); // parseArgs was told that it is a string
}

function readPort(values: Invocation['values']): number | undefined {
  return readCount('port', values['port'], 0, 65_535);
}
