import { setImmediate } from 'node:timers/promises';
import type { LoopEvent, LoopRequest, ToolInvocationRecord } from '@toolloop/core';
import type { AuditEntry, Pending, RunRecord, ToolLoopStores } from '@toolloop/core/stores';
import { ScriptedModel, type ScriptedTurn } from '@toolloop/testing';
import { alice, Desk, type Kind, mia, type Person, type Reply, type Setup } from './desk.js';
import { KeptStores } from './kept-stores.js';
import type { Situation } from './situations.js';
import { ALL, fill, type FilledStores, type Stored, TENANT } from './stored.js';

const REPLIES: Readonly<Record<Pending['kind'], Reply>> = {
  approval: { person: mia, decision: 'approve' },
  rehearsal: { person: alice, decision: 'approve' },
  question: { person: alice, answer: 'yes' },
  client: { person: alice, result: { signed: true } },
};

/** More answers than any run of a file asks for, one after the other. */
const MOST_ROUNDS = 5;

/** What differs from one process that continues a run to another. */
export interface Circumstances {
  readonly stores?: ToolLoopStores & FilledStores;
  readonly setup?: Setup;
  /** Set for a release in which the tools that change things are others. */
  readonly isChanged?: boolean;
  /** Set for a process that continues no durable run by itself. */
  readonly isIdle?: boolean;
}

/** One process that begins or continues the runs of a situation, and may die in it. */
export class Passage {
  readonly effects: string[] = [];
  readonly events: LoopEvent[] = [];
  readonly model: ScriptedModel;
  private readonly afters = new Map<string, number>();
  private desk!: Desk;
  private times = 0;
  private die: () => void = () => undefined;
  /** Resolves once the process has died. */
  readonly death = new Promise<void>((resolve) => (this.die = resolve));

  private constructor(
    readonly kind: Kind,
    readonly situation: Situation,
    script: readonly ScriptedTurn[],
  ) {
    this.model = new ScriptedModel(
      script.map((turn) => async (request) => {
        await this.reach('model');
        return typeof turn === 'function' ? turn(request) : turn;
      }),
    );
  }

  /** Starts a process in which the runs begin. */
  static async begin(kind: Kind, situation: Situation, stores: KeptStores): Promise<Passage> {
    const passage = new Passage(kind, situation, situation.script);
    stores.made = (place) => passage.reach(place);
    await passage.open({ stores, isIdle: situation.isIdle ?? false });
    return passage;
  }

  /** Starts a process that finds the runs in its stores. */
  static async find(
    kind: Kind,
    { dies: _over, repliesAfter, ...begun }: Situation,
    stored: Stored,
    { stores = new KeptStores(), ...circumstances }: Circumstances = {},
  ): Promise<Passage> {
    const situation = { ...begun, ...(repliesAfter && { replies: repliesAfter }) };
    const passage = new Passage(kind, situation, situation.after);
    await fill(stores, stored);
    if (situation.isDirectiveFirst && stores instanceof KeptStores)
      stores.made = (place) => (place === 'runs.acquire' ? passage.settle() : undefined);
    for (const { record } of stored.runs) passage.afters.set(record.runId, record.lastSequence);
    await passage.open({ stores, ...circumstances });
    return passage;
  }

  get stores(): ToolLoopStores & FilledStores {
    return this.desk.process.stores;
  }

  get application(): Desk {
    return this.desk;
  }

  private async open({
    stores = new KeptStores(),
    setup = this.situation.setup ?? {},
    isChanged = false,
    isIdle = false,
  }: Circumstances): Promise<void> {
    const act = async (effect: string): Promise<void> => {
      this.effects.push(effect);
      await this.reach('effect');
    };
    const world = { act, isChanged };
    this.desk = await Desk.open({ stores, model: this.model, setup, world, isIdle });
  }

  /** Comes to a place at which the process may die: then this never returns. */
  private reach(place: string): Promise<void> {
    const { dies } = this.situation;
    if (dies?.at === place) this.times += 1;
    if (dies?.at !== place || this.times !== (dies.time ?? 1)) return Promise.resolve();
    this.die();
    return new Promise(() => undefined);
  }

