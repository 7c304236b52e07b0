/**
 * Short text in ASCII: made by one call from its bytes, which takes a third of the time that Buffer takes for so few
 * (test/bench/short-text.ts).
 */

const { fromCharCode } = String;
const MAX_ASCII = 0x7f;

/** The text of up to eight bytes, if all of them are ASCII; undefined for any other. */
export function shortAscii(bytes: Uint8Array, at: number, end: number): string | undefined {
  const a = bytes[at]!; // whoever asks has looked that there are bytes up to `end`; beyond it nothing is read
  switch (end - at) {
    case 0: return '';
    case 1: return a <= MAX_ASCII ? fromCharCode(a) : undefined;
    case 2: return two(a, bytes[at + 1]!);
    case 3: return three(a, bytes[at + 1]!, bytes[at + 2]!);
    case 4: return four(a, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!);
    case 5: return five(a, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!, bytes[at + 4]!);
    case 6: return six(a, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!, bytes[at + 4]!, bytes[at + 5]!);
    case 7: return seven(a, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!, bytes[at + 4]!, bytes[at + 5]!, bytes[at + 6]!);
    case 8: return eight(a, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!, bytes[at + 4]!, bytes[at + 5]!, bytes[at + 6]!, bytes[at + 7]!);
    default: return undefined;
  }
}

function two(a: number, b: number): string | undefined { return (a | b) <= MAX_ASCII ? fromCharCode(a, b) : undefined; }
function three(a: number, b: number, c: number): string | undefined { return (a | b | c) <= MAX_ASCII ? fromCharCode(a, b, c) : undefined; }
function four(a: number, b: number, c: number, d: number): string | undefined { return (a | b | c | d) <= MAX_ASCII ? fromCharCode(a, b, c, d) : undefined; }
function five(a: number, b: number, c: number, d: number, e: number): string | undefined { return (a | b | c | d | e) <= MAX_ASCII ? fromCharCode(a, b, c, d, e) : undefined; }
function six(a: number, b: number, c: number, d: number, e: number, f: number): string | undefined { return (a | b | c | d | e | f) <= MAX_ASCII ? fromCharCode(a, b, c, d, e, f) : undefined; }
function seven(a: number, b: number, c: number, d: number, e: number, f: number, g: number): string | undefined { return (a | b | c | d | e | f | g) <= MAX_ASCII ? fromCharCode(a, b, c, d, e, f, g) : undefined; }
function eight(a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number): string | undefined { return (a | b | c | d | e | f | g | h) <= MAX_ASCII ? fromCharCode(a, b, c, d, e, f, g, h) : undefined; }
