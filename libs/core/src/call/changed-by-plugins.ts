import type { CallHooks } from '../plugin/call-hooks.js';
import type { ResultChange } from '../plugin/call-points.js';
import { hadEffect } from '../plugins/sub-runs/changed-records.js';
import { cut } from '../plugins/pages/result-pages.js';
import { answerLost } from './call-failure.js';
import type { Call, ReadCall } from './call.js';
import type { ToolOutcome } from './outcome.js';

/**
 * Returns the hook that changes what is read of a call: that of the plugins which its tool
 * concerns, or, of a part of an earlier result, those which the tool of that concerns.
 */
export function resultHookOf({ hooks, shownTool, scope }: Call): ResultHook | undefined {
  const { result } = shownTool ? scope.plugins.hooksFor(shownTool) : hooks;
  return (
    result && ((call, outcome) => result(shownTool ? { ...call, tool: shownTool } : call, outcome))
  );
}

/**
 * Returns an outcome as the plugins have it read.
 *
 * @throws {Error} if one of them failed, so that nothing of the result may be read
 */
export async function changedByPlugins(
  call: Call,
  outcome: ToolOutcome,
  ask: ResultHook,
): Promise<ToolOutcome> {
  if (outcome.isPending) return outcome;
  try {
    const change = await ask(call, outcome);
    return change ? withChange(call, outcome, change) : outcome;
  } catch (error) {
    throw isRead(call) && hadEffect(call) && !outcome.record.error ? answerLost(error) : error;
  }
}

/** The compiled hook that changes what is read of an outcome. */
export type ResultHook = NonNullable<CallHooks['result']>;

/**
 * The entities of a result that was changed are not told: their names would tell of it. Changed
 * content may hold any text of the result, also one that was hidden from the model, so it is from
 * outside unless all that the tool returns is the application's.
 */
function withChange(
  call: Call,
  { hinted: _hinted, ...outcome }: ToolOutcome,
  { content, result, isFromOutside }: ResultChange,
): ToolOutcome {
  const { resultBytes } = call.limits ?? call.run.limits;
  const isTrusted = content === undefined || outcome.tool?.spec.labels.returns === 'trusted';
  return {
    ...outcome,
    ...(content !== undefined && {
      content: typeof content === 'string' ? cut(content, resultBytes) : content,
    }),
    ...(result !== undefined && { record: { ...outcome.record, result } }),
    ...((isFromOutside || !isTrusted) && labelsFromOutside(outcome)),
  };
}

function labelsFromOutside({ labels, tool }: Pick<ToolOutcome, 'labels' | 'tool'>) {
  const { reads = 'private' } = labels ?? tool?.spec.labels ?? {};
  return { labels: { returns: 'untrusted', reads } as const };
}

function isRead(call: Call): call is ReadCall {
  return call.tool !== undefined && call.input !== undefined;
}
