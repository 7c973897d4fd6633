import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ToolLoopService } from '@toolloop/core';
import { MikroORM } from '@mikro-orm/postgresql';
import { Database } from '@toolloop/durable';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { fencesOf, importFence } from './fences.js';

const README = 'libs/durable/README.md';

const cleanUps: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
});

describe('the application of the README of durable', () => {
  it('runs in a folder', async () => {
    const [code = ''] = fencesOf(README, 'ts');
    const folder = await mkdtemp(join(tmpdir(), 'toolloop-readme-'));
    cleanUps.push(() => rm(folder, { recursive: true, force: true }));
    const { DATA_DIR, DATABASE_URL } = process.env;
    process.env['DATA_DIR'] = join(folder, 'data');
    delete process.env['DATABASE_URL'];
    const { AppModule } = await importFence(code);
    Object.assign(process.env, {
      ...(DATA_DIR !== undefined && { DATA_DIR }),
      ...(DATABASE_URL !== undefined && { DATABASE_URL }),
    });
    const module = await Test.createTestingModule({ imports: [AppModule as Type] }).compile();
    cleanUps.push(() => module.close());
    await module.init();
    expect(module.get(Database).engine).toBe('pglite');
    const { finishReason } = await module
      .get<ToolLoopService>(ToolLoopService)
      .run({ prompt: 'Hello', actor: { id: 'a' }, tenant: 'acme' });
    expect(finishReason).toBe('stop');
  });

  it('runs with MikroORM on the same handle', async () => {
    const code = fencesOf(README, 'ts')[1] ?? '';
    const { AppModule } = await importFence(code);
    const module = await Test.createTestingModule({ imports: [AppModule as Type] }).compile();
    cleanUps.push(() => module.close());
    await module.init();
    await module.get(MikroORM).schema.update();
    const model = new ScriptedModel([calls(call('desk__refund', { order: 'o-1' })), text('Done.')]);
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { toolCalls } = await loop.run({
      prompt: 'Refund it.',
      actor: { id: 'a' },
      tenant: 'acme',
      model,
    });
    expect(toolCalls).toMatchObject([{ status: 'succeeded' }]);
    expect(await module.get(Database).query('select * from refunds')).toEqual([{ order: 'o-1' }]);
  });
});

describe('the durable run of the README', () => {
  it('runs to its end', async () => {
    const code = fencesOf(README, 'ts').find((fence) => fence.includes('RunService')) ?? '';
    const { InquiriesModule, Inquiries } = await importFence(code);
    const module = await Test.createTestingModule({ imports: [InquiriesModule as Type] }).compile();
    cleanUps.push(() => module.close());
    await module.init();
    const inquiries: { ask(prompt: string): Promise<string> } = module.get(Inquiries as Type);
    expect(await inquiries.ask('Hello')).toBe('stop');
  });
});
