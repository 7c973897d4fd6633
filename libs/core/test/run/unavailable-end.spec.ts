import { describe, expect, it } from '@jest/globals';
import { ActorDirectory, RunError, tool, ToolLoopService } from '@toolloop/core';
import { CallJournal, MemoryCallJournal } from '@toolloop/core/stores';
import { StorageUnavailableError, type ToolInvocationRecord } from '@toolloop/protocol';
import { call, calls, collect, ScriptedModel, text, troubled } from '@toolloop/testing';
import type { JSONSchema7 } from 'json-schema';
import { unavailableText } from '../../src/run/unavailable-end.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const MISSING_RIGHT = Object.assign(new Error('permission denied'), { code: '42501' });

const INPUT: JSONSchema7 & { readonly type: 'object' } = {
  type: 'object',
  properties: { id: { type: 'string' } },
  required: ['id'],
  additionalProperties: false,
};

class Directory extends ActorDirectory {
  override find(actorId: string): Promise<unknown> {
    return Promise.resolve({ id: actorId });
  }
}

/** An application that charges `a`, then `b`; its journal fails from the end of `a` on. */
async function payments(failure: Error, first = 'pay') {
  const made: string[] = [];
  const journal = { isBroken: false };
  const broken = (id: string): string => {
    journal.isBroken = made.length === 0;
    return id;
  };
  const pay = tool<{ id: string }>({
    id: 'pay',
    description: 'Charges.',
    effect: 'external_side_effect',
    input: INPUT,
    reveal: 'all',
    execute: ({ id }) => {
      broken(id);
      made.push(id);
      return `charged ${id}`;
    },
  });
  const look = tool<{ id: string }>({
    id: 'look',
    description: 'Looks.',
    effect: 'read_only',
    input: INPUT,
    reveal: 'all',
    execute: ({ id }) => broken(id),
  });
  const fail = (): Promise<never> => Promise.reject(failure);
  const failing = (method: 'acquire' | 'finish', of: CallJournal): CallJournal =>
    troubled<CallJournal>(of, {
      method,
      when: () => journal.isBroken,
      answer: fail,
    });
  const turns = [calls(call(first, { id: 'a' })), calls(call('pay', { id: 'b' })), text('Done.')];
  const module = await openModule(new ScriptedModel(turns, { perRun: true }), {
    policy: { version: 'v1', allow: ['*'], flow: 'off' },
    tools: [pay, look],
    providers: [
      Directory,
      {
        provide: CallJournal,
        useValue: failing('acquire', failing('finish', new MemoryCallJournal())),
      },
    ],
  });
  return { made, journal, loop: module.get<ToolLoopService>(ToolLoopService) };
}

async function failureOf(running: Promise<unknown>): Promise<RunError> {
  const failure = await running.catch((error: unknown) => error);
  if (failure instanceof RunError) return failure;
  throw new Error('The run did not fail.', { cause: failure });
}

describe('the text of a run that a store has ended', () => {
  it('names the calls that stand, and how the request is sent again without making them twice', async () => {
    const { loop, made, journal } = await payments(MISSING_RIGHT);
    const { message, result } = await failureOf(loop.run(ask()));
    expect(message).toBe(
      `The storage failed, and as far as is known that does not pass by itself: an operator has to look at it. 1 call was made and stands: pay. Do not send the same words again as they are: send them with the requestId of this request, over HTTP its Idempotency-Key (${result.runId} if it had none), or check first what was done.`,
    );
    journal.isBroken = false;
    await loop.run(ask({ requestId: result.runId }));
    expect(made).toEqual(['a']);
  });

  it('names them in the last event as well', async () => {
    const { loop } = await payments(MISSING_RIGHT);
    const events = await collect(loop.stream(ask()));
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      error: { message: expect.stringContaining('1 call was made and stands: pay.') },
    });
  });

  it('says that an operator has to look where nothing was done and it does not pass', async () => {
    const { loop } = await payments(MISSING_RIGHT, 'look');
    const { message } = await failureOf(loop.run(ask()));
    expect(message).toBe(
      'The storage failed, and as far as is known that does not pass by itself: an operator has to look at it. Nothing was lost.',
    );
  });
});

const CHARGED = {
  toolCallId: '1',
  id: 'pay',
  effect: 'external_side_effect',
  step: 1,
  index: 0,
  status: 'succeeded',
  attempt: 1,
  startedAt: new Date(0),
  endedAt: new Date(0),
  durationMs: 0,
} as const satisfies ToolInvocationRecord;
const READ = { ...CHARGED, id: 'look', effect: 'read_only' } as const;
const UNKNOWN = {
  ...CHARGED,
  id: 'send',
  status: 'failed',
  error: { code: 'unknown_outcome', safeMessage: 'It is unknown.' },
} as const;
const AGAIN =
  'Do not send the same words again as they are: send them with the requestId of this request, over HTTP its Idempotency-Key (r1 if it had none), or check first what was done.';

describe('the text of a failure of storage that may pass', () => {
  it.each<readonly [string, readonly ToolInvocationRecord[], string]>([
    ['no call was made', [], 'Nothing was lost: try again in a little while.'],
    ['calls only read', [READ], 'Nothing was lost: try again in a little while.'],
    [
      'a call was rehearsed',
      [{ ...CHARGED, rehearsal: 'rehearsed' }],
      'Nothing was lost: try again in a little while.',
    ],
    [
      'calls with effects were made',
      [CHARGED, READ, UNKNOWN],
      `1 call was made and stands: pay. It is unknown whether send took place. ${AGAIN}`,
    ],
  ])('is fit to be followed where %s', (_, records, told) => {
    const cause = new StorageUnavailableError();
    expect(unavailableText({ cause, runId: 'r1', records })).toBe(
      `The storage does not answer for now. ${told}`,
    );
  });
});
