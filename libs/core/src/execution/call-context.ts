import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { Injectable, Optional } from '@nestjs/common';
import { ToolError } from '@toolloop/protocol';
import type { JournalKey } from '../contracts/stores.js';
import {
  ConnectionBroker,
  type Credential,
  Secret,
  type ToolCallContext,
  withoutAttachments,
} from '../contracts/tool-call.js';
import type { ResultProjector, Tool } from '../contracts/tool.js';
import { Logger } from '../findings/logger.js';
import { PendingError } from '../pending/pending-reply.js';
import { PendingService } from '../pending/pending.service.js';
import { type CallUnderWay, DataPolicyEngine, decide, subjectOf } from '../policy/policy-engine.js';
import { compileReveal } from '../schema/reveal.js';
import { BoundedStores } from './bounded-stores.js';
import {
  CallFailure,
  Interruption,
  linkSignal,
  unexplained,
  untilAborted,
} from './call-failure.js';
import { advance, type Call, type ExecutionScope, type ReadCall } from './call.js';
import { CallCredentials, discreet, discreetLogger } from './credentials.js';
import { projected, RedactionError } from './describe.js';
import { deniedToolMessage } from './resolve-tool.js';

/** Hides the texts that go out with each call of a tool; false where there are none. */
function withItsSecrets(call: ReadCall): boolean {
  const { secrets } = call.tool;
  if (!secrets) return false;
  const credentials = call.credentials ?? new CallCredentials();
  credentials.hideAll(secrets);
  advance(call, { credentials });
  return true;
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

/** The tool call that the current code runs in, for code too deep to be handed the context. */
@Injectable()
export class ToolCallStorage {
  private readonly storage = new AsyncLocalStorage<ToolCallContext>();

  /** Undefined outside a tool call. */
  current(): ToolCallContext | undefined {
    return this.storage.getStore();
  }

  run<Result>(context: ToolCallContext, callback: () => Result): Result {
    return this.storage.run(context, callback);
  }
}

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

/**
 * The progress values of a running tool. Once the call is over none is shown, however long the tool
 * runs.
 */
export class ProgressReport {
  isOver = false;
  /** Ends the transaction of the call; absent until it has begun one. */
  whenOver: (() => void) | undefined;
  private hasWarned = false;

  constructor(
    private readonly call: ReadCall,
    private readonly logger: Logger,
  ) {}

  /**
   * A value that may not be shown is left out, and the first of them is a warning: it is no reason
   * to fail the call.
   */
  show(value: unknown, projector: ResultProjector): void | Promise<void> {
    if (this.isOver) return;
    const { request, scope, credentials } = this.call;
    const { toolCallId, name } = request.call;
    try {
      const projection = projected({ output: projector }, withoutAttachments(value), 'ui');
      const shown = credentials?.json(projection) ?? projection;
      return scope.emit({
        type: 'tool-progress',
        step: request.step,
        toolCallId,
        tool: name,
        value: shown,
      });
    } catch (error) {
      this.logger.warn(
        `A progress value of ${name} cannot be shown (run ${scope.run.runId}).`,
        discreet(error, this.call),
      );
      return this.warn(error);
    }
  }

  private warn(error: unknown): void | Promise<void> {
    if (this.hasWarned || !(error instanceof RedactionError)) return;
    this.hasWarned = true;
    return this.call.scope.emit(error.warning(this.call));
  }

  /** For what a tool may do only while it runs. */
  assertRunning(): void {
    if (this.isOver) throw new Error(`The call ${this.call.request.call.toolCallId} is over.`);
  }
}

const MOST_CHARACTERS = 512;
const SHOWN_SECRET = String(new Secret(undefined));

/**
 * The same for every attempt of a call: that of its directive, or what its tool declares, else its
 * place in the request, which is the same in every run of one request.
 */
export function idempotencyKeyOf({ request, scope, idempotencyKey }: Call): string {
  const { performing, actorId, requestId, callPath = [] } = scope;
  return (
    performing?.idempotencyKey ??
    idempotencyKey ??
    JSON.stringify([actorId ?? null, requestId, ...callPath, request.step, request.index])
  );
}

/**
 * Returns whether making a call again does no harm: it only reads, or its receiver recognises its
 * key.
 */
export function isRepeatable({ spec, idempotencyKey, idempotent = false }: Tool): boolean {
  return spec.effect === 'read_only' || idempotencyKey !== undefined || idempotent;
}

/** The call's key in the journal. */
export function journalKeyOf(call: Call): JournalKey {
  return { tenant: call.scope.run.tenant, idempotencyKey: idempotencyKeyOf(call) };
}

/**
 * The key that the tool declares for this input; undefined where it declares none. A service that
 * is handed the key may serve many tools and tenants, so both are in it; and so is the actor,
 * unless the tool says otherwise: a key answers with the result of the one who asked.
 *
 * @throws {CallFailure} `execution_failed` where two calls cannot be told apart.
 */
export function declaredKeyOf({ tool, input, scope }: ReadCall): string | undefined {
  const { spec, idempotencyKey } = tool;
  if (!idempotencyKey) return undefined;
  try {
    const key: unknown = idempotencyKey(input.built, scope.run);
    // an unhandled rejection would end the process
    if (key instanceof Promise) key.catch(() => undefined);
    if (typeof key !== 'string' || key === '' || key.length > MOST_CHARACTERS)
      throw new TypeError(
        `The idempotencyKey of ${spec.declaredId} did not return a string of 1 to ${MOST_CHARACTERS} characters.`,
      );
    if (key.includes(SHOWN_SECRET))
      throw new TypeError(
        `The idempotencyKey of ${spec.declaredId} contains a Secret, and all Secrets print alike.`,
      );
    return JSON.stringify([
      ...whoseKey(tool, scope),
      spec.declaredId,
      tool.entity?.instanceId ?? null,
      key,
    ]);
  } catch (error) {
    throw new CallFailure(unexplained(), { cause: error });
  }
}

function whoseKey(
  { idempotencyScope = 'actor' }: Tool,
  { run, actorId }: ExecutionScope,
): (string | null)[] {
  return idempotencyScope === 'actor' ? [run.tenant, actorId ?? null] : [run.tenant];
}

/** Called with every value of a streaming result but the last. Never throws. */
export type OnProgress = (value: unknown) => void | Promise<void>;

const VALUES_IN_A_ROW = 100;

/** The values of a source: all but the last are its progress. */
export class StreamedValues {
  private last: unknown;
  protected count = 0;

  constructor(private readonly onProgress: OnProgress) {}

  get isFull(): boolean {
    return false;
  }

  get result(): unknown {
    return this.last;
  }

  /**
   * Takes a value. A source that never waits must not keep timers and other runs from their turn.
   */
  async take(value: unknown): Promise<void> {
    if (this.count > 0) await this.onProgress(this.last);
    this.count += 1;
    this.last = value;
    if (this.count % VALUES_IN_A_ROW === 0) await turn();
  }
}

/** Much more than a model is ever shown. */
const MOST_STREAMED = 8 * 1024 * 1024;

/**
 * The text of a stream whose chunks are parts of it, read up to {@link MOST_STREAMED}; its values
 * where they are neither text nor bytes.
 */
export class StreamedText extends StreamedValues {
  private readonly decoder = new TextDecoder();
  private text = '';

  override get isFull(): boolean {
    return this.text.length >= MOST_STREAMED;
  }

  override get result(): unknown {
    return this.count > 0 ? super.result : this.text + this.decoder.decode();
  }

  override async take(chunk: unknown): Promise<void> {
    if (this.count === 0 && typeof chunk === 'string') this.text += chunk;
    else if (this.count === 0 && chunk instanceof Uint8Array)
      this.text += this.decoder.decode(chunk, { stream: true });
    else await this.takeValue(chunk);
  }

  /** Takes a value, before which the text so far is one, too. */
  private async takeValue(value: unknown): Promise<void> {
    if (this.count === 0 && this.text !== '') await super.take(this.text);
    await super.take(value);
  }
}
