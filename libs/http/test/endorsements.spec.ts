import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ToolLoopClient } from '@toolloop/client';
import type { Approval } from '@toolloop/protocol';
import { ScriptedModel, text } from '@toolloop/testing';
import { openMailDesk, readsMail, sendsMail } from '../../core/test/fixtures/mail-desk.js';
import { ask, closeApps, headersOf, type Served, serveApp } from './served-app.js';

const { tools, sent } = openMailDesk();
let served: Served;

beforeAll(async () => {
  const script = [
    [readsMail, sendsMail('a@acme.example', 'b@acme.example'), text('Done.')],
    [readsMail, sendsMail('c@acme.example'), sendsMail('c@acme.example'), text('Done.')],
    [readsMail, sendsMail('ann@acme.example'), text('Done.')],
    [readsMail, sendsMail('ann@acme.example'), text('Done.')],
  ];
  const endorsements = [
    { tools: ['mail__send'], arguments: ['to'], sources: ['mail__read'], always: true },
  ];
  const policy = { version: 'v1', allow: ['mail__*'], endorsements };
  served = await serveApp({ model: new ScriptedModel(script.flat()), loop: { tools, policy } });
});

afterAll(closeApps);

async function asked(person: string): Promise<Approval & { readonly runId: string }> {
  await (await ask(served, person, { message: 'Go on.' })).text();
  const [first] = await json<readonly Approval[]>(person, '/approvals');
  if (!first) throw new Error('Nothing waits.');
  return first;
}

async function json<Body>(person: string, path: string): Promise<Body> {
  return (await (await fetch(served.url + path, { headers: headersOf(person) })).json()) as Body;
}

function decide(person: string, approvalId: string, body: object): Promise<Response> {
  return ask(served, person, body, `/approvals/${approvalId}`);
}

async function resume(person: string, runId: string): Promise<unknown> {
  return (await ask(served, person, {}, `/runs/${runId}/resume/answer`)).json();
}

describe('approvals over HTTP', () => {
  it('are listed as groups, of each of which one decision is taken', async () => {
    const { runId, approvalId } = await asked('alice');
    const client = new ToolLoopClient({ url: served.url, headers: () => headersOf('alice') });
    const [group] = await client.approvalGroups();
    const response = await fetch(`${served.url}/approvals/groups?limit=1`, {
      headers: headersOf('alice'),
    });
    expect(await response.json()).toMatchObject([
      { group: group?.group, calls: [{ args: { to: 'a@acme.example' } }] },
    ]);
    // the other call of the group is on the next page
    expect(response.headers.get('link')).toContain('rel="next"');
    expect(group?.calls.map(({ args }) => args['to'])).toEqual([
      'a@acme.example',
      'b@acme.example',
    ]);
    const also = (group?.calls ?? [])
      .map((one) => one.approvalId)
      .filter((id) => id !== approvalId);
    expect((await decide('bob', approvalId, { decision: 'approve', also })).status).toBe(404);
    expect(
      (await decide('alice', approvalId, { decision: 'approve', also, amend: { args: {} } }))
        .status,
    ).toBe(400);
    expect(
      await client.decide(approvalId, 'approve', 'They are ours.', undefined, { also }),
    ).toMatchObject({
      answer: { reason: 'They are ours.' },
    });
    expect(await client.approvals()).toEqual([]);
    expect(await resume('alice', runId)).toMatchObject({ finishReason: 'stop' });
    expect(sent).toHaveLength(2);
  });

  it('say that their run has read what others may have written, take what their approver trusts for its rest, and show it', async () => {
    const { runId, approvalId, mayEndorse, isTainted } = await asked('carl');
    expect(isTainted).toBe(true);
    expect(mayEndorse).toEqual({ arguments: ['to'], sources: ['mail__read'], always: ['to'] });
    const wrong = await decide('carl', approvalId, {
      decision: 'approve',
      amend: { endorse: { arguments: ['body'] } },
    });
    expect(wrong.status).toBe(400);
    const endorse = { arguments: ['to'] };
    const taken = await decide('carl', approvalId, { decision: 'approve', amend: { endorse } });
    expect(await taken.json()).toMatchObject({ answer: { decision: 'approve', endorse } });
    expect(await resume('carl', runId)).toMatchObject({ finishReason: 'stop' });
  });

  it('make a version of the policy where an operator trusts a value for good, and nothing where anyone else would', async () => {
    const always = { argument: 'to', reason: 'She is our accountant.' };
    const { runId, approvalId } = await asked('ops');
    expect((await decide('ops', approvalId, { decision: 'deny', always })).status).toBe(400);
    expect((await decide('carl', approvalId, { decision: 'approve', always })).status).toBe(403);
    expect((await decide('bob', approvalId, { decision: 'approve', always })).status).toBe(404);
    expect((await decide('ops', approvalId, { decision: 'approve', always })).status).toBe(200);
    const endorsed = [{ tool: 'mail__send', argument: 'to', value: 'ann@acme.example' }];
    expect(await json('ops', '/policies')).toMatchObject([
      { number: 1, author: 'ops', reason: always.reason, endorsed },
    ]);
    expect(await resume('ops', runId)).toMatchObject({ finishReason: 'stop' });
    await (await ask(served, 'alice', { message: 'Go on.' })).text();
    expect(await json('alice', '/approvals')).toEqual([]);
  });
});
