/**
 * A process that prints how many bytes of the heap a step takes, round by round, while nothing is
 * collected, and how many hashes: over the provider whose address is its argument. It needs
 * `--expose-gc`, and a young generation that holds a run.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LlmTool, ToolLoopModule, ToolLoopService, ToolProvider } from '@toolloop/core';
import { openai } from '@toolloop/openai';

@Injectable()
@ToolProvider({ namespace: 'stock' })
class StockTools {
  @LlmTool({ description: 'Counts what is there.', effect: 'read_only', reveal: 'all' })
  count(): Promise<number> {
    return Promise.resolve(7);
  }
}

/** Code that is not optimised yet takes more. */
const WARM_RUNS = 40;
const ROUNDS = 7;
const [FEW, MANY] = [5, 45];

const [, , baseURL = ''] = process.argv;
const limits = { steps: 100, identicalCalls: 100, callsPerTool: 100 };
const options = {
  model: openai('own-1', { apiKey: 'none', baseURL }),
  policy: { allow: ['*'] },
  audit: { key: 'k'.repeat(32) },
  limits,
};
const module = {
  module: StockTools,
  imports: [ToolLoopModule.forRoot(options)],
  providers: [StockTools],
};
const app = await NestFactory.createApplicationContext(module, { logger: false });
const loop = app.get(ToolLoopService);

async function bytesOf(steps: number): Promise<number> {
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const result = await loop.run({
    prompt: `Take ${steps} steps.`,
    actor: { id: 'ada' },
    tenant: 'acme',
  });
  if (result.steps !== steps) throw new Error(`It took ${result.steps} steps instead of ${steps}.`);
  return process.memoryUsage().heapUsed - before;
}

for (let run = 0; run < WARM_RUNS; run += 1) await bytesOf(MANY);
const perStep: number[] = [];
for (let round = 0; round < ROUNDS; round += 1)
  perStep.push(((await bytesOf(MANY)) - (await bytesOf(FEW))) / (MANY - FEW));

/**
 * Counts the hashes of a run, those of signatures included: each is one call of `hash`, or a
 * stream.
 */
async function hashesOf(steps: number): Promise<number> {
  const { createHash, createHmac, hash } = crypto;
  let hashes = 0;
  const counted = <Made>(make: (...args: never[]) => Made): ((...args: never[]) => Made) => {
    return (...args) => {
      hashes += 1;
      return make(...args);
    };
  };
  Object.assign(crypto, {
    createHash: counted(createHash),
    createHmac: counted(createHmac),
    hash: counted(hash),
  });
  syncBuiltinESMExports();
  await bytesOf(steps);
  Object.assign(crypto, { createHash, createHmac, hash });
  syncBuiltinESMExports();
  return hashes;
}

const hashes = ((await hashesOf(MANY)) - (await hashesOf(FEW))) / (MANY - FEW);
console.log(JSON.stringify({ bytes: perStep.map(Math.round), hashes }));
await app.close();
