import { setTimeout as wait } from 'node:timers/promises';
import { StorageUnavailableError } from '@toolloop/protocol';
import { Inspection, type Findings } from './inspection.js';
import { openPlace, type Engine, type Place } from './place.js';
import { kindAt, type RunPlan } from './plan.js';
import { between, randomFrom } from './random.js';
import { Receiver } from './receiver.js';
import { USERS, type User } from './worker.application.js';
import { NoAnswerError, Worker } from './worker.js';
import type { WorkerAsk } from './worker.process.js';

export interface ChaosOptions {
  readonly engine: Engine;
  readonly runs: number;
  readonly steps: number;
  readonly seed: number;
  /**
   * Workers are left alone after so many kills, so that a run which does not end then is stuck,
   * however slow the machine is.
   */
  readonly kills: number;
}

/** What happened, and what of it must not have. */
export interface ChaosReport extends Findings {
  readonly engine: Engine;
  readonly kills: number;
  /** Workers that were stopped until another had taken their run over, and then woken up. */
  readonly frozen: number;
  /** Connections to the server that were ended under the workers. */
  readonly cut: number;
  /** Statements of the workers that were to be cancelled while they were at work. */
  readonly cancelled: number;
  /** Statements of the workers that were held up. */
  readonly delayed: number;
  readonly seconds: number;
}

/** Where one worker process follows the other. */
interface Seat {
  worker: Worker | undefined;
  /** Nobody kills it for now. */
  isSpared: boolean;
}

/** No run has ended for as long, and no worker was killed: then none will end. */
const LONGEST_STANDSTILL_MS = 90_000;
const LONGEST_TAKEOVER_MS = 60_000;

/**
 * Has workers go on with runs, and kills them, until every run has ended; then looks at what they
 * left behind.
 */
export async function unleash(options: ChaosOptions): Promise<ChaosReport> {
  const place = await openPlace(options.engine, randomFrom(options.seed + 2));
  const receiver = await Receiver.open(randomFrom(options.seed + 1));
  const chaos = new Chaos(options, place, receiver);
  try {
    return await chaos.run();
  } finally {
    await chaos.stop();
    receiver.close();
    await place.remove();
  }
}

class Chaos {
  private readonly random: () => number;
  private readonly seats: readonly Seat[];
  private readonly problems: string[] = [];
  /** Runs of which somebody said that they are kept. */
  private readonly acknowledged = new Set<string>();
  private kills = 0;
  private frozen = 0;
  private cut = 0;
  private cancelled = 0;
  private names = 0;
  private isOver = false;
  private readonly going: Promise<void>[] = [];

  constructor(
    private readonly options: ChaosOptions,
    private readonly place: Place,
    private readonly receiver: Receiver,
  ) {
    this.random = randomFrom(options.seed);
    const seats = options.engine === 'pglite' ? 1 : 2;
    this.seats = Array.from({ length: seats }, () => ({ worker: undefined, isSpared: false }));
  }

  async run(): Promise<ChaosReport> {
    const before = performance.now();
    this.going.push(
      ...this.seats.map((seat) => this.occupy(seat)),
      this.approve(),
      this.cutConnections(),
      this.cancelStatements(),
    );
    await this.feed();
    if (this.options.engine === 'postgres') await this.freeze();
    await this.untilEnded();
    await this.stop();
    const seconds = (performance.now() - before) / 1000;
    const { engine } = this.options;
    const { violations, ...figures } = await Inspection.of(
      this.place.durable,
      this.receiver,
      this.acknowledged,
    );
    return {
      engine,
      kills: this.kills,
      frozen: this.frozen,
      cut: this.cut,
      cancelled: this.cancelled,
      delayed: this.place.delays(),
      seconds,
      ...figures,
      violations: [...this.problems, ...violations],
    };
  }

