/**
 * Expected severity of each finding, by rule, and by message for rules with several severities. The list is
 * separate from the rules, so tests fail when the severity of a rule changes.
 */
import assert from 'node:assert/strict';
import type { Severity } from '../../src/base/findings.ts';

const OF_RULES: Readonly<Record<Severity, readonly string[]>> = {
  error: [
    'SVC001',
    'SVC101',
    'SVC102',
    'SVC104',
    'SVC106',
    'SVC107',
    'SVC111',
    'SVC112',
    'SVC114',
    'SVC121',
    'SVC201',
    'SVC202',
    'SVC204',
    'SVC205',
    'SVC206',
    'SVC207',
    'SVC208',
    'SVC209',
    'SVC210',
    'SVC214',
    'SVC217',
    'SVC218',
    'SVC212',
    'SVC302',
    'SVC303',
    'SVC305',
    'SVC306',
    'SVC401',
    'SVC402',
    'SVC411',
    'SVC412',
    'SVC413',
    'SVC415',
    'SVC417',
    'SVC421',
    'SVC422',
    'SVC601',
    'SVC602',
    'SVC603',
    'SVC604',
    'SVC605',
    'SVC606',
    'SVC607',
    'SVC608',
    'SVC611',
    'SVC614',
    'SVC622',
    'SVC623',
    'SVC624',
    'SVC626',
    'SVC628',
    'SVC629',
    'SVC632',
    'SVC638',
    'SVC639',
    'SVC650',
    'SVC640',
    'SVC651',
    'SVC677',
  ],
  warning: [
    'SVC103',
    'SVC113',
    'SVC203',
    'SVC211',
    'SVC213',
    'SVC215',
    'SVC216',
    'SVC220',
    'SVC301',
    'SVC304',
    'SVC403',
    'SVC404',
    'SVC405',
    'SVC406',
    'SVC414',
    'SVC416',
    'SVC418',
    'SVC419',
    'SVC423',
    'SVC501',
    'SVC502',
    'SVC609',
    'SVC610',
    'SVC612',
    'SVC613',
    'SVC615',
    'SVC621',
    'SVC625',
    'SVC627',
    'SVC631',
    'SVC633',
    'SVC634',
    'SVC635',
    'SVC636',
    'SVC637',
    'SVC641',
    'SVC642',
    'SVC643',
    'SVC644',
    'SVC645',
    'SVC646',
    'SVC647',
    'SVC648',
    'SVC649',
    'SVC652',
    'SVC653',
    'SVC654',
    'SVC655',
    'SVC656',
    'SVC657',
    'SVC658',
    'SVC659',
    'SVC660',
    'SVC661',
    'SVC662',
    'SVC663',
    'SVC664',
    'SVC665',
    'SVC671',
    'SVC672',
    'SVC673',
    'SVC674',
    'SVC675',
    'SVC676',
  ],
  info: ['SVC105', 'SVC109', 'SVC123', 'SVC219', 'SVC503'],
};

/**
 * Messages with another severity than their rule. Undefined when the severity depends on more than the
 * message.
 */
const OF_MESSAGES: readonly (readonly [rule: string, message: RegExp, severity: Severity | undefined])[] = [
  ['SVC104', /^the handler asks for the URL of the route /, 'warning'],
  ['SVC112', / after its clean-up: with the scope /, 'warning'],
  ['SVC121', /^the option "origins" is an empty list/, 'warning'],
  [
    'SVC121',
    /even for requests that \w+ refuses$|processes requests whose host is not checked|runs after IdempotencyMiddleware, so stored|matches no route|has no effect: \w+( path)? matches only routes with/,
    'warning',
  ],
  ['SVC121', /^the middleware /, undefined],
  ['SVC214', / but IdempotencyMiddleware only /, undefined],
  ['SVC121', /^no guard or option identifies the client/, 'warning'],
  ['SVC205', /^the option "secrets" contains the authSecret/, 'warning'],
  ['SVC206', /has no TLS, so an attacker on the network can read responses of this application$/, 'warning'],
  ['SVC207', /^every host below /, 'warning'],
  ['SVC208', /^\/docs and \/openapi\.json show every route|^every client can read \/metrics/, 'warning'],
  [
    'SVC212',
    /is too high to protect the process|^pages of unknown sites may open the WebSocket|^the route accepts request bodies of \d+ bytes|has no limit of its own$|^pages of every site may open the WebSocket|^nothing closes the WebSocket when its client is gone|^one message may take/,
    'warning',
  ],
  ['SVC302', /^the handler responds with JSON, but/, undefined],
  ['SVC210', / decides, but every client can send it/, 'warning'],
  ['SVC302', /^the response schema is made by another library/, 'info'],
  ['SVC305', / has no JSON Schema, so documents and tools/, 'info'],
  ['SVC208', /^the source code sets env to/, 'warning'],
  ['SVC210', /^its key is a field|^the rate limit counts requests by the header/, undefined],
  ['SVC212', /is switched off: a stalled request/, 'warning'],
  ['SVC305', /^the OpenAPI document does not describe /, 'warning'],
  [
    'SVC305',
    /so the OpenAPI document calls the second class \w+$|^the MCP tool of the route changes data, but has no description/,
    'warning',
  ],
  [
    'SVC305',
    /^OpenAPI has one path for this route and for |in the document, because another schema is called \w+$/,
    'info',
  ],
  ['SVC305', / already has the tool name /, undefined],
  ['SVC306', /^clients of the baseline OpenAPI document may fail, /, 'warning'],
  ['SVC306', /^clients of the baseline OpenAPI document may notice /, 'info'],
  ['SVC611', /the code after the call does not wait for the result/, 'warning'],
  ['SVC611', /^new Promise\(\) ignores the promise|^no code can catch what this callback throws/, 'warning'],
  ['SVC614', /^a function called inside /, 'warning'],
  ['SVC612', /counts as true for every element/, 'error'],
  [
    'SVC401',
    /^the environment variable is set, but no code reads it|^process\.env\.|^nothing sets /,
    'warning',
  ],
  ['SVC205', /is used for two purposes/, 'warning'],
  ['SVC602', /^an argument of the program is /, 'warning'],
  ['SVC608', /^the column /, 'warning'],
  ['SVC202', /^only the CORS preflight /, 'warning'],
  ['SVC304', / "maxHeaderBytes" bytes$/, 'info'],
  ['SVC203', /^two methods of the path require different roles: /, 'info'],
];

/** Messages that are errors for every rule: an allowance that does not count, and a rule that throws. */
const ALWAYS =
  /; (?:the finding was allowed until |the allowance gives no reason|the date of the allowance)|^the rule threw /;

interface Reported {
  readonly rule: string;
  readonly severity: string;
  readonly message: string;
}

/** Returns the expected severity of a finding, or undefined for rules of plugins. */
export function severityOf({ rule, message }: Omit<Reported, 'severity'>): Severity | undefined {
  if (ALWAYS.test(message)) return 'error';
  const other = OF_MESSAGES.find(([id, pattern]) => id === rule && pattern.test(message));
  if (other !== undefined) return other[2];
  return (['error', 'warning', 'info'] as const).find((severity) => OF_RULES[severity].includes(rule));
}

/** Returns the findings, after asserting their severities. */
export function asSevere<T extends Reported>(findings: readonly T[]): T[] {
  for (const { rule, severity, message } of findings)
    assert.equal(severity, severityOf({ rule, message }) ?? severity, `the severity of ${rule}: ${message}`);
  return [...findings];
}

/** Every rule in this list, sorted. */
export const RULES_WITH_SEVERITY: readonly string[] = Object.values(OF_RULES).flat().sort();
