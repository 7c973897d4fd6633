import { expect, it } from '@jest/globals';
import {
  LanguageModel,
  type ModelEvent,
  type ModelRequest,
  StorageUnavailableError,
} from '@toolloop/protocol';
import { call, calls, text } from '@toolloop/testing';
import {
  Database,
  type DatabaseDriver,
  JobQueue,
  type RunOptions,
  SqlRunLog,
  SqlStores,
} from '@toolloop/durable';
import { DeskProcess, type World } from './fixtures/desk.process.js';
import { alice, dying } from './fixtures/durable-runs.js';

// Each place of death has two processes of its own.
const STEPS = 3;
/** More than a run of three steps with a write in each commits. */
const COMMITS = 10;

/** How a process dies: before a commit, or after one of which it never hears. */
type Death = 'before' | 'after';

/**
 * The way of one process to the database, until it dies; from then on everything it asks hangs, or
 * is refused.
 */
class MortalDriver implements DatabaseDriver {
  isDead = false;
  /** Set once the commit at which it died has taken place, or has not. */
  isGone = false;
  private left = Number.POSITIVE_INFINITY;

  constructor(
    private readonly driver: DatabaseDriver,
    private readonly death: Death,
    private readonly hangs: boolean,
  ) {}

  get connection(): DatabaseDriver['connection'] {
    return this.driver.connection;
  }

  dieAt(commit: number): void {
    this.left = commit;
  }

  query: DatabaseDriver['query'] = (statement, values) => {
    const sql = typeof statement === 'string' ? statement : statement.text;
    const ask = (): ReturnType<typeof this.driver.query<never>> =>
      this.driver.query<never>(statement, values);
    return /\b(?:insert|update|delete)\b/i.test(sql) ? this.passing(ask) : this.living(ask);
  };

  /**
   * The job queue is let alone, as on PGlite: a process that is dead could not end it otherwise,
   * and none of its statements is a place of death.
   */
  ask: DatabaseDriver['ask'] = (statement) => this.driver.ask(statement);
  lend: DatabaseDriver['lend'] = (onLost) => this.living(() => this.driver.lend(onLost));
  listen: DatabaseDriver['listen'] = (channel, heard) =>
    this.living(() => this.driver.listen(channel, heard));
  transaction: DatabaseDriver['transaction'] = (work, over) =>
    this.passing(() => this.driver.transaction(work, over));

  /** The database is another process's as well. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  private living<Result>(ask: () => Promise<Result>): Promise<Result> {
    if (!this.isDead) return ask();
    return this.hangs
      ? new Promise(() => undefined)
      : Promise.reject(new StorageUnavailableError());
  }

  private async passing<Result>(commit: () => Promise<Result>): Promise<Result> {
    if (this.isDead) return this.living(commit);
    this.left -= 1;
    if (this.left >= 0) return commit();
    this.isDead = true;
    try {
      if (this.death === 'after') await commit();
    } finally {
      this.isGone = true;
    }
    return this.living(commit);
  }
}

/** Calls the tool in each step, by what the transcript says: any process continues with it. */
class TranscriptModel extends LanguageModel {
  override readonly provider = 'test';
  override readonly modelId = 'transcript';

  constructor(private readonly tool: string) {
    super();
  }

