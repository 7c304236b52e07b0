#!/usr/bin/env node
// The command `svc`: refuses an old Node in one line, then hands over to cli/main.js. If that cannot be loaded,
// it names the parts that the runtime lacks. No syntax newer than Node 14.
import { createRequire } from 'node:module';
import module from 'node:module';

const require = createRequire(import.meta.url);
const need = require('./need-node.cjs');
if (!need.isSupported(process.versions.node)) {
  process.stderr.write(need.complaint(process.versions.node, process.execPath) + '\n');
  process.exit(2);
}
var writesNothing = process.argv[2] === 'check' || process.argv[2] === 'routes';
if (!writesNothing && !process.env.NODE_DISABLE_COMPILE_CACHE && module.enableCompileCache)
  module.enableCompileCache();
import('../dist/cli/main.js').then(
  function (cli) {
    return cli.main(process.argv.slice(2));
  },
  function (error) {
    const missing = need.missingParts(require);
    process.stderr.write(
      (missing.length > 0
        ? need.lack(missing, process.versions)
        : 'svc: cannot load its own code: ' + (error && error.message)) + '\n',
    );
    process.exit(missing.length > 0 ? 2 : 4);
  },
);
