/** HTML pages. They work without JavaScript; with it, public/live.js reloads notes that change elsewhere. */
import { HTMLResponse, csrfField } from 'svc';
import { PAGE_SIZE } from './notes.ts';
import type { HTTPException, HttpRequest } from 'svc';
import type { SessionInfo } from 'svc/oauth';
import type { Account } from './accounts.ts';
import type { Note } from './notes.ts';

/** Text that is HTML and needs no escaping. */
class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | false | undefined | Html | readonly Value[];

/** Returns HTML in which all values are escaped, except those that are HTML already. */
function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(String.raw({ raw: strings }, ...values.map(textOf)));
}

function textOf(value: Value): string {
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(textOf).join('');
  if (value === false || value === undefined) return '';
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

interface Document {
  readonly title: string;
  readonly main: Html;
  /** Buttons at the right end of the header. */
  readonly menu?: Html;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

function documentOf({ title, main, menu, status = 200, headers = {} }: Document): HTMLResponse {
  const { text } = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="/public/page.css" />
        <script src="/public/live.js" defer></script>
      </head>
      <body>
        <header class="row"><h1>${title}</h1>${menu}</header>
        <main>${main}</main>
      </body>
    </html>`;
  return new HTMLResponse(text, { status, headers: { ...headers, 'Cache-Control': 'no-store' } });
}

const LOGIN_ERRORS = new Map([
  ['login_required', 'You need a new login for this: log in again.'],
  ['access_denied', 'The login was cancelled or refused.'],
  ['account_taken', 'This account belongs to another person.'],
]);

/** `error` is a code of OAuthPlugin. `isDevelopment`: the providers are those of `developmentProviders()`. */
export function loginPage(
  title: string,
  providers: readonly string[],
  isDevelopment: boolean,
  error?: string,
): HTMLResponse {
  const reason = LOGIN_ERRORS.get(error ?? '') ?? (error && `The login failed: ${error}.`);
  const links = providers.map((name, index) => {
    const path = index === 0 ? '/oauth/login' : `/oauth/${name}/login`;
    return html`<a class="button" href="${path}">Log in with ${name}</a>`;
  });
  const explanation = html`<p class="hint">
    ${providers.join(' and ')} are fake identity providers of this program, for development: you log in as anyone, without
    a password. Production does not have them.
  </p>`;
  const warning = html`<p role="alert">There is no login yet: see “Login” in README.md.</p>`;
  return documentOf({
    title,
    main: html`<section>
      <h2>Log in</h2>
      <p>${reason || 'Notes are for people who have logged in.'}</p>
      <div class="start">${links.length > 0 ? links : warning}</div>
      ${isDevelopment && explanation}
    </section>`,
  });
}

/** Returns the page for an error, such as a missing page or a refused request. */
export function problemPage(req: HttpRequest, error: HTTPException): HTMLResponse {
  const main = html`<section>
    <p>Error ${error.status}, request <code>${req.id}</code></p>
    <p><a href="/">To the start page</a></p>
  </section>`;
  return documentOf({ title: error.message, main, status: error.status, headers: error.headers });
}

export interface Shown {
  readonly items: readonly Note[];
  readonly total: number;
  readonly page: number;
  readonly providers: readonly string[];
  readonly accounts: readonly Account[]; // linked accounts of the person
  readonly logins: readonly SessionInfo[];
  readonly call?: string; // a command with a new API token for programs, which is shown once
}

export function notesPage(req: HttpRequest, title: string, shown: Shown): HTMLResponse {
  const csrf = new Html(csrfField(req));
  const used = shown.logins.find(({ isCurrent }) => isCurrent)?.provider;
  const account = shown.accounts.find(({ provider }) => provider === used) ?? shown.accounts[0];
  const menu = html`<form class="row" method="post" action="/oauth/logout">
    <span>Logged in as <strong>${account?.name}</strong></span>
    <button class="quiet">Log out</button>
  </form>`;
  const main = html`${notesOf(req, shown, csrf)} ${loginsOf(shown, csrf)} ${tokensOf(shown, csrf)}`;
  return documentOf({ title, menu, main });
}

function notesOf(req: HttpRequest, { items, total, page }: Shown, csrf: Html): Html {
  const draft = Buffer.from(req.cookies['draft'] ?? '', 'base64url').toString(); // a note sent after a logout
  return html`<section>
      <form method="post" action="/">
        ${csrf}<label for="text">New note</label>
        <div class="row">
          <input id="text" name="text" value="${draft}" required maxlength="500" pattern=".*\\S.*" autocomplete="off" />
          <button>Add</button>
        </div>
      </form>
    </section>
    <section id="notes" data-live="/live">
      <h2>Notes</h2>
      <p>${total === 1 ? '1 note' : `${total} notes`}</p>
      <ol>${items.map((note) => noteOf(note, csrf))}</ol>
      <nav class="row" aria-label="Pages">
        ${page > 1 && html`<a href="/?page=${page - 1}">Newer</a>`}
        ${page * PAGE_SIZE < total && html`<a href="/?page=${page + 1}">Older</a>`}
      </nav>
    </section>`;
}

function noteOf({ id, text, createdAt }: Note, csrf: Html): Html {
  return html`<li><p>${text}</p><form class="row" method="post" action="/delete">
      ${csrf}<input type="hidden" name="id" value="${id}" />
      ${timeOf(createdAt)}
      <button class="quiet" aria-label="Delete the note ${text}">Delete</button>
    </form></li>`;
}

function timeOf(date: Date): Html {
  const time = date.toISOString();
  return html`<time datetime="${time}">${time.slice(0, 16).replace('T', ' ')} UTC</time>`;
}

function loginsOf({ logins, accounts, providers }: Shown, csrf: Html): Html {
  const linked = accounts.map(({ provider }) => provider);
  return html`<section>
    <h2>Logins</h2>
    <ul>${logins.map((login) => loginOf(login, csrf))}</ul>
    <form class="row" method="post" action="/logout">
      ${csrf}<span>Ends all logins and tokens of programs.</span><button class="quiet">Log out everywhere</button>
    </form>
    <div class="row">Ways to log in: ${linked.join(', ')} ${providers.map((way) => accountForm(way, linked))}</div>
  </section>`;
}

function loginOf({ id, provider, isCurrent, userAgent, lastUsedAt }: SessionInfo, csrf: Html): Html {
  const [browser = 'A program'] = /Firefox|Edg|Chrome|Safari/.exec(userAgent ?? '') ?? [];
  const place = isCurrent ? 'this browser' : `with ${provider}`;
  const end = html`<button class="quiet" aria-label="End the login of ${browser}, ${place}">End</button>`;
  return html`<li><form class="row" method="post" action="/logins/end">
      ${csrf}<input type="hidden" name="id" value="${id}" />
      <span>${browser}, ${place}</span><span>last used ${timeOf(lastUsedAt)}</span>${!isCurrent && end}
    </form></li>`;
}

/** Returns a button that links or unlinks an account. The last linked account cannot be unlinked. */
function accountForm(name: string, linked: readonly string[]): Html | false {
  const action = linked.includes(name) ? 'unlink' : 'link';
  const form = html`<form method="post" action="/oauth/${name}/${action}"><button class="quiet">${action} ${name}</button></form>`;
  return (action === 'link' || linked.length > 1) && form;
}

function tokensOf({ call }: Shown, csrf: Html): Html {
  return html`<section>
    <h2>Programs</h2>
    <form method="post" action="/token">
      ${csrf}
      <p id="token">The same notes as JSON, at <code>/api/notes</code>, need a token, which counts for an hour.</p>
      ${call !== undefined && html`<pre tabindex="0"><code>${call}</code></pre>`}
      <button class="quiet" formaction="/token#token">Make a token</button>
    </form>
    <p>In development <a href="/docs">/docs</a> shows the interface for programs, and calls it.</p>
  </section>`;
}
