/**
 * A new project, served as by `npm run dev` on a free port: Chromium logs in by clicking, at the provider
 * that the project brings, uses the page, and logs out everywhere. SCREENSHOTS names a folder for pictures of the pages.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { assertAccessible, axeSource } from '../../support/axe.ts';
import { BIN, build } from '../../support/build.ts';
import { Chromium, chromiumProgram, needsChromium } from '../../support/chromium.ts';
import { folder, run, start } from '../../support/run.ts';
import { Visitor } from '../../support/visitor.ts';
import type { Page } from '../../support/chromium.ts';

/** One project and one browser serve all tests of the file. */
const chromium = chromiumProgram() === undefined ? undefined : await Chromium.start({ after });
afterEach(() => chromium?.endVisitors());
/** Address of the project; empty without a browser. */
const url = chromium === undefined ? '' : await served();

async function served(): Promise<string> {
  build();
  const cwd = folder({ after });
  const { status, stderr } = await run(process.execPath, [BIN, 'new', 'shop', '--link'], { cwd });
  assert.equal(status, 0, stderr);
  const server = start({ after }, process.execPath, [BIN, 'run', 'src/app.ts', '--env-file', '.env'], {
    cwd: join(cwd, 'shop'),
    env: { SVC_PORT: '0', NODE_V8_COVERAGE: '' },
  });
  const [, address] = await server.printed(/"event":"listening","url":"([^"]+)","env":"development"/);
  return address!;
}

/** Opens the start page for a new visitor, by one of the names of this machine. */
async function visitor(home: string): Promise<Page> {
  const page = await chromium!.visitor();
  await page.open(home);
  return page;
}

async function pictured(page: Page, name: string): Promise<void> {
  const path = process.env['SCREENSHOTS'];
  if (path !== undefined) writeFileSync(join(path, `${name}.png`), await page.screenshot());
}

for (const [host, who, name] of [
  ['127.0.0.1', 'ada', 'Ada Lovelace'],
  ['localhost', 'alan', 'Alan Turing'],
] as const) {
  test(`in a new project at ${host}, a person can log in, write a note, create a token and log out everywhere with the mouse`, async (t) => {
    if (!needsChromium(t)) return;
    const home = url.replace('127.0.0.1', host);
    const page = await visitor(home);
    await pictured(page, 'starter');
    await page.click('a.button', `${home}/_dev/dev/authorize?`);
    assert.match(await page.text(), /^Choose who to be\n[\s\S]*Ada Lovelace\n/);
    await page.click(`button[value="${who}"]`, home);
    assert.equal(page.url, `${home}/`);
    assert.ok((await page.text()).includes(`Logged in as ${name}`));
    const note = `Buy milk at ${host}`; // the tests share the project, and run in any order
    await page.run(`document.querySelector("#text").value = ${JSON.stringify(note)}`);
    await page.click('form[action="/"] button', home);
    assert.match(await page.text(), /\d+ notes?\n/);
    assert.ok((await page.text()).includes(note));
    await page.click('form[action="/token"] button', `${home}/token`);
    const [, token] = /Authorization: Bearer ([\w.-]+)/.exec(await page.text())!;
    const program = (): Promise<Response> =>
      fetch(`${url}/api/notes`, { headers: { Authorization: `Bearer ${token!}` } });
    assert.ok((await (await program()).text()).includes(`"text":"${note}"`));
    await pictured(page, 'starter-notes');
    assert.deepEqual(await page.run('[document.cookie, localStorage.length]'), ['', 0]);

    await page.click('form[action="/logout"] button', `${home}/_dev/dev/logout?`);
    assert.match(await page.text(), /^Log out at the provider\?/);
    await page.click('button[name="confirmed"]', home);
    assert.equal(page.url, `${home}/`);
    assert.match(await page.text(), /Log in/);
    assert.doesNotMatch(await page.text(), /Logged in as|Buy milk/);
    assert.equal((await program()).status, 401, 'with the login the token ends');
    assert.ok(
      !page.requests.some(({ url: address }) => !address.startsWith(home) && !address.startsWith('data:')),
      'nothing is fetched from elsewhere',
    );
    assert.deepEqual(page.complaints, [], 'no policy was in the way');
  });
}

const LOGGED_OUT = 'document.querySelector("a.button")?.textContent === "Log in with dev"';

/** Waits until an expression is true in a page, also if the page loads another page by itself. */
async function until(page: Page, expression: string): Promise<void> {
  for (;;) {
    try {
      await page.run(
        `new Promise((resolve) => { const look = () => { if (${expression}) resolve(true); else setTimeout(look, 20); }; look(); })`,
      );
      return;
    } catch (error) {
      if (!/navigated or closed/.test(String(error))) throw error; // evaluated in the next page
    }
  }
}

