import { linkSignal, untilAborted } from '../contracts/interruption.js';
import type { PluginDeclaration } from './tool-loop-plugin.decorator.js';
import type { RunView } from './run-view.js';

/**
 * Waits for what a hook has returned: until the run is over, and no longer than a plugin may take.
 *
 * @throws {Interruption} if it takes longer
 */
export async function waitForHook<Result>(
  answer: Promise<Result>,
  { name, isBounded = false }: Pick<PluginDeclaration, 'name' | 'isBounded'>,
  { signal, limits }: Pick<RunView, 'signal' | 'limits'>,
): Promise<Result> {
  if (isBounded) return answer;
  const { pluginMs: ms } = limits;
  const link = linkSignal(signal, {
    ms,
    message: `The plugin "${name}" did not answer within ${ms} ms.`,
  });
  try {
    return await untilAborted(answer, link.signal);
  } finally {
    link.release();
  }
}
