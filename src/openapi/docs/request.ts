/**
 * Part of the page's script: from filled-in fields to a request, as `fetch` sends it and as `curl` would.
 */

/** The text of it. */
export const REQUEST: string = String.raw`
/** @param {{ method: string, path: string, operation: any, fields: any[], body: any }} given @returns {any} */
function requestOf({ method, path, operation, fields, body }) {
  const request = { method, url: '', query: /** @type {string[]} */ ([]), headers: /** @type {[string, string][]} */ ([]), cookies: /** @type {[string, string][]} */ ([]), needsToken: false, body: body && method !== 'GET' && method !== 'HEAD' ? body.read() : undefined };
  let filled = path;
  for (const { parameter, isJson, schema, texts } of fields) {
    const values = texts();
    if (parameter.in === 'path') filled = filled.replace('{' + parameter.name + '}', () => encodeURIComponent(values.join(',')));
    else if (values.length === 0) continue;
    else if (parameter.in === 'query') request.query.push(...queryOf(parameter, schema, values, isJson));
    else if (parameter.in === 'header') request.headers.push([parameter.name, values.join(',')]);
    else if (parameter.in === 'cookie') request.cookies.push([parameter.name, values.join(',')]);
  }
  addProofs(request, operation);
  request.needsToken = !SAFE.includes(method) && alternativesOf(operation).some((one) => one.some(([, scheme]) => isCsrf(scheme)));
  if (request.body && request.body.text !== undefined) request.headers.push(['Content-Type', request.body.type]);
  if (request.body && request.body.file) request.headers.push(['Content-Type', request.body.type]);
  request.url = base().replace(/\/$/, '') + filled + (request.query.length > 0 ? '?' + request.query.join('&') : '');
  return request;
}

// Where operations are: at a server of the document that is this site, or else beside the document.
/** @returns {string} */
function base() {
  for (const { url, variables } of openApi.servers || []) {
    try {
      const text = String(url).replace(/\{([^}]*)\}/g, (_, name) => variables && variables[name] ? variables[name].default : '');
      const found = new URL(text || '.', documentUrl());
      if (found.origin === location.origin) return found.origin + found.pathname;
    } catch { /* no address */ }
  }
  const beside = new URL('.', documentUrl());
  return beside.origin + beside.pathname;
}

/** @param {any} parameter @param {any} schema @param {string[]} values @param {boolean} isJson @returns {string[]} */
function queryOf(parameter, schema, values, isJson) {
  const name = encodeURIComponent(parameter.name);
  const type = typeName(schema);
  if (!isJson && type === 'array' && parameter.explode === false) {
    const between = parameter.style === 'spaceDelimited' ? '%20' : parameter.style === 'pipeDelimited' ? '%7C' : ',';
    return [name + '=' + values.map(encodeURIComponent).join(between)];
  }
  if (!isJson && type === 'object') {
    try {
      const entries = Object.entries(JSON.parse(values[0]));
      return entries.map(([key, value]) => (parameter.style === 'deepObject' ? name + encodeURIComponent('[' + key + ']') : encodeURIComponent(key)) + '=' + encodeURIComponent(asText(value)));
    } catch { /* as it is */ }
  }
  return values.map((value) => name + '=' + encodeURIComponent(value));
}

// A token of this session: told in the answer to HEAD of this page.
/** @returns {Promise<string | null>} */
async function csrfToken() {
  try {
    return (await fetch(location.pathname, { method: 'HEAD', credentials: 'same-origin', cache: 'no-store' })).headers.get('X-CSRF-Token');
  } catch {
    return null;
  }
}

/** @param {any} body @returns {BodyInit | undefined} */
function payload(body) {
  if (!body) return undefined;
  if (body.text !== undefined) return body.text;
  if (!body.parts) return body.file;
  const data = body.isMultipart ? new FormData() : new URLSearchParams();
  for (const [name, value] of body.parts) data.append(name, value);
  return data;
}

// As a shell reads it.
/** @param {string} text */
const quoted = (text) => "'" + text.replace(/'/g, "'\\''") + "'";

/** @param {any} request @returns {string} */
function curl({ method, url, headers, cookies, needsToken, body }) {
  const parts = ['curl' + (method === 'GET' ? '' : method === 'HEAD' ? ' -I' : ' -X ' + method) + ' ' + quoted(url)];
  for (const [name, value] of headers) parts.push('-H ' + quoted(name + ': ' + value));
  if (needsToken) parts.push('-H ' + quoted('X-CSRF-Token: <token of your session>'));
  if (cookies.length > 0) parts.push('-b ' + quoted(cookies.map((/** @type {string[]} */ pair) => pair.join('=')).join('; ')));
  if (body && body.text !== undefined) parts.push('--data-raw ' + quoted(body.text));
  else if (body && body.file) parts.push('--data-binary ' + quoted('@' + body.file.name));
  for (const [name, value] of body && body.parts || []) parts.push((body.isMultipart ? value instanceof File ? '-F ' : '--form-string ' : '--data-urlencode ') + quoted(name + '=' + (value instanceof File ? '@' + value.name : value)));
  return parts.join(' \\\n  ');
}
`;