test('in a new project, a person can link a second account, log in with each account, unlink one and log out with the mouse', async (t) => {
  if (!needsChromium(t)) return;
  const ada = await visitor(url);
  await ada.click('a[href="/oauth/login"]', `${url}/_dev/dev/authorize?`);
  await ada.click('button[value="ada"]', url);
  await ada.run('document.querySelector("#text").value = "Only mine"');
  await ada.click('form[action="/"] button', url);
  assert.match(await ada.text(), /Ways to log in: dev/);
  assert.equal(await ada.run('document.querySelector("form[action$=unlink]")'), null, 'one way has to stay');
  await ada.click('form[action="/oauth/other/link"] button', `${url}/_dev/other/authorize?`);
  await ada.click('button[value="alan"]', url);
  assert.match(await ada.text(), /Logged in as Ada Lovelace[^]*Ways to log in: dev, other/);
  await pictured(ada, 'starter-linked');

  const other = await visitor(url);
  await other.click('a[href="/oauth/other/login"]', `${url}/_dev/other/authorize?`);
  await other.click('button[value="alan"]', url);
  assert.match(await other.text(), /Logged in as Alan Turing[^]*Only mine[^]*Ways to log in: dev, other/);

  await ada.open(url);
  assert.match(await ada.text(), /Chrome, with other/);
  await pictured(ada, 'starter-logins');
  await ada.click('button[aria-label="End the login of Chrome, with other"]', url);
  await until(other, LOGGED_OUT);
  assert.doesNotMatch(await ada.text(), /Chrome, with other/);
  await other.click('a[href="/oauth/other/login"]', `${url}/_dev/other/authorize?`);
  await other.click('button[value="alan"]', url);

  const stranger = await visitor(url);
  await stranger.click('a[href="/oauth/login"]', `${url}/_dev/dev/authorize?`);
  await stranger.click('button[value="alan"]', url);
  await stranger.click('form[action="/oauth/other/link"] button', `${url}/_dev/other/authorize?`);
  await stranger.click('button[value="alan"]', url);
  assert.match(await stranger.text(), /This account belongs to another person/);

  await ada.click('form[action="/oauth/other/unlink"] button', url);
  assert.match(await ada.text(), /Ways to log in: dev\s+link other/);
  await until(other, LOGGED_OUT); // the login of the account has ended
  await other.click('a[href="/oauth/other/login"]', `${url}/_dev/other/authorize?`);
  await other.click('button[value="alan"]', url);
  assert.doesNotMatch(await other.text(), /Only mine/, 'the account is a way to the notes of ada no more');
  await other.click('form[action="/logout"] button', `${url}/_dev/other/logout?`);
  await other.click('button[name="confirmed"]', url);
  assert.equal(other.url, `${url}/`);
  assert.match(await other.text(), /Log in with dev/);
  assert.deepEqual([...ada.complaints, ...other.complaints], [], 'no policy was in the way');
});

test('on the page /docs of a new project, a programmer can read the API and write a note with an access token', async (t) => {
  if (!needsChromium(t)) return;
  const page = await visitor(url);
  await page.click('a.button', `${url}/_dev/dev`);
  await page.click('button[value="ada"]', url);
  await page.click('form[action="/token"] button', `${url}/token`);
  const [, token] = /Authorization: Bearer ([\w.-]+)/.exec(await page.text())!;
  await page.click('a[href="/docs"]', `${url}/docs`);
  await pictured(page, 'starter-docs');
  assert.match(
    await page.run('document.body.textContent'),
    /List notes, the newest first[^]*Write a note[^]*Delete a note/,
  );
  const until = (expression: string): Promise<string> =>
    page.run(
      `new Promise((resolve) => { const look = () => { const value = (${expression}); if (value) resolve(value); else setTimeout(look, 20); }; look(); })`,
    );
  await page.run('document.getElementById("authorize").click()');
  await until('document.querySelector("dialog[open]")?.id !== undefined');
  await page.run(
    `(document.getElementById(':proof-bearer').value = ${JSON.stringify(token)}, document.querySelector('dialog .main').click(), location.hash = 'postApiNotes')`,
  );
  await until('document.querySelector("#postApiNotes .y form")?.id !== undefined');
  await page.run('document.querySelector("#postApiNotes .y form").requestSubmit()');
  assert.match(
    await until('document.querySelector("#postApiNotes .out pre")?.textContent'),
    /"text": "Buy milk"/,
  );
  await pictured(page, 'starter-docs-called');
  assert.ok(
    !page.requests.some(({ url: address }) => !address.startsWith(url) && !address.startsWith('data:')),
    'nothing is fetched from elsewhere',
  );
  assert.deepEqual(page.complaints, [], 'no policy was in the way');
});

