import { afterEach, expect, it } from '@jest/globals';
import { ConversationService, type LoopEvent, PendingError } from '@toolloop/core';
import type { RunView } from '@toolloop/core/runs';
import type { DurableOptions } from '@toolloop/durable';
import { killedProcess } from '@toolloop/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { programArguments } from '../../../test/program.js';
import type { BankMessage, BankProcessOptions } from './fixtures/bank.process.js';
import { alice, Bank, bob, type Surroundings } from './fixtures/bank.js';
import { PACE, playing, type Waiting, WAITING } from './fixtures/waiting-runs.js';

// Processes are started, on machines that may be busy.
const PROCESS = programArguments('libs/durable/test/fixtures/bank.process.ts');

interface Killed {
  readonly runs: Readonly<Record<string, string>>;
  readonly mails: readonly string[];
}

/** Starts a process of the bank, and kills it once it has told its runs. */
async function killed(options: BankProcessOptions): Promise<Killed> {
  const mails: string[] = [];
  const runs = await killedProcess({
    args: [...PROCESS, JSON.stringify(options)],
    until: (said) => {
      const message = said as BankMessage;
      if ('mail' in message) mails.push(message.mail);
      return 'mail' in message ? undefined : message.runs;
    },
  });
  return { runs, mails };
}

type Place = () => Promise<{
  readonly durable: DurableOptions;
  readonly drop: () => Promise<void>;
}>;

/** The cases of processes that are killed while runs wait, are queued or perform a rehearsal. */
export function losesNothing(place: Place): void {
  const started: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of started.splice(0).toReversed()) await end();
  });

  /** Kills one process at its moment, and starts another behind it. */
  async function behind(moment: BankProcessOptions['moment']) {
    const { durable, drop } = await place();
    started.push(drop);
    const dead = await killed({ durable, moment });
    const around: Surroundings = { mails: [] };
    const desk = await Bank.start(
      { ...durable, runs: PACE },
      playing('the one behind it'),
      undefined,
      around,
    );
    started.push(() => desk.close());
    const mails = (): readonly string[] => [...dead.mails, ...around.mails];
    return { desk, runs: dead.runs, mails };
  }

  it('invariant 13: loses no run that waits for people: what they answer is taken once, and each call is made once', async () => {
    const { desk, runs, mails } = await behind('waiting');
    expect(await desk.balances()).toEqual({ a: 100, b: 0 });
    for (const kind of Object.keys(WAITING) as (keyof typeof WAITING)[])
      expect([
        kind,
        await outcomeOf(desk, kind, {
          durable: runs[`${kind} durable`],
          kept: runs[`${kind} kept`],
        }),
      ]).toEqual([kind, OUTCOMES[kind]]);
    expect(mails()).toHaveLength(2);
    expect(await desk.balances()).toEqual({ a: 70, b: 30 });
  });

  it('invariant 13: loses no run that waits for the turn of its conversation, nor the turn of the run before it', async () => {
    const { desk, runs } = await behind('waiting');
    for (const name of ['busy', 'queued'])
      expect(await endOf(desk, runs[name] ?? '')).toMatchObject({
        finishReason: 'stop',
        text: `Done: ${name}.`,
      });
    const kept = await desk.module.get(ConversationService).read('c1', alice);
    expect(kept?.entries.map(({ text }) => text)).toEqual([
      'busy',
      'Done: busy.',
      'queued',
      'Done: queued.',
    ]);
  });

  it('invariant 13: repeats no call of an approved rehearsal that it had committed and not told', async () => {
    const { desk, runs, mails } = await behind('done');
    const { performing = '' } = runs;
    expect(await endOf(desk, performing)).toMatchObject({
      finishReason: 'stop',
      rehearsal: reportOf('performed', ...ALL),
    });
    expect([await desk.balances(), mails().length]).toEqual([{ a: 97, b: 3 }, 1]);
    expect(await desk.database.query('select what from entries order by id')).toEqual([
      { what: 'a > b 1' },
      { what: 'a > b 2' },
    ]);
    await expect(answered(desk, 'rehearsal', performing)).resolves.toEqual(['already_answered']);
  });

  it.each([
    ['moved', 'approve', reportOf('performed', ...ALL), { a: 97, b: 3 }, 1],
    [
      'moved',
      'deny',
      reportOf('incomplete', 'performed', 'performed', 'unknown'),
      { a: 99, b: 1 },
      1,
    ],
    ['mailed', 'approve', reportOf('performed', ...ALL), { a: 97, b: 3 }, 2],
    [
      'mailed',
      'deny',
      reportOf('incomplete', 'performed', 'unknown', 'not_made'),
      { a: 99, b: 1 },
      1,
    ],
  ] as const)(
    'invariant 13: leaves it to a person whether the call of a rehearsal is made again that it was in the middle of (%s): %s',
    async (moment, decision, rehearsal, balances, mailed) => {
      const { desk, runs, mails } = await behind(moment);
      const { performing = '' } = runs;
      await until(desk, performing, ({ waitingFor }) => waitingFor === 'approval');
      expect(mails()).toHaveLength(1);
      expect(await answered(desk, 'approval', performing, decision)).toEqual([
        'already_answered',
        'taken',
      ]);
      expect(await endOf(desk, performing)).toMatchObject({ rehearsal });
      expect([await desk.balances(), mails().length]).toEqual([balances, mailed]);
    },
  );
}

