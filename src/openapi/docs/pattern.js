/**
 * Script of the docs page: a text that a regular expression accepts, for the values that a form begins with.
 *
 *   pattern -> sequences of signs and groups with counts -> texts, the shortest first -> the first one that fits
 *
 * Assertions such as `(?=…)` and `\b` are passed over here: whether a text fits is for the regular expression itself to say.
 */

const SIGNS = [
  ...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ1234567890-_.:/@+ ,;!?#$%&*=~^\'"\x60|<>()[]{}\\\t\n',
  ...'éßλж中あ€😀',
];
/** Steps by which a text goes through the signs that it may have: large ones mix letters and digits. */
const STRIDES = [1, 27, 61];
const ROUNDS = 60;
const MOST_SIGNS = 2000;

/**
 * The first text of a pattern for which `isFit` holds, filled up to a length on either side; undefined for none, and for a
 * pattern that cannot be read.
 */
function patternText(source, minLength, isFit) {
  try {
    const options = parsedPattern(source);
    for (let round = 0; round < ROUNDS; round++) {
      const text = chosenText(options, round % STRIDES.length, Math.floor(round / STRIDES.length));
      if (text.length > MOST_SIGNS) continue;
      const filler = 'a'.repeat(Math.max(0, Math.min(minLength, MOST_SIGNS) - [...text].length));
      const found = [text, text + filler, filler + text].find(isFit);
      if (found !== undefined) return found;
    }
  } catch {
    /* a back reference, or an invalid pattern */
  }
  return undefined;
}

/** A text of the alternatives, with `more` repetitions than needed. */
function chosenText(options, choice, more) {
  const parts = options[choice % options.length];
  return parts.map((part) => repeatedText(part, choice, more)).join('');
}

function repeatedText({ signs, options, least, most }, choice, more) {
  const count = Math.min(least + more, most, MOST_SIGNS);
  const one = (index) =>
    signs
      ? signs[(index * STRIDES[choice]) % signs.length]
      : chosenText(options, choice, most > 1 ? Math.min(more, 3) : more);
  return Array.from({ length: count }, (_, index) => one(index)).join('');
}

/** Alternatives, each a list of parts: `signs` that it may be, or `options` of a group, from `least` to `most` times. */
function parsedPattern(source) {
  let at = 0;
  const read = (pattern) => {
    const [found = ''] = pattern.exec(source.slice(at)) ?? [];
    at += found.length;
    return found;
  };
  const alternatives = () => {
    const options = [sequence()];
    while (read(/^\|/)) options.push(sequence());
    return options;
  };
  const sequence = () => {
    const parts = [];
    while (at < source.length && !/[|)]/.test(source[at])) {
      const part = single();
      const [least, most] = counts(read(/^(?:[*+?]|\{\d+(?:,\d*)?\})\??/));
      if (part) parts.push({ ...part, least, most });
    }
    return parts;
  };
  const single = () => {
    if (read(/^(?:[\^$]|\\[bB])/)) return undefined;
    const group = read(/^\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?/);
    if (group) {
      const options = alternatives();
      if (!read(/^\)/)) throw new Error('a group without end');
      return /\?<?[=!]/.test(group) ? undefined : { options };
    }
    return {
      signs: signsOf(read(/^(?:\[(?:\\.|[^\]\\])*\]|\\(?:u\{[^}]*\}|u....|x..|[pP]\{[^}]*\}|c.|.)|.)/su)),
    };
  };
  const options = alternatives();
  if (at < source.length) throw new Error('a bracket too many');
  return options;
}

function counts(quantifier) {
  const [least, most] =
    { '': [1, 1], '*': [0, Infinity], '+': [1, Infinity], '?': [0, 1] }[quantifier.charAt(0)] ?? [];
  if (least !== undefined) return [least, most];
  const [, from, comma, to] = /(\d+)(,?)(\d*)/.exec(quantifier) ?? [];
  return [Number(from), comma ? (to ? Number(to) : Infinity) : Number(from)];
}

/** The signs that one part of a pattern accepts; those written in it are tried last. */
function signsOf(part) {
  if (part === '') throw new Error('a quantifier without a part');
  const whole = new RegExp(`^${part}$`, 'u');
  const signs = [...new Set([...SIGNS, ...part])].filter((sign) => whole.test(sign));
  if (signs.length === 0) throw new Error('no sign is known');
  return signs;
}