test('an open page of a new project shows new notes and logouts from other browsers, and keeps the draft of a note', async (t) => {
  if (!needsChromium(t)) return;
  const here = await visitor(url);
  await here.click('a.button', `${url}/_dev/dev`);
  await here.click('button[value="alan"]', url);
  await here.run('document.querySelector("#text").value = "a draft"');
  const program = new Visitor(url);
  await program.logIn('alan');
  await program.submit('/', { text: '<b>Hello</b> from elsewhere' });
  await until(here, 'document.querySelector("li p")?.textContent === "<b>Hello</b> from elsewhere"');
  assert.equal(await here.run('document.querySelector("#text").value'), 'a draft');
  await program.submit('/', { text: 'Hello again' });
  await until(here, 'document.querySelector("li p").textContent === "Hello again"');
  await pictured(here, 'starter-live');
  assert.deepEqual(here.complaints, [], 'no policy was in the way');
  await program.logOut();
  await until(here, LOGGED_OUT);
});

test('in a new project, a logout in one browser logs the person out in every browser, and keeps a second person logged in', async (t) => {
  if (!needsChromium(t)) return;
  const [here, there, other] = [await visitor(url), await visitor(url), await visitor(url)];
  for (const [page, who] of [
    [here, 'alan'],
    [there, 'alan'],
    [other, 'ada'],
  ] as const) {
    await page.click('a.button', `${url}/_dev/dev`);
    await page.click(`button[value="${who}"]`, url);
  }
  await here.click('form[action="/logout"] button', `${url}/_dev/dev/logout?`);
  for (const page of [there, other]) await page.reload();
  assert.match(await there.text(), /Notes are for people who have logged in/);
  assert.match(await other.text(), /Logged in as Ada Lovelace/);
  await there.click('a.button', `${url}/_dev/dev`); // logs in again at once
  await there.click('button[value="alan"]', url);
  assert.match(await there.text(), /Logged in as Alan Turing/);
});

test('in a new project, a person who cancels the login at the provider sees a message and can log in afterwards', async (t) => {
  if (!needsChromium(t)) return;
  const page = await visitor(url);
  await page.click('a.button', `${url}/_dev/dev`);
  await page.click('button[name="deny"]', `${url}/login?error=access_denied`);
  await pictured(page, 'starter-cancelled');
  assert.match(await page.text(), /The login was cancelled or refused/);
  await page.click('a[href="/oauth/login"]', `${url}/_dev/dev`);
  await page.click('button[value="ada"]', url);
  assert.match(await page.text(), /Logged in as Ada Lovelace/);
});

test('axe-core reports no problem on the pages of a new project, in light and dark colours, on wide and narrow screens', async (t) => {
  if (!needsChromium(t)) return;
  const source = axeSource(t);
  if (source === undefined) return;
  for (const [scheme, width] of [
    ['light', 800],
    ['dark', 360],
  ] as const) {
    const page = await chromium!.visitor();
    await page.send('Emulation.setDeviceMetricsOverride', {
      width,
      height: 800,
      deviceScaleFactor: 1,
      mobile: false,
    });
    await page.send('Emulation.setEmulatedMedia', {
      features: [{ name: 'prefers-color-scheme', value: scheme }],
    });
    await page.send('Page.setBypassCSP', { enabled: true }); // the Content-Security-Policy of the page would forbid the script of axe-core
    const look = async (what: string): Promise<void> => {
      await pictured(page, `starter-${what}-${scheme}`);
      await page.run(`void ${source}`);
      await assertAccessible(page, t, `${what}, ${scheme}, ${width}`, 10);
      assert.equal(
        await page.run('document.scrollingElement.scrollWidth <= innerWidth'),
        true,
        `${what} has to be scrolled sideways`,
      );
    };
    await page.open(url);
    await look('start');
    await page.click('a.button', `${url}/_dev/dev`);
    await look('provider');
    await page.click('button[name="deny"]', `${url}/login?error=access_denied`);
    await look('cancelled');
    await page.click('a[href="/oauth/login"]', `${url}/_dev/dev`);
    await page.click('button[value="ada"]', url);
    await page.run('document.querySelector("#text").value = "Buy milk"');
    await page.click('form[action="/"] button', url);
    await look('notes');
    await page.run('document.querySelector("form[action=\\"/\\"]").noValidate = true');
    await page.click('form[action="/"] button', url);
    assert.match(await page.text(), /^The input has 1 problem\n+Error 400/);
    await look('refused');
    await page.open(url);
    await page.click('form[action="/token"] button', `${url}/token`);
    await look('token');
    await page.open(`${url}/nowhere`);
    assert.match(await page.text(), /^Not Found/);
    await look('astray');
  }
});
