import { isRecord } from '@toolloop/protocol';
import type { FormRule, FormSchema } from '@toolloop/protocol/routes';

interface Rule {
  readonly name: FormRule;
  readonly isBroken: (form: FormSchema, value: unknown) => boolean;
  readonly text: (form: FormSchema) => string;
}

function rule<Name extends FormRule>(
  name: Name,
  fits: (value: unknown, limit: NonNullable<FormSchema[Name]>) => boolean,
  text: (limit: FormSchema[Name]) => string,
): Rule {
  return {
    name,
    isBroken: ({ [name]: limit }, value) => limit !== undefined && !fits(value, limit),
    text: ({ [name]: limit }) => text(limit),
  };
}

/** The rules of schemas, in the order in which their texts are told. */
const RULES: readonly Rule[] = [
  rule(
    'pattern',
    (value, pattern) => typeof value === 'string' && new RegExp(pattern).test(value),
    (pattern) => `must match ${pattern}`,
  ),
  rule(
    'maxLength',
    (value, most) => typeof value === 'string' && Array.from(value).length <= most,
    (most) => `must be shorter than or equal to ${most} characters`,
  ),
  rule(
    'minLength',
    (value) => value !== '' && value !== undefined && value !== null,
    () => 'should not be empty',
  ),
  rule(
    'maximum',
    (value, most) => typeof value === 'number' && value <= most,
    (most) => `must not be greater than ${most}`,
  ),
  rule(
    'minimum',
    (value, least) => typeof value === 'number' && value >= least,
    (least) => `must not be less than ${least}`,
  ),
  rule(
    'maxItems',
    (value, most) => Array.isArray(value) && value.length <= most,
    (most) => `must contain no more than ${most} elements`,
  ),
  rule(
    'enum',
    (value, choices) => choices.some((choice) => choice === value),
    (choices = []) => `must be one of the following values: ${choices.join(', ')}`,
  ),
  rule('type', isOfType, (type = 'object') => `must be ${TYPE_IN_WORDS[type]}`),
];

const TYPE_IN_WORDS: Readonly<Record<NonNullable<FormSchema['type']>, string>> = {
  string: 'a string',
  integer: 'an integer number',
  number: 'a number',
  boolean: 'a boolean value',
  array: 'an array',
  object: 'an object',
};

function isOfType(value: unknown, type: NonNullable<FormSchema['type']>): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  return type === 'object' ? isRecord(value) : typeof value === type;
}

/** Returns the texts of the rules that a value breaks, those of the items of a list first. */
export function tellBrokenRules(form: FormSchema, name: string, value: unknown): readonly string[] {
  const { items = {} } = form;
  const values: readonly unknown[] = Array.isArray(value) ? value : [value];
  const ofItems = findBrokenRules(items, values).map(
    (broken) => items.texts?.[broken.name] ?? `each value in $property ${broken.text(items)}`,
  );
  const own = findBrokenRules(form, [value]).map(
    (broken) => form.texts?.[broken.name] ?? `$property ${broken.text(form)}`,
  );
  return [...ofItems, ...own].map((text) => text.replace('$property', name));
}

function findBrokenRules(form: FormSchema, values: readonly unknown[]): readonly Rule[] {
  // a choice or a pattern refuses by itself what is no text
  const isTyped = (form.enum ?? form.pattern) === undefined || form.texts?.type !== undefined;
  return RULES.filter(
    ({ name, isBroken }) =>
      (isTyped || name !== 'type') && values.some((value) => isBroken(form, value)),
  );
}
