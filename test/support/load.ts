/**
 * Clients that send the next request as soon as they have a response. Half of them keep one connection, the
 * others open a new one for each request.
 */
import { Agent, request } from 'node:http';

/** A request without a response, or with an unexpected one. */
export interface Failure {
  readonly what: string;
}

export interface Response {
  readonly status: number;
  readonly body: string;
  readonly type: string;
}

/** Sends requests until stop() is called. */
export class Load {
  answered = 0;
  readonly failures: Failure[] = [];
  /** Number of responses by body. */
  readonly bodies: Map<string, number> = new Map();
  readonly #url: URL;
  readonly #agents: readonly Agent[];
  readonly #clients: Promise<void>;
  readonly #waiting = new Set<{ readonly target: number; readonly resolve: () => void }>();
  #isStopped = false;

  /** `accepts` returns whether a response is correct. */
  constructor(
    url: string | URL,
    clients: number,
    accepts: (status: number, body: string) => boolean = (status) => status === 200,
  ) {
    this.#url = new URL(url);
    this.#agents = Array.from(
      { length: clients },
      (_, index) => new Agent({ keepAlive: index % 2 === 0, maxSockets: 1 }),
    );
    this.#clients = Promise.all(this.#agents.map((agent) => this.#ask(agent, accepts))).then(() => undefined);
  }

  /** Resolves after `count` further responses. */
  more(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.add({ target: this.answered + count, resolve });
    });
  }

  /** Stops sending, and waits for the last responses. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#clients;
    for (const agent of this.#agents) agent.destroy();
  }

  protected send(agent: Agent): Promise<Response> {
    return ask(this.#url, agent);
  }

  protected fail(failure: Failure): void {
    this.failures.push(failure);
  }

  async #ask(agent: Agent, accepts: (status: number, body: string) => boolean): Promise<void> {
    while (!this.#isStopped) {
      try {
        const { status, body } = await this.send(agent);
        if (!accepts(status, body)) this.fail({ what: `${status} ${body.slice(-400)}` });
        this.bodies.set(body, (this.bodies.get(body) ?? 0) + 1);
      } catch (error) {
        this.fail({ what: (error as NodeJS.ErrnoException).code ?? String(error) });
        await new Promise((resolve) => setImmediate(resolve));
      }
      this.answered++;
      for (const waiting of this.#waiting) {
        if (this.answered < waiting.target) continue;
        this.#waiting.delete(waiting);
        waiting.resolve();
      }
    }
  }
}

const HANG_MS = 20_000;

/** Sends one request. Rejects when the connection ends before the response, or nothing arrives for 20 s. */
export function ask(
  url: string | URL,
  agent?: Agent,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent: agent ?? false, headers }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response
        .on('end', () =>
          resolve({ status: response.statusCode!, body, type: response.headers['content-type'] ?? '' }),
        )
        .on('error', reject);
    });
    sent
      .on('error', reject)
      .setTimeout(HANG_MS, () => sent.destroy(new Error('no answer')))
      .end();
  });
}
