import { beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  LlmTool,
  type LoopResult,
  ToolExecutionContext,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';

/** Who may close accounts, which can change while a run goes on. */
const permitted = new Set<string>();
const closed: string[] = [];

@Injectable()
class MayClose implements CanActivate {
  canActivate(host: ExecutionContext): boolean {
    return permitted.has(ToolExecutionContext.create(host).getContext().tenant);
  }
}

@ToolProvider({ prefix: 'account', instanceIdProperty: 'id' })
class Account {
  @Expose() readonly id: string;

  constructor(id: string) {
    this.id = id;
  }

  @UseGuards(MayClose)
  @LlmTool({ description: 'Closes the account.', effect: 'state_change', reveal: 'all' })
  close(): string {
    closed.push(this.id);
    return 'closed';
  }
}

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BankTools {
  @LlmTool({ description: 'An account.', effect: 'read_only', output: Account })
  account(): Account {
    return new Account('a-1');
  }
}

beforeEach(() => {
  closed.length = 0;
  permitted.clear();
  permitted.add('acme');
});

/** The policy of the application that runs. */
let policy: DataPolicyEngine;

async function play(turns: readonly ScriptedTurn[], tenant = 'acme'): Promise<LoopResult> {
  const model = new ScriptedModel([...turns, text('Done.')]);
  const imports = [
    ToolLoopModule.forRoot({ model, policy: { allow: ['*'], flow: 'off' } }),
    ToolLoopModule.forFeature({ entities: [Account] }),
  ];
  const app = await (
    await Test.createTestingModule({ imports, providers: [BankTools] }).compile()
  ).init();
  policy = app.get(DataPolicyEngine);
  const result = await app
    .get(ToolLoopService)
    .run({ prompt: 'Go on.', actor: { id: 'alice' }, tenant });
  await app.close();
  return result;
}

const find = calls(call('bank__account'));
const close = calls(call('account_a-1_close'));

/** An answer that comes when the permission is gone. */
const closeTooLate: ScriptedTurn = () => {
  permitted.delete('acme');
  return close;
};

/** An answer that comes when the policy has changed. */
const closeWhenDenied: ScriptedTurn = () => {
  policy.replace({ allow: ['*'], deny: ['account_*_close'], flow: 'off' });
  return close;
};

describe('a handle', () => {
  it('works while its holder may use it', async () => {
    const { toolCalls } = await play([find, close]);
    expect([toolCalls.at(-1)?.status, closed]).toEqual(['succeeded', ['a-1']]);
  });

  it('is worth nothing once the permission is withdrawn, though the tool is still listed', async () => {
    const { toolCalls } = await play([find, closeTooLate]);
    expect(toolCalls.at(-1)).toMatchObject({
      status: 'denied',
      error: { code: 'forbidden' },
      declaredId: 'account_*_close',
    });
    expect(closed).toEqual([]);
  });

  it('is worth nothing once the policy takes the tool away, and reads like no tool', async () => {
    const { toolCalls, messages } = await play([find, closeWhenDenied]);
    expect(toolCalls.at(-1)).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
      decision: { kind: 'deny' },
    });
    expect([closed, JSON.stringify(messages).includes('policy_denied')]).toEqual([[], false]);
  });

  it('was no licence: what it did once it does not do again', async () => {
    const { toolCalls } = await play([find, close, closeTooLate]);
    expect(toolCalls.map(({ status }) => status)).toEqual(['succeeded', 'succeeded', 'denied']);
    expect(closed).toEqual(['a-1']);
  });

  it("is no use to another tenant's run, nor to a later one of the same", async () => {
    const runs = [await play([close], 'globex'), await play([close])];
    expect(runs.map(({ toolCalls }) => toolCalls[0]?.error?.code)).toEqual([
      'unknown_tool',
      'unknown_tool',
    ]);
    expect(closed).toEqual([]);
  });
});
