import {
  INSTRUCTIONS,
  MODEL,
  type NumberedTask,
  type Outcome,
  promptOf,
  type TaskTool,
} from '../task.js';
import type { Driver } from './driver.js';

/**
 * The exports of a file of bench/peers. It is JavaScript, since its packages need not be installed.
 */
interface PeerModule {
  create(
    tools: readonly TaskTool[],
    loop: { readonly model: string; readonly instructions: string },
  ): (task: NumberedTask & { readonly prompt: string }, baseURL: string) => Promise<Outcome>;
}

export function driverFrom(module: unknown, name: string, tools: readonly TaskTool[]): Driver {
  const run = (module as PeerModule).create(tools, { model: MODEL, instructions: INSTRUCTIONS });
  return {
    name,
    speed: 0.25,
    run: (task, baseURL) => run({ ...task, prompt: promptOf(task) }, baseURL),
    close: () => undefined,
  };
}
