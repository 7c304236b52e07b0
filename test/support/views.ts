/**
 * Equal bytes in every kind of buffer and view.
 */

/** Returns buffers and views of the same bytes by name. The number of `bytes` must be a multiple of four. */
export function viewsOf(
  bytes: Uint8Array,
): readonly (readonly [what: string, view: ArrayBufferLike | ArrayBufferView])[] {
  const { length } = bytes;
  const within = (buffer: ArrayBufferLike): ArrayBufferLike => {
    new Uint8Array(buffer, 8).set(bytes);
    return buffer;
  };
  const own = within(new ArrayBuffer(length + 16));
  const shared = within(new SharedArrayBuffer(length + 16));
  return [
    ['Uint8Array', new Uint8Array(own, 8, length)],
    ['Buffer', Buffer.from(own, 8, length)],
    ['Uint8ClampedArray', new Uint8ClampedArray(own, 8, length)],
    ['Int8Array', new Int8Array(own, 8, length)],
    ['Uint16Array', new Uint16Array(own, 8, length / 2)],
    ['Float32Array', new Float32Array(own, 8, length / 4)],
    ['DataView', new DataView(own, 8, length)],
    ['ArrayBuffer', Uint8Array.from(bytes).buffer],
    ['Uint8Array of shared memory', new Uint8Array(shared, 8, length)],
    ['DataView of shared memory', new DataView(shared, 8, length)],
    ['SharedArrayBuffer', sharedOf(bytes)],
  ];
}

function sharedOf(bytes: Uint8Array): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(bytes.length);
  new Uint8Array(shared).set(bytes);
  return shared;
}
