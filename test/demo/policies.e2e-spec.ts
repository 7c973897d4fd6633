import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ScriptedModel } from '@toolloop/testing';
import { PolicyService } from '@toolloop/core/runs';
import { ask, closeDesks, headersOf, serve, type ServedDesk } from './served-desk.js';

let desk: ServedDesk;

beforeEach(async () => {
  desk = await serve({ model: new ScriptedModel([]) });
});
afterAll(closeDesks);

type Body = Record<string, unknown>;

async function got(user: string, path: string): Promise<readonly [number, unknown]> {
  const response = await fetch(desk.url + path, { headers: headersOf(user) });
  return [response.status, await response.json()];
}

async function sent(user: string, path: string, body: unknown): Promise<readonly [number, Body]> {
  const response = await ask(desk, user, body, path);
  const text = await response.text();
  return [response.status, text === '' ? {} : (JSON.parse(text) as Body)];
}

const LAMPS = { filter: { name: { contains: 'lamp' } } };
const search = (user: string) => sent(user, '/tools/catalog__read', { args: LAMPS });
const POLICY = { version: 'acme-1', allow: ['*'], deny: ['catalog__read'] };

describe('the policies of a tenant over HTTP', () => {
  it('are put, compared and put back by its operator, each change in force at once and for this tenant alone', async () => {
    expect(await search('alice')).toMatchObject([200, { record: { status: 'succeeded' } }]);
    expect(
      await sent('ops', '/policies', { policy: POLICY, expected: 0, reason: 'Ticket 4711.' }),
    ).toMatchObject([201, { number: 1, author: 'ops' }]);
    expect(await search('alice')).toMatchObject([200, { record: { status: 'denied' } }]);
    expect(await search('bob')).toMatchObject([200, { record: { status: 'succeeded' } }]);
    expect(await got('ops', '/policies?limit=5')).toMatchObject([
      200,
      [{ number: 1, reason: 'Ticket 4711.' }],
    ]);
    expect(await got('ops', '/policies/1')).toMatchObject([200, { policies: [POLICY] }]);
    expect(await got('ops', '/policies/diff?from=0&to=1')).toMatchObject([
      200,
      expect.arrayContaining([{ at: '/deny', after: ['catalog__read'] }]),
    ]);
    expect(
      await sent('ops', '/policies/0/rollback', { expected: 1, reason: 'Too much.' }),
    ).toMatchObject([201, { number: 2, rollbackOf: 0 }]);
    expect(await search('alice')).toMatchObject([200, { record: { status: 'succeeded' } }]);
  });

  it('are refused with every mistake that is in them, and where another change came first', async () => {
    const wrong = { version: 'acme-1', allow: ['*'], deny: ['catalog__raed'] };
    const [status, { code, message }] = await sent('ops', '/policies', {
      policy: wrong,
      expected: 0,
      reason: 'A slip.',
    });
    expect([status, code]).toEqual([400, 'invalid_policy']);
    expect(message).toContain('catalog__read');
    await sent('ops', '/policies', { policy: POLICY, expected: 0, reason: 'The first.' });
    expect(
      await sent('ops', '/policies', { policy: POLICY, expected: 0, reason: 'The second.' }),
    ).toMatchObject([409, { code: 'conflict' }]);
    expect(await got('ops', '/policies/7')).toMatchObject([404, { code: 'not_found' }]);
  });

  it.each([
    ['provenance', "Name 'values' in its place."],
    ['effect', 'to `requireApproval`.'],
  ])(
    'are refused with a remedy where they name the level %s, which is gone',
    async (flow, says) => {
      const change = { policy: { ...POLICY, flow }, expected: 0, reason: 'As before.' };
      const [status, { code, message }] = await sent('ops', '/policies', change);
      expect([status, code]).toEqual([400, 'invalid_policy']);
      expect(message).toContain(says);
      expect(await got('ops', '/policies')).toEqual([200, []]);
    },
  );

  it.each([
    ['alice', { policy: POLICY, expected: 0, reason: 'Mine.' }, 403],
    ['bob', { policy: POLICY, expected: 0, reason: 'Mine.' }, 403],
    ['ops', { policy: POLICY, expected: 0, reason: 'Theirs.', tenant: 'globex' }, 400],
    ['ops', { policy: POLICY, expected: 0, reason: 'All.', everywhere: true }, 400],
    ['ops', { expected: 0, reason: 'None.' }, 400],
    ['ops', { policy: POLICY, expected: 'x', reason: 'When?' }, 400],
    ['ops', { policy: 7, expected: 0, reason: 'A number.' }, 400],
  ])('are not changed by %s with %j', async (user, body, expected) => {
    const [status, { message }] = await sent(user, '/policies', body);
    expect([status, typeof message]).toEqual([expected, 'string']);
    expect(await got('ops', '/policies')).toEqual([200, []]);
  });
});

describe('a replay over HTTP', () => {
  it('tells the operator which calls of a run of the tenant a policy would have denied', async () => {
    const asked = await ask(
      desk,
      'alice',
      { args: { orderId: 'o-1021' } },
      '/tools/orders__sendReceipt',
    );
    const { runId } = (await asked.json()) as { readonly runId: string };
    const replay = { policy: { ...POLICY, deny: ['orders__sendReceipt'] }, runs: [runId] };
    const denied = {
      declaredId: 'orders__sendReceipt',
      before: { kind: 'require_approval' },
      after: { kind: 'deny' },
    };
    expect(await sent('ops', '/policies/replay', replay)).toMatchObject([
      200,
      { runs: [{ runId, decided: 1, changed: [denied] }] },
    ]);
    expect(await sent('ops', '/policies/replay', { version: 0, runs: [runId] })).toMatchObject([
      200,
      { runs: [{ decided: 1, changed: [] }] },
    ]);
    expect(await sent('mia', '/policies/replay', replay)).toMatchObject([
      403,
      { code: 'not_permitted' },
    ]);
    expect(await sent('ops', '/policies/replay', { ...replay, runs: runId })).toMatchObject([
      400,
      {},
    ]);
    expect(await sent('ops', '/policies/replay', { version: 9, runs: [] })).toMatchObject([
      404,
      { code: 'not_found' },
    ]);
  });
});

