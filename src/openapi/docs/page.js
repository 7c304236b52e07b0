/**
 * Script of the docs page: elements, colours, contents, search, links. The other files of the script are sample.js (values by
 * schema), pattern.js (texts by pattern), auth.js (credentials), try.js (the form of an operation), code.js (requests as code) and
 * answer.js (responses). All of them share one scope.
 *
 * The script builds elements and never makes HTML out of text. Its ids begin with a colon, which no id of a document does.
 */

const root = document.documentElement;
/** @type {(id: string) => any} */
const byId = (id) => document.getElementById(id);
/** @type {(selector: string, from?: ParentNode) => any[]} */
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

/**
 * Returns an element with attributes, listeners (on…) and children.
 *
 * @type {(tag: string, given?: Record<string, any>, ...children: any[]) => any}
 */
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}

/** Returns a copy of the content of a `<template>` of page.html. */
const contentOf = (id) => byId(id).content.cloneNode(true);

/**
 * Returns a text from storage. With `value` it stores the text; null removes it. The browser may forbid storage, or it may be
 * full.
 *
 * @type {(kind: 'localStorage' | 'sessionStorage', key: string, value?: string | null) => string | null}
 */
function stored(kind, key, value) {
  try {
    const storage = window[kind];
    if (value === undefined) return storage.getItem(key);
    if (value === null) storage.removeItem(key);
    else storage.setItem(key, value);
  } catch {
    /* the value is not stored then */
  }
  return null;
}

