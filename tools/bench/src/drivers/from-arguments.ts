import type { TaskArguments } from '../task.js';

/** Arguments as a loop written by hand takes them: parsed, and not checked. */
export function argumentsFrom(text: string): TaskArguments {
  return JSON.parse(text) as TaskArguments;
}
