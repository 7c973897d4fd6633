import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import type { DynamicModule, INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { ToolSpec } from '@toolloop/core';
import type { ModelRequest } from '@toolloop/protocol';
import { openai } from '@toolloop/openai';
import { InProcessModel, WHO, moduleOf, start, textOf } from './application.js';
import { freshProviders } from './building.tools.js';
import { count, type Counts } from './counters.js';
import type { Section, Suite, Table } from './report.js';
import { compare, median, repeat, type Contender } from './sampling.js';
import { YARDSTICK, yardstick } from './yardstick.js';

/**
 * Few, since every class that was ever declared stays in class-validator's storage, and some of its
 * look-ups go through all of them.
 */
const BATCH = 50;
const MANY = 1000;
const COLD_STARTS = 3;

/** Milliseconds. */
interface StartUp {
  readonly wall: number;
  readonly thread: number;
}

/** The cost of tools before they are called. */
export const buildingSuite: Suite = {
  name: 'building',
  async run(): Promise<Section> {
    const built = await buildWarm();
    const booted = await bootCold();
    return {
      title: 'building, starting, listing, encoding',
      method: [
        `Building: starting a Nest application with ${BATCH} tools (a DTO class of 10 properties each, an output class) less starting its twin, the same classes`,
        'without decorators; fresh classes every time, 11 rounds after 5 of warm-up, interleaved; medians, time of this thread on a CPU, per tool.',
        `Starting: the same with ${MANY} tools, each start in a process of its own where nothing is warm; medians of ${COLD_STARTS}. Importing and declaring are not in it.`,
        'Listing: loop.list() for one actor, which is asked once per run. Encoding: a whole stream() of @toolloop/openai against a fetch that answers at once, first with specs it has',
        'never seen, then with the same ones; the counts are of JSON.stringify and SHA-256 in one such call, the time of the response included in both.',
      ],
      tables: [built.table, booted.table, await listAndEncode()],
      targets: [
        {
          what: 'building a tool with 10 properties',
          value: built.perTool,
          unit: 'ms',
          atMost: 0.2,
        },
        {
          what: `starting with ${MANY} tools, beyond the twin`,
          value: booted.beyond,
          unit: 'ms',
          atMost: 1000,
        },
      ],
      skipped: [],
    };
  },
};

async function buildWarm(): Promise<{ readonly table: Table; readonly perTool: number }> {
  const contenders = (['tools', 'twins'] as const).map((kind) => starter(kind));
  const samples = await compare([...contenders, yardstick()], { rounds: 11, warmUp: 5 });
  const perTool = samples.beyond('tools', 'twins', 'thread') / 1000;
  return {
    perTool,
    table: {
      title: 'building one tool from its decorators',
      columns: [
        { key: 'perTool', title: 'ms per tool', digits: 3 },
        { key: 'wall', title: 'by the clock', digits: 3 },
        { key: 'yardsticks', title: '× yardstick', digits: 1 },
        { key: 'spread', title: '± %', digits: 0 },
      ],
      rows: [
        {
          perTool,
          wall: samples.beyond('tools', 'twins', 'wall') / 1000,
          yardsticks: (perTool * 1000) / samples.of(YARDSTICK, 'thread'),
          spread: samples.spread('tools', 'thread'),
        },
      ],
    },
  };
}

/** The classes of a sample are declared before it, and the application of the last one closed. */
function starter(kind: 'tools' | 'twins'): Contender {
  const model = new InProcessModel(() => textOf('Done.'));
  let app: INestApplicationContext | undefined;
  const declare = (): DynamicModule => moduleOf(model, freshProviders(BATCH, kind));
  let module = declare();
  return {
    name: kind,
    units: BATCH,
    prepare: async () => {
      await app?.close();
      module = declare();
    },
    work: async () => {
      app = await NestFactory.createApplicationContext(module, { logger: false });
    },
  };
}

async function bootCold(): Promise<{ readonly table: Table; readonly beyond: number }> {
  const starts: { readonly tools: StartUp; readonly twins: StartUp }[] = [];
  for (let round = 0; round < COLD_STARTS; round += 1)
    starts.push({ twins: await startUp('twins'), tools: await startUp('tools') });
  const row = (measure: keyof StartUp) => ({
    measure: measure === 'wall' ? 'by the clock' : 'of the thread on a CPU',
    tools: median(starts.map(({ tools }) => tools[measure])),
    twins: median(starts.map(({ twins }) => twins[measure])),
    beyond: median(starts.map(({ tools, twins }) => tools[measure] - twins[measure])),
  });
  const rows = [row('thread'), row('wall')];
  return {
    beyond: rows[0]?.beyond ?? Number.NaN,
    table: {
      title: `starting an application with ${MANY} tools, cold, in ms`,
      columns: [
        { key: 'measure', title: 'time' },
        { key: 'tools', title: 'with tools', digits: 0 },
        { key: 'twins', title: 'without', digits: 0 },
        { key: 'beyond', title: 'of the tools', digits: 0 },
      ],
      rows,
    },
  };
}

async function startUp(kind: 'tools' | 'twins'): Promise<StartUp> {
  const script = fileURLToPath(new URL('start-up.process.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script, String(MANY), kind]);
  const [wall = Number.NaN, thread = Number.NaN] = stdout.split(' ').map(Number);
  return { wall, thread };
}

async function listAndEncode(): Promise<Table> {
  const rows = [];
  for (const tools of [10, 100, MANY]) rows.push(await listAndEncodeOf(tools));
  return {
    title: 'an unchanged toolset',
    columns: [
      { key: 'tools', title: 'tools', digits: 0 },
      { key: 'list', title: 'list µs', digits: 1 },
      { key: 'first', title: 'encode first µs', digits: 1 },
      { key: 'again', title: 'again µs', digits: 1 },
      { key: 'stringifiesFirst', title: 'stringify first', digits: 0 },
      { key: 'stringifiesAgain', title: 'again', digits: 0 },
      { key: 'charactersFirst', title: 'characters first', digits: 0 },
      { key: 'charactersAgain', title: 'again', digits: 0 },
      { key: 'hashes', title: 'hashes', digits: 0 },
    ],
    rows,
  };
}

const ANSWER = [
  '{"choices":[{"index":0,"delta":{"content":"Done."},"finish_reason":"stop"}]}',
  '[DONE]',
].map((data) => `data: ${data}\n\n`);

async function listAndEncodeOf(tools: number): Promise<Table['rows'][number]> {
  const app = await start(
    new InProcessModel(() => textOf('Done.')),
    freshProviders(tools, 'tools'),
  );
  const specs = await app.loop.list(WHO);
  const model = openai('bench', {
    apiKey: 'none',
    baseURL: 'http://127.0.0.1/v1',
    fetch: () => Promise.resolve(new Response(ANSWER.join(''))),
  });
  const ask = async (known: readonly ToolSpec[]): Promise<void> => {
    const request: ModelRequest = { messages: [{ role: 'user', content: 'Go on.' }], tools: known };
    for await (const event of model.stream(request, new AbortController().signal)) void event;
  };
  // Samples of some 30 ms, whatever the number of tools.
  const [lists, firsts] = [20_000 / tools, Math.max(10, 2000 / tools)];
  let unseen: ToolSpec[][] = [];
  const samples = await compare(
    [
      { name: 'list', units: lists, work: () => repeat(lists, () => app.loop.list(WHO)) },
      { name: 'again', units: 200, work: () => repeat(200, () => ask(specs)) },
      {
        name: 'first',
        units: firsts,
        prepare: () => void (unseen = Array.from({ length: firsts }, () => copied(specs))),
        work: () => repeat(firsts, (index) => ask(unseen[index] ?? [])),
      },
    ],
    { rounds: 7, warmUp: 3 },
  );
  const [first, again] = [await count(() => ask(copied(specs))), await count(() => ask(specs))];
  await app.close();
  return {
    tools,
    list: samples.of('list', 'thread'),
    first: samples.of('first', 'thread'),
    again: samples.of('again', 'thread'),
    ...countsOf(first, again),
  };
}

function copied(specs: readonly ToolSpec[]): ToolSpec[] {
  return specs.map((spec) => ({ ...spec }));
}

function countsOf(first: Counts, again: Counts): Table['rows'][number] {
  return {
    stringifiesFirst: first.stringifies,
    stringifiesAgain: again.stringifies,
    charactersFirst: first.charactersStringified,
    charactersAgain: again.charactersStringified,
    hashes: first.hashes + again.hashes,
  };
}
