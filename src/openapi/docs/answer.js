/**
 * Script of the docs page: sends a request, and shows the response while it arrives: status, time, fields, and the body by its
 * type. JSON is indented as text, not parsed and written again, so that no digit of a number is lost.
 */

const MOST_BYTES = 4e6;
const MOST_COLOURED = 2e5;
const FORBIDDEN =
  'The server is not reachable, or it redirects to another site: this page may only call its own.';

/** Sends a request, and shows its response or its failure. */
async function answer(out, request, signal) {
  out.replaceChildren(make('p', { class: 'st' }, 'Waiting …'));
  const restore = lendCookies(request.cookies);
  const startedMs = performance.now();
  try {
    const token = request.needsToken ? await csrfToken() : null;
    const response = await fetch(request.url, {
      method: request.method,
      headers: [...request.headers, ...(token ? [['X-CSRF-Token', token]] : [])],
      body: payload(request.body),
      credentials: 'same-origin',
      cache: 'no-store',
      signal,
    });
    await showResponse(out, response, performance.now() - startedMs, signal);
    out.scrollIntoView({ block: 'nearest' });
  } catch (error) {
    const status = signal.aborted ? 'Stopped' : 'No response';
    const why = signal.aborted ? '' : `${error instanceof Error ? `${error.message}. ` : ''}${FORBIDDEN}`;
    say(status);
    out.replaceChildren(
      make('p', { class: 'st' }, make('b', { class: signal.aborted ? '' : 'c5' }, status)),
      make('p', { class: 'need' }, why),
    );
  } finally {
    restore();
  }
}

/** Returns the CSRF token of this session, which is a field of the response to HEAD. */
async function csrfToken() {
  /** @type {RequestInit} */
  const given = { method: 'HEAD', credentials: 'same-origin', cache: 'no-store' };
  try {
    return (await fetch(location.pathname, given)).headers.get('X-CSRF-Token');
  } catch {
    return null;
  }
}

function payload(body) {
  if (!body?.parts) return body?.text ?? body?.file;
  const data = body.isMultipart ? new FormData() : new URLSearchParams();
  for (const [name, value] of body.parts) data.append(name, value);
  return data;
}

/** Sets the cookies of the form for this request. Returns a function that restores the former cookies. */
function lendCookies(cookies) {
  const pairs = document.cookie
    .split('; ')
    .map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]);
  const before = Object.fromEntries(pairs);
  const lent = cookies.filter(([name, value]) => !value.startsWith('<your ') && before[name] !== value);
  for (const [name, value] of lent) document.cookie = cookieText(name, value);
  return () => {
    for (const [name] of lent)
      document.cookie = `${cookieText(name, before[name] ?? '')}${before[name] === undefined ? '; max-age=0' : ''}`;
  };
}

async function showResponse(out, response, ms, signal) {
  const size = make('span');
  const status = make(
    'p',
    { class: 'st' },
    make('b', { class: `c${String(response.status)[0]}` }, response.status),
    ` ${response.statusText} · ${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`,
    size,
  );
  const bar = make('div', { class: 'bar' }, status);
  const holder = make('div');
  const redirect = response.redirected && make('p', { class: 'need' }, `Redirected to ${response.url}`);
  out.replaceChildren(bar, redirect || '', holder, headerFields(response));
  const type = (response.headers.get('Content-Type') ?? '').toLowerCase();
  const isText =
    !type.startsWith('image/') &&
    (type === '' || /^text\/|[/+](json|xml|yaml)|javascript|x-ndjson|jsonl|urlencoded/.test(type));
  const shown = make('pre', { class: 'w', tabindex: '0', 'aria-label': 'Response body' });
  const isLive = isText && /event-stream|ndjson|jsonl/.test(type);
  if (isLive) {
    holder.append(shown);
    out.scrollIntoView({ block: 'nearest' });
  }
  const append = (text) => {
    const isAtEnd = shown.scrollHeight - shown.scrollTop - shown.clientHeight < 40;
    shown.append(text);
    if (isAtEnd) shown.scrollTop = shown.scrollHeight;
  };
  const { bytes, isCut } = await readAll(response, isLive ? append : undefined, signal);
  size.textContent = ` · ${sizeText(bytes.size)}${isCut ? ', cut' : ''}`;
  say(status.textContent); // screen readers announce the status only, not the body
  if (bytes.size === 0) return;
  if (!isText) return holder.replaceChildren(...(await binary(bytes, type, response)));
  const text = await bytes.text();
  const isColoured = /[/+]json/.test(type) && text.length <= MOST_COLOURED;
  shown.replaceChildren(...(isColoured ? jsonNodes(text) : [text]));
  holder.replaceChildren(shown);
  const button = make('button', { type: 'button', class: 'button small' }, 'Copy');
  button.addEventListener('click', () => copy(shown.textContent, button));
  bar.append(button);
}

