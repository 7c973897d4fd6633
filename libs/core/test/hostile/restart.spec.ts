import { canonicalJson, sha256 } from '../../src/schema/canonical-json.js';
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Expose } from 'class-transformer';
import { IsNumber, IsString } from 'class-validator';
import {
  PendingService,
  LlmTool,
  type Policy,
  tool,
  ToolLoopModule,
  ToolLoopService,
  toolLoopToken,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import {
  PendingStore,
  AuditStore,
  CallJournal,
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryRunLog,
  RunLog,
} from '@toolloop/core/stores';
import { ScriptedModel, call, calls, collect, text, type ScriptedTurn } from '@toolloop/testing';
import { resultsIn, resultOf } from '../fixtures/played-run.js';
import { alice, desk } from './bench.js';

const off: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const pay = (amount: number) => call('bank__pay', { to: 'ann', amount });

const deleted: string[] = [];

@ToolProvider({ prefix: 'person' })
class Person {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Deletes the person.', effect: 'state_change', reveal: 'all' })
  remove(): string {
    deleted.push(this.id);
    return `removed ${this.id}`;
  }
}

@Injectable()
@ToolProvider({ namespace: 'people' })
class PeopleTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', output: Person })
  find(@ToolParam('id', { description: 'Id' }) id: string): Person {
    return new Person(id);
  }

  @LlmTool({ description: 'Asks.', effect: 'state_change', reveal: 'all' })
  note(@ToolParam('text', { description: 'Text' }) words: string): string {
    return words;
  }
}

function stores() {
  return [
    { provide: RunLog, useValue: new MemoryRunLog() },
    { provide: PendingStore, useValue: new MemoryPendingStore() },
    { provide: CallJournal, useValue: new MemoryCallJournal() },
  ];
}

async function process(
  script: readonly ScriptedTurn[],
  policy: Policy,
  providers: ReturnType<typeof stores>,
) {
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model: new ScriptedModel(script), policy, providers }),
      ToolLoopModule.forFeature({ entities: [Person] }),
    ],
    providers: [PeopleTools],
  }).compile();
  module.useLogger(false);
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  return { module, loop, approvals };
}

describe('a handle', () => {
  it('stands for the same person after a restart, and for no other', async () => {
    const policy: Policy = { ...off, requireApproval: [{ tools: ['people__note'] }] };
    const kept = stores();
    const one = await process(
      [
        calls(call('people__find', { id: 'ann@acme.org' })),
        calls(call('people__note', { text: 'x' })),
      ],
      policy,
      kept,
    );
    const first = await resultOf(one.loop.open({ prompt: 'Remove ann.', ...alice }));
    expect(first.injectedTools.map(({ id }) => id)).toEqual(['person_h1_remove']);
    const [request] = await one.approvals.list(alice);
    await one.approvals.decide(
      { approvalId: request?.approvalId ?? '', decision: 'approve' },
      alice,
    );
    // another process
    const script = [
      calls(call('people__find', { id: 'bob@acme.org' })),
      calls(call('person_h1_remove')),
      text('Done.'),
    ];
    const two = await process(script, policy, kept);
    await resultOf(await two.loop.resume(first.runId, alice));
    expect(deleted).toEqual([]); // the model knows h1 as ann
  });
});

