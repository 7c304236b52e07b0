/**
 * Large JSON bodies, sent at the same time to a server of its own whose heap has 64 MB: 30 of 9.5 MB, then 1,000 of
 * 16 KB whose handlers wait. Repeats this until SOAK_SECONDS (default 60) are over.
 *
 *   node --conditions=svc-source test/soak/bodies.ts
 *
 * Asserted: the process survives. At least one body of each crowd is read, all others get 503 with Retry-After, and
 * no bytes are held afterwards. Without the budget of held bytes, the first crowd ends the process.
 */
import { Svc } from 'svc';
import { RawClient } from '../support/raw-http.ts';
import { held, openUpTo, SECONDS, serving, soak, SoakServer, together } from '../support/soak.ts';
import type { RawAnswer } from '../support/raw-http.ts';
import type { Held } from '../support/soak.ts';

const HEAP_MB = 64;
const LARGE = { count: 30, bytes: 9_500_000, waitMs: 200 };
const SMALL = { count: 1_000, bytes: 16_000, waitMs: 1_000 };

// ── the server ──

interface Inside extends Held {
  /** Bytes that bodies hold, by the gauge of the application. */
  readonly buffered: number;
}

async function serve(): Promise<void> {
  const app = new Svc({ trustProxy: 1, headersTimeoutMs: 120_000, requestTimeoutMs: 120_000 });
  app.post('/json', async ({ req }) => {
    const value = (await req.json()) as readonly string[];
    await new Promise((resolve) => setTimeout(resolve, Number(req.query.get('wait'))));
    return { length: value.length };
  });
  const { port } = await app.run({ port: 0 });
  serving(port, async (): Promise<Inside> => {
    const buffered = /^svc_buffered_bytes (\d+)$/m.exec(app.metrics.render())![1];
    return { ...(await held()), buffered: Number(buffered) };
  });
}

// ── the clients ──

/** JSON of about this many bytes: a list of short strings, as in the bodies of imports. */
function jsonOf(bytes: number): string {
  const item = '"an item of 30 characters......"';
  return `[${Array.from({ length: Math.floor(bytes / (item.length + 1)) }, () => item).join(',')}]`;
}

async function post(raw: RawClient, body: Buffer, waitMs: number, client: string): Promise<RawAnswer> {
  await using closed = raw;
  const answer = closed.answer();
  raw.send(
    `POST /json?wait=${waitMs} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n` +
      `X-Forwarded-For: ${client}\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  raw.send(body);
  return await answer; // the connection is open until then
}

async function crowd(
  port: number,
  { count, bytes, waitMs }: typeof LARGE,
  clients: number,
): Promise<{ counts: string; failures: string[] }> {
  const body = Buffer.from(jsonOf(bytes));
  const opened = await openUpTo(count, [], () => RawClient.open(port));
  const answers = await together(count, (index) =>
    post(opened[index]!, body, waitMs, `192.0.2.${index % clients}`),
  );
  const read = answers.filter(({ status }) => status === 200).length;
  const refused = answers.filter(
    ({ status, field, text }) =>
      status === 503 && field('retry-after') === '1' && text().includes('body_budget'),
  ).length;
  const failures = read === 0 ? [`no body of ${bytes} bytes was read`] : [];
  if (read + refused !== count) failures.push(`${count - read - refused} other answers`);
  return {
    counts: `${count} of ${bytes} bytes by ${clients} clients: ${read} read, ${refused} refused`,
    failures,
  };
}

async function main(): Promise<readonly string[]> {
  console.log(`bodies: a heap of ${HEAP_MB} MB, for ${SECONDS} s`);
  process.env['NODE_OPTIONS'] = `--max-old-space-size=${HEAP_MB}`;
  const server = await SoakServer.start<Inside>(import.meta.filename);
  const failures: string[] = [];
  const endMs = performance.now() + SECONDS * 1_000;
  do {
    for (const [kind, clients] of [
      [LARGE, 1],
      [LARGE, 30],
      [SMALL, 1],
    ] as const) {
      const { counts, failures: found } = await crowd(server.port, kind, clients);
      failures.push(...found);
      const { rss, buffered } = await server.settled((now) => now.buffered === 0);
      console.log(`${counts}; resident ${(rss / 1e6).toFixed(0)} MB`);
      if (buffered > 0) failures.push(`${buffered} bytes are held after ${counts}`);
    }
  } while (performance.now() < endMs && failures.length === 0);
  failures.push(...(await server.terminated()));
  return failures;
}

await soak(main, serve);
