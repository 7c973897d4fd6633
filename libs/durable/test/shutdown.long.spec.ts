import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { HttpException, type LoggerService } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { ActorDirectory, tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { DurableModule, type DurableOptions, openDatabase } from '@toolloop/durable';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { createDatabaseFolder, createServerDatabase, describePostgres } from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
jest.setTimeout(60_000);

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const STEPS = 4;
const SOME = 10;

class Staff extends ActorDirectory {
  override find(id: string): Promise<{ readonly id: string }> {
    return Promise.resolve({ id });
  }
}

/** Notes what is logged as a warning or an error. */
class NotedLogger implements LoggerService {
  readonly noted: string[] = [];
  log(): void {}
  warn(message: unknown): void {
    this.noted.push(String(message));
  }
  error(message: unknown): void {
    this.noted.push(String(message));
  }
}

const turn: ScriptedTurn = ({ messages }) => {
  const made = messages.filter(({ role }) => role === 'tool').length;
  return made < STEPS ? calls(call('desk__act', { number: made })) : text('Done.');
};

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

async function start(durable: DurableOptions, logger: LoggerService): Promise<TestingModule> {
  const act = tool({
    id: 'desk__act',
    description: 'Does something.',
    effect: 'state_change',
    reveal: 'all',
    input: { type: 'object', properties: { number: { type: 'number' } } },
    execute: () => new Promise((resolve) => setTimeout(() => resolve('done'), 20)),
  });
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel(Array.from({ length: 5_000 }, () => turn)),
        policy: { version: 'v1', allow: ['*'], flow: 'off' },
        tools: [act],
      }),
      DurableModule.forRoot({ ...durable, runs: { drainMs: 5_000 }, retention: { runs: 30 } }),
    ],
    providers: [Staff],
  }).compile();
  module.useLogger(logger);
  await module.init();
  return module;
}

const ask = () => ({ ...alice, prompt: 'Go on.', durable: true });

/** Stops an application while requests keep coming, and tells how those after that ended. */
async function stopped(durable: DurableOptions) {
  const logger = new NotedLogger();
  const module = await start(durable, logger);
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const open = (): Promise<unknown> => loop.run(ask()).catch((error: unknown) => error);
  const before = Array.from({ length: SOME }, open);
  await Promise.all(Array.from({ length: SOME }, () => runs.start(ask())));
  const late: Promise<unknown>[] = [];
  const closing = module.close();
  await new Promise(setImmediate); // Nest tells its providers in the next turn
  const asking = setInterval(() => {
    late.push(
      open(),
      runs.start(ask()).catch((error: unknown) => error),
    );
  }, 2);
  await closing;
  clearInterval(asking);
  await Promise.all(before);
  return { logger, late: await Promise.all(late) };
}

async function statusesIn(durable: DurableOptions): Promise<readonly string[]> {
  const database = await openDatabase(durable);
  const rows = await database.query<{ status: string }>('select distinct status from toolloop.runs order by status');
  await database.close();
  return rows.map(({ status }) => status);
}

function refusesAndDrains(place: () => Promise<DurableOptions>): void {
  it('refuses with a 503 whatever comes then, and leaves no run that is running', async () => {
    const durable = await place();
    const { logger, late } = await stopped(durable);
    expect(late.length).toBeGreaterThan(10);
    const statuses = late.map((error) => (error instanceof HttpException ? error.getStatus() : error));
    expect(new Set(statuses)).toEqual(new Set([503]));
    expect(await statusesIn(durable)).not.toContain('running');
    expect(logger.noted).toEqual([]);
  });
}

describe('an application on PGlite that is told to stop', () => {
  refusesAndDrains(async () => {
    const { dataDir, drop } = await createDatabaseFolder();
    cleanUps.push(drop);
    return { dataDir };
  });
});

describePostgres('an application on PostgreSQL that is told to stop', () => {
  refusesAndDrains(async () => {
    const { url, drop } = await createServerDatabase();
    cleanUps.push(drop);
    return { url };
  });
});
