import { describe, expect, it } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import { type LoopRequest, subRunTool } from '@toolloop/core';
import {
  type CallLimit,
  type CallOutcome,
  type EndedStep,
  memory,
  type ModelQuestion,
  type Next,
  type OpenedCall,
  type PaidAnswer,
  type PlannedCall,
  type Plugin,
  type PluginFinish,
  type RecordEntry,
  type RunView,
  type StartedCall,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import { StorageUnavailableError } from '@toolloop/protocol';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { read, write } from '../fixtures/approval.shop.js';
import { fail, hang, having } from '../fixtures/plugins.js';
import { play, resultOf } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

/** Everything that the plugins of a spec have done, in its order. */
type Notes = string[];

/** A plugin that notes each point at which it acts. */
function noting(name: string, notes: Notes, rest: Partial<Plugin> = {}): Provider {
  @Injectable()
  @ToolLoopPlugin({ name })
  class Noting implements Plugin {
    async aroundRun(run: RunView, next: Next<unknown>): Promise<void> {
      notes.push(`${name} run ${run.tenant}`);
      await next();
      notes.push(`${name} run over`);
    }

    stepping({ tenant }: RunView): void {
      notes.push(`${name} stepping in ${tenant}`);
    }

    answered({ model, usage }: PaidAnswer): void {
      notes.push(`${name} answered by ${model} in ${usage.outputTokens}`);
    }

    admit(planned: readonly PlannedCall[]): void {
      notes.push(`${name} admit ${planned.map(({ call: { name: id } }) => id).join()}`);
    }

    async aroundModel({ step }: ModelQuestion, next: Next<unknown>): Promise<void> {
      notes.push(`${name} model ${step}`);
      await next();
    }

    async aroundCall({ request }: OpenedCall, next: Next<CallOutcome>): Promise<void> {
      notes.push(`${name} call ${request.call.name}`);
      const { record } = await next();
      notes.push(`${name} call ${record.status}`);
    }

    record({ kind }: RecordEntry): Promise<void> {
      notes.push(`${name} record ${kind}`);
      return Promise.resolve();
    }

    started({ tool }: StartedCall): void {
      notes.push(`${name} started ${tool.spec.declaredId}`);
    }

    concluded(_call: OpenedCall, { record }: CallOutcome): void {
      notes.push(`${name} concluded ${record.status}`);
    }

    stepped({ step, records }: EndedStep): void {
      notes.push(`${name} stepped ${step} with ${records.length}`);
    }
  }
  return { provide: name, useValue: Object.assign(new Noting(), rest) };
}

/** What the write tool of the shop did. */
function acting(): { readonly done: string[]; readonly request: LoopRequest } {
  const done: string[] = [];
  const act = (key: string): string => {
    done.push(key);
    return key;
  };
  return { done, request: ask({ context: { act } }) };
}

async function playWith(
  script: readonly ScriptedTurn[],
  providers: readonly Provider[],
  limits = {},
) {
  const { done, request } = acting();
  const loop = await openShop(new ScriptedModel(script), { providers, limits });
  return { done, ...(await play(loop, request)) };
}

const isElsewhere = ({ tenant }: RunView): boolean => tenant !== 'acme';

const changesThings = ({ spec }: { readonly spec: { readonly effect: string } }): boolean =>
  spec.effect === 'state_change';

const endNow = (): PluginFinish => ({ reason: 'budget', detail: 'Nothing is left.' });

const findNoStore = (): Promise<void> =>
  Promise.reject(new StorageUnavailableError('It is away.', { mayPass: true }));

async function askTwice<Made>(_subject: unknown, next: Next<Made>): Promise<void> {
  await Promise.all([next(), next()]);
  await next();
}

async function answerOtherwise(_call: OpenedCall, next: Next<CallOutcome>): Promise<CallOutcome> {
  const outcome = await next();
  return { ...outcome, content: 'Everything is paid.' };
}

/** A hook that ends a run after its first step. */
const ending =
  (detail: string) =>
  ({ step }: EndedStep): PluginFinish | undefined =>
    step === 1 ? { reason: 'budget', detail } : undefined;

/** What a plugin counts in a run of two calls, between which a sub-run has made one. */
async function countsOf(inherit: 'share' | 'fresh'): Promise<readonly string[]> {
  const seen: string[] = [];
  const counted = memory({ name: 'acme.a/counted', inherit, make: () => 0 });
  const started = ({ run: view, tool }: StartedCall): void => {
    view.set(counted, (now) => now + 1);
    seen.push(`${tool.spec.declaredId} ${view.get(counted)}`);
  };
  const research = subRunTool({
    id: 'research',
    description: 'Finds out.',
    tools: ['probe__*'],
    model: new ScriptedModel([calls(write()), text('Found.')]),
  });
  const model = new ScriptedModel([
    calls(call('research', { prompt: 'Find.' })),
    calls(read()),
    text('Done.'),
  ]);
  const loop = await openShop(model, {
    tools: [research],
    providers: [having('acme.a', { started }, { slots: [counted] })],
  });
  await play(loop, ask());
  await play(await openShop(new ScriptedModel([text('Hello.')])), ask());
  return seen;
}

describe('the points of a plugin', () => {
  it('are reached in their order in a run with one call', async () => {
    const notes: Notes = [];
    await playWith([calls(write()), text('Done.')], [noting('acme.a', notes)]);
    expect(notes).toEqual([
      'acme.a run acme',
      'acme.a stepping in acme',
      'acme.a model 1',
      'acme.a answered by scripted/script in 5',
      'acme.a admit probe__write',
      'acme.a call probe__write',
      'acme.a record decision',
      'acme.a started probe__write',
      'acme.a concluded succeeded',
      'acme.a call succeeded',
      'acme.a stepped 1 with 1',
      'acme.a stepping in acme',
      'acme.a model 2',
      'acme.a answered by scripted/script in 5',
      'acme.a stepped 2 with 0',
      'acme.a run over',
    ]);
  });

  it('are reached for a refused call as far as it comes', async () => {
    const notes: Notes = [];
    const loop = await openShop(new ScriptedModel([calls(write()), text('No.')]), {
      policy: { allow: ['probe__read'] },
      providers: [noting('acme.a', notes)],
    });
    await play(loop, ask());
    expect(notes.filter((note) => /call |record|started|concluded/u.test(note))).toEqual([
      'acme.a call probe__write',
      'acme.a concluded denied',
      'acme.a call denied',
    ]);
  });

  it('are around each other, those of the first plugin outermost', async () => {
    const notes: Notes = [];
    await playWith([text('Hello.')], [noting('acme.b', notes), noting('acme.a', notes)]);
    expect(notes.filter((note) => note.includes(' run '))).toEqual([
      'acme.a run acme',
      'acme.b run acme',
      'acme.b run over',
      'acme.a run over',
    ]);
  });

  it('are not reached in a run in which the plugin does not take part', async () => {
    const notes: Notes = [];
    await playWith(
      [calls(read()), text('Done.')],
      [noting('acme.a', notes, { open: isElsewhere })],
    );
    expect(notes).toEqual([]);
  });

  it('are reached for the tools that concern the plugin alone', async () => {
    const notes: Notes = [];
    const started = ({ tool }: StartedCall): void => void notes.push(tool.spec.declaredId);
    await playWith(
      [calls(read(), write()), text('Done.')],
      [having('acme.a', { started }, { concerns: changesThings })],
    );
    expect(notes).toEqual(['probe__write']);
  });
});

describe('a plugin that fails', () => {
  it.each([
    ['throws', fail],
    ['rejects', () => Promise.reject(new Error('It is broken.'))],
    ['hangs', hang],
  ])('keeps a call from being made if its record %s', async (_how, record) => {
    const { done, result } = await playWith(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { record })],
      { pluginMs: 30 },
    );
    expect(done).toEqual([]);
    expect(result.toolCalls[0]?.error).toMatchObject({
      code: 'execution_failed',
      safeMessage: 'The call could not be put on record, so it was not made.',
    });
  });

  it('hands a failure of its store on as that of a store', async () => {
    const { done, request } = acting();
    const loop = await openShop(new ScriptedModel([calls(write())]), {
      providers: [having('acme.a', { record: findNoStore })],
    });
    const result = await resultOf(loop.open(request));
    expect(done).toEqual([]);
    expect(result.error?.code).toBe('storage_unavailable');
  });

  it.each([
    ['throws', fail],
    ['rejects', () => Promise.reject(new Error('It is broken.'))],
    ['hangs', hang],
  ])('changes nothing about a run if it %s where it only observes', async (_how, hook) => {
    const { done, result } = await playWith(
      [calls(write()), text('Done.')],
      [
        having('acme.a', {
          started: () => void hook().catch(() => undefined),
          concluded: hook,
          aroundRun: hook,
          aroundModel: hook,
          aroundCall: hook,
          answered: hook,
        }),
      ],
      { pluginMs: 30 },
    );
    expect(done).toEqual(['a']);
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
  });

  it('does what it is around once, however often it asks for it', async () => {
    const { done, result } = await playWith(
      [calls(write()), text('Done.')],
      [having('acme.a', { aroundRun: askTwice, aroundModel: askTwice, aroundCall: askTwice })],
    );
    expect(done).toEqual(['a']);
    expect(result.finishReason).toBe('stop');
  });

  it('cannot change what it is around by another answer', async () => {
    const { result } = await playWith(
      [calls(write()), text('Done.')],
      [having('acme.a', { aroundCall: answerOtherwise })],
    );
    expect(JSON.stringify(result.messages)).not.toContain('Everything is paid.');
  });

  it.each([
    ['throws', fail],
    ['hangs', hang],
  ])('ends a run that has not ended as an error if it %s after a step', async (_how, stepped) => {
    const script = [calls(read()), text('Never.')];
    const { result } = await playWith(script, [having('acme.a', { stepped })], { pluginMs: 30 });
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
    expect(result.toolCalls).toHaveLength(1);
  });

  it('changes nothing about a run that is over if it throws after the last step', async () => {
    const { result } = await playWith([text('Hello.')], [having('acme.a', { stepped: fail })]);
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
  });

  it.each([[{ reason: 'never' }], [{}], ['stop'], [7], [{ reason: 'waiting' }]])(
    'ends the run with an error if it gives the end %j after a step',
    async (end) => {
      const stepped = (): PluginFinish => end as PluginFinish;
      const { result } = await playWith([calls(read())], [having('acme.a', { stepped })]);
      expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
    },
  );

  it('keeps a run from beginning if it throws when it is asked whether it takes part', async () => {
    const { done, result } = await playWith([calls(write())], [having('acme.a', { open: fail })]);
    expect(done).toEqual([]);
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
  });
});

