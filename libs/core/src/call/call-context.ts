import { Injectable, Optional } from '@nestjs/common';
import { ToolError } from '@toolloop/protocol';
import { ConnectionBroker, type Credential } from '../contracts/connection-broker.js';
import type { ToolCallContext } from '../contracts/tool-call.js';
import { Logger } from '../findings/logger.js';
import { CallCredentials } from '../plugins/connections/call-credentials.js';
import { discreetLogger } from '../plugins/connections/discreet.js';
import { PendingError } from '../plugins/inbox/pending-error.js';
import { PendingService } from '../plugins/inbox/pending.service.js';
import { decide, subjectOf } from '../policy/decide.js';
import { type CallUnderWay, DataPolicyEngine } from '../policy/policy-engine.js';
import { compileReveal } from '../schema/reveal.js';
import { BoundedStores } from './bounded-stores.js';
import { CallFailure } from './call-failure.js';
import { ToolCallStorage } from './call-storage.js';
import { advance, type ReadCall } from './call.js';
import { idempotencyKeyOf, journalKeyOf } from './idempotency-key.js';
import { Interruption, linkSignal, untilAborted } from '../contracts/interruption.js';
import { ProgressReport } from './progress-report.js';
import { deniedToolMessage } from './resolve-tool.js';

/** Makes the context in which a tool, its guards and its interceptors run. */
@Injectable()
export class CallContextFactory {
  private readonly logger = new Logger('ToolCall');
  private readonly anything = compileReveal('all');

  constructor(
    private readonly stores: BoundedStores,
    private readonly storage: ToolCallStorage,
    private readonly inForce: DataPolicyEngine,
    private readonly pending: PendingService,
    @Optional() private readonly broker?: ConnectionBroker,
  ) {}

  /** The context's signal is aborted with the run, or when the tool's time is up. */
  open(call: ReadCall, ask: ToolCallContext['ask'] = refuseQuestion): OpenContext {
    const { request, scope, limits } = call;
    const { toolCallMs: ms } = limits;
    const mayTellSecrets = this.broker !== undefined || withItsSecrets(call);
    const stoppable = stoppableCall(call, () => link.abort(new Interruption('aborted', STOPPED)));
    const report = new ProgressReport(call, this.logger);
    const transaction = this.transactionFor(call, report, () => link.signal);
    const idempotencyKey = idempotencyKeyOf(call);
    const link = linkSignal(scope.signal, {
      ms,
      message: `The tool did not answer within ${ms} ms.`,
    });
    if (stoppable) this.inForce.underWay.add(stoppable);
    const context: ToolCallContext = {
      ...scope.run,
      step: request.step,
      toolCallId: request.call.toolCallId,
      signal: link.signal,
      deadline: new Date(Math.min(Date.now() + ms, END_OF_TIME)),
      idempotencyKey,
      logger: mayTellSecrets ? discreetLogger(this.logger, call) : this.logger,
      progress: (value) => void report.show(value, this.anything),
      ask,
      withdraw: (id, reason) => this.withdraw(id, call, { report, reason }),
      ...(transaction && { transaction }),
      connection: (id) => this.connect(id, call, { report, context }),
    };
    const close = (): void => {
      report.isOver = true;
      report.whenOver?.();
      if (stoppable) this.inForce.underWay.delete(stoppable);
      link.release();
    };
    return { context, report, close };
  }

  /**
   * Refuses a call that an operator has stopped since it was let in. @throws {CallFailure}
   * `policy_denied`, or for a directive `aborted`: it is put off
   */
  assertNotStopped(call: ReadCall): void {
    const { tool, scope } = call;
    const decision = this.inForce.stopRuling(subjectOf(tool, scope.actor));
    if (decision && scope.performing) throw CallFailure.of('aborted', STOPPED);
    if (decision)
      throw CallFailure.of('policy_denied', deniedToolMessage(advance(call, { decision })));
  }

  /** Runs code of the application inside AsyncLocalStorage. */
  run<Result>(context: ToolCallContext, callback: () => Result): Result {
    return this.storage.run(context, callback);
  }

