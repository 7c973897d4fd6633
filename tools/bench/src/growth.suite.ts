import {
  InProcessModel,
  WHO,
  callOf,
  start,
  textOf,
  type BenchApplication,
} from './application.js';
import type { Driver } from './drivers/driver.js';
import { FLOOR, floorDriver } from './drivers/floor.driver.js';
import { TaskTools, toolloopDrivers } from './drivers/toolloop.driver.js';
import { startProvider, type LocalProvider } from './local-provider.js';
import { entry, perform } from './race.js';
import type { Section, Suite, Table } from './report.js';
import { compare, repeat, type Contender, type Samples } from './sampling.js';
import { TOOL_NAMES, type Task } from './task.js';

const STEPS = [10, 50, 200] as const;
const STEPS_IN_PROCESS = [10, 50, 200, 1000] as const;
const TOOLLOOP = 'toolloop, events$';
const IN_PROCESS = 'toolloop, no wire';

/** The cost of a step after many others. */
export const growthSuite: Suite = {
  name: 'growth',
  async run(): Promise<Section> {
    const wire = await overWire();
    const noWire = await withoutWire();
    return {
      title: 'cost per step as the steps grow',
      method: [
        'CPU per step of whole runs of 10, 50 and 200 steps over the local provider (task as in "loop"), so that each sample has as many steps; interleaved, medians.',
        'The floor grows with the bytes it sends, since it joins its body as people do. Without a wire: a model inside the process that answers at once, which leaves the',
        'loop and the pipeline; the fixed cost of a run is spread over more steps, so the figure should fall and then stay.',
      ],
      tables: [wire.table, noWire.table],
      targets: [
        { what: 'CPU per step of 200 steps', value: wire.lastRatio, unit: '× floor', atMost: 1.3 },
        {
          what: 'without a wire: a step of 200, to one of 50',
          value: noWire.growth,
          unit: '×',
          atMost: 1.2,
        },
      ],
      skipped: [],
    };
  },
};

function labelled(name: string, steps: number): string {
  return `${name}, ${steps} steps`;
}

async function overWire(): Promise<{ readonly table: Table; readonly lastRatio: number }> {
  const provider = await startProvider();
  const { drivers, tools } = await toolloopDrivers();
  const floor = floorDriver(tools);
  const compared = [floor, ...drivers.filter(({ name }) => name === TOOLLOOP)];
  const samples = await compare(
    STEPS.flatMap((steps) => compared.map((driver) => growing(driver, steps, provider))),
    { rounds: 5, warmUp: 3 },
  );
  const rows = [];
  for (const steps of STEPS)
    rows.push(await wireRow(samples, steps, () => perform(floor, taskOf(steps), provider)));
  for (const driver of [floor, ...drivers]) await driver.close();
  await provider.stop();
  const ratios = rows.map(({ ratio }) => ratio);
  return {
    lastRatio: ratios.at(-1) ?? Number.NaN,
    table: {
      title: `over the wire, CPU in µs per step, against "${FLOOR}"`,
      columns: [
        { key: 'steps', title: 'steps', digits: 0 },
        { key: 'bytes', title: 'bytes sent per step', digits: 0 },
        { key: 'floor', title: 'floor', digits: 0 },
        { key: 'toolloop', title: TOOLLOOP, digits: 0 },
        { key: 'beyond', title: 'beyond the floor', digits: 0 },
        { key: 'ratio', title: '×' },
      ],
      rows,
    },
  };
}

function taskOf(steps: number): Task {
  return { steps, chunks: 20, pace: 'one write' };
}

function growing(driver: Driver, steps: number, provider: LocalProvider): Contender {
  return entry(driver, taskOf(steps), {
    provider,
    runs: 200 / steps,
    name: labelled(driver.name, steps),
  });
}

async function wireRow(
  samples: Samples,
  steps: number,
  once: () => Promise<{ readonly bytesSent?: number }>,
) {
  const [floor, toolloop] = [labelled(FLOOR, steps), labelled(TOOLLOOP, steps)];
  const { bytesSent = Number.NaN } = await once();
  return {
    steps,
    bytes: bytesSent / steps,
    floor: samples.of(floor, 'cpu') / steps,
    toolloop: samples.of(toolloop, 'cpu') / steps,
    beyond: samples.beyond(toolloop, floor, 'cpu') / steps,
    ratio: samples.ratio(toolloop, floor, 'cpu'),
  };
}

async function withoutWire(): Promise<{ readonly table: Table; readonly growth: number }> {
  const app = await start(new InProcessModel(() => []), [TaskTools]);
  const samples = await compare(
    STEPS_IN_PROCESS.map((steps) => inProcess(app, steps)),
    { rounds: 7, warmUp: 3 },
  );
  await app.close();
  const perStep = (steps: number): number => samples.of(labelled(IN_PROCESS, steps), 'cpu') / steps;
  return {
    growth: perStep(200) / perStep(50),
    table: {
      title: 'without a wire, CPU in µs per step',
      columns: [
        { key: 'steps', title: 'steps', digits: 0 },
        { key: 'toolloop', title: 'toolloop', digits: 1 },
      ],
      rows: STEPS_IN_PROCESS.map((steps) => ({ steps, toolloop: perStep(steps) })),
    },
  };
}

function inProcess({ loop }: BenchApplication, steps: number): Contender {
  const model = new InProcessModel((step) => {
    if (step >= steps) return textOf('Done.');
    return callOf(
      TOOL_NAMES[step % TOOL_NAMES.length] ?? '',
      { query: 'Dublin', page: step, open: true },
      `call_${step}`,
    );
  });
  const runs = 1000 / steps;
  const run = async (): Promise<void> => {
    const handle = loop.open({ prompt: 'Go on.', model, ...WHO });
    await new Promise<void>((resolve) => {
      handle.events$.subscribe({ complete: resolve });
    });
    const { steps: made } = await handle.result;
    if (made !== steps) throw new Error(`${made} steps instead of ${steps}.`);
  };
  return { name: labelled(IN_PROCESS, steps), units: runs, work: () => repeat(runs, run) };
}
