import { beforeAll, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import {
  PendingService,
  type LoopRequest,
  type LoopResult,
  RunElsewhereError,
  type RunHandle,
  type ToolInvocationRecord,
  ToolLoopService,
} from '@toolloop/core';
import { type RunEntry, RunOpener } from '@toolloop/core/internal';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import * as fc from 'fast-check';
import { cases } from '../../../../test/cases.js';
import { expectSound, resultOf } from '../fixtures/played-run.js';
import {
  LedgerTools,
  answeredRun,
  type AnsweredRun,
  type Ledger,
} from '../fixtures/random-answers.js';
import { ask, openModule } from '../fixtures/shop.module.js';
import { KeptJournal } from '../plugins/sub-runs/kept-journal.js';

const RUNS = { numRuns: cases(100) };
let module: TestingModule;
let tenants = 0;

/** One run of its own tenant. */
class Desk {
  readonly ledger: Ledger = { version: 0, log: [] };
  readonly who = { actor: { id: 'alice' }, tenant: `tenant ${(tenants += 1)}` };
  private readonly approvals = module.get(PendingService);
  private readonly loop: ToolLoopService = module.get(ToolLoopService);

  private readonly model: ScriptedModel;

  constructor(private readonly run: Pick<AnsweredRun, 'script' | 'rules'>) {
    this.model = new ScriptedModel(run.script);
  }

  request(approvals: LoopRequest['approvals']): LoopRequest {
    return ask({
      ...this.who,
      ...this.run.rules,
      approvals,
      model: this.model,
      context: { ledger: this.ledger },
    });
  }

  /** Every question is answered as it comes. */
  async waited(): Promise<LoopResult> {
    const handle = this.loop.open(this.request('wait'));
    const events = [];
    for await (const event of handle) {
      events.push(event);
      if (event.type === 'approval-request')
        await this.decide(event.approval.approvalId, event.approval.args);
    }
    const result = await resultOf(handle);
    expectSound({ events, result });
    return result;
  }

  /**
   * Some questions are answered, and the run is resumed, until it has ended; `look` sees where it
   * stands each time.
   */
  async suspended(
    picks: readonly number[],
    look: (result: LoopResult) => void = () => undefined,
  ): Promise<LoopResult> {
    const request = this.request('suspend');
    const { prompt: _prompt, ...resumed } = request;
    let result = await resultOf(this.loop.open(request));
    for (let round = 0; result.finishReason === 'waiting'; round += 1) {
      look(result);
      const open = await this.approvals.list(this.who);
      if (open.length === 0) throw new Error('The run waits, and nobody is asked.');
      const pick = picks[round % picks.length] ?? 0;
      const answered = pick % 2 === 0 ? open : open.slice(pick % open.length).slice(0, 1);
      for (const { approvalId, args } of answered) await this.decide(approvalId, args);
      result = await resultOf(
        await this.loop.resume(result.runId, { ...resumed, messages: [] } as never),
      );
    }
    return result;
  }

  private async decide(approvalId: string, args: unknown): Promise<void> {
    const isYes = JSON.stringify(args).includes(' yes ');
    await this.approvals.decide({ approvalId, decision: isYes ? 'approve' : 'deny' }, this.who);
  }
}

beforeAll(async () => {
  module = await openModule(new ScriptedModel([]), {
    policy: { version: 'v0', allow: ['*'], flow: 'off' },
    providers: [LedgerTools],
  });
});

/**
 * Everything of a run's end but what differs between any two runs, or is not known of a call that
 * another process made.
 */
function told({ finishReason, text: said, steps, messages, toolCalls }: LoopResult): object {
  const records = toolCalls.map(
    ({ startedAt: _s, endedAt: _e, durationMs: _d, resultBytes: _b, error, ...rest }) => ({
      ...rest,
      ...(error && { error: { ...error, correlationId: undefined } }),
    }),
  );
  return {
    finishReason,
    said,
    steps,
    messages: JSON.stringify(messages, null, 1).replaceAll(/Reference [0-9a-f-]+/g, ''),
    records,
  };
}

/** The calls that were made, in their order; that of neighbouring reads is nobody's concern. */
function made({ log }: Ledger, { toolCalls }: LoopResult): readonly string[] {
  const isRead = (id: string) =>
    toolCalls.some(({ toolCallId, effect }) => toolCallId === id && effect === 'read_only');
  const stages: string[][] = [];
  for (const id of begun(log)) {
    const last = stages.at(-1);
    if (last && isRead(id) && isRead(last[0] ?? '')) last.push(id);
    else stages.push([id]);
  }
  return stages.flatMap((stage) => stage.toSorted());
}

const begun = (log: readonly string[]) =>
  log.filter((entry) => entry.startsWith('+')).map((entry) => entry.slice(1));
const isWrite = ({ effect }: ToolInvocationRecord) =>
  effect !== undefined && effect !== 'read_only';

/** Pairs of calls, of which one is a write, that overlapped or overtook each other. */
function overtaken(
  { log }: Ledger,
  { toolCalls }: LoopResult,
): readonly (readonly [string, string])[] {
  const at = (sign: string, { toolCallId }: ToolInvocationRecord) =>
    log.indexOf(`${sign}${toolCallId}`);
  const performed = toolCalls.filter((record) => at('+', record) >= 0);
  const pairs = performed.flatMap((earlier, number) =>
    performed.slice(number + 1).map((later) => [earlier, later] as const),
  );
  return pairs
    .filter(
      ([earlier, later]) =>
        (isWrite(earlier) || isWrite(later)) && at('+', later) < at('-', earlier),
    )
    .map(([earlier, later]) => [earlier.toolCallId, later.toolCallId]);
}

/** What has its word before anybody is asked: a limit, and a halt. */
const REFUSED_AT_ONCE = new Set<string | undefined>([
  'budget_exceeded',
  'aborted',
  'invalid_args',
  'invalid_json',
  'tenant_override',
  'unknown_tool',
]);

const isHeld = ({ status, error }: ToolInvocationRecord) =>
  status === 'waiting' || REFUSED_AT_ONCE.has(error?.code);

/**
 * Calls that were made or refused although a call before them waits: those behind a write that
 * waits, and from the first write on those behind a read.
 */
function notHeld({ log }: Ledger, { toolCalls }: LoopResult): readonly string[] {
  const waits = toolCalls.findIndex(({ status }) => status === 'waiting');
  const barrier = toolCalls.findIndex((record, index) => index >= waits && isWrite(record));
  const behind =
    waits < 0 || barrier < 0 ? [] : toolCalls.slice(barrier > waits ? barrier : waits + 1);
  return behind
    .filter((record) => !isHeld(record) || begun(log).includes(record.toolCallId))
    .map(({ toolCallId }) => toolCallId);
}

describe('the order of the calls of an answer', () => {
  it('is the same in a run that was suspended as in one that waited, and so is everything they come to', async () => {
    await fc.assert(
      fc.asyncProperty(answeredRun, async (run) => {
        const [one, other] = [new Desk(run), new Desk(run)];
        const [waited, suspended] = [await one.waited(), await other.suspended(run.picks)];
        expect(told(suspended)).toEqual(told(waited));
        expect(made(other.ledger, suspended)).toEqual(made(one.ledger, waited));
      }),
      RUNS,
    );
  });

  it('is that of the model where it can be seen, at every moment', async () => {
    await fc.assert(
      fc.asyncProperty(answeredRun, async (run) => {
        const [one, other] = [new Desk(run), new Desk(run)];
        expect(overtaken(one.ledger, await one.waited())).toEqual([]);
        const suspended = await other.suspended(run.picks, (result) =>
          expect(notHeld(other.ledger, result)).toEqual([]),
        );
        expect(overtaken(other.ledger, suspended)).toEqual([]);
      }),
      RUNS,
    );
  });
});

/** Goes on with a run that is written down. */
function opened(desk: Desk, journal: KeptJournal): RunHandle {
  const runs: RunOpener = module.get(RunOpener);
  const entries: readonly RunEntry[] = [...journal.entries];
  const { tenant } = desk.who;
  return runs.openDurable(desk.request('deny'), {
    runId: `run of ${tenant}`,
    loop: undefined,
    journal,
    ...(entries.length > 0 && { entries }),
  });
}

/** A run whose process dies within one of its effects, and that another goes on with. */
async function takenOver(
  run: AnsweredRun,
  diesAt: number,
): Promise<{ readonly desk: Desk; readonly result: LoopResult }> {
  const desk = new Desk(run);
  const journal = new KeptJournal();
  let effects = 0;
  desk.ledger.during = () => void ((effects += 1) === diesAt && (journal.isOurs = false));
  const first = await opened(desk, journal).result.catch((error: unknown) => error);
  if (!(first instanceof RunElsewhereError)) return { desk, result: first as LoopResult };
  journal.isOurs = true;
  return { desk, result: await resultOf(opened(desk, new KeptJournal(journal.entries))) };
}

describe('the order of the calls of a run that is taken over', () => {
  it('is that of one whose process lived: what was read before a write is not read again behind it', async () => {
    const read = call('ledger__read', { key: 'ok free yes a' });
    const write = call('ledger__write', { key: 'ok free yes a' });
    const { desk, result } = await takenOver(
      { script: [calls(read, read, write, read), text('Done.')], rules: {}, picks: [] },
      1,
    );
    expect(result.toolCalls.map((record) => record.result)).toEqual(
      [0, 0, 1, 1].map((version) => `ok free yes a at ${version}`),
    );
    expect(begun(desk.ledger.log)).toHaveLength(4);
  });

  it('is that of one whose process lived, whatever the answers and whenever it dies', async () => {
    await fc.assert(
      fc.asyncProperty(answeredRun, fc.integer({ min: 1, max: 6 }), async (run, diesAt) => {
        const undisturbed = new Desk(run);
        const whole = await resultOf(opened(undisturbed, new KeptJournal()));
        const { desk, result } = await takenOver(run, diesAt);
        expect(told(result)).toEqual(told(whole));
        expect(made(desk.ledger, result)).toEqual(made(undisturbed.ledger, whole));
      }),
      RUNS,
    );
  });
});
