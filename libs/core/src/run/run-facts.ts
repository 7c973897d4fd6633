import { nameOfModel } from '../models/model-name.js';
import type { RunFacts } from '../plugin/run-view.js';
import { identityOf, type RunPlan } from './run-plan.js';

/** Returns the facts of a run that its plugins see. */
export function factsOf(plan: RunPlan, signal: AbortSignal): RunFacts {
  const { execution, conversation, within, model, options, isOneCall } = plan;
  const { run: context, requestId, vouchedFor, limits } = execution;
  return {
    ...identityOf(plan),
    context,
    requestId,
    vouchedFor,
    conversationId: conversation?.conversationId,
    model: isOneCall ? undefined : nameOfModel(model),
    within: within && {
      runId: within.live.plan.execution.run.runId,
      toolCallId: within.toolCallId,
      tool: within.tool,
    },
    askedFrom: plan.queued?.trace,
    queuedMs: plan.queued?.forMs,
    mode: options.rehearse ? 'dry' : 'live',
    approvals: options.approvals ?? 'suspend',
    limits,
    options: plan.given,
    signal,
  };
}
