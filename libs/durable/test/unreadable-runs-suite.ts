import { afterEach, describe as about, expect, it } from '@jest/globals';
import type { JsonObject, LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import { call, calls } from '@toolloop/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { DeskProcess, asking, type World } from './fixtures/desk.process.js';
import { alice, scripted, until } from './fixtures/durable-runs.js';

type Damage = (entry: StateEntry, index: number) => readonly StateEntry[];
/** All that such a run has: no call of it was made, and nothing was added. */
type StateEntry = Exclude<RunEntry, { readonly type: 'tool' | 'input' | 'sub-run' }>;

const renamed = (entry: StateEntry, name: string): StateEntry => {
  const { [name]: part = null, ...rest } = entry.value;
  const { value } = entry;
  return { ...entry, value: { ...rest, ...(name in value && { [`${name}New`]: part }) } };
};
const versioned = (
  { value: { version: _ours, ...value }, ...entry }: StateEntry,
  given: JsonObject,
): StateEntry => ({
  ...entry,
  value: entry.key === 'begin' ? { ...value, ...given } : value,
});
const withState = ({ value, ...entry }: StateEntry, change: JsonObject): StateEntry => ({
  ...entry,
  value:
    'state' in value
      ? { ...value, state: { ...(value['state'] as JsonObject), ...change } }
      : value,
});

const isState = (entry: RunEntry): entry is StateEntry => 'value' in entry && entry.type !== 'tool';

const silent = (): void => undefined;

const endOf = async (desk: DeskProcess, runId: string): Promise<LoopEvent | undefined> => {
  await until(desk, runId, 'ended');
  const [event, ...more] = await lastValueFrom(desk.runs.events(runId, alice).pipe(toArray()));
  expect(more).toEqual([]);
  return event;
};

const DAMAGES: readonly (readonly [what: string, told: string, damage: Damage])[] = [
  [
    'of another version',
    'it is of version 1, and this is 2',
    (entry) => [versioned(entry, { version: 1 })],
  ],
  ['of no version', 'it is of version undefined', (entry) => [versioned(entry, {})]],
  [
    'whose beginning is lost',
    'it is of version undefined',
    (entry, index) => (index === 0 ? [] : [entry]),
  ],
  ['whose state has another name', 'value.state is not', (entry) => [renamed(entry, 'state')]],
  ['whose spending has another name', 'value.spent is not', (entry) => [renamed(entry, 'spent')]],
  [
    'one part of which has another name',
    'sentToolsNew is not',
    (entry) => [renamed(entry, 'sentTools')],
  ],
  ['whose open step has another name', 'pendingNew is not', (entry) => [renamed(entry, 'pending')]],
  [
    'whose messages are none',
    'value.state.messages[0].role is not',
    (entry) => [withState(entry, { messages: [{ by: 'user' }] })],
  ],
  [
    'whose policies were never written',
    'run.policies is not',
    ({ value: { policies: _policies, ...value }, ...entry }) => [{ ...entry, value }],
  ],
];

/** Enough for runs that other suites left in the database, which a new process resumes as well. */
const ANSWERS = Array.from({ length: 10 }, () => calls(call('desk__act', { key: 'a' })));

/**
 * Durable runs that were kept by another release, or damaged: `open` gives every process a hold of
 * its own of one place.
 */
export function unreadableRunsSuite(
  name: string,
  open: World['open'],
  describe: (name: string, body: () => void) => void,
): void {
  const started: DeskProcess[] = [];

  /** A process, whatever it logs as errors, and the entries of a run that waits for a yes. */
  async function waiting() {
    const [world, kept] = [{ open, effects: [] }, await open()];
    const desk = await DeskProcess.start(world, scripted(...ANSWERS), { policy: asking });
    started.push(desk);
    const { runId } = await desk.loop.run({ ...alice, durable: true });
    await until(desk, runId, 'waiting');
    const errors: string[] = [];
    desk.module.useLogger({
      log: silent,
      warn: silent,
      error: (message: string) => void (message.startsWith('The run ') && errors.push(message)),
    });
    const entries = await kept.runs.read(runId);
    await desk.runs.cancel(runId, alice);
    await until(desk, runId, 'ended');
    return { desk, kept, entries, errors };
  }

  describe(name, () => {
    afterEach(async () => {
      await Promise.all(started.splice(0).map((process) => process.close()));
    });

    about('a durable run', () => {
      it.each(DAMAGES)(
        '%s ends, says what to do, and is never taken over again',
        async (what, told, damage) => {
          const { desk, kept, entries, errors } = await waiting();
          const runId = `${what} ${name}`;
          const run = {
            runId,
            tenant: 'acme',
            actorId: 'alice',
            loop: undefined,
            request: { prompt: 'Go on.' },
          };
          await kept.runs.add(
            { ...run, entries: entries.filter(isState).flatMap(damage) },
            'queued',
          );
          expect(await endOf(desk, runId)).toMatchObject({
            type: 'run-end',
            finishReason: 'error',
            error: { code: 'cannot_continue', message: expect.stringContaining(told) },
          });
          expect(
            await kept.runs.acquire(runId, { owner: 'another process', forMs: 1 }),
          ).toBeUndefined();
          expect(errors).toEqual([expect.stringContaining(`The run ${runId} cannot continue`)]);
          await kept.close();
        },
      );

      it('ends when this application cannot read its request, and only the log says why', async () => {
        const { desk, kept, errors } = await waiting();
        const runId = `misconfigured ${name}`;
        const request = { prompt: 'Go on.', limits: { steps: -1 } };
        await kept.runs.add(
          { runId, tenant: 'acme', actorId: 'alice', loop: undefined, request },
          'queued',
        );
        expect(await endOf(desk, runId)).toMatchObject({
          error: {
            code: 'cannot_continue',
            message: expect.stringContaining('start the run again'),
          },
        });
        expect(errors).toHaveLength(1);
        await kept.close();
      });
    });
  });
}
