import { describe, expect, it } from '@jest/globals';
import type { JSONSchema7 } from 'json-schema';
import type { Provider } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  clientTool,
  PendingError,
  type Policy,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import { RunService } from '@toolloop/core/runs';
import {
  CallJournal,
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  PendingStore,
  RunLog,
} from '@toolloop/core/stores';
import {
  call,
  calls,
  collect,
  eventsOf,
  ScriptedModel,
  type ScriptedTurn,
  text,
} from '@toolloop/testing';
import { withdraw } from '../../../src/plugins/inbox/withdrawal.js';
import { inAnHour } from '../../fixtures/time.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const COLOUR = {
  type: 'object',
  properties: { colour: { type: 'string', enum: ['red', 'blue'] } },
  required: ['colour'],
} satisfies JSONSchema7;
const INPUT = {
  type: 'object',
  properties: { title: { type: 'string' }, note: { type: 'string' } },
  required: ['title'],
} satisfies JSONSchema7;
const pick = clientTool({
  id: 'screen__pick',
  description: 'Lets the user pick a colour.',
  effect: 'read_only',
  input: INPUT,
  output: COLOUR,
});
const print = clientTool({
  id: 'screen__print',
  description: 'Prints a page.',
  effect: 'external_side_effect',
  input: INPUT,
});
const picking = () => call('screen__pick', { title: 'Which?' });
const printing = () => call('screen__print', { title: 'Receipt' });
const open: Policy = { version: 'v1', allow: ['*'], flow: 'off' };

/** Two processes over the same stores are two desks with the same providers. */
async function desk(
  script: readonly ScriptedTurn[],
  {
    providers = [],
    policy = open,
  }: { readonly providers?: readonly Provider[]; readonly policy?: Policy } = {},
) {
  const model = new ScriptedModel(script);
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy,
        providers,
        tools: [pick, print],
        audit: { key: 'k'.repeat(32) },
      }),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const ask = (more = {}) => loop.run({ prompt: 'Go on.', ...alice, ...more });
  const resume = async (runId: string, who = alice) => (await loop.resume(runId, who)).result;
  const refused = (runId: string, reply: unknown, who: typeof alice = alice) =>
    runs.answer(runId, reply as never, who).then(
      () => 'taken',
      (error: PendingError) => error.code,
    );
  return {
    module,
    model,
    loop,
    runs,
    ask,
    resume,
    refused,
    store: module.get<PendingStore>(PendingStore),
  };
}

const idOf = ({ toolCalls }: { toolCalls: readonly { toolCallId: string }[] }): string =>
  toolCalls[0]?.toolCallId ?? '';

/** A run that waits for its client. */
async function waiting(
  turn: ScriptedTurn = calls(picking()),
  options?: Parameters<typeof desk>[1],
) {
  const made = await desk([turn, text('Done.')], options);
  const result = await made.ask();
  const [asked] = await made.store.list({ tenant: 'acme' });
  return {
    ...made,
    result,
    runId: result.runId,
    toolCallId: asked?.binding.toolCallId ?? '',
    asked,
  };
}

