import type { LoopEventBody } from '../protocol/loop-event.js';
import type { Audience, ProjectionObserver, Tool } from '../protocol/tool.js';
import { ProjectionError } from '../schema/projection.error.js';
import type { CallProgress } from './execution.scope.js';

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
