/**
 * A headless Chromium, controlled by the DevTools protocol (tip of tree, flat sessions) over a WebSocket.
 *
 *   { id, sessionId, method, params }  →      ← { id, result } or { id, error }      ← { sessionId, method, params }: an event
 *
 * Tests never sleep: they wait for events of a page, with a deadline. When it is reached, the error names the
 * address that the page has.
 */
import assert from 'node:assert/strict';
import { programOf } from './own-server.ts';
import { Ends, folder, start } from './run.ts';
import type { TestContext } from 'node:test';
import type { Scope } from './run.ts';

/** Program names of Debian, the smaller one first. */
const PROGRAMS = ['chromium-headless-shell', 'chromium'];
/** Flags for root (no sandbox), without own network requests, and for a small /dev/shm. */
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-extensions',
  '--disable-features=Translate,MediaRouter,OptimizationHints',
  '--no-proxy-server',
  '--remote-debugging-port=0',
];

/** Milliseconds after which a page that has not loaded is an error. */
const DEADLINE_MS = 120_000;

type Params = Readonly<Record<string, unknown>>;
interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: never;
  readonly result?: never;
  readonly error?: { readonly message: string };
}
interface Waiting {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}
type Listener = (method: string, params: never) => void;

/** A cookie as the browser stores it. */
export interface BrowserCookie {
  readonly name: string;
  readonly value: string;
  readonly httpOnly: boolean;
  readonly sameSite?: 'Strict' | 'Lax' | 'None';
  readonly path: string;
  readonly secure: boolean;
}

/** A request that a page has sent. Each redirect is a request of its own. */
export interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns the path of Chromium, or undefined if it is not installed. */
export function chromiumProgram(): string | undefined {
  return PROGRAMS.map(programOf).find((path) => path !== undefined);
}

/** Skips a test if Chromium is not installed. With REQUIRE_BROWSER=1 it fails instead. */
export function needsChromium(t: TestContext): boolean {
  if (chromiumProgram() !== undefined) return true;
  const problem = 'there is no Chromium: apt-get install chromium-headless-shell';
  if (process.env['REQUIRE_BROWSER'] === '1') throw new Error(problem);
  t.skip(problem);
  return false;
}

/** A browser process that ends with its scope. */
export class Chromium {
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, Waiting>();
  readonly #listeners = new Map<string, Listener>();
  readonly #visitors = new Set<string>();
  #lastId = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => this.#take(JSON.parse(String(data)) as Message));
    socket.addEventListener('close', () => {
      for (const { reject } of this.#answers.values()) reject(new Error('The browser has ended'));
    });
  }

