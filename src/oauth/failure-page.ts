/**
 * Pages for browsers. In cookie mode, a browser gets an error page, or is redirected to a page of the
 * application. Other clients get JSON from error-responses.ts.
 */
import { hash, randomBytes } from 'node:crypto';
import { HTMLResponse, escapeHtml } from '../http/response.ts';
import type { FormFields, HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';

export interface Failure {
  readonly error: string;
  readonly error_description: string;
  readonly request_id: string;
  /** Text for a page. Default: `error_description`, which is ASCII. */
  readonly text?: string | undefined;
}

const STYLE =
  'body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}a{color:#0a5bc4}small{color:#475467}' +
  '@media(prefers-color-scheme:dark){body{color:#f2f4f7;background:#16181d}a{color:#93c5fd}small{color:#d0d5dd}}';
const POLICY = policyOf(`style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`, "'none'");

/** Matches `text/html` in the field `Accept`, unless `q=0` refuses it (RFC 9110 §12.5.1). */
const WANTS_HTML = /(?:^|,)\s*text\/html\s*(?!;\s*q=0(?:\.0*)?\s*(?:,|$))(?:[;,]|$)/i;

export function wantsHtml(req: HttpRequest): boolean {
  return WANTS_HTML.test(req.headers['accept'] ?? '');
}

/** Turns error responses to browsers into pages or redirects. */
export class FailurePages {
  readonly #routes: RegExp;
  readonly #errorPath: string | undefined;
  readonly #redirectUris: readonly string[];

  /**
   * After a failed login, or if a user must log in again, browsers are redirected to the path `errorPath`,
   * with `error` and `request_id` in the query. `redirectUris` is the option `allowedRedirectUris`.
   */
  constructor(prefix: string, errorPath: string | undefined, redirectUris: readonly string[]) {
    this.#routes = new RegExp(`^${prefix}(?:/[^/]+)?/(?:login|callback|link|unlink|logout)$`);
    this.#errorPath = errorPath;
    this.#redirectUris = redirectUris;
  }

  /** Returns whether a browser has sent the request to a route with error pages. */
  areFor(req: HttpRequest): boolean {
    return req.route !== undefined && this.#routes.test(req.path) && wantsHtml(req);
  }

  /** Replaces an error response by a page or a redirect. */
  show(response: HttpResponse, req: HttpRequest, failure: Failure): void {
    const isLogin = /(?:login|callback)$/.test(req.path);
    if (this.#errorPath !== undefined && (isLogin || failure.error === 'login_required'))
      redirect(response, failure, this.#errorPath);
    // a user whose account could not be linked is still logged in
    else if (isLogin && failure.error !== 'account_taken')
      showFailure(response, 'The login failed', failure, this.#loginOf(req));
    else showFailure(response, 'The request failed', failure, undefined);
  }

  /**
   * Returns the path that starts the failed login again. If several redirect URIs are allowed, the path has
   * the query parameter `redirect_uri`. Returns undefined if no such redirect URI is found.
   */
  #loginOf({ path, host }: HttpRequest): string | undefined {
    const login = path.replace(/callback$/, 'login');
    if (this.#redirectUris.length <= 1) return login;
    const callback = path.replace(/login$/, 'callback');
    const own = this.#redirectUris.filter((uri) => URL.parse(uri)?.pathname === callback);
    const uri = own.length === 1 ? own[0] : own.find((one) => URL.parse(one)?.host === host);
    return uri === undefined ? undefined : `${login}?${new URLSearchParams({ redirect_uri: uri })}`;
  }
}

function redirect(response: HttpResponse, { error, request_id: id }: Failure, errorPath: string): void {
  const [beforeHash, fragment] = errorPath.split('#', 2) as [string, string?];
  response.status = 303;
  response.body = null;
  response.headers.delete('Content-Type');
  const query = new URLSearchParams({ error, request_id: id });
  response.headers.set(
    'Location',
    `${beforeHash}${beforeHash.includes('?') ? '&' : '?'}${query}${fragment === undefined ? '' : `#${fragment}`}`,
  );
}

function showPage(response: HttpResponse, title: string, head: string, body: string): void {
  response.headers.set('Content-Type', 'text/html; charset=utf-8');
  response.headers.set('Content-Security-Policy', POLICY);
  response.headers.set('X-Content-Type-Options', 'nosniff');
  response.body = pageOf(title, `<style>${STYLE}</style>${head}`, body);
}

function showFailure(
  response: HttpResponse,
  title: string,
  { error, error_description, text = error_description, request_id: id }: Failure,
  again: string | undefined,
): void {
  const body = `<p>${escapeHtml(text)}.</p>
<p>${again === undefined ? 'Go' : `<a href="${escapeHtml(again)}">Log in again</a>, or go`} to the <a href="/">start page</a>.</p>
<p><small>${escapeHtml(error)}, request ${escapeHtml(id)}</small></p>`;
  showPage(response, title, '', body);
}

/**
 * Replaces the redirect of a browser's form to another address, such as a provider, by a page that goes there. Browsers
 * apply `form-action` to the redirects of a form, but not to such a page: the policy `'self'` is enough.
 */
export function leaveForm(response: HttpResponse, req: HttpRequest): void {
  const to = response.headers.get('Location');
  if (to === undefined || to.startsWith('/') || req.method !== 'POST' || !wantsHtml(req)) return;
  response.status = 200;
  response.headers.delete('Location');
  const address = escapeHtml(to);
  const head = `<meta http-equiv="refresh" content="0; url=${address}">`;
  showPage(response, 'One moment', head, `<p>If this page stays: <a href="${address}">Continue</a></p>`);
}

/*
 * With `response_mode=form_post`, a page of the provider posts a form to the callback. Browsers send no
 * SameSite cookies with this cross-site request. So a page of this origin posts the form again, with the
 * cookies.
 */

/** Parameters of the callback that repostPage() posts again. All others are dropped. */
const FIELDS = [
  'code',
  'state',
  'iss',
  'error',
  'error_description',
  'scope',
  'session_state',
  'user',
] as const;

/** Returns a page that posts a form again by a script. Without scripts, the user clicks a button. */
export function repostPage(form: FormFields): HttpResponse {
  const nonce = randomBytes(16).toString('base64');
  const fields = FIELDS.flatMap((name) =>
    form.getAll(name).map((value) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`),
  ).join('');
  const page = pageOf(
    'Logging in',
    '<meta name="color-scheme" content="light dark">',
    `<form method="post">${fields}<input type="hidden" name="reposted" value="1"><p>If this page stays: <button>Continue</button></p></form>
<script nonce="${nonce}">document.forms[0].submit()</script>`,
  );
  const policy = policyOf(`script-src 'nonce-${nonce}'`, "'self'");
  return new HTMLResponse(page, { headers: { 'Content-Security-Policy': policy } });
}

/*
 * HTML pages of OAuthPlugin and DevProvider. They load no external resources.
 */

/** Returns a page. `head` is added to `<head>`, and `body` follows the heading. */
export function pageOf(title: string, head: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
${head}
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
}

/**
 * Returns the Content Security Policy of a page. `source` is the directive for its style or script, and
 * `forms` lists the targets of its forms.
 */
export function policyOf(source: string, forms: string): string {
  return `default-src 'none'; ${source}; form-action ${forms}; base-uri 'none'; frame-ancestors 'none'`;
}
