import { describe as about, expect, it } from '@jest/globals';
import { call, calls, expectTranscriptValid, text } from '@toolloop/testing';
import { asking, type World } from './fixtures/desk.process.js';
import {
  alice,
  answer,
  dying,
  idle,
  inquiry,
  never,
  processStarter,
  scripted,
  stuck,
  until,
  untilSo,
} from './fixtures/durable-runs.js';

const act = (key: string) => calls(call('desk__act', { key }));

/**
 * What becomes of calls without a key whose process died in their middle, so that nobody knows
 * whether they took place.
 */
export function repeatedCallsSuite(
  name: string,
  open: World['open'],
  describe: (name: string, body: () => void) => void,
): void {
  const newWorld = (): World => ({ open, effects: [] });

  describe(name, () => {
    const start = processStarter();

    about('a durable run whose process dies in a call without a key', () => {
      it('asks about it, and leaves it where a person says no', async () => {
        const world = newWorld();
        const runId = await stuck(
          await start(world, scripted(act('a')), { options: dying }),
          world,
        );
        const model = scripted(text('I shall check.'));
        const other = await start(world, model);
        await until(other, runId, 'waiting');
        expect(await other.approvals.list(alice)).toMatchObject([
          { runId, reason: expect.stringContaining('It is unknown') },
        ]);
        await answer(other, 'deny');
        await until(other, runId, 'ended');
        expect(world.effects).toEqual(['acme a']);
        expect(JSON.stringify(model.requests[0]?.messages)).toMatch(
          /it is unknown whether its effect took place.*They said: I looked/,
        );
      });

      it('makes it again where a person says yes, and asks again where that process dies as well', async () => {
        const world = newWorld();
        const runId = await stuck(
          await start(world, scripted(act('a')), { options: dying }),
          world,
        );
        const asks = await start(world, scripted());
        await until(asks, runId, 'waiting');
        await asks.close();
        world.during = never;
        const second = await start(world, scripted(), {
          options: { heartbeatMs: 1e9, concurrency: 1 },
        });
        await answer(second, 'approve');
        await untilSo(() => world.effects.length === 2);
        delete world.during;
        const model = scripted(text('Done.'));
        const third = await start(world, model);
        await until(third, runId, 'waiting');
        expect(world.effects).toHaveLength(2);
        await answer(third, 'approve');
        await until(third, runId, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme a', 'acme a']);
        expect(model.requests[0]?.messages.at(-1)).toMatchObject({
          role: 'tool',
          content: 'a done',
        });
        expectTranscriptValid(model.requests[0]?.messages ?? []);
      });

      it('takes one answer of two people who decide at once, and makes it once', async () => {
        const world = newWorld();
        const runId = await stuck(
          await start(world, scripted(act('a')), { options: dying }),
          world,
        );
        const desk = await start(world, scripted(), { options: idle });
        const other = await start(world, scripted(text('Done.')));
        await until(other, runId, 'waiting');
        const decided = await Promise.allSettled(
          [desk, other].map((one) => answer(one, 'approve')),
        );
        expect(decided.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
        await until(other, runId, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme a']);
      });

      it('asks once more about it where it was approved', async () => {
        const world = newWorld();
        const first = await start(world, scripted(act('a')), { policy: asking });
        const { runId, result } = first.loop.open({ ...alice, durable: true });
        await result;
        await until(first, runId, 'waiting');
        await first.close();
        world.during = never;
        const second = await start(world, scripted(), {
          policy: asking,
          options: { heartbeatMs: 1e9, concurrency: 1 },
        });
        await answer(second, 'approve');
        await untilSo(() => world.effects.length === 1);
        delete world.during;
        const third = await start(world, scripted(text('Done.')), { policy: asking });
        await until(third, runId, 'waiting');
        expect(world.effects).toHaveLength(1);
        await answer(third, 'approve');
        await until(third, runId, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme a']);
      });

      it('asks by the root run where the call is of a sub-run', async () => {
        const world = newWorld();
        const tools = [inquiry(scripted(act('a')))];
        const first = await start(world, scripted(calls(call('inquire', { prompt: 'Look.' }))), {
          options: dying,
          tools,
        });
        const runId = await stuck(first, world);
        const other = await start(world, scripted(text('Done.')), {
          tools: [inquiry(scripted(text('So.')))],
        });
        await until(other, runId, 'waiting');
        expect(await other.approvals.list(alice)).toMatchObject([
          { runId, declaredId: 'desk__act' },
        ]);
        await answer(other, 'approve');
        await until(other, runId, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme a']);
        expect(await other.runs.get(runId, alice)).toMatchObject({ finishReason: 'stop' });
      });
    });
  });
}
