import { describe as about, expect, it } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import {
  type CheckedCall,
  type Plugin,
  schemaOf,
  slot,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import { call, calls, text } from '@toolloop/testing';
import type { World } from './fixtures/desk.process.js';
import {
  alice,
  dying,
  inquiry,
  never,
  processStarter,
  scripted,
  until,
  untilSo,
} from './fixtures/durable-runs.js';

const keyed = (key: string) => call('desk__keyed', { key });

const COUNTED = slot<readonly string[]>({
  name: 'acme.counter/counted',
  version: 1,
  schema: schemaOf(
    (value): value is readonly string[] =>
      Array.isArray(value) && value.every((one) => typeof one === 'string'),
  ),
  initial: () => [],
  inherit: 'share',
});

/** A plugin that counts each effect once, and tells what it had counted before. */
function counting(told: string[]): Provider {
  @Injectable()
  @ToolLoopPlugin({
    name: 'acme.counter',
    slots: [COUNTED],
    concerns: ({ spec }) => spec.declaredId === 'desk__keyed',
  })
  class EffectCounter implements Plugin {
    beforeEffect({ run, input }: CheckedCall): void {
      const { key } = input.args;
      if (typeof key !== 'string') throw new TypeError('The key is no text.');
      told.push(`${key} after ${run.get(COUNTED).join(' ') || 'nothing'}`);
      run.set(COUNTED, (now) => (now.includes(key) ? now : [...now, key]));
    }
  }
  return EffectCounter;
}

/** The values of plugins in runs whose process dies in the middle of an effect. */
export function pluginValuesSuite(
  name: string,
  open: World['open'],
  describe: (name: string, body: () => void) => void,
): void {
  describe(name, () => {
    const start = processStarter();

    /** A process that dies in the effect with this key; resolves to the run's id. */
    async function die(
      world: World,
      model: Parameters<typeof start>[1],
      key: string,
      rest: Parameters<typeof start>[2],
    ): Promise<string> {
      let isThere = false;
      world.during = (one) => {
        if (one !== key) return undefined;
        isThere = true;
        return never();
      };
      const process = await start(world, model, { ...rest, options: dying });
      const handle = process.loop.open({ ...alice, durable: true });
      void handle.result.catch(() => undefined);
      await untilSo(() => isThere);
      delete world.during;
      return handle.runId;
    }

    about('the value of a plugin, when a process dies in the middle of an effect', () => {
      it('is what it was as the effect began', async () => {
        const world: World = { open, effects: [] };
        const told: string[] = [];
        const rest = { providers: [counting(told)] };
        const runId = await die(world, scripted(calls(keyed('a'))), 'a', rest);
        const other = await start(world, scripted(text('Done.')), rest);
        await until(other, runId, 'ended');
        expect(told).toEqual(['a after nothing', 'a after a']);
        expect(world.effects).toHaveLength(1);
      });

      it('has what steps before have made of it', async () => {
        const world: World = { open, effects: [] };
        const told: string[] = [];
        const rest = { providers: [counting(told)] };
        const turns = scripted(calls(keyed('a')), calls(keyed('b')));
        const runId = await die(world, turns, 'b', rest);
        const other = await start(world, scripted(text('Done.')), rest);
        await until(other, runId, 'ended');
        expect(told).toEqual(['a after nothing', 'b after a', 'b after a b']);
      });

      it('has what a sub-run made of it, if the plugin shares it', async () => {
        const world: World = { open, effects: [] };
        const told: string[] = [];
        const asked = calls(call('inquire', { prompt: 'Find out.' }));
        const inner = scripted(calls(keyed('a')));
        const rest = { providers: [counting(told)] };
        const runId = await die(world, scripted(asked), 'a', { ...rest, tools: [inquiry(inner)] });
        const other = await start(world, scripted(text('Done.')), {
          ...rest,
          tools: [inquiry(scripted(text('Found.')))],
        });
        await until(other, runId, 'ended');
        expect(told).toEqual(['a after nothing', 'a after a']);
      });

      it('is kept by each of the calls that a step makes at once', async () => {
        const world: World = { open, effects: [] };
        const told: string[] = [];
        const rest = { providers: [counting(told)] };
        const turns = scripted(calls(keyed('a'), keyed('b'), keyed('c')), calls(keyed('d')));
        const runId = await die(world, turns, 'd', rest);
        const other = await start(world, scripted(text('Done.')), rest);
        await until(other, runId, 'ended');
        expect(told.at(-1)).toBe('d after a b c d');
      });
    });
  });
}
