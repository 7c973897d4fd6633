import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { closeDesks, eventsOf, headersOf, serve, type ServedDesk } from './served-desk.js';

let desk: ServedDesk;

beforeAll(async () => {
  desk = await serve({
    model: new ScriptedModel([
      calls(call('catalog__read', { filter: { name: { contains: 'lamp' } } })),
      text('There is one.'),
    ]),
  });
});
afterAll(closeDesks);

async function explained(
  user: string,
  path: string,
): Promise<readonly [status: number, body: Record<string, unknown>]> {
  const response = await fetch(`${desk.url}/explain/${path}`, { headers: headersOf(user) });
  return [response.status, (await response.json()) as Record<string, unknown>];
}

describe('an explanation at the desk', () => {
  it('says to the operator why a user is offered a tool', async () => {
    const [status, body] = await explained('ops', 'catalog__read?actorId=alice');
    expect(status).toBe(200);
    expect(body).toMatchObject({ declaredId: 'catalog__read', isListed: true, isCallable: true });
  });

  it('says what became of a call', async () => {
    const events = await eventsOf(desk, 'alice', 'Is there a lamp?');
    const { runId, toolCallId } = events.find((event) => event.type === 'tool-call') ?? {
      runId: '',
      toolCallId: '',
    };
    const [status, { events: told }] = await explained(
      'ops',
      `catalog__read?runId=${runId}&toolCallId=${toolCallId}`,
    );
    expect(status).toBe(200);
    expect((told as { kind: string }[]).map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  });

  it.each([
    ['alice', 'catalog__read', 403],
    ['ops', 'catalog__read?actorId=bob', 404],
    ['ops', 'catalog__serchProducts', 400],
    ['ops', 'catalog__read?runId=none&toolCallId=none', 404],
  ])('is refused for %s and %s with %i, with a reason', async (user, path, expected) => {
    const [status, { message }] = await explained(user, path);
    expect([status, typeof message]).toEqual([expected, 'string']);
  });
});
