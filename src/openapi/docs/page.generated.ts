/**
 * The docs page, made by "npm run pages" from page.html, page.css and the scripts beside it.
 */

/** The page, with slots in double braces. */
export const PAGE: string = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="robots" content="noindex" />
<title>{{title}}</title>
<link
rel="icon"
href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAQMAAAAlPW0iAAAABlBMVEUKW8T///+yrjswAAAAFklEQVR42mNgQALyP0AIjS3fAEIwAACCuQWbb4DS2QAAAABJRU5ErkJggg=="
/>
<style nonce="{{nonce}}">:root{color-scheme:light dark;--bg:light-dark(#ffffff, #0d1117);--side:light-dark(#f6f7f9, #131820);--hover:light-dark(#f1f3f6, #1a212b);--line:light-dark(#dfe3e8, #2a323d);--edge:light-dark(#868f9c, #6d7887);--text:light-dark(#171b22, #e6eaf0);--soft:light-dark(#555e6c, #9ea9b8);--accent:light-dark(#0a5bc4, #6cb2ff);--on:light-dark(#ffffff, #08131f);--good:light-dark(#0f6b3c, #5fd394);--warn:light-dark(#8a4b00, #f0b15c);--bad:light-dark(#b3202c, #ff8d8d);--patch:light-dark(#6b3fb8, #c3a5ff);--mono:
ui-monospace, 'SF Mono', SFMono-Regular, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace}
:root[data-theme='light']{color-scheme:light}
:root[data-theme='dark']{color-scheme:dark}
*{box-sizing:border-box}
html{scroll-padding-top:3.5rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);font:
15px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;overflow-wrap:anywhere}
:is(h1, h2, h3, h4, p, ul, ol, dl, dd, pre){margin:0;padding:0}
h1{font-size:1.75rem;line-height:1.2;letter-spacing:-0.02em}
h2{font-size:1.25rem;letter-spacing:-0.01em}
h3{font-size:inherit;font-weight:500}
h4{font-size:0.8125rem;font-weight:650;margin:1.5rem 0 0.5rem;padding-bottom:0.375rem;border-bottom:1px solid var(--line)}
code,pre,textarea.c,.m{font-family:var(--mono);font-size:0.8125rem}
a{color:var(--accent);text-underline-offset:0.15em}
p code,li p code{background:var(--hover);padding:0.1em 0.3em;border-radius:0.25rem}
pre{background:var(--hover);padding:0.75rem 0.875rem;border-radius:0.5rem;overflow:auto;max-height:26rem;line-height:1.5;tab-size:2}
pre.w{white-space:pre-wrap}
:is(s, em){font-style:normal;font-size:0.75rem;font-weight:600}
s{text-decoration:none;color:var(--warn)}
em{color:var(--bad)}
small{font-size:0.75rem;color:var(--soft);margin-left:0.35em}
summary{cursor:pointer}
:is(button, input, select, textarea){font:inherit;color:inherit}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
[hidden]{display:none !important}
html:not(.js) .j{display:none}
.v{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:-999rem;z-index:9;background:var(--accent);color:var(--on);padding:0.5rem 1rem;border-radius:0.375rem}
.skip:focus{left:1rem;top:0.5rem}
.top{position:sticky;top:0;z-index:3;display:flex;align-items:center;gap:0.75rem;height:3.5rem;padding:0 1.25rem;background:var(--bg);border-bottom:1px solid var(--line)}
.brand{font-weight:650;color:var(--text);text-decoration:none;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;flex:0 1 auto;min-width:0}
.search{position:relative;flex:1 1 20rem;max-width:34rem;margin:0 auto}
.search input{width:100%;height:2.25rem;padding:0 2.5rem 0 0.875rem;border:1px solid var(--edge);border-radius:0.5rem;background:var(--bg)}
.search kbd{position:absolute;right:0.5rem;top:0.4375rem;border:1px solid var(--line);border-radius:0.25rem;padding:0 0.4375rem;font:inherit;font-size:0.8125rem;line-height:1.25rem;color:var(--soft);background:var(--side)}
.search input:focus + kbd,.search input:not(:placeholder-shown) + kbd{display:none}
.button{display:inline-flex;align-items:center;gap:0.4rem;height:2.25rem;padding:0 0.875rem;border:1px solid var(--line);border-radius:0.5rem;background:var(--bg);cursor:pointer;white-space:nowrap;font-weight:550;font-size:0.875rem}
a.button{color:inherit;text-decoration:none}
.button:hover{background:var(--hover)}
.button.main{background:var(--accent);border-color:var(--accent);color:var(--on)}
.button.main:hover{filter:brightness(1.1)}
.button.icon{width:2.25rem;padding:0;justify-content:center}
.button.small{height:1.75rem;padding:0 0.625rem;font-size:0.8125rem}
.menu{display:none}
.shell{display:grid;grid-template-columns:18rem minmax(0, 1fr)}
nav{position:sticky;top:3.5rem;height:calc(100dvh - 3.5rem);overflow-y:auto;padding:1rem 0.75rem 3rem;border-right:1px solid var(--line);background:var(--side);font-size:0.8125rem;scrollbar-width:thin}
nav ul{list-style:none}
nav :is(summary, .h){padding:0.5rem 0.5rem 0.375rem;font-weight:650;color:var(--text);text-decoration:none;border-radius:0.375rem}
nav .h{display:block}
nav :is(summary, a):hover{background:var(--hover)}
nav li a{display:flex;scroll-margin-block:3rem;gap:0.5rem;align-items:baseline;padding:0.25rem 0.5rem;border-radius:0.375rem;color:var(--text);text-decoration:none;line-height:1.4}
nav li a span{min-width:0}
nav li a.here{background:var(--hover);box-shadow:inset 2px 0 var(--accent)}
nav .m{flex:none;width:2.375rem;font-size:0.625rem;background:none;padding:0;text-align:left;min-width:0}
main{min-width:0;max-width:84rem;padding:2.25rem clamp(1rem, 3.5vw, 3rem) 6rem}
main:focus{outline:none}
.intro{max-width:46rem;margin-bottom:2.5rem}
.intro .lead{font-size:1.0625rem;margin-top:0.5rem}
.intro h1 small{font-size:0.8125rem;font-weight:550;letter-spacing:0;vertical-align:middle;padding:0.2rem 0.5rem;border:1px solid var(--line);border-radius:1rem;margin-left:0.5rem}
.intro p,.about p,.d > p,:is(.intro, .about, .d, li, blockquote) > :is(ul:not(.f), ol, blockquote, pre, .g){margin-top:0.625rem}
:is(.intro, .about, .d, .peek, li, blockquote) > :is(ul:not(.f), ol){padding-left:1.25rem}
blockquote{margin:0;padding-left:0.75rem;border-left:3px solid var(--line);color:var(--soft)}
hr{border:0;border-top:1px solid var(--line);margin:1rem 0 0}
.g{overflow-x:auto}
table{border-collapse:collapse;font-size:0.875rem}
:is(th, td){border:1px solid var(--line);padding:0.25rem 0.625rem;text-align:left;vertical-align:top}
th{background:var(--side)}
.ac{text-align:center}
.ar{text-align:right}
.intro .facts{display:flex;flex-wrap:wrap;gap:0.25rem 1.25rem;margin-top:1rem}
section{margin-bottom:2.5rem}
.about{max-width:46rem;color:var(--soft)}
.list{margin-top:0.875rem;border:1px solid var(--line);border-radius:0.75rem;background:var(--bg);overflow:clip;container-type:inline-size}
.none{padding:1rem 0;color:var(--soft)}
.m{display:inline-block;min-width:4rem;padding:0.0625rem 0.5rem;border-radius:0.375rem;text-align:center;font-size:0.6875rem;font-weight:700;letter-spacing:0.02em;line-height:1.375rem;white-space:nowrap;color:var(--c, var(--soft));background:color-mix(in srgb, var(--c, var(--soft)) 11%, var(--bg))}
.get{--c:var(--good)}
.post{--c:var(--accent)}
.put{--c:var(--warn)}
.patch{--c:var(--patch)}
.delete{--c:var(--bad)}
.many :is(.op, .sc){content-visibility:auto;contain-intrinsic-size:auto 3rem}
:is(.op, .sc):not(:last-child){border-bottom:1px solid var(--line)}
.many :is(.op, .sc)[open]{content-visibility:visible}
:is(.op, .sc) > summary{display:flex;flex-wrap:wrap;align-items:center;gap:0.25rem 0.75rem;padding:0.75rem 1rem;list-style:none}
:is(.op, .sc) > summary::-webkit-details-marker{display:none}
:is(.op, .sc) > summary:hover{background:var(--hover)}
:is(.op, .sc) > summary:focus-visible{outline-offset:-3px;border-radius:0.375rem}
.op[open]{box-shadow:inset 3px 0 var(--c, var(--soft))}
.op[open] > summary{background:var(--side);border-bottom:1px solid var(--line)}
.op h3{display:flex;align-items:baseline;gap:0.75rem;min-width:min(42%, 30rem)}
.op h3 code{font-size:0.875rem}
.op h3 i{font-style:normal;color:var(--c, var(--soft))}
:is(.s, .a, .facts){color:var(--soft);font-size:0.875rem;min-width:0}
.hit{font:0.75rem var(--mono);color:var(--accent)}
.l{flex:none;width:12px;height:14px;margin:0 0.125rem;background:var(--soft);clip-path:path('M0 6h12v8H0zM2 6V4a4 4 0 0 1 8 0v2H8.5V4a2.5 2.5 0 0 0-5 0v2z')}
.op > summary > .l{margin-left:auto}
.dot.on{background:var(--good)}
.b{scroll-margin-top:3.25rem;padding:1rem 1.25rem 1.5rem;display:grid;gap:1.5rem}
.d{min-width:0}
.d > :first-child{margin-top:0}
.a{margin-top:0.625rem}
.a .l{display:inline-block;margin:0 0.375rem 0 0.125rem}
.f{list-style:none}
.f > li{padding:0.5rem 0}
.f > li:first-child{padding-top:0.125rem}
.f > li + li{border-top:1px solid var(--line)}
.f > li > code:first-child{font-weight:650}
.f > li > p{margin-top:0.125rem}
.f > li > p,.peek > p{font-size:0.875rem}
.f .f,.f.peek{margin-top:0.375rem;padding-left:0.875rem;border-left:2px solid var(--line)}
.f.peek > .f{margin:0;padding:0;border:0}
.t{font-size:0.8125rem;color:var(--soft)}
p.t{margin:0.375rem 0}
.t > code{color:var(--text)}
.one details{border:1px solid var(--line);border-radius:0.375rem;margin-top:0.25rem;padding:0.25rem 0.75rem}
.one .f.peek{margin:0.25rem 0 0;padding:0;border:0}
.k{font-size:0.8125rem !important;color:var(--soft)}
.x{display:inline-flex;align-items:center;justify-content:center;min-width:1.5rem;height:1.5rem;margin-left:0.3rem;padding:0 0.25rem;border:1px solid var(--line);border-radius:0.3125rem;background:var(--bg);color:var(--soft);cursor:pointer;font-size:0.75rem;line-height:1;vertical-align:middle}
.x:hover{background:var(--hover)}
.r{border:1px solid var(--line);border-radius:0.5rem;margin-top:0.5rem;font-size:0.875rem}
p.r,.r > summary{padding:0.4375rem 0.75rem}
.r[open] > summary{border-bottom:1px solid var(--line)}
.r dd code{font-size:0.75rem;color:var(--soft)}
.r dl{display:grid;grid-template-columns:max-content minmax(0, 1fr);gap:0.125rem 0.75rem;padding-top:0.5rem;font-size:0.8125rem}
.r em{color:var(--soft);font-weight:500}
details.r > :not(summary){margin-left:0.75rem;margin-right:0.75rem}
details.r > :last-child:not(summary){margin-bottom:0.75rem}
:is(.r, .r > summary, .st) > b{display:inline-block;min-width:2rem}
:is(.c2, .js-s){color:var(--good)}
:is(.c3, .js-k){color:var(--accent)}
:is(.c4, .js-n){color:var(--warn)}
.c5{color:var(--bad)}
.e{margin-top:0.5rem;font-size:0.875rem}
.e pre{margin-top:0.375rem}
.sc h3{font-family:var(--mono);font-size:0.875rem}
.y{align-self:start;border:1px solid var(--line);border-radius:0.625rem;background:var(--side);min-width:0;font-size:0.875rem}
.y form{padding:0.875rem 1rem 1rem}
.y h4{border:0;margin:0;padding:0;font-size:0.875rem}
.bar{display:flex;align-items:center;justify-content:space-between;gap:0.5rem;min-height:2rem}
.bar p{min-width:0}
:is(.y, dialog) label{display:block;margin:0.625rem 0 0.1875rem;font-size:0.8125rem}
:is(.y, dialog) label code{font-weight:650}
.in{width:100%;min-height:2.125rem;padding:0.3125rem 0.625rem;border:1px solid var(--edge);border-radius:0.4375rem;background:var(--bg)}
textarea.in{display:block;resize:vertical;line-height:1.5}
.in.wrong{border-color:var(--bad)}
:is(.in, .search input)::placeholder{color:var(--soft);opacity:1}
.wrongs{color:var(--bad);font-size:0.8125rem;margin-top:0.25rem}
.go{display:flex;gap:0.5rem;margin-top:0.875rem}
.go .main{flex:1;justify-content:center}
.y .need{margin-top:0.5rem;color:var(--soft)}
.curl{border-top:1px solid var(--line);padding:0.5rem 1rem}
:is(.curl, .e) summary{font-size:0.8125rem;color:var(--soft)}
.curl .go{align-items:center}
.curl select{flex:1}
:is(.curl, .out) pre{margin-top:0.375rem;background:var(--bg);border:1px solid var(--line)}
.out{border-top:1px solid var(--line);padding:0.75rem 1rem 1rem;scroll-margin-top:4rem}
.out:empty{display:none}
.out img{display:block;max-width:100%;margin-top:0.375rem;border:1px solid var(--line);border-radius:0.375rem}
.st b{font-size:1rem}
.heads{font-size:0.8125rem;margin-top:0.375rem}
.heads dl{display:grid;grid-template-columns:minmax(6rem, auto) minmax(0, 1fr);gap:0.125rem 0.75rem;margin-top:0.375rem}
.heads dt{color:var(--soft)}
.js-l{color:var(--patch)}
dialog{width:min(32rem, calc(100vw - 2rem));max-height:calc(100dvh - 4rem);padding:1.25rem 1.5rem 1.5rem;border:1px solid var(--line);border-radius:0.75rem;background:var(--bg);color:var(--text)}
dialog::backdrop{background:rgb(0 0 0/0.45)}
dialog fieldset{border:1px solid var(--line);border-radius:0.5rem;margin:1rem 0 0;padding:0.25rem 0.875rem 0.875rem;min-width:0}
dialog legend{font-weight:650;padding:0 0.375rem}
dialog p{color:var(--soft);font-size:0.8125rem}
dialog .tick{display:flex;gap:0.5rem;align-items:center;margin-top:1rem;font-size:0.875rem}
@container (min-width:50rem){.js .b{grid-template-columns:minmax(0, 1fr) minmax(19rem, 44%);gap:1.5rem}
.y{position:sticky;top:4.5rem;max-height:calc(100vh - 5.5rem);overflow-y:auto}
}
@container (max-width:50rem){.b > .skip{position:static;justify-self:start;border:1px solid var(--line);background:var(--side);color:inherit;font-weight:550}
}
@container (max-width:40rem){.s{flex:1 0 100%;order:1}
.op h3{min-width:0}
}
@media (max-width:56rem){.shell{grid-template-columns:minmax(0, 1fr)}
.top{padding:0 1rem;gap:0.5rem}
.js .menu{display:inline-flex}
.brand{display:none}
.search{flex-basis:6rem}
.top .t2{position:absolute;clip-path:inset(50%)}
nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line);padding-bottom:1rem}
.js nav{display:none}
.js nav.open{display:block;position:fixed;inset:3.5rem 0 0;z-index:2;height:auto}
main{padding-top:1.5rem}
.b{padding:0.875rem 1rem 1.25rem}
h1{font-size:1.5rem}
}
@media (forced-colors:active){.m,.button{border:1px solid}
.l{background:CanvasText}
}
@media print{:is(.top, nav, .y, .x){display:none !important}
.shell{display:block}
main{max-width:none;padding:0}
.list{overflow:visible;border-radius:0}
.many :is(.op, .sc){content-visibility:visible}
details::details-content{content-visibility:visible;display:block;height:auto}
.b{display:block !important}
pre{max-height:none;white-space:pre-wrap}
:is(.op, .sc, .r) > summary{break-after:avoid}
.f > li{break-inside:avoid}
}
</style>
<script nonce="{{nonce}}">(() => {
'use strict';

const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
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
const contentOf = (id) => byId(id).content.cloneNode(true);
function stored(kind, key, value) {
try {
const storage = window[kind];
if (value === undefined) return storage.getItem(key);
if (value === null) storage.removeItem(key);
else storage.setItem(key, value);
} catch {
}
return null;
}
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
function contentsOf(section) {
const heading = section.querySelector('h2').textContent;
const items = all('.op,.sc', section).map((op) => {
const { id } = op.querySelector('.b');
const method = op.querySelector('.m');
const name = (op.querySelector('h3 code') ?? op.querySelector('h3')).textContent;
const label = make('span', { title: name }, op.querySelector('.s')?.textContent ?? name);
const given = { href: \`#\${encodeURIComponent(id)}\`, class: method ? op.classList[1] : undefined };
const link = make('li', {}, make('a', given, method?.cloneNode(true), label));
const head = \`\${op.querySelector('summary').textContent} \${id} \${heading}\`.toLowerCase();
entries.push({ op, link, head, text: undefined });
return link;
});
const group = make('details', {}, make('summary', {}, heading), make('ul', {}, ...items));
group.open = section.id !== 'schemas';
return group;
}
function search() {
const words = byId('search').value.toLowerCase().split(/\\s+/).filter(Boolean);
const isSearch = words.length > 0;
let found = 0;
for (const entry of entries) {
const { op, link, head } = entry;
if (isSearch) entry.text ??= \`\${head} \${namesIn(op).join(' ').toLowerCase()}\`;
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
byId('count').textContent = isSearch ? \`\${found} found\` : '';
}
const MOST_STEPS = 3;
const written = new Map();
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
function namesIn(op) {
const seen = new Set([op]);
for (let step = 0; step < MOST_STEPS; step++)
for (const known of [...seen]) for (const schema of writtenIn(known).schemas) seen.add(schema);
return [...new Set([...seen].flatMap((known) => writtenIn(known).names))];
}
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
const words = input.value.toLowerCase().split(/\\s+/);
const shown = entries.filter(({ op }) => !op.hidden);
(shown.find(({ head }) => words.every((word) => head.includes(word))) ?? shown[0])?.link
.querySelector('a')
.click();
}
});
document.addEventListener('keydown', (event) => {
const { key, ctrlKey, metaKey, altKey } = event;
if (key !== '/' || ctrlKey || metaKey || altKey) return;
if ((event.target).closest('input,textarea,select,dialog')) return;
event.preventDefault();
input.focus();
});
if (input.value !== '') search();
}
function linked() {
const hash = location.hash.slice(1);
return byId(decoded(hash)) ?? byId(hash);
}
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
function addPeeks(within, seen) {
const byHost = new Map();
for (const link of all('a[href^="#schema"]', within)) {
const id = decodeURIComponent(link.getAttribute('href').slice(1));
const host = link.closest('li,p');
if (!byId(id) || !host || seen.includes(id) || link.closest('.peek') !== within.closest('.peek'))
continue;
if (host.matches('p.t') && host.nextElementSibling?.matches('.f,.k,.one')) continue;
byHost.set(host, [...(byHost.get(host) ?? []), { link, id }]);
}
for (const [host, links] of byHost) addPeek(host, links, seen);
}
function addPeek(host, links, seen) {
const label = \`Members of \${links.map(({ link }) => link.textContent).join(', ')}\`;
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
function choiceOf(links, copies) {
const name = nextId();
const folds = links.map(({ link }, index) =>
make('details', { name, open: index === 0 }, make('summary', {}, link.textContent), copies[index]),
);
return make('div', { class: 'one' }, ...folds);
}
function copyOf(written) {
const copied = make('div', { class: 'peek f' }, ...written.querySelector('.d').cloneNode(true).childNodes);
for (const inner of all('.x,.peek', copied)) inner.remove();
for (const fold of all('details[name]', copied)) fold.name += nextId();
return copied;
}
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
if (fold.open && linked() !== body) history.replaceState(null, '', \`#\${encodeURIComponent(body.id)}\`);
};
document.addEventListener('toggle', onToggle, true);
addEventListener('hashchange', () => follow(true));
document.addEventListener('click', ({ target }) => {
const link = (target).closest('a[href^="#"]');
if (link?.getAttribute('href') === location.hash) follow(true);
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

let openApi;
let loading;
function loadDocument() {
return (loading ??= fetchDocument());
}
async function fetchDocument() {
try {
const response = await fetch(documentUrl(), { credentials: 'same-origin' });
if (!response.ok) throw new Error(\`status \${response.status}\`);
openApi = await response.json();
} catch (error) {
loading = undefined;
throw error;
}
}
function documentUrl() {
return new URL(document.body.dataset.document ?? '', location.href).href;
}
function resolved(value) {
for (let hops = 0; hops < 16 && typeof value?.$ref === 'string'; hops++) {
if (!value.$ref.startsWith('#/')) return {};
let found = openApi;
for (const part of value.$ref.slice(2).split('/')) {
const key = decoded(part).replace(/~1/g, '/').replace(/~0/g, '~');
found = found && Object.hasOwn(found, key) ? found[key] : undefined;
}
value = found;
}
return value && typeof value === 'object' && !value.$ref ? value : {};
}
function decoded(text) {
try {
return decodeURIComponent(text);
} catch {
return text;
}
}
function typeName(schema) {
const types = [schema.type ?? []].flat();
if (types.length > 0) return types.find((type) => type !== 'null') ?? 'null';
if (schema.properties || schema.additionalProperties) return 'object';
return schema.items || schema.prefixItems ? 'array' : 'string';
}
function isFile({ format, contentMediaType, contentEncoding }) {
if (format === 'binary') return true;
if (!contentMediaType || contentEncoding) return false;
return contentMediaType !== 'application/json' && !contentMediaType.startsWith('text/');
}
const TEXTS = {
date: ['2026-01-31'],
'date-time': ['2026-01-31T12:00:00Z'],
time: ['12:00:00Z'],
duration: ['PT1H'],
email: ['ada@example.com', 'a@b.c'],
uuid: ['3fa85f64-5717-4562-b3fc-2c963f66afa6'],
uri: ['urn:example:1', 'a:'],
'uri-reference': ['/path', '/'],
hostname: ['example.com', 'a.co', 'a'],
ipv4: ['192.0.2.1', '1.1.1.1'],
ipv6: ['2001:db8::1', '::1', '::'],
byte: [''],
password: ['secret'],
};
let absent = 'readOnly';
function responseSample(schema) {
absent = 'writeOnly';
try {
return sample(schema);
} finally {
absent = 'readOnly';
}
}
function sample(given, seen = []) {
const schema = resolved(given);
const example = exampleOf(schema);
if (example !== undefined) return example;
if (seen.includes(schema) || seen.length > 12) return null;
const inner = [...seen, schema];
const variants = isBase64(schema) ? undefined : (schema.oneOf ?? schema.anyOf);
if (Array.isArray(variants) && variants.length > 0) return alternative(schema, variants, inner);
if (Array.isArray(schema.allOf) && !['string', 'number', 'integer'].includes(schema.type)) {
const parts = schema.allOf.map((part) => sample(part, inner));
return Object.assign({}, ...parts, schema.properties ? members(schema, inner) : {});
}
switch (typeName(schema)) {
case 'object':
return members(schema, inner);
case 'array':
return items(schema, inner);
case 'integer':
case 'number':
return number(schema);
case 'boolean':
return true;
case 'null':
return null;
default:
return words(schema);
}
}
function exampleOf(schema) {
const { example, examples, const: only, default: usual, enum: choices } = schema;
return [example, examples?.[0], only, usual, choices?.[0]].find((value) => value !== undefined);
}
function alternative({ discriminator }, variants, seen) {
const variant = variants.find((one) => resolved(one).type !== 'null') ?? variants[0];
const value = sample(variant, seen);
const tag = discriminator?.propertyName;
const [name] = Object.entries(discriminator?.mapping ?? {}).find(([, ref]) => ref === variant.$ref) ?? [];
return tag && name && value && typeof value === 'object' ? { ...value, [tag]: name } : value;
}
function members(schema, seen) {
const {
properties,
required = [],
additionalProperties,
minProperties = 0,
maxProperties = Infinity,
} = schema;
const all = Object.entries(properties ?? {}).filter(([name, member]) => {
const followed = resolved(member);
const isEndless = seen.includes(followed) && !required.includes(name);
return !followed[absent] && !member[absent] && !isEndless;
});
const shown = all.length > maxProperties ? all.filter(([name]) => required.includes(name)) : all;
if (shown.length > 0 || !additionalProperties || additionalProperties === true)
return Object.fromEntries(shown.map(([name, member]) => [name, sample(member, seen)]));
const count = Math.min(Math.max(minProperties, 1), maxProperties);
const names = Array.from({ length: count }, (_, index) => \`name\${index === 0 ? '' : index + 1}\`);
return Object.fromEntries(names.map((name) => [name, sample(additionalProperties, seen)]));
}
function items({ prefixItems, items: item, minItems = 0, maxItems = Infinity, uniqueItems }, seen) {
if (Array.isArray(prefixItems)) return prefixItems.map((one) => sample(one, seen));
if (seen.includes(resolved(item)) && minItems === 0) return [];
const count = Math.min(minItems || 1, maxItems, 50);
return Array.from({ length: count }, (_, index) =>
uniqueItems && index > 0 ? another(resolved(item), index, seen) : sample(item, seen),
);
}
function another(schema, index, seen) {
if (schema.enum) return schema.enum[index % schema.enum.length];
const type = typeName(schema);
if (type === 'integer' || type === 'number') return number({ ...schema, example: undefined }, index);
if (type === 'boolean') return index % 2 === 0;
const value = sample(schema, seen);
if (typeof value === 'string' && schema.format === 'uuid') return value.slice(0, -2) + String(index + 10);
return typeof value === 'string' ? words({ ...schema, format: undefined }, String(index + 1)) : value;
}
function number(schema, place = 0) {
const step = stepOf(schema);
const { minimum = -Infinity, maximum = Infinity } = schema;
const { exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema;
const isFit = (value) =>
value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum;
const [low, high] = [Math.max(minimum, exclusiveMinimum), Math.min(maximum, exclusiveMaximum)];
const exact = (value) => Number(value.toPrecision(15));
const multiples = [
1,
Math.ceil(low / step),
Math.floor(low / step) + 1,
Math.floor(high / step),
Math.ceil(high / step) - 1,
]
.filter(Number.isFinite)
.map((count) => exact((count + place) * step));
const between = schema.multipleOf || schema.type === 'integer' ? [] : [low, high, (low + high) / 2];
return [...multiples, ...between].find(isFit) ?? exact(step);
}
function stepOf({ type, multipleOf = 1 }) {
const isWhole = [type].flat().includes('integer');
const counts = Array.from({ length: 1000 }, (_, index) => index + 1);
const count = isWhole ? (counts.find((one) => Number.isInteger(one * multipleOf)) ?? 1) : 1;
return count * multipleOf;
}
function words(schema, end = '') {
const { format, minLength = 0, maxLength = Infinity } = schema;
const patterns = [schema, ...(schema.allOf ?? []).map(resolved)].flatMap(({ pattern }) => pattern ?? []);
const isFit = (text) => fits(text, schema);
if (isBase64(schema)) return base64Texts(minLength).find(isFit) ?? '';
const known = TEXTS[format] ?? [\`text\${end}\`];
const padding = 'text'.repeat(Math.ceil(Math.min(minLength, 2000) / 4));
const [first] = known;
const padded = [first.padEnd(minLength, 'text'), padding + first, first.slice(0, maxLength), padding];
return [...known, ...padded].find(isFit) ?? patternTextOf(patterns, minLength, isFit) ?? first;
}
function isBase64({ contentEncoding }) {
return contentEncoding === 'base64';
}
function base64Texts(minLength) {
const groups = 'aGVs'.repeat(Math.max(0, Math.ceil(Math.min(minLength, 2000) / 4) - 1));
return ['aGVsbG8=', 'aGk=', 'aA==', groups + 'aA==', groups + 'aGk=', groups + 'aGVs', ''];
}
function fits(text, { minLength = 0, maxLength = Infinity, pattern, allOf = [], anyOf }) {
const { length } = [...text];
const isFit = (part) => fits(text, resolved(part));
return (
length >= minLength &&
length <= maxLength &&
(pattern === undefined || matches(pattern, text)) &&
allOf.every(isFit) &&
(anyOf?.some(isFit) ?? true)
);
}
function patternTextOf(patterns, minLength, isFit) {
for (const pattern of patterns) {
const text = patternText(pattern, minLength, isFit);
if (text !== undefined) return text;
}
const row = patterns.map((pattern) => patternText(pattern, 0, () => true) ?? '').join('');
return isFit(row) ? row : undefined;
}
function matches(pattern, text) {
try {
return new RegExp(pattern, 'u').test(text);
} catch {
return true;
}
}

const SIGNS = [
...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ1234567890-_.:/@+ ,;!?#$%&*=~^\\'"\\x60|<>()[]{}\\\\\\t\\n',
...'éßλж中あ€😀',
];
const STRIDES = [1, 27, 61];
const ROUNDS = 60;
const MOST_SIGNS = 2000;
function patternText(source, minLength, isFit) {
try {
const options = parsedPattern(source);
for (let round = 0; round < ROUNDS; round++) {
const text = chosenText(options, round % STRIDES.length, Math.floor(round / STRIDES.length));
if (text.length > MOST_SIGNS) continue;
const filler = 'a'.repeat(Math.max(0, Math.min(minLength, MOST_SIGNS) - [...text].length));
const found = [text, text + filler, filler + text].find(isFit);
if (found !== undefined) return found;
}
} catch {
}
return undefined;
}
function chosenText(options, choice, more) {
const parts = options[choice % options.length];
return parts.map((part) => repeatedText(part, choice, more)).join('');
}
function repeatedText({ signs, options, least, most }, choice, more) {
const count = Math.min(least + more, most, MOST_SIGNS);
const one = (index) =>
signs
? signs[(index * STRIDES[choice]) % signs.length]
: chosenText(options, choice, most > 1 ? Math.min(more, 3) : more);
return Array.from({ length: count }, (_, index) => one(index)).join('');
}
function parsedPattern(source) {
let at = 0;
const read = (pattern) => {
const [found = ''] = pattern.exec(source.slice(at)) ?? [];
at += found.length;
return found;
};
const alternatives = () => {
const options = [sequence()];
while (read(/^\\|/)) options.push(sequence());
return options;
};
const sequence = () => {
const parts = [];
while (at < source.length && !/[|)]/.test(source[at])) {
const part = single();
const [least, most] = counts(read(/^(?:[*+?]|\\{\\d+(?:,\\d*)?\\})\\??/));
if (part) parts.push({ ...part, least, most });
}
return parts;
};
const single = () => {
if (read(/^(?:[\\^$]|\\\\[bB])/)) return undefined;
const group = read(/^\\((?:\\?(?:[:=!]|<[=!]|<[^>]*>))?/);
if (group) {
const options = alternatives();
if (!read(/^\\)/)) throw new Error('a group without end');
return /\\?<?[=!]/.test(group) ? undefined : { options };
}
return {
signs: signsOf(read(/^(?:\\[(?:\\\\.|[^\\]\\\\])*\\]|\\\\(?:u\\{[^}]*\\}|u....|x..|[pP]\\{[^}]*\\}|c.|.)|.)/su)),
};
};
const options = alternatives();
if (at < source.length) throw new Error('a bracket too many');
return options;
}
function counts(quantifier) {
const [least, most] =
{ '': [1, 1], '*': [0, Infinity], '+': [1, Infinity], '?': [0, 1] }[quantifier.charAt(0)] ?? [];
if (least !== undefined) return [least, most];
const [, from, comma, to] = /(\\d+)(,?)(\\d*)/.exec(quantifier) ?? [];
return [Number(from), comma ? (to ? Number(to) : Infinity) : Number(from)];
}
function signsOf(part) {
if (part === '') throw new Error('a quantifier without a part');
const whole = new RegExp(\`^\${part}$\`, 'u');
const signs = [...new Set([...SIGNS, ...part])].filter((sign) => whole.test(sign));
if (signs.length === 0) throw new Error('no sign is known');
return signs;
}

const KEPT = 'svc-docs-proofs';
let proofs = {};
function schemes() {
const found = Object.entries(openApi.components?.securitySchemes ?? {});
return Object.fromEntries(found.map(([name, scheme]) => [name, resolved(scheme)]));
}
const isCsrf = (scheme) =>
scheme.type === 'apiKey' && scheme.in === 'header' && String(scheme.name).toLowerCase() === 'x-csrf-token';
const isCookie = (scheme) => scheme.type === 'apiKey' && scheme.in === 'cookie';
const isBasic = (scheme) => scheme.type === 'http' && String(scheme.scheme).toLowerCase() === 'basic';
function schemeText(scheme) {
if (isCookie(scheme))
return \`Cookie \${scheme.name}: your browser sends it by itself once it has it, along with a CSRF token where one is needed.\`;
switch (scheme.type) {
case 'http':
return \`HTTP \${scheme.scheme}\${scheme.bearerFormat ? \` (\${scheme.bearerFormat})\` : ''}\`;
case 'apiKey':
return \`API key in the \${scheme.in} \${scheme.name}\`;
case 'oauth2':
return 'OAuth 2.0: paste an access token';
case 'openIdConnect':
return \`OpenID Connect: paste an access token. Described at \${scheme.openIdConnectUrl}\`;
default:
return String(scheme.type);
}
}
function labelOf(scheme) {
if (isBasic(scheme)) return 'Password';
if (isCookie(scheme)) return 'Value, if your browser does not have it';
return scheme.type === 'apiKey' ? 'Key' : 'Token';
}
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
const encoded = value.replace(/[;,\\s]/g, encodeURIComponent);
return \`\${name}=\${encoded}; path=/; SameSite=Strict\${location.protocol === 'https:' ? '; Secure' : ''}\`;
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
id: \`:proof-\${name}\`,
type: 'password',
});
input.value = proofs[name]?.value ?? '';
const user = isBasic(scheme) && make('input', { ...given, id: \`:name-\${name}\` });
if (user) user.value = proofs[name]?.name ?? '';
const about = byId(\`:about-\${name}\`)?.cloneNode(true);
for (const link of about ? all('a', about) : []) link.target = '_blank';
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
function flowFields([name, { authorizationUrl, tokenUrl, scopes }]) {
const words = name.replace(/[A-Z]/g, (letter) => \` \${letter.toLowerCase()}\`);
const addresses = [
authorizationUrl && \`log in at \${authorizationUrl}\`,
tokenUrl && \`tokens at \${tokenUrl}\`,
];
const items = Object.entries(scopes ?? {}).map(([scope, about]) =>
make('li', {}, make('code', {}, scope), about && \` \${about}\`),
);
return [
make('p', {}, \`Flow \${words}: \${addresses.filter(Boolean).join(', ')}\`),
items.length > 0 && make('ul', { 'aria-label': \`Scopes of the flow \${words}\` }, ...items),
];
}
function givenProofs() {
const given = Object.entries(schemes()).map(([name, scheme]) => {
const value = byId(\`:proof-\${name}\`)?.value ?? '';
const user = byId(\`:name-\${name}\`)?.value ?? '';
if (value.trim() === '' && user === '') return [];
return [
name,
isBasic(scheme) ? { value, name: user } : { value: value.trim().replace(/^bearer\\s+/i, '') },
];
});
return Object.fromEntries(given.filter(({ length }) => length > 0));
}
function startAuth() {
try {
proofs = JSON.parse(stored('sessionStorage', KEPT) ?? '{}') ?? {};
} catch {
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
function alternativesOf(operation) {
const known = schemes();
return (operation.security ?? openApi.security ?? []).map((alternative) =>
Object.keys(alternative).map((name) => [name, known[name] ?? {}]),
);
}
function chosenProofs(operation) {
const alternatives = alternativesOf(operation).filter((one) => one.length > 0);
const isThere = ([name, scheme]) => proofs[name] || isCsrf(scheme);
const mayBeThere = ([name, scheme]) => isThere([name, scheme]) || scheme.in === 'cookie';
return (
alternatives.find((one) => one.every(isThere)) ?? alternatives.find((one) => one.every(mayBeThere)) ?? []
);
}
function missingProofs(operation) {
const alternatives = alternativesOf(operation);
if (alternatives.some((one) => one.length === 0) || chosenProofs(operation).length > 0) return [];
const namesOf = (one) => one.filter(([, scheme]) => !isCsrf(scheme)).map(([name]) => name);
return alternatives.map((one) => namesOf(one).join(' and ')).filter(Boolean);
}
function addProofs(request, operation) {
for (const [name, scheme] of chosenProofs(operation)) {
const proof = proofs[name];
if (isCookie(scheme)) request.cookies.push([scheme.name, proof?.value ?? \`<your \${scheme.name}>\`]);
else if (!proof) continue;
else if (scheme.type === 'apiKey' && scheme.in === 'query')
request.query.push(pairOf(scheme.name, proof.value));
else if (scheme.type === 'apiKey') request.headers.push([scheme.name, proof.value]);
else if (isBasic(scheme))
request.headers.push(['Authorization', \`Basic \${base64(\`\${proof.name}:\${proof.value}\`)}\`]);
else request.headers.push(['Authorization', \`Bearer \${proof.value}\`]);
}
}
function base64(text) {
return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

let lastId = 0;
const nextId = () => \`:\${++lastId}\`;
const SAFE = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];
const PLACES = ['path', 'query', 'header', 'cookie'];
const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
const pairOf = (name, value) => \`\${encodeURIComponent(name)}=\${encodeURIComponent(value)}\`;
async function addTry(fold, body) {
const panel = make('div', { class: 'y', role: 'group', 'aria-label': 'Try it out' });
body.append(panel);
try {
await loadDocument();
} catch {
panel.append(contentOf(':failed'));
panel.querySelector('button').addEventListener('click', () => {
panel.remove();
addTry(fold, body);
});
return;
}
const method = fold.querySelector('.m').textContent;
const path = fold.querySelector('h3 code').textContent;
const item = resolved(openApi.paths?.[path]);
const operation = item[method.toLowerCase()];
if (!operation) return;
panel.append(contentOf(':try'));
startForm(panel, { method, path, item, operation });
}
function startForm(panel, { method, path, item, operation }) {
const [form, needs, send, out] = ['form', '.need', '.main', '.out'].map((selector) =>
panel.querySelector(selector),
);
const fields = mergedParameters(item, operation).map(parameterField);
const body = operation.requestBody && bodyField(resolved(operation.requestBody));
panel
.querySelector('.fields')
.append(...fields.flatMap(({ elements }) => elements), ...(body?.elements ?? []));
const request = () => requestOf({ method, path, operation, fields, body });
const showCode = startCode(panel.querySelector('.curl'), request);
const link = make('a', { class: 'button', target: '_blank', rel: 'noopener' }, 'Open in a new tab');
if (method === 'GET' && Object.keys(operation.responses ?? {}).some((status) => status.startsWith('3')))
send.after(link);
const show = () => {
showCode();
link.href = request().url;
const missing = missingProofs(operation);
needs.hidden = missing.length === 0;
needs.firstElementChild.textContent = \`Needs \${missing.join(' or ')}.\`;
};
form.addEventListener('submit', sending({ send, out, fields, request }));
form.addEventListener('input', show);
form.addEventListener('change', show);
form.addEventListener('keydown', ({ key, ctrlKey, metaKey }) => {
if (key === 'Enter' && (ctrlKey || metaKey)) form.requestSubmit();
});
needs.querySelector('button').addEventListener('click', openAuth);
document.addEventListener('proofs', show);
addExamples(panel, operation);
const first = () => form.querySelector('input,select,textarea') ?? send;
panel.parentElement.prepend(jump('Go to the form', first));
form.append(jump('Back to the description', () => panel.closest('.op').querySelector('summary')));
show();
}
function sending({ send, out, fields, request }) {
let running;
return async (event) => {
event.preventDefault();
if (running) return running.abort();
const empty = fields.filter((field) => !field.check());
if (empty.length > 0) {
out.replaceChildren();
return empty[0].focus();
}
running = new AbortController();
send.textContent = 'Stop';
try {
await answer(out, request(), running.signal);
} finally {
running = undefined;
send.textContent = 'Send';
}
};
}
function addExamples(panel, operation) {
const groups = new Map();
for (const [status, given] of Object.entries(operation.responses ?? {})) {
const { content } = resolved(given);
const [, media] = Object.entries(content ?? {}).find(([type]) => /[/+]json/.test(type)) ?? [];
const example = media && (exampleIn(media) ?? (media.schema && responseSample(media.schema)));
if (example === undefined) continue;
const text = JSON.stringify(content);
groups.set(text, { example, statuses: [...(groups.get(text)?.statuses ?? []), status] });
}
for (const { example, statuses } of groups.values()) {
const isGood = statuses[0].startsWith('2');
const given = { class: \`curl \${isGood ? 'eg' : 'er'}\`, open: isGood && !panel.querySelector('.eg') };
const code = { tabindex: '0', 'aria-label': 'Example response' };
const summary = make('summary', {}, \`Example response \${statuses.join(', ')}\`);
panel.append(make('details', given, summary, make('pre', code, ...jsonNodes(JSON.stringify(example)))));
}
}
const jump = (text, target) =>
make('button', { type: 'button', class: 'skip', onclick: () => target().focus() }, text);
function mergedParameters(item, operation) {
const byName = new Map();
for (const given of [...(item.parameters ?? []), ...(operation.parameters ?? [])]) {
const parameter = resolved(given);
if (parameter.name) byName.set(\`\${parameter.in} \${parameter.name}\`, parameter);
}
return [...byName.values()].sort((left, right) => PLACES.indexOf(left.in) - PLACES.indexOf(right.in));
}
function parameterField(parameter) {
const { name, in: place, required: isRequired = false } = parameter;
const [media] = Object.values(parameter.content ?? {});
const schema = resolved(parameter.schema ?? media?.schema);
const field = valueField({ name, place, isRequired, schema, example: exampleIn(parameter) });
return { ...field, parameter, isJson: media !== undefined };
}
function exampleIn(owner) {
if (owner.example !== undefined) return owner.example;
const [first] = Object.values(owner.examples ?? {}).map(resolved);
return first?.value;
}
function valueField({ name, place = '', isRequired, schema, example, mediaType = '' }) {
const id = nextId();
const control = controlOf(schema, isRequired);
const isList = typeName(schema) === 'array';
const isFiles = control.type === 'file';
control.id = id;
control.classList.add('in');
if (isRequired) control.setAttribute('aria-required', 'true');
const usual = isRequired ? sample(schema) : (schema.example ?? schema.const);
const begin = example === undefined ? usual : example;
if (!isFiles && begin !== undefined && begin !== null)
control.value = isList && Array.isArray(begin) ? begin.map(asText).join('\\n') : asText(begin);
if ('placeholder' in control && schema.default !== undefined)
control.placeholder = \`default \${asText(schema.default)}\`;
const wrong = make('p', { class: 'wrongs', id: \`\${id}-wrong\`, hidden: true }, 'Required');
const hints = [
make('span', { class: 't' }, place && \` \${place}\`, isList && !isFiles && ', one on a line'),
isRequired && make('em', {}, ' required'),
isFiles && make('span', { class: 't' }, fileHint(schema, mediaType)),
];
const label = make('label', { for: id }, make('code', {}, name), ...hints);
if (isFiles && mediaType) control.setAttribute('accept', acceptOf(mediaType));
return {
name,
schema,
elements: [label, control, wrong],
focus: () => control.focus(),
values() {
if (isFiles) return [...control.files];
return isList ? control.value.split('\\n').filter(Boolean) : [control.value].filter(Boolean);
},
check() {
const isEmpty = place === 'path' && control.value === '';
control.classList.toggle('wrong', isEmpty);
control.setAttribute('aria-invalid', String(isEmpty));
if (isEmpty) control.setAttribute('aria-describedby', wrong.id);
wrong.hidden = !isEmpty;
return !isEmpty;
},
};
}
function fileHint(schema, mediaType) {
const { maxLength } = schema.items ? resolved(schema.items) : schema;
const size = maxLength === undefined ? '' : \`up to \${sizeText(maxLength)}\`;
const type = mediaType === 'application/octet-stream' ? '' : mediaType;
return [type, size]
.filter(Boolean)
.map((text) => \` · \${text}\`)
.join('');
}
function acceptOf(mediaType) {
return mediaType === 'application/octet-stream' || /(?:^|[ ,])\\*/.test(mediaType) ? '' : mediaType;
}
function controlOf(schema, isRequired) {
const type = typeName(schema);
const isList = type === 'array';
if (isFile(schema) || (isList && isFile(resolved(schema.items))))
return make('input', { type: 'file', multiple: isList });
const only = schema.const === undefined ? undefined : [schema.const];
const choices = schema.enum ?? only ?? (type === 'boolean' ? [true, false] : undefined);
if (choices) {
const usual = schema.default === undefined ? '' : \`default \${asText(schema.default)}\`;
const none = isRequired ? [] : [make('option', { value: '' }, usual)];
return make('select', {}, ...none, ...choices.map((value) => make('option', { value }, String(value))));
}
if (isList || type === 'object')
return make('textarea', { class: 'c', rows: isList ? 2 : 4, spellcheck: 'false' });
const isSecret = schema.format === 'password' || (schema.writeOnly && type === 'string');
return make('input', {
type: isSecret ? 'password' : 'text',
inputmode: { integer: 'numeric', number: 'decimal' }[type],
autocomplete: 'off',
spellcheck: 'false',
});
}
function bodyField(body) {
const content = body.content ?? {};
const types = Object.keys(content);
if (types.length === 0) return undefined;
const id = nextId();
const holder = make('div');
const options = types.map((type) => make('option', { value: type }, type));
const select = make('select', { id, class: 'in' }, ...options);
let editor;
const choose = () => {
editor = bodyEditor(select.value, content[select.value] ?? {}, body.required === true);
holder.replaceChildren(...editor.elements);
};
select.addEventListener('change', choose);
choose();
const choice = types.length > 1 ? [make('label', { for: id }, 'Media type'), select] : [];
return { elements: [...choice, holder], read: () => editor.read() };
}
function bodyEditor(type, media, isRequired) {
const schema = resolved(media.schema);
if (type.startsWith('multipart/') || type === 'application/x-www-form-urlencoded')
return formEditor(type, schema, exampleIn(media), media.encoding ?? {});
const id = nextId();
const label = make('label', { for: id }, 'Body', make('span', { class: 't' }, \` \${type}\`));
const isJson = /[/+]json/.test(type);
if (!isJson && (isFile(schema) || (!media.schema && !type.startsWith('text/')))) {
const file = make('input', { id, class: 'in', type: 'file' });
return { elements: [label, file], read: () => ({ type, file: file.files[0] }) };
}
const wrong = make('p', { class: 'wrongs', id: \`\${id}-wrong\` });
const given = { id, class: 'in c', spellcheck: 'false', 'aria-describedby': wrong.id };
const area = make('textarea', given);
area.addEventListener('input', () => {
const isWrong = isJson && area.value !== '' && jsonOf(area.value) === undefined;
wrong.textContent = isWrong ? 'Not valid JSON' : '';
area.classList.toggle('wrong', isWrong);
});
const example = exampleIn(media);
const fill = (begin) => {
area.value = isJson ? JSON.stringify(begin, undefined, 2) : asText(begin ?? '');
area.rows = Math.min(Math.max(area.value.split('\\n').length, 3), 14);
area.dispatchEvent(new Event('input', { bubbles: true }));
};
const choice = isJson ? variantChoice(schema, fill) : [];
fill(example === undefined ? sample(schema) : example);
const read = () => (area.value === '' && !isRequired ? undefined : { type, text: area.value });
return { elements: [...choice, label, area, wrong], read };
}
function variantChoice(schema, fill) {
const variants = (schema.oneOf ?? schema.anyOf ?? []).filter((one) => one.$ref);
if (variants.length < 2) return [];
const id = nextId();
const options = variants.map((one, index) =>
make('option', { value: index }, decoded(one.$ref.split('/').at(-1))),
);
const select = make('select', { id, class: 'in' }, ...options);
select.addEventListener('change', () => fill(alternative(schema, [variants[select.value]], [schema])));
return [make('label', { for: id }, 'One of'), select];
}
function jsonOf(text) {
try {
return JSON.parse(text);
} catch {
return undefined;
}
}
function formField(schema) {
if (schema.items) return { ...schema, items: formField(resolved(schema.items)) };
return schema.contentMediaType && !schema.contentEncoding ? { ...schema, format: 'binary' } : schema;
}
function formEditor(type, schema, example, encoding) {
const required = schema.required ?? [];
const isMultipart = type.startsWith('multipart/');
const members = Object.entries(schema.properties ?? {}).map(([name, member]) => [
name,
isMultipart ? formField(resolved(member)) : resolved(member),
]);
const fields = members
.filter(([, member]) => !member.readOnly)
.map(([name, member]) =>
valueField({
name,
isRequired: required.includes(name),
schema: member,
example: example?.[name],
mediaType: encoding[name]?.contentType,
}),
);
const parts = () => fields.flatMap(({ name, values }) => values().map((value) => [name, value]));
const input = () =>
Object.fromEntries(fields.map((field) => [field.name, typedValue(field.schema, field.values())]));
return {
elements: fields.flatMap(({ elements }) => elements),
read: () => ({ type, isMultipart, parts: parts(), input: input() }),
};
}
function requestOf({ method, path, operation, fields, body }) {
const hasBody = method !== 'GET' && method !== 'HEAD';
const request = {
method,
url: '',
query: [],
headers: [],
cookies: [],
body: hasBody ? body?.read() : undefined,
operation,
inputs: { path: {}, query: {}, header: {}, cookie: {} },
};
let filled = path;
for (const { parameter, isJson, schema, values } of fields) {
const { name, in: place } = parameter;
const texts = values();
if (texts.length > 0 && request.inputs[place]) request.inputs[place][name] = typedValue(schema, texts);
if (place === 'path') filled = filled.replace(\`{\${name}}\`, () => encodeURIComponent(texts.join(',')));
else if (texts.length === 0) continue;
else if (place === 'query') request.query.push(...queryOf(parameter, isJson ? {} : schema, texts));
else if (place === 'header') request.headers.push([name, texts.join(',')]);
else if (place === 'cookie') request.cookies.push([name, texts.join(',')]);
}
addProofs(request, operation);
const wantsToken = alternativesOf(operation).some((one) => one.some(([, scheme]) => isCsrf(scheme)));
const { text, file, type } = request.body ?? {};
if (text !== undefined || file) request.headers.push(['Content-Type', type]);
const query = request.query.length > 0 ? \`?\${request.query.join('&')}\` : '';
return {
...request,
needsToken: wantsToken && !SAFE.includes(method),
url: base().replace(/\\/$/, '') + filled + query,
};
}
function typedValue(schema, texts) {
const type = typeName(schema);
if (type === 'array')
return texts.length === 0 ? undefined : texts.map((text) => typedValue(resolved(schema.items), [text]));
const [text] = texts;
if (text === undefined || text instanceof File) return text;
if (type === 'boolean') return text === 'true';
const isNumber = (type === 'integer' || type === 'number') && Number.isFinite(Number(text));
if (isNumber) return Number(text);
const value = type === 'object' ? jsonOf(text) : undefined;
return value === undefined ? text : value;
}
function base() {
for (const { url, variables } of openApi.servers ?? []) {
const text = String(url).replace(/\\{([^}]*)\\}/g, (_, name) => variables?.[name]?.default ?? '');
if (!URL.canParse(text || '.', documentUrl())) continue;
const found = new URL(text || '.', documentUrl());
if (found.origin === location.origin) return found.origin + found.pathname;
}
const beside = new URL('.', documentUrl());
return beside.origin + beside.pathname;
}
const SEPARATORS = { spaceDelimited: '%20', pipeDelimited: '%7C' };
function queryOf({ name, style, explode }, schema, texts) {
const type = typeName(schema);
if (type === 'array' && explode === false)
return [\`\${encodeURIComponent(name)}=\${texts.map(encodeURIComponent).join(SEPARATORS[style] ?? ',')}\`];
const members = type === 'object' ? jsonOf(texts[0]) : undefined;
if (members) {
const nameOf = (key) => (style === 'deepObject' ? \`\${name}[\${key}]\` : key);
return Object.entries(members).map(([key, value]) => pairOf(nameOf(key), asText(value)));
}
return texts.map((text) => pairOf(name, text));
}

const CODE = 'svc-docs-code';
const LANGUAGES = { curl: curlCode, fetch: fetchCode, 'Generated client': clientCode, Python: pythonCode };
const NAMES = { fetch: 'JavaScript: fetch', 'Generated client': 'JavaScript: generated client' };
function startCode(part, request) {
const [select, code, button] = ['select', 'pre', '.button'].map((selector) => part.querySelector(selector));
select.append(
...Object.keys(LANGUAGES).map((name) => make('option', { value: name }, NAMES[name] ?? name)),
);
const kept = stored('localStorage', CODE);
if (kept && Object.hasOwn(LANGUAGES, kept)) select.value = kept;
const show = () => {
code.textContent = LANGUAGES[select.value](request());
};
select.addEventListener('change', () => {
stored('localStorage', CODE, select.value);
show();
});
button.addEventListener('click', () => copy(code.textContent, button));
return show;
}
const headersOf = ({ headers, needsToken }) => [
...headers,
...(needsToken ? [['X-CSRF-Token', '<token of your session>']] : []),
];
const cookieOf = ({ cookies }) => cookies.map((pair) => pair.join('=')).join('; ');
const quoted = (text) => \`'\${text.replace(/'/g, "'\\\\''")}'\`;
const METHOD_FLAGS = { GET: '', HEAD: ' -I' };
function curlCode(request) {
const { method, url, body } = request;
const parts = [\`curl\${METHOD_FLAGS[method] ?? \` -X \${method}\`} \${quoted(url)}\`];
for (const [name, value] of headersOf(request)) parts.push(\`-H \${quoted(\`\${name}: \${value}\`)}\`);
if (request.cookies.length > 0) parts.push(\`-b \${quoted(cookieOf(request))}\`);
if (body?.text !== undefined) parts.push(\`--data-raw \${quoted(body.text)}\`);
else if (body?.file) parts.push(\`--data-binary \${quoted(\`@\${body.file.name}\`)}\`);
for (const [name, value] of body?.parts ?? []) {
const isAFile = value instanceof File;
const flag = body.isMultipart ? (isAFile ? '-F' : '--form-string') : '--data-urlencode';
parts.push(\`\${flag} \${quoted(\`\${name}=\${isAFile ? \`@\${value.name}\` : value}\`)}\`);
}
return parts.join(' \\\\\\n  ');
}
function literalOf(value, indent = '') {
if (value instanceof File) return 'file';
if (typeof value !== 'object' || value === null) return textLiteral(value);
const inner = \`\${indent}  \`;
const isList = Array.isArray(value);
const entries = Object.entries(value).filter(([, each]) => each !== undefined);
const lines = entries.map(([name, each]) => \`\${isList ? '' : \`\${keyOf(name)}: \`}\${literalOf(each, inner)}\`);
if (lines.length === 0) return isList ? '[]' : '{}';
const short = lines.join(', ');
const [open, close] = isList ? ['[', ']'] : ['{ ', ' }'];
if (short.length + indent.length < 60 && !short.includes('\\n')) return open + short + close;
return \`\${open.trim()}\\n\${lines.map((line) => \`\${inner}\${line},\\n\`).join('')}\${indent}\${close.trim()}\`;
}
const textLiteral = (value) =>
typeof value === 'string' && !/['\\\\\\n\\r]/.test(value) ? \`'\${value}'\` : JSON.stringify(value);
const keyOf = (name) => (/^[A-Za-z_$][\\w$]*$/.test(name) ? name : textLiteral(name));
function fetchCode(request) {
const { method, url, body } = request;
const headers = headersOf(request);
const cookie = cookieOf(request);
const lines = [];
if (method !== 'GET') lines.push(\`method: '\${method}',\`);
const fields = [...headers, ...(cookie ? [['Cookie', cookie]] : [])];
if (fields.length > 0) lines.push(\`headers: \${literalOf(Object.fromEntries(fields), '  ')},\`);
if (body) lines.push(\`body: \${bodyLiteral(body)},\`);
const given = lines.length === 0 ? '' : \`, {\\n\${lines.map((line) => \`  \${line}\\n\`).join('')}}\`;
return \`\${formCode(body)}const response = await fetch(\${textLiteral(url)}\${given});\\nconsole.log(response.status, await response.text());\`;
}
function bodyLiteral({ text, parts, type }) {
if (parts) return 'form';
if (text === undefined) return 'file';
const value = /[/+]json/.test(type) ? jsonOf(text) : undefined;
return value === undefined ? textLiteral(text) : \`JSON.stringify(\${literalOf(value, '  ')})\`;
}
function formCode(body) {
if (!body?.parts) return '';
const lines = body.parts.map(
([name, value]) => \`form.append(\${textLiteral(name)}, \${literalOf(value)});\\n\`,
);
return \`const form = new \${body.isMultipart ? 'FormData' : 'URLSearchParams'}();\\n\${lines.join('')}\`;
}
const MEMBERS = { path: 'params', query: 'query', header: 'headers', cookie: 'cookies' };
function clientCode({ operation, inputs, body }) {
const groups = Object.entries(MEMBERS).map(([place, member]) => [member, inputs[place]]);
const given = Object.fromEntries(groups.filter(([, values]) => Object.keys(values).length > 0));
const json = body?.text === undefined ? undefined : jsonOf(body.text);
if (body?.parts) given.form = body.input;
else if (body) given.body = json === undefined ? (body.text ?? body.file) : json;
const id = operation.operationId ?? 'operation';
const call = /^[A-Za-z_$][\\w$]*$/.test(id) ? \`.\${id}\` : \`[\${textLiteral(id)}]\`;
const [scheme] = chosenProofs(operation).map(([name]) => name);
const auth = scheme === undefined ? '' : \`, auth: { \${keyOf(scheme)}: () => credential }\`;
const input = Object.keys(given).length === 0 ? '' : literalOf(given);
return [
"import { createClient, unwrap } from './api.ts';",
'',
\`const api = createClient({ baseUrl: \${textLiteral(base().replace(/\\/$/, ''))}\${auth} });\`,
\`const data = await unwrap(api\${call}(\${input}));\`,
].join('\\n');
}
function pythonCode(request) {
const { method, url, body } = request;
const lines = [JSON.stringify(url)];
const cookie = cookieOf(request);
const json = body?.text !== undefined && /[/+]json/.test(body.type) ? jsonOf(body.text) : undefined;
const headers = [...headersOf(request), ...(cookie ? [['Cookie', cookie]] : [])];
const shown = headers.filter(
([name, value]) => json === undefined || name !== 'Content-Type' || value !== 'application/json',
);
if (shown.length > 0) lines.push(\`headers=\${pythonLiteral(Object.fromEntries(shown), '    ')}\`);
if (json !== undefined) lines.push(\`json=\${pythonLiteral(json, '    ')}\`);
else if (body?.text !== undefined) lines.push(\`data=\${JSON.stringify(body.text)}\`);
else if (body?.file) lines.push(\`data=open(\${JSON.stringify(body.file.name)}, "rb")\`);
const texts = body?.parts?.filter(([, value]) => !(value instanceof File)) ?? [];
const files = body?.parts?.filter(([, value]) => value instanceof File) ?? [];
const pair = ([name, value]) =>
\`(\${JSON.stringify(name)}, \${value instanceof File ? \`open(\${JSON.stringify(value.name)}, "rb")\` : JSON.stringify(value)})\`;
if (texts.length > 0) lines.push(\`data=[\${texts.map(pair).join(', ')}]\`);
if (files.length > 0) lines.push(\`files=[\${files.map(pair).join(', ')}]\`);
const call = [
'response = requests.request(',
\`    "\${method}",\`,
...lines.map((line) => \`    \${line},\`),
')',
];
return ['import requests', '', ...call, 'print(response.status_code, response.text)'].join('\\n');
}
const PYTHON_WORDS = { true: 'True', false: 'False', null: 'None' };
function pythonLiteral(value, indent) {
if (typeof value !== 'object' || value === null)
return PYTHON_WORDS[String(value)] ?? JSON.stringify(value);
const inner = \`\${indent}    \`;
const isList = Array.isArray(value);
const lines = Object.entries(value).map(
([name, each]) => \`\${inner}\${isList ? '' : \`\${JSON.stringify(name)}: \`}\${pythonLiteral(each, inner)},\\n\`,
);
const [open, close] = isList ? '[]' : '{}';
return lines.length === 0 ? open + close : \`\${open}\\n\${lines.join('')}\${indent}\${close}\`;
}

const MOST_BYTES = 4e6;
const MOST_COLOURED = 2e5;
const FORBIDDEN =
'The server is not reachable, or it redirects to another site: this page may only call its own.';
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
const why = signal.aborted ? '' : \`\${error instanceof Error ? \`\${error.message}. \` : ''}\${FORBIDDEN}\`;
say(status);
out.replaceChildren(
make('p', { class: 'st' }, make('b', { class: signal.aborted ? '' : 'c5' }, status)),
make('p', { class: 'need' }, why),
);
} finally {
restore();
}
}
async function csrfToken() {
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
function lendCookies(cookies) {
const pairs = document.cookie
.split('; ')
.map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]);
const before = Object.fromEntries(pairs);
const lent = cookies.filter(([name, value]) => !value.startsWith('<your ') && before[name] !== value);
for (const [name, value] of lent) document.cookie = cookieText(name, value);
return () => {
for (const [name] of lent)
document.cookie = \`\${cookieText(name, before[name] ?? '')}\${before[name] === undefined ? '; max-age=0' : ''}\`;
};
}
async function showResponse(out, response, ms, signal) {
const size = make('span');
const status = make(
'p',
{ class: 'st' },
make('b', { class: \`c\${String(response.status)[0]}\` }, response.status),
\` \${response.statusText} · \${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms\`,
size,
);
const bar = make('div', { class: 'bar' }, status);
const holder = make('div');
const redirect = response.redirected && make('p', { class: 'need' }, \`Redirected to \${response.url}\`);
out.replaceChildren(bar, redirect || '', holder, headerFields(response));
const type = (response.headers.get('Content-Type') ?? '').toLowerCase();
const isText =
!type.startsWith('image/') &&
(type === '' || /^text\\/|[/+](json|xml|yaml)|javascript|x-ndjson|jsonl|urlencoded/.test(type));
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
size.textContent = \` · \${sizeText(bytes.size)}\${isCut ? ', cut' : ''}\`;
say(status.textContent);
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
const summary = make('summary', {}, \`\${fields.length} headers\`);
return make('details', { class: 'heads' }, summary, make('dl', {}, ...rows));
}
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
async function binary(bytes, type, response) {
const url = URL.createObjectURL(bytes);
const name = fileName(response.headers.get('Content-Disposition') ?? '');
const link = make('a', { class: 'button small', href: url, download: name }, 'Download');
const about = make('p', { class: 'k' }, \`\${name} · \${type || 'no media type'} · \${sizeText(bytes.size)}\`);
const shown = type.startsWith('image/')
? make('img', { src: url, alt: \`Preview of \${name}\` })
: await firstBytes(bytes);
return [about, shown, make('div', { class: 'go' }, link)];
}
function fileName(disposition) {
const [, encoded] = /filename\\*=UTF-8''([^;]+)/i.exec(disposition) ?? [];
const [, plain] = /filename="?([^";]+)/i.exec(disposition) ?? [];
return encoded === undefined ? (plain ?? 'response') : decoded(encoded);
}
async function firstBytes(bytes) {
const first = new Uint8Array(await bytes.slice(0, MOST_SHOWN).arrayBuffer());
const rows = Array.from({ length: Math.ceil(first.length / 8) }, (_, row) => {
const part = [...first.slice(row * 8, row * 8 + 8)];
const digits = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
const signs = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
return \`\${(row * 8).toString(16).padStart(4, '0')}  \${digits.padEnd(23)}  \${signs}\`;
});
return make('pre', { tabindex: '0', 'aria-label': 'First bytes of the file' }, rows.join('\\n'));
}
function sizeText(bytes) {
if (bytes < 1000) return \`\${bytes} B\`;
const [size, unit] = bytes < 1e6 ? [bytes / 1e3, 'kB'] : [bytes / 1e6, 'MB'];
return \`\${Number(size.toFixed(1))} \${unit}\`;
}
const TOKENS = /("(?:\\\\.|[^"\\\\])*")(\\s*:)?|(-?\\d[\\d.eE+-]*)|(true|false|null)|([{}[\\],])/g;
function jsonNodes(text) {
if (jsonOf(text) === undefined) return [text];
const nodes = [];
let depth = 0;
let plain = '';
const coloured = (kind, token) => {
nodes.push(plain, make('span', { class: \`js-\${kind}\` }, token));
plain = '';
};
const line = () => \`\\n\${'  '.repeat(depth)}\`;
const tokens = [...text.matchAll(TOKENS)];
tokens.forEach(([token, string, colon, digits, word], index) => {
const isEmpty = /^[{[]$/.test(tokens[index - 1]?.[0] ?? '');
const isLast = /^[}\\]]$/.test(tokens[index + 1]?.[0] ?? '');
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
})();</script>
</head>
<body data-document="{{documentUrl}}">
<a class="skip" href="#main">Skip to the operations</a>
<header class="top" id="top">
<button
class="button icon menu"
id="menu"
aria-expanded="false"
aria-controls="nav"
aria-label="Contents"
>
☰
</button>
<a class="brand" href="#top">{{title}}</a>
<search class="search j">
<label class="v" for="search">Search operations, fields and schemas</label>
<input
id="search"
type="search"
placeholder="Search"
autocomplete="off"
spellcheck="false"
aria-describedby="count"
aria-keyshortcuts="/"
/>
<kbd aria-hidden="true">/</kbd>
</search>
<button class="button j" id="authorize" {{authorize}}>
<span class="l dot"></span><span class="t2">Authorize</span>
</button>
<button class="button icon j" id="theme" aria-label="Dark colours" aria-pressed="false">◐</button>
</header>
<div class="shell">
<nav id="nav" aria-label="Contents">{{contents}}</nav>
<main id="main" tabindex="-1" class="{{main}}">
<div class="intro">{{intro}}</div>
<p class="v" id="count" role="status"></p>
{{sections}}
<p class="none" id="none" hidden>No results.</p>
{{schemas}}
</main>
</div>
<p class="v" id="say" role="status"></p>
<dialog id=":auth" aria-labelledby=":title">
<form>
<h2 id=":title">Authorize</h2>
<p>Credentials go with the requests of this page, to this site only.</p>
<div id=":schemes"></div>
<div class="tick">
<input type="checkbox" id=":kept" />
<label for=":kept">Remember until this tab is closed</label>
</div>
<div class="go">
<button class="button main">Save</button>
<button class="button" type="button" id=":forget">Forget all</button>
<button class="button" type="button" id=":cancel">Cancel</button>
</div>
</form>
</dialog>
{{abouts}}
<template id=":try">
<form novalidate>
<h4>Try it out</h4>
<p class="need" hidden>
<span></span>
<button class="button small" type="button">Authorize</button>
</p>
<div class="fields"></div>
<div class="go"><button class="button main">Send</button></div>
</form>
<div class="out" role="region" aria-label="Response"></div>
<div class="curl">
<div class="go">
<select class="in" aria-label="Language"></select>
<button class="button small" type="button">Copy</button>
</div>
<pre tabindex="0" aria-label="The request as code"></pre>
</div>
</template>
<template id=":failed">
<form>
<h4>Try it out</h4>
<p class="need">The OpenAPI document cannot be loaded.</p>
<div class="go"><button class="button small" type="button">Try again</button></div>
</form>
</template>
</body>
</html>
`;
