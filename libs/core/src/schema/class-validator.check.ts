import { validate, type ValidationError } from 'class-validator';
import type { ArgumentProblem } from '../protocol/tool.js';
import { pointerSegment } from './argument-problems.js';

const MAX_PROBLEMS = 10;

/**
 * Asks class-validator about an instance, for what a schema cannot express; at most ten problems. Nothing is stripped: the schema has turned unknown arguments away already, and
 * a DTO may hold fields of its own.
 */
export async function instanceProblems(instance: unknown): Promise<readonly ArgumentProblem[]> {
  if (typeof instance !== 'object' || instance === null) return [{ pointer: '', message: 'must be an object' }];
  const errors = await validate(instance, { forbidUnknownValues: true, validationError: { target: false, value: false } });
  return errors.flatMap((error) => problemsOf(error, '')).slice(0, MAX_PROBLEMS);
}

function problemsOf({ property, constraints, children }: ValidationError, parent: string): ArgumentProblem[] {
  const pointer = parent + (property === undefined ? '' : pointerSegment(property));
  const own = Object.values(constraints ?? {}).map((message) => ({ pointer, message }));
  return [...own, ...(children ?? []).flatMap((child) => problemsOf(child, pointer))];
}
