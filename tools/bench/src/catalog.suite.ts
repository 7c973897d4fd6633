import { setImmediate } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import {
  type LoopRequest,
  type RawTool,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { InProcessModel, textOf, untilCancelled } from './application.js';
import type { Section, Suite, Table } from './report.js';
import { compare, median, repeat } from './sampling.js';
import { YARDSTICK, yardstick } from './yardstick.js';

const SIZES = [10, 100, 1000, 10_000];
const LARGEST = 10_000;
const HELD_AT = 1000;
const HELD_RUNS = 200;
const ACTORS = 100;
const TENANTS = 10;

/**
 * The cost of a run's beginning, and the weight of an open one, by the tools of its application.
 */
export const catalogSuite: Suite = {
  name: 'catalog',
  async run(): Promise<Section> {
    const rows = [];
    for (const tools of SIZES) rows.push(await openingRow(tools));
    const weights = [];
    for (const tools of [10, HELD_AT]) weights.push(await weightRow(tools));
    return {
      title: 'runs of a large catalog',
      method: [
        `Opening: loop.open(), which prepares a run, and a whole run whose model answers at once. The actors are ${ACTORS} people in ${TENANTS} tenants with one of two roles, another with every`,
        'run; the policy names both roles and one tenant. `when` is the same where one tool has a `when` that looks at the actor; a new list is one that no run has had: its selection',
        'is another each time. Time of this thread on a CPU, medians of 9 rounds.',
        `Weight: ${HELD_RUNS} runs that wait for their model, heap after full collections, with the runs less before them, medians of 5 rounds.`,
      ],
      tables: [openingTable(rows), weightTable(weights)],
      targets: [
        {
          what: `opening a run at ${LARGEST} tools`,
          value: (rows.at(-1)?.open ?? Number.NaN) / 1000,
          unit: 'ms',
          atMost: 0.3,
        },
        {
          what: `the same with a when`,
          value: (rows.at(-1)?.when ?? Number.NaN) / 1000,
          unit: 'ms',
          atMost: 0.3,
        },
        {
          what: `an open run at ${HELD_AT} tools`,
          value: weights.at(-1)?.kilobytes ?? Number.NaN,
          unit: 'KB',
          atMost: 30,
        },
      ],
      skipped: globalThis.gc ? [] : [{ what: 'the weight', why: 'needs node --expose-gc' }],
    };
  },
};

interface Opening extends Readonly<Record<string, number>> {
  readonly open: number;
  readonly when: number;
}

function openingTable(rows: readonly Opening[]): Table {
  return {
    title: 'opening a run',
    columns: [
      { key: 'tools', title: 'tools', digits: 0 },
      { key: 'open', title: 'open µs', digits: 0 },
      { key: 'when', title: 'with a when µs', digits: 0 },
      { key: 'fresh', title: 'a new list µs', digits: 0 },
      { key: 'yardsticks', title: '× yardstick', digits: 1 },
      { key: 'run', title: 'a whole run µs', digits: 0 },
      { key: 'spread', title: '± %', digits: 0 },
    ],
    rows,
  };
}

async function openingRow(tools: number): Promise<Opening> {
  const [plain, conditional] = [
    await started(catalogOf(tools)),
    await started([...catalogOf(tools), conditionalTool()]),
  ];
  const [times, lists] = [2000, Math.max(5, 50_000 / tools)];
  const samples = await compare(
    [
      {
        name: 'open',
        units: times,
        work: () => repeat(times, () => plain.loop.open(asked()).runId),
      },
      {
        name: 'when',
        units: times,
        work: () => repeat(times, () => conditional.loop.open(asked()).runId),
      },
      {
        name: 'fresh',
        units: lists,
        work: () => repeat(lists, () => plain.loop.open(askedAnew()).runId),
      },
      { name: 'run', units: times, work: () => repeat(times, () => plain.loop.run(asked())) },
      yardstick(),
    ],
    { rounds: 9, warmUp: 5 },
  );
  await Promise.all([plain.close(), conditional.close()]);
  const [open, when, fresh, run] = ['open', 'when', 'fresh', 'run'].map((name) =>
    samples.of(name, 'thread'),
  );
  return {
    tools,
    open: open ?? Number.NaN,
    when: when ?? Number.NaN,
    fresh: fresh ?? Number.NaN,
    run: run ?? Number.NaN,
    yardsticks: samples.ratio('open', YARDSTICK, 'thread'),
    spread: samples.spread('open', 'thread'),
  };
}

interface Weight extends Readonly<Record<string, number>> {
  readonly kilobytes: number;
}

function weightTable(rows: readonly Weight[]): Table {
  return {
    title: 'an open run',
    columns: [
      { key: 'tools', title: 'tools', digits: 0 },
      { key: 'kilobytes', title: 'KB', digits: 1 },
    ],
    rows,
  };
}

async function weightRow(tools: number): Promise<Weight> {
  const app = await started(
    catalogOf(tools),
    new InProcessModel((_, signal) => untilCancelled(signal)),
  );
  const weights: number[] = [];
  for (let round = -2; round < 5; round += 1) {
    const weight = await weightOfRuns(app.loop);
    if (round >= 0) weights.push(weight / 1024);
  }
  await app.close();
  return { tools, kilobytes: median(weights) };
}

/**
 * Returns the bytes of one of many runs that are open at the same time, each waiting for the answer
 * of its model.
 */
async function weightOfRuns(loop: ToolLoopService): Promise<number> {
  const before = await heapUsed();
  const handles = await Promise.all(Array.from({ length: HELD_RUNS }, () => waiting(loop)));
  const bytes = (await heapUsed()) - before;
  await Promise.all(handles.map((end) => end()));
  return bytes / HELD_RUNS;
}

/**
 * Returns what is left of the heap after full collections, with time for what waits to be released
 * between them.
 */
async function heapUsed(): Promise<number> {
  const { gc } = globalThis;
  if (!gc) return Number.NaN;
  for (let time = 0; time < 4; time += 1) {
    gc();
    await setImmediate();
  }
  return process.memoryUsage().heapUsed;
}

/** Opens a run, and resolves as soon as it asks its model. */
async function waiting(loop: ToolLoopService): Promise<() => Promise<unknown>> {
  const handle = loop.open(asked());
  await new Promise<void>((resolve) => {
    handle.events$.subscribe((event) => {
      if (event.type === 'step-start') resolve();
    });
  });
  return () => {
    handle.cancel();
    return handle.result.catch((reason: unknown) => reason);
  };
}

let runs = 0;

/** Another actor with every run, of many who share two roles. */
function asked(): LoopRequest {
  runs += 1;
  const actor = { id: `actor-${runs % ACTORS}`, roles: [runs % 2 === 0 ? 'staff' : 'lead'] };
  return { prompt: 'Go on.', actor, tenant: `tenant-${runs % TENANTS}` };
}

/** Selects the tools in other words than the last hundred runs of the tenant. */
function askedAnew(): LoopRequest {
  const [one, other] = [runs % 10, Math.floor(runs / 10) % 10];
  return { ...asked(), tenant: 'tenant-0', tools: ['*', idOf(one), idOf(other)] };
}

function idOf(index: number): string {
  return `parts${index % 100}__findPart${index}`;
}

const POLICY = {
  allow: [],
  roles: { staff: { allow: ['*'] }, lead: { allow: ['*'], deny: ['parts3__*'] } },
  tenants: { 'tenant-7': { deny: ['parts4__*'] } },
};

interface Started {
  readonly loop: ToolLoopService;
  close(): Promise<void>;
}

async function started(
  tools: RawTool[],
  model = new InProcessModel(() => textOf('Done.')),
): Promise<Started> {
  class BenchModule {
    readonly name = 'catalog';
  }
  const audit = { key: 'a key of the benchmarks, which signs the entries of their audit' };
  const imports = [ToolLoopModule.forRoot({ model, policy: POLICY, tools, audit })];
  const app = await NestFactory.createApplicationContext(
    { module: BenchModule, imports },
    { logger: false },
  );
  return { loop: app.get(ToolLoopService), close: () => app.close() };
}

function catalogOf(count: number): RawTool[] {
  return Array.from({ length: count }, (_, index) =>
    tool({
      id: idOf(index),
      description: `Finds the parts of kind ${index} that are in stock.`,
      effect: 'read_only',
      reveal: 'all',
      input: {
        type: 'object',
        properties: { partId: { type: 'string', maxLength: 80 } },
        required: ['partId'],
        additionalProperties: false,
      },
      execute: (given) => given,
    }),
  );
}

function conditionalTool(): RawTool {
  return tool({
    id: 'desk__close',
    description: 'Closes the desk for today.',
    effect: 'read_only',
    reveal: 'all',
    when: ({ actor }) => JSON.stringify(actor).includes('0'),
    execute: () => null,
  });
}
