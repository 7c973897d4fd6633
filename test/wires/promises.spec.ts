import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  LlmTool,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { openai } from '@toolloop/openai';
import { createHook } from 'node:async_hooks';
import type { AddressInfo } from 'node:net';
import { countingProvider } from './counting-provider.js';

@Injectable()
@ToolProvider({ namespace: 'stock' })
class StockTools {
  @LlmTool({ description: 'Counts what is there.', effect: 'read_only', reveal: 'all' })
  count(): Promise<number> {
    return Promise.resolve(7);
  }
}

let close: (() => Promise<void>) | undefined;

afterEach(() => close?.());

describe('a step of a run', () => {
  /** A tenth more than today. A change that makes a step dearer has to say why. */
  const MOST_PROMISES = 247;

  it.each<{ with: string; options: Partial<ToolLoopOptions> }>([
    { with: 'without an audit', options: {} },
    { with: 'and its entries in the audit in memory', options: { audit: { key: 'k'.repeat(32) } } },
  ])(
    `makes at most ${MOST_PROMISES} promises, from its request over a wire to the result of a read, $with`,
    async ({ options }) => {
      const server = await countingProvider();
      const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const limits = { steps: 100, identicalCalls: 100, callsPerTool: 100 };
      const model = openai('own-1', { apiKey: 'none', baseURL });
      const loopModule = ToolLoopModule.forRoot({
        model,
        policy: { allow: ['*'] },
        limits,
        ...options,
      });
      const module = { module: StockTools, imports: [loopModule], providers: [StockTools] };
      const app = await NestFactory.createApplicationContext(module, { logger: false });
      close = async () => {
        await app.close();
        server.closeAllConnections();
        server.close();
      };
      const promisesOf = async (steps: number): Promise<number> => {
        let promises = 0;
        const hook = createHook({
          init: (_id, type) => void (promises += type === 'PROMISE' ? 1 : 0),
        }).enable();
        const result = await app
          .get(ToolLoopService)
          .run({ prompt: `Take ${steps} steps.`, actor: { id: 'ada' }, tenant: 'acme' });
        hook.disable();
        expect([result.text, result.steps]).toEqual(['Done.', steps]);
        return promises;
      };
      /**
       * A busy machine brings an answer in two reads, which take more promises: what a step needs
       * is the fewest of some runs.
       */
      const fewestOf = async (steps: number): Promise<number> =>
        Math.min(await promisesOf(steps), await promisesOf(steps), await promisesOf(steps));
      await promisesOf(3);
      const [few, many] = [await fewestOf(5), await fewestOf(25)];
      expect((many - few) / 20).toBeLessThanOrEqual(MOST_PROMISES);
      expect((many - few) / 20).toBeGreaterThan(MOST_PROMISES / 2);
    },
  );
});
