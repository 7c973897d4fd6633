import { withoutAttachments } from '../contracts/attachment.js';
import type { ResultProjector } from '../contracts/result-projector.js';
import { Logger } from '../findings/logger.js';
import { discreet } from '../plugins/connections/discreet.js';
import type { ReadCall } from './call.js';
import { RedactionError, projected } from './result-describer.js';

/**
 * The progress values of a running tool. Once the call is over none is shown, however long the tool
 * runs.
 */
export class ProgressReport {
  isOver = false;
  /** Ends the transaction of the call; absent until it has begun one. */
  whenOver: (() => void) | undefined;
  private hasWarned = false;

  constructor(
    private readonly call: ReadCall,
    private readonly logger: Logger,
  ) {}

  /**
   * A value that may not be shown is left out, and the first of them is a warning: it is no reason
   * to fail the call.
   */
  async show(value: unknown, projector: ResultProjector): Promise<void> {
    if (this.isOver) return;
    const { request, scope, credentials } = this.call;
    const { toolCallId, name } = request.call;
    try {
      const projection = projected({ output: projector }, withoutAttachments(value), 'ui');
      const shown = credentials?.json(projection) ?? projection;
      await scope.emit({
        type: 'tool-progress',
        step: request.step,
        toolCallId,
        tool: name,
        value: shown,
      });
    } catch (error) {
      this.logger.warn(
        `A progress value of ${name} cannot be shown (run ${scope.run.runId}).`,
        discreet(error, this.call),
      );
      await this.warn(error);
    }
  }

  private async warn(error: unknown): Promise<void> {
    if (this.hasWarned || !(error instanceof RedactionError)) return;
    this.hasWarned = true;
    await this.call.scope.emit(error.warning(this.call));
  }

  /** For what a tool may do only while it runs. */
  assertRunning(): void {
    if (this.isOver) throw new Error(`The call ${this.call.request.call.toolCallId} is over.`);
  }
}

/** Called with every value of a streaming result but the last. Never throws. */
export type OnProgress = (value: unknown) => Promise<void>;
