import { type DynamicModule, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  type LoopEvent,
  type LoopProfile,
  type LoopRequest,
  PendingService,
  type Policy,
  RunError,
  type RunHandle,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  toolLoopToken,
} from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { type ApprovalAmendment, type Pending, ToolLoopStores } from '@toolloop/core/stores';
import { RUN_OPTIONS, RunEngine } from '@toolloop/durable';
import { collect, type ScriptedModel } from '@toolloop/testing';
import { lastValueFrom, takeWhile, toArray } from 'rxjs';
import type { FilledStores } from './stored.js';
import { orderTools, toolsOf, type World } from './tools.js';

/** A person with the roles that the application gives them. */
export interface Person {
  readonly actor: { readonly id: string; readonly roles?: readonly string[] };
  readonly tenant: string;
}

export const alice: Person = { actor: { id: 'alice' }, tenant: 'acme' };
export const mia: Person = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
/** Of the tenant, and neither the actor nor a manager. */
export const carl: Person = { actor: { id: 'carl' }, tenant: 'acme' };
/** A manager of another tenant. */
export const bob: Person = { actor: { id: 'bob', roles: ['manager'] }, tenant: 'globex' };

/** The answer of a person. */
export interface Reply {
  readonly person: Person;
  readonly decision?: 'approve' | 'deny';
  readonly answer?: unknown;
  readonly result?: unknown;
  readonly amendment?: ApprovalAmendment;
}

/** Under which the audit of the files is signed. */
export const AUDIT_KEY = 'k'.repeat(32);
const LOOP = 'desk';

/** `kept`: the run is stored while it waits, for its actor. `durable`: each of its steps is. */
export type Kind = 'kept' | 'durable';

/** What differs from situation to situation in the application. */
export interface Setup {
  readonly policy?: Policy;
  readonly loop?: LoopProfile;
  readonly quotas?: ToolLoopOptions['quotas'];
}

/** One process of the application. */
export interface Process {
  readonly stores: ToolLoopStores & FilledStores;
  readonly model: ScriptedModel;
  readonly setup: Setup;
  readonly world: World;
  /** Set for a process that continues no durable run by itself. */
  readonly isIdle?: boolean;
}

/** The policy of a situation that names none. */
export const OPEN: Policy = { version: 'open', allow: ['*'], flow: 'off' };
const CONTINUING = { heartbeatMs: 20, takeoverMs: 60_000, drainMs: 300 };
const IDLE = { ...CONTINUING, heartbeatMs: 1e9, concurrency: 0 };

class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(id: string): Promise<{ readonly id: string }> {
    return Promise.resolve({ id });
  }
}

@Module({})
class RunsModule {}

function runsIn({ stores, isIdle }: Process): DynamicModule {
  return {
    module: RunsModule,
    global: true,
    providers: [
      { provide: ToolLoopStores, useValue: stores },
      { provide: RUN_OPTIONS, useValue: isIdle ? IDLE : CONTINUING },
      RunEngine,
    ],
    exports: [ToolLoopStores],
  };
}

/** The application that wrote the files, and that continues them: the same tools on any stores. */
export class Desk {
  private constructor(
    private readonly module: TestingModule,
    readonly process: Process,
  ) {}

  static async open(process: Process): Promise<Desk> {
    const { world, model, setup } = process;
    const { policy = OPEN, loop = {}, quotas } = setup;
    const { entity, providers } = orderTools(world);
    const module = await Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({
          model,
          policy,
          tools: toolsOf(world),
          audit: { key: AUDIT_KEY },
          directives: { immediateEffects: 'allow' },
          ...(quotas && { quotas }),
        }),
        ToolLoopModule.forFeature({ entities: [entity], loops: { [LOOP]: loop } }),
        runsIn(process),
      ],
      providers: [...providers, Staff],
    }).compile();
    module.useLogger(false);
    await module.init();
    return new Desk(module, process);
  }

  get runs(): RunService {
    return this.module.get(RunService);
  }

  get inbox(): PendingService {
    return this.module.get(PendingService);
  }

  private get loop(): ToolLoopService {
    return this.module.get<ToolLoopService>(toolLoopToken(LOOP));
  }

  /** Begins a run; the promise is of its events. */
  begin(kind: Kind, request: Partial<LoopRequest> = {}): Promise<readonly LoopEvent[]> {
    const durable = kind === 'durable' && { durable: true };
    return read(this.loop.open({ prompt: 'Go on.', ...alice, ...durable, ...request }));
  }

  /** Continues a run that its actor has to resume. */
  async resume(runId: string, person = alice): Promise<readonly LoopEvent[]> {
    return read(await this.loop.resume(runId, person));
  }

  /** The events of a durable run behind a sequence, until it ends or waits. */
  follow(runId: string, after: number): Promise<readonly LoopEvent[]> {
    const events$ = this.runs.events(runId, alice, after);
    return lastValueFrom(
      events$.pipe(
        takeWhile(({ type }) => type !== 'run-end', true),
        toArray(),
      ),
    );
  }

  /** Answers one thing that waits; with an amendment a call that is changed. */
  async answer(asked: Pending, { person, amendment, ...reply }: Reply): Promise<void> {
    if (amendment) {
      const decision = { approvalId: asked.id, decision: 'approve' } as const;
      await this.inbox.decide(decision, person, amendment);
    } else await this.inbox.answer({ ...naming(asked), ...reply }, person);
  }

  close(): Promise<void> {
    return this.module.close();
  }
}

async function read(handle: RunHandle): Promise<readonly LoopEvent[]> {
  const events = collect(handle.events$);
  await handle.result.catch((error: unknown) => {
    if (!(error instanceof RunError)) throw error;
  });
  return events;
}

/** The members of a reply that say what it answers. */
function naming({ kind, id, binding }: Pending): object {
  if (kind === 'approval') return { approvalId: id };
  if (kind === 'rehearsal') return { rehearsalId: id };
  return kind === 'question'
    ? { questionId: id }
    : { toolCallId: binding.toolCallId, pendingId: id };
}
