import { ConfigurationError } from '../protocol/errors.js';
import { isNamed } from '../injection/result-trigger.js';
import type { StopCondition } from '../protocol/stop-condition.js';

/** Holds once one of these tools was called and succeeded: declared ids, short names, ids that the model knows, or globs. */
export function calledTool(...tools: readonly [string, ...string[]]): StopCondition {
  return named(`calledTool(${tools.join(', ')})`, ({ toolCalls }) =>
    toolCalls.some((record) => record.status === 'succeeded' && tools.some((tool) => isNamed(record, tool))),
  );
}

/** Holds after so many steps. Unlike `limits.steps` it is a wish and no limit: the run ends with `stop`. */
export function maxSteps(most: number): StopCondition {
  if (!(Number.isInteger(most) && most > 0)) throw new TypeError(`maxSteps(${most}): give a whole number, 1 or more.`);
  return named(`maxSteps(${most})`, ({ step }) => step >= most);
}

/** So that an error, and whoever asks why a run ended, can say which it was. */
function named(name: string, condition: StopCondition): StopCondition {
  return Object.defineProperty(condition, 'name', { value: name });
}

/** One, several or none, as a list. Throws a `ConfigurationError` for what is no condition: it would never hold. */
export function stopConditionsOf(...given: readonly (StopCondition | readonly StopCondition[] | undefined)[]): readonly StopCondition[] {
  const conditions = given.flatMap((stopWhen) => stopWhen ?? []);
  const wrong: readonly unknown[] = conditions.filter((condition: unknown) => typeof condition !== 'function');
  if (wrong.length === 0) return conditions;
  throw new ConfigurationError([
    { at: 'stopWhen', problem: 'A stop condition is no function.', remedy: 'Give calledTool(…), maxSteps(…) or a function of the step.' },
  ]);
}
