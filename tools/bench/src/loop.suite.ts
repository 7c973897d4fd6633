import { count } from './counters.js';
import type { Driver } from './drivers/driver.js';
import { FLOOR, floorDriver } from './drivers/floor.driver.js';
import { openAiSdkDriver } from './drivers/openai-sdk.driver.js';
import { loadPeers } from './drivers/peers.js';
import { toolloopDrivers } from './drivers/toolloop.driver.js';
import { startProvider, type LocalProvider } from './local-provider.js';
import { entry, perform } from './race.js';
import type { Section, Suite, Table, Target } from './report.js';
import { compare, type Contender, type Rounds, type Samples } from './sampling.js';
import type { Task } from './task.js';

const STEPS: Task = { steps: 10, chunks: 20, pace: 'one write' };
const PACED: Task = { steps: 1, chunks: 500, pace: 'chunk by chunk' };
const FEW: Task = { steps: 1, chunks: 500, pace: 'one write' };
const MANY: Task = { steps: 1, chunks: 2000, pace: 'one write' };

/** Drivers that were measured together, the floor first. */
interface Field {
  readonly drivers: readonly Driver[];
  readonly steps: Samples;
  readonly paced: Samples;
  /** The samples of answers in one write; see {@link few} and {@link many}. */
  readonly chunks: Samples;
}

/** The whole loop over a local provider, against others that do the same. */
export const loopSuite: Suite = {
  name: 'loop',
  async run(): Promise<Section> {
    const provider = await startProvider();
    const { drivers: own, tools } = await toolloopDrivers();
    const { drivers: peers, skipped } = await loadPeers(tools);
    const floor = floorDriver(tools);
    const near = await measure([floor, ...own, openAiSdkDriver(tools)], provider, {
      rounds: 9,
      warmUp: 12,
    });
    const fields =
      peers.length === 0
        ? [near]
        : [near, await measure([floor, ...peers], provider, { rounds: 5, warmUp: 3 })];
    const drivers = [...near.drivers, ...peers];
    const counted = await countAll(drivers, provider);
    for (const driver of drivers) await driver.close();
    await provider.stop();
    return { ...describe(near), tables: [cpuTable(fields), counted], skipped };
  },
};

async function measure(
  drivers: readonly Driver[],
  provider: LocalProvider,
  { rounds, warmUp }: Rounds,
): Promise<Field> {
  const entriesFor = (task: Task, runs: number, label = (name: string) => name): Contender[] =>
    drivers.map((driver) => entry(driver, task, { provider, runs, name: label(driver.name) }));
  return {
    drivers,
    steps: await compare(entriesFor(STEPS, 12), { rounds, warmUp }),
    paced: await compare(entriesFor(PACED, 3), { rounds: Math.ceil(rounds / 2), warmUp: 2 }),
    chunks: await compare([...entriesFor(FEW, 16, few), ...entriesFor(MANY, 8, many)], {
      rounds,
      warmUp: 2,
    }),
  };
}

function few(driver: string): string {
  return `${driver}, ${FEW.chunks} chunks`;
}

function many(driver: string): string {
  return `${driver}, ${MANY.chunks} chunks`;
}

function describe(field: Field): Pick<Section, 'title' | 'method' | 'targets'> {
  const own = field.drivers.map(({ name }) => name).filter((name) => name.startsWith('toolloop'));
  const perCall = Math.max(...own.map((name) => field.steps.ratio(name, FLOOR, 'cpu')));
  const perText = Math.max(...own.map((name) => perChunk(name, field) / perChunk(FLOOR, field)));
  const targets: Target[] = [
    {
      what: 'CPU per model call, the slowest way to read',
      value: perCall,
      unit: '× floor',
      atMost: 4,
    },
    {
      what: 'CPU per text chunk, the slowest way to read',
      value: perText,
      unit: '× floor',
      atMost: 0.6,
    },
  ];
  return {
    title: 'the loop over a local provider',
    method: [
      'A provider in a process of its own; every driver does the same task with the same tools and schemas, and its text and calls are checked. CPU time of this',
      'process, all threads (process.cpuUsage), medians; rounds interleaved between the drivers, the peers in a second field with the floor in it again; a ratio is',
      'the median of the ratios of each round.',
      `Per model call: ${STEPS.steps} steps, one call each of 3 tools, 1 KB results, ${STEPS.chunks} text chunks in the last step. Per text chunk: what an answer of`,
      `${MANY.chunks} chunks takes beyond one of ${FEW.chunks}, each in one write. Paced: ${PACED.chunks} chunks that the provider writes one by one, the whole run, per chunk;`,
      'who is slower reads more of them at once.',
    ],
    targets,
  };
}

function perChunk(name: string, { chunks }: Field): number {
  return chunks.beyond(many(name), few(name), 'cpu') / (MANY.chunks - FEW.chunks);
}

function cpuTable(fields: readonly Field[]): Table {
  return {
    title: `CPU in µs, and as a ratio to "${FLOOR}"`,
    columns: [
      { key: 'driver', title: 'driver' },
      { key: 'perCall', title: 'per model call', digits: 0 },
      { key: 'perCallRatio', title: '×' },
      { key: 'spread', title: '± %', digits: 0 },
      { key: 'perChunk', title: 'per chunk' },
      { key: 'perChunkRatio', title: '×' },
      { key: 'fewRatio', title: `${FEW.chunks} chunks ×` },
      { key: 'manyRatio', title: `${MANY.chunks} chunks ×` },
      { key: 'paced', title: 'paced, per chunk' },
      { key: 'pacedRatio', title: '×' },
    ],
    rows: fields.flatMap((field, index) =>
      field.drivers.slice(index === 0 ? 0 : 1).map(({ name }) => cpuRow(name, field)),
    ),
  };
}

function cpuRow(name: string, field: Field): Table['rows'][number] {
  const { steps, paced, chunks } = field;
  return {
    driver: name,
    perCall: steps.of(name, 'cpu') / STEPS.steps,
    perCallRatio: steps.ratio(name, FLOOR, 'cpu'),
    spread: steps.spread(name, 'cpu'),
    perChunk: perChunk(name, field),
    perChunkRatio: perChunk(name, field) / perChunk(FLOOR, field),
    fewRatio: chunks.ratio(few(name), few(FLOOR), 'cpu'),
    manyRatio: chunks.ratio(many(name), many(FLOOR), 'cpu'),
    paced: paced.of(name, 'cpu') / PACED.chunks,
    pacedRatio: paced.ratio(name, FLOOR, 'cpu'),
  };
}

async function countAll(drivers: readonly Driver[], provider: LocalProvider): Promise<Table> {
  const rows = [];
  for (const driver of drivers) {
    const { promises, parses, stringifies, charactersStringified, hashes } = await count(() =>
      perform(driver, STEPS, provider),
    );
    const perCall = { promises, parses, stringifies, characters: charactersStringified, hashes };
    rows.push({
      driver: driver.name,
      ...Object.fromEntries(
        Object.entries(perCall).map(([key, value]) => [key, value / STEPS.steps]),
      ),
    });
  }
  return {
    title: 'counted per model call, independent of any clock',
    columns: [
      { key: 'driver', title: 'driver' },
      { key: 'promises', title: 'promises', digits: 0 },
      { key: 'parses', title: 'JSON.parse', digits: 0 },
      { key: 'stringifies', title: 'JSON.stringify', digits: 0 },
      { key: 'characters', title: 'characters stringified', digits: 0 },
      { key: 'hashes', title: 'hashes', digits: 0 },
    ],
    rows,
  };
}
