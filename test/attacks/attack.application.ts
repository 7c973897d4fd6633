import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  PendingService,
  type LanguageModel,
  type Limits,
  type LoopResult,
  type Policy,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { planning } from '@toolloop/core/strategies';
import { ObedientModel } from './obedient.model.js';
import type { RawTool } from './pack-tools.js';

/** The tools of one domain. */
export interface AttackedTools {
  readonly name: string;
  readonly tools: readonly RawTool[];
  /** True if the model is offered to plan its changes. @default false */
  readonly plans?: boolean;
}

/** The person who answers when a call asks: one who always says no, or one who always says yes. */
export type Reviewer = 'refuses' | 'approves';

export interface AttackRun {
  readonly prompt: string;
  readonly model: LanguageModel;
  /** What the tools of the run work on. */
  readonly context: Readonly<Record<string, unknown>>;
  /** The id of the actor. @default an employee, who owns no record */
  readonly actor?: string;
  /** @default a tenant of its own: the audit in memory keeps a limited number of entries of each */
  readonly tenant?: string;
  /** @default 'refuses' */
  readonly reviewer?: Reviewer;
}

export interface AttackResult {
  readonly result: LoopResult;
  /** The calls the reviewer said yes to, by their ids. */
  readonly approved: ReadonlySet<string>;
  /** The calls that the audit holds the decision or the denial of, by their ids. */
  readonly audited: ReadonlySet<string>;
}

/** Nothing but the policy may stop a run. */
const NO_LIMITS: Partial<Limits> = {
  steps: 100,
  callsPerTool: 100,
  identicalCalls: 100,
  refusalsInARow: 100,
};

/** Of no value: the audit is read where it is written. */
const AUDIT = { key: 'the audit key of the attack packs' };
const MOST_ENTRIES_OF_A_RUN = 1_000;

/** For whom a run acts unless it says otherwise, who answers its approvals too. */
const ACTOR = 'robin';

/** A Nest application with the tools of one domain under one policy. */
export class AttackApplication {
  private runs = 0;

  private constructor(private readonly app: INestApplicationContext) {}

  /** Throws when an application with these tools does not start, naming their domain. */
  static async start(
    { name, tools, plans = false }: AttackedTools,
    policy: Policy,
  ): Promise<AttackApplication> {
    const model = new ObedientModel({ calls: [] });
    const loop = ToolLoopModule.forRoot({
      model,
      policy,
      tools,
      injection: plans ? [planning()] : [],
      limits: NO_LIMITS,
      audit: AUDIT,
    });
    try {
      return new AttackApplication(
        await NestFactory.createApplicationContext(loop, { logger: false, abortOnError: false }),
      );
    } catch (cause) {
      throw new Error(
        `The tools of ${name} do not start: ${cause instanceof Error ? cause.message : String(cause)}`,
        {
          cause,
        },
      );
    }
  }

  /** Runs a prompt in a world of its own. */
  async run({
    reviewer = 'refuses',
    actor = ACTOR,
    tenant,
    ...asked
  }: AttackRun): Promise<AttackResult> {
    this.runs += 1;
    const user = { actor: { id: actor }, tenant: tenant ?? `tenant-${this.runs}` };
    const run = this.app
      .get(ToolLoopService)
      .open({ ...asked, ...user, approvals: reviewer === 'approves' ? 'wait' : 'deny' });
    const approved = new Set<string>();
    for await (const event of run) {
      if (event.type !== 'approval-request') continue;
      const { approvalId, toolCallId } = event.approval;
      await this.app.get(PendingService).decide({ approvalId, decision: 'approve' }, user);
      approved.add(toolCallId);
    }
    return { result: await run.result, approved, audited: await this.auditedCalls(user.tenant) };
  }

  close(): Promise<void> {
    return this.app.close();
  }

  private async auditedCalls(tenant: string): Promise<ReadonlySet<string>> {
    const entries = await this.app
      .get(AuditStore)
      .read(tenant, { from: 1, limit: MOST_ENTRIES_OF_A_RUN });
    const ofCalls = entries.filter(({ kind }) => kind === 'decision' || kind === 'denied');
    return new Set(ofCalls.flatMap(({ toolCallId }) => toolCallId ?? []));
  }
}
