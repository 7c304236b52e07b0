/** The options of each command agree with its help. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMANDS } from '../../src/cli/main.ts';

for (const [name, { usage, details, options, choices = {}, optionalValues = [] }] of Object.entries(
  COMMANDS,
)) {
  test(`svc ${name}: the help has every option, and shows whether the option takes a value`, () => {
    const help = `${usage}\n${details}`;
    for (const [option, { type }] of Object.entries(options)) {
      const shown = [...help.matchAll(new RegExp(`--${option}(?![\\w-])(\\[=| <| [a-z]+\\|)?`, 'g'))];
      assert.ok(shown.length > 0, `the help lacks --${option}`);
      const forms = shown.map(([, form]) =>
        form?.[0] === '[' ? 'optional' : form === undefined ? 'none' : 'value',
      );
      assert.equal(
        forms.includes('value'),
        type === 'string' && !optionalValues.includes(option),
        `--${option}`,
      );
      assert.equal(forms.includes('optional'), optionalValues.includes(option), `--${option}`);
    }
    const listed = [...details.matchAll(/^ +--([a-z][\w-]*)/gm)].map(([, option = '']) => option);
    assert.deepEqual(
      listed.filter((option) => !Object.hasOwn(options, option)),
      [],
    );
    assert.deepEqual(
      Object.keys(choices).filter((option) => options[option]?.type !== 'string'),
      [],
    );
  });
}