  /** Runs the request until it ends, or waits, or the process dies. */
  async run(request: Partial<LoopRequest> = {}): Promise<void> {
    const run = this.desk.begin(this.kind, { ...this.situation.request, ...request });
    await Promise.race([run, this.death]);
  }

  /** Runs a request though another one has met with the death of the process. */
  async runBeside(request: Partial<LoopRequest>): Promise<void> {
    await this.desk.begin(this.kind, { ...this.situation.request, ...request });
  }

  /** Answers everything that is asked. */
  async answerAll(): Promise<void> {
    for (const asked of await this.asked()) await this.answer(asked);
  }

  /** Lists what waits for an answer. */
  async asked(): Promise<readonly Pending[]> {
    return this.stores.pending.list({ ...ALL, pending: true });
  }

  /** Answers one thing, as the person who is to, or as another one. */
  async answer(asked: Pending, person?: Person): Promise<void> {
    const reply = this.situation.replies?.[asked.kind] ?? REPLIES[asked.kind];
    await this.desk.answer(asked, { ...reply, ...(person && { person }) });
  }

  /** Has a run continue for a person, or looks at a durable one as they may. */
  async resumeFor({ runId, request }: RunRecord, person: Person): Promise<void> {
    if (request) await this.desk.runs.get(runId, person);
    else await this.desk.resume(runId, person);
  }

  audit(): Promise<readonly AuditEntry[]> {
    return this.stores.audit.read(TENANT, { from: 1, limit: ALL.limit });
  }

  /** What is stored of runs, and of what they ask. */
  async state(): Promise<unknown> {
    const records = await this.stores.runs.list(ALL);
    const entries = records.map(({ runId }) => this.stores.runs.read(runId));
    const pending = await this.stores.pending.list(ALL);
    return { records, entries: await Promise.all(entries), pending };
  }

  /** Has every run that has not ended continue until it ends, or waits, or the process dies. */
  async goOn(): Promise<void> {
    const runs = await this.unended();
    const read = Promise.all(runs.map((run) => this.read(run)));
    const events = await Promise.race([read, this.death]);
    this.events.push(...(events ?? []).flat());
  }

  private async read({ runId, request, lastSequence }: RunRecord): Promise<readonly LoopEvent[]> {
    if (!request) return this.desk.resume(runId);
    const events = await this.desk.follow(runId, this.afters.get(runId) ?? lastSequence);
    this.afters.set(runId, events.at(-1)?.sequence ?? 0);
    return events;
  }

  private async unended(): Promise<readonly RunRecord[]> {
    const runs = await this.stores.runs.list(ALL);
    return runs.filter(({ status }) => status !== 'ended').toReversed();
  }

  /** The results of calls, those in sub-runs included. */
  get results(): readonly ToolInvocationRecord[] {
    const whole = this.events.map((event) => (event.type === 'sub-run' ? event.event : event));
    return whole.flatMap((event) => (event.type === 'tool-result' ? event.record : []));
  }

  /** Answers and continues until everything has ended. */
  async finish(): Promise<void> {
    for (let round = 0; (await this.unended()).length > 0; round += 1) {
      if (round === MOST_ROUNDS) throw new Error('The run asks again and again.');
      await this.answerAll();
      await this.goOn();
    }
    await this.settle();
  }

  /** Answers and continues once. What is asked then is left open. */
  async finishOnce(): Promise<void> {
    await this.answerAll();
    await this.goOn();
    await this.settle();
  }

  /** Resolves once no directive is under way. */
  settle(): Promise<void> {
    return this.until(async () => {
      const directives = await this.stores.directives.list(ALL);
      return directives.every(({ status }) => status !== 'pending' && status !== 'performing');
    });
  }

  /** Resolves once a run is stored that waits. */
  stand(): Promise<void> {
    return this.until(async () =>
      (await this.stores.runs.list(ALL)).some(({ status }) => status === 'waiting'),
    );
  }

  /** Resolves once so many runs are under way. */
  async queue(runs: number): Promise<void> {
    await this.until(async () => {
      const open = (await this.unended()).filter(({ lastSequence }) => lastSequence > 0);
      return open.length === runs;
    });
  }

  private async until(holds: () => Promise<boolean>): Promise<void> {
    while (!(await holds())) await setImmediate();
  }

  close(): Promise<void> {
    return this.desk.close();
  }
}