describe('a resumed run', () => {
  it('keeps out the injected tools that its request excludes', async () => {
    deleted.length = 0;
    const policy: Policy = { ...off, requireApproval: [{ tools: ['people__note'] }] };
    const script = [
      calls(call('people__find', { id: 'ann' })),
      calls(call('people__note', { text: 'x' })),
      calls(call('person_ann_remove')),
      text('Done.'),
    ];
    const one = await process(script, policy, stores());
    const first = await resultOf(one.loop.open({ prompt: 'Go.', ...alice }));
    const [request] = await one.approvals.list(alice);
    await one.approvals.decide(
      { approvalId: request?.approvalId ?? '', decision: 'approve' },
      alice,
    );
    await resultOf(await one.loop.resume(first.runId, { ...alice, exclude: [Person] }));
    expect(deleted).toEqual([]);
  });

  it('belongs, with its named loop, to no other loop without its policy', async () => {
    const done: object[] = [];
    const payTool = tool({
      id: 'bank__pay',
      description: 'Pays.',
      effect: 'external_side_effect',
      reveal: 'all',
      input: { type: 'object', properties: { amount: { type: 'number' } } },
      execute: (args) => done.push(args as object),
    });
    const profile = {
      policy: { ...off, version: 'support', requireApproval: [{ tools: ['bank__pay'] }] },
    };
    const module = await Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({
          model: new ScriptedModel([calls(call('bank__pay', { amount: 1 })), text('x')]),
          tools: [payTool],
          policy: off,
        }),
        ToolLoopModule.forFeature({ loops: { support: profile } }),
      ],
    }).compile();
    module.useLogger(false);
    await module.init();
    const support: ToolLoopService = module.get(toolLoopToken('support'), { strict: false });
    const whole: ToolLoopService = module.get(ToolLoopService);
    const first = await resultOf(support.open({ prompt: 'Go.', ...alice }));
    expect(first.finishReason).toBe('waiting');
    await whole.resume(first.runId, alice as never).then(resultOf, () => undefined);
    expect(done).toEqual([]);
  });

  it('continues with the entities of its latest part, not of an earlier one', async () => {
    const policy: Policy = { ...off, requireApproval: [{ tools: ['people__note'] }] };
    const shop = await process([calls(call('people__note', { text: 'x' }))], policy, stores());
    await resultOf(shop.loop.open({ prompt: 'Go.', ...alice }));
    const { runs } = Reflect.get(shop.loop, 'runs') as never as { runs?: unknown };
    void runs;
    const services = Reflect.get(Reflect.get(shop.loop, 'runs') as object, 'services') as object;
    const suspended = Reflect.get(services, 'suspended') as { processStates: Map<string, unknown> };
    const [runId = ''] = suspended.processStates.keys();
    const [request] = await shop.approvals.list(alice);
    await shop.approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'deny' }, alice);
    await resultOf(await shop.loop.resume(runId, alice));
    expect(suspended.processStates.size).toBe(0); // what nobody can resume any more is let go
  });
});

class Pin {
  @IsString() @Expose({ groups: ['model'] }) pin!: string;
  @IsNumber() @Expose() amount!: number;
}

function secretTool(done: object[]) {
  return tool<Pin>({
    id: 'vault__open',
    description: 'Opens.',
    effect: 'state_change',
    reveal: 'all',
    input: Pin,
    execute: (input) => {
      done.push({ pin: input.pin, amount: input.amount });
      return 'open';
    },
  });
}

describe('a hidden argument', () => {
  it('stays hidden from a person who sees the approval', async () => {
    const shop = await desk(
      [calls(call('vault__open', { pin: '4711', amount: 1 }))],
      { ...off, requireApproval: [{ tools: ['vault__open'] }] },
      { extra: [secretTool([])] },
    );
    await shop.run();
    const [one] = await shop.approvals.list(alice);
    expect(one?.args).toMatchObject({ pin: '[redacted]' });
    const shown = JSON.stringify(await shop.approvals.get(one?.approvalId ?? '', alice));
    const guesses = Array.from({ length: 10_000 }, (_, n) => String(n).padStart(4, '0'));
    expect(
      guesses.find((pin) => shown.includes(sha256(canonicalJson({ amount: 1, pin })))),
    ).toBeUndefined();
  });

  it('survives an edit by a person who may not see it', async () => {
    const done: object[] = [];
    const shop = await desk(
      [calls(call('vault__open', { pin: '4711', amount: 1 })), text('Done.')],
      { ...off, requireApproval: [{ tools: ['vault__open'], mayEdit: true }] },
      { extra: [secretTool(done)] },
    );
    const first = await shop.run();
    const [one] = await shop.approvals.list(alice);
    await shop.approvals.decide({ approvalId: one?.approvalId ?? '', decision: 'approve' }, alice, {
      args: { ...one?.args, amount: 2 },
    });
    await shop.resume(first.runId);
    expect(done).not.toContainEqual({ pin: '[redacted]', amount: 2 });
  });

  it('is not told by the reason of a budget', async () => {
    class Sum {
      @IsNumber() @Expose({ groups: ['model'] }) salary!: number;
    }
    const salary = tool<Sum>({
      id: 'hr__set',
      description: 'Sets.',
      effect: 'state_change',
      reveal: 'all',
      input: Sum,
      execute: () => 'ok',
    });
    const policy: Policy = {
      ...off,
      runBudgets: [{ tools: ['hr__set'], sum: { argument: '/salary', most: 10 }, beyond: 'ask' }],
    };
    const shop = await desk([calls(call('hr__set', { salary: 98765 }))], policy, {
      extra: [salary],
    });
    const handle = shop.loop.open(shop.request());
    const events = await collect(handle.events$);
    expect(JSON.stringify(events)).not.toContain('98765');
  });
});

