import { describe, expect, it } from '@jest/globals';
import { type Policy, ToolLoopModule } from '@toolloop/core';
import { PolicyEngine } from '@toolloop/core/policy';
import {
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  type ToolLoopStores,
} from '@toolloop/core/stores';
import type { Decision, RehearsedRun } from '@toolloop/protocol';
import { Test } from '@nestjs/testing';
import { WakingPendingStore } from '@toolloop/durable';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import {
  allowAll,
  asking,
  type DeskProcess,
  type ProcessOptions,
  type World,
} from './fixtures/desk.process.js';
import { alice, bob, carl, processStarter, scripted, until } from './fixtures/durable-runs.js';

const look = (key: string) => call('desk__look', { key });
const act = (key: string) => call('desk__act', { key });
const ops = { actor: { id: 'ops', tenant: 'acme' }, tenant: 'acme' };
const opsOfGlobex = { actor: { id: 'opsOfGlobex', tenant: 'globex' }, tenant: 'globex' };

/** Alice may rehearse as well: with another model only one's own runs are rehearsed. */
const operators: NonNullable<ProcessOptions['operators']> = (actor, action) =>
  action === 'replay' && ['ops', 'opsOfGlobex', 'alice'].includes((actor as { id: string }).id);
const noActs: Policy = { ...allowAll, version: 'no acts', deny: ['desk__act'] };

class Throws extends PolicyEngine {
  override decide(): never {
    throw new Error('boom');
  }

  override vouchedFor(): never {
    throw new Error('boom');
  }
}

/** Answers with a promise, which no engine may: one that never settles, or that rejects. */
class Promises extends PolicyEngine {
  constructor(private readonly promise: () => Promise<never>) {
    super();
  }

  override decide = this.promise as unknown as PolicyEngine['decide'];
}

/** Answers as no engine may that is written in TypeScript. */
class Mumbles extends PolicyEngine {
  constructor(private readonly answer: object) {
    super();
  }

  override decide = (() => this.answer) as unknown as PolicyEngine['decide'];
}

const candidates: NonNullable<ProcessOptions['candidates']> = {
  strict: noActs,
  asking,
  throws: new Throws(),
  hangs: new Promises(() => new Promise<never>(() => undefined)),
  rejects: new Promises(() => Promise.reject(new Error('boom'))),
  'has no rule': new Mumbles({ kind: 'allow' }),
  'says what is no JSON': new Mumbles({ kind: 'deny', rule: 'x', reason: 'x', policyVersion: 1n }),
  'names no approvers': new Mumbles({
    kind: 'require_approval',
    rule: 'x',
    reason: 'x',
    policyVersion: 'x',
    approval: 'mia',
  }),
};

/** Notes how many turns the event loop has had by each of its answers. */
class CountsTurns extends PolicyEngine {
  readonly turnsByAnswer: number[] = [];
  private turns = 0;

  constructor() {
    super();
    const count = (): void => {
      this.turns += 1;
      this.next = setImmediate(count);
    };
    this.next = setImmediate(count);
  }

  private next: NodeJS.Immediate;

  override decide(): Decision {
    this.turnsByAnswer.push(this.turns);
    return { kind: 'allow', rule: 'all', reason: 'all', policyVersion: '1' };
  }

  stop(): void {
    clearImmediate(this.next);
  }
}

/** A hold of its own of what keeps runs, for each world. */
function world(): World {
  const runs = new MemoryRunLog();
  class Stores implements ToolLoopStores {
    readonly pending = new WakingPendingStore(new MemoryPendingStore(), runs, (work) => work());
    readonly journal = new MemoryCallJournal();
  }
  const kept = { runs, stores: new Stores(), close: () => Promise.resolve() };
  return { effects: [], open: () => Promise.resolve(kept) };
}

async function recorded(desk: DeskProcess, who = alice): Promise<string> {
  const handle = desk.loop.open({ ...who, durable: true });
  await handle.result;
  await until(desk, handle.runId, 'ended', who);
  return handle.runId;
}

/** The comparison once the rehearsal has ended. */
async function over(
  desk: DeskProcess,
  { rehearsedBy = '' }: RehearsedRun,
  policy?: string,
): Promise<RehearsedRun> {
  await until(desk, rehearsedBy, 'ended');
  return desk.rehearsals.compare(rehearsedBy, policy === undefined ? {} : { policy }, alice);
}

const inShort = ({ calls: compared }: RehearsedRun) =>
  compared.map(({ declaredId, recorded: before, candidate: after, flipped, why }) =>
    [
      declaredId,
      before?.kind ?? '-',
      after?.kind ?? '-',
      ...(flipped ? ['flipped'] : []),
      ...(why ? [why] : []),
    ].join(' '),
  );

const script = () => scripted(calls(look('a'), act('b')), calls(act('c')), text('Done.'));

