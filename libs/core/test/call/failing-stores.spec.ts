import { describe, expect, it } from '@jest/globals';
import {
  ActorDirectory,
  type LoopResult,
  PendingService,
  type Policy,
  RunError,
  TenantDirectory,
  tool,
  ToolLoopService,
} from '@toolloop/core';
import {
  AuditStore,
  CallJournal,
  CallTransactions,
  ConversationStore,
  DirectiveStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryDirectiveStore,
  MemoryPendingStore,
  MemoryRunLog,
  MemoryUsageStore,
  PendingStore,
  RunLog,
  ToolLoopStores,
  UsageStore,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { call, calls, ScriptedModel, text, troubled } from '@toolloop/testing';
import type { JSONSchema7 } from 'json-schema';
import { ask, openModule } from '../fixtures/shop.module.js';

const SECRET = 'could not extend file "base/16384/2619": No space left on device';

/**
 * What a database answers that says nothing of the call: none of these is listed anywhere as
 * passing.
 */
const ERRORS: readonly (readonly [string, Error])[] = [
  ['a missing right', Object.assign(new Error(SECRET), { code: '42501' })],
  ['a missing table', Object.assign(new Error(SECRET), { code: '42P01' })],
  ['a full disk', Object.assign(new Error(SECRET), { code: '53100' })],
  ['an error without a code', new Error(SECRET)],
];

class Tenants extends TenantDirectory {
  override exists(): Promise<boolean> {
    return Promise.resolve(true);
  }
}

/** The one session of a database in this process. */
class PlainTransactions extends CallTransactions {
  override once<Result>(_call: unknown, work: () => Promise<Result>): Promise<Result> {
    return work();
  }

  override rehearse<Result>(work: () => Promise<Result>): Promise<Result> {
    return work();
  }

  override unmarked<Result>(work: () => Promise<Result>): Promise<Result> {
    return work();
  }
}

class Directory extends ActorDirectory {
  override find(actorId: string): Promise<unknown> {
    return Promise.resolve({ id: actorId });
  }
}

const PORTS = {
  audit: { provide: AuditStore, make: () => new MemoryAuditStore() },
  conversations: { provide: ConversationStore, make: () => new MemoryConversationStore() },
  directives: { provide: DirectiveStore, make: () => new MemoryDirectiveStore() },
  journal: { provide: CallJournal, make: () => new MemoryCallJournal() },
  pending: { provide: PendingStore, make: () => new MemoryPendingStore() },
  usage: { provide: UsageStore, make: () => new MemoryUsageStore() },
  runs: { provide: RunLog, make: () => new MemoryRunLog() },
  tenants: { provide: TenantDirectory, make: () => new Tenants() },
};

/** Each call of a store that stands before an effect. */
const PLACES: readonly (readonly [keyof typeof PORTS, string, string])[] = [
  ['audit', 'head', 'probe__write'],
  ['audit', 'append', 'probe__write'],
  ['conversations', 'load', 'probe__write'],
  ['directives', 'find', 'remind'],
  ['directives', 'add', 'remind'],
  ['journal', 'acquire', 'probe__write'],
  ['pending', 'add', 'probe__send'],
  ['usage', 'add', 'probe__write'],
  ['usage', 'totals', 'probe__write'],
  ['tenants', 'exists', 'probe__write'],
];

const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['probe__send'] }],
};

async function shop(port: keyof typeof PORTS, method: string, error: Error, toolId: string) {
  const made: string[] = [];
  const description = 'Does it.';
  const input: JSONSchema7 = {
    type: 'object',
    properties: { key: { type: 'string' } },
    required: ['key'],
    additionalProperties: false,
  };
  const remind = tool({
    id: 'remind',
    description,
    input,
    effect: 'external_side_effect',
    reveal: 'all',
    directive: { type: 'remind', subject: '{key}' },
    execute: () => made.push('remind'),
  });
  const providers = Object.entries(PORTS).map(([name, { provide, make }]) => ({
    provide,
    useValue:
      name === port
        ? troubled<object>(make(), { method, answer: () => Promise.reject(error) })
        : make(),
  }));
  const model = new ScriptedModel([calls(call(toolId, { key: 'a' })), text('Done.')]);
  const module = await openModule(model, {
    policy,
    providers: [...providers, Directory],
    tools: [remind],
    audit: { key: 'x'.repeat(32) },
    directives: { perform: false },
    quotas: [
      { quantity: 'calls', most: 100, windowMs: 60_000 },
      { quantity: 'tokens', most: 1_000_000, windowMs: 60_000 },
    ],
  });
  const context = { act: (key: string) => made.push(key) };
  return {
    module,
    model,
    made,
    loop: module.get<ToolLoopService>(ToolLoopService),
    request: ask({ context, conversationId: 'c' }),
  };
}

