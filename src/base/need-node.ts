/**
 * Ends the process with one line where Node.js is too old, in place of an error about syntax or a missing name of a module.
 *
 * The first import of every entry: it runs before the other modules do. They must link on an old Node.js until then, so what is newer than
 * Node.js 20.12 is not imported by name from a module of Node.js, and the build writes no `using`.
 */

/** Whether it is a version that the package runs on; as bin/need-node.cjs, which npm scripts run. */
export function isSupportedNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major === 24 ? minor >= 16 : major === 26 ? minor >= 1 : major > 26;
}

if (!isSupportedNode(process.versions.node)) {
  process.stderr.write(
    `svc needs Node.js 24.18.1 or later, of the 26 line 26.5.1 or later; found ${process.versions.node} at ${process.execPath}. Get one with "npm install --save-dev node@24" for the scripts of a project, or from https://nodejs.org\n`,
  );
  process.exit(2);
}