  static async start(scope: Scope): Promise<Chromium> {
    const program = chromiumProgram();
    assert.ok(program !== undefined, 'needsChromium() is asked first');
    const ends = new Ends();
    const profile = folder(ends);
    const running = start(ends, program, [...FLAGS, `--user-data-dir=${profile}`, 'about:blank'], {
      env: { HOME: profile, LC_ALL: 'C.UTF-8' },
    });
    const [, address] = await running.printed(/DevTools listening on (ws:\S+)/);
    const socket = new WebSocket(address!);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', () => reject(new Error(`${address} cannot be opened`)));
    });
    const browser = new Chromium(socket);
    scope.after(async () => {
      // the browser may end before it answers. A signal would not help: Debian's program is a shell script,
      // and only that would end
      await browser.send('Browser.close').catch(() => undefined);
      await running.ended;
      await ends[Symbol.asyncDispose]();
    });
    return browser;
  }

  /** Opens a page of a new visitor, who shares no cookies with others. */
  async visitor(): Promise<Page> {
    const { browserContextId } = await this.send<{ browserContextId: string }>('Target.createBrowserContext');
    this.#visitors.add(browserContextId);
    return this.page(browserContextId);
  }

  /** Closes the pages of all visitors. Otherwise those of earlier tests would take time and memory of later ones. */
  async endVisitors(): Promise<void> {
    const ended = [...this.#visitors].map((browserContextId) =>
      this.send('Target.disposeBrowserContext', { browserContextId }),
    );
    this.#visitors.clear();
    await Promise.all(ended);
  }

  /** Opens another page of the same visitor. */
  async page(browserContextId: string): Promise<Page> {
    const { targetId } = await this.send<{ targetId: string }>('Target.createTarget', {
      url: 'about:blank',
      browserContextId,
    });
    const { sessionId } = await this.send<{ sessionId: string }>('Target.attachToTarget', {
      targetId,
      flatten: true,
    });
    return Page.of(this, { sessionId, browserContextId });
  }

  /** Sends a command. Rejects with the error of the browser. */
  send<T>(method: string, params: Params = {}, sessionId?: string): Promise<T> {
    if (this.#socket.readyState !== WebSocket.OPEN) return Promise.reject(new Error('The browser has ended'));
    const id = ++this.#lastId;
    this.#socket.send(
      JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }),
    );
    return new Promise<T>((resolve, reject) => {
      this.#answers.set(id, { resolve, reject: (error) => reject(new Error(`${method}: ${error.message}`)) });
    });
  }

  /** Receives the events of a session. */
  listen(sessionId: string, listener: Listener): void {
    this.#listeners.set(sessionId, listener);
  }

  #take({ id, sessionId, method, params, result, error }: Message): void {
    if (id === undefined) return this.#listeners.get(sessionId ?? '')?.(method!, params!);
    const waiting = this.#answers.get(id);
    this.#answers.delete(id);
    if (error === undefined) waiting?.resolve(result!);
    else waiting?.reject(new Error(error.message));
  }
}

/** A tab of the browser. */
export class Page {
  readonly browserContextId: string;
  readonly requests: SentRequest[] = [];
  /** Console errors, and violations of security policies. */
  readonly complaints: string[] = [];
  readonly #browser: Chromium;
  readonly #sessionId: string;
  readonly #awaited = new Map<string, (params: unknown) => void>();
  #url = 'about:blank';
  #onLoad: (url: string) => void = () => undefined;
  #onFailure: (problem: string) => void = () => undefined;

  private constructor(browser: Chromium, sessionId: string, browserContextId: string) {
    this.#browser = browser;
    this.#sessionId = sessionId;
    this.browserContextId = browserContextId;
    browser.listen(sessionId, (method, params) => this.#heard(method, params));
  }

  /** @internal */
  static async of(
    browser: Chromium,
    { sessionId, browserContextId }: { readonly sessionId: string; readonly browserContextId: string },
  ): Promise<Page> {
    const page = new Page(browser, sessionId, browserContextId);
    for (const domain of ['Page', 'Network', 'Log', 'Runtime']) await page.send(`${domain}.enable`);
    await page.send('Emulation.setDeviceMetricsOverride', {
      width: 800,
      height: 600,
      deviceScaleFactor: 1,
      mobile: false,
    });
    return page;
  }

  /** Resolves with the next event of this name. */
  next<T>(method: string): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    this.#awaited.set(method, resolve as (params: unknown) => void);
    return promise;
  }

  /** Address of the page. */
  get url(): string {
    return this.#url;
  }

  send<T>(method: string, params: Params = {}): Promise<T> {
    return this.#browser.send<T>(method, params, this.#sessionId);
  }

