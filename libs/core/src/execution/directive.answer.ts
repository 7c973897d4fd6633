import type { DirectiveRecord, DirectiveRequest } from '../protocol/directive.js';
import type { JsonObject } from '../protocol/json.js';
import type { ToolDirective } from '../protocol/tool.js';
import { toJson } from '../schema/from-value.js';
import { CallFailure } from './call.failure.js';

/** What a run's events tell of it. */
export function requestOf({ intent, status }: DirectiveRecord, toolCallId: string): DirectiveRequest {
  const { directiveId, type, subject, preview } = intent;
  return { directiveId, toolCallId, type, subject, status, ...(preview && { preview }) };
}

/** The answer of the blueprint: what was asked for, and that it has not happened yet. */
export function answerOf({ intent, status }: DirectiveRecord): JsonObject {
  const { directiveId, type, subject, preview } = intent;
  const shown = preview && {
    sentence: preview.sentence,
    ...(preview.changes && { changes: toJson(preview.changes) }),
  };
  return {
    ok: true,
    type: `${type}.requested`,
    result: { directive_id: directiveId, status, ...(shown && { preview: shown }), subject },
    human_readable: sentenceFor(status, preview?.sentence ?? `${type} for ${subject}`),
  };
}

/** Why asking again comes to nothing, and what helps; undefined of one that is performed yet, or was. `decider` begins a sentence. */
export function refusalOf({ intent, task, status, failure }: DirectiveRecord, decider: string): CallFailure | undefined {
  const why = failure ? ` ${failure.safeMessage}` : '';
  const isNotAsked = `Nothing was requested now (${intent.directiveId}).`;
  switch (status) {
    case 'pending':
    case 'performing':
    case 'succeeded':
      return undefined;
    case 'dead':
      return CallFailure.of(
        'execution_failed',
        `${task === 'perform' ? 'This was asked for before and failed for good' : 'This was performed before, and undoing it failed for good'}.${why} ` +
          `${isNotAsked} ${decider} can have that tried again.`,
      );
    case 'cancelled':
      return CallFailure.of(
        'execution_failed',
        `This was requested before and cancelled. ${isNotAsked} ${decider} can still have it performed.`,
      );
    case 'compensated':
      return CallFailure.of('execution_failed', `This was performed before and undone, so it is not performed again. ${isNotAsked}`);
    case 'unknown_outcome':
      return CallFailure.of(
        'unknown_outcome',
        `This was begun before and it is unknown whether its effect took place. ${isNotAsked} ${decider} has to check and say so.`,
      );
  }
}

export function conflictText({ intent, status }: DirectiveRecord, directive: ToolDirective): string {
  if (!directive.keyOf)
    return `This request already asked for "${intent.subject}" with other arguments, or for somebody else, so nothing was asked for now.`;
  return `This was already asked for with other arguments (${intent.directiveId}, ${status}), so nothing was asked for now. Look at that one first.`;
}

function sentenceFor(status: DirectiveRecord['status'], what: string): string {
  if (status === 'pending' || status === 'performing') return `Requested: ${what}. It is performed later, once; it has not happened yet.`;
  return `This was requested before: ${what}. Its status is ${status}.`;
}