describe('a tool that runs in the client', () => {
  it('has the run wait, shows the arguments to the client, and takes its result as the result of the call', async () => {
    const { loop, runs, model } = await desk([calls(picking()), text('Red it is.')]);
    const events = await collect(loop.stream({ prompt: 'Which colour?', ...alice }));
    const [asked] = eventsOf(events, 'pending-request');
    expect(asked).toMatchObject({
      kind: 'client',
      request: {
        tool: 'screen__pick',
        args: { title: 'Which?' },
        effect: 'read_only',
        resultSchema: { required: ['colour'] },
      },
    });
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'waiting',
      waitingFor: 'client',
    });
    const { runId, toolCallId } =
      asked?.kind === 'client' ? asked.request : { runId: '', toolCallId: '' };
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'waiting', waitingFor: 'client' });
    await runs.answer(runId, { toolCallId, result: { colour: 'red' } }, alice);
    const rest = await collect(await runs.resume(runId, alice));
    expect(eventsOf(rest, 'pending-answer')).toMatchObject([
      { kind: 'client', toolCallId, decision: 'answer', answeredBy: 'alice' },
    ]);
    expect(eventsOf(rest, 'tool-result')).toMatchObject([
      { record: { status: 'succeeded', result: { colour: 'red' } } },
    ]);
    expect(rest.at(-1)).toMatchObject({ finishReason: 'stop', text: 'Red it is.' });
    expect(await runs.get(runId, alice)).not.toHaveProperty('waitingFor');
    const last = model.requests.at(-1)?.messages.at(-1);
    expect(last).toMatchObject({ role: 'tool', content: '{"colour":"red"}' });
  });

  it('returns what is untrusted, whatever its declaration says', async () => {
    const trusting = clientTool({
      id: 'screen__trust',
      description: 'Asks.',
      effect: 'read_only',
      labels: { returns: 'trusted', reads: 'public' } as never,
    });
    const module = await Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({
          model: new ScriptedModel([calls(call('screen__trust', {})), text('ok')]),
          policy: open,
          tools: [trusting],
        }),
      ],
    }).compile();
    module.useLogger(false);
    await module.init();
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { runId, toolCalls } = await loop.run({ prompt: 'Go on.', ...alice });
    await module
      .get(RunService)
      .answer(runId, { toolCallId: idOf({ toolCalls }), result: 'obey' }, alice);
    const { messages } = await (await loop.resume(runId, alice)).result;
    expect(messages.find(({ role }) => role === 'tool')?.labels).toEqual({
      returns: 'untrusted',
      reads: 'public',
    });
  });

  it('invariant 12: takes no forged result: of another run, call, person or tenant, of a wrong shape, or a second one', async () => {
    const { runId, toolCallId, refused, ask, resume, asked } = await waiting(
      calls(picking(), call('screen__pick', { title: 'And?' })),
    );
    const reply = { toolCallId, result: { colour: 'red' } };
    const other = await ask();
    expect(await refused(other.runId, reply)).toBe('not_found');
    expect(await refused(other.runId, { ...reply, pendingId: asked?.id })).toBe('not_found');
    expect(await refused(runId, { ...reply, toolCallId: 'call_of_nobody' })).toBe('not_found');
    expect(await refused(runId, reply, { actor: { id: 'bob' }, tenant: 'acme' })).toBe('not_found');
    expect(await refused(runId, reply, { actor: { id: 'alice' }, tenant: 'globex' })).toBe(
      'not_found',
    );
    for (const result of [
      { colour: 'green' },
      {},
      'red',
      null,
      [],
      { colour: 'red', more: 1 },
      undefined,
      () => 'red',
      'x'.repeat(70_000),
    ])
      expect(await refused(runId, { toolCallId, result })).toBe('invalid_answer');
    for (const forged of [
      { toolCallId, decision: 'approve' },
      { toolCallId },
      { approvalId: asked?.id, decision: 'approve' },
      { ...reply, error: 'no' },
      {},
      null,
      'yes',
    ])
      expect(await refused(runId, forged)).toBe('invalid_answer');
    expect(await refused(runId, reply)).toBe('taken');
    expect(await refused(runId, reply)).toBe('already_answered');
    // the other call
    expect(await resume(runId)).toMatchObject({ finishReason: 'waiting', waitingFor: 'client' });
  });

  it('invariant 12: takes one of two results that are given at once, and keeps both attempts in the audit', async () => {
    const { runId, toolCallId, refused, resume, module } = await waiting();
    const given = await Promise.all([
      refused(runId, { toolCallId, result: { colour: 'red' } }),
      refused(runId, { toolCallId, result: { colour: 'blue' } }),
    ]);
    expect(given.toSorted()).toEqual(['already_answered', 'taken']);
    const { toolCalls } = await resume(runId);
    expect(toolCalls[0]).toMatchObject({
      result: { colour: given[0] === 'taken' ? 'red' : 'blue' },
    });
    const entries = [];
    for await (const entry of module.get(AuditTrail).entries('acme')) entries.push(entry);
    expect(entries.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['pending-request', 'pending-answer', 'pending-refusal', 'outcome']),
    );
    expect(JSON.stringify(entries)).not.toMatch(/"(?:red|blue)"/);
  });

  it('takes nothing after it was withdrawn, by its actor alone or with its run', async () => {
    const { runId, toolCallId, refused, resume } = await waiting();
    expect(
      await refused(
        runId,
        { toolCallId, decision: 'withdraw' },
        { actor: { id: 'mia' }, tenant: 'acme' },
      ),
    ).toBe('not_found');
    expect(await refused(runId, { toolCallId, decision: 'withdraw', reason: 'Never mind.' })).toBe(
      'taken',
    );
    expect(await refused(runId, { toolCallId, result: { colour: 'red' } })).toBe('withdrawn');
    expect((await resume(runId)).toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { code: 'aborted', safeMessage: expect.stringContaining('Never mind.') },
    });
    const cancelled = await waiting();
    await cancelled.runs.cancel(cancelled.runId, alice);
    expect(
      await cancelled.refused(cancelled.runId, {
        toolCallId: cancelled.toolCallId,
        result: { colour: 'red' },
      }),
    ).toBe('withdrawn');
  });

  it.each([
    ['a read as one that timed out', picking(), 'timeout'],
    ['what changes things as one of unknown outcome', printing(), 'unknown_outcome'],
  ])('expires after ten minutes: %s', async (_what, made, code) => {
    const { runId, toolCallId, refused, resume, asked } = await waiting(calls(made));
    expect(Date.parse(asked?.expiresAt ?? '') - Date.parse(asked?.createdAt ?? '')).toBe(600_000);
    await inAnHour(async () => {
      expect(await refused(runId, { toolCallId, result: { colour: 'red' } })).toBe('expired');
      expect((await resume(runId)).toolCalls[0]).toMatchObject({
        status: 'failed',
        error: { code },
      });
    });
  });

  it('fails with the words of a client that will not, which are untrusted', async () => {
    const { runId, toolCallId, refused, resume } = await waiting();
    expect(await refused(runId, { toolCallId, error: 'The dialog was closed.' })).toBe('taken');
    const { toolCalls, messages } = await resume(runId);
    expect(toolCalls[0]).toMatchObject({
      status: 'failed',
      error: {
        code: 'execution_failed',
        safeMessage: 'The client did not make this call. It said: The dialog was closed.',
      },
    });
    expect(messages.find(({ role }) => role === 'tool')?.labels).toMatchObject({
      returns: 'untrusted',
    });
  });

  it('is sent to the client only once a person has approved it, and that approval still holds when the result is there', async () => {
    const policy: Policy = {
      ...open,
      requireApproval: [{ tools: ['screen__print'], roles: ['manager'] }],
      runBudgets: [{ tools: ['screen__print'], calls: 1 }],
    };
    const { runId, store, runs, resume, model } = await waiting(calls(printing()), { policy });
    const mia = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
    const [approval] = await store.list({ tenant: 'acme' });
    expect(approval?.kind).toBe('approval');
    expect(await store.list({ tenant: 'acme' })).toHaveLength(1);
    await runs.answer(runId, { approvalId: approval?.id ?? '', decision: 'approve' }, mia);
    expect(await resume(runId)).toMatchObject({ finishReason: 'waiting', waitingFor: 'client' });
    const asked = (await store.list({ tenant: 'acme' }))[1];
    expect(asked?.kind).toBe('client');
    await expect(
      runs.answer(runId, { toolCallId: asked?.binding.toolCallId ?? '', result: 'ok' }, mia),
    ).rejects.toMatchObject({
      code: 'not_found',
    });
    await runs.answer(runId, { toolCallId: asked?.binding.toolCallId ?? '', result: 'ok' }, alice);
    expect((await resume(runId)).toolCalls[0]).toMatchObject({ status: 'succeeded', result: 'ok' });
    expect(model.requests).toHaveLength(2);
  });

  it('asks a client once for what a repeated request would change, and tells both runs its one result', async () => {
    const { ask, runs, resume, store } = await desk([
      calls(printing()),
      calls(printing()),
      text('One.'),
      text('Two.'),
    ]);
    const [first, second] = [await ask({ requestId: 'r-1' }), await ask({ requestId: 'r-1' })];
    const asked = await store.list({ tenant: 'acme' });
    expect(asked).toHaveLength(1);
    await runs.answer(
      asked[0]?.binding.runId ?? '',
      { toolCallId: idOf(first), result: 'printed' },
      alice,
    );
    for (const { runId } of [first, second])
      expect((await resume(runId)).toolCalls[0]).toMatchObject({
        status: 'succeeded',
        result: 'printed',
      });
  });

  it('invariant 9: keeps what two tenants wait for apart', async () => {
    const { loop, runs, store } = await desk([
      calls(picking()),
      calls(picking()),
      text('A.'),
      text('G.'),
    ]);
    const globex = { actor: { id: 'alice' }, tenant: 'globex' };
    const [mine, theirs] = [
      await loop.run({ prompt: 'a', ...alice }),
      await loop.run({ prompt: 'g', ...globex }),
    ];
    expect(
      [await store.list({ tenant: 'acme' }), await store.list({ tenant: 'globex' })].map(
        ({ length }) => length,
      ),
    ).toEqual([1, 1]);
    await runs.answer(
      theirs.runId,
      { toolCallId: idOf(theirs), result: { colour: 'blue' } },
      globex,
    );
    const result = await (await loop.resume(theirs.runId, globex)).result;
    expect(result.toolCalls[0]).toMatchObject({ result: { colour: 'blue' } });
    expect(await runs.get(mine.runId, alice)).toMatchObject({
      status: 'waiting',
      waitingFor: 'client',
    });
  });

  it('continues at once where its run waits in its process, and asks no one where the run asks no one', async () => {
    const { loop, runs, ask } = await desk([
      calls(picking()),
      text('Red.'),
      calls(picking()),
      text('No.'),
    ]);
    const handle = loop.open({ prompt: 'Go on.', approvals: 'wait', ...alice });
    handle.events$.subscribe((event) => {
      if (event.type !== 'pending-request' || event.kind !== 'client') return;
      void runs.answer(
        event.runId,
        { toolCallId: event.request.toolCallId, result: { colour: 'red' } },
        alice,
      );
    });
    expect(await handle.result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }],
    });
    expect((await ask({ approvals: 'deny' })).toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed' },
    });
  });

  it('loses nothing with its process: another one takes the result, and continues', async () => {
    const providers = [
      { provide: RunLog, useValue: new MemoryRunLog() },
      { provide: PendingStore, useValue: new MemoryPendingStore() },
      { provide: CallJournal, useValue: new MemoryCallJournal() },
    ];
    const first = await waiting(calls(printing()), { providers });
    const second = await desk([text('Done.')], { providers });
    await second.runs.answer(first.runId, { toolCallId: first.toolCallId, result: 1 }, alice);
    expect(await second.resume(first.runId)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded', result: 1 }],
    });
    expect(await first.refused(first.runId, { toolCallId: first.toolCallId, result: 2 })).toBe(
      'already_answered',
    );
  });

  it('is asked for anew where its run was handed on and what was asked was withdrawn', async () => {
    const { runId, asked, resume, store } = await waiting();
    await withdraw(store, asked?.id ?? '');
    expect(await resume(runId)).toMatchObject({ finishReason: 'waiting', waitingFor: 'client' });
    expect(await store.list({ tenant: 'acme' })).toHaveLength(2);
  });

  it('is a finding where its output or its time cannot be', async () => {
    const wrong = clientTool({
      id: 'screen__odd',
      description: 'Odd.',
      effect: 'read_only',
      output: { type: 'nonsense' } as never,
      expiresAfterMs: 0,
    });
    const start = Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: open, tools: [wrong] }),
      ],
    })
      .compile()
      .then((module) => module.useLogger(false) ?? module)
      .then((module) => module.init());
    await expect(start).rejects.toThrow(/expiresAfterMs is no time[\s\S]*output cannot be checked/);
  });
});
