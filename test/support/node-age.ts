/**
 * Whether this Node.js is older than 24.21. The suite also runs there, except for tests that fail because of
 * bugs in that Node.js.
 */
const [major, minor] = process.versions.node.split('.').map(Number) as [number, number];

export const IS_OLDER_NODE: boolean = major === 24 && minor < 21;