  /**
   * Opens an address, and waits until a page has loaded whose address begins with `arrivesAt`, by default
   * any.
   */
  open(url: string, arrivesAt?: string): Promise<void> {
    return this.#arriving(arrivesAt, async () => {
      const { errorText } = await this.send<{ errorText?: string }>('Page.navigate', { url });
      if (errorText !== undefined) throw new Error(`${url}: ${errorText}`);
    });
  }

  reload(): Promise<void> {
    return this.#arriving(undefined, () =>
      this.send('Page.reload').catch((error: unknown) => {
        if (!/Not attached to an active page/.test(String(error))) throw error;
        // the page was just loading another page by itself
        return this.send('Page.navigate', { url: this.#url });
      }),
    );
  }

  /** Scrolls to an element, presses the mouse in its middle, and waits as open() does. */
  click(selector: string, arrivesAt?: string): Promise<void> {
    return this.#arriving(arrivesAt, async () => {
      const [x, y] = await this.run<[number, number]>(
        `(() => { const element = document.querySelector(${JSON.stringify(selector)}); element.scrollIntoView({ block: 'nearest', behavior: 'instant' }); const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()`,
      );
      for (const type of ['mousePressed', 'mouseReleased'])
        await this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
    });
  }

  /**
   * Presses keys one by one, for example `Tab` or `Enter`, and waits as open() does when `arrivesAt` is
   * given.
   */
  async press(keys: readonly ('Tab' | 'Enter')[], arrivesAt?: string): Promise<void> {
    const pressAll = async (): Promise<void> => {
      for (const key of keys) {
        const codes = {
          key,
          code: key,
          windowsVirtualKeyCode: key === 'Tab' ? 9 : 13,
          ...(key === 'Enter' ? { text: '\r' } : {}),
        };
        await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...codes });
        await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...codes });
      }
    };
    return arrivesAt === undefined ? pressAll() : this.#arriving(arrivesAt, pressAll);
  }

  /**
   * Returns the value of an expression in the page as JSON, after waiting for a promise. Rejects with the
   * exception in the page.
   */
  async run<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.send<{
      result: { value: T };
      exceptionDetails?: { exception?: { description?: string }; text: string };
    }>('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails !== undefined)
      throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Returns the visible text of the page. */
  text(): Promise<string> {
    return this.run('document.body.innerText');
  }

  /** Returns every cookie of the visitor by name, including HttpOnly ones. */
  async cookies(): Promise<Map<string, BrowserCookie>> {
    const { cookies } = await this.#browser.send<{ cookies: BrowserCookie[] }>('Storage.getCookies', {
      browserContextId: this.browserContextId,
    });
    return new Map(cookies.map((cookie) => [cookie.name, cookie]));
  }

  /** Returns a screenshot as PNG. */
  async screenshot(): Promise<Buffer> {
    return Buffer.from(
      (await this.send<{ data: string }>('Page.captureScreenshot', { format: 'png' })).data,
      'base64',
    );
  }

  async #arriving(arrivesAt: string = '', act: () => Promise<unknown>): Promise<void> {
    const arrived = Promise.withResolvers<void>();
    const fail = (problem: string): void =>
      arrived.reject(
        new Error(
          `${problem}: at ${this.#url}, not ${arrivesAt}\n${[...this.requests.map(({ method, url }) => `${method} ${url}`), ...this.complaints].join('\n')}`,
        ),
      );
    const deadline = setTimeout(fail, DEADLINE_MS, 'The page has not arrived');
    this.#onLoad = (url) => {
      if (url.startsWith(arrivesAt)) arrived.resolve();
    };
    this.#onFailure = fail;
    try {
      await Promise.all([act(), arrived.promise]);
    } finally {
      clearTimeout(deadline);
    }
  }

  #heard(method: string, params: never): void {
    this.#awaited.get(method)?.(params);
    this.#awaited.delete(method);
    if (method === 'Page.frameNavigated') {
      const { frame } = params as { frame: { parentId?: string; url: string } };
      if (frame.parentId === undefined) this.#url = frame.url;
    } else if (method === 'Page.loadEventFired') {
      this.#onLoad(this.#url);
    } else if (method === 'Network.requestWillBeSent') {
      const {
        request: { method: verb, url, headers },
      } = params as { request: SentRequest };
      this.requests.push({ method: verb, url, headers });
    } else if (method === 'Network.loadingFailed') {
      const { type, errorText, canceled } = params as { type: string; errorText: string; canceled?: boolean };
      if (type === 'Document' && canceled !== true) this.#onFailure(errorText);
    } else if (method === 'Log.entryAdded') {
      const { entry } = params as { entry: { level: string; text: string; url?: string } };
      if (entry.level === 'error' || entry.level === 'warning')
        this.complaints.push(`${entry.text} ${entry.url ?? ''}`);
    } else if (method === 'Runtime.exceptionThrown') {
      this.complaints.push((params as { exceptionDetails: { text: string } }).exceptionDetails.text);
    }
  }
}
