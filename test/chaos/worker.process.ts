import 'reflect-metadata';
import { setTimeout as wait } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  type ApprovalRequest,
  PendingError,
  PendingService,
  type LoopRequest,
  RunElsewhereError,
  ToolLoopService,
} from '@toolloop/core';
import { asStoreAttempt } from '@toolloop/core/internal';
import { RunService } from '@toolloop/core/runs';
import { Database } from '@toolloop/durable';
import { StorageUnavailableError } from '@toolloop/protocol';
import { promptOf, type RunPlan } from './plan.js';
import { USERS, WorkerApplication, type User, type WorkerOptions } from './worker.application.js';

/** What the command asks of a worker. */
export type WorkerAsk =
  | { readonly type: 'start' | 'open'; readonly plan: RunPlan; readonly user: User }
  /** Answers whatever waits for a person. */
  | { readonly type: 'approve' }
  /** How many runs have not ended. */
  | { readonly type: 'open-runs' }
  /** The status of a run and the epoch it has, as `running 1`. */
  | { readonly type: 'standing'; readonly runId: string };

export interface WorkerQuestion {
  readonly id: number;
  readonly ask: WorkerAsk;
}

/**
 * `outcome`: what a run that the worker had opened came to there; `elsewhere` where it was told
 * that the run is not its own any more.
 */
export type WorkerWord =
  | { readonly type: 'ready' }
  | {
      readonly type: 'answer';
      readonly id: number;
      readonly value?: string | number;
      readonly failure?: string;
    }
  | { readonly type: 'outcome'; readonly runId: string; readonly outcome: string };

const say = (word: WorkerWord): void => void process.send?.(word);

/** A run of which the conversation tells in the end what it did, and how often. */
function requestOf({
  plan,
  user,
}: {
  readonly plan: RunPlan;
  readonly user: User;
}): LoopRequest & { actor: User } {
  return { prompt: promptOf(plan), actor: user, tenant: user.tenant, conversationId: plan.name };
}

class Worker {
  constructor(private readonly application: INestApplicationContext) {}

  answer(ask: WorkerAsk): Promise<string | number> {
    switch (ask.type) {
      case 'start':
        return this.application.get(RunService).start(requestOf(ask));
      case 'open':
        return this.open(requestOf(ask));
      case 'approve':
        return this.approve();
      case 'open-runs':
        return this.value(
          `select count(*)::int as value from toolloop.runs where status <> 'ended'`,
        );
      case 'standing':
        return this.value(
          `select status || ' ' || epoch as value from toolloop.runs where run_id = $1`,
          [ask.runId],
        );
    }
  }

  /** Resolves once the run is kept, and says later on where it is somebody else's. */
  private open(request: LoopRequest & { actor: User }): Promise<string> {
    const handle = this.application.get(ToolLoopService).open({ ...request, durable: true });
    return new Promise((resolve, reject) => {
      const tell = (outcome: string): void =>
        say({ type: 'outcome', runId: handle.runId, outcome });
      handle.events$.subscribe(() => resolve(handle.runId));
      handle.result.then(
        ({ finishReason }) => tell(finishReason),
        (error: unknown) => {
          tell(error instanceof RunElsewhereError ? 'elsewhere' : String(error));
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      );
    });
  }

  private async approve(): Promise<number> {
    const approvals = this.application.get(PendingService);
    let answered = 0;
    for (const user of USERS) {
      const approver = { actor: user, tenant: user.tenant };
      for (const waits of await approvals.list(approver)) {
        const reply = { approvalId: waits.approvalId, decision: decisionOn(waits) };
        await approvals.decide(reply, approver).catch(acceptEarlierAnswer);
        answered += 1;
      }
    }
    return answered;
  }

  /**
   * Asks again where its connection is ended under it: a question of the command is not what is
   * tried here.
   */
  private async value(statement: string, values: string[] = []): Promise<string | number> {
    try {
      const [row] = await asStoreAttempt(() =>
        this.application.get(Database).query<{ value: string | number }>(statement, values),
      );
      return row?.value ?? '';
    } catch (error) {
      if (!StorageUnavailableError.in(error)) throw error;
      await wait(50);
      return this.value(statement, values);
    }
  }
}

/**
 * Accepts that a request was answered before: the last statement of a killed approver may commit
 * after the next one has listed what waits.
 */
function acceptEarlierAnswer(error: unknown): void {
  if (!(error instanceof PendingError && error.code === 'already_answered')) throw error;
}

/** Yes to every order; to an act of which nobody knows three times of four. */
function decisionOn({ approvalId, declaredId }: ApprovalRequest): 'approve' | 'deny' {
  return declaredId === 'world__act' && Number.parseInt(approvalId.slice(0, 2), 16) % 4 === 0
    ? 'deny'
    : 'approve';
}

const options = JSON.parse(process.argv[2] ?? '') as WorkerOptions;
process.on('disconnect', () => process.exit(1)); // whoever started it is gone
const application = await NestFactory.createApplicationContext(WorkerApplication.of(options), {
  logger: ['error', 'warn'],
});
const worker = new Worker(application);
process.on('message', ({ id, ask }: WorkerQuestion) => {
  worker.answer(ask).then(
    (value) => say({ type: 'answer', id, value }),
    (error: unknown) => say({ type: 'answer', id, failure: String(error) }),
  );
});
say({ type: 'ready' });