const ALL = ['performed', 'performed', 'performed'] as const;

function reportOf(status: string, ...outcomes: readonly string[]): object {
  return { status, calls: outcomes.map((outcome) => ({ outcome })) };
}

type Kind = keyof typeof WAITING;

const MADE = { finishReason: 'stop', taken: ['already_answered', 'taken'] };
/** The durable run of each kind is answered before the other one. */
const OUTCOMES: Readonly<Record<Kind, object>> = {
  approval: { durable: { ...MADE, status: 'succeeded' }, kept: { ...MADE, status: 'succeeded' } },
  client: { durable: { ...MADE, status: 'succeeded' }, kept: { ...MADE, status: 'succeeded' } },
  question: { durable: { ...MADE, status: 'succeeded' }, kept: { ...MADE, status: 'succeeded' } },
  rehearsal: { durable: { ...MADE, status: 'performed' }, kept: { ...MADE, status: 'changed' } },
};

/** Answers two runs that wait for the same, and returns what became of each. */
async function outcomeOf(
  desk: Bank,
  kind: Kind,
  { durable = '', kept = '' }: { readonly durable?: string; readonly kept?: string },
) {
  const outcomes: Record<string, object> = {};
  for (const [name, runId] of Object.entries({ durable, kept })) {
    expect(await desk.runs.get(runId, alice)).toMatchObject({
      status: 'waiting',
      waitingFor: kind,
    });
    const taken = await answered(desk, kind, runId);
    const events =
      name === 'durable' ? await eventsOf(desk, runId) : await resumed(desk, runId, kind);
    const end = events.at(-1);
    const results = events.flatMap((event) =>
      event.type === 'tool-result' ? event.record.status : [],
    );
    const { finishReason, rehearsal } = end?.type === 'run-end' ? end : {};
    expect(
      events.filter(({ type }) => type === 'pending-answer' || type === 'approval-decision'),
    ).toHaveLength(1);
    outcomes[name] = { finishReason, taken, status: rehearsal?.status ?? results.at(-1) };
  }
  return outcomes;
}

/** Gives the answer twice at once, after a person of another tenant did in vain. */
async function answered(
  desk: Bank,
  kind: Kind,
  runId: string,
  decision: 'approve' | 'deny' = 'approve',
): Promise<readonly string[]> {
  const [asked] = await desk.pending.inbox(alice, { runId, pending: true });
  const all = asked ? [] : await desk.pending.inbox(alice, { runId, pending: false, kind });
  const request = asked ?? all[0];
  if (!request) return ['nothing'];
  const reply = {
    approval: { approvalId: request.id, decision },
    rehearsal: { rehearsalId: request.id, decision },
    question: { questionId: request.id, answer: 3 },
    client: {
      pendingId: request.id,
      toolCallId: 'toolCallId' in request.request ? request.request.toolCallId : '',
      result: { signed: true },
    },
  }[kind];
  const give = (person: typeof alice): Promise<string> =>
    desk.runs.answer(runId, reply, person).then(
      () => 'taken',
      (error: unknown) => (error instanceof PendingError ? error.code : String(error)),
    );
  expect(await give(bob)).toBe('not_found');
  const both = asked ? [give(alice), give(alice)] : [give(alice)];
  return (await Promise.all(both)).toSorted();
}

async function resumed(desk: Bank, runId: string, kind: Kind): Promise<LoopEvent[]> {
  const { policy }: Waiting = WAITING[kind];
  const { events$ } = await desk.loop.resume(runId, { ...alice, ...(policy && { policy }) });
  return lastValueFrom(events$.pipe(toArray()));
}

async function eventsOf(desk: Bank, runId: string): Promise<LoopEvent[]> {
  await until(desk, runId, ({ status }) => status === 'ended');
  return lastValueFrom(desk.runs.events(runId, alice).pipe(toArray()));
}

async function endOf(desk: Bank, runId: string): Promise<LoopEvent | undefined> {
  return (await eventsOf(desk, runId)).at(-1);
}

async function until(desk: Bank, runId: string, holds: (run: RunView) => boolean): Promise<void> {
  while (!holds(await desk.runs.get(runId, alice)))
    await new Promise((resolve) => setTimeout(resolve, 25));
}
