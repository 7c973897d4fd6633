import { INSTRUCTIONS, MODEL, PROMPT, type TaskTool } from '../task.js';
import type { Driver } from './driver.js';

/** The exports of a file of bench/peers. It is JavaScript, since its packages need not be installed. */
interface PeerModule {
  create(
    tools: readonly TaskTool[],
    task: { readonly model: string; readonly prompt: string; readonly instructions: string },
  ): Driver['run'];
}

export function driverFrom(module: unknown, name: string, tools: readonly TaskTool[]): Driver {
  const run = (module as PeerModule).create(tools, { model: MODEL, prompt: PROMPT, instructions: INSTRUCTIONS });
  return { name, speed: 0.25, run, close: () => undefined };
}
