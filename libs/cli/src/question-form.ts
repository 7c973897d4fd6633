import type { JsonValue, QuestionRequest } from '@toolloop/protocol';
import { isJsonObject } from '@toolloop/protocol';
import { jsonIn, lineOf } from './output.js';

type Schema = QuestionRequest['schema'];

/** Describes in a few words what a question wants to hear. An empty line says that there is no answer. */
export function formOf(schema: Schema): string {
  const choices = choicesIn(schema);
  if (choices) return choices.map((choice) => lineOf(String(choice))).join(' | ');
  if (schema.type === 'boolean') return 'yes or no';
  if (schema.type === 'number' || schema.type === 'integer') return 'a number';
  if (schema.type === 'array') return 'several, with commas between them';
  return schema.type === 'object' ? 'JSON' : 'your answer';
}

/** Reads what a person has typed as the answer to a question; undefined for what cannot be one. The application checks it once more. */
export function answerIn(text: string, schema: Schema): JsonValue | undefined {
  const choices = choicesIn(schema);
  if (choices) return choices.find((choice) => String(choice).toLowerCase() === text.toLowerCase());
  if (schema.type === 'boolean') return truthIn(text);
  if (schema.type === 'number' || schema.type === 'integer') return Number.isFinite(Number(text)) ? Number(text) : undefined;
  if (schema.type === 'array') return text.split(',').map((one) => one.trim());
  return schema.type === 'object' ? objectIn(text) : text;
}

function choicesIn({ enum: choices }: Schema): readonly (string | number)[] | undefined {
  return choices?.filter((choice): choice is string | number => typeof choice === 'string' || typeof choice === 'number');
}

function truthIn(text: string): boolean | undefined {
  if (/^(?:y|yes|true)$/i.test(text)) return true;
  return /^(?:n|no|false)$/i.test(text) ? false : undefined;
}

function objectIn(text: string): JsonValue | undefined {
  const value = jsonIn(text);
  return isJsonObject(value) ? value : undefined;
}
