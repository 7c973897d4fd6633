/** Lists or objects in each other, as JSON. */
export function nested(levels: number, form: 'lists' | 'objects'): string {
  return form === 'lists'
    ? `${'['.repeat(levels)}${']'.repeat(levels)}`
    : `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
}

/**
 * JSON of every kind that a program may send by mistake or on purpose, as texts: some of it no
 * JavaScript value can hold.
 */
export const ANY_JSON: readonly string[] = [
  'null',
  'true',
  'false',
  '0',
  '-0',
  '-1',
  '1.5',
  '1e400',
  '9007199254740993',
  '""',
  '" "',
  '"x"',
  '"\\u0000"',
  '"\\ud800"',
  '"__proto__"',
  JSON.stringify('9'.repeat(9000)),
  '[]',
  '[null]',
  '[[]]',
  '["x"]',
  '[{}]',
  '{}',
  '{"length":3}',
  '{"__proto__":{"a":1}}',
  '{"constructor":null,"toString":null,"then":1}',
  nested(20, 'lists'),
];

/** Texts that a query may hold, written for an address. */
export const ANY_TEXTS: readonly string[] = [
  '',
  '%20',
  'x',
  'null',
  'true',
  '-1',
  '1.5',
  '1e309',
  '9'.repeat(40),
  '%00',
  '%F0%9F%92%A5',
  '__proto__',
  '%5B%5D',
  '2026-13-45',
];