function headerFields({ headers }) {
  const fields = [...headers];
  const rows = fields.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]);
  const summary = make('summary', {}, `${fields.length} headers`);
  return make('details', { class: 'heads' }, summary, make('dl', {}, ...rows));
}

/** Reads a body up to a limit, or until the user stops it. Passes its chunks to `onText` as text. */
async function readAll(response, onText, signal) {
  const chunks = [];
  let size = 0;
  let isCut = false;
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  try {
    while (reader && !isCut) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks.push(value);
      size += value.length;
      onText?.(decoder.decode(value, { stream: true }));
      isCut = size > MOST_BYTES;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    isCut = true;
  }
  if (isCut) reader.cancel().catch(() => undefined);
  const [type] = (response.headers.get('Content-Type') ?? '').split(';');
  return { bytes: new Blob(chunks, { type }), isCut };
}

const MOST_SHOWN = 256;

/** Shows an image, or the first bytes of a file, with its name, type and size, and a link that saves it. */
async function binary(bytes, type, response) {
  const url = URL.createObjectURL(bytes);
  const name = fileName(response.headers.get('Content-Disposition') ?? '');
  const link = make('a', { class: 'button small', href: url, download: name }, 'Download');
  const about = make('p', { class: 'k' }, `${name} · ${type || 'no media type'} · ${sizeText(bytes.size)}`);
  const shown = type.startsWith('image/')
    ? make('img', { src: url, alt: `Preview of ${name}` })
    : await firstBytes(bytes);
  return [about, shown, make('div', { class: 'go' }, link)];
}

/** Returns the file name in a response's header fields (RFC 6266). */
function fileName(disposition) {
  const [, encoded] = /filename\*=UTF-8''([^;]+)/i.exec(disposition) ?? [];
  const [, plain] = /filename="?([^";]+)/i.exec(disposition) ?? [];
  return encoded === undefined ? (plain ?? 'response') : decoded(encoded);
}

/** Returns bytes in rows of 8, each with its offset, its bytes in hexadecimal, and in ASCII. */
async function firstBytes(bytes) {
  const first = new Uint8Array(await bytes.slice(0, MOST_SHOWN).arrayBuffer());
  const rows = Array.from({ length: Math.ceil(first.length / 8) }, (_, row) => {
    const part = [...first.slice(row * 8, row * 8 + 8)];
    const digits = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const signs = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    return `${(row * 8).toString(16).padStart(4, '0')}  ${digits.padEnd(23)}  ${signs}`;
  });
  return make('pre', { tabindex: '0', 'aria-label': 'First bytes of the file' }, rows.join('\n'));
}

function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const [size, unit] = bytes < 1e6 ? [bytes / 1e3, 'kB'] : [bytes / 1e6, 'MB'];
  return `${Number(size.toFixed(1))} ${unit}`;
}

const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],])/g;

/** Returns JSON as coloured, indented elements. Other text is returned unchanged. */
function jsonNodes(text) {
  if (jsonOf(text) === undefined) return [text];
  const nodes = [];
  let depth = 0;
  let plain = '';
  const coloured = (kind, token) => {
    nodes.push(plain, make('span', { class: `js-${kind}` }, token));
    plain = '';
  };
  const line = () => `\n${'  '.repeat(depth)}`;
  const tokens = [...text.matchAll(TOKENS)];
  tokens.forEach(([token, string, colon, digits, word], index) => {
    const isEmpty = /^[{[]$/.test(tokens[index - 1]?.[0] ?? '');
    const isLast = /^[}\]]$/.test(tokens[index + 1]?.[0] ?? '');
    if (string) {
      coloured(colon ? 'k' : 's', string);
      if (colon) plain += ': ';
    } else if (digits) coloured('n', digits);
    else if (word) coloured('l', word);
    else if (token === ',') plain += token + line();
    else if (token === '{' || token === '[') {
      if (!isLast) depth++;
      plain += isLast ? token : token + line();
    } else {
      if (!isEmpty) depth--;
      plain += isEmpty ? token : line() + token;
    }
  });
  return [...nodes, plain];
}