/** Announces a text to screen readers. */
function say(text) {
  byId('say').textContent = '';
  requestAnimationFrame(() => {
    byId('say').textContent = text;
  });
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make('textarea', { class: 'v' });
    area.value = text;
    (button.closest('dialog') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = 'Copied';
  say('Copied');
  setTimeout(() => {
    button.textContent = label;
  }, 1200);
}

// ── colours ──

const THEME = 'svc-docs-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.dataset.theme === undefined ? prefersDark.matches : root.dataset.theme === 'dark');

function readTheme() {
  const theme = stored('localStorage', THEME);
  if (theme === 'dark' || theme === 'light') root.dataset.theme = theme;
}

function startTheme() {
  const button = byId('theme');
  const show = () => button.setAttribute('aria-pressed', String(isDark()));
  button.addEventListener('click', () => {
    const theme = isDark() ? 'light' : 'dark';
    if ((theme === 'dark') === prefersDark.matches) delete root.dataset.theme;
    else root.dataset.theme = theme;
    stored('localStorage', THEME, root.dataset.theme ?? null);
    show();
  });
  prefersDark.addEventListener('change', show);
  show();
}

// ── contents and search ──

/**
 * Operations and schemas of the page, each with its item in the contents. `head` is the text of its row. `text` is all text that
 * is searched; it is collected at the first search.
 */
const entries = [];

function startContents() {
  const nav = byId('nav');
  nav.replaceChildren(...all('main section').map(contentsOf));
  const menu = byId('menu');
  const show = (isOpen) => {
    nav.classList.toggle('open', isOpen);
    menu.setAttribute('aria-expanded', String(isOpen));
  };
  menu.addEventListener('click', () => show(!nav.classList.contains('open')));
  nav.addEventListener('click', ({ target }) => {
    if (target.closest('a')) show(false);
  });
  document.addEventListener('keydown', ({ key }) => {
    if (key !== 'Escape' || !nav.classList.contains('open')) return;
    show(false);
    menu.focus();
  });
}

/** Returns the group in the contents for a section of the page. */
function contentsOf(section) {
  const heading = section.querySelector('h2').textContent;
  const items = all('.op,.sc', section).map((op) => {
    const { id } = op.querySelector('.b');
    const method = op.querySelector('.m');
    const name = (op.querySelector('h3 code') ?? op.querySelector('h3')).textContent;
    const label = make('span', { title: name }, op.querySelector('.s')?.textContent ?? name);
    const given = { href: `#${encodeURIComponent(id)}`, class: method ? op.classList[1] : undefined };
    const link = make('li', {}, make('a', given, method?.cloneNode(true), label));
    const head = `${op.querySelector('summary').textContent} ${id} ${heading}`.toLowerCase();
    entries.push({ op, link, head, text: undefined });
    return link;
  });
  const group = make('details', {}, make('summary', {}, heading), make('ul', {}, ...items));
  group.open = section.id !== 'schemas';
  return group;
}

function search() {
  const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  const isSearch = words.length > 0;
  let found = 0;
  for (const entry of entries) {
    const { op, link, head } = entry;
    if (isSearch) entry.text ??= `${head} ${namesIn(op).join(' ').toLowerCase()}`;
    const fits = words.every((word) => entry.text.includes(word));
    if (op.hidden === fits) op.hidden = link.hidden = !fits;
    if (fits) found++;
    showHit(entry, isSearch && fits ? words.filter((word) => !head.includes(word)) : []);
  }
  for (const section of all('main section'))
    section.hidden = isSearch && !section.querySelector('.op:not([hidden]),.sc:not([hidden])');
  for (const group of all('nav details')) {
    group.hidden = isSearch && !group.querySelector('li:not([hidden])');
    if (isSearch && !group.hidden) group.open = true;
  }
  all('.intro')[0].hidden = isSearch;
  byId('none').hidden = found > 0 || entries.length === 0;
  byId('count').textContent = isSearch ? `${found} found` : '';
}

const MOST_STEPS = 3;
const written = new Map();

/** Returns the names of fields, schemas, media types and values in an operation or schema, and the schemas to which it links. */
function writtenIn(op) {
  const known = written.get(op);
  if (known) return known;
  const names = all('.d code,.d a', op);
  const links = names.filter((name) => name.matches('a[href^="#schema"]'));
  const schemas = links.map((link) => byId(decoded(link.hash.slice(1)))?.closest('.sc')).filter(Boolean);
  const found = { names: names.map((name) => name.textContent), schemas };
  written.set(op, found);
  return found;
}

/** Returns the names in an operation or schema, and in the schemas to which it leads, each once. */
function namesIn(op) {
  const seen = new Set([op]);
  for (let step = 0; step < MOST_STEPS; step++)
    for (const known of [...seen]) for (const schema of writtenIn(known).schemas) seen.add(schema);
  return [...new Set([...seen].flatMap((known) => writtenIn(known).names))];
}

/** Shows in the row of an operation or schema its names that contain the words. */
function showHit({ op }, words) {
  const summary = op.querySelector('summary');
  summary.querySelector('.hit')?.remove();
  if (words.length === 0) return;
  const hits = namesIn(op).filter((name) => words.some((word) => name.toLowerCase().includes(word)));
  const shown = make('span', { class: 'hit' }, hits.slice(0, 3).join(', '));
  summary.insertBefore(shown, summary.querySelector('.l'));
}

function startSearch() {
  const input = byId('search');
  input.addEventListener('input', search);
  input.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') {
      input.value = '';
      search();
    } else if (key === 'Enter') {
      const words = input.value.toLowerCase().split(/\s+/);
      const shown = entries.filter(({ op }) => !op.hidden);
      (shown.find(({ head }) => words.every((word) => head.includes(word))) ?? shown[0])?.link
        .querySelector('a')
        .click();
    }
  });
  document.addEventListener('keydown', (event) => {
    const { key, ctrlKey, metaKey, altKey } = event;
    if (key !== '/' || ctrlKey || metaKey || altKey) return;
    if (/** @type {Element} */ (event.target).closest('input,textarea,select,dialog')) return;
    event.preventDefault();
    input.focus();
  });
  if (input.value !== '') search(); // the browser restored the text of the search
}

// ── links ──

/** Returns the element to which the fragment of the page's address points. The fragment may be percent-encoded. */
function linked() {
  const hash = location.hash.slice(1);
  return byId(decoded(hash)) ?? byId(hash);
}

