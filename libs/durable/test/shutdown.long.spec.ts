import { EventEmitter, once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { HttpException, type LoggerService } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { ActorDirectory, tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { DurableModule, type DurableOptions, openDatabase } from '@toolloop/durable';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { createDatabaseFolder, createServerDatabase, describePostgres } from './databases.js';
import { Way } from './fixtures/way.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
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

async function start(
  durable: DurableOptions,
  logger: LoggerService | false,
  called: (runId: string) => Promise<unknown> = () => wait(20),
): Promise<TestingModule> {
  const act = tool({
    id: 'desk__act',
    description: 'Does something.',
    effect: 'state_change',
    reveal: 'all',
    input: { type: 'object', properties: { number: { type: 'number' } } },
    execute: (_, { runId }) => called(runId).then(() => 'done'),
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
  const rows = await database.query<{ status: string }>(
    'select distinct status from toolloop.runs order by status',
  );
  await database.close();
  return rows.map(({ status }) => status);
}

function refusesAndDrains(place: () => Promise<DurableOptions>): void {
  it('refuses with a 503 whatever comes then, and leaves no run that is running', async () => {
    const durable = await place();
    const { logger, late } = await stopped(durable);
    expect(late.length).toBeGreaterThan(10);
    const statuses = late.map((error) =>
      error instanceof HttpException ? error.getStatus() : error,
    );
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

/** A statement without an answer is given up after 15 seconds while the process works. */
const TOO_LONG_MS = 10_000;

/**
 * Stops an application with runs under way whose server does what `trouble` has it do, and tells
 * whether it closed, and the states of its runs.
 */
async function closedIn(
  trouble: (way: Way) => void,
): Promise<{ readonly closed: string; readonly statuses: readonly string[] }> {
  const server = await createServerDatabase();
  cleanUps.push(server.drop);
  const way = await Way.to(server.url);
  cleanUps.push(() => Promise.resolve(way.close()));
  const within = new Set<string>();
  const acts = new EventEmitter();
  const allWithin = once(acts, 'all within');
  const module = await start({ url: way.url }, false, (runId) => {
    if (within.add(runId).size === SOME) acts.emit('all within');
    return allWithin.then(() => wait(20));
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs = Array.from({ length: SOME }, () => loop.run(ask()).catch(() => undefined));
  await allWithin;
  trouble(way);
  const closed = await Promise.race([
    module.close().then(() => 'closed'),
    wait(TOO_LONG_MS, 'still open', { ref: false }),
  ]);
  const statuses = await statusesIn({ url: server.url });
  way.free();
  await Promise.all(runs);
  return { closed, statuses };
}

describePostgres('an application that is told to stop while its server does not answer', () => {
  it('closes within seconds where the server is gone, and leaves its runs to other processes', async () => {
    expect(await closedIn((way) => way.block())).toEqual({
      closed: 'closed',
      statuses: ['running'],
    });
  });

  it('hands its runs over by other connections where those that it has are gone', async () => {
    const { closed, statuses } = await closedIn((way) => way.forget());
    expect({ closed, isRunning: statuses.includes('running') }).toEqual({
      closed: 'closed',
      isRunning: false,
    });
  });

  it('hands its runs over where the server answers again in time', async () => {
    const { closed, statuses } = await closedIn((way) => {
      way.block();
      setTimeout(() => way.free(), 1_000);
    });
    expect({ closed, isRunning: statuses.includes('running') }).toEqual({
      closed: 'closed',
      isRunning: false,
    });
  });
});
