/**
 * Part of the page's script: finding the way. Contents, search, links that unfold what they lead to, and schemas shown in place.
 */

/** The text of it. */
export const BROWSE: string = String.raw`
// ── contents and search ──

/** @type {{ op: any, link: any, text: string }[]} */
const entries = [];

function startContents() {
  const nav = byId('nav');
  const parts = document.createDocumentFragment();
  for (const section of all('main section')) {
    const heading = section.querySelector('h2');
    const items = make('ul', {});
    for (const op of all('.op,.sc', section)) {
      const id = op.querySelector('.b').id;
      const method = op.querySelector('.m');
      const summary = op.querySelector('.s');
      const name = op.querySelector('h3 code,h3').textContent;
      const label = make('span', { title: name }, summary ? summary.textContent : name);
      const link = make('li', {}, make('a', { href: '#' + encodeURIComponent(id), class: method ? op.classList[1] : undefined }, method ? method.cloneNode(true) : '', label));
      items.append(link);
      entries.push({ op, link, text: (op.querySelector('summary').textContent + ' ' + id + ' ' + heading.textContent).toLowerCase() });
    }
    const group = make('details', {}, make('summary', {}, heading.textContent), items);
    group.open = section.id !== 'schemas';
    parts.append(group);
  }
  nav.replaceChildren(parts);
  const menu = byId('menu');
  const show = (/** @type {boolean} */ isOpen) => { nav.classList.toggle('open', isOpen); menu.setAttribute('aria-expanded', String(isOpen)); };
  menu.addEventListener('click', () => show(!nav.classList.contains('open')));
  nav.addEventListener('click', (/** @type {any} */ event) => { if (event.target.closest('a')) show(false); });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !nav.classList.contains('open')) return;
    show(false);
    menu.focus();
  });
}

function search() {
  const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const { op, link, text } of entries) {
    const fits = words.every((/** @type {string} */ word) => text.includes(word));
    if (op.hidden === fits) op.hidden = link.hidden = !fits;
    if (fits) found++;
  }
  for (const section of all('main section')) section.hidden = words.length > 0 && !section.querySelector('.op:not([hidden]),.sc:not([hidden])');
  for (const group of all('nav details')) {
    group.hidden = words.length > 0 && !group.querySelector('li:not([hidden])');
    if (words.length > 0 && !group.hidden) group.open = true;
  }
  byId('none').hidden = found > 0 || entries.length === 0;
  byId('count').textContent = words.length === 0 ? '' : found + ' found';
}

function startSearch() {
  const input = byId('search');
  input.addEventListener('input', search);
  input.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') {
      input.value = '';
      search();
    } else if (event.key === 'Enter') {
      const first = entries.find(({ op }) => !op.hidden);
      if (first) first.link.querySelector('a').click();
    }
  });
  document.addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || target.closest('input,textarea,select,dialog')) return;
    event.preventDefault();
    input.focus();
  });
  if (input.value !== '') search(); // the browser has kept it
}

// ── links ──

/** @returns {HTMLElement | null} */
function linked() {
  const hash = location.hash.slice(1);
  try {
    return document.getElementById(decodeURIComponent(hash)) || document.getElementById(hash);
  } catch {
    return document.getElementById(hash);
  }
}

/** @param {boolean} isFocused */
function follow(isFocused) {
  const target = linked();
  for (const { link, op } of entries) {
    const anchor = link.firstChild;
    const isHere = target !== null && op.contains(target);
    anchor.classList.toggle('here', isHere);
    if (isHere) anchor.setAttribute('aria-current', 'location');
    else anchor.removeAttribute('aria-current');
  }
  const fold = target && target.closest('.op,.sc');
  if (!fold) return;
  if (/** @type {HTMLElement} */ (fold).hidden) {
    byId('search').value = '';
    search();
  }
  /** @type {HTMLDetailsElement} */ (fold).open = true;
  fold.scrollIntoView({ block: 'start' });
  if (isFocused) /** @type {HTMLElement} */ (fold.querySelector('summary')).focus({ preventScroll: true });
}

// Names of schemas get a button that shows their members in place, copied from where they are written.
/** @param {Element} within @param {readonly string[]} seen */
function addPeeks(within, seen) {
  for (const link of all('a[href^="#schema"]', within)) {
    const id = decodeURIComponent(link.getAttribute('href').slice(1));
    const written = document.getElementById(id);
    const host = link.closest('li,p');
    if (!written || !host || seen.includes(id) || link.closest('.peek') !== within.closest('.peek')) continue;
    const next = host.nextElementSibling;
    if (host.matches('p.t') && next && next.matches('.f,.k')) continue; // they stand there
    /** @type {any} */ let shown;
    const button = make('button', { type: 'button', class: 'x', 'aria-expanded': 'false', 'aria-label': 'Members of ' + link.textContent, title: 'Show its members here', onclick: () => {
      if (!shown) {
        shown = make('div', { class: 'peek f' }, ...Array.from(written.querySelector('.d')?.childNodes || []).map((node) => node.cloneNode(true)));
        for (const inner of all('.x,.peek', shown)) inner.remove();
        if (host.tagName === 'LI') host.append(shown);
        else host.after(shown);
        addPeeks(shown, [...seen, id]);
      } else shown.hidden = !shown.hidden;
      button.setAttribute('aria-expanded', String(!shown.hidden));
      button.textContent = shown.hidden ? '+' : '–';
    } }, '+');
    link.after(button);
  }
}

/** @param {any} fold */
function unfolded(fold) {
  const body = fold.querySelector('.b');
  if (!fold.open || fold.dataset.ready) return;
  fold.dataset.ready = 'yes';
  addPeeks(body, [body.id]);
  if (fold.classList.contains('op')) addTry(fold, body);
}

function startFolds() {
  document.addEventListener('toggle', (event) => {
    const fold = /** @type {any} */ (event.target);
    if (!fold.matches('.op,.sc')) return;
    unfolded(fold);
    const id = '#' + encodeURIComponent(fold.querySelector('.b').id);
    if (fold.open && linked() !== fold.querySelector('.b')) history.replaceState(null, '', id);
  }, true);
  addEventListener('hashchange', () => follow(true));
  document.addEventListener('click', (event) => { // a link to where the address is already
    const link = /** @type {Element} */ (event.target).closest('a[href^="#"]');
    if (link && link.getAttribute('href') === location.hash) follow(true);
  });
  for (const fold of all('.op[open],.sc[open]')) unfolded(fold);
  follow(false);
}
`;
