/**
 * The page's script, put together: one function around all parts, which run in the browser. It builds elements and never makes
 * HTML out of text. TypeScript checks it by its notes (test/openapi/docs/script.test.ts), which browsers do not get.
 *
 *   this file            elements, storage, copies, colours     browse.ts   contents, search, links
 *   sample.ts  the document; values by schema         auth.ts     proofs of who asks
 *   form.ts    fields and editors                     request.ts  what is sent
 *   answer.ts  sends it, shows what comes back        request.ts      all of that for one operation
 */
import { ANSWER } from './answer.ts';
import { AUTH } from './auth.ts';
import { BROWSE } from './browse.ts';
import { FORM } from './form.ts';
import { REQUEST, TRY } from './request.ts';
import { SAMPLE } from './sample.ts';

const PAGE: string = String.raw`
const root = document.documentElement;
/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);
/** @param {string} selector @param {ParentNode} [from] @returns {any[]} */
const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));

// An element with attributes, listeners (on…) and children.
/** @param {string} tag @param {Record<string, any>} [given] @param {any[]} children @returns {any} */
function make(tag, given, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}

// Storage may be forbidden, or full.
/** @param {'localStorage' | 'sessionStorage'} kind @param {string} key @param {string | null} [value] @returns {string | null} */
function stored(kind, key, value) {
  try {
    const storage = window[kind];
    if (value === undefined) return storage.getItem(key);
    if (value === null) storage.removeItem(key);
    else storage.setItem(key, value);
  } catch { /* then it is not remembered */ }
  return null;
}

/** @param {string} text */
function say(text) {
  byId('say').textContent = '';
  requestAnimationFrame(() => { byId('say').textContent = text; });
}

/** @param {string} text @param {HTMLElement} button */
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make('textarea', { class: 'v' });
    area.value = text;
    (button.closest('dialog') || document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = 'Copied';
  say('Copied');
  setTimeout(() => { button.textContent = label; }, 1200);
}

/** @param {string} label @param {() => string} text */
function copyButton(label, text) {
  const button = make('button', { type: 'button', class: 'button small', onclick: () => copy(text(), button) }, label);
  return button;
}

// ── colours ──

const THEME = 'svc-docs-theme';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
/** @returns {boolean} */
const isDark = () => root.dataset.theme === undefined ? prefersDark.matches : root.dataset.theme === 'dark';

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
    stored('localStorage', THEME, root.dataset.theme === undefined ? null : theme);
    show();
  });
  prefersDark.addEventListener('change', show);
  show();
}
`;

const START: string = String.raw`
root.classList.add('js');
readTheme();
document.addEventListener('DOMContentLoaded', () => {
  startTheme();
  startContents();
  startSearch();
  startAuth();
  startFolds();
});
`;

/** Types and notes are for those who work on it, not for browsers: they stand on lines of their own. */
function lean(text: string): string {
  return text
    .replace(/^[ \t]*\/\/.*\n|^[ \t]*\/\*\* @[^\n]*\*\/\n/gm, '')
    .replace(/\/\*\*? [@a-z][^\n]*?\*\/ ?/g, '')
    .replace(/^[ \t]+/gm, '')
    .replace(/\n+/g, '\n');
}

/** The script as it is written, with its notes. @internal */
export const SCRIPT_SOURCE: string = `(() => {\n'use strict';\n${PAGE}${BROWSE}${SAMPLE}${AUTH}${FORM}${REQUEST}${ANSWER}${TRY}${START}})();\n`;

/** The script as browsers get it. */
export const SCRIPT: string = lean(SCRIPT_SOURCE);
