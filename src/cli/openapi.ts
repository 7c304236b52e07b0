/**
 * `svc openapi`: writes the OpenAPI document of an application as `/openapi.json` would serve it, without
 * starting the application.
 *
 * Exit status:
 *   0  written
 *   2  invalid arguments
 *   3  the module could not be imported, or has errors that prevent compilation
 */
import { makeReport } from '../check/check.ts';
import { humanReport } from '../check/report.ts';
import { ask, hasColours, printAll, readWord, writeOutput } from './inspect.ts';
import { ENVS } from '../base/config.ts';
import { ENV_FILE_HELP, ENV_HELP, textOf } from './command.ts';
import { clientText } from '../openapi/client/client.ts';
import type { Command, ModuleInvocation } from './command.ts';

/** Time limit in milliseconds for the import of the module. */
const TIMEOUT_MS = 60_000;
const FORMATS = ['json'] as const;

export const openapiCommand: Command = {
  usage:
    'svc openapi <module>[:<app>] [--output <file>] [--client <file>] [--format json] [--env <name>] [--env-file <file>] [--no-color]',
  summary: 'writes the OpenAPI 3.1 document of an application, or a typed client',
  details: [
    '  --output <file>     writes the document to a file; default: standard output',
    '  --client <file>     writes a TypeScript client of the application; then the document is written only with --output',
    '  --format <form>     form of the document: json',
    ENV_HELP,
    ENV_FILE_HELP,
    '  --no-color          prints errors without colours; colours are used only on terminals, and not with NO_COLOR',
    '',
    'The module is imported in a process of its own, without network; no startup hook runs.',
    'Parts of the application that OpenAPI cannot express are left out, and listed on standard error.',
  ].join('\n'),
  options: {
    output: { type: 'string' },
    client: { type: 'string' },
    format: { type: 'string' },
    env: { type: 'string' },
    'env-file': { type: 'string' },
    'no-color': { type: 'boolean' },
  },
  choices: { format: FORMATS, env: ENVS },
  takesModule: true,
  check: (values) => void readWord('format', values['format'], FORMATS, 'json'),
  run,
};

async function run({ values, subject }: ModuleInvocation): Promise<number> {
  const answer = await ask(subject, { wants: 'openapi', timeoutMs: TIMEOUT_MS });
  if (answer.kind !== 'openapi') {
    const grave = makeReport(answer.report.findings.filter(({ severity }) => severity === 'error'));
    process.stderr.write(
      `${humanReport(grave, { target: subject.given, cwd: process.cwd(), rules: answer.rules }, hasColours(values))}\n`,
    );
    return 3;
  }
  for (const problem of answer.problems) process.stderr.write(`svc: ${problem}\n`);
  const file = textOf(values, 'output');
  const client = textOf(values, 'client');
  if (client !== undefined)
    writeOutput(client, clientText(JSON.parse(answer.document) as object).trimEnd(), 'client');
  if (file !== undefined) writeOutput(file, answer.document);
  else if (client === undefined) await printAll(answer.document);
  return 0;
}