/*
 * Part of the page's script: what an unfolded operation gets beside its text: its form, the command that stands for it, its answer.
 */

/** The text of it. */
export const TRY: string = String.raw`
let lastId = 0;
const nextId = () => ':' + ++lastId;
const SAFE = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];
/** @param {any} value */
const pretty = (value) => JSON.stringify(value, undefined, 2);

/** @param {any} fold @param {any} body */
async function addTry(fold, body) {
  const panel = make('div', { class: 'y', role: 'group', 'aria-label': 'Try it' });
  body.append(panel);
  try {
    await loadDocument();
  } catch (error) {
    const retry = make('button', { type: 'button', class: 'button small', onclick: () => { panel.remove(); addTry(fold, body); } }, 'Try again');
    panel.append(make('form', {}, make('h4', {}, 'Try it'), make('p', { class: 'need' }, 'The OpenAPI document cannot be loaded, so that there is nothing to make a request from.'), make('div', { class: 'go' }, retry)));
    return;
  }
  const method = fold.querySelector('.m').textContent;
  const path = fold.querySelector('h3 code').textContent;
  const item = resolved((openApi.paths || {})[path]);
  const operation = item[method.toLowerCase()];
  if (operation) panel.append(...tryForm({ method, path, item, operation, id: body.id }));
}

// Everything of one operation: its fields, its buttons, its answer.
/** @param {{ method: string, path: string, item: any, operation: any, id: string }} given @returns {any[]} */
function tryForm({ method, path, item, operation, id }) {
  const fields = mergedParameters(item, operation).map(parameterField);
  const body = operation.requestBody ? bodyField(resolved(operation.requestBody)) : undefined;
  const out = make('div', { class: 'out', role: 'region', 'aria-label': 'Answer' });
  const command = make('pre', { tabindex: '0', 'aria-label': 'The same as a command' });
  const needs = make('p', { class: 'need' });
  const send = make('button', { class: 'button main' }, 'Send');
  /** @type {AbortController | undefined} */ let running;
  const request = () => requestOf({ method, path, operation, fields, body });
  const show = () => {
    command.textContent = curl(request());
    const missing = missingProofs(operation);
    needs.hidden = missing.length === 0;
    needs.replaceChildren('Needs ' + missing.join(' or ') + '. ', make('button', { type: 'button', class: 'button small', onclick: openAuth }, 'Authorize'));
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (running) return running.abort();
    const empty = fields.filter((field) => !field.check());
    if (empty.length > 0) return empty[0].focus();
    running = new AbortController();
    send.textContent = 'Stop';
    try {
      await answer(out, request(), running.signal);
    } finally {
      running = undefined;
      send.textContent = 'Send';
    }
  };
  const form = make('form', { novalidate: true, onsubmit: submit, oninput: show, onchange: show, onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit(); } },
    make('div', { class: 'bar' }, make('h4', {}, 'Try it'), copyButton('Copy link', () => location.href.split('#')[0] + '#' + encodeURIComponent(id))), needs,
    ...fields.flatMap((field) => field.elements), ...body ? body.elements : [], make('div', { class: 'go' }, send));
  document.addEventListener('proofs', show);
  show();
  return [form, make('details', { class: 'curl' }, make('summary', {}, 'curl'), command, make('div', { class: 'go' }, copyButton('Copy', () => command.textContent))), out];
}

/** @param {any} item @param {any} operation @returns {any[]} */
function mergedParameters(item, operation) {
  const byName = new Map();
  for (const given of [...item.parameters || [], ...operation.parameters || []]) {
    const parameter = resolved(given);
    if (parameter.name) byName.set(parameter.in + ' ' + parameter.name, parameter);
  }
  const places = ['path', 'query', 'header', 'cookie'];
  return [...byName.values()].sort((left, right) => places.indexOf(left.in) - places.indexOf(right.in));
}
`;
