/**
 * Each export of a source is imported by another source or is public: the exception is a unit that its tests call alone.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';

/** Exports that only tests import, by file. */
const TESTED_ALONE: Readonly<Record<string, readonly string[]>> = {
  'base/config.ts': ['keyOf'],
  'base/faults.ts': ['FAULTS'],
  'base/need-node.ts': ['isSupportedNode'],
  'cache/stores.ts': ['ExpiryHeap'],
  'check/reader/functions.ts': ['withoutText'],
  'check/report.ts': ['fileOf'],
  'check/rules/environment.ts': ['SUPPORTED_NODE', 'enginesOf', 'satisfies'],
  'check/rules/graph.ts': ['coveredBy'],
  'cli/check.ts': ['repositoryRoot'],
  'cli/command.ts': ['assertChecks'],
  'cli/load.ts': ['isApplication'],
  'cli/main.ts': ['COMMANDS'],
  'cli/new.ts': ['moveEntries'],
  'crypto/jwk.ts': ['chooseKeys'],
  'db/postgres/channel-binding.ts': ['signatureHash'],
  'db/postgres/connect.ts': ['connectPostgres'],
  'db/postgres/saslprep.ts': ['saslPrep'],
  'db/wire/bytes.ts': ['shortAscii'],
  'db/wire/server-socket.ts': ['Incoming'],
  'http/files/static-folder.ts': ['isServed'],
  'http/middleware/compression.ts': ['CompressedChunks'],
  'http/middleware/idempotency.ts': [
    'IdempotencyRecord',
    'decodeRecord',
    'encodeRecord',
    'fingerprint',
    'isFinal',
    'readIdempotencyKey',
    'recordKey',
    'recordOf',
    'replay',
  ],
  'http/reply.ts': ['fromWeb'],
  'http/request/delivery.ts': ['CountedChunks'],
  'http/request/form.ts': ['boundaryOf'],
  'http/request/multipart.ts': ['DelimiterSearch'],
  'http/request/proxy.ts': ['ForwardedFields', 'contains', 'parseNetwork', 'withoutZone'],
  'http/server/fast-path/internals.ts': ['USES_INTERNALS'],
  'http/server/send.ts': ['slicesOf'],
  'http/streaming/event-stream.ts': ['encodeEvent'],
  'http/websocket/deflate.ts': ['deflateMessage'],
  'http/websocket/handshake.ts': ['parseExtensions'],
  'mcp/stdio.ts': ['LineReader'],
  'oauth/errors.ts': ['DENIALS'],
  'oauth/login-state.ts': ['verifierOf'],
  'oauth/provider/id-token.ts': ['IdTokenRules', 'atHashOf'],
  'observability/event-loop.ts': ['DelayMonitor'],
  'observability/log.ts': ['LineQueue'],
  'openapi/compare.ts': ['compareOpenapi'],
  'openapi/docs/markup.ts': ['escape'],
  'openapi/docs/operation.ts': ['pathMarkup'],
  'openapi/docs/page.ts': ['pageParts'],
  'operations/workers.ts': ['Workers'],
};
/** The command is started by bin/svc.js, and the bench of SQLite counts as the plugin does. */
const USED_ELSEWHERE: ReadonlySet<string> = new Set(['cli/main.ts main', 'db/plugin.ts DatabaseMetrics']);
/** Written into the clients of `svc openapi`, or holds such text. */
const CLIENT_TEXTS: ReadonlySet<string> = new Set(['openapi/client/client.ts', 'openapi/client/runtime.ts']);
const EXPORT =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|const|let|interface|type|enum) ([\w$]+)/gm;
const NAMED = /^(?:import|export) (?:type )?(?:[\w$]+, )?\{([^}]*)\} from '(\.[^']+)'/gm;
const NAMESPACE = /^(?:import|export) (?:type )?\*(?: as [\w$]+)? from '(\.[^']+)'/gm;
const DYNAMIC = /\bimport\('(\.[^']+)'\)/g;

function sources(): ReadonlyMap<string, string> {
  const folder = join(ROOT, 'src');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.includes('template'),
  );
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

/** Names that other files take out of each file; `*` for a namespace. */
function importedNames(files: ReadonlyMap<string, string>): ReadonlySet<string> {
  const imported = new Set<string>();
  for (const [file, text] of files) {
    const targetOf = (specifier: string): string => posix.join(posix.dirname(file), specifier);
    for (const [, names, specifier] of text.matchAll(NAMED))
      for (const name of names!.split(','))
        imported.add(
          `${targetOf(specifier!)} ${
            name
              .trim()
              .replace(/^type /, '')
              .split(' as ')[0]
          }`,
        );
    for (const [, specifier] of text.matchAll(NAMESPACE)) imported.add(`${targetOf(specifier!)} *`);
    for (const [, specifier] of text.matchAll(DYNAMIC))
      for (const [, name] of (files.get(targetOf(specifier!)) ?? '').matchAll(EXPORT))
        if (new RegExp(`\\b${name}\\b`).test(text)) imported.add(`${targetOf(specifier!)} ${name}`);
  }
  return imported;
}

test('each exported name is imported by another source file, is public, or is listed as used only by tests', () => {
  const files = sources();
  const imported = importedNames(files);
  const unused = [...files]
    .filter(([file]) => !/(?:^|\/)index\.ts$/.test(file) && !CLIENT_TEXTS.has(file))
    .filter(([file]) => !imported.has(`${file} *`))
    .flatMap(([file, text]) => [...text.matchAll(EXPORT)].map(([, name]) => `${file} ${name}`))
    .filter((name) => !imported.has(name) && !USED_ELSEWHERE.has(name));
  const listed = Object.entries(TESTED_ALONE).flatMap(([file, names]) =>
    names.map((name) => `${file} ${name}`),
  );
  assert.deepEqual(unused.sort(), listed.sort(), 'un-export the name, or list it when a test calls it alone');
});
