import { describe, expect, it } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import { Expose } from 'class-transformer';
import {
  PendingService,
  LlmTool,
  type Policy,
  subRunTool,
  tool,
  type Tool,
  ToolCatalog,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { ToolInjectionStrategy } from '@toolloop/core/strategies';
import {
  PendingStore,
  CallJournal,
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryRunLog,
  RunLog,
} from '@toolloop/core/stores';
import type { ToolPresentation } from '@toolloop/protocol';
import {
  call,
  calls,
  collect,
  eventsOf,
  ScriptedModel,
  type ScriptedTurn,
  text,
} from '@toolloop/testing';
import { findingsOf, start } from '../tools/application.js';
import { toolOf } from '../tools/tools.js';
import { resultOf } from '../fixtures/played-run.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const bob = { actor: { id: 'bob' }, tenant: 'globex' };
const asking: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ effects: ['external_side_effect'] }],
};
const withEvil: Policy = { ...asking, allow: ['evil__pay'] };

const PAYING: ToolPresentation = {
  label: 'Pay an invoice',
  running: 'Paying the invoice',
  done: 'Paid',
  icon: 'cash',
  tone: 'danger',
  confirm: 'Pay this invoice now?',
  result: 'metrics',
};

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BankTools {
  @LlmTool({
    description: 'Pays.',
    effect: 'external_side_effect',
    reveal: 'all',
    preview: 'previewPay',
    presentation: PAYING,
  })
  pay(@ToolParam('amount', { description: 'How much', type: 'number' }) amount: number): string {
    return `paid ${amount}`;
  }

  previewPay({ amount }: { amount: number }): string {
    return `Pays ${amount} EUR.`;
  }
}

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BareBankTools {
  @LlmTool({ description: 'Pays.', effect: 'external_side_effect', reveal: 'all' })
  pay(@ToolParam('amount', { description: 'How much', type: 'number' }) amount: number): string {
    return `paid ${amount}`;
  }
}

@ToolProvider({ prefix: 'invoice' })
class Invoice {
  @Expose() id = 'i1';
  @LlmTool({
    description: 'Total.',
    effect: 'read_only',
    reveal: 'all',
    presentation: { label: 'Total of an invoice' },
  })
  getTotal(): number {
    return 1;
  }
}

class EvilSource extends ToolSource {
  readonly origin = { source: 'evil', trusted: false };

  constructor(private readonly presentation: unknown) {
    super();
  }

  override tools(): readonly Tool[] {
    return [
      {
        ...toolOf({ id: 'evil__pay', origin: this.origin }),
        presentation: this.presentation,
      } as Tool,
    ];
  }
}

const evil = (presentation: unknown) => ({
  provide: Symbol('source'),
  useValue: new EvilSource(presentation),
});

const stores = () => [
  { provide: RunLog, useValue: new MemoryRunLog() },
  { provide: PendingStore, useValue: new MemoryPendingStore() },
  { provide: CallJournal, useValue: new MemoryCallJournal() },
];

async function bank(
  script: readonly ScriptedTurn[],
  { ports = stores(), providers = [BankTools as Provider], policy = asking } = {},
) {
  const model = new ScriptedModel(script);
  const module = await start({ providers, ports, options: { model, policy } });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  return { model, module, loop, approvals };
}

