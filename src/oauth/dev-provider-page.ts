/**
 * The pages of DevProvider: plain HTML, no scripts, nothing from elsewhere.
 */
import { hash } from 'node:crypto';

/** Somebody who may be picked. */
export interface PickableUser {
  readonly sub: string;
  readonly name: string;
  readonly email: string | undefined;
}

const STYLE = 'body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem;color:#1b1b1b;background:#fff;overflow-wrap:anywhere}'
  + 'button{display:block;width:100%;margin:.5rem 0;padding:.75rem 1rem;font:inherit;text-align:left;color:inherit;'
  + 'background:#f2f4f7;border:1px solid #667085;border-radius:.5rem;cursor:pointer}'
  + 'button:hover,button:focus-visible{background:#dde7f7;outline:2px solid #1d4ed8}small{display:block;color:#475467}'
  + '@media(prefers-color-scheme:dark){body{color:#f2f4f7;background:#16181d}button{background:#262a33;border-color:#98a2b3}button:hover,button:focus-visible{background:#1e3a6e;outline-color:#93c5fd}small{color:#d0d5dd}}';
const STYLE_HASH = hash('sha256', STYLE, 'base64');

/**
 * Headers of a page. `formOrigins`: where a sent form may lead, for browsers judge the redirect that answers it as well
 * (Content Security Policy, form-action).
 */
export function pageHeaders(formOrigins: readonly string[]): Record<string, string> {
  const targets = formOrigins.length === 0 ? "'none'" : ["'self'", ...formOrigins].join(' ');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action ${targets}; base-uri 'none'; frame-ancestors 'none'`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
}

/** Asks who is logging in. `parameters` are those of the authorization request, and come back with the answer. */
export function pickerPage(action: string, parameters: Readonly<Record<string, string>>, users: readonly PickableUser[]): string {
  const hidden = Object.entries(parameters).map(([name, value]) => `<input type="hidden" name="${escaped(name)}" value="${escaped(value)}">`);
  const buttons = users.map(({ sub, name, email }) => `<button name="user" value="${escaped(sub)}">${escaped(name)}<small>${escaped(email ?? sub)}</small></button>`);
  return page('Choose who to be', `<p>This stands in for an identity provider during development. Nobody is asked for a password.</p>
<form method="post" action="${escaped(action)}">
${hidden.join('\n')}
${buttons.join('\n')}
<button name="deny" value="1">Cancel the login</button>
</form>`);
}

/** Says why nobody is sent anywhere. */
export function errorPage(problem: string): string {
  return page('This login cannot go on', `<p>${escaped(problem)}</p>`);
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${STYLE}</style>
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

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