/** A plugin that refuses each call of an argument. */
const refusing = (key: string, finish?: PluginFinish) => {
  const limit = {
    refusal: { code: 'budget_exceeded', safeMessage: 'Not today.' },
    ...(finish && { finish }),
  } as const;
  return (planned: readonly PlannedCall[]): readonly CallLimit[] =>
    planned.flatMap(({ index, call: { arguments: args } }) =>
      args.includes(`"${key}"`) ? Object.assign({ index }, limit) : [],
    );
};

describe('the calls that a plugin admits', () => {
  it('are made, and those that it refuses are not', async () => {
    const { done, result } = await playWith(
      [calls(write('a'), write('b')), text('Done.')],
      [having('acme.a', { admit: refusing('a') })],
    );
    expect(done).toEqual(['b']);
    expect(result.toolCalls.map(({ error }) => error?.safeMessage)).toEqual([
      'Not today.',
      undefined,
    ]);
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
  });

  it('end the run after their step if the refusal says so', async () => {
    const finish: PluginFinish = { reason: 'budget', detail: 'It is late.' };
    const { done, result } = await playWith(
      [calls(write('a'), write('b')), text('Never.')],
      [having('acme.a', { admit: refusing('a', finish) })],
    );
    expect(done).toEqual(['b']);
    expect(result).toMatchObject({ finishReason: 'budget', finishDetail: 'It is late.' });
  });

  it('are not shown to the next plugin once one has refused them', async () => {
    const notes: Notes = [];
    const admit = (planned: readonly PlannedCall[]): void =>
      void notes.push(planned.map(({ index }) => index).join());
    await playWith(
      [calls(write('a'), write('b')), text('Done.')],
      [having('acme.b', { admit }), having('acme.a', { admit: refusing('a') })],
    );
    expect(notes).toEqual(['1']);
  });

  it('name their tools, and no tool if the model made the name up', async () => {
    const seen: unknown[] = [];
    const admit = (planned: readonly PlannedCall[]): void =>
      void seen.push(...planned.map(({ tool }) => tool?.spec.declaredId));
    await playWith(
      [calls(call('guess', {}), write()), text('Done.')],
      [having('acme.a', { admit })],
    );
    expect(seen).toEqual([undefined, 'probe__write']);
  });

  it.each([
    ['throws', fail],
    ['hangs', hang],
    [
      'refuses a call that there is not',
      () => [{ index: 7, refusal: { code: 'forbidden', safeMessage: 'No.' } }],
    ],
    ['gives no refusal', () => [{ index: 0 }]],
    [
      'gives an end that it may not give',
      () => [
        {
          index: 0,
          refusal: { code: 'forbidden', safeMessage: 'No.' },
          finish: { reason: 'waiting' },
        },
      ],
    ],
    ['returns nonsense', () => 7],
  ])('are not made if the plugin %s', async (_how, admit) => {
    const { done, result } = await playWith(
      [calls(write('a'), write('b')), text('Never.')],
      [having('acme.a', { admit: admit as Required<Plugin>['admit'] })],
      { pluginMs: 30 },
    );
    expect(done).toEqual([]);
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
  });
});

