import { CallFailure } from '../../call/call-failure.js';
import type { DirectiveRecord } from '../../contracts/directive.js';
import type { ToolDirective } from '../../contracts/tool.js';

/**
 * Why asking again comes to nothing, and what helps; undefined of one that is performed yet, or
 * was. `decider` begins a sentence.
 */
export function refusalOf(
  { intent, task, status, failure }: DirectiveRecord,
  decider: string,
): CallFailure | undefined {
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
      return CallFailure.of(
        'execution_failed',
        `This was performed before and undone, so it is not performed again. ${isNotAsked}`,
      );
    case 'unknown_outcome':
      return CallFailure.of(
        'unknown_outcome',
        `This was begun before and it is unknown whether its effect took place. ${isNotAsked} ${decider} has to check and say so.`,
      );
  }
}

export function conflictText(
  { intent, status }: DirectiveRecord,
  directive: ToolDirective,
): string {
  if (!directive.keyOf)
    return `This request already asked for "${intent.subject}" with other arguments, or for another actor, so nothing was asked for now.`;
  return `This was already asked for with other arguments (${intent.directiveId}, ${status}), so nothing was asked for now. Look at that one first.`;
}
