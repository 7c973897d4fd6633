import type { Logger } from '@nestjs/common';
import type { Audience, LoopEventBody } from '@toolloop/protocol';
import { withoutAttachments } from '../contracts/tool-call.js';
import type { ProjectionObserver, ResultProjector, Tool } from '../contracts/tool.js';
import { ProjectionError } from '../schema/reveal.js';
import type { CallProgress } from './call.js';
import { discreet } from './credentials.js';

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

/** Thrown where a value could not be projected for somebody: nothing of it leaves, and whoever watches the run is told where it failed. */
export class RedactionError extends Error {
  override readonly name = 'RedactionError';

  constructor(
    readonly audience: Audience,
    options: { readonly cause: unknown },
  ) {
    super(options.cause instanceof ProjectionError ? options.cause.message : 'the projection failed', options);
  }

  /** Names what is declared, and nothing that is data. */
  warning({ spec }: Tool, { request }: CallProgress): LoopEventBody {
    const { cause, audience } = this;
    const place = cause instanceof ProjectionError && cause.declaredPath !== '' ? ` at "${cause.declaredPath}"` : '';
    const message = `The result of ${spec.declaredId} could not be redacted for ${audience}${place}, so it is not shown.`;
    return { type: 'warning', step: request.step, code: 'redaction_failed', message };
  }
}

/** What one audience may see of a value. Throws `RedactionError`. */
export function projected(
  tool: Pick<Tool, 'output'>,
  value: unknown,
  audience: Audience,
  shown?: ProjectionObserver,
): ReturnType<Tool['output']['project']> {
  try {
    return tool.output.project(value, audience, shown);
  } catch (cause) {
    throw new RedactionError(audience, { cause });
  }
}
