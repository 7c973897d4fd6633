import { Injectable, Logger } from '@nestjs/common';
import type { ToolPreview } from '../protocol/approval.js';
import { ToolError } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import { readInput, type ReadArguments } from './argument.reader.js';
import { CallFailure, failureOf } from './call.failure.js';
import { CallContextFactory } from './call.context.factory.js';
import type { CallProgress } from './execution.scope.js';
import { fromCanonical } from './from-arguments.js';
import { untilAborted } from './interruption.js';
import { shownPreview } from './shown-preview.js';
import { ToolCallStorage } from './tool-call.storage.js';

/** What a call would do, in the tool's own words, for whoever approves it. */
@Injectable()
export class CallPreview {
  private readonly logger = new Logger(CallPreview.name);

  constructor(
    private readonly contexts: CallContextFactory,
    private readonly storage: ToolCallStorage,
  ) {}

  /**
   * Within the tool's time limit. A preview that fails is left out: the approver still sees the arguments. Throws `execution_failed` where the tool's directive
   * requires it: then nobody is asked about what would be refused afterwards.
   */
  async of(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<ToolPreview | undefined> {
    const { preview } = tool;
    if (!preview) return undefined;
    const { context, close } = this.contexts.open(tool, progress);
    try {
      const making = this.storage.run(context, async () => preview(await copyOf(tool, input, progress), context));
      return shownPreview(await untilAborted(making, context.signal), input.args, tool.input.hidden);
    } catch (error) {
      if (progress.scope.signal.aborted) throw error;
      this.logger.warn(`The preview of ${tool.spec.declaredId} failed (run ${progress.scope.run.runId}).`, error);
      if (tool.directive?.preview === 'required') throw unshown(error);
      return undefined;
    } finally {
      close();
    }
  }
}

/** What the tool said on purpose is for the model. */
function unshown(cause: unknown): CallFailure {
  const told = 'What the call would do could not be shown, so it was not asked for.';
  const safeMessage = cause instanceof ToolError ? `${told} ${failureOf(cause).safeMessage}` : told;
  return new CallFailure({ code: 'execution_failed', safeMessage }, { cause });
}

/** What is shown must not change what is approved: a preview is handed an input of its own. */
async function copyOf({ input }: Tool, { canonical }: ReadArguments, { options }: CallProgress): Promise<unknown> {
  const reading = await readInput(input, fromCanonical(canonical), { ...options, validation: false });
  if ('value' in reading) return reading.value;
  throw new TypeError('The input could not be rebuilt for its preview.');
}
