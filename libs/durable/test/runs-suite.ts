import { describe as about, expect, it } from '@jest/globals';
import { type LoopEvent, RunElsewhereError, tool } from '@toolloop/core';
import { call, calls, expectTranscriptValid, text } from '@toolloop/testing';
import { firstValueFrom, lastValueFrom, take, toArray } from 'rxjs';
import { DeskProcess, asking, type World } from './fixtures/desk.process.js';
import {
  alice,
  answer,
  bob,
  carl,
  dying,
  idle,
  never,
  processStarter,
  scripted,
  stuck,
  until,
} from './fixtures/durable-runs.js';

const look = (key: string) => call('desk__look', { key });
const act = (key: string) => call('desk__act', { key });
const book = (key: string) => call('desk__book', { key });
const keyed = (key: string) => call('desk__keyed', { key });

const eventsOf = (process: DeskProcess, runId: string, after = 0): Promise<LoopEvent[]> =>
  lastValueFrom(process.runs.events(runId, alice, after).pipe(toArray()));

/**
 * What durable runs do, wherever they are kept: `open` gives every process a hold of its own of one
 * place.
 */
export function runsSuite(
  name: string,
  open: World['open'],
  describe: (name: string, body: () => void) => void,
  keeps = { transactions: true },
): void {
  const newWorld = (): World => ({ open, effects: [] });

  describe(name, () => {
    const start = processStarter();

    about('a durable run', () => {
      it('is run where it is opened, and read like any other', async () => {
        const desk = await start(newWorld(), scripted(calls(look('a'), act('b')), text('Done.')));
        const handle = desk.loop.open({ ...alice, durable: true });
        const shown = await lastValueFrom(handle.events$.pipe(toArray()));
        expect(await handle.result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
        await until(desk, handle.runId, 'ended');
        expect(await eventsOf(desk, handle.runId)).toEqual(shown);
        expect(await desk.runs.get(handle.runId, alice)).toMatchObject({
          status: 'ended',
          finishReason: 'stop',
          lastSequence: shown.length,
        });
      });

      it('continues without a reader', async () => {
        const world = newWorld();
        const desk = await start(world, scripted(calls(act('a')), calls(act('b')), text('Done.')));
        const handle = desk.loop.open({ ...alice, durable: true });
        await firstValueFrom(handle.events$.pipe(take(1)));
        await until(desk, handle.runId, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme b']);
      });

      it('is performed by any process with room when it is started, and can be watched from anywhere', async () => {
        const world = newWorld();
        const opener = await start(world, scripted(), { options: { concurrency: 0 } });
        await start(world, scripted(calls(act('a')), text('Done.')));
        const runId = await opener.runs.start(alice);
        const events = await eventsOf(opener, runId);
        expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
        expect(events.at(-1)).toMatchObject({
          type: 'run-end',
          finishReason: 'stop',
          text: 'Done.',
        });
        expect(await eventsOf(opener, runId, 3)).toEqual(events.slice(3));
      });

      it('continues with its loop', async () => {
        const world = newWorld();
        const model = scripted(text('Done.'));
        const desk = await start(world, model, {
          loops: { support: { instructions: 'You help.' } },
        });
        const runId = await desk.runs.start(alice, 'support');
        await until(desk, runId, 'ended');
        expect(model.requests[0]?.instructions).toBe('You help.');
      });
    });

    about('a durable run whose process dies', () => {
      it('is taken over: what is done stays done, what was answered is not asked again', async () => {
        const world = newWorld();
        const died = scripted(calls(act('a')), calls(act('b'), keyed('c')));
        const first = await start(world, died, { options: dying });
        world.during = (key) => (key === 'c' ? never() : undefined);
        const handle = first.loop.open({ ...alice, durable: true });
        void handle.result.catch(() => undefined);
        while (world.effects.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
        delete world.during;
        const model = scripted(text('Done.'));
        const other = await start(world, model);
        await until(other, handle.runId, 'ended');
        expect(world.effects.map((effect) => effect.slice(0, 6))).toEqual([
          'acme a',
          'acme b',
          'keyed ',
        ]);
        expectTranscriptValid(model.requests[0]?.messages ?? []);
        expect(model.requests).toHaveLength(1);
        const [before = [], after = []] = [died, model].map(({ requests }) =>
          requests.at(-1)?.messages.map((one) => JSON.stringify(one)),
        );
        expect(after.slice(0, before.length)).toEqual(before);
        // the instructions of its tools
        expect(after.filter((message) => message.includes('Look before you act.'))).toHaveLength(1);
        expect(await other.runs.get(handle.runId, alice)).toMatchObject({ finishReason: 'stop' });
      });

      it('is fenced off when it was only frozen: nothing it says is kept, and its reader is told by nothing but the end of the stream', async () => {
        const world = newWorld();
        let thaw: (() => void) | undefined;
        const frozen = await start(world, scripted(calls(keyed('a')), text('Zombie.')), {
          options: dying,
        });
        world.during = () => new Promise((resolve) => (thaw = resolve));
        const handle = frozen.loop.open({ ...alice, durable: true });
        const seen = lastValueFrom(handle.events$.pipe(toArray()));
        while (world.effects.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
        delete world.during;
        const other = await start(world, scripted(text('Done.')));
        await until(other, handle.runId, 'ended');
        thaw?.();
        await expect(handle.result).rejects.toThrow(RunElsewhereError);
        expect((await seen).map(({ type }) => type)).not.toContain('run-end');
        const events = await eventsOf(other, handle.runId);
        expect(events.filter(({ type }) => type === 'run-end')).toMatchObject([{ text: 'Done.' }]);
        expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
        expect(world.effects).toHaveLength(1);
      });

      it('is handed over between two steps when its process is shut down', async () => {
        const world = newWorld();
        const first = await start(world, scripted(calls(act('a')), calls(act('b'))));
        let closing: Promise<void> | undefined;
        world.during = () => {
          closing ??= first.close();
          return new Promise((resolve) => setTimeout(resolve, 20));
        };
        const handle = first.loop.open({ ...alice, durable: true });
        await expect(handle.result).rejects.toThrow(RunElsewhereError);
        await closing;
        const second = await start(world, scripted(calls(act('b')), text('Done.')));
        await until(second, handle.runId, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme b']);
      });

      it('ends, and says so, when this application cannot continue it', async () => {
        const world = newWorld();
        const opener = await start(world, scripted(), {
          loops: { old: { instructions: 'x' } },
          options: { concurrency: 0 },
        });
        const runId = await opener.runs.start(alice, 'old');
        const newer = await start(world, scripted());
        await until(newer, runId, 'ended');
        expect((await eventsOf(newer, runId)).at(-1)).toMatchObject({
          type: 'run-end',
          finishReason: 'error',
          error: {
            message: expect.stringContaining(
              'the loop "old", which this application does not have',
            ),
          },
        });
      });

      it('acts for its actor as they are now, and ends where they are gone', async () => {
        const world = newWorld();
        const gone = { ...alice, actor: { id: 'gone-alice', tenant: 'acme' } };
        const [runId, kept] = [`gone ${name}`, await open()];
        await kept.runs.add(
          {
            runId,
            tenant: 'acme',
            actorId: 'gone-alice',
            loop: undefined,
            request: { prompt: 'Go on.' },
          },
          'queued',
        );
        const other = await start(world, scripted());
        await until(other, runId, 'ended', gone);
        const events = await lastValueFrom(other.runs.events(runId, gone).pipe(toArray()));
        expect(events).toMatchObject([
          { type: 'run-end', finishReason: 'error', error: { code: 'cannot_continue' } },
        ]);
        await kept.close();
      });

      it('is not even started for an unknown actor', async () => {
        const desk = await start(newWorld(), scripted(), { options: idle });
        const unknown = { ...alice, actor: { id: 'gone-carl', tenant: 'acme' } };
        await expect(desk.runs.start(unknown)).rejects.toMatchObject({ code: 'unknown_actor' });
        expect(await desk.runs.list(unknown)).toEqual([]);
      });
    });

    about('a durable run whose actor cannot be looked up for a while', () => {
      it('continues later', async () => {
        const world = newWorld();
        const opener = await start(world, scripted(), { options: { concurrency: 0 } });
        const away = { ...alice, actor: { id: 'away-alice', tenant: 'acme' } };
        const runId = await opener.runs.start(away);
        const desk = await start(world, scripted(text('Done.')));
        await until(desk, runId, 'ended', away);
        expect(await desk.runs.list(away)).toMatchObject([{ finishReason: 'stop' }]);
      });
    });

    about('a durable run that waits for a person', () => {
      it('leaves the process, and continues in another one after the decision, which had a tool added', async () => {
        const world = newWorld();
        const first = await start(world, scripted(calls(act('a'))), { policy: asking });
        const handle = first.loop.open({ ...alice, durable: true });
        expect(await handle.result).toMatchObject({ finishReason: 'waiting' });
        await until(first, handle.runId, 'waiting');
        await first.close();
        const model = scripted(text('Done.'));
        const ping = tool({
          id: 'net__ping',
          description: 'Pings.',
          input: { type: 'object' },
          effect: 'read_only',
          reveal: 'all',
          execute: () => 'pong',
        });
        const second = await start(world, model, { policy: asking, tools: [ping] });
        const [request] = await second.approvals.list(alice);
        const decision = { approvalId: request?.approvalId ?? '', decision: 'approve' } as const;
        await second.approvals.decide(decision, alice);
        await expect(second.approvals.decide(decision, alice)).rejects.toThrow('decided already');
        await until(second, handle.runId, 'ended');
        expect(world.effects).toEqual(['acme a']);
        expect(model.requests[0]?.tools.map(({ id }) => id)).toContain('net__ping');
        const events = await eventsOf(second, handle.runId);
        expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
      });

      it('keeps the order of its calls in another process: what was read before the write, and what is read behind it', async () => {
        const world = newWorld();
        const count = tool({
          id: 'net__count',
          description: 'Counts what was done.',
          input: { type: 'object' },
          effect: 'read_only',
          reveal: 'all',
          execute: () => world.effects.length,
        });
        const counting = calls(call('net__count', {}), act('a'), call('net__count', {}));
        const first = await start(world, scripted(counting), { policy: asking, tools: [count] });
        const handle = first.loop.open({ ...alice, durable: true });
        expect((await handle.result).toolCalls.map(({ status }) => status)).toEqual([
          'succeeded',
          'waiting',
          'waiting',
        ]);
        await until(first, handle.runId, 'waiting');
        await first.close();
        const model = scripted(text('Done.'));
        const second = await start(world, model, { policy: asking, tools: [count] });
        await answer(second, 'approve');
        await until(second, handle.runId, 'ended');
        expect(
          model.requests[0]?.messages
            .filter(({ role }) => role === 'tool')
            .map(({ content }) => content),
        ).toEqual(['0', 'a done', '1']);
      });

      it('continues by itself when its approval has expired, in another process too', async () => {
        const policy = {
          ...asking,
          requireApproval: [{ effects: ['state_change' as const], expiresAfterMs: 1_500 }],
        };
        const world = newWorld();
        const first = await start(world, scripted(calls(act('a'))), { policy });
        const handle = first.loop.open({ ...alice, durable: true });
        expect(await handle.result).toMatchObject({ finishReason: 'waiting' });
        await until(first, handle.runId, 'waiting');
        await first.close();
        const model = scripted(text('Nobody answered.'));
        const second = await start(world, model, { policy });
        await until(second, handle.runId, 'ended');
        expect((await eventsOf(second, handle.runId)).at(-1)).toMatchObject({
          finishReason: 'stop',
          text: 'Nobody answered.',
        });
        expectTranscriptValid(model.requests[0]?.messages ?? []);
        expect(world.effects).toEqual([]);
      });

      it('makes an approved call whose process died when it had used the approval, once', async () => {
        const world = newWorld();
        const first = await start(world, scripted(calls(keyed('a')), calls(act('b'))), {
          policy: asking,
        });
        const handle = first.loop.open({ ...alice, durable: true });
        await handle.result;
        await until(first, handle.runId, 'waiting');
        await first.close();
        world.during = never;
        const second = await start(world, scripted(), {
          policy: asking,
          options: { heartbeatMs: 1e9, concurrency: 1 },
        });
        await answer(second, 'approve');
        while (world.effects.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
        delete world.during;
        const model = scripted(calls(act('b')), text('Done.'));
        const third = await start(world, model, { policy: asking });
        await until(third, handle.runId, 'waiting');
        expect(world.effects).toHaveLength(1);
        expect(model.requests[0]?.messages.at(-1)).toMatchObject({
          role: 'tool',
          content: 'a done',
        });
        await answer(third, 'approve');
        await until(third, handle.runId, 'ended');
        expect(world.effects).toHaveLength(2);
      });

      it('withdraws its approvals when it turns out that it cannot continue', async () => {
        const world = newWorld();
        const first = await start(world, scripted(calls(act('a'))), {
          policy: asking,
          loops: { old: { instructions: 'x' } },
        });
        const runId = await first.runs.start(alice, 'old');
        await until(first, runId, 'waiting');
        await first.close();
        const newer = await start(world, scripted(), { policy: asking });
        expect(await newer.approvals.list(alice)).toHaveLength(1);
        await newer.runs.resume(runId, alice);
        await until(newer, runId, 'ended');
        while ((await newer.approvals.list(alice)).length > 0)
          await new Promise((resolve) => setTimeout(resolve, 5));
      });

      it('ends when it is cancelled, with a result for its call', async () => {
        const world = newWorld();
        const desk = await start(world, scripted(calls(act('a'))), { policy: asking });
        const handle = desk.loop.open({ ...alice, durable: true });
        await handle.result;
        await until(desk, handle.runId, 'waiting');
        const [request] = await desk.approvals.list(alice);
        await desk.runs.cancel(handle.runId, alice, 'Never mind.');
        await until(desk, handle.runId, 'ended');
        expect((await eventsOf(desk, handle.runId)).at(-1)).toMatchObject({
          type: 'run-end',
          finishReason: 'aborted',
        });
        expect(world.effects).toEqual([]);
        while ((await desk.approvals.list(alice)).length > 0)
          await new Promise((resolve) => setTimeout(resolve, 5));
        const decision = { approvalId: request?.approvalId ?? '', decision: 'approve' } as const;
        await expect(desk.approvals.decide(decision, alice)).rejects.toMatchObject({
          code: 'withdrawn',
        });
      });
    });

    about('what is asked about durable runs', () => {
      it('is answered to their actors alone', async () => {
        const world = newWorld();
        const desk = await start(world, scripted(text('Done.')));
        const runId = await desk.runs.start(alice);
        await until(desk, runId, 'ended');
        const unknown = { code: 'unknown_run' };
        for (const other of [bob, carl, { ...alice, tenant: 'globex' }]) {
          await expect(desk.runs.get(runId, other)).rejects.toMatchObject(unknown);
          await expect(desk.runs.resume(runId, other)).rejects.toMatchObject(unknown);
          await expect(desk.runs.cancel(runId, other)).rejects.toMatchObject(unknown);
          await expect(desk.runs.fork(runId, 0, other)).rejects.toMatchObject(unknown);
          await expect(lastValueFrom(desk.runs.events(runId, other))).rejects.toMatchObject(
            unknown,
          );
          expect(await desk.runs.list(other)).toEqual([]);
        }
        expect((await desk.runs.list(alice))[0]).toMatchObject({ runId, status: 'ended' });
      });

      it('cancels a run that has continued in another process', async () => {
        const world = newWorld();
        world.during = never;
        const worker = await start(world, scripted(calls(keyed('a'))));
        const desk = await start(world, scripted(), { options: { concurrency: 0 } });
        const handle = worker.loop.open({ ...alice, durable: true });
        void handle.result.catch(() => undefined);
        while (world.effects.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
        await desk.runs.cancel(handle.runId, alice);
        await until(desk, handle.runId, 'ended');
        expect(await desk.runs.get(handle.runId, alice)).toMatchObject({ finishReason: 'aborted' });
      });

      it('forks a run after one of its steps, and does not do again what was done before', async () => {
        const world = newWorld();
        const model = scripted(
          calls(act('a')),
          calls(act('b')),
          text('Done.'),
          text('Another end.'),
        );
        const desk = await start(world, model);
        const runId = await desk.runs.start(alice);
        await until(desk, runId, 'ended');
        const forked = await desk.runs.fork(runId, 1, alice);
        await until(desk, forked, 'ended');
        expect(world.effects).toEqual(['acme a', 'acme b']);
        expect(model.requests[3]?.messages.filter(({ role }) => role === 'tool')).toHaveLength(1);
        expect(await desk.runs.get(forked, alice)).toMatchObject({
          forkOf: { runId, step: 1 },
          finishReason: 'stop',
        });
        await expect(desk.runs.fork(runId, 9, alice)).rejects.toThrow('no step 9');
      });
    });

    about('a question about durable runs that cannot be', () => {
      it('is refused in words', async () => {
        const { runs } = await start(newWorld(), scripted(), { options: idle });
        const invalid = { code: 'invalid_request' };
        for (const filter of [
          { limit: -1 },
          { limit: 1.5 },
          { limit: 1e9 },
          { limit: '5' },
          { status: 'gone' },
          { after: 5 },
        ])
          await expect(runs.list(alice, filter as never)).rejects.toMatchObject(invalid);
        for (const runId of [{}, undefined, 5, '', 'a\0b'])
          await expect(runs.get(runId as never, alice)).rejects.toMatchObject({
            code: 'unknown_run',
          });
        for (const after of [-1, Number.NaN, '1'])
          expect(() => runs.events('x', alice, after as never)).toThrow(/not the sequence/);
        const runId = await runs.start(alice);
        await expect(runs.cancel(runId, alice, 5 as never)).rejects.toMatchObject(invalid);
        await expect(runs.fork(runId, 1.5, alice)).rejects.toMatchObject(invalid);
        await runs.cancel(runId, alice);
      });

      it('is no configuration of the application that does not start', async () => {
        const { runs } = await start(newWorld(), scripted(), { options: idle });
        await expect(runs.start({ ...alice, limits: { steps: -1 } })).rejects.toThrow(
          /1 problem in the request and does not run it:\n.*steps/,
        );
        await expect(runs.start({ ...alice, bogus: 1 } as never)).rejects.toThrow(
          /no option "bogus"\.\n +There are: .*prompt, messages/,
        );
        for (const ids of [
          { conversationId: '' },
          { conversationId: 5 },
          { requestId: '' },
          { requestId: {} },
        ])
          await expect(runs.start({ ...alice, ...ids } as never)).rejects.toMatchObject({
            code: 'invalid_request',
          });
      });
    });

    about('a request for a durable run', () => {
      it('is refused where no other process could know what it says', async () => {
        const desk = await start(newWorld(), scripted());
        const request = {
          ...alice,
          durable: true,
          hooks: { onToolStart: () => undefined },
          tools: [/x/ as never, () => true],
        };
        expect(() => desk.loop.open(request)).toThrow(
          'cannot know what `hooks`, `tools` of its request is',
        );
        expect(() => desk.loop.open({ ...alice, actor: {}, durable: true })).toThrow(
          'this actor has no id',
        );
      });

      it('is refused where runs are not kept', async () => {
        const desk = await DeskProcess.start(newWorld(), scripted(), { withoutRuns: true });
        expect(() => desk.loop.open({ ...alice, durable: true })).toThrow(
          'import DurableModule of @toolloop/durable',
        );
        await desk.close();
      });
    });

    about('a call with a transaction', () => {
      if (!keeps.transactions) {
        it('has none in memory', async () => {
          const desk = await start(newWorld(), scripted(calls(book('a')), text('Done.')));
          expect(await desk.loop.run({ ...alice, durable: true })).toMatchObject({
            toolCalls: [{ result: 'there is no transaction' }],
          });
        });
        return;
      }
      it('is made again after its process died, and what it did is not done again', async () => {
        const world = newWorld();
        const runId = await stuck(
          await start(world, scripted(calls(book('a'))), { options: dying }),
          world,
        );
        const model = scripted(text('Done.'));
        const other = await start(world, model);
        await until(other, runId, 'ended');
        expect(await other.runs.get(runId, alice)).toMatchObject({ finishReason: 'stop' });
        expect(world.effects).toEqual(['booked a']);
        expect(model.requests[0]?.messages.at(-1)).toMatchObject({
          content: JSON.stringify({ said: 'a done', times: 1 }),
        });
      });

      it('stays after its process died, though its tool may not be called again, and needs no approval', async () => {
        const world = newWorld();
        const enter = call('desk__enter', { key: 'a' });
        const runId = await stuck(
          await start(world, scripted(calls(enter)), { options: dying }),
          world,
        );
        const model = scripted(text('Done.'));
        const other = await start(world, model);
        await until(other, runId, 'ended');
        expect(world.effects).toEqual(['entered a']);
        expect(model.requests[0]?.messages.at(-1)).toMatchObject({
          content: JSON.stringify({ said: 'a done' }),
        });
      });
    });
  });
}
