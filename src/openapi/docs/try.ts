/**
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
