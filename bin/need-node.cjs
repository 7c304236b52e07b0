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

module.exports = { isSupported: isSupported, complaint: complaint };

if (require.main === module && !isSupported(process.versions.node)) {
  process.stderr.write(
    complaint(process.versions.node, process.execPath) +
      '\nIf npm refused to run the install script of the package "node", run: npm rebuild node\n'
  );
  process.exit(2);
}