describe('a run that ends otherwise than waiting', () => {
  it('keeps the results of the step that waited when it cannot be suspended', async () => {
    const failing = new MemoryRunLog();
    failing.add = () => Promise.reject(new Error('disk full'));
    const shop = await desk(
      [calls(call('notes__add', { text: 'a' }), pay(1))],
      { ...off, requireApproval: [{ tools: ['bank__pay'] }] },
      {
        providers: [{ provide: RunLog, useValue: failing }],
      },
    );
    const result = await shop.run({ conversationId: 'c' });
    expect(shop.done).toMatchObject([{ id: 'note' }]);
    expect(resultsIn(result.messages)[0]).toBe('noted');
  });

  it('leaves no approval behind that answers to nothing', async () => {
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const handle = shop.loop.open(shop.request({ approvals: 'wait' }));
    const ending = resultOf(handle);
    while ((await shop.approvals.list(alice)).length === 0)
      await new Promise((resolve) => setTimeout(resolve, 2));
    handle.cancel();
    await ending;
    expect(await shop.approvals.list(alice)).toEqual([]);
  });

  it('keeps its approved call when the instructions fail on resume', async () => {
    const shop = await desk([calls(pay(1)), text('Done.')], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const first = await shop.run();
    await shop.decide('approve');
    await shop.resume(first.runId, {
      instructions: () => Promise.reject(new Error('database away')),
    });
    await expect(shop.resume(first.runId)).resolves.toMatchObject({ finishReason: 'stop' });
  });
});

describe('shadow', () => {
  it('is recorded though a run has a policy of its own', async () => {
    const shop = await desk([calls(call('inbox__read')), text('Done.')], off);
    shop.module
      .get(DataPolicyEngine)
      .replace([off, { ...off, version: 'shadow', allow: [], shadow: true }]);
    await shop.run({ policy: { ...off, version: 'run' } });
    const entries = await shop.module.get(AuditStore).read('acme', { from: 1, limit: 10 });
    expect(JSON.stringify(entries)).toContain('"shadow"');
  });
});

describe('`__proto__`', () => {
  it('goes through rules, suspension and audit unharmed when it is in arguments', async () => {
    const open = tool({
      id: 'open__any',
      description: 'Any.',
      effect: 'state_change',
      reveal: 'all',
      input: { type: 'object', properties: { o: { type: 'object' } } },
      execute: (a) => JSON.stringify(a),
    });
    const shop = await desk(
      [
        calls({ name: 'open__any', arguments: '{"o":{"__proto__":{"x":1},"constructor":2}}' }),
        text('Done.'),
      ],
      { ...off, requireApproval: [{ tools: ['open__any'] }] },
      { extra: [open] },
    );
    const first = await shop.run();
    await shop.decide('approve');
    const result = await shop.resume(first.runId);
    expect(resultsIn(result.messages)[0]).toBe('{"o":{"__proto__":{"x":1},"constructor":2}}');
  });
});
