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

/** One, several or none, as a list. */
export function stopConditionsOf(...given: readonly (StopCondition | readonly StopCondition[] | undefined)[]): readonly StopCondition[] {
  return given.flatMap((stopWhen) => stopWhen ?? []);
}
