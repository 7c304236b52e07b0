/**
 * Values as the bytes of their structured clones (HTML §2.7), so that each reader can have one of its own.
 *
 * node:v8 reads typed arrays and buffers as views of the very bytes that it is given: two readers would share them, and
 * reach by `.buffer` everything that was kept with them. Here they are copied out.
 */
import { DefaultDeserializer, serialize } from 'node:v8';

/** The bytes of a value. @throws an Error where it has no structured clone: functions, symbols, handles */
export function toBytes(value: unknown): Uint8Array {
  return serialize(value);
}

/** A new value from bytes of {@link toBytes}. */
export function fromBytes(bytes: Uint8Array): unknown {
  const reader = new Reader(bytes);
  reader.readHeader();
  return reader.readValue();
}

class Reader extends DefaultDeserializer {
  /** Called by node:v8 for each view. */
  _readHostObject(): ArrayBufferView {
    const view = (
      DefaultDeserializer.prototype as unknown as { _readHostObject(): ArrayBufferView }
    )._readHostObject.call(this); // documented, and not in its types
    if (Buffer.isBuffer(view)) return Buffer.from(view);
    return view instanceof DataView
      ? new DataView(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength))
      : (view as Uint8Array).slice(); // every other view has slice(), which copies
  }
}
