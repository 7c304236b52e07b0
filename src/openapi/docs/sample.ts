/**
 * Part of the page's script: from a JSON Schema to a value that fits it, mostly; to begin with when an operation is tried.
 */

/** The text of it. */
export const SAMPLE: string = String.raw`
/** @type {any} */ let openApi;
/** @type {Promise<any> | undefined} */ let loading;

// The document itself: asked for when the first operation is unfolded.
/** @returns {Promise<any>} */
function loadDocument() {
  return loading ||= (async () => {
    try {
      const response = await fetch(documentUrl(), { credentials: 'same-origin' });
      if (!response.ok) throw new Error('status ' + response.status);
      return openApi = await response.json();
    } catch (error) {
      loading = undefined;
      throw error;
    }
  })();
}

/** @returns {string} */
function documentUrl() { return new URL(document.body.dataset.document || '', location.href).href; }

/** @param {any} value @returns {any} */
function resolved(value) {
  for (let hops = 0; hops < 16 && value && typeof value.$ref === 'string'; hops++) {
    if (!value.$ref.startsWith('#/')) return {};
    let found = openApi;
    for (const part of value.$ref.slice(2).split('/')) {
      const key = unescapedPart(part).replace(/~1/g, '/').replace(/~0/g, '~');
      found = found && Object.hasOwn(found, key) ? found[key] : undefined;
    }
    value = found;
  }
  return value && typeof value === 'object' && !value.$ref ? value : {};
}

/** @param {string} part */
function unescapedPart(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** @param {any} schema @returns {string} */
function typeName(schema) {
  const type = Array.isArray(schema.type) ? schema.type.find((/** @type {string} */ one) => one !== 'null') || 'null' : schema.type;
  if (type) return type;
  return schema.properties || schema.additionalProperties ? 'object' : schema.items || schema.prefixItems ? 'array' : 'string';
}

/** @param {any} schema */
function isFile(schema) {
  const { format, contentMediaType, contentEncoding } = schema;
  return format === 'binary' || Boolean(contentMediaType && !contentEncoding && contentMediaType !== 'application/json' && !contentMediaType.startsWith('text/'));
}

const TEXTS = {
  date: '2026-01-31', 'date-time': '2026-01-31T12:00:00Z', time: '12:00:00Z', duration: 'PT1H', email: 'ada@example.com', uuid: '3fa85f64-5717-4562-b3fc-2c963f66afa6', uri: 'urn:example:1',
  'uri-reference': '/path', hostname: 'example.com', ipv4: '192.0.2.1', ipv6: '2001:db8::1', byte: '', password: 'secret',
};

/** @param {any} given @param {readonly any[]} [seen] @returns {any} */
function sample(given, seen = []) {
  const schema = resolved(given);
  const example = exampleOf(schema);
  if (example !== undefined) return example;
  if (seen.includes(schema) || seen.length > 12) return null;
  const inner = [...seen, schema];
  const variants = schema.oneOf || schema.anyOf;
  if (Array.isArray(variants) && variants.length > 0) {
    const variant = variants.find((/** @type {any} */ one) => resolved(one).type !== 'null') || variants[0];
    const value = sample(variant, inner);
    const tag = schema.discriminator && schema.discriminator.propertyName;
    const [name] = Object.entries((schema.discriminator && schema.discriminator.mapping) || {}).find(([, ref]) => ref === variant.$ref) || [];
    return tag && name && value && typeof value === 'object' ? { ...value, [tag]: name } : value;
  }
  if (Array.isArray(schema.allOf)) return Object.assign({}, ...schema.allOf.map((/** @type {any} */ part) => sample(part, inner)), schema.properties ? members(schema, inner) : {});
  switch (typeName(schema)) {
    case 'object': return members(schema, inner);
    case 'array': return items(schema, inner);
    case 'integer': case 'number': return number(schema);
    case 'boolean': return true;
    case 'null': return null;
    default: return words(schema);
  }
}

/** @param {any} schema @returns {any} */
function exampleOf(schema) {
  if (schema.example !== undefined) return schema.example;
  if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  return Array.isArray(schema.enum) ? schema.enum[0] : undefined;
}

/** @param {any} schema @param {readonly any[]} seen @returns {any} */
function members(schema, seen) {
  /** @type {[string, any][]} */
  const found = [];
  const required = schema.required || [];
  for (const [name, member] of Object.entries(schema.properties || {})) {
    const followed = resolved(member);
    if (followed.readOnly || /** @type {any} */ (member).readOnly || seen.includes(followed) && !required.includes(name)) continue;
    found.push([name, sample(member, seen)]);
  }
  if (found.length === 0 && schema.additionalProperties && typeof schema.additionalProperties === 'object') found.push(['name', sample(schema.additionalProperties, seen)]);
  return Object.fromEntries(found);
}

/** @param {any} schema @param {readonly any[]} seen @returns {any[]} */
function items(schema, seen) {
  if (Array.isArray(schema.prefixItems)) return schema.prefixItems.map((/** @type {any} */ item) => sample(item, seen));
  if (seen.includes(resolved(schema.items)) && !schema.minItems) return [];
  return Array.from({ length: Math.min(schema.minItems || 1, 5) }, () => sample(schema.items, seen));
}

/** @param {any} schema @returns {number} */
function number(schema) {
  const step = schema.multipleOf || 1;
  const least = schema.minimum !== undefined ? schema.minimum : schema.exclusiveMinimum !== undefined ? schema.exclusiveMinimum + step : undefined;
  const most = schema.maximum !== undefined ? schema.maximum : schema.exclusiveMaximum !== undefined ? schema.exclusiveMaximum - step : undefined;
  const value = least !== undefined && least > 0 ? Math.ceil(least / step) * step : most !== undefined && most < step ? Math.floor(most / step) * step : least === undefined || least <= step ? step : least;
  return value;
}

/** @param {any} schema @returns {string} */
function words(schema) {
  const known = /** @type {Record<string, string>} */ (TEXTS)[schema.format];
  const text = known !== undefined ? known : schema.contentEncoding === 'base64' ? 'aGVsbG8=' : 'text';
  if (known !== undefined) return text;
  return text.padEnd(Math.min(schema.minLength || 0, 100), 'text').slice(0, schema.maxLength === undefined ? undefined : schema.maxLength);
}
`;
