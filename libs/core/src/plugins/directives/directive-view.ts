import type {
  DirectiveStatus,
  JsonObject,
  JsonValue,
  ToolFailure,
  ToolPreview,
} from '@toolloop/protocol';
import type { DirectiveRecord, DirectiveTask } from '../../contracts/directive.js';

/** A directive as people may see it: the ui projection, and nothing of what it is bound to. */
export interface DirectiveView {
  readonly directiveId: string;
  readonly type: string;
  readonly subject: string;
  /** The present or last task. */
  readonly task: DirectiveTask;
  readonly status: DirectiveStatus;
  readonly declaredId: string;
  readonly args: JsonObject;
  readonly preview?: ToolPreview;
  /** The actor who asked. */
  readonly requestedBy: string;
  readonly runId: string;
  readonly toolCallId: string;
  readonly correlationId: string;
  readonly attempts: number;
  readonly result?: JsonValue;
  readonly failure?: Pick<ToolFailure, 'code' | 'safeMessage' | 'correlationId'>;
  /** ISO 8601, UTC; so are the others. */
  readonly createdAt: string;
  readonly updatedAt: string;
  /** The time to perform a pending one. */
  readonly dueAt?: string;
}

export function toDirectiveView({
  intent,
  task,
  status,
  attempts,
  result,
  failure,
  updatedAt,
  dueAt,
}: DirectiveRecord): DirectiveView {
  const {
    directiveId,
    type,
    subject,
    call,
    shownArgs,
    preview,
    authority,
    correlationId,
    createdAt,
  } = intent;
  return {
    directiveId,
    type,
    subject,
    task,
    status,
    declaredId: call.declaredId,
    args: shownArgs,
    ...(preview && { preview }),
    requestedBy: authority.actorId,
    runId: call.runId,
    toolCallId: call.toolCallId,
    correlationId,
    attempts,
    ...(result !== undefined && { result }),
    ...(failure && { failure: toShownFailure(failure) }),
    createdAt,
    updatedAt,
    ...(dueAt !== undefined && { dueAt }),
  };
}

function toShownFailure({
  code,
  safeMessage,
  correlationId,
}: ToolFailure): NonNullable<DirectiveView['failure']> {
  return { code, safeMessage, ...(correlationId !== undefined && { correlationId }) };
}
