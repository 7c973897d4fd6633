import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  type LoopRequest,
  LlmTool,
  subRunTool,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { DirectiveService, type PerformedDirective } from '@toolloop/core/directives';
import { RunService } from '@toolloop/core/runs';
import { AuditStore } from '@toolloop/core/stores';
import { DurableModule } from '@toolloop/durable';
import { inMemory } from './databases.js';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const ops = { actor: { id: 'ops' }, tenant: 'acme' };
const bob = { actor: { id: 'bob' }, tenant: 'globex' };
const opsOfGlobex = { ...ops, tenant: 'globex' };

class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(actorId: string) {
    return Promise.resolve({ id: actorId });
  }
}

const PLACED = { description: 'The order', type: 'string' } as const;

function shopOf(effects: string[], fails: (undoing: string) => boolean) {
  @ToolProvider({ namespace: 'shop' })
  class ShopTools {
    @LlmTool({
      description: 'Books an order.',
      effect: 'external_side_effect',
      reveal: 'all',
      directive: { type: 'order.book', subject: '{order}', compensate: 'unbook', attempts: 1 },
    })
    book(@ToolParam('order', PLACED) order: string): string {
      effects.push(`book ${order}`);
      return order;
    }

    unbook({ order }: { readonly order: string }, { result }: PerformedDirective): void {
      if (fails(order)) throw new Error('It cannot be reached.');
      effects.push(`unbook ${order} ${JSON.stringify(result)}`);
    }

    @LlmTool({
      description: 'Mails a customer.',
      effect: 'external_side_effect',
      reveal: 'all',
      directive: { type: 'order.mail', subject: '{order}' },
    })
    mail(@ToolParam('order', PLACED) order: string): string {
      effects.push(`mail ${order}`);
      return order;
    }

    @LlmTool({ description: 'Notes something.', effect: 'state_change', reveal: 'all' })
    note(@ToolParam('order', PLACED) order: string): string {
      return order;
    }

    @LlmTool({ description: 'Looks at an order.', effect: 'read_only', reveal: 'all' })
    look(@ToolParam('order', PLACED) order: string): string {
      return order;
    }
  }
  return ShopTools;
}

const book = (order: string) => call('shop__book', { order });
const mail = (order: string) => call('shop__mail', { order });
const note = (order: string) => call('shop__note', { order });
const look = (order: string) => call('shop__look', { order });

