import type { ToolFailure } from '@toolloop/protocol';
import { CallFailure } from '../../call/call-failure.js';
import { advance, type AuthorisedCall } from '../../call/call.js';
import { idempotencyKeyOf } from '../../call/idempotency-key.js';
import { CallPending, CallWaitsElsewhere } from '../../call/outcome.js';
import { shownArguments } from '../../call/shown-arguments.js';
import type { PendingAnswer, PendingOf } from '../../contracts/pending.js';
import type { ClientSide, Tool } from '../../contracts/tool.js';
import {
  bindingOf,
  idFor,
  timesOf,
  unaskableReason,
  waitingCallOf,
} from '../approvals/approval-question.js';
import { Asking } from '../approvals/asking.js';
import { isExpired } from '../inbox/pending.service.js';

/**
 * Has clients make calls, and takes their results. A call is sent out once it is let in, and its
 * result is used where a method would have been called.
 */
export class ClientCalls extends Asking {
  /**
   * Puts the result of the client in the place of the tool's method; false where it came while the
   * run waited: then the call has to be let in anew.
   *
   * @throws {CallFailure} `timeout` or `unknown_outcome` where none came in time,
   *   `execution_failed` where the client made no call, `aborted` where it was withdrawn.
   * @throws {CallPending} Where the run waits for the client.
   */
  async answer(call: AuthorisedCall, side: ClientSide): Promise<boolean> {
    const { scope, request, charge } = call;
    if (request.isDeferred) throw new CallPending();
    if (unaskableReason(scope) !== undefined) throw CallFailure.of('execution_failed', UNASKABLE);
    const record = await this.ask(call, side).catch((error: unknown) => {
      if (charge && error instanceof CallWaitsElsewhere) scope.spending.takeBack(charge);
      throw error;
    });
    if (record.answer) {
      await this.take(record, record.answer, call);
      return true;
    }
    scope.approvals.letIn(request.call.toolCallId);
    if (isExpired(record)) throw new CallFailure(expired(call.tool));
    if (charge) scope.spending.takeBack(charge); // it is counted when it has its result
    if (!(await this.answered(record, call))) throw new CallFailure(expired(call.tool));
    return false;
  }

  /**
   * Asks once. What a call changes is asked for by its idempotency key, so that a repeated request
   * waits for the same answer; of a read, each run asks for its own.
   */
  private ask(
    call: AuthorisedCall,
    { resultSchema, expiresAfterMs }: ClientSide,
  ): Promise<PendingOf<'client'>> {
    const { tool, input, decision } = call;
    const { effect } = tool.spec;
    const binding = bindingOf(call, { policyVersion: decision?.policyVersion ?? '' });
    const {
      policyVersion: _version,
      toolCallId: _call,
      runId: _run,
      subRunId: _sub,
      ...what
    } = binding;
    const asked =
      effect === 'read_only'
        ? { binding: { ...binding, policyVersion: '' } }
        : { what, key: idempotencyKeyOf(call) };
    const idAfter = (before?: string): string =>
      idFor('cli', {
        ...asked,
        step: call.request.step,
        ...(before !== undefined && { after: before }),
      });
    return this.once('client', idAfter, async (id) => {
      await this.assertAskedFirst(call, binding);
      const times = timesOf(expiresAfterMs);
      return this.keep(call, {
        id,
        kind: 'client',
        request: {
          pendingId: id,
          ...waitingCallOf(call),
          effect,
          args: shownArguments(input.args, tool.input.hidden),
          ...(resultSchema && { resultSchema }),
          expiresAt: times.expiresAt,
        },
        binding,
        admitted: [],
        rule: 'client',
        ...(resultSchema && { schema: resultSchema }),
        ...times,
      });
    });
  }

  private async take(
    record: PendingOf<'client'>,
    answer: PendingAnswer,
    call: AuthorisedCall,
  ): Promise<void> {
    // The answer is this call's alone, and the journal keeps what it changes from counting twice.
    if (record.usedAt === undefined) {
      await this.tell(record, answer, call);
      await this.store.use(record.id);
    }
    const { decision, reason, value } = answer;
    if (decision === 'withdraw')
      throw CallFailure.of('aborted', worded('The actor of the run withdrew this call.', reason));
    if (decision !== 'answer')
      throw CallFailure.of(
        'execution_failed',
        worded('The client did not make this call.', reason),
      );
    advance(call, { tool: { ...call.tool, invoke: () => value } });
  }
}

const UNASKABLE =
  'The call was not made: it is made by a client, and this run asks no one. Answer without it.';

export function worded(what: string, reason: string | undefined): string {
  return reason === undefined ? what : `${what} It said: ${reason}`;
}

/** A client that was asked to change something may have done so and not said it. */
function expired({ spec }: Tool): ToolFailure {
  if (spec.effect === 'read_only')
    return {
      code: 'timeout',
      safeMessage: 'The client gave no result in time. Answer without it, or try again later.',
      retryable: true,
    };
  return {
    code: 'unknown_outcome',
    safeMessage:
      'The client gave no result in time. It is unknown whether it made the call. Do not repeat it; check first.',
  };
}
