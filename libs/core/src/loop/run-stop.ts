import { linkSignal, untilAborted } from '../contracts/interruption.js';
import type { FinishedStep, StopCondition } from '../contracts/stop-condition.js';
import type { LiveRun } from '../run/live-run.js';
import { RunFault } from '../run/run-fault.js';
import type { Finish, LoopState } from './loop-state.js';

/**
 * Returns the end of a run by the stop condition that holds for the last step.
 *
 * @throws RunFault that names a condition which failed
 */
export async function stopFor(
  { step, text, records, usage }: LoopState,
  live: LiveRun,
): Promise<Finish | undefined> {
  const { stopWhen, execution } = live.plan;
  if (stopWhen.length === 0 || step === 0) return undefined;
  const finished = {
    step,
    text,
    usage,
    toolCalls: records.filter((record) => record.step === step),
    run: execution.run,
  };
  for (const [index, condition] of stopWhen.entries()) {
    const name = condition.name === '' ? `stopWhen[${index}]` : condition.name;
    if (await holds(condition, finished, name, live))
      return { reason: 'stop', detail: `The stop condition ${name} held after step ${step}.` };
  }
  return undefined;
}

async function holds(
  condition: StopCondition,
  step: FinishedStep,
  name: string,
  live: LiveRun,
): Promise<boolean> {
  const { toolCallMs: ms } = live.plan.execution.limits;
  const link = linkSignal(live.signal, {
    ms,
    message: `The stop condition ${name} did not answer within ${ms} ms.`,
  });
  try {
    // so that what it throws at once is a rejection like any
    const asking = Promise.resolve(step).then(condition);
    const answer = await untilAborted<unknown>(asking, link.signal);
    if (typeof answer !== 'boolean')
      throw new TypeError(`It answered with ${typeof answer}, not with true or false.`);
    return answer;
  } catch (error) {
    if (live.signal.aborted) throw error;
    throw new RunFault('stop_condition', `The stop condition ${name} failed.`, { cause: error });
  } finally {
    link.release();
  }
}