describe('a plugin that is asked before a step', () => {
  it('ends the run before its model is asked', async () => {
    const model = new ScriptedModel([text('Never.')]);
    const loop = await openShop(model, { providers: [having('acme.a', { stepping: endNow })] });
    const { result } = await play(loop, ask());
    expect(result).toMatchObject({ finishReason: 'budget', finishDetail: 'Nothing is left.' });
    expect(model.requests).toEqual([]);
  });

  it.each([
    ['throws', fail],
    ['hangs', hang],
    ['gives an end that it may not give', () => ({ reason: 'waiting' })],
  ])('ends the run with an error if it %s', async (_how, stepping) => {
    const { result } = await playWith(
      [text('Never.')],
      [having('acme.a', { stepping: stepping as Required<Plugin>['stepping'] })],
      { pluginMs: 30 },
    );
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
    expect(result.steps).toBe(0);
  });
});

describe('the end that a plugin gives a run', () => {
  it('is that of the first plugin that gives one', async () => {
    const { result } = await playWith(
      [calls(read()), text('Never.')],
      [having('acme.b', { stepped: ending('b') }), having('acme.a', { stepped: ending('a') })],
    );
    expect(result).toMatchObject({ finishReason: 'budget', finishDetail: 'a' });
  });

  it('does not take the place of an end that the run has already', async () => {
    const { result } = await playWith(
      [text('Hello.')],
      [having('acme.a', { stepped: ending('a') })],
    );
    expect(result.finishReason).toBe('stop');
  });
});

describe('the values that a plugin keeps for a run', () => {
  it('are shared with its sub-runs if the slot says so', async () => {
    expect(await countsOf('share')).toEqual(['research 1', 'probe__write 2', 'probe__read 3']);
  });

  it('are those of a sub-run alone if the slot says so', async () => {
    expect(await countsOf('fresh')).toEqual(['research 1', 'probe__write 1', 'probe__read 2']);
  });

  it('are never those of another run', async () => {
    const seen: number[] = [];
    const counted = memory({ name: 'acme.a/counted', inherit: 'share', make: () => 0 });
    const started = ({ run: view }: StartedCall): void => {
      view.set(counted, (now) => now + 1);
      seen.push(view.get(counted));
    };
    const answers = [calls(read()), calls(read('b')), text('Done.')];
    const loop = await openShop(new ScriptedModel([...answers, ...answers]), {
      providers: [having('acme.a', { started }, { slots: [counted] })],
    });
    await play(loop, ask());
    await play(loop, ask({ tenant: 'globex' }));
    expect(seen).toEqual([1, 2, 1, 2]);
  });
});
