import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type QuestionRequest,
} from '@toolloop/protocol';
import { jsonIn, lineOf } from './output.js';

/** A value that a person is asked for by itself. */
export interface FormField {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

type Schema = QuestionRequest['schema'];

/**
 * The fields of a question that wants to hear several; undefined for one that wants to hear a
 * single value.
 */
export function fieldsOf({
  type,
  properties,
  required = [],
}: Schema): readonly FormField[] | undefined {
  if (type !== 'object' || properties === undefined) return undefined;
  return Object.entries(properties).flatMap(([name, schema]) =>
    typeof schema === 'object' ? { name, schema, isRequired: required.includes(name) } : [],
  );
}

/** The words that ask for a field. */
export function fieldPrompt({ name, schema, isRequired }: FormField): string {
  const { title = name, description, default: usual } = schema;
  const about = description === undefined ? '' : ` - ${lineOf(description)}`;
  const otherwise =
    usual === undefined
      ? isRequired
        ? ''
        : ', or nothing'
      : `, or nothing for ${lineOf(JSON.stringify(usual))}`;
  return `${lineOf(title)}${about} (${formOf(schema)}${otherwise}): `;
}

/**
 * Describes in a few words what a question wants to hear. An empty line says that there is no
 * answer.
 */
export function formOf(schema: Schema): string {
  const choices = choicesIn(schema);
  if (choices) return choices.map((choice) => lineOf(String(choice))).join(' | ');
  if (schema.type === 'boolean') return 'yes or no';
  if (schema.type === 'number' || schema.type === 'integer') return 'a number';
  if (schema.type === 'array')
    return `several, with commas between them: ${formOf(itemsOf(schema))}`;
  return schema.type === 'object' ? 'JSON' : 'your answer';
}

/**
 * Reads what a person has typed as the answer to a question; undefined for what cannot be one. The
 * application checks it once more.
 */
export function answerIn(text: string, schema: Schema): JsonValue | undefined {
  const choices = choicesIn(schema);
  if (choices) return choices.find((choice) => String(choice).toLowerCase() === text.toLowerCase());
  if (schema.type === 'boolean') return truthIn(text);
  if (schema.type === 'number' || schema.type === 'integer') return numberIn(text);
  if (schema.type === 'array') return listIn(text, itemsOf(schema));
  return schema.type === 'object' ? objectIn(text) : text;
}

/** The value that an empty line stands for; undefined where there is none. */
export function usualOf({ default: usual }: Schema): JsonValue | undefined {
  return usual === undefined ? undefined : jsonIn(JSON.stringify(usual));
}

function choicesIn({ enum: choices }: Schema): readonly (string | number)[] | undefined {
  return choices?.filter(
    (choice): choice is string | number => typeof choice === 'string' || typeof choice === 'number',
  );
}

function itemsOf({ items }: Schema): Schema {
  return typeof items === 'object' && !Array.isArray(items) ? items : { type: 'string' };
}

function truthIn(text: string): boolean | undefined {
  if (/^(?:y|yes|true)$/i.test(text)) return true;
  return /^(?:n|no|false)$/i.test(text) ? false : undefined;
}

function numberIn(text: string): number | undefined {
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined;
}

function listIn(text: string, items: Schema): JsonValue | undefined {
  const read = text.split(',').map((one) => answerIn(one.trim(), items));
  const known = read.filter((one) => one !== undefined);
  return known.length === read.length ? known : undefined;
}

function objectIn(text: string): JsonObject | undefined {
  const value = jsonIn(text);
  return isJsonObject(value) ? value : undefined;
}
