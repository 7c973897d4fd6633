import type { INestApplicationContext } from '@nestjs/common';
import {
  type LoopEvent,
  type LoopRequest,
  type LoopResult,
  PendingService,
  ToolLoopService,
} from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import type { LoopEventOf } from '@toolloop/protocol';
import { collect } from './expectations.js';
import { ExpectationError } from './testing.error.js';

/** The request of one of two tenants. */
export interface TenantCase<Actor = unknown> extends LoopRequest<unknown, Actor> {
  readonly actor: Actor;
  readonly tenant: string;
  /**
   * Texts that only this tenant's data has, such as a name of each of its customers. The run must
   * show each of them.
   */
  readonly marks: readonly [string, ...string[]];
}

/** The run of one of two tenants. */
export interface TenantRun {
  readonly events: readonly LoopEvent[];
  readonly result: LoopResult;
}

/**
 * Runs what two tenants ask at the same time over one application, and asserts that neither sees
 * anything of the other: no event, no message to the model and no result has a mark of the other's,
 * and neither can read the other's run or answer what it asks. Each must see its own marks, so that
 * a run in which nothing happened proves nothing.
 *
 * Use a model that overlapping runs can share, such as a `ScriptedModel` with `perRun`.
 *
 * @throws {ExpectationError} With the mark and the event in which it was seen.
 *
 * @example
 * await runTwoTenants(app, [
 *   { prompt: 'Who are my customers?', actor: { id: 'ann' }, tenant: 'acme', marks: ['Ada'] },
 *   { prompt: 'Who are my customers?', actor: { id: 'ann' }, tenant: 'globex', marks: ['Grace'] },
 * ]);
 */
export async function runTwoTenants(
  app: INestApplicationContext,
  cases: readonly [TenantCase, TenantCase],
): Promise<[TenantRun, TenantRun]> {
  const [one, other] = cases;
  if (one.tenant === other.tenant)
    throw new ExpectationError(
      `Both cases are of the tenant ${one.tenant}. Give the second one another tenant.`,
    );
  const [first, second] = await Promise.all([ranBy(app, one), ranBy(app, other)]);
  expectSeen(one, first);
  expectSeen(other, second);
  expectUnseen(one, first, other);
  expectUnseen(other, second, one);
  await Promise.all([expectShut(app, one, second), expectShut(app, other, first)]);
  return [first, second];
}

async function ranBy(
  app: INestApplicationContext,
  { marks: _marks, ...request }: TenantCase,
): Promise<TenantRun> {
  const handle = app.get(ToolLoopService, { strict: false }).open(request);
  const events = await collect(handle.events$);
  return { events, result: await handle.result };
}

/** A request repeats what its tenant said, so what is looked at is what came back. */
function expectSeen({ tenant, marks }: TenantCase, { events, result }: TenantRun): void {
  const all = `${JSON.stringify(events)}${JSON.stringify(result.messages)}`;
  const missing = marks.filter((mark) => !all.includes(jsonOf(mark)));
  if (missing.length > 0)
    throw new ExpectationError(
      `The run of ${tenant} showed nothing of ${missing.map((mark) => JSON.stringify(mark)).join(', ')}, so the other's cannot be told from it. It ended with ${result.finishReason}.`,
    );
}

function expectUnseen(
  { tenant }: TenantCase,
  { events, result }: TenantRun,
  { tenant: owner, marks }: TenantCase,
): void {
  for (const mark of marks) {
    const event = events.find((one) => JSON.stringify(one).includes(jsonOf(mark)));
    if (event)
      throw new ExpectationError(
        `${tenant} saw ${JSON.stringify(mark)} of ${owner}, in event ${event.sequence} (${event.type}) of its run.`,
      );
    const index = result.messages.findIndex((one) => JSON.stringify(one).includes(jsonOf(mark)));
    if (index !== -1)
      throw new ExpectationError(
        `The model of ${tenant} read ${JSON.stringify(mark)} of ${owner}, in messages[${index}].`,
      );
  }
}

/** The text as it stands within JSON. */
function jsonOf(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

async function expectShut(
  app: INestApplicationContext,
  { actor, tenant }: TenantCase,
  { events, result }: TenantRun,
): Promise<void> {
  const person = { actor, tenant };
  const runs = app.get(RunService, { strict: false });
  const attempts = [
    { what: `read the run ${result.runId}`, make: () => runs.get(result.runId, person) },
    ...asksOf(events).map((approvalId) => ({
      what: `answer the approval ${approvalId}`,
      make: () =>
        app.get(PendingService, { strict: false }).answer({ approvalId, decision: 'deny' }, person),
    })),
  ];
  for (const { what, make } of attempts) {
    const isOpen = await make().then(
      () => true,
      () => false,
    );
    if (isOpen) throw new ExpectationError(`${tenant} could ${what} of the other tenant.`);
  }
}

function asksOf(events: readonly LoopEvent[]): readonly string[] {
  const asks = events.filter(
    (event): event is LoopEventOf<'approval-request'> => event.type === 'approval-request',
  );
  return asks.map(({ approval }) => approval.approvalId);
}
