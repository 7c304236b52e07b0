/**
 * Script of the docs page: loads the OpenAPI document, and makes a value that fits a JSON Schema, as the first value of a form.
 */

let openApi;
let loading;

/** Requests the document once, when the first operation is opened. */
function loadDocument() {
  return (loading ??= fetchDocument());
}

async function fetchDocument() {
  try {
    const response = await fetch(documentUrl(), { credentials: 'same-origin' });
    if (!response.ok) throw new Error(`status ${response.status}`);
    openApi = await response.json();
  } catch (error) {
    loading = undefined;
    throw error;
  }
}

function documentUrl() {
  return new URL(document.body.dataset.document ?? '', location.href).href;
}

/** Returns the target of a `$ref` within the document; a value without `$ref` is returned unchanged. */
function resolved(value) {
  for (let hops = 0; hops < 16 && typeof value?.$ref === 'string'; hops++) {
    if (!value.$ref.startsWith('#/')) return {};
    let found = openApi;
    for (const part of value.$ref.slice(2).split('/')) {
      const key = decoded(part).replace(/~1/g, '/').replace(/~0/g, '~');
      found = found && Object.hasOwn(found, key) ? found[key] : undefined;
    }
    value = found;
  }
  return value && typeof value === 'object' && !value.$ref ? value : {};
}

/** Returns a text with percent-encoding decoded, or unchanged if the encoding is invalid. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function typeName(schema) {
  const types = [schema.type ?? []].flat();
  if (types.length > 0) return types.find((type) => type !== 'null') ?? 'null';
  if (schema.properties || schema.additionalProperties) return 'object';
  return schema.items || schema.prefixItems ? 'array' : 'string';
}

/** Whether a schema describes bytes rather than text. */
function isFile({ format, contentMediaType, contentEncoding }) {
  if (format === 'binary') return true;
  if (!contentMediaType || contentEncoding) return false;
  return contentMediaType !== 'application/json' && !contentMediaType.startsWith('text/');
}

/** Texts by format. The first is the usual one; others are shorter. */
const TEXTS = {
  date: ['2026-01-31'],
  'date-time': ['2026-01-31T12:00:00Z'],
  time: ['12:00:00Z'],
  duration: ['PT1H'],
  email: ['ada@example.com', 'a@b.c'],
  uuid: ['3fa85f64-5717-4562-b3fc-2c963f66afa6'],
  uri: ['urn:example:1', 'a:'],
  'uri-reference': ['/path', '/'],
  hostname: ['example.com', 'a.co', 'a'],
  ipv4: ['192.0.2.1', '1.1.1.1'],
  ipv6: ['2001:db8::1', '::1', '::'],
  byte: [''],
  password: ['secret'],
};

/** Members with this keyword are left out: read-only members of requests, write-only members of responses. */
let absent = 'readOnly';

/** Returns a response that fits its schema. */
function responseSample(schema) {
  absent = 'writeOnly';
  try {
    return sample(schema);
  } finally {
    absent = 'readOnly';
  }
}

function sample(given, seen = []) {
  const schema = resolved(given);
  const example = exampleOf(schema);
  if (example !== undefined) return example;
  if (seen.includes(schema) || seen.length > 12) return null;
  const inner = [...seen, schema];
  // base64 lists its forms of padding as alternatives
  const variants = isBase64(schema) ? undefined : (schema.oneOf ?? schema.anyOf);
  if (Array.isArray(variants) && variants.length > 0) return alternative(schema, variants, inner);
  if (Array.isArray(schema.allOf) && !['string', 'number', 'integer'].includes(schema.type)) {
    const parts = schema.allOf.map((part) => sample(part, inner));
    return Object.assign({}, ...parts, schema.properties ? members(schema, inner) : {});
  }
  switch (typeName(schema)) {
    case 'object':
      return members(schema, inner);
    case 'array':
      return items(schema, inner);
    case 'integer':
    case 'number':
      return number(schema);
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return words(schema);
  }
}

function exampleOf(schema) {
  const { example, examples, const: only, default: usual, enum: choices } = schema;
  return [example, examples?.[0], only, usual, choices?.[0]].find((value) => value !== undefined);
}

/** Returns a value of the first variant that is not null. The discriminator gets the name of the variant. */
function alternative({ discriminator }, variants, seen) {
  const variant = variants.find((one) => resolved(one).type !== 'null') ?? variants[0];
  const value = sample(variant, seen);
  const tag = discriminator?.propertyName;
  const [name] = Object.entries(discriminator?.mapping ?? {}).find(([, ref]) => ref === variant.$ref) ?? [];
  return tag && name && value && typeof value === 'object' ? { ...value, [tag]: name } : value;
}

function members(schema, seen) {
  const {
    properties,
    required = [],
    additionalProperties,
    minProperties = 0,
    maxProperties = Infinity,
  } = schema;
  const all = Object.entries(properties ?? {}).filter(([name, member]) => {
    const followed = resolved(member);
    const isEndless = seen.includes(followed) && !required.includes(name);
    return !followed[absent] && !member[absent] && !isEndless;
  });
  const shown = all.length > maxProperties ? all.filter(([name]) => required.includes(name)) : all;
  if (shown.length > 0 || !additionalProperties || additionalProperties === true)
    return Object.fromEntries(shown.map(([name, member]) => [name, sample(member, seen)]));
  const count = Math.min(Math.max(minProperties, 1), maxProperties);
  const names = Array.from({ length: count }, (_, index) => `name${index === 0 ? '' : index + 1}`);
  return Object.fromEntries(names.map((name) => [name, sample(additionalProperties, seen)]));
}

