/**
 * Every rule that reads sources, and each of its messages, has wrong code that it finds and right code that it accepts, in TypeScript and in
 * JavaScript. The messages are read from the rules themselves, so a new one fails here until it has a case.
 */
import assert from 'node:assert/strict';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { CORE_RULES, SOURCE_PARTS } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { messagesIn, patternOf, textsOf } from '../../support/messages.ts';
import { enginesIn } from '../../support/engines.ts';
import { folder } from '../../support/run.ts';
import { CASES, filesOf } from './cases/all.ts';
import { PAIRS } from './cases/pairs.ts';
import type { TestContext } from 'node:test';

type Files = Readonly<Record<string, string>>;

/** Returns files in JavaScript: types are stripped, and imports follow the names. */
function inJavaScript(files: Files): Files {
  return Object.fromEntries(
    Object.entries(files).map(([name, text]) => [
      name.replace(/\.ts$/, '.js'),
      (name.endsWith('.ts') ? stripTypeScriptTypes(text, { mode: 'transform' }) : text).replace(
        /(from '\.[^']*)\.ts'/g,
        "$1.js'",
      ),
    ]),
  );
}

/** `SVC601 message` of each finding. */
function found(t: TestContext, files: Files): string[] {
  const cwd = folder(t, files);
  const entries = Object.keys(files).filter((name) => /^app\./.test(name));
  const { findings, project } = examineSources(
    readProject(entries.map((name) => join(cwd, name))),
    CORE_RULES,
    undefined,
    [],
    enginesIn(Object.values(files).join('\n')),
  );
  assert.deepEqual(project.unread, []);
  return findings.map(({ rule, message }) => `${rule} ${message}`);
}

/** Patterns of the messages of rules that read sources in src/check/rules. Other rules report no node. */
function messagesOfRules(): string[] {
  return messagesIn('src/check/rules', true).flatMap((message) => textsOf(message).map(patternOf));
}

for (const language of ['TypeScript', 'JavaScript'] as const) {
  const inLanguage = (files: Files): Files => (language === 'TypeScript' ? files : inJavaScript(files));

  test(`each message of the check rules for source code is caused by a wrong example in ${language}`, (t) => {
    const all = Object.values(CASES).flatMap((text) => found(t, inLanguage(filesOf(text, 'app.ts'))));
    const missing = messagesOfRules().filter(
      (pattern) => !all.some((each) => new RegExp(`^SVC\\d+ ${pattern}$`).test(each)),
    );
    assert.deepEqual(missing, []);
  });

  test(`each check rule for source code reports its wrong example in ${language} and accepts its right example`, (t) => {
    assert.deepEqual(Object.keys(PAIRS), [...new Set(SOURCE_PARTS.map(({ id }) => id))].sort());
    const mistaken = Object.entries(PAIRS).filter(([rule, { wrong, right }]) => {
      const has = (code: string): boolean =>
        found(t, inLanguage({ 'app.ts': code })).some((each) => each.startsWith(rule));
      return !has(wrong) || has(right);
    });
    assert.deepEqual(
      mistaken.map(([rule]) => rule),
      [],
    );
  });
}
