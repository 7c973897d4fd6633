import { NestFactory } from '@nestjs/core';
import { type RawTool, tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import {
  type RunBeginning,
  type ToolInjection,
  ToolInjectionStrategy,
  toolSearch,
  type WithheldTools,
} from '@toolloop/core/strategies';
import { InProcessModel, WHO, callOf, textOf } from './application.js';
import type { Section, Suite, Table } from './report.js';
import { compare, repeat } from './sampling.js';

const MANY = 10_000;
const QUERIES = [
  'refund an order of a customer',
  'find invoices by date and currency',
  'archive',
  'Which warehouse has the parcels that were shipped to a supplier in the region last week?',
  'zebra',
];

/** The cost of finding tools in a large catalog. */
export const searchSuite: Suite = {
  name: 'search',
  async run(): Promise<Section> {
    const rows = [];
    for (const tools of [100, 1000, MANY]) rows.push(await rowOf(tools));
    const last = rows.at(-1);
    return {
      title: 'searching the catalog',
      method: [
        'Raw tools with three parameters each, words from a vocabulary of some 100. A query is the mean of five, from one word to fifteen, half of whose postings are long;',
        'the same for an actor who may have half of the tools. The index is made by the first query. Heap after full collections, with the index less without it.',
        'Listing: what a run with a search takes to be prepared. A run: prepared, one search, eight tools injected, a last word. Time of this thread on a CPU, medians.',
      ],
      tables: [table(rows)],
      targets: [
        {
          what: `a query over ${MANY} tools`,
          value: (last?.query ?? Number.NaN) / 1000,
          unit: 'ms',
          atMost: 5,
        },
        {
          what: `a query over ${MANY} tools, half of them permitted`,
          value: (last?.half ?? Number.NaN) / 1000,
          unit: 'ms',
          atMost: 5,
        },
      ],
      skipped: globalThis.gc ? [] : [{ what: 'heap', why: 'needs node --expose-gc' }],
    };
  },
};

interface Row extends Readonly<Record<string, number>> {
  readonly query: number;
  readonly half: number;
}

function table(rows: readonly Row[]): Table {
  return {
    title: 'tool search',
    columns: [
      { key: 'tools', title: 'tools', digits: 0 },
      { key: 'index', title: 'index ms', digits: 0 },
      { key: 'heap', title: 'heap KB', digits: 0 },
      { key: 'query', title: 'query µs', digits: 0 },
      { key: 'half', title: 'half permitted µs', digits: 0 },
      { key: 'list', title: 'list µs', digits: 0 },
      { key: 'run', title: 'run µs', digits: 0 },
    ],
    rows,
  };
}

/** Hands over what it keeps back, which is all a search looks at. */
class Keeper extends ToolInjectionStrategy {
  override readonly name = 'keeper';
  override readonly withheld = ['*'];
  pool: WithheldTools | undefined;

  override begin({ withheld }: RunBeginning): ToolInjection {
    this.pool = withheld;
    return {};
  }

  override evaluate(): ToolInjection {
    return {};
  }
}

async function rowOf(tools: number): Promise<Row> {
  const model = new InProcessModel((step) =>
    step === 1 ? callOf('tools__search', { query: QUERIES[0] }, 'first') : textOf('Done.'),
  );
  const policy = {
    allow: ['*'],
    tenants: { half: { deny: ['*0__*', '*2__*', '*4__*', '*6__*', '*8__*'] } },
  };
  class BenchModule {
    readonly name = 'search';
  }
  const imports = [ToolLoopModule.forRoot({ model, policy, tools: catalogOf(tools) })];
  const app = await NestFactory.createApplicationContext(
    { module: BenchModule, imports },
    { logger: false },
  );
  const loop = app.get(ToolLoopService);
  const [all, half] = [poolOf(loop, WHO.tenant), poolOf(loop, 'half')];
  const built = indexed(all);
  const search = toolSearch();
  const times = (20 * MANY) / tools; // samples of some 30 ms, whatever the number of tools
  const lists = (10 * MANY) / tools;
  const samples = await compare(
    [
      { name: 'query', units: times * QUERIES.length, work: () => repeat(times, () => ask(all)) },
      { name: 'half', units: times * QUERIES.length, work: () => repeat(times, () => ask(half)) },
      {
        name: 'list',
        units: lists,
        work: () =>
          repeat(lists, () => loop.open({ prompt: 'Go on.', ...WHO, injection: [search] }).runId),
      },
      {
        name: 'run',
        units: 10,
        work: () => repeat(10, () => loop.run({ prompt: 'Go on.', ...WHO, injection: [search] })),
      },
    ],
    { rounds: 9, warmUp: 5 },
  );
  await app.close();
  const [query, permitted, list, run] = ['query', 'half', 'list', 'run'].map((name) =>
    samples.of(name, 'thread'),
  );
  return {
    tools,
    ...built,
    query: query ?? Number.NaN,
    half: permitted ?? Number.NaN,
    list: list ?? Number.NaN,
    run: run ?? Number.NaN,
  };
}

function poolOf(loop: ToolLoopService, tenant: string): WithheldTools {
  const keeper = new Keeper();
  loop.open({ prompt: 'Go on.', ...WHO, tenant, injection: [keeper] });
  if (!keeper.pool) throw new Error('The run was prepared without its strategy.');
  return keeper.pool;
}

function ask(pool: WithheldTools): void {
  for (const query of QUERIES) pool.search(query, 8);
}

/** The first query makes the index. */
function indexed(pool: WithheldTools): { readonly index: number; readonly heap: number } {
  globalThis.gc?.();
  const heapBefore = process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
  const before = performance.now();
  pool.search('order', 8);
  const index = performance.now() - before;
  globalThis.gc?.();
  return {
    index,
    heap: (process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers - heapBefore) / 1024,
  };
}

const VERBS =
  'find create update archive refund ship cancel approve export count assign merge split print schedule'.split(
    ' ',
  );
const NOUNS =
  'order customer invoice parcel warehouse supplier product price contract ticket payment account report region currency employee'.split(
    ' ',
  );
const EXTRAS =
  'date amount status reason country category weight owner channel priority language discount'.split(
    ' ',
  );

function catalogOf(count: number): RawTool[] {
  return Array.from({ length: count }, (_, index) => {
    const [verb, noun] = [at(VERBS, index), at(NOUNS, Math.floor(index / VERBS.length))];
    const [one, other] = [at(EXTRAS, index * 7), at(EXTRAS, index * 5 + 3)];
    return tool({
      id: `${noun}${index % 100}__${verb}By${one[0]?.toUpperCase() ?? ''}${one.slice(1)}_${index}`,
      description: `Lets somebody ${verb} one ${noun} or several of them by ${one} and ${other}, within the limits of the department.`,
      effect: 'read_only',
      reveal: 'all',
      input: {
        type: 'object',
        properties: {
          [`${noun}Id`]: { type: 'string', description: `Which ${noun} it is about` },
          [one]: { type: 'string', description: `The ${one} to look for` },
          [other]: { type: 'string', description: `The ${other}, if any` },
        },
        additionalProperties: false,
      },
      execute: () => index,
    });
  });
}

function at(words: readonly string[], index: number): string {
  return words[index % words.length] ?? '';
}
