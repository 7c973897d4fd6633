import { setTimeout as wait } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { ActorDirectory, LlmTool, ToolLoopModule, ToolProvider } from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { PolicyService } from '@toolloop/core/runs';
import { DurableModule } from '@toolloop/durable';
import { Client } from 'pg';
import { InProcessModel, textOf } from './application.js';
import { inOwnDatabase } from './own-database.js';
import type { Section, Suite, Table, Target } from './report.js';
import { median, repeat } from './sampling.js';

const SERVER = process.env['TOOLLOOP_TEST_POSTGRES'];
const STOPS = 40;
const OPERATOR = { actor: { id: 'root' }, tenant: 'acme' };
const WHY = { reason: 'It goes wrong.' };

/** The time until a stop of one application holds in another one on the same database. */
export const stopsSuite: Suite = {
  name: 'stops',
  async run(): Promise<Section> {
    const method = [
      `Two applications on one PostgreSQL; ${STOPS} times one stops a tool, and the other is asked every millisecond whether it holds there, by the clock.`,
      'Cut off: the connections that hear notifications are ended, and again as soon as they are back, so that only what is polled is left.',
    ];
    const title = 'a stop in another process';
    if (SERVER === undefined) {
      return {
        title,
        method,
        tables: [],
        targets: [],
        skipped: [{ what: 'PostgreSQL', why: 'TOOLLOOP_TEST_POSTGRES is not set' }],
      };
    }
    return { title, method, ...(await inOwnDatabase(SERVER, measure)), skipped: [] };
  },
};

@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Acts.', effect: 'state_change', reveal: 'all' })
  act(): void {}
}

class Staff extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

interface DeskProcess {
  readonly policies: PolicyService;
  readonly engine: DataPolicyEngine;
  readonly close: () => Promise<void>;
}

async function start(url: string): Promise<DeskProcess> {
  class StopsModule {
    readonly name = 'stops bench';
  }
  const model = new InProcessModel(() => textOf('Done.'));
  const policy = { version: 'v1', allow: ['*'], flow: 'off' } as const;
  const imports = [
    ToolLoopModule.forRoot({ model, policy, operators: () => 'all' }),
    DurableModule.forRoot({ url, connections: 4 }),
  ];
  const app = await NestFactory.createApplicationContext(
    { module: StopsModule, imports, providers: [DeskTools, Staff] },
    { logger: false },
  );
  return {
    policies: app.get(PolicyService),
    engine: app.get(DataPolicyEngine),
    close: () => app.close(),
  };
}

async function measure(
  url: string,
): Promise<{ readonly tables: readonly Table[]; readonly targets: readonly Target[] }> {
  const [one, other] = [await start(url), await start(url)];
  try {
    const told = await msOfStops(one, other);
    const polled = await withoutNotifications(url, () => msOfStops(one, other));
    const figures = [
      ['told by a notification', told],
      ['with notifications cut off', polled],
    ] as const;
    const table: Table = {
      title: 'ms until a stop holds in the other process',
      columns: [
        { key: 'what', title: 'what' },
        { key: 'median', title: 'median', digits: 1 },
        { key: 'longest', title: 'longest', digits: 1 },
      ],
      rows: figures.map(([what, ms]) => ({ what, median: median(ms), longest: Math.max(...ms) })),
    };
    const targets = figures.map(([what, ms]) => ({
      what: `a stop ${what}`,
      value: Math.max(...ms),
      unit: 'ms',
      atMost: 1_000,
    }));
    return { tables: [table], targets };
  } finally {
    await Promise.all([one.close(), other.close()]);
  }
}

async function msOfStops(one: DeskProcess, other: DeskProcess): Promise<readonly number[]> {
  const taken: number[] = [];
  await repeat(STOPS, async () => {
    const begun = performance.now();
    const { stopId } = await one.policies.stop({ tool: 'desk__act' }, OPERATOR, WHY);
    await until(() => other.engine.isHeld('acme', 'desk__act'));
    taken.push(performance.now() - begun);
    await one.policies.release(stopId, OPERATOR, WHY);
    await until(() => !other.engine.isHeld('acme', 'desk__act'));
  });
  return taken;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await wait(1);
}

/**
 * Ends the connections that hear notifications while the work lasts, again as soon as they are
 * back.
 */
async function withoutNotifications<Result>(
  url: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const over = new AbortController();
  const cut = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'toolloop listener'`,
      );
      await wait(20);
    }
  };
  const cutting = cut();
  try {
    return await work();
  } finally {
    over.abort();
    await cutting;
    await client.end();
  }
}
