import { ForbiddenException } from '@nestjs/common';
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { type JsonObject, ToolError } from '@toolloop/core';
import { type ArgumentProblem, isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { RefusedError } from './resource.js';
import { ResourceWriteError } from './resource-write-error.js';

/** An input that is checked by its JSON Schema, and then by what a schema cannot say. */
export function checkedInput(
  schema: JSONSchema7,
  problemsIn: (input: JsonObject) => readonly ArgumentProblem[],
): StandardSchemaV1<unknown, JsonObject> & StandardJSONSchemaV1<unknown, JsonObject> {
  return {
    '~standard': {
      version: 1,
      vendor: 'toolloop',
      validate: (value) => {
        if (!isJsonArguments(value)) return { issues: [{ message: 'must be an object' }] };
        const problems = problemsIn(value);
        return problems.length === 0
          ? { value }
          : {
              issues: problems.map(({ pointer, message }) => ({
                message,
                path: segmentsOf(pointer),
              })),
            };
      },
      jsonSchema: { input: () => ({ ...schema }), output: () => ({ ...schema }) },
    },
  };
}

/** Arguments come from JSON. */
function isJsonArguments(value: unknown): value is JsonObject {
  return isRecord(value);
}

function segmentsOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/**
 * Runs the work of an action, and words what the database refuses for the model: a write, or a
 * statement that took too long. What a database says reaches no model.
 *
 * @throws {ToolError} With a pointer to the argument where there is one.
 */
export async function toldWell<Result>(
  work: () => Promise<Result>,
  pointerTo: PointerTo = () => undefined,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ResourceWriteError) throw worded(error, pointerTo);
    throw error;
  }
}

/**
 * Runs the work of an action as {@link toldWell} does, where there is no decision to say a refusal
 * any more: another write came between.
 *
 * @throws {ToolError} As `toldWell` does.
 * @throws {ForbiddenException} Where a policy refuses.
 */
export async function performed<Result>(
  work: () => Promise<Result>,
  pointerTo?: PointerTo,
): Promise<Result> {
  try {
    return await toldWell(work, pointerTo);
  } catch (error) {
    if (error instanceof RefusedError) throw new ForbiddenException(WORDS.tenant, { cause: error });
    throw error;
  }
}

/**
 * Finds the argument that a refusal of the database is about, by the constraint or the column that
 * it names.
 */
export type PointerTo = (
  subject: string,
  reason: ResourceWriteError['reason'],
) => string | undefined;

const WORDS: Readonly<Record<ResourceWriteError['reason'], string>> = {
  unique: 'There is another row with this value.',
  required: 'A value is required here.',
  reference: 'What it refers to does not exist, or other rows still refer to it.',
  check: 'The value breaks a rule of the data.',
  range: 'A number is too large or too small for its column. Give one nearer to zero.',
  tenant: 'This is not permitted.',
  conflict: 'The row was changed meanwhile. Read it again.',
  timeout: 'The database took too long. Ask for less: a narrower filter, a smaller page.',
};

function worded(error: ResourceWriteError, pointerTo: PointerTo): Error {
  const { reason, subject } = error;
  if (reason === 'tenant') return new ForbiddenException(WORDS.tenant, { cause: error });
  const message = WORDS[reason];
  const pointer = reason === 'conflict' ? '/version' : pointerTo(subject, reason);
  const isAboutArguments = pointer !== undefined && reason !== 'timeout';
  return new ToolError(message, {
    cause: error,
    ...(isAboutArguments && { problems: [{ pointer, message }] }),
  });
}
