/**
 * An application with sessions, and a browser. Each request brings its own handler, so that a test sees what
 * a browser sees.
 */
import { MemoryRecordStore, SessionMiddleware, Svc } from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { collectedLog } from './collected-log.ts';
import type { Env, HttpRequest, Middleware, RecordStore, SessionOptions } from 'svc';
import type { TestRequest } from 'svc/testing';

/** Random text, used only in tests. */
export const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';
export const NEXT_SECRET = 'Zp5&uE1*oA7(iQ0)rW4-tK8_gV2+lX6=';

/** Handler of one request. */
export type Act = (req: HttpRequest) => unknown;

export interface SiteOptions {
  readonly env?: Env | undefined;
  readonly session?: SessionOptions | undefined;
  readonly clock?: ManualClock | undefined;
  readonly baseUrl?: string | undefined;
  /** Middleware inside of the session middleware. */
  readonly use?: readonly Middleware[] | undefined;
  /** Whether requests use a socket. */
  readonly listen?: boolean | undefined;
  /** Further settings of the application. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  /** Leaves out the session middleware, because `before` contains another one. */
  readonly isWithoutSession?: boolean | undefined;
  /** Middleware outside of the session middleware. */
  readonly before?: readonly Middleware[] | undefined;
}

/** One application, one browser. */
export class Site implements AsyncDisposable {
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  readonly client: TestClient;
  readonly app: Svc;
  readonly #acts: Act[] = [];

  constructor(options: SiteOptions = {}) {
    const {
      env = 'test',
      session = {},
      clock = new ManualClock(),
      baseUrl,
      use = [],
      before = [],
      config = {},
      isWithoutSession = false,
      listen = false,
    } = options;
    const { logger, events } = collectedLog();
    const app = (this.app = new Svc({ authSecret: SECRET, logger, config: { env, ...config } }));
    for (const layer of [...before, ...(isWithoutSession ? [] : [new SessionMiddleware(session)]), ...use])
      app.use(layer);
    app.route('/', ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'], ({ req }) =>
      this.#acts[Number(req.headers['x-act'])]!(req),
    );
    app.route('/hooks/{rest:path}', ['POST'], ({ req }) => this.#acts[Number(req.headers['x-act'])]!(req));
    this.clock = clock;
    this.events = events;
    this.client = new TestClient(app, { clock, raiseErrors: false, baseUrl, listen });
  }

  /** Sends a request whose handler is `act`. */
  visit(
    act: Act,
    request: TestRequest & { readonly method?: string; readonly path?: string } = {},
  ): Promise<Response> {
    const { method = 'GET', path = '/', headers, ...rest } = request;
    const number = this.#acts.push(act) - 1;
    return this.client.request(method, path, { ...rest, headers: { ...headers, 'x-act': String(number) } });
  }

  /** Returns the JSON of the value that `act` returns. */
  async ask(act: Act, request?: TestRequest): Promise<unknown> {
    return (await this.visit((req) => ({ answer: act(req) ?? null }), request))
      .json()
      .then((body) => (body as { answer: unknown }).answer);
  }

  /** Moves the clock forward. */
  async wait(seconds: number): Promise<void> {
    await this.clock.advance(seconds * 1_000);
  }

  /** Returns the events of the security log with this name. */
  audited(event: string): Record<string, unknown>[] {
    return this.events.filter((line) => line['logger'] === 'svc_security' && line['event'] === event);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.client.close();
  }
}

/** Returns session options with a store that uses the clock of the site. */
export function stored(
  clock: ManualClock,
  options: SessionOptions = {},
): { clock: ManualClock; session: SessionOptions; store: MemoryRecordStore } {
  const store = new MemoryRecordStore({ clock });
  return { clock, store, session: { store, ...options } };
}

/**
 * A store whose calls each wait a turn of the event loop, as for another machine. `calls` has the names of
 * the called methods.
 */
export class SlowStore implements RecordStore {
  readonly calls: string[] = [];
  readonly inner: RecordStore;

  constructor(inner: RecordStore) {
    this.inner = inner;
  }

  async #wait(name: string): Promise<void> {
    this.calls.push(name);
    await new Promise((resolve) => setImmediate(resolve));
  }

  async get(key: string): Promise<string | undefined> {
    await this.#wait('get');
    return this.inner.get(key);
  }
  async set(key: string, value: string, ttlMs: number): Promise<void> {
    await this.#wait('set');
    return this.inner.set(key, value, ttlMs);
  }
  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    await this.#wait('add');
    return this.inner.add(key, value, ttlMs);
  }
  async replace(key: string, expected: string, value: string, ttlMs: number): Promise<boolean> {
    await this.#wait('replace');
    return this.inner.replace(key, expected, value, ttlMs);
  }
  async delete(key: string): Promise<boolean> {
    await this.#wait('delete');
    return this.inner.delete(key);
  }
}

/** Returns the parts of a `Set-Cookie` field: name and value, then the attributes, sorted. */
export function cookieParts(field: string): {
  readonly name: string;
  readonly value: string;
  readonly attributes: readonly string[];
} {
  const [pair, ...attributes] = field.split('; ');
  const equals = pair!.indexOf('=');
  return { name: pair!.slice(0, equals), value: pair!.slice(equals + 1), attributes: attributes.toSorted() };
}
