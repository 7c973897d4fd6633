import type { CallChange, Message, ToolInvocationRecord, ToolMessage } from '@toolloop/protocol';
import type { Tool } from '../../contracts/tool.js';
import { sha256 } from '../../schema/canonical-json.js';
import type { Call, ReadArguments, ReadCall } from '../../call/call.js';
import type { ToolOutcome } from '../../call/outcome.js';
import { changedRecords } from '../sub-runs/changed-records.js';

/**
 * The changes of an answer that has given way to this run's: they stand, and the same call is
 * answered with what it did then.
 */
export class StandingCalls {
  constructor(private readonly results: readonly StandingResult[]) {}

  /**
   * Finds the same call of the same tool, on the same instance, with arguments that read or mean
   * the same.
   */
  same({ tool, input }: ReadCall): StandingResult | undefined {
    const { declaredId } = tool.spec;
    const same = this.results.filter(
      ({ change }) =>
        change.declaredId === declaredId && change.instanceId === tool.entity?.instanceId,
    );
    if (same.length === 0) return undefined;
    const { argsHash, meaningHash = argsHash } = hashesOf(input);
    return same.findLast(
      ({ change }) =>
        change.argsHash === argsHash || (change.meaningHash ?? change.argsHash) === meaningHash,
    );
  }
}

/** A result of a call whose answer has given way to this run's. */
type StandingResult = ToolMessage & { readonly change: CallChange };

/** Tells whether a message is the result of a change that stands. */
export function isStanding(message: Message): message is StandingResult {
  return message.role === 'tool' && message.change?.stands === true;
}

/**
 * Returns the change that a call made, or may have made; undefined for one that changed nothing, or
 * was answered without being made.
 */
export function changeOf(
  { tool, input }: Call,
  { record, isPending }: ToolOutcome,
): CallChange | undefined {
  const isMade = !isPending && record.pendingId === undefined && record.rehearsal === undefined;
  if (!tool || !input || !isMade) return undefined;
  return changeIn(tool, input, changedRecords([record]));
}

function changeIn(
  tool: Tool,
  input: ReadArguments,
  changed: readonly ToolInvocationRecord[],
): CallChange | undefined {
  if (changed.length === 0) return undefined;
  const directiveIds = changed.flatMap(({ directiveId }) => directiveId ?? []);
  const instanceId = tool.entity?.instanceId;
  return {
    declaredId: tool.spec.declaredId,
    ...hashesOf(input),
    ...(instanceId !== undefined && { instanceId }),
    ...(directiveIds.length > 0 && { directiveIds }),
    ...(changed.every(isLater) && { isLater: true }),
  };
}

function isLater({ directiveId }: ToolInvocationRecord): boolean {
  return directiveId !== undefined;
}

/**
 * The hashes of arguments as they were read: a pipe that changes them may make something else of
 * what it has changed before.
 */
function hashesOf({
  beforePipes,
  ...read
}: ReadArguments): Pick<CallChange, 'argsHash' | 'meaningHash'> {
  const { canonical, meaning } = beforePipes ?? read;
  return {
    argsHash: sha256(canonical),
    ...(meaning !== undefined && { meaningHash: sha256(meaning) }),
  };
}
