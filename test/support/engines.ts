/** Databases that the text of a program registers, for the analysis of its sources. */
import { enginesOf } from '../../src/check/statements/databases.ts';
import { DatabasePlugin } from '../../src/db/plugin.ts';
import type { Engine } from '../../src/check/statements/trace.ts';

const WRITTEN = /new DatabasePlugin\('((?:\w+:\/\/\w+@|sqlite:)[^']+)'(?:, \{ name: '(\w+)')?/g;

export function enginesIn(text: string): ReadonlyMap<string, Engine> {
  const plugins = [...text.matchAll(WRITTEN)].map(([, url, name]) => new DatabasePlugin(url!, { name }));
  return enginesOf(plugins);
}
