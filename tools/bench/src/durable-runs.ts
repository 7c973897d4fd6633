import { setTimeout as wait } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ActorDirectory,
  LlmTool,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { InProcessModel, WHO, callOf, textOf } from './application.js';
import type { Table, Target } from './report.js';
import { compare, repeat, type Contender } from './sampling.js';

const STEPS = 50;
const WAITING = 10_000;
/** Waiting runs that the process itself has suspended before anything is weighed. */
const SUSPENDED = 50;
const IDLE_MS = 10_000;
const NO_LIMITS = { steps: STEPS + 2, callsPerTool: STEPS, identicalCalls: STEPS } as const;
const PROMPTS = ['look', 'act'] as const;

/** The cost of an application with durable runs. */
export interface RunFigures {
  readonly tables: readonly Table[];
  readonly targets: readonly Target[];
}

@ToolProvider({ namespace: 'bench' })
class BenchTools {
  @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' })
  look(@ToolParam('step', { description: 'Which' }) step: number): number {
    return step;
  }

  @LlmTool({ description: 'Acts.', effect: 'state_change', reveal: 'all' })
  act(@ToolParam('step', { description: 'Which' }) step: number): number {
    return step;
  }

  @LlmTool({ description: 'Asks a person.', effect: 'state_change', reveal: 'all' })
  ask(): void {}
}

class Staff extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

/** Calls the tool that the prompt names, in every step. */
class NamedToolModel extends InProcessModel {
  constructor(private readonly tool: () => string) {
    super((step) => this.answerOf(step));
  }

  private answerOf(step: number): readonly ModelEvent[] {
    return step > STEPS
      ? textOf('Done.')
      : callOf(`bench__${this.tool()}`, this.tool() === 'ask' ? {} : { step }, `call_${step}`);
  }
}

/**
 * Steps of runs that are kept beside those of runs that are not, and runs that wait, all in one
 * application.
 */
export async function measureRuns(engine: string, durable: DurableOptions): Promise<RunFigures> {
  let tool = 'look';
  const application = await openApplication(durable, new NamedToolModel(() => tool));
  const use = (name: string): void => void (tool = name);
  try {
    const steps = await measureSteps(engine, application, use);
    use('ask');
    const waiting = await measureWaiting(engine, application);
    return {
      tables: [steps.table, waiting.table],
      targets: [...steps.targets, ...waiting.targets],
    };
  } finally {
    await application.close();
  }
}

function openApplication(
  durable: DurableOptions,
  model: InProcessModel,
): Promise<INestApplicationContext> {
  class BenchModule {
    readonly name = 'durable bench';
  }
  const policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ tools: ['bench__ask'] }],
  } as const;
  const imports = [
    ToolLoopModule.forRoot({ model, policy, limits: NO_LIMITS }),
    DurableModule.forRoot(durable),
  ];
  return NestFactory.createApplicationContext(
    { module: BenchModule, imports, providers: [BenchTools, Staff] },
    { logger: false },
  );
}

async function measureSteps(
  engine: string,
  application: INestApplicationContext,
  use: (tool: string) => void,
): Promise<{ table: Table; targets: Target[] }> {
  const loop = application.get(ToolLoopService);
  const contender = (tool: string, durable: boolean): Contender => ({
    name: `${tool} ${durable ? 'durable' : 'plain'}`,
    units: STEPS,
    prepare: () => use(tool),
    work: async () => void (await loop.run({ prompt: 'Go on.', ...WHO, durable })),
  });
  const contenders = PROMPTS.flatMap((tool) => [contender(tool, false), contender(tool, true)]);
  const samples = await compare(contenders, { rounds: 15, warmUp: 5 });
  const rows = PROMPTS.map((tool) => ({
    step: tool === 'look' ? 'a read' : 'a write, with its journal',
    plain: samples.of(`${tool} plain`, 'wall') / 1000,
    durable: samples.of(`${tool} durable`, 'wall') / 1000,
    beyond: samples.beyond(`${tool} durable`, `${tool} plain`, 'wall') / 1000,
  }));
  const table: Table = {
    title: `${engine}: a step of a run`,
    columns: [
      { key: 'step', title: 'a step with' },
      { key: 'plain', title: 'ms' },
      { key: 'durable', title: 'ms, durable' },
      { key: 'beyond', title: 'ms beyond' },
    ],
    rows,
  };
  const targets = rows.map(({ step, beyond }) => ({
    what: `${engine}: what ${step} costs more in a durable run`,
    value: beyond,
    unit: 'ms',
    atMost: 2,
  }));
  return { table, targets };
}

/**
 * A few runs that really were suspended here, and copies of one of them: suspending ten thousand
 * takes minutes and leaves the same rows.
 */
async function measureWaiting(
  engine: string,
  application: INestApplicationContext,
): Promise<{ table: Table; targets: Target[] }> {
  const loop = application.get(ToolLoopService);
  await repeat(SUSPENDED, () => loop.run({ prompt: 'Go on.', ...WHO, durable: true }));
  await wait(1_000);
  const before = heapBytes();
  const idleBefore = await idleShare();
  await copyWaiting(application.get(Database));
  await wait(1_000);
  const idle = await idleShare();
  const bytes = (heapBytes() - before) / WAITING;
  const table: Table = {
    title: `${engine}: ${WAITING.toLocaleString('en-US')} runs that wait`,
    columns: [
      { key: 'bytes', title: 'bytes of heap each', digits: 0 },
      { key: 'idle', title: '% CPU' },
      { key: 'idleBefore', title: '% CPU before' },
    ],
    rows: [{ bytes, idle, idleBefore }],
  };
  const targets = [
    {
      what: `${engine}: what a waiting run weighs in the process`,
      value: bytes,
      unit: 'bytes',
      atMost: 100,
    },
    { what: `${engine}: CPU with ${WAITING} waiting runs`, value: idle, unit: '%', atMost: 1 },
  ];
  return { table, targets };
}

async function copyWaiting(database: Database): Promise<void> {
  await database.transaction(async () => {
    await database.query(
      `insert into toolloop.runs (run_id, tenant, actor_id, loop, request, status, finish_reason, last_sequence)
       select 'copy ' || n, tenant, actor_id, loop, request, status, finish_reason, last_sequence
       from (select * from toolloop.runs where status = 'waiting' limit 1) as one, generate_series(1, ${WAITING}) as n`,
    );
    const one = `(select run_id from toolloop.runs where status = 'waiting' and run_id not like 'copy %' limit 1)`;
    await database.query(
      `insert into toolloop.run_entries (run_id, key_hash, position, entry)
       select 'copy ' || n, key_hash, position, entry from toolloop.run_entries, generate_series(1, ${WAITING}) as n where run_id = ${one}`,
    );
    await database.query(
      `insert into toolloop.run_events (run_id, position, sequence, event_count, events, ends)
       select 'copy ' || n, position, sequence, event_count, events, ends from toolloop.run_events, generate_series(1, ${WAITING}) as n where run_id = ${one}`,
    );
  });
}

function heapBytes(): number {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

/** Returns the share of one CPU that the process takes while it is idle, in percent. */
async function idleShare(): Promise<number> {
  const cpu = process.cpuUsage();
  const before = performance.now();
  await wait(IDLE_MS);
  const { user, system } = process.cpuUsage(cpu);
  return (user + system) / 10 / (performance.now() - before);
}
