import type { Ajv } from 'ajv';
import type { JSONSchema7 } from 'json-schema';
import type { MatcherFor } from './validators.js';

/**
 * Makes Ajv count characters, read dates and run patterns as class-validator and `Date` do, so that
 * a DTO's schema and its decorators never disagree. A pattern is not run on a text whose length is
 * refused already.
 */
export function adaptToClassValidator(ajv: Ajv, matcherFor: MatcherFor): Ajv {
  return ajv
    .removeKeyword('pattern')
    .removeKeyword('minLength')
    .removeKeyword('maxLength')
    .addKeyword({
      keyword: 'pattern',
      type: 'string',
      schemaType: 'string',
      compile: (pattern: string, { minLength, maxLength }: JSONSchema7) => {
        const matches = matcherFor(pattern);
        return (text: string) => !hasLength(text, minLength, maxLength) || matches(text);
      },
    })
    .addKeyword({
      keyword: 'minLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => hasLength(text, limit),
    })
    .addKeyword({
      keyword: 'maxLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => hasLength(text, 0, limit),
    })
    .addFormat('date-time', isDateTime);
}

/**
 * Tells whether a text has a number of characters within bounds. They are counted only where the
 * number of code units, which is never smaller, does not decide.
 */
function hasLength(text: string, least = 0, most = Number.POSITIVE_INFINITY): boolean {
  if (text.length < least) return false;
  if (least === 0 && text.length <= most) return true;
  const count = countCharacters(text);
  return count >= least && count <= most;
}

/**
 * Counts code points without the variation selectors that follow one, as `isLength` of the
 * validator library does.
 */
function countCharacters(text: string): number {
  const selectors = text.match(/[^\uFE0F\uFE0E][\uFE0F\uFE0E]/g)?.length ?? 0;
  const pairs = text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0;
  return text.length - selectors - pairs;
}

/**
 * A time on a day that every year has, as nearly every one is: `Date`, which takes twenty times as
 * long, need not be asked.
 */
const COMMON_TIME =
  /^\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z$/;

/**
 * Tells whether a text is a time by RFC 3339, without leap seconds, which `new Date()` cannot read.
 */
function isDateTime(text: string): boolean {
  if (COMMON_TIME.test(text)) return true;
  const [, year, month, day] =
    /^(\d{4})-(\d\d)-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(
      text,
    ) ?? [];
  return (
    new Date(`${year}-${month}-${day}T00:00:00Z`).getUTCDate() === Number(day) &&
    !Number.isNaN(Date.parse(text))
  );
}
