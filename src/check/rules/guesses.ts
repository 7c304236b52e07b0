/** Short codes that clients may guess (SVC204): each of few possible inputs is compared with a secret. */
import { entryOf } from '../reader/nodes.ts';
import { numberOf } from '../reader/constants.ts';
import { meaningOfCall } from '../sources.ts';
import { specOf } from '../values/functions.ts';
import { GUARDS } from '../values/marks.ts';
import { clientIn } from '../values/value.ts';
import { addedBy } from './races.ts';
import type { ClientPart } from '../values/text.ts';
import type { ReportAt, SourcePart, Sources } from '../sources.ts';
import type { Run, Trace } from '../statements/trace.ts';
import type { Value } from '../values/value.ts';

/** Searches for the rule SVC204. */
export const GUESS_PARTS: readonly SourcePart[] = [{ id: 'SVC204', judge: findGuesses }];

/** Requests per minute with which a code of six digits can be guessed while it is valid. */
const MOST_TRIES = 600;
/** Functions that compare a secret: a hash, or a comparison in constant time. */
const COMPARES =
  /^crypto\.(?:createHash|createHmac)\.update$|^crypto\.(?:hash|timingSafeEqual|scrypt|scryptSync)$|^svc\.checkPassword$/;

function findGuesses(trace: Trace, report: ReportAt, sources: Sources): void {
  const general = limitOf(sources);
  for (const run of trace.runs) {
    const isGuarded = run.hasOwnGuard || [...run.guards].some((type) => GUARDS.test(type));
    if (run.route === undefined || isGuarded || !refuses(run, trace) || countsTries(run, trace)) continue;
    const code = guessedIn(run, trace);
    if (code === undefined || limitOfRoute(run, general) <= MOST_TRIES) continue;
    report(
      sources.handlers.homeOf(run.handler),
      run.handler,
      `${code.origin.what} has so few possible values that a client finds the right one, because it may try more than ${MOST_TRIES} a minute`,
      {
        remedy:
          'Limit the tries for each account: await new RateLimiter({ name: "codes", perMinute: 5 }).take(req, account), or count them in the row of the code',
      },
    );
  }
}

/** Returns the input with few possible values that the handler hashes, or compares as a secret. */
function guessedIn(run: Run, trace: Trace): ClientPart | undefined {
  return trace
    .callsOf(run)
    .filter(({ meaning }) => COMPARES.test(meaning))
    .flatMap(({ args }) => args)
    .concat(
      trace
        .sentBy(run)
        .flatMap(({ bindings = [] }) =>
          bindings.filter(({ use }) => use === 'equal').map(({ value }) => value),
        ),
    )
    .flatMap((value) => guessable(value) ?? [])
    .at(0);
}

function guessable(value: Value | undefined): ClientPart | undefined {
  const parts = value?.texts.flat() ?? [];
  const found = parts.find((part) => part.kind === 'client' && part.isGuessable === true);
  const hasLongPart = parts.some(
    (part) => part.kind === 'own' && /^crypto\.random/.test(part.made?.by ?? ''),
  );
  return found?.kind === 'client' && !hasLongPart ? (clientIn({ texts: [[found]] }) ?? undefined) : undefined;
}

/** Whether the handler refuses a wrong code, or lets the client in with a right one. */
function refuses(run: Run, trace: Trace): boolean {
  return trace
    .callsOf(run)
    .some(({ meaning }) =>
      /^svc\.(?:Unauthorized|Forbidden|createToken|Session\.regenerate)$|^svc\/oauth\.[^]*\.issue$/.test(
        meaning,
      ),
    );
}

/** Whether a handler counts tries: by a limiter, or in a column. */
function countsTries(run: Run, trace: Trace): boolean {
  return (
    trace.callsOf(run).some(({ meaning }) => /^svc\.RateLimiter\.\w+$/.test(meaning)) ||
    trace.sentBy(run).some((sending) => addedBy(sending) !== undefined)
  );
}

/** Returns the requests per minute that the middleware of the application allows. */
function limitOf(sources: Sources): number {
  const limits = sources
    .all('call')
    .filter(({ module, node }) => meaningOfCall(node, module) === 'svc.RateLimitMiddleware')
    .map(({ node }) =>
      node.args[0] === undefined ? 0 : (numberOf(entryOf(node.args[0], 'perMinute')) ?? 0),
    );
  return Math.min(...limits);
}

function limitOfRoute({ route }: Run, general: number): number {
  const own = route === undefined ? undefined : entryOf(specOf(route), 'rateLimit');
  if (own === undefined) return general;
  if (own.type === 'value' && own.raw === 'false') return Infinity;
  return own.type === 'object' ? (numberOf(entryOf(own, 'perMinute')) ?? 0) : 0;
}
