import { Injectable } from '@nestjs/common';
import { LlmTool, ToolParam, ToolProvider } from '@toolloop/core';
import type { EntitySurface } from '@toolloop/core/strategies';
import { Expose } from 'class-transformer';
import {
  InProcessModel,
  WHO,
  callOf,
  start,
  textOf,
  type BenchApplication,
} from './application.js';
import { count, type Counts } from './counters.js';
import type { Section, Suite, Table, Value } from './report.js';

const TOOLS = 500;
const STEPS = 20;
const MORE_STEPS = 40;

@ToolProvider({ prefix: 'item' })
class Item {
  @Expose() readonly id: string;

  constructor(index: number) {
    this.id = `i-${index}`;
  }

  @LlmTool({ description: 'What it cost lately.', effect: 'read_only', reveal: 'all' })
  getPrices(
    @ToolParam('limit', { description: 'How many', default: 10, minimum: 1, maximum: 50 })
    limit: number,
  ): number[] {
    return [limit];
  }
}

@Injectable()
@ToolProvider({ namespace: 'bench' })
class ItemTools {
  @LlmTool({ description: 'Finds items.', effect: 'read_only', output: [Item] })
  find(@ToolParam('count', { description: 'How many' }) many: number): Item[] {
    return Array.from({ length: many }, (_, index) => new Item(index));
  }
}

/** The work that each step repeats, however many tools there are. */
export const surfacesSuite: Suite = {
  name: 'surfaces',
  async run(): Promise<Section> {
    const rows: Row[] = [];
    for (const surface of ['named', 'grouped', 'dispatcher'] as const)
      for (const instances of [5, TOOLS])
        rows.push({ surface, instances, ...(await perStep(surface, instances)) });
    const most = rows.filter(({ instances }) => instances === TOOLS);
    return {
      title: 'a step with many tools',
      method: [
        `Runs of ${STEPS} and of ${MORE_STEPS} steps, the first of which returns so many entities with a method each; the others call one after the other. Counted is what the`,
        'second has more than the first, by step: so what is done once, when tools come, is in neither. Nothing here depends on a clock.',
      ],
      tables: [tableOf(rows)],
      targets: [
        {
          what: `schemas compiled in a step with ${TOOLS} instances`,
          value: Math.max(...most.map((row) => row.compilations)),
          unit: '',
          atMost: 0,
        },
        {
          what: `characters of JSON with ${TOOLS} instances, to those with 5`,
          value: Math.max(...most.map((row) => growthOf(row, rows))),
          unit: '×',
          atMost: 1.1,
        },
      ],
      skipped: [],
    };
  },
};

function tableOf(rows: readonly Row[]): Table {
  return {
    title: 'per step',
    columns: [
      { key: 'surface', title: 'surface' },
      { key: 'instances', title: 'instances', digits: 0 },
      { key: 'compilations', title: 'schemas compiled' },
      { key: 'stringifies', title: 'JSON.stringify' },
      { key: 'characters', title: 'characters of it', digits: 0 },
      { key: 'hashes', title: 'hashes' },
    ],
    rows,
  };
}

function growthOf({ surface, characters }: Row, rows: readonly Row[]): number {
  const few = rows.find((row) => row.surface === surface && row.instances < TOOLS);
  return characters / (few?.characters ?? Number.NaN);
}

interface Row extends PerStep, Readonly<Record<string, Value>> {
  readonly surface: string;
  readonly instances: number;
}

interface PerStep {
  readonly compilations: number;
  readonly stringifies: number;
  readonly characters: number;
  readonly hashes: number;
}

async function perStep(surface: EntitySurface, instances: number): Promise<PerStep> {
  const counts: Readonly<Counts>[] = [];
  for (const steps of [STEPS, MORE_STEPS]) {
    const app = await start(modelOf(surface, instances, steps), [ItemTools]);
    await play(app, surface); // compiles what is compiled once for the application
    counts.push(await count(() => play(app, surface)));
    await app.close();
  }
  const [few, many] = counts;
  if (!few || !many) throw new Error('Nothing was counted.');
  const each = (of: keyof Counts): number => (many[of] - few[of]) / (MORE_STEPS - STEPS);
  return {
    compilations: each('compilations'),
    stringifies: each('stringifies'),
    characters: each('charactersStringified'),
    hashes: each('hashes'),
  };
}

function modelOf(surface: EntitySurface, instances: number, steps: number): InProcessModel {
  return new InProcessModel((step) => {
    if (step === 1) return callOf('bench__find', { count: instances }, 'first');
    return step < steps ? callAt(surface, `i-${step % instances}`, step) : textOf('Done.');
  });
}

function callAt(surface: EntitySurface, id: string, step: number): ReturnType<typeof callOf> {
  const args = { limit: 1 + (step % 50) };
  if (surface === 'named') return callOf(`item_${id}_getPrices`, args, `c${step}`);
  if (surface === 'grouped') return callOf('item__getPrices', { id, args }, `c${step}`);
  return callOf('entity__call', { entity: 'item', id, method: 'getPrices', args }, `c${step}`);
}

async function play({ loop }: BenchApplication, surface: EntitySurface): Promise<void> {
  const { finishReason, toolCalls } = await loop.run({ prompt: 'Go on.', ...WHO, surface });
  const failed = toolCalls.find(({ status }) => status !== 'succeeded');
  if (finishReason !== 'stop' || failed)
    throw new Error(`The run ended with ${finishReason}: ${failed?.error?.safeMessage ?? ''}`);
}
