import { Injectable, Module, type DynamicModule } from '@nestjs/common';
import {
  ActorDirectory,
  LlmTool,
  type Policy,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { StorageUnavailableError } from '@toolloop/protocol';
import { PlannedModel } from './planned.model.js';
import type { Delivery } from './receiver.js';

/** What a worker is told when it is started. */
export interface WorkerOptions {
  readonly durable: DurableOptions;
  readonly receiver: string;
  /** Of a run, at most. */
  readonly steps: number;
}

export interface User {
  readonly id: string;
  readonly tenant: string;
}

/** Only ever verifies what this command wrote itself. */
export const AUDIT_KEY = 'a key for a database that is dropped afterwards';

/** Each tenant has one. */
export const USERS: readonly User[] = [
  { id: 'alice', tenant: 'acme' },
  { id: 'bob', tenant: 'globex' },
];

const POLICY: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['world__order'] }],
};

@Injectable()
class Staff extends ActorDirectory<User> {
  override find(actorId: string, tenant: string): Promise<User | undefined> {
    return Promise.resolve(USERS.find((user) => user.id === actorId && user.tenant === tenant));
  }
}

const PLACE = { description: 'Where' };
const keyOf = (input: unknown): string => (input as { readonly place: string }).place;

/**
 * A statement of a tool that is cancelled is the tool's business: this one says that its storage
 * does not answer for now.
 */
function asUnavailable(error: unknown): never {
  const isCancelled = (error as { readonly code?: unknown }).code === '57014';
  throw isCancelled
    ? new StorageUnavailableError('The booking was cancelled.', { cause: error })
    : error;
}

function worldTools(receiver: string): new (database: Database) => object {
  async function deliver(delivery: Delivery): Promise<string> {
    const response = await fetch(receiver, { method: 'POST', body: JSON.stringify(delivery) });
    if (!response.ok) throw new Error(`The receiver said ${response.status}.`);
    return `${delivery.place} done`;
  }

  @ToolProvider({ namespace: 'world' })
  class WorldTools {
    constructor(private readonly database: Database) {}

    @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' })
    look(@ToolParam('place', PLACE) place: string): string {
      return `${place} seen`;
    }

    @LlmTool({
      description: 'Pays.',
      effect: 'external_side_effect',
      reveal: 'all',
      idempotencyKey: keyOf,
    })
    pay(
      @ToolParam('place', PLACE) place: string,
      @ToolContext() { tenant, idempotencyKey }: ToolCallContext,
    ): Promise<string> {
      return deliver({ place, tenant, key: idempotencyKey });
    }

    @LlmTool({ description: 'Acts.', effect: 'external_side_effect', reveal: 'all' })
    act(
      @ToolParam('place', PLACE) place: string,
      @ToolContext() { tenant }: ToolCallContext,
    ): Promise<string> {
      return deliver({ place, tenant });
    }

    @LlmTool({
      description: 'Orders.',
      effect: 'external_side_effect',
      reveal: 'all',
      idempotencyKey: keyOf,
    })
    order(
      @ToolParam('place', PLACE) place: string,
      @ToolContext() { tenant, idempotencyKey }: ToolCallContext,
    ): Promise<string> {
      return deliver({ place, tenant, key: idempotencyKey });
    }

    @LlmTool({ description: 'Books.', effect: 'state_change', reveal: 'all', idempotent: true })
    book(
      @ToolParam('place', PLACE) place: string,
      @ToolContext() { tenant, transaction }: ToolCallContext,
    ): Promise<string> {
      if (!transaction) throw new Error('There is no transaction.');
      return transaction(async () => {
        await this.database
          .query('insert into bookings (place, tenant) values ($1, $2)', [place, tenant])
          .catch(asUnavailable);
        return `${place} done`;
      });
    }
  }
  return WorldTools;
}

/** The whole application of a worker: nothing in it knows that it will be killed. */
@Module({})
export class WorkerApplication {
  static of({ durable, receiver, steps }: WorkerOptions): DynamicModule {
    return {
      module: WorkerApplication,
      imports: [
        ToolLoopModule.forRoot({
          model: new PlannedModel(),
          policy: POLICY,
          limits: { steps: steps + 2 },
          audit: { key: AUDIT_KEY },
        }),
        DurableModule.forRoot({
          ...durable,
          runs: { heartbeatMs: 250, takeoverMs: 1_500, pauseMs: 100 },
        }),
      ],
      providers: [worldTools(receiver), Staff],
    };
  }
}
