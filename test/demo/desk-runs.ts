import { expect } from '@jest/globals';
import type { LanguageModel, LoopEvent } from '@toolloop/core';
import type { RunView } from '@toolloop/core/runs';
import { call, calls, ScriptedModel, type ScriptedTurn } from '@toolloop/testing';
import { ask, eventsIn, headersOf, type ServedDesk } from './served-desk.js';

export const REFUND = calls(call('refunds__refundOrder', { orderId: 'o-1021' }));
export const model = (...turns: readonly ScriptedTurn[]): LanguageModel => new ScriptedModel(turns);

export async function sent<Body = { code?: string }>(
  desk: ServedDesk,
  user: string,
  path: string,
  body?: unknown,
): Promise<[number, Body]> {
  const response =
    body === undefined
      ? await fetch(desk.url + path, { headers: headersOf(user) })
      : await ask(desk, user, body, path);
  return [response.status, (await response.json()) as Body];
}

export async function started(
  desk: ServedDesk,
  user = 'alice',
  message = 'Refund o-1021',
): Promise<string> {
  const [status, run] = await sent<RunView>(desk, user, '/runs', { message });
  expect(status).toBe(202);
  return run.runId;
}

export async function until(
  desk: ServedDesk,
  runId: string,
  status: string,
  user = 'alice',
): Promise<RunView> {
  for (let looks = 0; looks < 600; looks += 1) {
    const [, run] = await sent<RunView>(desk, user, `/runs/${runId}`);
    if (run.status === status) return run;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`The run ${runId} is not ${status}.`);
}

export async function eventsOf(
  desk: ServedDesk,
  runId: string,
  query = '',
  headers: Record<string, string> = {},
): Promise<LoopEvent[]> {
  const response = await fetch(`${desk.url}/runs/${runId}/events${query}`, {
    headers: { ...headersOf('alice'), ...headers },
  });
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/event-stream',
  ]);
  return eventsIn(await response.text());
}

export async function approve(desk: ServedDesk, runId: string): Promise<number> {
  const [, open] = await sent<{ approvalId: string; runId: string }[]>(desk, 'mia', '/approvals');
  const asked = open.find((one) => one.runId === runId);
  return (await sent(desk, 'mia', `/approvals/${asked?.approvalId}`, { decision: 'approve' }))[0];
}

/**
 * What others of the tenant, other tenants and made-up ids are told of a run that waits, by any of
 * its routes.
 */
export async function toldToOthers(
  desk: ServedDesk,
): Promise<{ readonly statuses: readonly number[]; readonly lists: readonly unknown[] }> {
  const runId = await started(desk);
  await until(desk, runId, 'waiting');
  const tried = [
    ...['bob', 'mia'].map((user) => [user, runId]),
    ...['made-up', '%00', '__proto__', '%2e%2e%2f', `${runId}%00`, 'x'.repeat(2000)].map((id) => [
      'alice',
      id,
    ]),
  ];
  const statuses: number[] = [];
  for (const [user = '', id = ''] of tried) {
    const asked = await Promise.all([
      sent(desk, user, `/runs/${id}`),
      sent(desk, user, `/runs/${id}/events`),
      sent(desk, user, `/runs/${id}/cancel`, {}),
      sent(desk, user, `/runs/${id}/fork`, { step: 0 }),
      sent(desk, user, `/runs/${id}/resume`, {}),
      sent(desk, user, `/runs/${id}/resume/answer`, {}),
    ]);
    statuses.push(...asked.map(([status]) => status));
  }
  const lists = [await sent(desk, 'bob', '/runs'), await sent(desk, 'bob', `/runs?after=${runId}`)];
  expect((await until(desk, runId, 'waiting')).lastSequence).toBeGreaterThan(0);
  return { statuses, lists };
}

/** There is no such run for each of them: eight that ask six routes, and two that list. */
export const NOTHING = { statuses: Array.from({ length: 48 }, () => 404), lists: [[200, []], [200, []]] }; // prettier-ignore
