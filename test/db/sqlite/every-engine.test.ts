/**
 * Runs the tests of every engine on SQLite, which needs no server. The files also have tests without a database.
 */
import { ENGINES, tested } from '../../support/every-database.ts';

tested.engines = ENGINES.filter(({ dialect }) => dialect === 'sqlite');
for (const file of [
  'affected-rows',
  'constraints',
  'decimals',
  'describe/describer',
  'describe/tells',
  'floats',
  'marked-values',
  'migrations/seeds',
  'pages/pages',
  'refused-data',
  'request-transaction',
  'row-classes',
  'row-sources',
])
  await import(`../${file}.integration.test.ts`);