  /**
   * A call that is over has been told its outcome, so it is not done any more: what it did is
   * rolled back, though it may still be at work. Others wait for what it has locked.
   */
  private transactionFor(
    call: ReadCall,
    report: ProgressReport,
    signal: () => AbortSignal,
  ): ToolCallContext['transaction'] {
    const transactions = this.stores.transactions;
    if (!transactions || call.tool.spec.effect === 'read_only') return undefined;
    return async (work) => {
      report.assertRunning();
      if (report.whenOver)
        throw new Error(
          'A call has only one transaction, by which it is recognized later. Do everything in it.',
        );
      const over = linkSignal(signal());
      report.whenOver = () => over.abort(new Interruption('aborted', OVER));
      const whole = async (): Promise<Awaited<ReturnType<typeof work>>> => {
        const result = await untilAborted(Promise.resolve().then(work), over.signal);
        report.assertRunning();
        return result;
      };
      const once = (): ReturnType<typeof whole> =>
        transactions.once(journalKeyOf(call), whole, over.signal);
      return (call.scope.rehearsal ? transactions.unmarked(whole) : once()).finally(() =>
        over.release(),
      );
    };
  }

  /** Asked too late, or answered too late, it hands out nothing. */
  private async connect(
    id: string,
    call: ReadCall,
    { report, context }: Pick<OpenContext, 'report' | 'context'>,
  ): Promise<Credential> {
    report.assertRunning();
    const { tool, scope } = call;
    const { kind, reason } = decide(scope.policies, {
      ...subjectOf(tool, scope.actor),
      connection: id,
    });
    if (kind === 'deny') throw CallFailure.of('forbidden', reason);
    const credential = await this.brokerFor(id).resolve(id, context);
    report.assertRunning();
    const { credentials } = advance(call, {
      credentials: call.credentials ?? new CallCredentials(),
    });
    return credentials.handOut(credential, () => report.assertRunning());
  }

  /**
   * Withdraws in the name of the actor, as long as only they and the application can have said so.
   */
  private async withdraw(
    id: string,
    { scope: { conversation, flow, run } }: ReadCall,
    { report, reason }: Pick<OpenContext, 'report'> & { readonly reason: string | undefined },
  ): Promise<void> {
    report.assertRunning();
    if (conversation === undefined)
      throw new ToolError('There is no conversation, so nothing of it waits.');
    if (flow.integrity !== 'trusted') throw new ToolError(MAY_BE_TOLD);
    await this.pending.withdrawIn(conversation, { id, reason }, run).catch((error: unknown) => {
      throw error instanceof PendingError ? new ToolError(error.message) : error;
    });
  }

  private brokerFor(id: string): ConnectionBroker {
    if (this.broker) return this.broker;
    throw new Error(
      `The tool asked for the connection "${id}" but no ConnectionBroker is provided. Provide one in ToolLoopModule.forRoot({ providers }).`,
    );
  }
}

/**
 * A call's context while code of the application runs in it. Close it when that code is done, or
 * out of time.
 */
export interface OpenContext {
  readonly context: ToolCallContext;
  readonly report: ProgressReport;
  readonly close: () => void;
}

/** Hides the texts that go out with each call of a tool; false where there are none. */
function withItsSecrets(call: ReadCall): boolean {
  const { secrets } = call.tool;
  if (!secrets) return false;
  const credentials = call.credentials ?? new CallCredentials();
  credentials.hideAll(secrets);
  advance(call, { credentials });
  return true;
}

const OVER =
  'The call is over, and with it its transaction. Await the transaction in the method of the tool.';

const refuseQuestion = (): Promise<never> =>
  Promise.reject(new Error('Only the method of a tool can ask a question.'));

const MAY_BE_TOLD =
  'This conversation has read what others wrote, who may want this withdrawn. Only the user withdraws it, in the client: tell them so.';

const STOPPED = 'An operator has stopped the tool.';

/**
 * A read that an operator stops is broken off. What changes things ends as it would: no one knows
 * how far it has come.
 */
function stoppableCall({ tool, scope }: ReadCall, interrupt: () => void): CallUnderWay | undefined {
  const { declaredId, effect } = tool.spec;
  return effect === 'read_only'
    ? { subject: { declaredId, origin: tool.origin, actor: scope.actor }, interrupt }
    : undefined;
}

/** The last moment that a Date can tell. */
const END_OF_TIME = 8.64e15;