function items({ prefixItems, items: item, minItems = 0, maxItems = Infinity, uniqueItems }, seen) {
  if (Array.isArray(prefixItems)) return prefixItems.map((one) => sample(one, seen));
  if (seen.includes(resolved(item)) && minItems === 0) return [];
  const count = Math.min(minItems || 1, maxItems, 50);
  return Array.from({ length: count }, (_, index) =>
    uniqueItems && index > 0 ? another(resolved(item), index, seen) : sample(item, seen),
  );
}

/** Returns another value for a list whose items must be unique. */
function another(schema, index, seen) {
  if (schema.enum) return schema.enum[index % schema.enum.length];
  const type = typeName(schema);
  if (type === 'integer' || type === 'number') return number({ ...schema, example: undefined }, index);
  if (type === 'boolean') return index % 2 === 0;
  const value = sample(schema, seen);
  if (typeof value === 'string' && schema.format === 'uuid') return value.slice(0, -2) + String(index + 10);
  return typeof value === 'string' ? words({ ...schema, format: undefined }, String(index + 1)) : value;
}

/** Returns a number that fits the schema: the first one, or with `place` one of the following ones. */
function number(schema, place = 0) {
  const step = stepOf(schema);
  const { minimum = -Infinity, maximum = Infinity } = schema;
  const { exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema;
  const isFit = (value) =>
    value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum;
  const [low, high] = [Math.max(minimum, exclusiveMinimum), Math.min(maximum, exclusiveMaximum)];
  const exact = (value) => Number(value.toPrecision(15));
  const multiples = [
    1,
    Math.ceil(low / step),
    Math.floor(low / step) + 1,
    Math.floor(high / step),
    Math.ceil(high / step) - 1,
  ]
    .filter(Number.isFinite)
    .map((count) => exact((count + place) * step));
  const between = schema.multipleOf || schema.type === 'integer' ? [] : [low, high, (low + high) / 2];
  return [...multiples, ...between].find(isFit) ?? exact(step);
}

/** Returns the smallest distance between two values. For integers it is a multiple of `multipleOf` that is an integer. */
function stepOf({ type, multipleOf = 1 }) {
  const isWhole = [type].flat().includes('integer');
  const counts = Array.from({ length: 1000 }, (_, index) => index + 1);
  const count = isWhole ? (counts.find((one) => Number.isInteger(one * multipleOf)) ?? 1) : 1;
  return count * multipleOf;
}

/** Returns a text that fits the format, length and patterns of a schema. */
function words(schema, end = '') {
  const { format, minLength = 0, maxLength = Infinity } = schema;
  const patterns = [schema, ...(schema.allOf ?? []).map(resolved)].flatMap(({ pattern }) => pattern ?? []);
  const isFit = (text) => fits(text, schema);
  if (isBase64(schema)) return base64Texts(minLength).find(isFit) ?? '';
  const known = TEXTS[format] ?? [`text${end}`];
  const padding = 'text'.repeat(Math.ceil(Math.min(minLength, 2000) / 4));
  const [first] = known;
  const padded = [first.padEnd(minLength, 'text'), padding + first, first.slice(0, maxLength), padding];
  return [...known, ...padded].find(isFit) ?? patternTextOf(patterns, minLength, isFit) ?? first;
}

function isBase64({ contentEncoding }) {
  return contentEncoding === 'base64';
}

/** Returns texts in base64: the usual one, shorter ones, then texts of the required length with each kind of padding. */
function base64Texts(minLength) {
  const groups = 'aGVs'.repeat(Math.max(0, Math.ceil(Math.min(minLength, 2000) / 4) - 1));
  return ['aGVsbG8=', 'aGk=', 'aA==', groups + 'aA==', groups + 'aGk=', groups + 'aGVs', ''];
}

/** Whether a text has the length and patterns of a schema. */
function fits(text, { minLength = 0, maxLength = Infinity, pattern, allOf = [], anyOf }) {
  const { length } = [...text];
  const isFit = (part) => fits(text, resolved(part));
  return (
    length >= minLength &&
    length <= maxLength &&
    (pattern === undefined || matches(pattern, text)) &&
    allOf.every(isFit) &&
    (anyOf?.some(isFit) ?? true)
  );
}

/** Returns a text that one pattern describes, or the texts of all patterns one after another. */
function patternTextOf(patterns, minLength, isFit) {
  for (const pattern of patterns) {
    const text = patternText(pattern, minLength, isFit);
    if (text !== undefined) return text;
  }
  const row = patterns.map((pattern) => patternText(pattern, 0, () => true) ?? '').join('');
  return isFit(row) ? row : undefined;
}

function matches(pattern, text) {
  try {
    return new RegExp(pattern, 'u').test(text);
  } catch {
    return true; // an invalid pattern refuses nothing
  }
}
