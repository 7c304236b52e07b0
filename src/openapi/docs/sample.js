/**
 * Script of the docs page: the OpenAPI document, and from a JSON Schema to a value that mostly fits it, with which a form begins.
 */

let openApi;
let loading;

/** Asks for the document once, when the first operation is unfolded. */
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

/** Follows the `$ref` of a value within the document; a value without one is returned as it is. */
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

/** A text with its percent signs decoded, where that can be. */
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

/** Whether it stands for bytes rather than text. */
function isFile({ format, contentMediaType, contentEncoding }) {
  if (format === 'binary') return true;
  if (!contentMediaType || contentEncoding) return false;
  return contentMediaType !== 'application/json' && !contentMediaType.startsWith('text/');
}

const TEXTS = {
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  time: '12:00:00Z',
  duration: 'PT1H',
  email: 'ada@example.com',
  uuid: '3fa85f64-5717-4562-b3fc-2c963f66afa6',
  uri: 'urn:example:1',
  'uri-reference': '/path',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  byte: '',
  password: 'secret',
};

function sample(given, seen = []) {
  const schema = resolved(given);
  const example = exampleOf(schema);
  if (example !== undefined) return example;
  if (seen.includes(schema) || seen.length > 12) return null;
  const inner = [...seen, schema];
  const variants = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(variants) && variants.length > 0) return alternative(schema, variants, inner);
  if (Array.isArray(schema.allOf)) {
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

/** A value of the first variant that is not null, with the name that the discriminator has for it. */
function alternative({ discriminator }, variants, seen) {
  const variant = variants.find((one) => resolved(one).type !== 'null') ?? variants[0];
  const value = sample(variant, seen);
  const tag = discriminator?.propertyName;
  const [name] = Object.entries(discriminator?.mapping ?? {}).find(([, ref]) => ref === variant.$ref) ?? [];
  return tag && name && value && typeof value === 'object' ? { ...value, [tag]: name } : value;
}

function members({ properties, required, additionalProperties }, seen) {
  const shown = Object.entries(properties ?? {}).filter(([name, member]) => {
    const followed = resolved(member);
    const isEndless = seen.includes(followed) && !required?.includes(name);
    return !followed.readOnly && !member.readOnly && !isEndless;
  });
  if (shown.length > 0 || !additionalProperties || additionalProperties === true)
    return Object.fromEntries(shown.map(([name, member]) => [name, sample(member, seen)]));
  return { name: sample(additionalProperties, seen) };
}

function items({ prefixItems, items: item, minItems = 0 }, seen) {
  if (Array.isArray(prefixItems)) return prefixItems.map((one) => sample(one, seen));
  if (seen.includes(resolved(item)) && minItems === 0) return [];
  return Array.from({ length: Math.min(minItems || 1, 5) }, () => sample(item, seen));
}

function number(schema) {
  const { exclusiveMinimum, exclusiveMaximum } = schema;
  const step = schema.multipleOf || 1;
  const least = schema.minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + step);
  const most = schema.maximum ?? (exclusiveMaximum === undefined ? undefined : exclusiveMaximum - step);
  if (least > 0) return Math.ceil(least / step) * step;
  if (most < step) return Math.floor(most / step) * step;
  return step;
}

function words({ format, contentEncoding, minLength = 0, maxLength }) {
  if (Object.hasOwn(TEXTS, format)) return TEXTS[format];
  const text = contentEncoding === 'base64' ? 'aGVsbG8=' : 'text';
  return text.padEnd(Math.min(minLength, 100), 'text').slice(0, maxLength);
}
