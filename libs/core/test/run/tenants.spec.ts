import { beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, Scope } from '@nestjs/common';
import {
  LanguageModel,
  LlmTool,
  type LoopEvent,
  type LoopResult,
  type Message,
  type ToolCallContext,
  ToolContext,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { ConversationStore, MemoryConversationStore } from '@toolloop/core/stores';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { collect, eventsOf } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { ToolCallStorage } from '../../src/call/call-storage.js';
import { expectSound, resultsIn } from '../fixtures/played-run.js';
import { openModule } from '../fixtures/shop.module.js';

const RUNS = 200;
const TENANTS = ['acme', 'globex'] as const;

const pause = () => new Promise<void>((resolve) => setTimeout(resolve, Math.random() * 4));

/** An account whose id is no safe one, so that every run gives it the same handle. */
@ToolProvider({ prefix: 'account' })
class Account {
  @Expose() readonly id: string;
  private balance = 0;

  constructor(
    id: string,
    private readonly owner: string,
  ) {
    this.id = id;
  }

  @LlmTool({ description: 'Pays in.', effect: 'state_change', reveal: 'all' })
  async deposit(@ToolContext() context: ToolCallContext): Promise<string> {
    await pause();
    this.balance += 1;
    return `${this.owner} ${whoAsks(context)} has ${this.balance}`;
  }
}

/** What a tool learns of whom it acts for, from wherever it can. */
function whoAsks({ actor, tenant, context, state }: ToolCallContext): string {
  const note = state.get('note');
  return [tenant, (actor as { readonly id: string }).id, context['run'], note].join(' ');
}

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BankTools {
  constructor(private readonly storage: ToolCallStorage) {}

  @LlmTool({ description: 'Opens an account.', effect: 'read_only', output: Account })
  async open(@ToolContext() context: ToolCallContext): Promise<Account> {
    const { context: given, state, tenant } = context;
    await pause();
    state.set('note', given['run']);
    return new Account(`account of ${tenant}`, String(given['run']));
  }

  @LlmTool({ description: 'Who asks, from deep within.', effect: 'read_only', reveal: 'all' })
  async whoami(@ToolContext() context: ToolCallContext): Promise<string> {
    await pause();
    context.progress(whoAsks(context));
    await pause();
    const current = this.storage.current();
    if (current?.toolCallId !== context.toolCallId || current.runId !== context.runId)
      throw new Error('mixed up');
    return whoAsks(context);
  }
}

/** One for every run, with the run as its request. */
@Injectable({ scope: Scope.REQUEST })
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  private readonly seen: unknown[] = [];

  @LlmTool({ description: 'Notes who asks.', effect: 'state_change', reveal: 'all' })
  async note(@ToolContext() { context }: ToolCallContext): Promise<string> {
    this.seen.push(context['run']);
    await pause();
    return this.seen.join(',');
  }
}

/**
 * Does the same in every run, step by step, and takes its time. It keeps nothing: the transcript
 * says how far the run is.
 */
class SlowModel extends LanguageModel {
  readonly provider = 'slow';
  readonly modelId = 'slow';

  async *stream({ messages, instructions }: ModelRequest): AsyncGenerator<ModelEvent> {
    const asked = messages.findLastIndex(({ role }) => role === 'user');
    const step = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
    await pause();
    const names = [
      ['bank__open', 'bank__whoami'],
      ['account_h1_deposit', 'bank__whoami', 'desk__note'],
      ['account_h1_deposit', 'desk__note'],
    ][step];
    if (!names) {
      yield { type: 'text-delta', text: `${instructions} ` };
      await pause();
      yield { type: 'text-delta', text: `after ${messages.length}` };
      yield { type: 'finish', finishReason: 'stop' };
      return;
    }
    for (const [index, name] of names.entries()) {
      yield { type: 'tool-call', toolCallId: `call_${index}`, name, arguments: '{}' };
      await pause();
    }
    yield { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } };
    yield { type: 'finish', finishReason: 'tool_calls' };
  }
}

interface Done {
  readonly tenant: string;
  readonly run: string;
  readonly events: readonly LoopEvent[];
  readonly result: LoopResult;
}

async function runOne(loop: ToolLoopService, index: number): Promise<Done> {
  const tenant = TENANTS[index % 2] ?? 'acme';
  const run = `${tenant}-run-${index}`;
  await pause();
  const handle = loop.open({
    prompt: `I am ${run}`,
    actor: { id: `actor of ${run}` },
    tenant,
    context: { run },
    instructions: async ({ context }) => {
      await pause();
      return `For ${String(context['run'])}`;
    },
    conversationId: 'the same for all',
  });
  const events = await collect(index % 3 === 0 ? handle : handle.events$);
  return { tenant, run, events, result: await handle.result };
}

describe('invariant 9: 200 runs of two tenants, all at once', () => {
  const store = new MemoryConversationStore();
  let done: readonly Done[] = [];

  beforeAll(async () => {
    const module = await openModule(new SlowModel(), {
      entities: [Account],
      providers: [BankTools, DeskTools, { provide: ConversationStore, useValue: store }],
    });
    const loop = module.get(ToolLoopService);
    done = await Promise.all(Array.from({ length: RUNS }, (_, index) => runOne(loop, index)));
  });

  it('come to their end, each with everything every run has', () => {
    for (const { events, result } of done) expectSound({ events, result });
    expect(done.map(({ result }) => result.finishReason)).toEqual(
      Array.from({ length: RUNS }, () => 'stop'),
    );
  });

  it('see their own actor, tenant, context and state in every call', () => {
    for (const { tenant, run, result } of done) {
      const who = `${tenant} actor of ${run} ${run}`;
      const [, before, first, then, note, second, notes] = resultsIn(result.messages);
      expect(before).toMatch(new RegExp(`^${who} (${run})?$`));
      expect([first, second]).toEqual([`${run} ${who} ${run} has 1`, `${run} ${who} ${run} has 2`]);
      expect(then).toBe(`${who} ${run}`);
      expect([note, notes]).toEqual([run, `${run},${run}`]);
    }
  });

  it('see nothing of one another in events, results and transcripts', () => {
    for (const { run, events, result } of done) {
      const all = JSON.stringify([events, result, result.messages]);
      const named = new Set(all.match(/(acme|globex)-run-\d+/g));
      expect([...named]).toEqual([run]);
      expect(new Set(events.map(({ runId }) => runId))).toEqual(new Set([result.runId]));
    }
    expect(new Set(done.map(({ result }) => result.runId)).size).toBe(RUNS);
  });

  it('have handles of their own', () => {
    for (const { tenant, events, result } of done) {
      expect(eventsOf(events, 'tools-injected')).toMatchObject([
        { instanceId: `account of ${tenant}`, tools: ['account_h1_deposit'] },
      ]);
      expect(result.injectedTools).toHaveLength(1);
    }
  });

  it('have answers to their own instructions, and tokens of their own', () => {
    for (const { run, result } of done) {
      expect(result.text).toBe(`For ${run} after 11`);
      expect(result.usage).toMatchObject({ inputTokens: 3, outputTokens: 3 });
    }
  });

  it('keep conversations of their own, though the id is the same', async () => {
    for (const { tenant, run, result } of done) {
      const kept: readonly Message[] = await store.load({
        tenant,
        actorId: `actor of ${run}`,
        conversationId: 'the same for all',
      });
      expect(kept).toMatchObject(result.messages);
      expect(kept).toHaveLength(result.messages.length);
    }
  });
});
