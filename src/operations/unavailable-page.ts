/**
 * 503 responses of the supervising parent while no child process serves.
 *
 * Clients that accept JSON but not HTML get `application/problem+json`. All others get an HTML page.
 */
import { HTML_TYPE, HttpResponse, escapeHtml, problem } from '../http/response.ts';
import type { HttpRequest } from '../http/contracts.ts';

/** Seconds in the `Retry-After` field. */
const RETRY_AFTER_SECONDS = 1;

interface Reason {
  readonly title: string;
  /** Details, in one or several lines. Only `run({ reload })` has details. */
  readonly text: string;
  /** Advice for the reader, below the details. */
  readonly hint: string;
}

/** Returns the 503 response to a request while no child process serves. */
export function unavailablePage(req: HttpRequest, { title, text, hint }: Reason): HttpResponse {
  const response = wantsJson(req.headers['accept'] ?? '')
    ? problem(503, req.id, { detail: text === '' ? title : `${title}: ${text}` })
    : new HttpResponse(page(title, text, hint), {
        status: 503,
        mediaType: HTML_TYPE,
        headers: { 'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'" },
      });
  response.headers.set('Cache-Control', 'no-store');
  response.headers.set('Retry-After', String(RETRY_AFTER_SECONDS));
  return response;
}

/** Returns whether a client accepts JSON but not HTML. Browsers accept HTML. */
function wantsJson(accept: string): boolean {
  return /\bapplication\/(?:[\w.-]+\+)?json\b/i.test(accept) && !/\btext\/html\b/i.test(accept);
}

function page(title: string, text: string, hint: string): string {
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(title)}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:1rem;border-left:4px solid #b3261e;background:#f4f4f4}@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}pre{background:#262626}}</style>
<h1>${escapeHtml(title)}</h1>
${text === '' ? '' : `<pre>${escapeHtml(text)}</pre>\n`}<p>${escapeHtml(hint)}</p>
</html>
`;
}