async function resultOf(running: Promise<LoopResult>): Promise<LoopResult> {
  try {
    return await running;
  } catch (error) {
    if (error instanceof RunError) return error.result;
    throw error;
  }
}

describe.each(ERRORS)('a store that fails before an effect with %s', (_, error) => {
  it.each(PLACES)(
    'says nothing of the call: the run ends with storage_unavailable (%s.%s)',
    async (port, method, toolId) => {
      const { loop, made, request } = await shop(port, method, error, toolId);
      const result = await resultOf(loop.run(request));
      expect([result.finishReason, result.error?.code]).toEqual(['error', 'storage_unavailable']);
      expect(made).toEqual([]);
      expect(JSON.stringify([result, result.messages])).not.toMatch(
        /No space|base\/16384|execution_failed/,
      );
    },
  );
});

/** The result of a run of a tool whose transaction, or the work in it, fails. */
async function entered(
  transactions: CallTransactions,
  work: () => Promise<unknown>,
): Promise<LoopResult> {
  const enter = tool({
    id: 'enter',
    description: 'Enters.',
    input: { type: 'object', properties: {}, additionalProperties: false },
    effect: 'state_change',
    reveal: 'all',
    execute: (_, { transaction }) => transaction?.(work),
  });
  const module = await openModule(new ScriptedModel([calls(call('enter', {})), text('Well.')]), {
    policy,
    tools: [enter],
    providers: [{ provide: ToolLoopStores, useValue: { transactions } }],
  });
  return resultOf(module.get<ToolLoopService>(ToolLoopService).run(ask()));
}

describe('the transaction of a tool', () => {
  it.each(ERRORS)('says nothing of the call where it does not begin for %s', async (_, error) => {
    const made: string[] = [];
    const transactions = troubled<CallTransactions>(new PlainTransactions(), {
      method: 'once',
      answer: () => Promise.reject(error),
    });
    const result = await entered(transactions, () => Promise.resolve(made.push('enter')));
    expect([result.error?.code, made]).toEqual(['storage_unavailable', []]);
  });

  it.each(ERRORS)(
    'fails by the word of the tool where its work fails with %s',
    async (_, error) => {
      const result = await entered(new PlainTransactions(), () => Promise.reject(error));
      expect(result).toMatchObject({
        finishReason: 'stop',
        toolCalls: [{ error: { code: 'execution_failed' } }],
      });
      expect(JSON.stringify([result, result.messages])).not.toMatch(/No space|base/);
    },
  );
});

describe('the error of a tool', () => {
  it('is its own where it is a failure of its own storage that it says itself', async () => {
    const away = tool({
      id: 'away',
      description: 'Fails.',
      input: { type: 'object', properties: {}, additionalProperties: false },
      effect: 'read_only',
      reveal: 'all',
      execute: () => Promise.reject(new StorageUnavailableError('My own.')),
    });
    const module = await openModule(new ScriptedModel([calls(call('away', {})), text('Well.')]), {
      policy,
      tools: [away],
    });
    const result = await resultOf(module.get<ToolLoopService>(ToolLoopService).run(ask()));
    expect(result.error?.code).toBe('storage_unavailable');
  });
});

const full = (): Promise<never> => Promise.reject(new Error(SECRET));

describe('an answer to a person that a store cannot keep', () => {
  it('is refused to the person without the text of the store, and the question stays open', async () => {
    const store = new MemoryPendingStore();
    const flag = { isBroken: false };
    const broken = troubled<PendingStore>(store, {
      method: 'answer',
      when: () => flag.isBroken,
      answer: full,
    });
    const module = await openModule(
      new ScriptedModel([calls(call('probe__send', { key: 'a' })), text('Done.')]),
      {
        policy,
        providers: [{ provide: PendingStore, useValue: broken }],
      },
    );
    await module.get<ToolLoopService>(ToolLoopService).run(ask());
    const pending: PendingService = module.get(PendingService);
    const [open] = await pending.list(ask());
    flag.isBroken = true;
    const decided = pending.decide(
      { approvalId: open?.approvalId ?? '', decision: 'approve' },
      ask(),
    );
    await expect(decided).rejects.toMatchObject({
      name: 'StorageUnavailableError',
      message: expect.not.stringContaining('No space'),
    });
    flag.isBroken = false;
    expect(await pending.list(ask())).toHaveLength(1);
  });
});
