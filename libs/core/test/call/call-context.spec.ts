import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  ConnectionBroker,
  type Credential,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolProvider,
} from '@toolloop/core';
import { Bench, errorOf } from './bench.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;
let seen: ToolCallContext | undefined;

@Injectable()
@ToolProvider({ namespace: 'ctx' })
class ContextTools {
  @LlmTool(fine) look(@ToolContext() context: ToolCallContext): void {
    seen = context;
  }

  @LlmTool({ ...fine, reveal: [] }) async connect(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    const { token } = await context.connection('mail');
    seen = { ...context, context: { token } };
    return token;
  }

  @LlmTool(fine) count(@ToolContext() context: ToolCallContext): number {
    const count = Number(context.state.get('count') ?? 0) + 1;
    context.state.set('count', count);
    return count;
  }
}

class Broker extends ConnectionBroker {
  override resolve(connectionId: string, { tenant }: ToolCallContext): Promise<Credential> {
    if (tenant !== 'acme') return Promise.reject(new Error(`not yours, ${tenant}`));
    return Promise.resolve({ connectionId, token: 'token-1' });
  }
}

describe('the context of a call', () => {
  it('says whom it acts for, which call it is, and what the application passed', async () => {
    const bench = await Bench.start({ providers: [ContextTools] });
    const run = bench.run({
      runId: 'run_1',
      requestId: 'key',
      tenant: 'globex',
      context: { locale: 'de' },
    });
    await run.exec('ctx__look', {}, { step: 3, index: 2 });
    expect(seen).toMatchObject({
      runId: 'run_1',
      step: 3,
      toolCallId: 'call_1',
      actor: { id: 'ada' },
      tenant: 'globex',
      context: { locale: 'de' },
      idempotencyKey: '["ada","key",3,2]',
    });
    expect(seen?.signal.aborted).toBe(false);
  });

  it('has the same key for every attempt, and another for every call', async () => {
    const bench = await Bench.start({ providers: [ContextTools] });
    const keys: (string | undefined)[] = [];
    for (const [requestId, index] of [
      ['a', 0],
      ['a', 0],
      ['a', 1],
      ['b', 0],
    ] as const) {
      await bench.run({ requestId }).exec('ctx__look', {}, { index });
      keys.push(seen?.idempotencyKey);
    }
    expect(keys[0]).toBe(keys[1]);
    expect(new Set(keys).size).toBe(3);
  });

  it('shares its state with the calls of the run, and with no other run', async () => {
    const bench = await Bench.start({ providers: [ContextTools] });
    const [one, other] = [bench.run(), bench.run()];
    expect((await one.exec('ctx__count')).content).toBe('1');
    expect((await one.exec('ctx__count')).content).toBe('2');
    expect((await other.exec('ctx__count')).content).toBe('1');
  });
});

describe('a connection', () => {
  it('is a credential for the tenant and actor of the call', async () => {
    const bench = await Bench.start({
      providers: [ContextTools],
      ports: [{ provide: ConnectionBroker, useClass: Broker }],
    });
    const run = bench.run({ tenant: 'acme' });
    const outcome = await run.exec('ctx__connect');
    expect(seen?.context).toEqual({ token: 'token-1' });
    expect([outcome.content, JSON.stringify(run.events)]).toEqual([
      '{"ok":true}',
      expect.not.stringContaining('token-1'),
    ]);
  });

  it('fails the call when it belongs to another, and gives no reason', async () => {
    const bench = await Bench.start({
      providers: [ContextTools],
      ports: [{ provide: ConnectionBroker, useClass: Broker }],
    });
    const outcome = await bench.run({ tenant: 'globex' }).exec('ctx__connect');
    expect(outcome.record.error?.code).toBe('execution_failed');
    expect(outcome.content).not.toContain('not yours');
  });

  it('tells the developer to provide a ConnectionBroker when there is none', async () => {
    const bench = await Bench.start({ providers: [ContextTools] });
    const outcome = await bench.run().exec('ctx__connect');
    expect(errorOf(outcome).code).toBe('execution_failed');
    expect(bench.logger.errors()[0]?.details[0]).toMatchObject({
      message:
        'The tool asked for the connection "mail" but no ConnectionBroker is provided. Provide one in ToolLoopModule.forRoot({ providers }).',
    });
  });
});
