/**
 * `svc mcp`: serves the routes of an application as tools of an MCP server over standard input and output.
 */
import { systemClock } from '../base/clock.ts';
import { LIST_FORMATS, printAll, readFormat } from './inspect.ts';
import { ENVS } from '../base/config.ts';
import { ENV_FILE_HELP, ENV_HELP, importApplication, openApplication, textsOf } from './command.ts';
import { SvcError } from '../base/errors.ts';
import { isToken } from '../http/headers.ts';
import { reserveOutput } from '../mcp/reserved-output.ts';
import { endOnSignals } from '../operations/signals.ts';
import type { Command, ModuleInvocation } from './command.ts';
import type { Tool } from '../mcp/tools.ts';

export const mcpCommand: Command = {
  usage:
    'svc mcp <module>[:<app>] [--list] [--format human|json] [--header <name>=<variable>] [--env <name>] [--env-file <file>]',
  summary: 'serves the routes of an application as tools for MCP clients, over standard input and output',
  details: [
    '  --list              prints the tools and exits',
    '  --format <form>     form of the list: human (default) or json',
    '  --header <n>=<v>    sends the value of the environment variable <v> as the header field <n> with every call; may be repeated',
    ENV_HELP,
    ENV_FILE_HELP,
    '',
    'The environment variable SVC_MCP_TOKEN is the access token of every call: "Authorization: Bearer …". Without it, calls have no access token.',
    'Standard output has only messages of MCP; output of the application goes to standard error. The command ends when standard input ends.',
  ].join('\n'),
  options: {
    list: { type: 'boolean' },
    format: { type: 'string' },
    header: { type: 'string', multiple: true },
    env: { type: 'string' },
    'env-file': { type: 'string' },
  },
  choices: { format: LIST_FORMATS, env: ENVS, header: [] },
  takesModule: true,
  check: (values) => {
    readFormat(values);
    for (const header of textsOf(values, 'header')) readHeader(header);
  },
  run,
};

async function run({ values, subject }: ModuleInvocation): Promise<number> {
  // standard output is reserved for MCP: other output, also during the import, goes to standard error
  const reserved = reserveOutput(process.stdout, process.stderr);
  if (values['list'] === true) {
    const tools = (await importApplication(subject)).mcpTools();
    reserved[Symbol.dispose]();
    const printed = printAll(
      readFormat(values) === 'json' ? JSON.stringify({ schemaVersion: 1, tools }, null, 2) : listing(tools),
    );
    // later output of the application, such as an exit message, must not mix with the list
    reserveOutput(process.stdout, process.stderr);
    await printed;
    return 0;
  }
  const app = await openApplication(subject);
  const abort = new AbortController();
  const served = app
    .mcpServer({
      headers: Object.fromEntries(textsOf(values, 'header').map((header) => valueOf(readHeader(header)))),
    })
    .serve({ signal: abort.signal });
  using _signals = endOnSignals({
    clock: systemClock,
    log: app.log,
    deadlineMs: SHUTDOWN_MS,
    close: async () => {
      abort.abort();
      await served;
    },
  });
  await served;
  return 0;
}

/** Time in milliseconds that running calls, hooks and plugins have to end after a signal. */
const SHUTDOWN_MS = 20_000;

function readHeader(text: string): readonly [name: string, variable: string] {
  const [name = '', variable = '', ...rest] = text.split('=');
  if (!isToken(name) || !/^[A-Za-z_]\w*$/.test(variable) || rest.length > 0)
    throw new SvcError('E_CLI_USAGE', [
      `--header needs a header field and an environment variable, such as X-API-Key=SHOP_KEY, found "${name}=…"`,
    ]);
  return [name.toLowerCase(), variable];
}

function valueOf([name, variable]: readonly [string, string]): [string, string] {
  const value = process.env[variable];
  if (value === undefined || value === '')
    throw new SvcError('E_CLI_USAGE', [
      `--header ${name}=${variable}: the environment variable ${variable} is not set`,
    ]);
  return [name, value];
}

/** Returns a paragraph for each tool: its name with arguments, and its description. */
function listing(tools: readonly Tool[]): string {
  if (tools.length === 0) return 'No route is a tool';
  return tools
    .map(({ name, description = '', inputSchema, annotations }) => {
      const { properties = {}, required = [] } = inputSchema as {
        readonly properties?: object;
        readonly required?: readonly string[];
      };
      const args = Object.keys(properties)
        .map((argument) => (required.includes(argument) ? argument : `${argument}?`))
        .join(', ');
      return `${name}(${args})${annotations?.readOnlyHint === true ? '' : '  writes'}\n    ${description.split('\n', 1)[0]!}`;
    })
    .join('\n');
}
