/**
 * A pool of workers: one process queues runs and reads their events, three others work on them.
 * Kill a worker, and another takes its runs over.
 *
 * `DATABASE_URL=postgres://… npm run example -- worker-pool`
 */
import { fork } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type DynamicModule, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ActorDirectory, LlmTool, ToolLoopModule, ToolParam, ToolProvider } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { DurableModule } from '@toolloop/durable';
import { offline } from '@toolloop/offline';
import { filter, lastValueFrom, map } from 'rxjs';
import { print, runIfMain, withApplication } from '../run.js';

const WORKERS = 3;
const PHOTOS = ['p-1', 'p-2', 'p-3', 'p-4', 'p-5', 'p-6'];
const ANN = { actor: { id: 'ann' }, tenant: 'acme' };

@Injectable()
@ToolProvider({ namespace: 'photos' })
class PhotoTools {
  @LlmTool({ description: 'Shrink a photo.', effect: 'state_change', reveal: 'all' })
  async shrink(
    @ToolParam('photo', { description: 'Such as p-1', pattern: String.raw`^p-\d+$` }) photo: string,
  ): Promise<string> {
    await wait(300);
    return `${photo} by process ${process.pid}`;
  }
}

/** A process that continues a run asks who its actor is. */
@Injectable()
class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(id: string): Promise<{ readonly id: string } | undefined> {
    return Promise.resolve({ id });
  }
}

@Module({})
class PhotoModule {
  /**
   * The application with room for so many runs at once. With 0 it works on none, and only queues
   * and reads.
   */
  static with(url: string, concurrency: number): DynamicModule {
    const policy = { allow: ['photos__*'] };
    return {
      module: PhotoModule,
      imports: [
        DurableModule.forRoot({ url, runs: { concurrency } }),
        ToolLoopModule.forRoot({ model: offline(), policy }),
      ],
      providers: [PhotoTools, Staff],
    };
  }
}

async function work(url: string): Promise<void> {
  const app = await NestFactory.createApplicationContext(PhotoModule.with(url, 2), {
    logger: ['error'],
  });
  app.enableShutdownHooks();
}

/** Starts the workers, queues a run for each photo, and prints which process has shrunk it. */
async function pool(url: string): Promise<void> {
  const workers = Array.from({ length: WORKERS }, () =>
    fork(fileURLToPath(import.meta.url), { env: { ...process.env, WORKER: 'yes' } }),
  );
  try {
    await withApplication(PhotoModule.with(url, 0), async (app) => {
      const runs: RunService = app.get(RunService);
      const ids = await Promise.all(
        PHOTOS.map((photo) => runs.start({ ...ANN, prompt: `Shrink the photo ${photo}` })),
      );
      const results = ids.map((id) =>
        lastValueFrom(
          runs.events(id, ANN).pipe(
            filter((event) => event.type === 'tool-result'),
            map(({ record }) => record.result),
          ),
        ),
      );
      for (const result of results) print('Shrunk:', await result);
    });
  } finally {
    for (const worker of workers) worker.kill();
  }
}

await runIfMain(import.meta.url, () => {
  const { DATABASE_URL, WORKER } = process.env;
  if (DATABASE_URL === undefined)
    throw new Error('Set DATABASE_URL to a PostgreSQL that the processes share.');
  return WORKER === undefined ? pool(DATABASE_URL) : work(DATABASE_URL);
});
