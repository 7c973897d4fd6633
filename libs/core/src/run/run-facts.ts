import { nameOf } from '../loop/answer-display.js';
import type { RunFacts } from '../plugin/run-view.js';
import { identityOf, type RunPlan, type RunStart } from './run-plan.js';

/** Returns the facts of a run that its plugins see. */
export function factsOf(plan: RunPlan, { resumed }: RunStart, signal: AbortSignal): RunFacts {
  const { execution, conversation, within, model, options, isOneCall } = plan;
  const { run: context, requestId, vouchedFor, limits } = execution;
  return {
    ...identityOf(plan),
    context,
    requestId,
    vouchedFor,
    conversationId: conversation?.conversationId,
    model: isOneCall ? undefined : nameOf(model),
    within: within && {
      runId: within.live.plan.execution.run.runId,
      toolCallId: within.toolCallId,
    },
    resumedFrom: resumed?.saved.trace ?? plan.queued?.trace,
    queuedMs: plan.queued?.forMs,
    mode: options.rehearse ? 'dry' : 'live',
    limits,
    options: plan.given,
    signal,
  };
}
