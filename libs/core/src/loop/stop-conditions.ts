import type { Finding } from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { isNamed } from '../catalog/tool-selection.js';
import type { StopCondition } from '../contracts/stop-condition.js';

/**
 * Holds once one of these tools was called and succeeded: declared ids, short names, ids that the
 * model knows, or globs.
 */
export function calledTool(...tools: readonly [string, ...string[]]): StopCondition {
  const condition = withName(`calledTool(${tools.join(', ')})`, ({ toolCalls }) =>
    toolCalls.some(
      (record) => record.status === 'succeeded' && tools.some((tool) => isNamed(record, tool)),
    ),
  );
  awaited.set(condition, tools);
  return condition;
}

/** The tools that a condition waits for. */
const awaited = new WeakMap<StopCondition, readonly string[]>();

/**
 * Holds after a number of steps. Unlike `limits.steps` it is a wish and no limit: the run ends with
 * `stop`.
 *
 * @throws TypeError for anything but a whole number of 1 or more
 */
export function maxSteps(most: number): StopCondition {
  if (!(Number.isInteger(most) && most > 0))
    throw new TypeError(`maxSteps(${most}): give a whole number, 1 or more.`);
  return withName(`maxSteps(${most})`, ({ step }) => step >= most);
}

/** Names a condition for errors and for the detail of a finish reason. */
function withName(name: string, condition: StopCondition): StopCondition {
  return Object.defineProperty(condition, 'name', { value: name });
}

/**
 * Returns findings for conditions that never hold: values that are no condition, and conditions
 * that wait for tools which do not exist. `announced`: the tools that may join runs.
 */
export function stopFindings(
  stopWhen: unknown,
  at: string,
  catalog: ToolCatalog,
  announced: readonly string[] = [],
): Finding[] {
  const isAnnounced = (name: string): boolean =>
    announced.includes(name) || catalog.announced.has(name);
  const conditions: readonly unknown[] = stopWhen === undefined ? [] : [stopWhen].flat();
  return conditions.flatMap((condition) => {
    if (!isCondition(condition)) return [{ at: `${at} stopWhen`, ...NO_CONDITION }];
    const names = (awaited.get(condition) ?? []).filter((name) => !isAnnounced(name));
    return catalog
      .problemsWithCalled(names)
      .map(({ problem, remedy }) => ({ at: `${at} stopWhen`, problem, remedy }));
  });
}

/** One, several or none, as a list. */
export function stopConditionsOf(
  ...given: readonly (StopCondition | readonly StopCondition[] | undefined)[]
): readonly StopCondition[] {
  return given.flatMap((stopWhen) => stopWhen ?? []);
}

function isCondition(value: unknown): value is StopCondition {
  return typeof value === 'function';
}

const NO_CONDITION = {
  problem: 'A stop condition is not a function.',
  remedy: 'Give calledTool(…), maxSteps(…) or a function of the step.',
} as const;
