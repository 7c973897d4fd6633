import { Injectable, type Provider } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  PendingService,
  LlmTool,
  type LoopRequest,
  type LoopResult,
  type Policy,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import {
  type DirectiveDeclaration,
  type DirectiveEvent,
  DirectiveService,
  type DirectiveStatus,
  type DirectiveView,
  type PerformedDirective,
} from '@toolloop/core/directives';
import {
  PendingStore,
  AuditStore,
  CallJournal,
  DirectiveStore,
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryDirectiveStore,
  MemoryRunLog,
  RunLog,
} from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { RecordingLogger } from '../../tools/application.js';
import { resultOf } from '../../fixtures/played-run.js';

export const alice = { actor: { id: 'alice', roles: ['clerk'] }, tenant: 'acme' };
export const mia = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
export const bob = { actor: { id: 'bob', roles: ['manager'] }, tenant: 'globex' };

/** One effect that took place, or was undone. */
export interface Effect {
  readonly did: 'refund' | 'undo';
  readonly orderId: string;
  readonly amount: number;
  readonly tenant: string;
  readonly actorId: string;
  readonly key: string;
  readonly of?: string;
}

/**
 * The world in which refunds happen. `before` and `after` are called round the effect, and may
 * throw.
 */
export class Bank {
  constructor(readonly effects: Effect[] = []) {}

  before: () => unknown = () => undefined;
  after: () => unknown = () => undefined;
  undoing: () => unknown = () => undefined;
  preview: () => string = () => 'Refunds it';
}

function refundTools(directive: Partial<DirectiveDeclaration> = {}) {
  @Injectable()
  @ToolProvider({ namespace: 'bank' })
  class BankTools {
    constructor(readonly bank: Bank) {}

    @LlmTool({
      description: 'Refunds an order.',
      effect: 'external_side_effect',
      reveal: 'all',
      preview: 'previewRefund',
      directive: {
        type: 'order.refund',
        subject: '{orderId}',
        compensate: 'undoRefund',
        ...directive,
      },
    })
    async refund(
      @ToolParam('orderId', { description: 'Order' }) orderId: string,
      @ToolParam('amount', { description: 'Amount' }) amount: number,
      @ToolContext() context: ToolCallContext<{ readonly id: string }>,
    ): Promise<object> {
      await this.bank.before();
      this.bank.effects.push({ did: 'refund', orderId, amount, ...whoIn(context) });
      await this.bank.after();
      return { refund: `r-${this.bank.effects.length}` };
    }

    previewRefund(input: { orderId: string }): string {
      return `${this.bank.preview()} for ${input.orderId}`;
    }

    async undoRefund(
      input: { orderId: string; amount: number },
      performed: PerformedDirective,
      context: ToolCallContext<{ readonly id: string }>,
    ): Promise<void> {
      await this.bank.undoing();
      this.bank.effects.push({
        did: 'undo',
        ...input,
        ...whoIn(context),
        of: performed.idempotencyKey,
      });
    }
  }
  return BankTools;
}

function whoIn({ tenant, actor, idempotencyKey }: ToolCallContext<{ readonly id: string }>) {
  return { tenant, actorId: actor.id, key: idempotencyKey };
}

/** Who is there; a spec takes people away. */
export class People extends ActorDirectory<{
  readonly id: string;
  readonly roles: readonly string[];
}> {
  readonly known = new Map(
    [alice, mia, bob].map(({ actor, tenant }) => [`${tenant}/${actor.id}`, actor]),
  );

  override find(actorId: string, tenant: string) {
    return Promise.resolve(this.known.get(`${tenant}/${actorId}`));
  }
}

/** What outlives a process. */
export function world() {
  return {
    bank: new Bank(),
    people: new People(),
    directives: new MemoryDirectiveStore() as DirectiveStore,
    journal: new MemoryCallJournal() as CallJournal,
    approvals: new MemoryPendingStore(),
    runs: new MemoryRunLog(),
  };
}

export interface DeskOptions extends Partial<ToolLoopOptions> {
  readonly directive?: Partial<DirectiveDeclaration>;
  readonly shared?: ReturnType<typeof world>;
  readonly providers?: readonly Provider[];
}

export const OPEN: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
export const refund = (orderId = 'o-1', amount = 10) =>
  calls(call('bank__refund', { orderId, amount }));
/** One refund, and a word at the end. */
export const once: readonly ScriptedTurn[] = [refund(), text('Done.')];

/** An application whose refunds are directives. */
export async function desk(
  script: readonly ScriptedTurn[] = once,
  { directive, shared = world(), providers = [], ...options }: DeskOptions = {},
) {
  const { directives = {}, ...others } = options;
  const logger = new RecordingLogger();
  const model = new ScriptedModel(script);
  const module: TestingModule = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy: OPEN,
        audit: { key: 'k'.repeat(32) },
        directives: { firstDelayMs: 5, longestDelayMs: 40, ...directives },
        ...others,
        providers: [
          { provide: ActorDirectory, useValue: shared.people },
          { provide: DirectiveStore, useValue: shared.directives },
          { provide: CallJournal, useValue: shared.journal },
          { provide: PendingStore, useValue: shared.approvals },
          { provide: RunLog, useValue: shared.runs },
          ...providers,
        ],
      }),
    ],
    providers: [refundTools(directive), { provide: Bank, useValue: shared.bank }],
  })
    .setLogger(logger)
    .compile();
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  const service: DirectiveService = module.get(DirectiveService);
  const approvals: PendingService = module.get(PendingService);
  const { bank } = shared;
  return {
    model,
    module,
    loop,
    service,
    approvals,
    bank,
    shared,
    logger,
    run: (more: Partial<LoopRequest> = {}): Promise<LoopResult> =>
      resultOf(loop.open({ prompt: 'Refund it.', ...alice, ...more })),
    resume: async (runId: string, who = alice): Promise<LoopResult> =>
      resultOf(await loop.resume(runId, who)),
    decide: async (decision: 'approve' | 'deny', who = mia, amendment = {}) => {
      const [one] = await approvals.list(who);
      return approvals.decide({ approvalId: one?.approvalId ?? '', decision }, who, amendment);
    },
    entries: (tenant = 'acme') => module.get(AuditStore).read(tenant, { from: 1, limit: 500 }),
    until: (status: DirectiveStatus, who = alice) => until(service, status, who),
  };
}

/** The one directive of somebody, once it has the status. */
export async function until(
  service: DirectiveService,
  status: DirectiveStatus,
  who = alice,
): Promise<DirectiveView> {
  const deadline = Date.now() + 25_000;
  for (;;) {
    const [one] = await service.list(who);
    if (one?.status === status) return one;
    if (Date.now() > deadline)
      throw new Error(`It is ${one?.status}, not ${status}: ${JSON.stringify(one)}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The words of the events, as they come. */
export function eventsOf(service: DirectiveService): DirectiveEvent[] {
  const events: DirectiveEvent[] = [];
  service.events$.subscribe((event) => events.push(event));
  return events;
}

/** What the model read of its last call. */
export function answerIn({ messages }: LoopResult): {
  ok: boolean;
  type: string;
  human_readable: string;
  result: Record<string, unknown>;
} {
  const read = messages.findLast(({ role }) => role === 'tool')?.content;
  return JSON.parse(typeof read === 'string' ? read : '') as ReturnType<typeof answerIn>;
}
