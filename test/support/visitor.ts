/**
 * A person who uses a new project: a scripted browser with a cookie jar, which follows redirects and sends
 * forms, but runs no scripts.
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

  /** Opens an address and returns the final response after all redirects, also those of pages. `form` is sent by POST. */
  async visit(address: string, form?: Record<string, string>): Promise<Response> {
    const url = new URL(address, this.url);
    const response = await fetch(url, {
      redirect: 'manual',
      headers: {
        Cookie: this.#cookies.headerFor(url),
        Accept: 'text/html',
        'Sec-Fetch-Site': 'same-origin',
      },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const field of response.headers.getSetCookie()) this.#cookies.take(field, url);
    const [, refresh] =
      /http-equiv="refresh" content="0; url=([^"]+)"/.exec(await response.clone().text()) ?? [];
    const location = response.headers.get('location') ?? refresh?.replaceAll('&#38;', '&');
    if (location === undefined) return response;
    return this.visit(new URL(location, url).href, response.status === 307 ? form : undefined);
  }

  /** Logs in as a user of the development provider. */
  async logIn(user = 'ada'): Promise<void> {
    const choice = await this.visit('/oauth/login');
    const address = new URL(choice.url);
    assert.equal(address.origin, this.url);
    assert.match(address.pathname, /^\/_dev\/\w+\/authorize$/); // the path contains the name of the provider
    assert.match(
      choice.headers.get('content-security-policy')!,
      /form-action 'self' http:\/\/127\.0\.0\.1:\d+;/,
    ); // the address of the provider, not of the application
    const [, action] = /<form method="post" action="([^"]+)"/.exec(await choice.text())!;
    const home = await this.visit(new URL(action!, address).href, {
      ...Object.fromEntries(address.searchParams),
      user,
    });
    assert.equal(home.url, `${this.url}/`, await home.text());
  }

  /** Logs out everywhere, and at the provider. Returns the text of the page that follows. */
  async logOut(): Promise<string> {
    const page = await this.submit('/logout');
    const [, action] = /<form method="post" action="([^"]+)"/.exec(page)!;
    const fields = [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
      ([, name, value]): [string, string] => [name!, value!],
    );
    const url = new URL(action!, `${this.url}/_dev/dev/logout`).href;
    return (await this.visit(url, { ...Object.fromEntries(fields), confirmed: '1' })).text();
  }

  /** Sends a form of the page, and returns the text of the page that follows. */
  async submit(path: string, fields: Record<string, string> = {}): Promise<string> {
    const [, token] = /name="_csrf_token" value="([^"]+)"/.exec(await (await this.visit('/')).text())!;
    const response = await this.visit(path, { ...fields, _csrf_token: token! });
    assert.equal(response.status, 200);
    return response.text();
  }
}