/** Opens the element that the page's address names, and marks it in the contents. */
function follow(isFocused) {
  const target = linked();
  for (const { link, op } of entries) {
    const anchor = link.firstChild;
    const isHere = target !== null && op.contains(target);
    anchor.classList.toggle('here', isHere);
    if (!isHere) anchor.removeAttribute('aria-current');
    else {
      anchor.setAttribute('aria-current', 'location');
      link.closest('details').open = true;
      anchor.scrollIntoView({ block: 'nearest' });
    }
  }
  const fold = target?.closest('.op,.sc');
  if (!fold) return;
  if (fold.hidden) {
    byId('search').value = '';
    search();
  }
  fold.open = true;
  fold.scrollIntoView({ block: 'start' });
  if (isFocused) fold.querySelector('summary').focus({ preventScroll: true });
}

/**
 * Adds a button behind links to schemas, which shows the members of the schema in place, or the members of one schema of a union.
 * `seen` has the ids of the schemas that are open around the links.
 */
function addPeeks(within, seen) {
  const byHost = new Map();
  for (const link of all('a[href^="#schema"]', within)) {
    const id = decodeURIComponent(link.getAttribute('href').slice(1));
    const host = link.closest('li,p');
    if (!byId(id) || !host || seen.includes(id) || link.closest('.peek') !== within.closest('.peek'))
      continue;
    if (host.matches('p.t') && host.nextElementSibling?.matches('.f,.k,.one')) continue; // the members are already shown there
    byHost.set(host, [...(byHost.get(host) ?? []), { link, id }]);
  }
  for (const [host, links] of byHost) addPeek(host, links, seen);
}

function addPeek(host, links, seen) {
  const label = `Members of ${links.map(({ link }) => link.textContent).join(', ')}`;
  const given = { type: 'button', class: 'x', 'aria-expanded': 'false', 'aria-label': label };
  const button = make('button', { ...given, title: 'Show its members here' }, '+');
  let shown;
  button.addEventListener('click', () => {
    if (shown) shown.hidden = !shown.hidden;
    else {
      const copies = links.map(({ id }) => copyOf(byId(id)));
      shown = links.length > 1 ? choiceOf(links, copies) : copies[0];
      if (host.tagName === 'LI') host.append(shown);
      else host.after(shown);
      for (const [index, { id }] of links.entries()) addPeeks(copies[index], [...seen, id]);
    }
    button.setAttribute('aria-expanded', String(!shown.hidden));
    button.textContent = shown.hidden ? '+' : '–';
  });
  links.at(-1).link.after(button);
}

/** Returns the members of several schemas as folds, of which one is open at a time. */
function choiceOf(links, copies) {
  const name = nextId();
  const folds = links.map(({ link }, index) =>
    make('details', { name, open: index === 0 }, make('summary', {}, link.textContent), copies[index]),
  );
  return make('div', { class: 'one' }, ...folds);
}

/** Returns a copy of a schema's description, without members that are shown in place there. */
function copyOf(written) {
  const copied = make('div', { class: 'peek f' }, ...written.querySelector('.d').cloneNode(true).childNodes);
  for (const inner of all('.x,.peek', copied)) inner.remove();
  for (const fold of all('details[name]', copied)) fold.name += nextId(); // a choice of its own
  return copied;
}

/** Prepares an operation or a schema when it is opened for the first time. */
function unfolded(fold) {
  const body = fold.querySelector('.b');
  if (!fold.open || fold.dataset.ready) return;
  fold.dataset.ready = 'yes';
  addPeeks(body, [body.id]);
  if (fold.matches('.op:not(.hook)')) addTry(fold, body);
}

function startFolds() {
  const onToggle = ({ target: fold }) => {
    if (!fold.matches('.op,.sc')) return;
    unfolded(fold);
    const body = fold.querySelector('.b');
    if (fold.open && linked() !== body) history.replaceState(null, '', `#${encodeURIComponent(body.id)}`);
  };
  document.addEventListener('toggle', onToggle, true);
  addEventListener('hashchange', () => follow(true));
  document.addEventListener('click', ({ target }) => {
    const link = /** @type {Element} */ (target).closest('a[href^="#"]');
    if (link?.getAttribute('href') === location.hash) follow(true); // the address does not change, so there is no hashchange event
  });
  for (const fold of all('.op[open],.sc[open]')) unfolded(fold);
  follow(false);
}

root.classList.add('js');
readTheme();
document.addEventListener('DOMContentLoaded', () => {
  startTheme();
  startContents();
  startSearch();
  startAuth();
  startFolds();
});
