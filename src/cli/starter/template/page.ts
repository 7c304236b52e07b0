/**
 * Start page and error page of a new project, and the HTML that all its pages share.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `src/page.ts`. */
export const PAGE: Template = () => `/**
 * The start page, without a script, and what every page is made of: nothing comes from elsewhere.
 */
import { HTMLResponse, cspNonce, csrfField } from 'svc';
import type { HTTPException, HttpRequest } from 'svc';
import type { LoginChoice } from './login.ts';
import type { Note } from './notes.ts';
import type { Person } from './people.ts';

/** What the page shows. */
export interface Shown {
  readonly title: string;
  /** Who has logged in. */
  readonly person: Person | undefined;
  /** Where they can, if they have not. */
  readonly logins: readonly LoginChoice[];
  /** Whether there is a page about the JSON interface. */
  readonly hasDocs: boolean;
  readonly items: readonly Note[];
  readonly total: number;
  readonly page: number;
  readonly size: number;
  /** Why the draft was not taken. */
  readonly problem?: string;
  readonly draft?: string;
  /** For the JSON interface; shown once. */
  readonly token?: string;
}

const STYLE = \`
:root {
  color-scheme: light dark;
  --ground: light-dark(#f4f5f7, #15181c); --card: light-dark(#ffffff, #1e2227); --line: light-dark(#dadfe5, #363d46);
  --ink: light-dark(#1a1e23, #eceef1); --soft: light-dark(#59626d, #a2abb6); --accent: light-dark(#0a5bc4, #86b7fe);
  --on-accent: light-dark(#ffffff, #0d1b2e); --alarm: light-dark(#b3261e, #ffb4ab); --edge: light-dark(#838c97, #707a86);
}
* { box-sizing: border-box; margin: 0; }
body { background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 42rem; margin: 0 auto; padding: clamp(1.5rem, 6vw, 4rem) 1.25rem; display: grid; gap: 1.5rem; }
h1 { font-size: clamp(1.75rem, 5vw, 2.5rem); line-height: 1.15; letter-spacing: -0.02em; overflow-wrap: anywhere; }
h2 { font-size: 1.125rem; }
header p, .soft { color: var(--soft); }
header p { margin-top: 0.375rem; }
a { color: var(--accent); text-underline-offset: 0.2em; }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; }
pre code { font-size: 1em; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 0.625rem; padding: 0.875rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
label { display: block; font-weight: 600; margin-bottom: 0.375rem; }
.row { display: flex; flex-wrap: wrap; gap: 0.625rem; }
input { flex: 1; min-width: 0; font: inherit; color: inherit; background: var(--card); border: 1px solid var(--edge); border-radius: 0.5rem; padding: 0.5rem 0.75rem; }
button { font: inherit; font-weight: 600; cursor: pointer; color: var(--on-accent); background: var(--accent); border: 1px solid transparent; border-radius: 0.5rem; padding: 0.5rem 1.125rem; }
button.quiet { font-weight: 400; font-size: 0.875rem; color: var(--soft); background: none; border-color: var(--edge); padding: 0.125rem 0.625rem; }
a.button { display: inline-block; font-weight: 600; text-decoration: none; color: var(--on-accent); background: var(--accent); border-radius: 0.5rem; padding: 0.5rem 1.125rem; }
button:hover, a.button:hover { filter: brightness(1.1); }
button.quiet:hover { color: var(--ink); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
[role=alert] { color: var(--alarm); margin-top: 0.5rem; }
[role=status] { background: var(--card); border: 1px solid var(--line); border-left: 0.25rem solid var(--accent); border-radius: 0.625rem; padding: 0.625rem 1rem; }
ol { list-style: none; padding: 0; display: grid; gap: 0.625rem; }
li { background: var(--card); border: 1px solid var(--line); border-radius: 0.625rem; padding: 0.75rem 1rem; }
li p { white-space: pre-wrap; overflow-wrap: anywhere; }
li div { display: flex; justify-content: space-between; align-items: center; gap: 1rem; margin-top: 0.375rem; font-size: 0.875rem; }
.bar { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0.25rem 1rem; margin-bottom: 0.625rem; }
footer { border-top: 1px solid var(--line); padding-top: 1.25rem; font-size: 0.9375rem; display: grid; gap: 0.75rem; }
nav { display: flex; gap: 1rem; }
\`;

const ICON = 'data:image/svg+xml,' + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0a5bc4"/><path d="M4 5h8M4 8h8M4 11h5" stroke="#fff" stroke-width="1.5" stroke-linecap="round"/></svg>');

export function startPage(req: HttpRequest, shown: Shown, status = 200): HTMLResponse {
  const { title, person, hasDocs } = shown;
  const origin = \`\${req.scheme}://\${req.host}\`;
  const csrf = new Markup(person === undefined ? '' : csrfField(req));
  const main = html\`<header>
<h1>\${title}</h1>
<p>It runs. Its routes are in <code>src/app.ts</code>, this page is <code>src/page.ts</code>.</p>
</header>
\${whoOf(shown, csrf)}
\${req.session.takeFlashes().map(({ text }) => html\`<p role="status">\${text}</p>\`)}
\${person === undefined ? '' : notesOf(shown, csrf)}
<footer>
\${person === undefined ? '' : html\`<p><a href="/live">Notes as they are written</a>, over a WebSocket</p>\${tokenOf(shown.token, origin, csrf)}\`}
\${hasDocs ? html\`<p class="soft">For programmers: <a href="/docs">/docs</a> shows the JSON interface, and calls it</p>\` : ''}
<p class="soft">For operators: <a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>, <a href="/metrics">/metrics</a></p>
</footer>\`;
  return documentOf(req, title, main, status);
}

/** What a person sees who went astray, or was refused. */
export function problemPage(req: HttpRequest, title: string, { status, message, headers = {} }: HTTPException): HTMLResponse {
  const page = documentOf(req, \`\${message}: \${title}\`, html\`<header>
<h1>\${message}</h1>
<p>Error \${status}, request <code>\${req.id}</code></p>
</header>
<p><a href="/">To the start page</a></p>\`, status);
  for (const [name, value] of Object.entries(headers)) page.headers.set(name, value);
  return page;
}

/** A whole document. Its style has the nonce of the answer, and so has a script. */
export function documentOf(req: HttpRequest, title: string, main: Markup, status = 200, script?: string): HTMLResponse {
  const nonce = cspNonce(req);
  return new HTMLResponse(html\`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>\${title}</title>
<link rel="icon" href="\${ICON}">
<style nonce="\${nonce}">\${new Markup(STYLE)}</style>
</head>
<body>
<main>
\${main}
</main>
\${script === undefined ? '' : html\`<script nonce="\${nonce}">\${new Markup(script)}</script>\`}
</body>
</html>
\`.text, { status });
}

/** A link, not a form: the policy of the page lets forms go to this site alone, and the login leads to another one. */
function whoOf({ person, logins }: Shown, csrf: Markup): Markup {
  if (person !== undefined) {
    return html\`<div class="bar"><span>Logged in as <strong>\${person.name}</strong></span>
<form method="post" action="/logout">\${csrf}<button class="quiet">Log out everywhere</button></form></div>\`;
  }
  if (logins.length === 0) return html\`<p role="alert">Nobody can log in yet: see “Login” in README.md.</p>\`;
  return html\`<p>Notes are for those who have logged in.</p>
<p class="row">\${logins.map(({ name, address }) => html\`<a class="button" href="\${address}">Log in\${logins.length > 1 ? \` with \${NAMES[name] ?? name}\` : ''}</a>\`)}</p>\`;
}

/** How providers write themselves. */
const NAMES: Readonly<Record<string, string>> = { github: 'GitHub', google: 'Google' };

function notesOf({ items, total, page, size, problem, draft = '' }: Shown, csrf: Markup): Markup {
  return html\`<form method="post" action="/">
\${csrf}
<label for="text">New note</label>
<div class="row">
<input id="text" name="text" value="\${draft}"\${problem === undefined ? '' : new Markup(' autofocus aria-describedby="problem"')} required maxlength="500" pattern=".*\\\\S.*" title="At least one character that can be seen" autocomplete="off">
<button>Add</button>
</div>
\${problem === undefined ? '' : html\`<p id="problem" role="alert">\${problem}</p>\`}
</form>
<section>
<div class="bar">
<h2>Notes</h2>
<span class="soft">\${total === 0 ? 'none yet' : total === 1 ? '1 note' : \`\${total} notes\`}</span>
</div>
<ol>\${items.map((note) => noteOf(note, csrf))}</ol>
</section>
\${page > 1 || page * size < total ? pagesOf(page, size, total) : ''}\`;
}

function tokenOf(token: string | undefined, origin: string, csrf: Markup): Markup {
  if (token === undefined) {
    return html\`<p>The same notes as JSON, at <code>/api/notes</code>, need a token:</p>
<form method="post" action="/token">\${csrf}<button class="quiet">Make a token</button></form>\`;
  }
  return html\`<p>This token counts for an hour, or until you log out. It is not shown again.</p>
<pre><code>curl -H 'Authorization: Bearer \${token}' \${origin}/api/notes</code></pre>\`;
}

function noteOf({ id, text, createdAt }: Note, csrf: Markup): Markup {
  return html\`<li>
<p>\${text}</p>
<div><time class="soft" datetime="\${createdAt.toISOString()}">\${DAY_AND_TIME.format(createdAt)} UTC</time>
<form method="post" action="/delete">\${csrf}<input type="hidden" name="id" value="\${id}"><button class="quiet" aria-label="Delete note \${id}">Delete</button></form></div>
</li>
\`;
}

function pagesOf(page: number, size: number, total: number): Markup {
  const last = Math.max(1, Math.ceil(total / size));
  const link = (to: number, text: string): Markup => html\`<a href="/?page=\${to}&amp;size=\${size}">\${text}</a>\`;
  return html\`<nav aria-label="Pages">
\${page > 1 ? link(Math.min(page - 1, last), 'Newer') : ''}
<span class="soft">Page \${page} of \${last}</span>
\${page < last ? link(page + 1, 'Older') : ''}
</nav>\`;
}

const DAY_AND_TIME = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });

/** Markup that is safe as it is. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | readonly Markup[];

/** A template whose values are escaped, unless they are markup. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  return new Markup(String.raw({ raw: strings }, ...parts.map(textOf)));
}

function textOf(part: Part): string {
  if (part instanceof Markup) return part.text;
  if (typeof part === 'object') return part.map(textOf).join('');
  return String(part).replace(/[&<>"']/g, (character) => \`&#\${character.charCodeAt(0)};\`);
}
`;