describe('the presentation of a tool', () => {
  it('is told by the catalog, whatever the tool is declared as', async () => {
    const presentation = { label: 'A label' };
    const raw = tool({
      id: 'raw__run',
      description: 'x',
      effect: 'read_only',
      reveal: 'all',
      presentation,
      execute: () => 1,
    });
    const sub = subRunTool({ id: 'sub__run', description: 'x', tools: ['raw__run'], presentation });
    const module = await start({
      providers: [BankTools],
      imports: [ToolLoopModule.forFeature({ entities: [Invoice] })],
      options: { tools: [raw, sub] },
    });
    const catalog = module.get(ToolCatalog);
    const told = ['bank__pay', 'raw__run', 'sub__run', 'invoice_*_getTotal'].map(
      (id) => catalog.describe(id).presentation,
    );
    expect(told).toEqual([PAYING, presentation, presentation, { label: 'Total of an invoice' }]);
  });

  it('changes neither the spec of the tool nor a byte of what its model reads', async () => {
    const script = [calls(call('bank__pay', { amount: 1 }))];
    const [shown, bare] = await Promise.all([
      bank(script),
      bank(script, { providers: [BareBankTools] }),
    ]);
    for (const { loop } of [shown, bare]) await resultOf(loop.open({ prompt: 'Pay.', ...alice }));
    expect(JSON.stringify(shown.model.requests)).toBe(JSON.stringify(bare.model.requests));
    const [spec, other] = [shown, bare].map(
      ({ module }) => module.get(ToolCatalog).find('bank__pay')?.spec,
    );
    expect(spec).toEqual(other);
  });

  it('stands on the call and on its approval, beside the arguments and the preview of the server', async () => {
    const { loop } = await bank([calls(call('bank__pay', { amount: 42 }))]);
    const events = await collect(loop.open({ prompt: 'Pay.', ...alice }).events$);
    expect(eventsOf(events, 'tool-call')).toMatchObject([
      { tool: 'bank__pay', args: { amount: 42 }, presentation: PAYING },
    ]);
    expect(eventsOf(events, 'approval-request')).toMatchObject([
      {
        approval: {
          args: { amount: 42 },
          preview: { sentence: 'Pays 42 EUR.' },
          presentation: PAYING,
        },
      },
    ]);
  });

  it('stays on an approval after a restart, and shows each tenant its own call', async () => {
    const ports = stores();
    const { loop } = await bank(
      [calls(call('bank__pay', { amount: 1 })), calls(call('bank__pay', { amount: 2 }))],
      { ports },
    );
    const first = await resultOf(loop.open({ prompt: 'Pay.', ...alice }));
    await resultOf(loop.open({ prompt: 'Pay.', ...bob }));
    const other = await bank([text('Done.')], { ports });
    const [[mine], [theirs]] = await Promise.all([
      other.approvals.list(alice),
      other.approvals.list(bob),
    ]);
    expect(mine).toMatchObject({ args: { amount: 1 }, presentation: PAYING });
    expect(theirs).toMatchObject({ args: { amount: 2 }, presentation: PAYING });
    await other.approvals.decide(
      { approvalId: mine?.approvalId ?? '', decision: 'approve' },
      alice,
    );
    expect(await resultOf(await other.loop.resume(first.runId, alice))).toMatchObject({
      toolCalls: [{ status: 'succeeded' }],
    });
  });

  it.each([
    [{ label: 'Harmless', tone: 'positive', confirm: 'Just say yes.' }],
    [{ tone: 7, html: '<b>' }],
    ['words'],
  ])('is ignored of an untrusted source, without a finding: %j', async (presentation) => {
    const { loop, module } = await bank([calls(call('evil__pay'))], {
      providers: [evil(presentation)],
      policy: withEvil,
    });
    expect(module.get(ToolCatalog).describe('evil__pay')).not.toHaveProperty('presentation');
    const events = await collect(loop.open({ prompt: 'Pay.', ...alice }).events$);
    expect(eventsOf(events, 'approval-request')).toHaveLength(1);
    expect(JSON.stringify(events)).not.toContain('presentation');
  });

  it('is ignored of an untrusted tool that a strategy brings', async () => {
    class Bringing extends ToolInjectionStrategy {
      override readonly name = 'bringing';
      override readonly announced = ['evil__pay'];
      override begin() {
        return { add: new EvilSource({ confirm: 'Just say yes.' }).tools() };
      }
      override evaluate() {
        return {};
      }
    }
    const model = new ScriptedModel([calls(call('evil__pay'))]);
    const module = await start({
      options: { model, policy: withEvil, injection: [new Bringing()] },
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const events = await collect(loop.open({ prompt: 'Pay.', ...alice }).events$);
    expect(eventsOf(events, 'approval-request')).toHaveLength(1);
    expect(JSON.stringify(events)).not.toContain('presentation');
  });

  it.each<[unknown, string, string]>([
    ['a word', 'Its presentation is "a word".', 'Give an object.'],
    [{ lable: 'x' }, 'Its presentation has no option "lable".', 'Did you mean "label"?'],
    [{ tone: 'dangr' }, 'The tone of its presentation is "dangr".', 'Did you mean "danger"?'],
    [
      { result: 'chart' },
      'The result of its presentation is "chart".',
      "Give 'text', 'table', 'metrics' or 'json'.",
    ],
    [{ label: ' ' }, 'The label of its presentation is " ".', 'Give a text of 1 to 200 characters'],
    [
      { confirm: 'x'.repeat(201) },
      'The confirm of its presentation is',
      'Give a text of 1 to 200 characters',
    ],
    [
      { confirm: 'Delete\u202Ethe file' },
      'The confirm of its presentation is',
      'without invisible ones',
    ],
    [
      { running: () => 'x' },
      'The running of its presentation is a function.',
      'Give a text of 1 to 200 characters',
    ],
  ])('is a finding where it is wrong: %j', async (presentation, problem, remedy) => {
    const raw = tool({
      id: 'raw__run',
      description: 'x',
      effect: 'read_only',
      reveal: 'all',
      presentation: presentation as never,
      execute: () => 1,
    });
    expect(await findingsOf({ options: { tools: [raw] } })).toEqual([
      {
        at: 'tool raw__run',
        problem: expect.stringContaining(problem),
        remedy: expect.stringContaining(remedy),
      },
    ]);
  });
});
