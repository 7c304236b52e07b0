/**
 * Part of the page's script: fields for parameters, and editors for bodies: JSON, forms with their files, files alone. Each
 * begins with an example, or with what fits its schema.
 */

/** The text of it. */
export const FORM: string = String.raw`
/** @param {any} parameter @returns {any} */
function parameterField(parameter) {
  const media = parameter.content ? Object.values(parameter.content)[0] : undefined;
  const schema = resolved(parameter.schema || media && media.schema);
  const field = valueField({ name: parameter.name, place: parameter.in, isRequired: parameter.required === true, schema, example: exampleIn(parameter) });
  return { ...field, parameter, isJson: media !== undefined };
}

/** @param {any} owner @returns {any} */
function exampleIn(owner) {
  if (owner.example !== undefined) return owner.example;
  const [first] = Object.values(owner.examples || {}).map(resolved);
  return first && first.value;
}

// One control; lists are written line by line, objects as JSON.
/** @param {{ name: string, place?: string, isRequired: boolean, schema: any, example?: any }} given @returns {any} */
function valueField({ name, place, isRequired, schema, example }) {
  const type = typeName(schema);
  const id = nextId();
  const choices = schema.enum || (schema.const !== undefined ? [schema.const] : type === 'boolean' ? [true, false] : undefined);
  const begin = example !== undefined ? example : isRequired ? sample(schema) : schema.example !== undefined ? schema.example : schema.const;
  const isList = type === 'array';
  let control;
  if (isFile(schema) || isList && isFile(resolved(schema.items))) control = make('input', { type: 'file', multiple: isList });
  else if (choices) control = make('select', {}, ...(isRequired ? [] : [make('option', { value: '' }, '')]), ...choices.map((/** @type {any} */ choice) => make('option', { value: String(choice) }, String(choice))));
  else if (isList || type === 'object') control = make('textarea', { class: 'c', rows: isList ? 2 : 4, spellcheck: 'false' });
  else control = make('input', { type: schema.format === 'password' || schema.writeOnly && type === 'string' ? 'password' : 'text', inputmode: type === 'integer' ? 'numeric' : type === 'number' ? 'decimal' : undefined, autocomplete: 'off', spellcheck: 'false' });
  control.id = id;
  control.classList.add('in');
  if (isRequired) control.setAttribute('aria-required', 'true');
  if (control.type !== 'file' && begin !== undefined && begin !== null) control.value = isList && Array.isArray(begin) ? begin.map(asText).join('\n') : asText(begin);
  if ('placeholder' in control && schema.default !== undefined) control.placeholder = 'default ' + asText(schema.default);
  const wrong = make('p', { class: 'wrongs', id: id + '-wrong', hidden: true }, 'This is needed');
  const label = make('label', { for: id }, make('code', {}, name), place ? make('span', { class: 't' }, ' ' + place) : '', isList && control.type !== 'file' ? make('span', { class: 't' }, ', one on a line') : '', isRequired ? make('em', {}, ' required') : '');
  return {
    name, schema, elements: [label, control, wrong], focus: () => control.focus(),
    files: () => control.type === 'file' ? Array.from(control.files) : undefined,
    texts: () => control.type === 'file' || control.value === '' ? [] : isList ? control.value.split('\n').filter(Boolean) : [control.value],
    check() {
      const isEmpty = place === 'path' && control.value === '';
      control.classList.toggle('wrong', isEmpty);
      control.setAttribute('aria-invalid', String(isEmpty));
      if (isEmpty) control.setAttribute('aria-describedby', wrong.id);
      wrong.hidden = !isEmpty;
      return !isEmpty;
    },
  };
}

/** @param {any} value @returns {string} */
function asText(value) { return typeof value === 'string' ? value : JSON.stringify(value); }

// A body: one editor for each media type, of which one is shown.
/** @param {any} body @returns {any} */
function bodyField(body) {
  const types = Object.keys(body.content || {});
  const holder = make('div', {});
  /** @type {any} */ let editor;
  const choose = (/** @type {string} */ type) => {
    editor = bodyEditor(type, (body.content || {})[type] || {}, body.required === true);
    holder.replaceChildren(...editor.elements);
  };
  if (types.length === 0) return undefined;
  choose(types[0]);
  const id = nextId();
  const select = make('select', { id, class: 'in', onchange: () => choose(select.value) }, ...types.map((type) => make('option', { value: type }, type)));
  return { elements: [...types.length > 1 ? [make('label', { for: id }, 'Media type'), select] : [], holder], read: () => editor.read() };
}

/** @param {string} type @param {any} media @param {boolean} isRequired @returns {any} */
function bodyEditor(type, media, isRequired) {
  const schema = resolved(media.schema);
  const isMultipart = type.startsWith('multipart/');
  if (isMultipart || type === 'application/x-www-form-urlencoded') return formEditor(type, schema, exampleIn(media), isMultipart);
  const id = nextId();
  const label = make('label', { for: id }, 'Body', make('span', { class: 't' }, ' ' + type));
  const isJson = /[/+]json/.test(type);
  if (!isJson && (isFile(schema) || !media.schema && !type.startsWith('text/'))) {
    const file = make('input', { id, class: 'in', type: 'file' });
    return { elements: [label, file], read: () => ({ type, file: file.files[0] }) };
  }
  const area = make('textarea', { id, class: 'in c', spellcheck: 'false', 'aria-describedby': id + '-wrong', oninput: () => check() });
  const wrong = make('p', { class: 'wrongs', id: id + '-wrong' });
  const check = () => {
    let problem = '';
    try { if (isJson && area.value !== '') JSON.parse(area.value); } catch { problem = 'This is no JSON'; }
    wrong.textContent = problem;
    area.classList.toggle('wrong', problem !== '');
  };
  const example = exampleIn(media);
  const begin = example !== undefined ? example : sample(schema);
  area.value = isJson ? pretty(begin) : asText(begin === undefined ? '' : begin);
  area.rows = Math.min(Math.max(area.value.split('\n').length, 3), 24);
  return { elements: [label, area, wrong], read: () => area.value === '' && !isRequired ? undefined : { type, text: area.value } };
}

/** @param {string} type @param {any} schema @param {any} example @param {boolean} isMultipart @returns {any} */
function formEditor(type, schema, example, isMultipart) {
  const required = schema.required || [];
  const fields = Object.entries(schema.properties || {}).filter(([, member]) => !resolved(member).readOnly)
    .map(([name, member]) => valueField({ name, isRequired: required.includes(name), schema: resolved(member), example: example && example[name] }));
  const read = () => ({ type, isMultipart, parts: fields.flatMap((field) => (field.files() || field.texts()).map((/** @type {any} */ value) => [field.name, value])) });
  return { elements: fields.flatMap((field) => field.elements), read };
}
`;
