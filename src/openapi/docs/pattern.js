/**
 * Script of the docs page: a text that a regular expression accepts, as the first value of a form.
 *
 * The pattern is parsed into sequences of signs and groups with counts. From these, texts are made, the shortest first, and the
 * first text that fits is used. Assertions such as `(?=…)` and `\b` are ignored when a text is made: the regular expression
 * itself decides whether the text fits.
 */

const SIGNS = [
  ...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ1234567890-_.:/@+ ,;!?#$%&*=~^\'"\x60|<>()[]{}\\\t\n',
  ...'éßλж中あ€😀',
];
/** Steps by which a text takes signs from the signs that it may have. Large steps mix letters and digits. */
const STRIDES = [1, 27, 61];
const ROUNDS = 60;
const MOST_SIGNS = 2000;

/**
 * Returns the first text of a pattern for which `isFit` returns true, also with characters added before or after it up to a
 * length.
 * Returns undefined if there is none, or the pattern cannot be parsed.
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

/** Returns a text of one alternative, with `more` repetitions than required. */
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

/**
 * Returns the alternatives of a pattern. Each is a list of parts: `signs`, of which one is chosen, or `options` of a group,
 * repeated `least` to `most` times.
 */
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

/** Returns the signs that one part of a pattern accepts. Signs that are written in the part come last. */
function signsOf(part) {
  if (part === '') throw new Error('a quantifier without a part');
  const whole = new RegExp(`^${part}$`, 'u');
  const signs = [...new Set([...SIGNS, ...part])].filter((sign) => whole.test(sign));
  if (signs.length === 0) throw new Error('no sign is known');
  return signs;
}
