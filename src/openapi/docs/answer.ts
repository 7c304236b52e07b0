/**
 * Part of the page's script: sends a request, and shows what comes back while it comes: status, time, fields, and the body as
 * what it is. JSON is set out from its text, not parsed and written again, so that no digit of a number is lost.
 */

/** The text of it. */
export const ANSWER: string = String.raw`
const MOST_BYTES = 4e6;
const MOST_COLOURED = 2e5;
const FORBIDDEN = 'This page may talk to its own site alone, and the browser tells no more: the server may be away, or have sent on to another site.';

// Sends it; whatever happens is shown.
/** @param {any} out @param {any} request @param {AbortSignal} signal */
async function answer(out, request, signal) {
  const headers = [...request.headers];
  out.replaceChildren(make('p', { class: 'st' }, 'Waiting …'));
  const restore = lendCookies(request.cookies);
  const startedMs = performance.now();
  try {
    if (request.needsToken) {
      const token = await csrfToken();
      if (token) headers.push(['X-CSRF-Token', token]);
    }
    const response = await fetch(request.url, { method: request.method, headers, body: payload(request.body), credentials: 'same-origin', cache: 'no-store', signal });
    const ms = performance.now() - startedMs;
    await showResponse(out, response, ms, signal);
    out.scrollIntoView({ block: 'nearest' });
  } catch (error) {
    const isStopped = signal.aborted;
    say(isStopped ? 'Stopped' : 'No answer');
    out.replaceChildren(make('p', { class: 'st' }, make('b', { class: isStopped ? '' : 'c5' }, isStopped ? 'Stopped' : 'No answer')), make('p', { class: 'need' }, isStopped ? '' : (error instanceof Error ? error.message + '. ' : '') + FORBIDDEN));
  } finally {
    restore();
  }
}

// Cookies that somebody has filled in are set for this request, and put back.
/** @param {[string, string][]} cookies @returns {() => void} */
function lendCookies(cookies) {
  const before = Object.fromEntries(document.cookie.split('; ').map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]));
  const lent = cookies.filter(([name, value]) => !value.startsWith('<your ') && before[name] !== value);
  for (const [name, value] of lent) document.cookie = cookieText(name, value);
  return () => {
    for (const [name] of lent) document.cookie = before[name] === undefined ? cookieText(name, '') + '; max-age=0' : cookieText(name, before[name]);
  };
}

/** @param {any} out @param {Response} response @param {number} ms @param {AbortSignal} signal */
async function showResponse(out, response, ms, signal) {
  const size = make('span', {});
  const status = make('p', { class: 'st' }, make('b', { class: 'c' + String(response.status)[0] }, String(response.status)), ' ' + response.statusText + ' · ' + (ms < 10 ? ms.toFixed(1) : Math.round(ms)) + ' ms', size);
  const rows = [...response.headers].flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]);
  const fields = make('details', { class: 'heads' }, make('summary', {}, rows.length / 2 + ' header fields'), make('dl', {}, ...rows));
  const holder = make('div', {});
  out.replaceChildren(make('div', { class: 'bar' }, status), response.redirected ? make('p', { class: 'need' }, 'Sent on to ' + response.url) : '', holder, fields);
  const type = (response.headers.get('Content-Type') || '').toLowerCase();
  const isText = type === '' || /^text\/|[/+](json|xml|yaml)|javascript|x-ndjson|jsonl|urlencoded/.test(type);
  const { bytes, isCut } = await readAll(response, isText && /event-stream|ndjson|jsonl/.test(type) ? holder : undefined, signal);
  size.textContent = ' · ' + (bytes.size < 1000 ? bytes.size + ' B' : (bytes.size / 1000).toFixed(1) + ' kB') + (isCut ? ', cut' : '');
  say(status.textContent); // the body is there to be read, not to be read out
  if (bytes.size === 0) return;
  if (!isText) return holder.replaceChildren(...binary(bytes, type, response));
  const text = await bytes.text();
  const shown = make('pre', { class: 'w', tabindex: '0', 'aria-label': 'Body of the answer' });
  shown.append(...(/[/+]json/.test(type) && text.length <= MOST_COLOURED ? jsonNodes(text) : [text]));
  out.firstChild.append(copyButton('Copy', () => shown.textContent));
  holder.replaceChildren(shown);
}

// What comes in pieces is shown as it comes; what has no end is cut.
/** @param {Response} response @param {any} live @param {AbortSignal} signal */
async function readAll(response, live, signal) {
  /** @type {BlobPart[]} */ const pieces = [];
  let size = 0;
  let isCut = false;
  const reader = response.body ? response.body.getReader() : undefined;
  const decoder = new TextDecoder();
  const shown = make('pre', { class: 'w', tabindex: '0', 'aria-label': 'Body of the answer' });
  if (live) live.replaceChildren(shown);
  try {
    for (;;) {
      const { done, value } = reader ? await reader.read() : { done: true, value: undefined };
      if (done || !value) break;
      pieces.push(value);
      size += value.length;
      if (live) shown.append(decoder.decode(value, { stream: true }));
      if (size > MOST_BYTES) {
        isCut = true;
        break;
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    isCut = true;
  }
  if (isCut && reader) reader.cancel().catch(() => undefined);
  return { bytes: new Blob(pieces, { type: (response.headers.get('Content-Type') || '').split(';')[0] }), isCut };
}

/** @param {Blob} bytes @param {string} type @param {Response} response @returns {any[]} */
function binary(bytes, type, response) {
  const url = URL.createObjectURL(bytes);
  const name = /filename="?([^";]+)/.exec(response.headers.get('Content-Disposition') || '');
  const link = make('a', { class: 'button small', href: url, download: name ? name[1] : 'answer' }, 'Save the file');
  return [type.startsWith('image/') ? make('img', { src: url, alt: 'The picture that the operation answered with' }) : '', make('div', { class: 'go' }, link)];
}

const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],])/g;

// JSON as elements, indented; text that is no JSON comes as it is.
/** @param {string} text @returns {any[]} */
function jsonNodes(text) {
  try { JSON.parse(text); } catch { return [text]; }
  /** @type {any[]} */ const nodes = [];
  let depth = 0;
  let plain = '';
  const coloured = (/** @type {string} */ kind, /** @type {string} */ token) => {
    nodes.push(plain, make('span', { class: 'js-' + kind }, token));
    plain = '';
  };
  const line = () => { plain += '\n' + '  '.repeat(depth); };
  const tokens = [...text.matchAll(TOKENS)];
  tokens.forEach(([token, string, colon, digits, word], index) => {
    if (string) {
      coloured(colon ? 'k' : 's', string);
      if (colon) plain += ': ';
    } else if (digits) coloured('n', digits);
    else if (word) coloured('l', word);
    else if (token === ',') { plain += ','; line(); }
    else if (token === '{' || token === '[') {
      plain += token;
      const next = tokens[index + 1];
      if (next && next[0] !== '}' && next[0] !== ']') { depth++; line(); }
    } else {
      const before = tokens[index - 1];
      if (before && before[0] !== '{' && before[0] !== '[') { depth--; line(); }
      plain += token;
    }
  });
  return [...nodes, plain];
}
`;