describe('a kill switch over HTTP', () => {
  it('stops a tool of the tenant until it is released', async () => {
    const [status, { stopId }] = await sent('ops', '/policies/stops', {
      tool: 'catalog__read',
      reason: 'It shows old prices.',
    });
    expect(status).toBe(201);
    expect(await search('alice')).toMatchObject([200, { record: { status: 'denied' } }]);
    expect(await search('bob')).toMatchObject([200, { record: { status: 'succeeded' } }]);
    expect(await got('ops', '/policies/stops')).toMatchObject([
      200,
      [{ stopId, tool: 'catalog__read', author: 'ops' }],
    ]);
    const release = `/policies/stops/${String(stopId)}/release`;
    expect(await sent('mia', release, { reason: 'Please.' })).toMatchObject([
      403,
      { code: 'not_permitted' },
    ]);
    expect(await sent('ops', release, { reason: 'Mended.' })).toEqual([204, {}]);
    expect(await sent('ops', release, { reason: 'Again.' })).toMatchObject([
      404,
      { code: 'not_found' },
    ]);
    expect(await search('alice')).toMatchObject([200, { record: { status: 'succeeded' } }]);
  });

  it('is refused for a tool that does not exist', async () => {
    expect(
      await sent('ops', '/policies/stops', { tool: 'catalog__nothing', reason: 'A slip.' }),
    ).toMatchObject([400, { code: 'invalid' }]);
  });
});

describe('the readiness of the desk', () => {
  it('is 503 while it is unknown which policy is in force', async () => {
    const policies: PolicyService = desk.app.get(PolicyService);
    Object.defineProperty(policies, 'isReady', { value: false });
    expect(await got('alice', '/health/ready')).toEqual([
      503,
      { status: 'unavailable', database: 'up' },
    ]);
  });
});

describe('a tool that a person calls by hand', () => {
  it('waits for an approval with a 202, and its run continues for the same person alone', async () => {
    const response = await ask(
      desk,
      'alice',
      { args: { orderId: 'o-1021' } },
      '/tools/orders__sendReceipt',
    );
    const { runId, waiting } = (await response.json()) as {
      readonly runId: string;
      readonly waiting: unknown;
    };
    expect([response.status, response.headers.get('location'), waiting]).toEqual([
      202,
      `../runs/${runId}`,
      { runId, for: 'approval' },
    ]);
    const [, list] = await got('mia', '/approvals');
    const [{ approvalId }] = list as [{ readonly approvalId: string }];
    expect(await sent('alice', `/approvals/${approvalId}`, { decision: 'approve' })).toMatchObject([
      403,
      {},
    ]);
    expect(await sent('mia', `/approvals/${approvalId}`, { decision: 'approve' })).toMatchObject([
      200,
      {},
    ]);
    expect(await sent('bob', `/runs/${runId}/resume`, {})).toMatchObject([
      404,
      { code: 'unknown_run' },
    ]);
    const resumed = await ask(desk, 'alice', {}, `/runs/${runId}/resume`);
    expect([resumed.status, await resumed.text()]).toEqual([
      200,
      expect.stringContaining('"status":"succeeded"'),
    ]);
  });

  it('performs a change once, however often the request is sent under its key', async () => {
    const [, { record }] = await search('mia');
    const [{ id }] = (record as { readonly result: { readonly rows: [{ readonly id: string }] } })
      .result.rows;
    const setPrice = async (amount: string, key: string) => {
      const body = JSON.stringify({ args: { id, input: { price: amount } } });
      const headers = { ...headersOf('mia'), 'idempotency-key': key };
      const response = await fetch(`${desk.url}/tools/catalog__update`, {
        method: 'POST',
        headers,
        body,
      });
      return (await response.json()) as Body;
    };
    expect(await setPrice('11.11', 'first')).toMatchObject({ record: { status: 'succeeded' } });
    expect(await setPrice('22.22', 'second')).toMatchObject({ record: { status: 'succeeded' } });
    expect(await setPrice('11.11', 'first')).toMatchObject({ record: { status: 'succeeded' } });
    expect(JSON.stringify(await search('mia'))).toContain('22.22');
  });

  it('takes no tenant, no actor and no tool of another from its body', async () => {
    expect(
      await sent('alice', '/tools/catalog__read', { args: LAMPS, tenant: 'globex' }),
    ).toMatchObject([400, {}]);
    expect(await sent('alice', '/tools/catalog__read', { args: [] })).toMatchObject([400, {}]);
    expect(
      await sent('alice', '/tools/catalog__read', { args: { ...LAMPS, tenantId: 'globex' } }),
    ).toMatchObject([200, { record: { status: 'denied', error: { code: 'tenant_override' } } }]);
    expect(await sent('alice', '/tools/catalog__update', { args: {} })).toMatchObject([
      200,
      {
        record: {
          error: {
            code: 'policy_denied',
            safeMessage: expect.stringContaining('No tool is named'),
          },
        },
      },
    ]);
  });
});
