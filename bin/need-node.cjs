// Says in one clear line that this Node is too old. Plain ES5: it must parse on any Node.
// Run by the npm scripts, and required by bin/svc.js, before anything newer is loaded.
'use strict';

/** The functional floor: below it node:sqlite truncates text at NUL and requests have no signal. */
function isSupported(version) {
  var part = version.split('.');
  var major = Number(part[0]),
    minor = Number(part[1]);
  return major === 24 ? minor >= 16 : major === 26 ? minor >= 1 : major > 26;
}

function complaint(version, path) {
  return (
    'svc needs Node.js 24.18.1 or a later version of 24, or 26.5.1 or later; found ' +
    version +
    ' at ' +
    path +
    '. Install a supported version with "npm install --save-dev node@24" for the scripts of a project, or from https://nodejs.org'
  );
}

/** Parts of Node that other runtimes, and some builds of Node, lack although they report a supported version. */
var NEEDED = {
  'node:async_hooks': ['AsyncLocalStorage', 'AsyncResource'],
  'node:cluster': ['fork', 'setupPrimary'],
  'node:crypto': ['KeyObject', 'hash', 'timingSafeEqual'],
  'node:diagnostics_channel': ['channel', 'tracingChannel'],
  'node:module': ['enableCompileCache', 'findPackageJSON', 'registerHooks', 'stripTypeScriptTypes'],
  'node:perf_hooks': ['monitorEventLoopDelay'],
  'node:sqlite': ['DatabaseSync', 'backup'],
  'node:stream': ['duplexPair'],
  'node:zlib': ['createZstdCompress', 'createZstdDecompress'],
};

/** Returns the missing parts, such as "findPackageJSON of node:module". `load` is require(), or a fake. */
function missingParts(load) {
  var missing = [];
  Object.keys(NEEDED).forEach(function (name) {
    var loaded;
    try {
      loaded = load(name);
    } catch (error) {
      missing.push(name);
      return;
    }
    NEEDED[name].forEach(function (member) {
      if (loaded[member] === undefined) missing.push(member + ' of ' + name);
    });
  });
  return missing;
}

/** Returns the complaint about missing parts. `versions` is process.versions. */
function lack(missing, versions) {
  var runtime =
    versions.bun !== undefined
      ? 'Bun ' + versions.bun
      : versions.deno !== undefined
        ? 'Deno ' + versions.deno
        : 'this build of Node.js ' + versions.node;
  return (
    'svc needs parts of Node.js that ' +
    runtime +
    ' lacks: ' +
    missing.join(', ') +
    '. Run it with Node.js 24.18.1 or a later version of 24, or 26.5.1 or later, from https://nodejs.org'
  );
}

module.exports = {
  isSupported: isSupported,
  complaint: complaint,
  needed: NEEDED,
  missingParts: missingParts,
  lack: lack,
};

if (require.main === module && !isSupported(process.versions.node)) {
  process.stderr.write(
    complaint(process.versions.node, process.execPath) +
      '\nIf npm refused to run the install script of the package "node", run: npm rebuild node\n'
  );
  process.exit(2);
}
