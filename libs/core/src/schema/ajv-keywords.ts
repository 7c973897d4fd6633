import type { Ajv } from 'ajv';
import type { RegExpEngine } from 'ajv/dist/types/index.js';

/**
 * Makes Ajv count characters, read dates and run patterns as class-validator and `Date` do, so that a DTO's schema and its decorators never
 * disagree.
 */
export function adaptToClassValidator(ajv: Ajv): Ajv {
  return ajv
    .removeKeyword('minLength')
    .removeKeyword('maxLength')
    .addKeyword({
      keyword: 'minLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => text.length >= limit && lengthOf(text) >= limit,
    })
    .addKeyword({
      keyword: 'maxLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => text.length <= limit || lengthOf(text) <= limit,
    })
    .addFormat('date-time', isDateTime);
}

/** Ajv always sets the flag `u`; a pattern written without it may not even compile with it. So only patterns that need it get it. */
export const patternEngine: RegExpEngine = Object.assign((pattern: string) => new RegExp(pattern, needsUnicode(pattern) ? 'u' : ''), {
  code: 'new RegExp',
});

/** Whether a pattern means something else, or nothing, without the flag `u`. */
export function needsUnicode(pattern: string): boolean {
  return /\\[pP]\{|\\u\{/.test(pattern);
}

/** Code points, less the variation selectors that follow one: what `isLength` of the validator library counts. */
function lengthOf(text: string): number {
  const selectors = text.match(/[^\uFE0F\uFE0E][\uFE0F\uFE0E]/g)?.length ?? 0;
  const pairs = text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0;
  return text.length - selectors - pairs;
}

/** RFC 3339, less what `new Date()` cannot read: leap seconds. */
function isDateTime(text: string): boolean {
  const [, year, month, day] =
    /^(\d{4})-(\d\d)-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text) ?? [];
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  return date.getUTCDate() === Number(day) && !Number.isNaN(Date.parse(text));
}
