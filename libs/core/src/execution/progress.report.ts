import type { Logger } from '@nestjs/common';
import { withoutAttachments } from '../protocol/attachment.js';
import type { ResultProjector } from '../protocol/tool.js';
import { discreet } from './call.credentials.js';
import type { CallProgress } from './execution.scope.js';
import { RedactionError, projected } from './redaction.error.js';

/** What a running tool lets others see before it has answered. Once the call is over it says nothing more, however long the tool goes on. */
export class ProgressReport {
  private isOver = false;
  private hasWarned = false;

  constructor(
    private readonly progress: CallProgress,
    private readonly logger: Logger,
  ) {}

  /** A value that may not be shown is left out, and the first of them told: it is no reason to fail a call that goes on. */
  show(value: unknown, projector: ResultProjector): void | Promise<void> {
    if (this.isOver) return;
    const { request, scope } = this.progress;
    const { toolCallId, name } = request.call;
    try {
      const projection = projected({ output: projector }, withoutAttachments(value), 'ui');
      const shown = this.progress.credentials?.json(projection) ?? projection;
      return scope.emit({ type: 'tool-progress', step: request.step, toolCallId, tool: name, value: shown });
    } catch (error) {
      this.logger.warn(`A progress value of ${name} cannot be shown (run ${scope.run.runId}).`, discreet(error, this.progress));
      return this.warn(error);
    }
  }

  private warn(error: unknown): void | Promise<void> {
    const { tool, scope } = this.progress;
    if (this.hasWarned || !tool || !(error instanceof RedactionError)) return;
    this.hasWarned = true;
    return scope.emit(error.warning(tool, this.progress));
  }

  end(): void {
    this.isOver = true;
  }

  /** For what a tool may do only while it runs. */
  assertRunning(): void {
    if (this.isOver) throw new Error(`The call ${this.progress.request.call.toolCallId} is over.`);
  }
}
