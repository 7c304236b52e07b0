/** Whether this Node is of a time before 24.21: the suite runs there, too, but for what that Node gets wrong itself. */
const [major, minor] = process.versions.node.split('.').map(Number) as [number, number];

export const IS_OLDER_NODE: boolean = major === 24 && minor < 21;
