import { Injectable } from '@nestjs/common';
import type { ToolCall } from '@toolloop/protocol';
import type { Plugin } from '../../plugin/plugin.js';
import type { CallLimit, EndedStep, PlannedCall, PluginFinish } from '../../plugin/run-points.js';
import type { RunView } from '../../plugin/run-view.js';
import { memory } from '../../plugin/slot.js';
import { ToolLoopPlugin } from '../../plugin/tool-loop-plugin.decorator.js';
import { CallCounts } from './call-counts.js';
import { isRefusal } from './refusals.js';

/** The calls of a session are counted together, and those of a sub-run in the run around it too. */
const COUNTS = memory({
  name: 'repetition/counts',
  inherit: 'session',
  make: (run) => new CallCounts(run, run.facts.earlier?.()),
});

/** Ends runs that make no headway: the same call again and again, too many calls, or refusals. */
@Injectable()
@ToolLoopPlugin({ name: 'repetition', slots: [COUNTS] })
export class Repetition implements Plugin {
  open({ limits: { callsPerTool, identicalCalls, refusalsInARow } }: RunView): boolean {
    return Math.min(callsPerTool, identicalCalls, refusalsInARow) < Number.POSITIVE_INFINITY;
  }

  admit(calls: readonly PlannedCall[], run: RunView): readonly CallLimit[] {
    return calls.flatMap(({ index, call, tool }) => {
      const tooMany = countOfTool(tool?.spec.declaredId, call.name, run);
      const limit = countOfSame(call, run) ?? tooMany;
      return limit ? [{ index, ...limit }] : [];
    });
  }

  stepped({ records }: EndedStep, run: RunView): PluginFinish | undefined {
    const inARow = run.get(COUNTS).refused(records);
    const most = run.limits.refusalsInARow;
    const last = records.find((record, index) => isRefusal(record) && (inARow[index] ?? 0) >= most);
    return last && { reason: last.error?.code === 'unknown_tool' ? 'no_progress' : 'forbidden' };
  }
}

/** Counts a call of a tool, in the runs around as well. The innermost limit is the one told. */
function countOfTool(
  declaredId: string | undefined,
  name: string,
  run: RunView,
): Reached | undefined {
  const around = run.around && countOfTool(declaredId, name, run.around);
  const most = run.limits.callsPerTool;
  const isBeyond =
    most < Number.POSITIVE_INFINITY && run.get(COUNTS).ofTool(declaredId, name) > most;
  return isBeyond
    ? reached('max_calls', `This tool was called ${most} times already, which is the limit.`)
    : around;
}

function countOfSame(call: ToolCall, run: RunView): Reached | undefined {
  const most = run.limits.identicalCalls;
  if (most === Number.POSITIVE_INFINITY || run.get(COUNTS).same(call) <= most) return undefined;
  return reached(
    'no_progress',
    `This very call was made ${most} times already. Its result will not change.`,
  );
}

type Reached = Omit<CallLimit, 'index'>;

function reached(reason: PluginFinish['reason'], safeMessage: string): Reached {
  return { refusal: { code: 'budget_exceeded', safeMessage }, finish: { reason } };
}
