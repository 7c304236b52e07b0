/**
 * The page that sends a form once more. A provider that answers with `response_mode=form_post` makes the browser post from
 * the provider's site, and then our cookie stays at home; posted again from our own page, it comes along.
 */
import { randomBytes } from 'node:crypto';
import { HTMLResponse } from '../http/response.ts';
import type { FormData_ } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';

/** What a callback may carry; nothing else is sent on. */
const FIELDS = ['code', 'state', 'iss', 'error', 'error_description', 'scope', 'session_state', 'user'] as const;

/** The page for a form that has come without its cookie. Works without scripts, by a button. */
export function repostPage(form: FormData_): HttpResponse {
  const nonce = randomBytes(16).toString('base64');
  const fields = FIELDS.flatMap((name) => form.getAll(name).map((value) => `<input type="hidden" name="${name}" value="${escape(value)}">`)).join('');
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Logging in</title>
</head>
<body>
<main>
<h1>Logging in</h1>
<form method="post">${fields}<input type="hidden" name="reposted" value="1"><p>If this page stays: <button>Continue</button></p></form>
</main>
<script nonce="${nonce}">document.forms[0].submit()</script>
</body>
</html>
`;
  return new HTMLResponse(page, {
    headers: { 'Content-Security-Policy': `default-src 'none'; script-src 'nonce-${nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'` },
  });
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