  async stop(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.seats.flatMap(({ worker }) => (worker ? [worker.kill()] : [])));
    await Promise.all(this.going);
  }

  /**
   * One worker after the other, each killed after a while: at work, or now and then while it
   * starts.
   */
  private async occupy(seat: Seat): Promise<void> {
    while (!this.isOver) {
      const worker = new Worker(this.workerOptions());
      const isKilledEarly = this.random() < 0.1 && !this.hasKilledEnough;
      if (isKilledEarly) await wait(between(this.random, 0, 2_500));
      else if (!(await this.isReady(worker))) continue;
      seat.worker = worker;
      if (!isKilledEarly) await this.spell(seat, worker);
      if (!this.isOver) this.kills += 1;
      await worker.kill();
    }
  }

  private get hasKilledEnough(): boolean {
    return this.kills >= this.options.kills;
  }

  /** As long as it lives. */
  private async spell(seat: Seat, worker: Worker): Promise<void> {
    const until = performance.now() + between(this.random, 50, 1_500);
    while (
      !this.isOver &&
      !worker.isGone &&
      (seat.isSpared || this.hasKilledEnough || performance.now() < until)
    )
      await wait(20);
    if (worker.isGone && !this.isOver)
      this.problems.push(`A worker ended by itself:\n${worker.output}`);
  }

  private async isReady(worker: Worker): Promise<boolean> {
    try {
      await worker.ready;
      return true;
    } catch (error) {
      // A database that breaks a start off is no fault of the start: it is made again.
      const isOfDatabase = String(error).includes(StorageUnavailableError.name);
      if (!this.isOver && !isOfDatabase)
        this.problems.push(`A worker did not start: ${String(error)}`);
      this.isOver ||= this.problems.length > 10;
      return false;
    }
  }

  /**
   * Starts the runs while workers die; where nobody answers there may be one more or not, and it is
   * held to the same.
   */
  private async feed(): Promise<void> {
    const { runs } = this.options;
    while (this.acknowledged.size < runs && !this.isOver) {
      const type = this.random() < 0.25 ? 'open' : 'start';
      const runId = await this.ask({ type, plan: this.newPlan(type), user: this.someUser() });
      if (typeof runId === 'string') this.acknowledged.add(runId);
    }
  }

  private async approve(): Promise<void> {
    while (!this.isOver) {
      await wait(150);
      await this.ask({ type: 'approve' });
    }
  }

  /** Ends connections under workers that are at work. */
  private async cutConnections(): Promise<void> {
    const { cut } = this.place;
    if (!cut) return;
    while (!this.isOver) {
      await wait(between(this.random, 100, 700));
      this.cut += await cut();
    }
  }

  /**
   * Cancels statements of workers that are at work, for as long as workers are killed: on a slow
   * machine hardly any statement would end otherwise.
   */
  private async cancelStatements(): Promise<void> {
    const { cancel } = this.place;
    if (!cancel) return;
    while (!this.isOver) {
      await wait(between(this.random, 20, 200));
      if (!this.hasKilledEnough) this.cancelled += await cancel();
    }
  }

  private async untilEnded(): Promise<void> {
    let last = { open: Number.POSITIVE_INFINITY, kills: 0, at: performance.now() };
    while (!this.isOver) {
      await wait(200);
      const open = await this.ask({ type: 'open-runs' });
      if (open === 0) return;
      const isFewer = typeof open === 'number' && open < last.open;
      // Between two kills many runs can each take a step and none its last one.
      if (isFewer || this.kills > last.kills)
        last = { open: isFewer ? open : last.open, kills: this.kills, at: performance.now() };
      if (performance.now() - last.at < LONGEST_STANDSTILL_MS) continue;
      this.problems.push(`${last.open} runs do not end.`);
      return;
    }
  }

  /**
   * Stops a worker that is in the middle of a run, until the other one has taken that over; what it
   * says when it wakes up must be refused.
   */
  private async freeze(): Promise<void> {
    const wanted = this.options.runs < 50 ? 1 : 5;
    for (let round = 0; this.frozen < wanted && round < 4 * wanted && !this.isOver; round += 1) {
      for (const seat of this.seats) seat.isSpared = true;
      await this.freezeOne().catch((error: unknown) =>
        this.problems.push(`The frozen worker: ${String(error)}`),
      );
      for (const seat of this.seats) seat.isSpared = false;
      await wait(1_000);
    }
    if (this.frozen < wanted && !this.isOver)
      this.problems.push(
        `Only ${this.frozen} of ${wanted} workers were frozen in the middle of a run.`,
      );
  }

  private async freezeOne(): Promise<void> {
    const [frozen, other] = await Promise.all(this.seats.map((seat) => this.livingIn(seat)));
    if (!frozen || !other) throw new Error('there are no two workers');
    const runId = String(
      await frozen.ask({ type: 'open', plan: this.undisturbedPlan(), user: this.someUser() }),
    );
    this.acknowledged.add(runId);
    await wait(this.random() * 400);
    frozen.freeze();
    try {
      await wait(300); // what it had sent the database before is done by then
      const isAtWork = (await other.ask({ type: 'standing', runId })) === 'running 1';
      if (!isAtWork) return; // it had ended, or waits: there is nothing to be taken over
      await within(
        LONGEST_TAKEOVER_MS,
        'no process took its run over',
        async () => !String(await other.ask({ type: 'standing', runId })).endsWith(' 1'),
      );
    } finally {
      frozen.revive();
    }
    await within(LONGEST_TAKEOVER_MS, 'it is told nothing of its run', () =>
      Promise.resolve(frozen.outcomes.has(runId)),
    );
    const outcome = frozen.outcomes.get(runId);
    if (outcome !== 'elsewhere')
      this.problems.push(`${runId}: a process that had lost it says: ${outcome}`);
    this.frozen += 1;
  }

  /** A worker that is well, and will be for the whole of the round. */
  private async livingIn(seat: Seat): Promise<Worker | undefined> {
    for (;;) {
      const { worker } = seat;
      if (this.isOver) return undefined;
      const answer = await worker?.ask({ type: 'open-runs' }).catch(() => undefined);
      if (answer !== undefined && seat.worker === worker && !worker?.isGone) return worker;
      await wait(50);
    }
  }

  /** Undefined where nobody answers. */
  private async ask(ask: WorkerAsk): Promise<string | number | undefined> {
    const living = this.seats.flatMap(({ worker }) => (worker && !worker.isGone ? [worker] : []));
    const worker = living[between(this.random, 0, Math.max(0, living.length - 1))];
    try {
      if (worker) return await worker.ask(ask);
    } catch (error) {
      if (!(error instanceof NoAnswerError)) this.problems.push(`${ask.type}: ${String(error)}`);
    }
    await wait(100);
    return undefined;
  }

  private newPlan(kind: string): RunPlan {
    const { steps, seed } = this.options;
    this.names += 1;
    return { name: `${kind}-${this.names}`, steps, seed };
  }

  /** One that does not wait for anybody soon. */
  private undisturbedPlan(): RunPlan {
    for (;;) {
      const plan = this.newPlan('open');
      const isDisturbed = Array.from({ length: Math.min(10, plan.steps) }, (_, step) =>
        kindAt(plan, step),
      ).includes('order');
      if (!isDisturbed) return plan;
    }
  }

  private someUser(): User {
    const user = USERS[between(this.random, 0, USERS.length - 1)];
    if (!user) throw new Error('There are no users.');
    return user;
  }

  private workerOptions(): ConstructorParameters<typeof Worker>[0] {
    return {
      durable: this.place.forWorkers,
      receiver: this.receiver.url,
      steps: this.options.steps,
    };
  }
}

async function within(ms: number, problem: string, isTrue: () => Promise<boolean>): Promise<void> {
  const until = performance.now() + ms;
  while (!(await isTrue())) {
    if (performance.now() > until) throw new Error(problem);
    await wait(50);
  }
}
