import { Injectable } from '@nestjs/common';
import { LlmTool, type LoopRequest, ToolParam, ToolProvider, type ToolSpec } from '@toolloop/core';
import { Expose } from 'class-transformer';
import {
  InProcessModel,
  callOf,
  hold,
  start,
  untilCancelled,
  type BenchApplication,
} from './application.js';
import type { Section, Suite } from './report.js';
import { median } from './sampling.js';

const INSTANCES = 1000;
const TOOLS_EACH = 3;
const ROUNDS = 9;

@ToolProvider({ prefix: 'item' })
class Item {
  @Expose() readonly id: string;
  @Expose() readonly name: string;

  constructor(index: number) {
    this.id = `i-${index}`;
    this.name = `Item ${index}`;
  }

  @LlmTool({ description: 'What it is about.', effect: 'read_only', reveal: 'all' })
  describe(): string {
    return this.name;
  }

  @LlmTool({ description: 'What it cost lately.', effect: 'read_only', reveal: 'all' })
  getPrices(
    @ToolParam('limit', { description: 'How many', default: 10, minimum: 1, maximum: 50 })
    limit: number,
  ): number[] {
    return [limit];
  }

  @LlmTool({ description: 'Takes it off the list.', effect: 'state_change', reveal: [] })
  archive(): void {}
}

@Injectable()
@ToolProvider({ namespace: 'bench' })
class ItemTools {
  @LlmTool({ description: 'Finds items.', effect: 'read_only', output: [Item] })
  find(@ToolParam('count', { description: 'How many' }) count: number): Item[] {
    return Array.from({ length: count }, (_, index) => new Item(index));
  }
}

interface Held {
  readonly bytes: number;
  readonly ms: number;
  readonly injected: readonly ToolSpec[];
}

/** The memory of injected entity tools. */
export const memorySuite: Suite = {
  name: 'memory',
  async run(): Promise<Section> {
    const { gc } = globalThis;
    if (!gc)
      return {
        ...describe(),
        tables: [],
        targets: [],
        skipped: [{ what: 'everything', why: 'needs node --expose-gc' }],
      };
    const rows = [];
    for (const instances of [100, INSTANCES]) rows.push(await rowOf(instances, 'named', gc));
    const grouped = await rowOf(INSTANCES, 'grouped', gc);
    rows.push(grouped);
    return {
      ...describe(),
      tables: [
        {
          title: `${TOOLS_EACH} methods per instance`,
          columns: [
            { key: 'surface', title: 'surface' },
            { key: 'instances', title: 'instances', digits: 0 },
            { key: 'tools', title: 'tools shown', digits: 0 },
            { key: 'perInstance', title: 'bytes per instance', digits: 0 },
            { key: 'perMethod', title: 'per method', digits: 0 },
            { key: 'ms', title: 'ms to find and add', digits: 0 },
            { key: 'microseconds', title: 'µs per instance', digits: 0 },
            { key: 'schemas', title: 'distinct schemas', digits: 0 },
          ],
          rows,
        },
      ],
      targets: [
        {
          what: 'compiled inputs per (class, method)',
          value: Math.max(...rows.map(({ schemas }) => schemas)) / TOOLS_EACH,
          unit: '',
          atMost: 1,
        },
        {
          what: `finding and adding the tools of ${INSTANCES} instances, named`,
          value: rows[1]?.ms ?? Number.NaN,
          unit: 'ms',
          atMost: 20,
        },
        { what: `the same, grouped`, value: grouped.ms, unit: 'ms', atMost: 20 },
        {
          what: `what ${INSTANCES} instances weigh, grouped`,
          value: (grouped.perInstance * INSTANCES) / 2 ** 20,
          unit: 'MB',
          atMost: 5,
        },
      ],
      skipped: [],
    };
  },
};

function describe(): Pick<Section, 'title' | 'method'> {
  return {
    title: 'memory of injected entity tools',
    method: [
      'A run whose first call returns so many entities, each with three methods, held open at its second step; heap after a full collection, with injection less without it; medians of',
      `${ROUNDS} rounds. The time is this thread's on a CPU, of the first step, with injection less without it. Schemas are told apart by identity: one per (class, method).`,
    ],
  };
}

async function rowOf(instances: number, surface: 'named' | 'grouped', gc: NodeJS.GCFunction) {
  const model = new InProcessModel((step, signal) =>
    step === 1 ? callOf('bench__find', { count: instances }, 'first') : untilCancelled(signal),
  );
  const app = await start(model, [ItemTools]);
  const [bytes, ms]: [number[], number[]] = [[], []];
  let tools: readonly ToolSpec[] = [];
  for (let round = -1; round < ROUNDS; round += 1) {
    const [without, withTools] = [
      await held(app, { surface, injection: false }, gc),
      await held(app, { surface }, gc),
    ];
    tools = withTools.injected;
    if (round < 0) continue;
    bytes.push(withTools.bytes - without.bytes);
    ms.push(withTools.ms - without.ms);
  }
  await app.close();
  if (tools.length !== (surface === 'named' ? instances * TOOLS_EACH : TOOLS_EACH))
    throw new Error(`${tools.length} tools were injected.`);
  const schemas = new Set(tools.map(({ inputSchema }) => inputSchema)).size;
  const took = median(ms);
  const weight = median(bytes) / instances;
  return {
    surface,
    instances,
    tools: tools.length,
    perInstance: weight,
    perMethod: weight / TOOLS_EACH,
    ms: took,
    microseconds: (took * 1000) / instances,
    schemas,
  };
}

async function held(
  app: BenchApplication,
  options: Pick<LoopRequest, 'surface' | 'injection'>,
  gc: NodeJS.GCFunction,
): Promise<Held> {
  gc();
  const before = process.memoryUsage().heapUsed;
  const began = process.threadCpuUsage();
  // A result of this size is cut, and what reads on is no tool of an entity.
  const run = await hold(app, { exclude: ['results__read'], ...options });
  const { user, system } = process.threadCpuUsage(began);
  const ms = (user + system) / 1000;
  gc();
  const bytes = process.memoryUsage().heapUsed - before;
  return { bytes, ms, injected: await run.end() };
}
