import { isRecord } from '@toolloop/protocol';
import type { FormRule, FormSchema } from '@toolloop/protocol/routes';

/**
 * Returns the text of the rule that a value breaks, or that values in a list break if the list
 * itself is right. A list is one place: it has one text, however many of its values are wrong.
 */
export function tellBrokenRule(
  form: FormSchema,
  place: string,
  value: unknown,
): string | undefined {
  const own = findBrokenRule(form, [value]);
  if (own) return tell(own, form, place);
  const { items } = form;
  const broken = items && Array.isArray(value) ? findBrokenRule(items, value) : undefined;
  return items && broken && tell(broken, items, place, 'each value in ');
}

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

/**
 * The rules of schemas, the most telling first: the first one that is broken is told. A value of
 * another type breaks most of the others too, and a person mends all of that at once.
 */
const RULES: readonly Rule[] = [
  rule('type', isOfType, (type = 'object') => `must be ${TYPE_IN_WORDS[type]}`),
  rule(
    'enum',
    (value, choices) => choices.some((choice) => choice === value),
    (choices = []) => `must be one of the following values: ${choices.join(', ')}`,
  ),
  rule(
    'minLength',
    (value) => value !== '',
    () => 'should not be empty',
  ),
  rule(
    'maxLength',
    (value, most) => typeof value !== 'string' || Array.from(value).length <= most,
    (most) => `must be shorter than or equal to ${most} characters`,
  ),
  rule(
    'pattern',
    (value, pattern) => typeof value === 'string' && new RegExp(pattern).test(value),
    (pattern) => `must match ${pattern}`,
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

function tell(broken: Rule, form: FormSchema, place: string, prefix = ''): string {
  const text = form.texts?.[broken.name] ?? `${prefix}$property ${broken.text(form)}`;
  return text.replace('$property', () => place);
}

function findBrokenRule(form: FormSchema, values: readonly unknown[]): Rule | undefined {
  // a choice or a pattern refuses by itself what is no text
  const isTyped = (form.enum ?? form.pattern) === undefined || form.texts?.type !== undefined;
  return RULES.find(
    ({ name, isBroken }) =>
      (isTyped || name !== 'type') && values.some((value) => isBroken(form, value)),
  );
}
