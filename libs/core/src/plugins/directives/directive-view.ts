import type { DirectiveView, ToolFailure } from '@toolloop/protocol';
import type { DirectiveRecord } from '../../contracts/directive.js';

/** Shows a directive as people may see it, and nothing of what it is bound to. */
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
