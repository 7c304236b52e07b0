/**
 * What a server says that its protocol does not have: one error for the clients of all of them.
 */

/** The peer said what the protocol does not allow: nothing that comes after it can be understood. Never shows the bytes. */
export class ProtocolViolation extends Error {
  override readonly name = 'ProtocolViolation';
}
