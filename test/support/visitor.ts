/**
 * A person at a new project: a scripted browser with a cookie jar, which follows redirects and sends forms, and runs no scripts.
 */
import assert from 'node:assert/strict';
import { CookieJar } from '../../src/testing/cookie-jar.ts';

/** A person with a browser that runs no scripts. */
export class Visitor {
  readonly url: string;
  readonly #cookies = new CookieJar(() => Date.now());

  constructor(url: string) {
    this.url = url;
  }

  /** An answer that leads nowhere else; `form` is posted. */
  async visit(address: string, form?: Record<string, string>): Promise<Response> {
    const url = new URL(address, this.url);
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { Cookie: this.#cookies.headerFor(url) },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const field of response.headers.getSetCookie()) this.#cookies.take(field, url);
    const location = response.headers.get('location');
    return location === null ? response : this.visit(new URL(location, url).href);
  }

  /** As somebody whom the provider of development knows. */
  async logIn(user = 'ada'): Promise<void> {
    const choice = await this.visit('/oauth/login');
    const address = new URL(choice.url);
    assert.equal(address.href.split('?')[0], `${this.url}/_dev/provider/authorize`);
    assert.match(
      choice.headers.get('content-security-policy')!,
      /form-action 'self' http:\/\/127\.0\.0\.1:\d+;/,
    ); // that of the provider, not of the application
    const [, action] = /<form method="post" action="([^"]+)"/.exec(await choice.text())!;
    const home = await this.visit(new URL(action!, address).href, {
      ...Object.fromEntries(address.searchParams),
      user,
    });
    assert.equal(home.url, `${this.url}/`, await home.text());
  }

  /** Sends a form of the page, and gives the page that follows. */
  async submit(path: string, fields: Record<string, string> = {}): Promise<string> {
    const [, token] = /name="_csrf_token" value="([^"]+)"/.exec(await (await this.visit('/')).text())!;
    const response = await this.visit(path, { ...fields, _csrf_token: token! });
    assert.equal(response.status, 200);
    return response.text();
  }
}
