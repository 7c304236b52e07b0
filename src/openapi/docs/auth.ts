/**
 * Part of the page's script: the proofs of who asks: tokens, keys, names with passwords. They stay in memory, or until the tab
 * closes where somebody wants that, and go nowhere but to this site.
 */

/** The text of it. */
export const AUTH: string = String.raw`
const KEPT = 'svc-docs-proofs';
/** @type {Record<string, { value: string, name?: string }>} */
let proofs = {};

/** @returns {Record<string, any>} */
function schemes() {
  const found = (openApi.components && openApi.components.securitySchemes) || {};
  return Object.fromEntries(Object.entries(found).map(([name, scheme]) => [name, resolved(scheme)]));
}

// The page asks for that one itself.
/** @param {any} scheme */
const isCsrf = (scheme) => scheme.type === 'apiKey' && scheme.in === 'header' && String(scheme.name).toLowerCase() === 'x-csrf-token';

/** @param {any} scheme */
function schemeText(scheme) {
  if (scheme.type === 'http') return 'HTTP ' + scheme.scheme + (scheme.bearerFormat ? ' (' + scheme.bearerFormat + ')' : '');
  if (scheme.type === 'apiKey') return scheme.in === 'cookie' ? 'Cookie ' + scheme.name + ': your browser sends it by itself once it has it, along with a CSRF token where one is needed.' : 'API key in the ' + scheme.in + ' ' + scheme.name;
  return scheme.type === 'oauth2' ? 'OAuth 2.0: paste an access token' : scheme.type === 'openIdConnect' ? 'OpenID Connect: paste an access token' : String(scheme.type);
}

function showProofs() {
  const isSet = Object.keys(proofs).length > 0;
  const button = byId('authorize');
  if (button) {
    button.firstElementChild.classList.toggle('on', isSet);
    button.lastElementChild.textContent = isSet ? 'Authorized' : 'Authorize';
  }
  document.dispatchEvent(new Event('proofs'));
}

/** @param {Record<string, { value: string, name?: string }>} next @param {boolean} isKept */
function keepProofs(next, isKept) {
  proofs = next;
  stored('sessionStorage', KEPT, isKept && Object.keys(next).length > 0 ? JSON.stringify(next) : null);
  for (const [name, { value }] of Object.entries(next)) {
    const scheme = schemes()[name];
    if (scheme && scheme.type === 'apiKey' && scheme.in === 'cookie') document.cookie = cookieText(scheme.name, value);
  }
  showProofs();
}

/** @param {string} name @param {string} value */
function cookieText(name, value) {
  return name + '=' + value.replace(/[;,\s]/g, encodeURIComponent) + '; path=/; SameSite=Strict' + (location.protocol === 'https:' ? '; Secure' : '');
}

/** @type {any} */ let dialog;

async function openAuth() {
  try {
    await loadDocument();
  } catch {
    return say('The OpenAPI document cannot be loaded');
  }
  if (dialog) dialog.remove();
  const inputs = /** @type {[string, any, any][]} */ ([]);
  const fieldsets = Object.entries(schemes()).filter(([, scheme]) => !isCsrf(scheme)).map(([name, scheme]) => {
    const isBasic = scheme.type === 'http' && String(scheme.scheme).toLowerCase() === 'basic';
    const user = isBasic ? make('input', { class: 'in', id: ':name-' + name, autocomplete: 'off', spellcheck: 'false' }) : undefined;
    const input = make('input', { class: 'in', id: ':proof-' + name, type: isBasic ? 'password' : 'text', autocomplete: 'off', spellcheck: 'false' });
    input.value = proofs[name] ? proofs[name].value : '';
    if (user) user.value = proofs[name] ? proofs[name].name : '';
    inputs.push([name, input, user]);
    const what = isBasic ? 'Password' : scheme.type === 'apiKey' ? scheme.in === 'cookie' ? 'Value, if your browser does not have it' : 'Key' : 'Token';
    return make('fieldset', {}, make('legend', {}, name), make('p', {}, schemeText(scheme)), scheme.description ? make('p', {}, scheme.description) : '',
      user && make('label', { for: user.id }, 'Name'), user, make('label', { for: input.id }, what), input);
  });
  const tick = make('input', { type: 'checkbox', id: ':kept' });
  tick.checked = stored('sessionStorage', KEPT) !== null;
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = inputs.filter(([, input, user]) => input.value.trim() !== '' || user && user.value !== '');
    keepProofs(Object.fromEntries(given.map(([name, input, user]) => [name, user ? { value: input.value, name: user.value } : { value: input.value.trim().replace(/^bearer\s+/i, '') }])), tick.checked);
    dialog.close();
    say(given.length > 0 ? 'Kept' : 'Nothing kept');
  };
  const clear = () => {
    for (const [, input, user] of inputs) {
      input.value = '';
      if (user) user.value = '';
    }
    keepProofs({}, false);
    say('Forgotten');
  };
  dialog = make('dialog', { 'aria-labelledby': ':title' },
    make('form', { onsubmit: save }, make('h2', { id: ':title' }, 'Authorize'),
      make('p', {}, 'What you enter goes with the calls you make on this page, to this site and nowhere else.'), ...fieldsets,
      make('div', { class: 'tick' }, tick, make('label', { for: ':kept' }, 'Remember until this tab is closed')),
      make('div', { class: 'go' }, make('button', { class: 'button main' }, 'Save'), make('button', { class: 'button', type: 'button', onclick: clear }, 'Forget all'),
        make('button', { class: 'button', type: 'button', onclick: () => dialog.close() }, 'Cancel'))));
  document.body.append(dialog);
  dialog.showModal();
}

function startAuth() {
  try {
    proofs = JSON.parse(stored('sessionStorage', KEPT) || '{}') || {};
  } catch { /* nobody wrote that */ }
  const button = byId('authorize');
  if (button) button.addEventListener('click', openAuth);
  showProofs();
}

// What an operation asks for: alternatives of names with their schemes.
/** @param {any} operation @returns {[string, any][][]} */
function alternativesOf(operation) {
  const known = schemes();
  return (operation.security || openApi.security || []).map((/** @type {any} */ one) => Object.keys(one).map((name) => [name, known[name] || {}]));
}

// The first alternative for which there are proofs; a cookie may be there without our knowing.
/** @param {any} operation @returns {[string, any][]} */
function chosenProofs(operation) {
  const alternatives = alternativesOf(operation);
  return alternatives.find((one) => one.length > 0 && one.every(([name, scheme]) => proofs[name] || isCsrf(scheme)))
    || alternatives.find((one) => one.length > 0 && one.every(([name, scheme]) => proofs[name] || isCsrf(scheme) || scheme.in === 'cookie')) || [];
}

/** @param {any} operation @returns {string[]} */
function missingProofs(operation) {
  const alternatives = alternativesOf(operation);
  if (alternatives.some((one) => one.length === 0) || chosenProofs(operation).length > 0) return [];
  return alternatives.map((one) => one.filter(([, scheme]) => !isCsrf(scheme)).map(([name]) => name).join(' and ')).filter(Boolean);
}

/** @param {any} request @param {any} operation */
function addProofs(request, operation) {
  for (const [name, scheme] of chosenProofs(operation)) {
    const proof = proofs[name];
    if (scheme.type === 'apiKey' && scheme.in === 'cookie') request.cookies.push([scheme.name, proof ? proof.value : '<your ' + scheme.name + '>']);
    else if (!proof) continue;
    else if (scheme.type === 'apiKey' && scheme.in === 'query') request.query.push(encodeURIComponent(scheme.name) + '=' + encodeURIComponent(proof.value));
    else if (scheme.type === 'apiKey') request.headers.push([scheme.name, proof.value]);
    else if (String(scheme.scheme).toLowerCase() === 'basic') request.headers.push(['Authorization', 'Basic ' + btoa(Array.from(new TextEncoder().encode(proof.name + ':' + proof.value), (byte) => String.fromCharCode(byte)).join(''))]);
    else request.headers.push(['Authorization', 'Bearer ' + proof.value]);
  }
}
`;
