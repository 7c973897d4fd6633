import { Test, type TestingModule } from '@nestjs/testing';
import {
  type ApprovalRequest,
  PendingService,
  type JsonObject,
  type LoopRequest,
  type LoopResult,
  type Policy,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';

/** What a payment is made of, in one answer of the model. */
export type Payment = JsonObject;

export const ALICE = { actor: { id: 'alice' }, tenant: 'acme' };
export const EVERY_PAYMENT_ASKS: Policy = {
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['bank__pay'] }],
};

/** An application that can do one thing, which needs a person's yes. */
export class PayApplication {
  private constructor(
    private readonly module: TestingModule,
    /** What was really paid, in order. */
    readonly paid: readonly JsonObject[],
  ) {}

  /**
   * `steps` are the payments of the model's answers, one list an answer; every run plays on where
   * the last one stopped.
   */
  static async start(
    steps: readonly (readonly Payment[])[],
    policy: Policy = EVERY_PAYMENT_ASKS,
  ): Promise<PayApplication> {
    const paid: JsonObject[] = [];
    const model = new ScriptedModel([
      ...steps.map((payments) => calls(...payments.map((args) => call('bank__pay', args)))),
      text('Done.'),
    ]);
    const imports = [ToolLoopModule.forRoot({ model, policy, tools: [payTool(paid)] })];
    return new PayApplication(
      await (await Test.createTestingModule({ imports }).compile()).init(),
      paid,
    );
  }

  get approvals(): PendingService {
    return this.module.get(PendingService);
  }

  get policy(): DataPolicyEngine {
    return this.module.get(DataPolicyEngine);
  }

  run(request: Partial<LoopRequest> = {}): Promise<LoopResult> {
    return this.module
      .get(ToolLoopService)
      .run({ ...ALICE, ...(!request.messages && { prompt: 'Pay.' }), ...request });
  }

  async resume(runId: string, as = ALICE): Promise<LoopResult> {
    return (await this.module.get(ToolLoopService).resume(runId, as)).result;
  }

  /** What waits for a decision, as Alice sees it. */
  waiting(): Promise<readonly ApprovalRequest[]> {
    return this.approvals.list(ALICE);
  }

  stop(): Promise<void> {
    return this.module.close();
  }
}

function payTool(paid: JsonObject[]): ReturnType<typeof tool> {
  return tool<JsonObject>({
    id: 'bank__pay',
    description: 'Pays.',
    effect: 'external_side_effect',
    reveal: 'all',
    input: {
      type: 'object',
      properties: {
        to: { type: 'string' },
        amount: { type: 'number', minimum: 1 },
        note: { type: 'object' },
      },
      required: ['to'],
    },
    execute: (args) => {
      paid.push({ ...args });
      return 'paid';
    },
  });
}
