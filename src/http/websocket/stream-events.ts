/**
 * Calls the methods of a WebSocket connection when its TCP or TLS stream emits events.
 *
 * All sockets share one listener function for each event, because a closure for each socket would take
 * memory.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Methods of a WebSocket connection that are called on events of its stream. */
export interface StreamOwner {
  receive(chunk: Buffer): void;
  onDrain(): void;
  onStreamEnd(): void;
  onStreamClose(): void;
}

const OWNER: unique symbol = Symbol('websocket');
interface OwnedStream extends Duplex {
  [OWNER]?: StreamOwner;
}

export function listen(stream: Duplex, owner: StreamOwner): void {
  (stream as OwnedStream)[OWNER] = owner;
  stream.on('drain', onDrain).on('end', onEnd).on('close', onClose);
  // with two listeners for "error", Node would allocate an array for each socket
  if (stream.listenerCount('error') === 0) stream.on('error', onError);
  stream.on('data', onData);
}

/** Returns whether no other code uses the chunks that a stream emits. True for TCP sockets. */
export function ownsChunks(stream: Duplex): boolean {
  return stream instanceof Socket && !('encrypted' in stream);
}

/** Destroys a stream whose peer has ended its side, as soon as all written bytes are sent. */
export function destroyAfterEnd(stream: Duplex): void {
  if (stream.writableEnded && !stream.writableFinished) stream.once('finish', () => stream.destroy());
  else stream.destroy();
}

function onData(this: OwnedStream, chunk: Buffer): void {
  this[OWNER]!.receive(chunk);
}
function onDrain(this: OwnedStream): void {
  this[OWNER]!.onDrain();
}
function onEnd(this: OwnedStream): void {
  this[OWNER]!.onStreamEnd();
}
function onClose(this: OwnedStream): void {
  this[OWNER]!.onStreamClose();
}
function onError(): void {
  /* "close" follows */
}
