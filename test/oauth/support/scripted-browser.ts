/**
 * A browser without scripts: keeps cookies, follows redirects, submits forms.
 */
import assert from 'node:assert/strict';
import { CookieJar } from 'svc/testing';

/** Result of a visit: the last page. */
export interface Visited {
  readonly url: URL;
  readonly response: Response;
  readonly text: string;
}

const MAX_REDIRECTS = 10;

export class ScriptedBrowser {
  readonly cookies: CookieJar = new CookieJar(Date.now);
  /** Addresses that the browser has opened, redirects included. */
  readonly history: URL[] = [];

  /** Opens a page. A redirect to an address that starts with `stopAt` is not followed; the response's `location` has it. */
  async open(
    url: URL | string,
    {
      stopAt,
      form,
    }: { readonly stopAt?: string | undefined; readonly form?: URLSearchParams | undefined } = {},
  ): Promise<Visited> {
    let next = new URL(url);
    let body = form;
    for (let count = 0; count <= MAX_REDIRECTS; count++) {
      const cookie = this.cookies.headerFor(next);
      this.history.push(next);
      const response = await fetch(next, {
        method: body === undefined ? 'GET' : 'POST',
        redirect: 'manual',
        ...(cookie === '' ? {} : { headers: { cookie } }),
        ...(body === undefined ? {} : { body }),
      });
      for (const field of response.headers.getSetCookie()) this.cookies.take(field, next);
      const text = await response.text();
      const location = response.headers.get('location');
      if (location === null || (stopAt !== undefined && location.startsWith(stopAt)))
        return { url: next, response, text };
      assert.ok([302, 303].includes(response.status), `${response.status} ${location}`);
      next = new URL(location, next);
      body = undefined;
    }
    throw new Error(`It never ends: ${this.history.join(' → ')}`);
  }

  /** Submits the only form of a page, with its hidden fields and the given ones. */
  submit(
    { url, text }: Visited,
    fields: Readonly<Record<string, string>> = {},
    options: { readonly stopAt?: string | undefined } = {},
  ): Promise<Visited> {
    const action = /<form[^>]* action="([^"]+)"/.exec(text)?.[1];
    assert.ok(action !== undefined, `There is no form at ${url.href}: ${text.slice(0, 400)}`);
    const hidden = [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
      ([, name, value]): [string, string] => [name!, value!],
    );
    return this.open(new URL(action.replaceAll('&amp;', '&'), url), {
      ...options,
      form: new URLSearchParams([...hidden, ...Object.entries(fields)]),
    });
  }
}