  // oxlint-disable-next-line typescript/require-await -- it has its answer at once
  override async *stream({ messages }: ModelRequest): AsyncIterable<ModelEvent> {
    const done = messages.filter(({ role }) => role === 'tool').length;
    const turn = done < STEPS ? calls(call(this.tool, { key: `${done}` })) : text('Done.');
    yield* turn.events(() => `call ${done}`);
  }
}

/** Starts a process, and returns what lets go of the database where it is dead. */
async function start(driver: DatabaseDriver, effects: string[], tool: string, options: RunOptions) {
  const database = new Database(driver);
  const jobs = new JobQueue(database);
  const runs = new SqlRunLog(database, jobs);
  const leave = (): Promise<void> => jobs.onApplicationShutdown();
  const kept = { runs, stores: new SqlStores(database, runs), close: leave };
  const world: World = { effects, open: () => Promise.resolve(kept) };
  return { process: await DeskProcess.start(world, new TranscriptModel(tool), { options }), leave };
}

async function untilDead(mortal: MortalDriver): Promise<void> {
  while (!mortal.isGone) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** Shows what becomes of a run if its process dies at any of its commits. */
export function diesAnywhere(open: () => DatabaseDriver): void {
  /**
   * Opens a run in a process that dies at a commit, and has another one continue it for as far as
   * it comes by itself.
   */
  async function livesThrough(tool: string, death: Death, hangs: boolean, at: number) {
    const effects: string[] = [];
    const mortal = new MortalDriver(open(), death, hangs);
    const first = await start(mortal, effects, tool, { ...dying, takeoverMs: 300 });
    mortal.dieAt(at);
    const handle = first.process.loop.open({ ...alice, durable: true });
    void handle.result.catch(() => undefined);
    const ended = handle.result.then(
      () => undefined,
      () => undefined,
    );
    await Promise.race([ended, untilDead(mortal)]);
    const { isDead } = mortal;
    await new Promise((resolve) => setTimeout(resolve, 20)); // what it was doing it does
    const opened = new Database(open());
    const [row] = await opened.query<{ open: number }>(
      `select count(*)::int as open from toolloop.calls where run_id = $1 and outcome is null`,
      [handle.runId],
    );
    const known = await opened.query('select 1 from toolloop.runs where run_id = $1', [
      handle.runId,
    ]);
    const status = known.length > 0 ? await continued(handle.runId, tool, effects) : 'never begun';
    if (isDead) await first.leave();
    else await first.process.close();
    return { isDead, status, effects, wasInCall: row?.open === 1 };
  }

  async function continued(runId: string, tool: string, effects: string[]): Promise<string> {
    const { process: second } = await start(
      new MortalDriver(open(), 'before', false),
      effects,
      tool,
      {
        heartbeatMs: 20,
        takeoverMs: 60_000,
      },
    );
    for (;;) {
      const { status } = await second.runs.get(runId, alice);
      if (status === 'ended' || status === 'waiting') {
        await second.close();
        return status;
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  it.each([
    ['before', false],
    ['before', true],
    ['after', false],
    ['after', true],
  ] as const)(
    'invariant 13: makes each write once, wherever its process dies %s a commit (its storage hangs: %s), and asks about one that was under way alone',
    async (death, hangs) => {
      const seen: string[] = [];
      const ended: number[] = [];
      for (let at = 0; at < COMMITS; at += 1) {
        const { isDead, status, effects, wasInCall } = await livesThrough(
          'desk__act',
          death,
          hangs,
          at,
        );
        const all = Array.from({ length: STEPS }, (_, key) => `acme ${key}`);
        // none twice, none left out
        expect({ at, effects }).toEqual({ at, effects: all.slice(0, effects.length) });
        const expected = status === 'never begun' ? status : wasInCall ? 'waiting' : 'ended';
        expect({ at, status }).toEqual({ at, status: expected });
        if (status === 'ended') ended.push(effects.length);
        seen.push(status);
        if (!isDead) break;
      }
      expect(new Set(ended)).toEqual(new Set([STEPS]));
      expect(ended.length).toBeGreaterThanOrEqual(STEPS);
      expect(seen.filter((status) => status === 'waiting')).toHaveLength(STEPS);
    },
  );

  it.each(['before', 'after'] as const)(
    'invariant 13: makes a call with a key once, wherever its process dies %s a commit, and asks no person about it',
    async (death) => {
      const seen: { readonly at: number; readonly status: string; readonly effects: number }[] = [];
      for (let at = 1; at < COMMITS; at += 1) {
        const { isDead, status, effects } = await livesThrough('desk__keyed', death, false, at);
        seen.push({ at, status, effects: effects.length });
        if (!isDead) break;
      }
      expect(seen.length).toBeGreaterThan(2 * STEPS);
      expect(seen).toEqual(seen.map(({ at }) => ({ at, status: 'ended', effects: STEPS })));
    },
  );
}
