/**
 * Script of the docs page: credentials such as tokens, keys, names and passwords. They stay in memory, or on request until the
 * tab is closed, and are sent to this site only.
 */

const KEPT = 'svc-docs-proofs';

/** Credentials by the name of their scheme: a value, and a name for HTTP Basic. */
let proofs = {};

function schemes() {
  const found = Object.entries(openApi.components?.securitySchemes ?? {});
  return Object.fromEntries(found.map(([name, scheme]) => [name, resolved(scheme)]));
}

/** Whether a scheme is the CSRF token, which the page requests from the server. */
const isCsrf = (scheme) =>
  scheme.type === 'apiKey' && scheme.in === 'header' && String(scheme.name).toLowerCase() === 'x-csrf-token';
const isCookie = (scheme) => scheme.type === 'apiKey' && scheme.in === 'cookie';
const isBasic = (scheme) => scheme.type === 'http' && String(scheme.scheme).toLowerCase() === 'basic';

function schemeText(scheme) {
  if (isCookie(scheme))
    return `Cookie ${scheme.name}: your browser sends it by itself once it has it, along with a CSRF token where one is needed.`;
  switch (scheme.type) {
    case 'http':
      return `HTTP ${scheme.scheme}${scheme.bearerFormat ? ` (${scheme.bearerFormat})` : ''}`;
    case 'apiKey':
      return `API key in the ${scheme.in} ${scheme.name}`;
    case 'oauth2':
      return 'OAuth 2.0: paste an access token';
    case 'openIdConnect':
      return `OpenID Connect: paste an access token. Described at ${scheme.openIdConnectUrl}`;
    default:
      return String(scheme.type);
  }
}

function labelOf(scheme) {
  if (isBasic(scheme)) return 'Password';
  if (isCookie(scheme)) return 'Value, if your browser does not have it';
  return scheme.type === 'apiKey' ? 'Key' : 'Token';
}

/** Shows whether there are credentials, and announces a change to the forms. */
function showProofs() {
  const isSet = Object.keys(proofs).length > 0;
  const button = byId('authorize');
  button.firstElementChild.classList.toggle('on', isSet);
  button.lastElementChild.textContent = isSet ? 'Authorized' : 'Authorize';
  document.dispatchEvent(new Event('proofs'));
}

function keepProofs(next, isKept) {
  proofs = next;
  stored('sessionStorage', KEPT, isKept && Object.keys(next).length > 0 ? JSON.stringify(next) : null);
  for (const [name, scheme] of Object.entries(schemes()))
    if (next[name] && isCookie(scheme)) document.cookie = cookieText(scheme.name, next[name].value);
  showProofs();
}

function cookieText(name, value) {
  const encoded = value.replace(/[;,\s]/g, encodeURIComponent);
  return `${name}=${encoded}; path=/; SameSite=Strict${location.protocol === 'https:' ? '; Secure' : ''}`;
}

async function openAuth() {
  try {
    await loadDocument();
  } catch {
    return say('The OpenAPI document cannot be loaded');
  }
  const asked = Object.entries(schemes()).filter(([, scheme]) => !isCsrf(scheme));
  byId(':schemes').replaceChildren(...asked.map(schemeFields));
  byId(':kept').checked = stored('sessionStorage', KEPT) !== null;
  byId(':auth').showModal();
}

function schemeFields([name, scheme]) {
  const given = { class: 'in', autocomplete: 'off', spellcheck: 'false' };
  const input = make('input', {
    ...given,
    id: `:proof-${name}`,
    type: 'password',
  });
  input.value = proofs[name]?.value ?? '';
  const user = isBasic(scheme) && make('input', { ...given, id: `:name-${name}` });
  if (user) user.value = proofs[name]?.name ?? '';
  const about = byId(`:about-${name}`)?.cloneNode(true);
  for (const link of about ? all('a', about) : []) link.target = '_blank'; // a login keeps this page
  return make(
    'fieldset',
    {},
    make('legend', {}, name),
    make('p', {}, schemeText(scheme)),
    ...(about?.childNodes ?? []),
    ...Object.entries(scheme.flows ?? {}).flatMap(flowFields),
    user && make('label', { for: user.id }, 'Name'),
    user,
    make('label', { for: input.id }, labelOf(scheme)),
    input,
  );
}

