import type { Driver } from './drivers/driver.js';
import type { LocalProvider } from './local-provider.js';
import { repeat, type Contender } from './sampling.js';
import { textOfTask, type Outcome, type Task } from './task.js';

/**
 * A driver that does a task again and again; a unit is one run. `runs` is how many Toolloop would
 * do in a sample.
 */
export function entry(
  driver: Driver,
  task: Task,
  {
    provider,
    runs,
    name,
  }: { readonly provider: LocalProvider; readonly runs: number; readonly name: string },
): Contender {
  const units = Math.max(1, Math.round(runs * driver.speed));
  return { name, units, work: () => repeat(units, () => perform(driver, task, provider)) };
}

let runs = 0;

/** One run, which must have done the task whole. */
export async function perform(
  driver: Driver,
  unnumbered: Task,
  provider: LocalProvider,
): Promise<Outcome> {
  runs += 1;
  const task = { ...unnumbered, number: runs };
  const outcome = await driver.run(task, provider.baseURL(task));
  const { text, toolCalls } = outcome;
  if (toolCalls === task.steps - 1 && text === textOfTask(task)) return outcome;
  throw new Error(
    `${driver.name} made ${toolCalls} calls and said ${text.length} characters: ${text.slice(0, 200)}`,
  );
}
