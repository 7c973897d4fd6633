import { describe as about, expect, it } from '@jest/globals';
import { call, calls, text } from '@toolloop/testing';
import { IsInt } from 'class-validator';
import { lastValueFrom, toArray } from 'rxjs';
import type { World } from './fixtures/desk.process.js';
import {
  alice,
  bob,
  dying,
  idle,
  inquiry,
  never,
  processStarter,
  scripted,
  until,
  untilSo,
} from './fixtures/durable-runs.js';

class Sum {
  @IsInt() sum!: number;
}

const act = (key: string) => calls(call('desk__act', { key }));
const keyed = (key: string) => calls(call('desk__keyed', { key }));

/**
 * What is repeated, given and begun within durable runs, and must be there once though a client
 * repeats itself and a process dies.
 */
export function repeatedRunsSuite(
  name: string,
  open: World['open'],
  describe: (name: string, body: () => void) => void,
): void {
  const newWorld = (): World => ({ open, effects: [] });

  describe(name, () => {
    const start = processStarter();

    about('a durable run whose process dies within a sub-run', () => {
      it('continues within it: no answered question is asked again, and every effect happens once', async () => {
        const world = newWorld();
        world.during = (key) => (key === 'b' ? never() : undefined);
        const tools = [inquiry(scripted(act('a'), keyed('b')))];
        const first = await start(world, scripted(calls(call('inquire', { prompt: 'Look.' }))), {
          options: dying,
          tools,
        });
        const handle = first.loop.open({ ...alice, durable: true });
        void handle.result.catch(() => undefined);
        await untilSo(() => world.effects.length === 2);
        delete world.during;
        const inner = scripted(text('So.'));
        const other = await start(world, scripted(text('Done.')), { tools: [inquiry(inner)] });
        await until(other, handle.runId, 'ended');
        expect(await other.runs.get(handle.runId, alice)).toMatchObject({ finishReason: 'stop' });
        expect(world.effects.map((effect) => effect.slice(0, 6))).toEqual(['acme a', 'keyed ']);
        expect(inner.requests[0]?.messages.filter(({ role }) => role === 'tool')).toMatchObject([
          { content: 'a done' },
          { content: 'b done' },
        ]);
      });
    });

    about('a durable run whose answers are of a class', () => {
      it('is told of the class by its loop, in whichever process it ends', async () => {
        const world = newWorld();
        const loops = { sums: { output: Sum } };
        const opener = await start(world, scripted(), { options: idle, loops });
        const runId = await opener.runs.start(alice, 'sums');
        const model = scripted(text('Four.'), text('{"sum":4}'));
        const desk = await start(world, model, { loops });
        await until(desk, runId, 'ended');
        const events = await lastValueFrom(desk.runs.events(runId, alice).pipe(toArray()));
        expect(events.at(-1)).toMatchObject({
          type: 'run-end',
          finishReason: 'stop',
          output: { sum: 4 },
        });
      });

      it('is refused where its request names the class, which says where to name it', async () => {
        const desk = await start(newWorld(), scripted());
        const request = { ...alice, output: Sum, context: { at: new Date() } };
        await expect(desk.runs.start(request)).rejects.toThrow(
          /`context` as JSON: .* Say `output` in a named loop, ToolLoopModule.forFeature\(\{ loops: \{ name: \{ … \} \} \}\), and open or start the run by that loop/,
        );
      });
    });

    about('what a user adds to a durable run whose process dies', () => {
      it('is read by the model that continues', async () => {
        const world = newWorld();
        world.during = never;
        const first = await start(world, scripted(keyed('a')), { options: dying });
        const handle = first.loop.open({ ...alice, durable: true });
        void handle.result.catch(() => undefined);
        await untilSo(() => world.effects.length === 1);
        handle.addInput('And hurry.');
        const looking = await open();
        while (!(await looking.runs.read(handle.runId)).some(({ key }) => key === 'input:1'))
          await new Promise((resolve) => setTimeout(resolve, 5));
        await looking.close();
        delete world.during;
        const model = scripted(text('Done.'));
        const other = await start(world, model);
        await until(other, handle.runId, 'ended');
        expect(model.requests[0]?.messages.slice(-2)).toMatchObject([
          { role: 'tool', content: 'a done' },
          { role: 'user', content: 'And hurry.' },
        ]);
      });
    });

    about('a run that is started with a request id', () => {
      it('is one run, however often it is started and in how many processes at once', async () => {
        const world = newWorld();
        const [one, other] = [
          await start(world, scripted(), { options: idle }),
          await start(world, scripted(), { options: idle }),
        ];
        const request = { ...alice, requestId: `${name} once` };
        const ids = await Promise.all(
          [one, other, one, other].map((desk) => desk.runs.start(request)),
        );
        expect(new Set(ids).size).toBe(1);
        const model = scripted(text('Done.'));
        const desk = await start(world, model);
        await until(desk, ids[0] ?? '', 'ended');
        expect(await desk.runs.start({ ...request, policy: { version: 'v2', allow: ['*'] } })).toBe(
          ids[0],
        );
        expect(
          (await desk.runs.list(alice)).filter(({ runId }) => ids.includes(runId)),
        ).toMatchObject([{ status: 'ended', finishReason: 'stop' }]);
        expect(model.requests).toHaveLength(1);
      });

      it('is another one for another actor and in another loop, and another question is refused', async () => {
        const desk = await start(newWorld(), scripted(), {
          options: idle,
          loops: { support: { instructions: 'You help.' } },
        });
        const request = { ...alice, requestId: `${name} mine` };
        const ids = [
          await desk.runs.start(request),
          await desk.runs.start(request, 'support'),
          await desk.runs.start({ ...request, ...bob }),
        ];
        expect(new Set(ids).size).toBe(3);
        await expect(
          desk.runs.start({ ...request, prompt: 'Something else.' }),
        ).rejects.toMatchObject({
          code: 'invalid_request',
          message: expect.stringContaining('was used for another question'),
        });
      });

      it('is gone off from once for each request id', async () => {
        const desk = await start(newWorld(), scripted(text('Done.'), text('One.'), text('Two.')));
        const runId = await desk.runs.start(alice);
        await until(desk, runId, 'ended');
        const fork = (requestId: string) => desk.runs.fork(runId, 0, alice, requestId);
        const ids = [await fork('a'), await fork('a'), await fork('b')];
        expect([ids[0] === ids[1], ids[1] === ids[2]]).toEqual([true, false]);
      });

      it.each([undefined, 'own'])(
        'is gone off from by one whose effects are its own (request id %s)',
        async (requestId) => {
          const world = newWorld();
          const desk = await start(
            world,
            scripted(act('a'), text('Done.'), act('a'), text('Done.')),
          );
          const runId = await desk.runs.start({
            ...alice,
            ...(requestId !== undefined && { requestId: `${name} ${requestId}` }),
          });
          await until(desk, runId, 'ended');
          await until(desk, await desk.runs.fork(runId, 0, alice), 'ended');
          expect(world.effects).toEqual(['acme a', 'acme a']);
        },
      );
    });
  });
}