describe('a rehearsal of a recorded run', () => {
  const start = processStarter();

  it('shows the decisions of another policy beside those that were recorded, and which flip, and makes no call', async () => {
    const shared = world();
    const desk = await start(shared, script(), { operators, candidates });
    const runId = await recorded(desk);
    const strict = await desk.rehearsals.rehearse(runId, { policy: 'strict' }, ops);
    expect(strict).toMatchObject({ runId, policy: 'strict', isOver: true });
    expect(strict.rehearsedBy).toBeUndefined();
    expect(inShort(strict)).toEqual([
      'desk__look allow allow',
      'desk__act allow deny flipped',
      'desk__act allow deny flipped',
    ]);
    expect(inShort(await desk.rehearsals.compare(runId, { policy: 'asking' }, ops))).toEqual([
      'desk__look allow allow',
      'desk__act allow require_approval flipped',
      'desk__act allow require_approval flipped',
    ]);
    expect(shared.effects).toEqual(['acme b', 'acme c']);
  });

  it('leaves the process to others between two answers of a candidate that works without a pause', async () => {
    const busy = new CountsTurns();
    try {
      const desk = await start(world(), script(), { operators, candidates: { busy } });
      const rehearsed = await desk.rehearsals.rehearse(
        await recorded(desk),
        { policy: 'busy' },
        ops,
      );
      expect(rehearsed.calls).toHaveLength(3);
      const [first = 0, second = 0, third = 0] = busy.turnsByAnswer;
      expect([busy.turnsByAnswer.length, second > first, third > second]).toEqual([3, true, true]);
    } finally {
      busy.stop();
    }
  });

  it('asks another model the same question, performs nothing of it, and asks no one', async () => {
    const shared = world();
    const careful = scripted(
      calls(look('a')),
      calls(act('c'), look('z')),
      text('I would do less.'),
    );
    const desk = await start(shared, script(), {
      operators,
      candidates,
      models: { careful },
      policy: allowAll,
    });
    const runId = await recorded(desk);
    shared.effects.splice(0);
    const begun = await desk.rehearsals.rehearse(runId, { model: 'careful' }, alice);
    expect(begun).toMatchObject({ runId, model: 'careful', isOver: false, calls: [] });
    const rehearsal = await over(desk, begun);
    expect(rehearsal).toMatchObject({
      runId,
      rehearsedBy: begun.rehearsedBy,
      model: 'careful',
      isOver: true,
      finishReason: 'stop',
    });
    expect(inShort(rehearsal)).toEqual([
      'desk__look allow allow',
      'desk__act allow - not_made',
      'desk__act allow allow',
      'desk__look - allow',
    ]);
    expect(inShort(await over(desk, begun, 'strict'))).toEqual([
      'desk__look allow allow',
      'desk__act allow - not_made',
      'desk__act allow deny flipped',
      'desk__look - allow',
    ]);
    expect(careful.requests[0]?.messages.filter(({ role }) => role !== 'system')).toEqual([
      { role: 'user', content: 'Go on.' },
    ]);
    expect(await desk.approvals.inbox(alice, { runId: begun.rehearsedBy ?? '' })).toEqual([]);
    expect(shared.effects).toEqual([]);
  });

  it('lets a candidate that allows more perform nothing: the policy in force decides about the calls of the other model', async () => {
    const shared = world();
    const bold = scripted(calls(act('x')), calls(act('y')), text('Done.'));
    const once: Policy = {
      ...allowAll,
      version: 'once',
      runBudgets: [{ tools: ['desk__act'], calls: 1 }],
    };
    const lax = { lax: allowAll };
    const desk = await start(shared, scripted(text('No.')), {
      operators,
      models: { bold },
      candidates: lax,
      policy: once,
    });
    const runId = await recorded(desk);
    const begun = await desk.rehearsals.rehearse(runId, { model: 'bold', policy: 'lax' }, alice);
    const rehearsal = await over(desk, begun, 'lax');
    expect(inShort(rehearsal)).toEqual(['desk__act - allow', 'desk__act - allow']);
    expect(inShort(await over(desk, begun))).toEqual(['desk__act - allow', 'desk__act - deny']);
    expect(shared.effects).toEqual([]);
  });

  it('rehearses a run whose calls waited for people, without asking them again', async () => {
    const shared = world();
    const bold = scripted(calls(act('x')), text('Done.'));
    const desk = await start(shared, scripted(calls(act('b')), text('Done.')), {
      operators,
      models: { bold },
      candidates,
      policy: asking,
    });
    const handle = desk.loop.open({ ...alice, durable: true });
    expect(await handle.result).toMatchObject({ finishReason: 'waiting' });
    const begun = await desk.rehearsals.rehearse(handle.runId, { model: 'bold' }, alice);
    expect(inShort(await over(desk, begun))).toEqual([
      'desk__act require_approval require_approval',
    ]);
    expect(await desk.approvals.inbox(alice, { runId: begun.rehearsedBy ?? '' })).toEqual([]);
    expect(shared.effects).toEqual([]);
  });

  it.each([
    'throws',
    'hangs',
    'rejects',
    'has no rule',
    'says what is no JSON',
    'names no approvers',
  ])('counts a candidate that %s as one that denies, and stays up', async (policy) => {
    const desk = await start(world(), script(), { operators, candidates });
    const runId = await recorded(desk);
    const rehearsal = await desk.rehearsals.rehearse(runId, { policy }, ops);
    expect(JSON.stringify(rehearsal)).toContain('The policy engine failed.');
    expect(rehearsal.calls.map(({ candidate }) => candidate?.rule)).toEqual([
      'engine',
      'engine',
      'engine',
    ]);
    expect(inShort(rehearsal)[0]).toBe('desk__look allow deny flipped');
  });

  it('ends with an error where the other model hangs, and the recorded run stays as it was', async () => {
    const shared = world();
    const stuck = new ScriptedModel([() => new Promise<never>(() => undefined)]);
    const desk = await start(shared, script(), {
      operators,
      candidates,
      models: { stuck },
    });
    const runId = await recorded(desk);
    const begun = await desk.rehearsals.rehearse(runId, { model: 'stuck' }, alice);
    await until(desk, begun.rehearsedBy ?? '', 'running');
    await desk.runs.cancel(begun.rehearsedBy ?? '', alice);
    const rehearsal = await over(desk, begun);
    expect(rehearsal.finishReason).toBe('aborted');
    expect(inShort(rehearsal)).toEqual([
      'desk__look allow - not_made',
      'desk__act allow - not_made',
      'desk__act allow - not_made',
    ]);
    expect(await desk.runs.get(runId, alice)).toMatchObject({
      status: 'ended',
      finishReason: 'stop',
    });
  });

  it('names the models and policies there are to who may rehearse, and where another is named', async () => {
    const desk = await start(world(), script(), {
      operators,
      candidates,
      models: { careful: script() },
    });
    const runId = await recorded(desk);
    expect(await desk.rehearsals.choices(ops)).toEqual({
      models: ['careful'],
      policies: Object.keys(candidates),
    });
    const { rehearsals } = desk;
    await expect(rehearsals.rehearse(runId, { policy: 'other' }, ops)).rejects.toThrow(
      'No policy is named "other". Known: strict, asking, throws, hangs, rejects, has no rule',
    );
    await expect(rehearsals.rehearse(runId, { policy: 'constructor' }, ops)).rejects.toThrow(
      'No policy is named "constructor".',
    );
    await expect(rehearsals.rehearse(runId, { model: 'other' }, alice)).rejects.toThrow(
      'No model is named "other". Known: careful.',
    );
    await expect(rehearsals.rehearse(runId, {}, ops)).rejects.toThrow(
      'A rehearsal names a model, a policy, or both.',
    );
    await expect(rehearsals.compare(runId, {}, ops)).rejects.toThrow(
      'The run rehearses no other: name a policy. Known: strict',
    );
  });

  it('is refused to who may not, of another tenant as if there were no run, and with a model of another person', async () => {
    const desk = await start(world(), script(), {
      operators,
      candidates,
      models: { careful: script() },
    });
    const runId = await recorded(desk);
    const { rehearsals } = desk;
    for (const person of [carl, bob]) {
      await expect(rehearsals.choices(person)).rejects.toMatchObject({ code: 'not_permitted' });
      await expect(rehearsals.rehearse(runId, { policy: 'strict' }, person)).rejects.toMatchObject({
        code: 'not_permitted',
      });
      await expect(rehearsals.compare(runId, { policy: 'strict' }, person)).rejects.toMatchObject({
        code: 'not_permitted',
      });
    }
    for (const terms of [{ policy: 'strict' }, { model: 'careful' }])
      await expect(rehearsals.rehearse(runId, terms, opsOfGlobex)).rejects.toThrow(
        `There is no run ${JSON.stringify(runId)} in your tenant.`,
      );
    await expect(
      rehearsals.compare(runId, { policy: 'strict' }, opsOfGlobex),
    ).rejects.toMatchObject({ code: 'unknown_run' });
    await expect(rehearsals.rehearse(runId, { model: 'careful' }, ops)).rejects.toThrow(
      'it must be a run of your own',
    );
  });
});

describe('candidates', () => {
  it.each<[string, NonNullable<ProcessOptions['candidates']>, string]>([
    [
      'a policy with a mistake',
      { strict: { allow: ['*'], requireApproval: [{ tools: ['desk__nothing'] }] } },
      'candidates "strict"',
    ],
    ['what is no policy', { strict: 'deny' as unknown as Policy }, 'candidates'],
  ])(
    'keep the application from starting, with the place of the mistake: %s',
    async (_, wrong, place) => {
      const module = await Test.createTestingModule({
        imports: [
          ToolLoopModule.forRoot({ model: scripted(), policy: allowAll, candidates: wrong }),
        ],
      }).compile();
      await expect(module.init()).rejects.toThrow(place);
    },
  );
});
