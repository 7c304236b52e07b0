/**
 * An application with sessions whose handler each visit brings along: what a browser sees of them, request by request.
 */
import { MemoryRecordStore, SessionMiddleware, Svc } from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { collectedLog } from './collected-log.ts';
import type { Env, HttpRequest, Middleware, RecordStore, SessionOptions } from 'svc';
import type { TestRequest } from 'svc/testing';

/** Random text, for tests alone. */
export const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';
export const NEXT_SECRET = 'Zp5&uE1*oA7(iQ0)rW4-tK8_gV2+lX6=';

/** Handler of a visit. */
export type Act = (req: HttpRequest) => unknown;

export interface SiteOptions {
  readonly env?: Env | undefined;
  readonly session?: SessionOptions | undefined;
  readonly clock?: ManualClock | undefined;
  readonly baseUrl?: string | undefined;
  /** Behind the session. */
  readonly use?: readonly Middleware[] | undefined;
  /** Over a socket. */
  readonly listen?: boolean | undefined;
  /** Further settings of the application. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  /** Leaves out the session middleware: `before` has another. */
  readonly isWithoutSession?: boolean | undefined;
  /** Before the session. */
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

  /** A request whose handler is `act`. */
  visit(
    act: Act,
    request: TestRequest & { readonly method?: string; readonly path?: string } = {},
  ): Promise<Response> {
    const { method = 'GET', path = '/', headers, ...rest } = request;
    const number = this.#acts.push(act) - 1;
    return this.client.request(method, path, { ...rest, headers: { ...headers, 'x-act': String(number) } });
  }

  /** The JSON of what `act` answers. */
  async ask(act: Act, request?: TestRequest): Promise<unknown> {
    return (await this.visit((req) => ({ answer: act(req) ?? null }), request))
      .json()
      .then((body) => (body as { answer: unknown }).answer);
  }

  /** Passes time. */
  async wait(seconds: number): Promise<void> {
    await this.clock.advance(seconds * 1_000);
  }

  /** Events of the security log. */
  audited(event: string): Record<string, unknown>[] {
    return this.events.filter((line) => line['logger'] === 'svc_security' && line['event'] === event);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.client.close();
  }
}

/** Options with a store that lives by the clock of the site. */
export function stored(
  clock: ManualClock,
  options: SessionOptions = {},
): { clock: ManualClock; session: SessionOptions; store: MemoryRecordStore } {
  const store = new MemoryRecordStore({ clock });
  return { clock, store, session: { store, ...options } };
}

/** A store whose every call waits a turn, as one on another machine does; `calls` are the names of what was called. */
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

/** The attributes of a `Set-Cookie` field, sorted; its name and value first. */
export function cookieParts(field: string): {
  readonly name: string;
  readonly value: string;
  readonly attributes: readonly string[];
} {
  const [pair, ...attributes] = field.split('; ');
  const equals = pair!.indexOf('=');
  return { name: pair!.slice(0, equals), value: pair!.slice(equals + 1), attributes: attributes.toSorted() };
}
