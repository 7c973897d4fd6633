import type { Toolset } from '../catalog/toolset.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { RunPlan } from './run.plan.js';

/** What a run tells of itself before anything else. */
export function startEvent({ model, conversation, execution, within }: RunPlan, toolset: Toolset): LoopEventBody {
  const tools = toolset.specs.map(({ id }) => id);
  return {
    type: 'run-start',
    requestId: execution.requestId,
    ...(conversation && { conversationId: conversation.conversationId }),
    model: model.modelId,
    tools,
    ...(within && { within: { runId: within.live.plan.execution.run.runId, toolCallId: within.toolCallId, tool: within.tool } }),
  };
}