/** Returns elements with the addresses of an OAuth flow, and its scopes with their descriptions. */
function flowFields([name, { authorizationUrl, tokenUrl, scopes }]) {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const addresses = [
    authorizationUrl && `log in at ${authorizationUrl}`,
    tokenUrl && `tokens at ${tokenUrl}`,
  ];
  const items = Object.entries(scopes ?? {}).map(([scope, about]) =>
    make('li', {}, make('code', {}, scope), about && ` ${about}`),
  );
  return [
    make('p', {}, `Flow ${words}: ${addresses.filter(Boolean).join(', ')}`),
    items.length > 0 && make('ul', { 'aria-label': `Scopes of the flow ${words}` }, ...items),
  ];
}

/** Returns the credentials entered in the dialog, without empty fields. */
function givenProofs() {
  const given = Object.entries(schemes()).map(([name, scheme]) => {
    const value = byId(`:proof-${name}`)?.value ?? '';
    const user = byId(`:name-${name}`)?.value ?? '';
    if (value.trim() === '' && user === '') return [];
    return [
      name,
      isBasic(scheme) ? { value, name: user } : { value: value.trim().replace(/^bearer\s+/i, '') },
    ];
  });
  return Object.fromEntries(given.filter(({ length }) => length > 0));
}

function startAuth() {
  try {
    proofs = JSON.parse(stored('sessionStorage', KEPT) ?? '{}') ?? {};
  } catch {
    /* the stored value is not JSON, because another script of this site has written it */
  }
  const dialog = byId(':auth');
  dialog.querySelector('form').addEventListener('submit', (event) => {
    event.preventDefault();
    keepProofs(givenProofs(), byId(':kept').checked);
    dialog.close();
    say(Object.keys(proofs).length > 0 ? 'Kept' : 'Nothing kept');
  });
  byId(':forget').addEventListener('click', () => {
    for (const input of all('.in', dialog)) input.value = '';
    keepProofs({}, false);
    say('Forgotten');
  });
  byId(':cancel').addEventListener('click', () => dialog.close());
  byId('authorize').addEventListener('click', openAuth);
  showProofs();
}

/** Returns the security alternatives of an operation, each a list of names with their schemes. */
function alternativesOf(operation) {
  const known = schemes();
  return (operation.security ?? openApi.security ?? []).map((alternative) =>
    Object.keys(alternative).map((name) => [name, known[name] ?? {}]),
  );
}

/**
 * Returns the first alternative whose credentials are all known. Otherwise returns the first that lacks cookies only, because
 * the browser may have cookies that scripts cannot see.
 */
function chosenProofs(operation) {
  const alternatives = alternativesOf(operation).filter((one) => one.length > 0);
  const isThere = ([name, scheme]) => proofs[name] || isCsrf(scheme);
  const mayBeThere = ([name, scheme]) => isThere([name, scheme]) || scheme.in === 'cookie';
  return (
    alternatives.find((one) => one.every(isThere)) ?? alternatives.find((one) => one.every(mayBeThere)) ?? []
  );
}

/** Returns the names of the schemes that lack credentials, by alternative; empty if the operation can be called. */
function missingProofs(operation) {
  const alternatives = alternativesOf(operation);
  if (alternatives.some((one) => one.length === 0) || chosenProofs(operation).length > 0) return [];
  const namesOf = (one) => one.filter(([, scheme]) => !isCsrf(scheme)).map(([name]) => name);
  return alternatives.map((one) => namesOf(one).join(' and ')).filter(Boolean);
}

function addProofs(request, operation) {
  for (const [name, scheme] of chosenProofs(operation)) {
    const proof = proofs[name];
    if (isCookie(scheme)) request.cookies.push([scheme.name, proof?.value ?? `<your ${scheme.name}>`]);
    else if (!proof) continue;
    else if (scheme.type === 'apiKey' && scheme.in === 'query')
      request.query.push(pairOf(scheme.name, proof.value));
    else if (scheme.type === 'apiKey') request.headers.push([scheme.name, proof.value]);
    else if (isBasic(scheme))
      request.headers.push(['Authorization', `Basic ${base64(`${proof.name}:${proof.value}`)}`]);
    else request.headers.push(['Authorization', `Bearer ${proof.value}`]);
  }
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