describe('the undoing of a run', () => {
  const opened: TestingModule[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((module) => module.close()));
  });

  async function shop(script: readonly ScriptedTurn[], options: Partial<ToolLoopOptions> = {}) {
    const effects: string[] = [];
    const failing = new Set<string>();
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot(await inMemory()),
        ToolLoopModule.forRoot({
          model: new ScriptedModel(script),
          policy: { version: 'v1', allow: ['*'], flow: 'off' },
          operators: (actor, action) =>
            action === 'undo' && (actor as { readonly id: string }).id === 'ops',
          audit: { key: 'k'.repeat(32) },
          directives: { firstDelayMs: 1, longestDelayMs: 5 },
          ...options,
        }),
      ],
      providers: [shopOf(effects, (order) => failing.has(order)), Staff],
    }).compile();
    module.useLogger(false);
    await module.init();
    opened.push(module);
    const loop: ToolLoopService = module.get(ToolLoopService);
    const runs: RunService = module.get(RunService);
    const directives: DirectiveService = module.get(DirectiveService);
    const run = async (more: Partial<LoopRequest> = {}) => {
      const { runId } = await loop.run({
        prompt: 'Go on.',
        ...alice,
        durable: true,
        requestId: randomUUID(),
        ...more,
      });
      while ((await runs.get(runId, { ...alice, ...more })).status !== 'ended')
        await new Promise((resolve) => setTimeout(resolve, 2));
      return runId;
    };
    const settled = async (): Promise<void> => {
      while (
        (await directives.list(alice)).some(
          ({ status }) => status === 'pending' || status === 'performing',
        )
      )
        await new Promise((resolve) => setTimeout(resolve, 2));
    };
    return { module, runs, directives, effects, failing, run, settled };
  }

  it('has what the run did compensated, the latest first, and says what cannot be undone', async () => {
    const { run, runs, settled, effects } = await shop([
      calls(book('a'), look('a')),
      calls(note('n'), mail('m'), book('b')),
      text('Done.'),
    ]);
    const runId = await run();
    await settled();
    const { calls: undone } = await runs.undo(runId, alice, 'A mistake.');
    expect(undone).toMatchObject([
      { declaredId: 'shop__book', status: 'undone', directiveId: expect.stringMatching(/^dir_/) },
      {
        declaredId: 'shop__mail',
        status: 'not_possible',
        reason: expect.stringContaining('no way to undo'),
      },
      { declaredId: 'shop__note', status: 'not_possible', reason: 'It had its effect at once.' },
      { declaredId: 'shop__book', status: 'undone' },
    ]);
    expect(effects.slice(-2)).toEqual(['unbook b "b"', 'unbook a "a"']);
    const before = [...effects];
    expect((await runs.undo(runId, alice)).calls).toMatchObject(
      undone.map(({ status }) => ({ status })),
    );
    expect(effects).toEqual(before);
  });

  it('cancels what was not performed yet, which then is never performed', async () => {
    const { run, runs, effects } = await shop([calls(book('a'), mail('m')), text('Done.')], {
      directives: { perform: false },
    });
    const { calls: undone } = await runs.undo(await run(), ops);
    expect(undone.map(({ status }) => status)).toEqual(['no_effect', 'no_effect']);
    expect(effects).toEqual([]);
  });

  it('stops at an effect that is not undone, reaches the earlier ones once that is settled, and repeats none', async () => {
    const { run, runs, directives, settled, effects, failing } = await shop([
      calls(book('a')),
      calls(book('b')),
      calls(book('c')),
      text('Done.'),
    ]);
    const runId = await run();
    await settled();
    failing.add('b');
    const statuses = async () => (await runs.undo(runId, alice)).calls.map(({ status }) => status);
    expect(await statuses()).toEqual(['undone', 'failed', 'not_reached']);
    failing.clear();
    expect(await statuses()).toEqual(['undone', 'failed', 'not_reached']);
    const [stuck] = await directives.list(alice, { status: 'unknown_outcome' });
    const [dead = stuck] = await directives.list(alice, { status: 'dead' });
    await directives.redrive(
      dead?.directiveId ?? '',
      alice,
      dead?.status === 'dead' ? {} : { tookPlace: false },
    );
    await settled();
    expect(await statuses()).toEqual(['undone', 'undone', 'undone']);
    expect(effects.filter((effect) => effect.startsWith('unbook'))).toEqual([
      'unbook c "c"',
      'unbook b "b"',
      'unbook a "a"',
    ]);
  });

  it('reaches the calls of sub-runs', async () => {
    const inner = subRunTool({
      id: 'inquire',
      description: 'Does it.',
      tools: ['shop__*'],
      model: new ScriptedModel([calls(book('i')), text('Done.')]),
    });
    const { run, runs, settled, effects } = await shop(
      [calls(call('inquire', { prompt: 'Book.' })), text('Done.')],
      { tools: [inner] },
    );
    const runId = await run();
    await settled();
    expect((await runs.undo(runId, alice)).calls).toMatchObject([
      { declaredId: 'shop__book', status: 'undone' },
    ]);
    expect(effects).toEqual(['book i', 'unbook i "i"']);
  });

  it('is for the actor of the run and for operators of its tenant, and each use by one is in the audit', async () => {
    const { module, run, runs, settled, effects } = await shop([calls(book('a')), text('Done.')], {
      directives: { operators: ['clerk'], firstDelayMs: 1 },
    });
    const runId = await run();
    await settled();
    for (const stranger of [bob, opsOfGlobex, { actor: { id: 'carl' }, tenant: 'acme' }])
      await expect(runs.undo(runId, stranger)).rejects.toMatchObject({ code: 'unknown_run' });
    await expect(runs.undo(runId, alice)).rejects.toMatchObject({
      name: 'DirectiveError',
      code: 'not_permitted',
    });
    expect(effects).toEqual(['book a']);
    expect((await runs.undo(runId, ops)).calls).toMatchObject([{ status: 'undone' }]);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 500 });
    expect(entries).toContainEqual(
      expect.objectContaining({
        kind: 'operator',
        action: 'undo',
        granted: true,
        details: { runId },
      }),
    );
  });

  it('is refused for a run that has not ended, that is not durable, or that does not exist', async () => {
    const { runs, module } = await shop([calls(note('n')), calls(note('n'))], {
      policy: { version: 'asks', allow: ['*'], requireApproval: [{ tools: ['shop__note'] }] },
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const waiting = await loop.run({ prompt: 'Go on.', ...alice, durable: true });
    await expect(runs.undo(waiting.runId, alice)).rejects.toMatchObject({
      message: expect.stringContaining('Cancel it first'),
    });
    const suspended = await loop.run({ prompt: 'Go on.', ...alice });
    await expect(runs.undo(suspended.runId, alice)).rejects.toMatchObject({
      message: expect.stringContaining('not durable. Undo its directives one by one'),
    });
    for (const id of ['', 'no such run', 7 as never, null as never])
      await expect(runs.undo(id, alice)).rejects.toMatchObject({ code: 'unknown_run' });
    await expect(runs.undo('no such run', ops)).rejects.toMatchObject({ code: 'unknown_run' });
  });
});
