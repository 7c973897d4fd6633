import { ToolError, type ToolPreview } from '@toolloop/protocol';
import type { CallContextFactory } from '../../call/call-context.js';
import { CallFailure, failureOf } from '../../call/call-failure.js';
import { inPlace, type ReadCall } from '../../call/call.js';
import { untilAborted } from '../../contracts/interruption.js';
import type { ToolCallContext } from '../../contracts/tool-call.js';
import { isRefusal, type ToolWord } from '../../contracts/tool.js';
import { Logger } from '../../findings/logger.js';
import { copyOf, shownPreview } from './shown-preview.js';

/** The tool's own words for what a call would do, for the person who approves it. */
export class CallPreview {
  private readonly logger = new Logger(CallPreview.name);

  constructor(private readonly contexts: CallContextFactory) {}

  /**
   * Makes the preview of a call, within the tool's time limit. A preview that fails is left out:
   * the approver still sees the arguments.
   *
   * @throws CallFailure `execution_failed` if the tool's directive requires the preview: then no
   *   one is asked about a call that would be refused
   */
  async of(call: ReadCall): Promise<ToolPreview | undefined> {
    const { tool, input, scope } = call;
    const { preview } = tool;
    if (!preview) return undefined;
    try {
      return shownPreview(await asked(call, this.contexts, preview), input.args, tool.input.hidden);
    } catch (error) {
      if (scope.signal.aborted) throw error;
      this.logger.warn(
        `The preview of ${tool.spec.declaredId} failed (run ${scope.run.runId}).`,
        error,
      );
      if (tool.directive?.preview === 'required') throw unshown(error);
      return undefined;
    }
  }
}

/**
 * Asks a tool about one call, within its time limit.
 *
 * @throws What its preflight throws, which is the failure of the call.
 */
export async function preflightOf(call: ReadCall, contexts: CallContextFactory): Promise<ToolWord> {
  const { preflight } = call.tool;
  if (!preflight) return true;
  const answer: unknown = await asked<unknown>(call, contexts, preflight);
  return isRefusal(answer) ? answer : answer === true;
}

/** Asks code of the application about a call before it is made, within the tool's time limit. */
export async function asked<Answer>(
  call: ReadCall,
  contexts: CallContextFactory,
  hook: (input: unknown, context: ToolCallContext) => Answer | Promise<Answer>,
): Promise<Answer> {
  const { context, close } = contexts.open(call);
  try {
    return await inPlace(call, () => {
      const asking = contexts.run(context, async () => hook(await copyOf(call), context));
      return untilAborted(asking, context.signal);
    });
  } finally {
    close();
  }
}

/** Returns the failure of a preview, in the tool's own words if it threw a `ToolError`. */
function unshown(cause: unknown): CallFailure {
  const told = 'What the call would do could not be shown, so it was not asked for.';
  const safeMessage = cause instanceof ToolError ? `${told} ${failureOf(cause).safeMessage}` : told;
  return new CallFailure({ code: 'execution_failed', safeMessage }, { cause });
}
