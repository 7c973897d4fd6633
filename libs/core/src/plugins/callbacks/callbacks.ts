import { Inject, Injectable } from '@nestjs/common';
import { timestampOfNow } from '@toolloop/protocol';
import type { LoopHooks } from '../../contracts/hooks.js';
import type {
  CallOutcome,
  CheckedCall,
  OpenedCall,
  StartedCall,
} from '../../plugin/call-points.js';
import type { Plugin } from '../../plugin/plugin.js';
import type { EndedStep } from '../../plugin/run-points.js';
import type { RunView } from '../../plugin/run-view.js';
import { memory } from '../../plugin/slot.js';
import { ToolLoopPlugin } from '../../plugin/tool-loop-plugin.decorator.js';
import { TOOL_LOOP_OPTIONS, type ToolLoopOptions } from '../../run/loop-options.js';
import { ToldHooks } from './told-hooks.js';

/** One for a run and its sub-runs: what a hook fails with is logged once for all of them. */
const TOLD = memory({
  name: 'callbacks/told',
  inherit: 'share',
  make: ({ runId }) => new ToldHooks(runId),
});

/**
 * Tells the hooks of the application, of its loops and of its requests what happens. They only
 * observe.
 */
@Injectable()
@ToolLoopPlugin({ name: 'callbacks', before: ['audit'], slots: [TOLD] })
export class Callbacks implements Plugin {
  constructor(@Inject(TOOL_LOOP_OPTIONS) private readonly options: ToolLoopOptions) {}

  open(run: RunView): boolean {
    return this.hooksIn(run).length > 0;
  }

  started(call: StartedCall): void {
    if (!call.isContinued) call.run.get(TOLD).started(this.hooksIn(call.run), call);
  }

  concluded(call: OpenedCall, { record }: CallOutcome): void {
    if (hasBegun(call)) call.run.get(TOLD).ended(this.hooksIn(call.run), call, record);
  }

  stepped({ step, records, offered, messageCount, usage }: EndedStep, run: RunView): void {
    const iteration = {
      runId: run.runId,
      step,
      timestamp: timestampOfNow(),
      messageCount,
      toolCalls: records,
      tools: offered,
      usage,
    };
    run.get(TOLD).iterated(this.hooksIn(run), iteration, run.facts.context);
  }

  private hooksIn({ facts }: RunView): readonly LoopHooks[] {
    const own = this.options.hooks;
    const { hooks = [] } = facts.options;
    return own ? [own, ...hooks] : hooks;
  }
}

/** Returns whether a call was begun: by this process, or as a sub-run that has waited since. */
function hasBegun(call: OpenedCall): call is CheckedCall {
  const { request, tool, input, isContinued } = call;
  return (
    tool !== undefined &&
    input !== undefined &&
    (isContinued !== undefined || request.checkpoint !== undefined)
  );
}

declare module '../../plugin/run-view.js' {
  interface PluginRunOptions {
    readonly hooks: readonly LoopHooks[];
  }
}
