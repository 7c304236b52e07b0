/**
 * Ends the process with a one-line message on an unsupported Node.js, before it fails with a syntax error or
 * missing export.
 *
 * Every entry point imports this module first, so that it runs before the others. However, Node.js parses and
 * links all modules before it runs the first one. So no module may import a name that Node.js 20.12 does not
 * export, and the built files must not contain `using`.
 */

/**
 * Whether the package supports a version of Node.js. bin/need-node.cjs, which npm scripts run, contains the
 * same check.
 */
export function isSupportedNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major === 24 ? minor >= 16 : major === 26 ? minor >= 1 : major > 26;
}

if (!isSupportedNode(process.versions.node)) {
  process.stderr.write(
    `svc needs Node.js 24.18.1 or a later version of 24, or 26.5.1 or later; found ${process.versions.node} at ${process.execPath}. Install a supported version with "npm install --save-dev node@24" for the scripts of a project, or from https://nodejs.org\n`,
  );
  process.exit(2);
}
